"""``evaluate --map``: a network's classes under a data set's names, and what is counted then."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from clockseg.cli import evaluate as command
from clockseg.cli.main import main
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.datasets.classes import Classes, read_class_map
from clockseg.errors import DataError

NETWORK = ("road", "car", "bus", "sky")
DATA = Classes(("sky", "vehicle", "road"), ignore=255)


def written(folder: Path, text: str, name: str = "map.txt") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def of(renames: dict[str, str], network: tuple[str, ...] = NETWORK) -> list[str]:
    """The data set's class for each class of the network."""
    table = replace(DATA, renames=renames).lookup(network)
    return [DATA.names[id] for id in table[: len(network)]]


def test_lines_with_comments(tmp_path: Path) -> None:
    lines = written(tmp_path, "# ours = theirs\n\ncar = vehicle\n bus=vehicle  # long ones too\n")
    assert read_class_map(lines) == {"car": "vehicle", "bus": "vehicle"}


def test_names_that_both_have_need_no_line_and_a_star_takes_the_rest() -> None:
    assert of({"car": "vehicle", "bus": "vehicle"}) == ["road", "vehicle", "vehicle", "sky"]
    assert of({"*": "vehicle"})[1:3] == ["vehicle", "vehicle"]
    assert of({"road": "sky", "*": "vehicle"})[0] == "sky"


def test_a_class_that_nothing_is_said_of_is_listed() -> None:
    with pytest.raises(DataError, match="does not map the network's bus; the data set has sky, vehicle, road"):
        of({"car": "vehicle"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bas = vehicle\ncar = vehicle", "has no class 'bas'. Did you mean bus?"),
        ("bus = vehicel\ncar = vehicle", "has no class 'vehicel'. Did you mean vehicle?"),
    ],
)
def test_names_that_nobody_has(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError) as raised:
        replace(DATA, renames=read_class_map(written(tmp_path, text))).lookup(NETWORK)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("car vehicle", "'car vehicle' is not NAME = NAME"),
        ("car =", "'car =' is not NAME = NAME"),
        ("car = road\ncar = sky", "'car' is mapped twice"),
        ('{"car": 3}', "is not NAME = NAME"),
    ],
)
def test_files_that_are_no_map(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError) as raised:
        read_class_map(written(tmp_path, text))
    assert said in str(raised.value)


def test_the_lookup_is_by_name_and_many_to_one() -> None:
    table = replace(DATA, renames={"car": "vehicle", "bus": "vehicle"}).lookup(NETWORK)
    assert table[:5].tolist() == [2, 1, 1, 0, 255]


def test_classes_of_a_data_set_that_a_network_may_lack_stay_the_others() -> None:
    animals = Classes(("background", "bird", "cat"), others=0, renames={"kitten": "cat", "lion": "cat"})
    assert animals.lookup(("sofa", "kitten", "lion"))[:3].tolist() == [0, 2, 2]


# A network that gives the red channel as ids of NETWORK, and a picture of two rows: what it gives, and what is true.

GIVEN = np.array([[0, 1, 2, 3], [0, 1, 2, 0]], np.uint8)
TRUE = np.array([[2, 1, 1, 0], [0, 2, 1, 255]], np.uint8)  # of DATA
#                  right, right, right, right; road for sky, vehicle for road, right, not counted


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    clip = tmp_path / "data" / "clip"
    for folder in ("images", "labels"):
        (clip / folder).mkdir(parents=True)
    picture = np.zeros((2, 4, 3), np.uint8)
    picture[..., 2] = GIVEN
    for index in range(2):
        cv2.imwrite(str(clip / "images" / f"{index}.png"), picture)
        cv2.imwrite(str(clip / "labels" / f"{index}.png"), TRUE)
    classes = {"classes": list(DATA.names), "ignore": 255}
    (clip.parent / "classes.json").write_text(json.dumps(classes))
    said = SimpleNamespace(classes=NETWORK, schedule="frame_oracle")
    net = StagedNetwork("red", (Stage("only", lambda image: image[..., 0], scores=None),), sidecar=said)
    monkeypatch.setattr(command, "load_network", lambda args: net)
    return clip.parent


def test_the_confusion_is_of_the_data_sets_classes(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = written(tmp_path, "car = vehicle\nbus = vehicle")
    assert main(["evaluate", str(data), "--map", str(file), "--json"]) == 0
    [scores] = json.loads(capsys.readouterr().out)["schedules"]
    # Of each frame: sky 1 right, 1 missed; vehicle 3 right, 1 too many; road 1 right, 1 missed, 1 too many.
    assert scores["iu"] == {"sky": 1 / 2, "vehicle": 3 / 4, "road": 1 / 3}
    assert scores["pixel_acc"] == 5 / 7
    assert scores["agreement"]["pixel_acc"] == 1


def test_a_class_that_nothing_becomes_scores_0_and_is_told(data: Path, tmp_path: Path, capsys) -> None:
    file = written(tmp_path, "car = vehicle\nbus = vehicle\nsky = road")
    assert main(["evaluate", str(data), "--map", str(file), "--json"]) == 0
    out, err = capsys.readouterr()
    [scores] = json.loads(out)["schedules"]
    assert scores["iu"]["sky"] == 0
    assert scores["iu"]["road"] == 1 / 4  # of each frame 1 right, 1 missed, 2 too many
    assert "no class of the network is mapped to sky: they score 0 where they occur" in err


def test_without_a_map_the_error_tells_of_it(data: Path, capsys) -> None:
    assert main(["evaluate", str(data)]) == 1
    assert "--map FILE" in capsys.readouterr().err


def test_a_map_that_leaves_a_class_out_ends_before_anything_is_run(data: Path, tmp_path: Path, capsys) -> None:
    assert main(["evaluate", str(data), "--map", str(written(tmp_path, "car = vehicle"))]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "does not map the network's bus" in err


def test_frames_without_classes_have_nothing_to_map_to(data: Path, tmp_path: Path, capsys) -> None:
    file = written(tmp_path, "* = vehicle")
    assert main(["evaluate", str(data / "clip" / "images"), "--map", str(file)]) == 2
    assert "nothing to map to" in capsys.readouterr().err
