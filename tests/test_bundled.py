"""The networks that come with clockseg, as users load them: no torch."""

from __future__ import annotations

import numpy as np
import pytest

from clockseg import UsageError, frame_oracle, load
from clockseg.datasets import read_clips
from clockseg.evaluation.labels import evaluate
from clockseg.networks.load import BUNDLED, path_of
from video_making import data_folder

STREET = BUNDLED[:3]


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("street", ["stride8", "stride16", "context"]),
        ("street-stride8", ["stride8"]),
        ("street-stride16", ["stride16"]),
        ("fcn8s-narrow", ["pool3", "pool4", "fc7"]),
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


def test_they_know_the_same_classes_and_see_frames_in_the_same_way() -> None:
    whole, *others = (load(name, engine=None).sidecar for name in STREET)
    for said in others:
        assert (said.classes, said.palette, said.ignore, said.input) == (
            whole.classes, whole.palette, whole.ignore, whole.input)  # fmt: skip


def test_the_baselines_are_small() -> None:
    sizes = {name: path_of(name).stat().st_size for name in BUNDLED}
    assert max(sizes.pop(name) for name in ("street", "street-large", "street-stale")) < 15e6
    assert sizes.pop("street-large-int8") < 7e6
    assert max(sizes.values()) < 4e6


def test_other_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"or a file NAME.* Did you mean .*street-stride8"):
        load("street-stride4")


def test_deeper_is_better_on_a_real_clip() -> None:
    path = data_folder() / "camvid" / "val"
    if not path.is_dir():
        pytest.skip("needs the shared data folder (CLOCKSEG_DATA)")
    baselines = [(name, load(name)) for name in STREET[1:]]
    found = evaluate(load("street"), {"street": frame_oracle}, read_clips(path, every=20), baselines=baselines)
    scores = {one.schedule: one.scores.mean_iu for one in found}
    assert 0.3 < scores["street-stride8"] < scores["street-stride16"] < scores["street"]
