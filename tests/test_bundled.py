"""The networks that come with clockseg, as users load them: no torch."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from clockseg import UsageError, frame_oracle, load
from clockseg.datasets import read_clips
from clockseg.evaluation.labels import evaluate
from clockseg.graph.correction import network_alone
from clockseg.networks import BUNDLED
from clockseg.networks.load import files_of, path_of, read
from video_making import data_folder

TRUNCATED = ("street-stride8", "street-stride16")


def truncation(name: str) -> Path:
    """The file of a network that is kept in the repository for comparisons."""
    return Path(__file__).resolve().parents[1] / "recipes" / "street" / "weights" / f"{name}.onnx"


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("street", ["stride8", "stride16", "context"]),
        ("street-stale", ["stride8", "stride16", "context"]),
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
    assert sum(len(zlib.compress(path_of(name).read_bytes())) for name in BUNDLED) < 24.3e6


def test_a_correction_is_joined_with_the_network_it_belongs_to(tmp_path) -> None:
    model, said = read("street-stale")
    alone, added = network_alone(model, said)
    street, _ = read("street")
    assert list(alone.graph.node) == list(street.graph.node)
    assert [value.name for value in added.inputs] == ["moved_scores", "unexplained"]
    assert {file.name for file in files_of("street-stale")} == {"street-stale.onnx", "street-stale.json", "street.onnx"}
    image = np.random.default_rng(0).integers(0, 256, (90, 150, 3)).astype(np.uint8)
    assert np.array_equal(load("street-stale", size=160)(image), load("street", size=160)(image))


def test_other_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"or a file NAME.* Did you mean .*street-stale"):
        load("street-stole")


@pytest.mark.slow
def test_deeper_is_better_on_a_real_clip() -> None:
    path = data_folder() / "camvid" / "val"
    if not path.is_dir():
        pytest.skip("needs the shared data folder (CLOCKSEG_DATA)")
    baselines = [(name, load(truncation(name))) for name in TRUNCATED]
    found = evaluate(load("street"), {"street": frame_oracle}, read_clips(path, every=20), baselines=baselines)
    scores = {one.schedule: one.scores.mean_iu for one in found}
    assert 0.3 < scores["street-stride8"] < scores["street-stride16"] < scores["street"]
