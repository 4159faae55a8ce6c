"""The networks that come with clockseg, as users load them: no torch."""

from __future__ import annotations

import tomllib
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from clockseg import NetworkError, UsageError, frame_oracle, load
from clockseg.datasets import read_data
from clockseg.evaluation.evaluate import evaluate
from clockseg.networks import BUNDLED
from clockseg.networks.load import path_of
from video_making import data_folder

ROOT = Path(__file__).resolve().parents[1]
TRUNCATED = ("street-stride8", "street-stride16")


def truncation(name: str) -> Path:
    """The file of a network that is kept in the repository for comparisons."""
    return Path(__file__).resolve().parents[1] / "recipes" / "street" / "weights" / f"{name}.onnx"


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("scene", ["stride8", "stride16", "context"]),
        ("scene-int8", ["stride8", "stride16", "context"]),
        ("street", ["stride8", "stride16", "context"]),
        ("street-large", ["stride8", "stride16", "context"]),
        ("street-int8", ["stride8", "stride16", "context"]),
        ("street-large-int8", ["stride8", "stride16", "context"]),
    ],
)
def test_each_gives_labels_at_the_frames_size_and_scores_of_every_stage(name, stages) -> None:
    net = load(name, size=160)
    image = np.random.default_rng(0).integers(0, 256, (90, 150, 3)).astype(np.uint8)
    labels = net(image)
    assert (labels.shape, labels.dtype) == ((90, 150), np.uint8)
    assert [stage.name for stage in net.stages] == stages
    trunk = net.prepare(image)
    for stage in net.stages:
        trunk = stage.body(trunk)
        assert stage.scores(stage.head(trunk)).shape[:2] == (1, len(net.sidecar.classes))
    # Which scale a sum is rounded in depends on what an engine fuses: 8-bit networks are the same within that.
    assert np.mean(labels == net.uncut()(image)) >= (0.97 if name.endswith("int8") else 1)


def test_truncations_have_the_classes_and_the_input_of_the_whole_network() -> None:
    whole, *others = (load(name, engine=None).sidecar for name in ("street", *map(truncation, TRUNCATED)))
    for said in others:
        assert (said.classes, said.palette, said.ignore, said.input) == (
            whole.classes, whole.palette, whole.ignore, whole.input)  # fmt: skip


def test_the_networks_fit_into_a_wheel_of_25_megabytes() -> None:
    left_out = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    files = [path_of(name) for name in BUNDLED]
    inside = [file for file in files if str(file.relative_to(ROOT)) not in left_out["exclude"]]
    assert len(inside) == len(files) - 1
    assert sum(len(zlib.compress(file.read_bytes())) for file in inside) < 24.3e6


def test_a_network_that_is_not_in_the_wheel_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("clockseg.networks.load.WEIGHTS", tmp_path)
    with pytest.raises(
        NetworkError, match=r"street-large is too large for the wheel; give the path of .*street-large-int8"
    ):
        path_of("street-large")


def test_scene_knows_everyday_classes_in_colours_of_their_own() -> None:
    said = load("scene", engine=None).sidecar
    assert len(said.classes) == len(set(said.palette)) == 32
    assert {"person", "car", "tree", "floor", "sky"} <= set(said.classes)
    assert 0.3 < said.confidence < 1


BLINDNESS = {
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
"""Linear RGB as it is seen without one kind of cone (Machado et al., 2009)."""


@pytest.mark.parametrize("kind", BLINDNESS)
def test_the_eight_most_frequent_classes_of_scene_differ_for_the_colour_blind(kind: str) -> None:
    colours = np.array(load("scene", engine=None).sidecar.palette[1:9]) / 255
    seen = np.clip(colours**2.2 @ np.array(BLINDNESS[kind]).T, 0, 1) ** (1 / 2.2)
    lab = cv2.cvtColor(seen[None].astype(np.float32), cv2.COLOR_RGB2Lab)[0]
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=2)
    assert apart[~np.eye(8, dtype=bool)].min() > 14


def test_other_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"or a file NAME.* Did you mean .*street-int8"):
        load("street-int9")


@pytest.mark.slow
def test_deeper_is_better_on_a_real_clip() -> None:
    path = data_folder() / "camvid" / "val"
    if not path.is_dir():
        pytest.skip("needs the shared data folder (CLOCKSEG_DATA)")
    baselines = [(name, load(truncation(name))) for name in TRUNCATED]
    found = evaluate(load("street"), {"street": frame_oracle}, read_data(path, every=20), baselines=baselines)
    scores = {one.schedule: one.scores.mean_iu for one in found}
    assert 0.3 < scores["street-stride8"] < scores["street-stride16"] < scores["street"]
