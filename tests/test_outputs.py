"""The session of a user's own loop: names, text, the recommended schedule, and outputs that know their classes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

import clockseg
import networks
from clockseg import Depth, Labels, NetworkError, Session, UsageError, load
from clockseg.graph.sidecar import read, write
from video_making import picture


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return networks.write_tiny(tmp_path)


def recommending(file: Path, schedule: str) -> Path:
    from dataclasses import replace

    sidecar = file.with_suffix(".json")
    write(replace(read(sidecar), schedule=schedule), sidecar)
    return file


def test_a_file_is_loaded_and_its_recommended_schedule_taken(file: Path) -> None:
    session = Session(recommending(file, "carried(skip_frame(3), interpolate(flow))"))
    images = [np.roll(picture(48, 32), 2 * t, axis=1) for t in range(4)]
    for image in images:
        session(image)
    assert session.tally.fires[-1] == 1
    # Outputs come at once, so the frames in between are moved, not made from both sides.
    assert str(session.schedule.carry) == "warp(flow)"
    assert Session(load(file)).schedule == session.schedule


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (None, "gave no frame"),
        ("frame.png", "is str"),
        (np.zeros((32, 48, 3)), r"is float64 \[32, 48, 3\]"),
        (np.zeros((32, 48), np.uint8), r"is uint8 \[32, 48\]"),
        (np.zeros((32, 48, 4), np.uint8), r"is uint8 \[32, 48, 4\]"),
        (np.zeros((0, 48, 3), np.uint8), r"is uint8 \[0, 48, 3\]"),
    ],
    ids=["none", "path", "float", "grey", "four-channels", "empty"],
)
@pytest.mark.parametrize("bgr", [False, True])
def test_what_is_no_image_is_refused(file: Path, image: object, told: str, bgr: bool) -> None:
    with pytest.raises(UsageError, match=told):
        Session(file, "frame_oracle", bgr=bgr)(image)


def test_a_schedule_may_be_text(file: Path) -> None:
    assert Session(str(file), "skip_frame(4)").schedule == Session(load(file), clockseg.skip_frame(4)).schedule
    with pytest.raises(UsageError, match="Did you mean"):
        Session(file, "skip_fram(4)")


def test_a_wrong_recommendation_is_the_networks_fault(file: Path) -> None:
    net = load(file)
    bad = SimpleNamespace(classes=net.classes, schedule="skip_fram(4)", palette=())
    from dataclasses import replace

    with pytest.raises(NetworkError, match="sidecar of 'tiny' recommends"):
        Session(replace(net, sidecar=bad))


def test_labels_are_arrays_that_know_their_classes(file: Path, tmp_path: Path) -> None:
    net, image = load(file), picture(48, 32)
    labels = Session(net, "frame_oracle")(image)
    assert isinstance(labels, Labels)
    assert np.array_equal(labels, net(image))
    assert labels.classes == net.classes
    assert labels[4:8].classes == net.classes
    assert type(labels == 1) is type(labels + 1) is np.ndarray
    drawn = labels.draw(image)
    assert drawn.shape == image.shape
    assert not np.array_equal(drawn, image)
    sent = pickle.loads(pickle.dumps(labels))
    assert sent.classes == net.classes
    assert np.array_equal(sent.draw(image), drawn)
    labels.save(tmp_path / "a.png")
    assert np.array_equal(cv2.imread(str(tmp_path / "a.png"), cv2.IMREAD_UNCHANGED), labels)
    with pytest.raises(UsageError, match=r"ends in \.png"):
        labels.save(tmp_path / "a.npy")


def test_bgr_images_give_the_same_labels_and_are_drawn_in_their_own_order(file: Path) -> None:
    net, image = load(file), picture(48, 32)
    flipped = np.ascontiguousarray(image[..., ::-1])
    rgb, bgr = Session(net, "frame_oracle")(image), Session(net, "frame_oracle", bgr=True)(flipped)
    assert np.array_equal(rgb, bgr)
    assert np.array_equal(rgb.draw(image)[..., ::-1], bgr.draw(flipped))


def test_numbers_are_depth(tmp_path: Path) -> None:
    import onnx

    from clockseg.networks.cutting import cut_network
    from clockseg.networks.settling import Cutting
    from clockseg.networks.source import Said

    onnx.save(networks.unet(), tmp_path / "model.onnx")
    said = Said(size=(96, 64), mean=(0.5,) * 3, std=(0.2,) * 3, classes=(), output="scores")
    cutting = Cutting(at="enc1,enc2,enc3", measured=False)
    cut_network(tmp_path / "model.onnx", tmp_path / "net.onnx", said=said, cutting=cutting, engine="openvino", repeat=1)
    image = picture(96, 64)
    depth = Session(tmp_path / "net.onnx", "frame_oracle")(image)
    assert isinstance(depth, Depth)
    assert depth.draw(image).shape == image.shape
    depth.save(tmp_path / "d.npy")
    assert np.array_equal(np.load(tmp_path / "d.npy"), depth)


USER = """
import cv2
import clockseg

session = clockseg.Session("street", bgr=True)
ok, image = cv2.VideoCapture("drive.mp4").read()
reveal_type(session(image))
reveal_type(session(image).draw(image))
reveal_type(clockseg.load("street"))
session(image).nothing
"""


@pytest.mark.slow
def test_a_user_sees_real_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="needs mypy")
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "user.py"]
    environment = {"MYPYPATH": str(Path(clockseg.__file__).parents[1]), "PATH": ""}
    told = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout
    lines = [line for line in told.splitlines() if line.startswith("user.py")]
    assert "Labels | clockseg.networks.session.Depth" in lines[0]
    assert "ndarray" in lines[1]
    assert "StagedNetwork" in lines[2]
    assert all("has no attribute" in line for line in lines[3:])
    assert len(lines) == 6
