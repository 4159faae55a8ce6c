"""Feature velocity: exact values, the authors' protocol, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import networks
from clockseg import UsageError, load
from clockseg.cli.main import main
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.datasets import Classes, read_data
from clockseg.paper.fcn import FCNDescription, FCNShape, weight_shapes, write_fcn
from clockseg.paper.velocity import (
    MEAN,
    Shot,
    Spread,
    Velocity,
    depths,
    pixel_difference,
    shot,
    spread,
    velocity,
)
from clockseg.video.clip import Frame
from toy_networks import toy, write_clip
from video_making import picture, write_video

TOY = toy()


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What engines keep on disk goes to the tests' own folder."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def frames(images, labels=None) -> list[Frame]:
    labels = labels or [None] * len(images)
    return [Frame(t, image, labels=label) for t, (image, label) in enumerate(zip(images, labels, strict=True))]


def noise(count: int, seed: int = 0, size: tuple[int, int] = (4, 5)) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).integers(0, 256, (count, *size, 3)).astype(np.uint8))


def series_shot(*stages, pixels=None, output=None) -> Shot:
    arrays = tuple(np.array(stage, float) for stage in stages)
    count = len(arrays[0])
    nothing = np.full(count, np.nan)
    return Shot("s", tuple(range(count)), nothing if pixels is None else np.array(pixels, float), arrays,
                nothing if output is None else np.array(output, float), nothing)  # fmt: skip


# One shot.
def test_expected_6_a_static_video_has_velocity_0() -> None:
    still = shot(TOY, "still", frames(noise(1) * 5))
    for series in (still.pixels, *still.stages, still.output):
        np.testing.assert_array_equal(series, np.zeros(5))
    assert velocity_of(still).facts()["stages"][0]["mean"] == 0


def velocity_of(*shots: Shot, **options) -> Velocity:
    return Velocity("toy", ("one", "two", "three")[: len(shots[0].stages)], shots, **options)


def test_each_stage_is_the_share_of_its_labels_that_changed() -> None:
    """The toy's stage n scores colour channel n: dark below 64, middle, light from 192 on."""
    before, after = np.full((2, 4, 3), 100, np.uint8), np.full((2, 4, 3), 100, np.uint8)
    after[0, 0, 0] = 255
    after[:, :, 1] = 0
    after[0, :2, 2] = 110
    found = shot(TOY, "s", frames([before, after]))
    assert [series.tolist() for series in found.stages] == [[0, 1 / 8], [0, 1], [0, 0]]
    assert found.output[1] == pytest.approx(np.mean(TOY(before) != TOY(after)))
    assert np.isnan(found.labels).all()


def test_frames_are_compared_with_the_one_before_not_with_the_first() -> None:
    a, b = np.zeros((2, 2, 3), np.uint8), np.full((2, 2, 3), 255, np.uint8)
    assert shot(TOY, "s", frames([a, b, b, a])).stages[0].tolist() == [0, 1, 0, 1]


def test_a_decoder_may_reuse_the_frames_memory() -> None:
    image = np.zeros((2, 2, 3), np.uint8)

    def decoded():
        for t, level in enumerate((0, 255, 0)):
            image[:] = level
            yield Frame(t, image)

    assert shot(TOY, "s", decoded()).pixels.tolist() == pytest.approx([0, *[pixels(0, 255)] * 2])


def pixels(a: int, b: int) -> float:
    return pixel_difference(np.full((1, 1, 3), a, np.uint8), np.full((1, 1, 3), b, np.uint8))


def test_the_last_annotation_is_held_and_ignored_places_are_left_out() -> None:
    images = noise(1) * 7
    one = np.zeros((4, 5), np.uint8)
    two, three = one.copy(), one.copy()
    two[0] = 1  # a quarter of the places
    three[0] = 2
    three[1:] = 255
    found = shot(TOY, "s", frames(images, [None, one, None, two, None, three, np.full((4, 5), 255, np.uint8)]))
    np.testing.assert_array_equal(found.labels, [np.nan, 0, 0, 0.25, 0, 1, np.nan])
    # The mean is over the frames for which there is something; the first of them is compared with itself.
    assert velocity_of(found).mean(found.labels) == pytest.approx(1.25 / 5)
    kept = shot(TOY, "s", frames(images[:2], [three, two]), ignore=200)
    assert kept.labels[1] == 1


