"""FCNs in stages in torch: the same as whole, bit for bit; what is held; and how checkpoints are loaded."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clockseg import Session, adaptive, alternating, load, pipelined, run
from clockseg.errors import UsageError
from clockseg.graph.part import FRAME_SIZE, IMAGE, LABELS
from clockseg.paper.fcn_checkpoint import MEAN, save_fcn
from clockseg.paper.fcn_layers import VARIANTS
from clockseg.paper.fcn_staged import staged
from narrow_fcn import CLASSES, description, narrow, picture

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", [(40, 30), (25, 26), (1, 1)])
def test_staged_is_whole_bit_for_bit(variant: Any, size: tuple[int, int]) -> None:
    net = narrow(variant)
    made = staged(net, description(net, working=size))
    image = picture(size)
    assert np.array_equal(made(image), made.uncut()(image))
    data = image[..., ::-1].astype(np.float32).transpose(2, 0, 1)[None] - np.array(MEAN, np.float32).reshape(1, 3, 1, 1)
    with torch.inference_mode():
        scores = net(torch.from_numpy(data)).score
    assert np.array_equal(made(image), scores.argmax(1)[0].numpy())
    assert (made(image).dtype, made(image).shape) == (np.uint8, size[::-1])


def test_trap_5_score_maps_are_held_and_watched_uncropped() -> None:
    net = narrow()
    made = staged(net, description(net))
    trunk, held = made.prepare(picture((48, 32))), {}
    for stage in made.stages:
        trunk = stage.body(trunk)
        held[stage.name] = stage.head(trunk)
    shapes = {
        name: {map: array.shape for map, array in value.items() if map != FRAME_SIZE} for name, value in held.items()
    }
    assert shapes == {
        "pool3": {"score_pool3": (1, 5, 29, 31)},
        "pool4": {"score_pool4": (1, 5, 15, 16)},
        "fc7": {"upscore2": (1, 5, 6, 6)},
    }
    assert made.stages[1].scores(held["pool4"]) is held["pool4"]["score_pool4"]
    assert [group.name for group in made.groups] == ["pool4+fc7", "pool3+pool4+fc7"]


def test_trap_15_frames_become_bgr_minus_the_mean() -> None:
    """The order and the mean of the description, and neither scale nor deviation."""
    net = narrow("pool3")
    for order, channels in (("bgr", [2, 1, 0]), ("rgb", [0, 1, 2])):
        made = staged(net, description(net, order=order, mean=(1.0, 2.0, 3.0), working=(4, 5)))
        image = picture((4, 5))
        data = torch.from_numpy(
            image[None, ..., channels].transpose(0, 3, 1, 2) - np.array([1.0, 2, 3]).reshape(1, 3, 1, 1)
        )
        with torch.inference_mode():
            wanted = net(data.float()).score.argmax(1)[0].numpy()
        assert np.array_equal(made(image), wanted)


def test_trap_18_what_is_held_is_never_written_to_again() -> None:
    net = narrow()
    made = staged(net, description(net))
    trunk = made.stages[0].body(made.prepare(picture((48, 32))))
    held = made.stages[0].head(trunk)
    before = held["score_pool3"].copy()
    for seed in (1, 2, 3):
        made(picture((48, 32), seed))
    assert np.array_equal(held["score_pool3"], before)


def test_schedules_on_the_papers_net() -> None:
    net = narrow()
    made = staged(net, description(net))
    frames = [picture((48, 32), seed) for seed in range(5)]
    oracle = [made(frame) for frame in frames]
    shown = {name: [output for output, _ in run(made, frames, schedule)] for name, schedule in (
        ("adaptive(0)", adaptive(0)), ("alternating", alternating), ("pipelined(2)", pipelined(2)))}  # fmt: skip
    assert all(np.array_equal(a, b) for a, b in zip(shown["adaptive(0)"], oracle, strict=True))
    assert all(np.array_equal(shown["alternating"][t], shown["pipelined(2)"][t]) for t in (1, 3))
    assert all(np.array_equal(shown["alternating"][t], oracle[t]) for t in (0, 2, 4))
    assert not np.array_equal(shown["alternating"][1], oracle[1])


def test_a_frame_that_must_not_be_written_to_is_read_without_a_warning() -> None:
    net = narrow()
    image = picture((48, 32))
    image.flags.writeable = False
    staged(net, description(net))(image)


def test_a_device_that_is_not_there() -> None:
    net = narrow("pool3")
    with pytest.raises(UsageError, match="give cpu"):
        staged(net, description(net), device="nothing")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_the_same_labels_come_out_and_maps_stay_there() -> None:
    net = narrow()
    wanted = [stage.scores(stage.head(trunk)) for stage, trunk in _trunks(staged(net, description(net)))]
    found = staged(net, description(net), device="cuda")
    for (stage, trunk), there in zip(_trunks(found), wanted, strict=True):
        held = stage.head(trunk)
        assert all(map.is_cuda for name, map in held.items() if name != FRAME_SIZE)
        assert np.abs(stage.scores(held) - there).max() <= 1e-4 * np.abs(there).max()
    assert isinstance(found(picture((48, 32))), np.ndarray)


def _trunks(net: Any) -> Any:
    trunk = net.prepare(picture((48, 32)))
    for stage in net.stages:
        trunk = stage.body(trunk)
        yield stage, trunk


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70))
def test_any_size_from_1x1_on(width: int, height: int) -> None:
    net = narrow("fcn16s")
    value = staged(net, description(net)).whole({IMAGE: picture((width, height))[None]})
    assert value[LABELS].shape == (1, height, width)


def test_load_runs_a_checkpoint_in_torch(tmp_path: Path) -> None:
    net, file = narrow(), tmp_path / "tiny.safetensors"
    save_fcn(net, description(net), file)
    loaded = load(file)
    assert (loaded.name, loaded.engine, loaded.sidecar.classes) == ("tiny", "torch", CLASSES.names)
    assert np.array_equal(loaded(picture((48, 32))), staged(net, description(net))(picture((48, 32))))
    assert Session(load(file, size=(24, 24)), adaptive(0.25))(picture((48, 48))).shape == (48, 48)


def test_load_at_the_frames_own_size(tmp_path: Path) -> None:
    net, file = narrow(), tmp_path / "tiny.safetensors"
    save_fcn(net, description(net), file)
    image = picture((37, 21))
    wanted = staged(net, description(net, working=(37, 21)))(image)
    assert np.array_equal(load(file, size="own")(image), wanted)
    assert not np.array_equal(load(file)(image), wanted)


def test_load_refuses(tmp_path: Path) -> None:
    file = tmp_path / "tiny.safetensors"
    save_fcn(narrow(), description(narrow()), file)
    with pytest.raises(UsageError, match="precision 'int8'; torch runs here in f32, bf16, f16"):
        load(file, precision="int8")
    assert load(file, precision="bf16").engine == "torch bf16"
    with pytest.raises(UsageError, match="engine 'torch' runs checkpoints"):
        load("street", engine="torch")
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="device 'cuda' isn't there"):
            load(file, engine="cuda")
