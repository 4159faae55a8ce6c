"""The schedule that ``cut`` recommends: cheaper than the uncut network, whatever the network and however much moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest

import networks
from clockseg import load, segment
from clockseg.cli.cut import report
from clockseg.cli.inspect import text
from clockseg.clocks.spec import parse_schedule
from clockseg.networks import BUNDLED
from clockseg.networks.cutting import CutNetwork, cut_network
from clockseg.networks.load import read as read_network
from clockseg.networks.settling import Cutting
from clockseg.networks.source import Said
from video_making import write_video

SAID = Said(size=(96, 64), mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))
NETWORKS: dict[str, tuple[Callable[[], onnx.ModelProto], str, Said]] = {
    "scores at every stage": (networks.tiny, "low,mid,deep", replace(SAID, output="scores")),
    "skips": (networks.unet, "enc1,enc2,enc3", replace(SAID, output="scores")),
    "one stage": (networks.tiny, "deep", replace(SAID, output="scores")),
    "no skip": (networks.no_skip, "auto", replace(SAID, output="scores")),
    "two branches, numbers": (networks.two_branches, "stem,fine1+coarse1,fine2+coarse2", replace(SAID, classes=())),
    "fcn": (networks.fcn, "auto", replace(SAID, output="scores")),
}


@pytest.fixture(scope="module")
def highway(tmp_path_factory) -> Path:
    """Nothing in it stays where it was."""
    rng = np.random.default_rng(0)
    wide = cv2.resize(rng.integers(0, 256, (16, 150, 3), dtype=np.uint8), None, fx=4, fy=4)
    frames = [wide[:, 12 * t : 12 * t + 96] for t in range(25)]
    return write_video(tmp_path_factory.mktemp("video") / "highway.mp4", frames)


@pytest.fixture(scope="module", params=list(NETWORKS))
def found(request, tmp_path_factory) -> CutNetwork:
    make, at, said = NETWORKS[request.param]
    folder = tmp_path_factory.mktemp("cut")
    onnx.save(make(), folder / "model.onnx")
    cutting = Cutting(at=at, measured=False)
    return cut_network(
        folder / "model.onnx", folder / "net.onnx", said=said, cutting=cutting, engine="openvino", repeat=1
    )


@pytest.mark.slow
def test_what_is_recommended_costs_less_than_the_uncut_network(found, highway, tmp_path) -> None:
    assert found.sidecar.schedule is not None
    net = load(found.file, engine="openvino", threads=1)
    done = segment(highway, tmp_path / "out", net, parse_schedule(found.sidecar.schedule))
    assert done.summary["network_rate"] < 0.5
    assert done.summary["relative_multiply_adds"] < 0.5


def test_it_is_told_with_the_reason(found) -> None:
    told = report(found)
    assert "recommended schedule: carried(skip_frame(6), interpolate(flow))" in told
    assert "nothing to clock" not in told


def timed(found: CutNetwork, *seconds: float) -> CutNetwork:
    """With these seconds for its parts, in their order, and 1 s for the uncut network."""
    seen = found.inspection
    assert len(seen.parts) == len(seconds)
    parts = tuple(replace(part, seconds=at) for part, at in zip(seen.parts, seconds, strict=True))
    return replace(found, inspection=replace(seen, parts=parts, whole=replace(seen.whole, seconds=1.0)))


@pytest.mark.parametrize(("first", "warned"), [(0.2, False), (0.6, True)])
def test_a_warning_where_a_held_frame_costs_more_than_half(tmp_path, first, warned) -> None:
    onnx.save(networks.tiny(), tmp_path / "model.onnx")
    cutting = Cutting(at="low,mid,deep", measured=False)
    said = replace(SAID, output="scores")
    made = cut_network(tmp_path / "model.onnx", tmp_path / "net.onnx", said=said, cutting=cutting, engine="openvino")
    others = len(made.inspection.parts) - 1
    slow = timed(made, first, *[0.01] * others)
    assert ("A clock on stages saves little" in report(slow)) is warned
    assert ("A clock on stages saves little" in text(slow.inspection)) is warned


def test_a_network_of_one_stage_has_no_stages_to_warn_of(tmp_path) -> None:
    onnx.save(networks.tiny(), tmp_path / "model.onnx")
    said = replace(SAID, output="scores")
    cutting = Cutting(at="deep", measured=False)
    made = cut_network(tmp_path / "model.onnx", tmp_path / "net.onnx", said=said, cutting=cutting, engine="openvino")
    assert made.inspection.held_share is None
    assert "saves little" not in report(made)


@pytest.mark.parametrize("name", BUNDLED)
def test_no_bundled_network_recommends_a_clock_on_stages(name) -> None:
    assert str(read_network(name)[1].schedule).startswith("carried(skip_frame(6), interpolate(flow")