def test_a_change_of_size_starts_anew() -> None:
    images = [*noise(2), *noise(2, seed=1, size=(5, 4))]
    found = shot(TOY, "s", frames(images))
    assert found.pixels[2] == found.stages[0][2] == found.output[2] == 0
    assert found.pixels[3] > 0


def test_stages_without_scores_and_outputs_that_are_no_labels_tell_nothing() -> None:
    net = StagedNetwork(
        "depth", (Stage("a", lambda image: np.moveaxis(image, 2, 0)[None] / 255), Stage("b", lambda x: x, scores=None))
    )
    found = velocity_of(shot(net, "s", frames(noise(4))))
    facts = found.facts()
    assert (facts["stages"][1]["mean"], facts["output"]["mean"]) == (None, None)
    assert 0 < facts["stages"][0]["mean"] <= 1
    json.dumps(facts, allow_nan=False)


# Pixels.
@given(st.integers(0, 2**32 - 1))
def test_pixel_difference_is_the_mean_of_ratios_on_mean_subtracted_values(seed) -> None:
    a, b = noise(2, seed=seed)
    x, y = a.astype(float) - MEAN, b.astype(float) - MEAN
    expected = np.mean(np.abs(x - y) / ((np.abs(x) + np.abs(y)) / 2))
    assert pixel_difference(a, b) == pytest.approx(expected, rel=1e-5)
    # The order of channels does not matter, nor which comes first.
    assert pixel_difference(a[..., ::-1], b[..., ::-1], mean=MEAN[::-1]) == pytest.approx(expected, rel=1e-5)
    assert pixel_difference(b, a) == pixel_difference(a, b)
    assert pixel_difference(a, a) == 0


def test_pixel_difference_by_hand() -> None:
    a, b = np.uint8([[[10, 20, 30]]]), np.uint8([[[30, 20, 10]]])
    assert pixel_difference(a, b, mean=(0, 0, 0)) == pytest.approx((20 / 20 + 0 + 20 / 20) / 3)
    # On both sides of the mean: no ratio is larger than 2. Both at it: 0, and not 0 / 0.
    assert pixel_difference(a, b, mean=(20, 20, 20)) == pytest.approx((2 + 0 + 2) / 3)
    with pytest.raises(UsageError, match="equal shapes"):
        pixel_difference(a, np.zeros((2, 1, 3), np.uint8))


# Over shots.
def test_mean_per_shot_then_mean_and_deviation_over_shots() -> None:
    long, short = series_shot([0, 0.3, 0.3, 0.3, 0.3, 0.6]), series_shot([0, 0.2])
    of = lambda found: found.spreads()[1]  # noqa: E731
    assert of(velocity_of(long, short)) == pytest.approx((0.2, 0.1))
    assert of(velocity_of(short)) == Spread(0.1, None)
    # A single frame has nothing to be compared with.
    assert of(velocity_of(series_shot([0.0]))) == Spread(None, None)
    assert spread([]) == Spread(None, None)
    assert spread([1.0, 3.0, None]) == Spread(2.0, 1.0)


def test_shots_are_ordered_by_motion() -> None:
    fast, slow, middle = (
        replace(series_shot([0, level], pixels=[0, level]), name=name)
        for name, level in (("fast", 0.9), ("slow", 0.1), ("middle", 0.5))
    )
    assert [shot.name for shot in velocity_of(fast, slow, middle).by_motion()] == ["slow", "middle", "fast"]


def test_clips_are_shots(tmp_path: Path) -> None:
    write_clip(tmp_path / "a", 4, labelled=4)
    write_clip(tmp_path / "b", 3, seed=1)
    told: list[str] = []
    found = velocity(TOY, read_data(tmp_path), warn=told.append)
    assert [(one.name, one.indices) for one in found.shots] == [("a", (0, 1, 2, 3)), ("b", (0, 1, 2))]
    assert (found.stages, told) == (("one", "two", "three"), [])
    assert found.facts()["labels"]["mean"] > 0
    assert velocity(TOY, []).facts()["shots"] == []


