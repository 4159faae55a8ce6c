"""A network cut off after a stage gives that stage's own scores, enlarged."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import networks
from clockseg import Stage, StagedNetwork, UsageError
from clockseg.engines import onnxruntime, openvino
from clockseg.graph.cost import price
from clockseg.graph.staged import truncated
from clockseg.networks.load import load


@pytest.fixture
def raw(tmp_path) -> StagedNetwork:
    return load(networks.write_tiny(tmp_path), engine=None)


@pytest.mark.parametrize("engine", [openvino, onnxruntime])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_its_labels_are_those_of_the_stages_scores(raw, engine, depth) -> None:
    image = np.random.default_rng(depth).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    net = engine(raw)
    trunk = net.prepare(image)
    for stage in net.stages[:depth]:
        trunk = stage.body(trunk)
    stage = net.stages[depth - 1]
    scores = stage.scores(stage.head(trunk))[0]
    large = np.stack(
        [cv2.resize(np.ascontiguousarray(one), (48, 32), interpolation=cv2.INTER_LINEAR) for one in scores]
    )
    second, first = np.sort(large, axis=0)[-2:]
    sure = first - second > 1e-3
    short = engine(truncated(raw, depth))
    labels = short(image)
    assert labels.shape == (32, 48)
    assert sure.mean() > 0.9
    assert np.array_equal(labels[sure], large.argmax(0)[sure])
    assert np.array_equal(short.uncut()(image), labels)


def test_it_costs_what_its_stages_cost(raw) -> None:
    """The heads of stages before it, and what only other stages read, are not in it."""
    costs = [price(truncated(raw, depth).whole, (48, 32)).multiply_adds for depth in (1, 2, 3)]
    bodies = [price(stage.body, (48, 32)).multiply_adds for stage in raw.stages]
    heads = [channels * 4 * 32 * 48 // area for channels, area in ((8, 4), (12, 16), (16, 64))]
    trunks = [body - head for body, head in zip(bodies, heads, strict=True)]
    assert costs == [sum(trunks[: depth + 1]) + heads[depth] for depth in range(3)]


def test_other_sizes_and_frames_that_are_scaled(raw) -> None:
    net = openvino(truncated(raw, 2))
    assert net(np.zeros((50, 70, 3), np.uint8)).shape == (50, 70)
    assert net.name == "tiny to mid"


@pytest.mark.parametrize("depth", [0, 4, -1])
def test_stages_that_are_not_there(raw, depth) -> None:
    with pytest.raises(UsageError, match=f"after stage {depth}; 'tiny' has stages 1 to 3"):
        truncated(raw, depth)


def test_only_graphs_with_scores(raw, tmp_path) -> None:
    for net in (openvino(raw), StagedNetwork("text", (Stage("a", str.upper),))):
        with pytest.raises(UsageError, match="no graph, or compiled already"):
            truncated(net, 1)
    from dataclasses import replace

    without = replace(networks.TINY, scores=("scores_1", None, "scores_3"))
    bare = load(networks.write_tiny(tmp_path, without), engine=None)
    with pytest.raises(UsageError, match=r"stage 2 \(mid\) of 'tiny' has no class scores"):
        truncated(bare, 2)