# Depth.
def test_expected_3_depths_of_fcn_8s(tmp_path: Path) -> None:
    shape, rng = FCNShape("fcn8s", classes=2).narrowed(0.05), np.random.default_rng(0)
    state = {name: rng.random(size).astype(np.float32) for name, size in weight_shapes(shape).items()}
    write_fcn(state, FCNDescription(shape, Classes(("a", "b")), working=(96, 64)), tmp_path / "narrow.onnx")
    net = load(tmp_path / "narrow.onnx", engine=None)
    assert [stage.name for stage in net.stages] == ["pool3", "pool4", "fc7"]
    assert depths(net) == (9, 13, 19)


@pytest.mark.parametrize(
    ("name", "expected"), [("tiny", (1, 2, 4)), ("fcn", (1, 2, 3)), ("unet", (0, 1, 2)), ("branches", (0, 1, 2))]
)
def test_depths_go_along_the_trunk_and_leave_heads_out(tmp_path: Path, name, expected) -> None:
    make, sidecar = networks.NETWORKS[name]
    net = load(networks.write_network(tmp_path, make(), sidecar), engine=None)
    assert depths(net) == expected
    assert depths(TOY) == ()


# The command.
@pytest.fixture
def network(tmp_path: Path) -> Path:
    return networks.write_tiny(tmp_path)


def moving(step: int, count: int = 6) -> list[np.ndarray]:
    images = []
    for t in range(count):
        image = picture(48, 32)
        image[:, step * t : step * t + 12] = 255 - image[:, step * t : step * t + 12]
        images.append(image)
    return images


@pytest.fixture
def videos(tmp_path: Path) -> list[str]:
    return [
        str(write_video(tmp_path / f"{name}.mp4", moving(step), qp="0")) for name, step in (("fast", 7), ("slow", 1))
    ]


def told(capsys: pytest.CaptureFixture[str], *args: object, code: int = 0) -> dict:
    assert main(["velocity", *map(str, args), "--json", "--quiet"]) == code
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_json_is_exactly_what_is_documented(capsys, videos, network) -> None:
    found = told(capsys, *videos, "--network", network, "--engine", "onnxruntime")
    assert list(found) == ["engine", "network", "pixels", "stages", "output", "labels", "shots"]
    assert [stage["depth"] for stage in found["stages"]] == [1, 2, 4]
    assert list(found["stages"][0]) == ["stage", "depth", "mean", "deviation"]
    assert found["labels"] == {"mean": None, "deviation": None}
    assert [one["frames"] for one in found["shots"]] == [6, 6]
    assert found["pixels"]["mean"] == pytest.approx(sum(one["pixels"] for one in found["shots"]) / 2)


def test_the_figure_is_drawn(capsys, videos, network, tmp_path) -> None:
    plot = tmp_path / "new" / "v.svg"
    told(capsys, *videos, "--network", network, "--engine", "onnxruntime", "--plot", plot)
    assert plot.read_text().count("<svg") == 1
    assert main(["velocity", videos[0], "--plot", str(plot)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_table_for_people(capsys, videos, network, tmp_path) -> None:
    write_clip(tmp_path / "data" / "labelled", 3, labelled=3, size=(48, 32))
    args = ["velocity", *videos, str(tmp_path / "data"), "--network", str(network), "--quiet"]
    assert main(args) == 0
    out, err = capsys.readouterr()
    depth, shots = out.rstrip("\n").split("\n\n")
    assert [line.split()[0] for line in depth.splitlines()[1:]] == ["pixels", "low", "mid", "deep", "output", "labels"]
    assert [line.split()[0] for line in shots.splitlines()] == ["shot", "fast", "slow", "labelled"]
    assert err == ""


def test_a_bad_video_does_not_stop_the_others(capsys, videos, network, tmp_path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    found = told(capsys, tmp_path / "bad.mp4", videos[0], "--network", network, code=1)
    assert len(found["shots"]) == 1
    assert main(["velocity", str(tmp_path / "bad.mp4"), "--network", str(network), "--quiet"]) == 1
    assert capsys.readouterr().out == ""


def test_without_matplotlib_it_says_what_to_install(capsys, videos, network, monkeypatch) -> None:
    monkeypatch.setattr("clockseg.cli.options.find_spec", lambda name: None)
    assert main(["velocity", videos[0], "--plot", "v.svg"]) == 1
    assert "pip install '.[plots]' in the clone" in capsys.readouterr().err
