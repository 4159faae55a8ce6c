"""Torch modules cut by the rule: the same as whole at every candidate, on the module's own weights, and trainable."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clockseg import NetworkError, Session, UsageError, alternating, difference, run
from clockseg.clockwork.network import StagedNetwork
from clockseg.graph.sidecar import Input
from clockseg.graph.torch_export import pick
from clockseg.graph.torch_reader import Program, read
from clockseg.networks.cutting import cut
from clockseg.networks.inspection import candidates

CLOSE = 1e-4
SIZE = (48, 32)
"""WIDTH, HEIGHT."""
CLASSES = ("sky", "road", "tree", "car")
FRAMES = Input("image", *SIZE, colour="bgr", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4), pad_multiple=8)


class Block(nn.Module):
    """A convolution, normalised and rectified in place, with a way round it where sizes allow."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.act = nn.ReLU(inplace=True)
        self.short = inputs == outputs and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        made = self.norm(self.conv(x))
        if self.short:
            made += x
        return self.act(made)


class Skips(nn.Module):
    """Strides 2, 4 and 8; all three concatenated at stride 2, mixed by a 1x1, dropped out, scored and enlarged."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(Block(3, 8, 2), Block(8, 8))
        self.mid = Block(8, 12, 2)
        self.deep = nn.Sequential(Block(12, 16, 2), Block(16, 16))
        self.mix = nn.Conv2d(36, 8, 1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.score = nn.Conv2d(8, len(CLASSES), 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        low = self.low(x)
        mid = self.mid(low)
        deep = self.deep(mid)
        size = low.shape[2:]
        maps = [low, *(F.interpolate(y, size=size, mode="bilinear", align_corners=False) for y in (mid, deep))]
        scores = self.score(self.drop(self.norm(self.mix(torch.cat(maps, 1))).relu()))
        return {"out": F.interpolate(scores, x.shape[2:], mode="bilinear", align_corners=False), "low": low}


def skips(seed: int = 0) -> Skips:
    """With statistics that change what they normalise; in eval mode."""
    torch.manual_seed(seed)
    module = Skips()
    with torch.no_grad():
        module.train()(torch.rand(2, 3, 32, 48))
    return module.eval()


def image(size: tuple[int, int] = SIZE, batch: int = 1, seed: int = 0) -> Tensor:
    return torch.randn(batch, 3, size[1], size[0], generator=torch.Generator().manual_seed(seed))


def picture(size: tuple[int, int] = SIZE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)


def apart(a: Tensor, b: Tensor) -> float:
    a, b = a.detach(), b.detach()
    return float((a - b).abs().max() / b.abs().max())


def cut_skips(module: Skips, **options: Any) -> StagedNetwork:
    return cut(module, image(), at=["low", "mid", "deep"], **options)


def test_cut_is_whole_at_other_sizes_and_in_batches_too() -> None:
    module = skips()
    net = cut_skips(module)
    for x in (image(), image((40, 56)), image((64, 24), batch=3), image(seed=5)):
        assert apart(net(x), module(x)["out"]) <= CLOSE
        assert torch.equal(net.uncut()(x), module(x)["out"])


def test_what_rests_is_held_at_its_own_stride() -> None:
    """The 1x1 behind the concatenation is split, so that the deep stage holds 8 channels at stride 8, not at 2."""
    net = cut_skips(skips())
    trunk, shapes = net.prepare(image()), []
    for stage in net.stages:
        trunk = stage.body(trunk)
        shapes.append([tuple(map.shape) for map in stage.head(trunk).values() if isinstance(map, Tensor)])
    assert shapes == [[(1, 8, 16, 24)], [(1, 8, 8, 12)], [(1, 8, 4, 6)]]
    assert [group.name for group in net.groups] == ["stage2+stage3", "stage1+stage2+stage3"]


def test_every_candidate_is_a_cut_and_gives_the_same() -> None:
    module, x = skips(), image()
    found = candidates(module, x)
    assert {("low",), ("mid",), ("deep",)} <= {one.tensors for one in found}
    for one in found:
        assert apart(cut(module, x, at=[one.tensors])(x), module(x)["out"]) <= CLOSE
    assert apart(cut(module, x, at="auto", stages=2)(x), module(x)["out"]) <= CLOSE


def test_gradients_and_statistics_are_the_modules_own() -> None:
    staged, plain = skips(), skips()
    net = cut_skips(staged)
    for module in (staged, plain):
        module.train()
        module.drop.p = 0.0
    for module, function in ((staged, net), (plain, lambda x: plain(x)["out"])):
        function(image(batch=2)).square().mean().backward()
        assert all(parameter.grad is not None for parameter in module.parameters())
    for (name, a), (_, b) in zip(staged.named_parameters(), plain.named_parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        assert torch.allclose(a.grad, b.grad, rtol=1e-3, atol=1e-6), name
    for (name, a), (_, b) in zip(staged.named_buffers(), plain.named_buffers(), strict=True):
        assert torch.allclose(a, b, rtol=1e-4), name


def test_training_the_staged_network_trains_the_module() -> None:
    module, x = skips(), image(batch=2)
    net = cut_skips(module)
    wanted = torch.randint(0, len(CLASSES), (2, 32, 48), generator=torch.Generator().manual_seed(1))
    optimiser = torch.optim.SGD(module.parameters(), 0.5)
    losses = []
    module.train()
    module.drop.p = 0.0
    for _ in range(8):
        loss = F.cross_entropy(net(x), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]
    module.eval()
    assert apart(net(x), module(x)["out"]) <= CLOSE


def test_gradients_reach_the_stages_of_an_earlier_frame() -> None:
    """A held stage's parameters get their gradient from the frame that it reflects, which training on stale maps needs."""
    module = skips()
    session = Session(cut_skips(module), alternating)
    session(image(seed=1))
    session(image(seed=2)).sum().backward()
    assert session.record.fired == (True, True, False)
    deep = module.deep[0].conv.weight.grad
    assert deep is not None
    assert deep.abs().sum() > 0


def test_dropout_follows_the_modules_mode() -> None:
    module, x = skips(), image()
    net = cut_skips(module)
    assert torch.equal(net(x), net(x))
    module.drop.train()
    assert not torch.equal(net(x), net(x))
    module.eval()
    assert torch.equal(net(x), net(x))


def test_the_module_is_left_as_it_was() -> None:
    module = skips()
    module.mid.train()
    before = [(one.training, vars(one).get("inplace")) for one in module.modules()]
    state = copy.deepcopy(module.state_dict())
    net = cut_skips(module)
    net(image((56, 40)))
    assert [(one.training, vars(one).get("inplace")) for one in module.modules()] == before
    module.eval()
    assert all(torch.equal(state[name], value) for name, value in module.state_dict().items() if "mid" not in name)


def test_weights_are_looked_up_wherever_they_are() -> None:
    module, other, x = skips(), skips(1), image()
    net = cut_skips(module)
    module.load_state_dict(other.state_dict(), assign=True)
    assert apart(net(x), other(x)["out"]) <= CLOSE
    module.double()
    assert net(x.double()).dtype == torch.float64
    assert apart(net(x.double()), module(x.double())["out"]) <= CLOSE
    module.float().deep = nn.Sequential()
    with pytest.raises(NetworkError, match=r"changed since it was cut.*cut it again"):
        net(x)


def test_the_graphs_of_a_few_shapes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clockseg.graph.torch_part.SHAPES", 2)
    exported: list[int] = []

    def noted(module: nn.Module, example: Tensor, output: str | None) -> Program:
        exported.append(example.shape[3])
        return read(module, example, output)

    monkeypatch.setattr("clockseg.graph.torch_part.read", noted)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 3))
    net = cut(module, image(), at=["0"])
    for width in (48, 8, 16, 24, 16, 32, 24, 48):
        assert torch.equal(net(image((width, 32))), module(image((width, 32))))
    assert exported == [48, 8, 16, 24, 32, 24]


def test_names_are_paths_of_submodules() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.two = Two()
            self.act = nn.ReLU()
            self.last = nn.Conv2d(4, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            a, b = self.two(x)
            return self.last(self.act(self.act(a) * 2 - b))

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Conv2d(3, 4, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            made = self.one(x)
            return made, made.sigmoid()

    program = read(Twice(), image())
    assert [(node.name, node.outputs) for node in program.graph.nodes] == [
        ("conv2d", ("two.one",)),
        ("sigmoid", ("two.1",)),
        ("relu", ("act",)),
        ("mul", ("mul",)),
        ("sub", ("sub",)),
        ("relu_1", ("act@1",)),
        ("conv2d_1", ("last",)),
    ]
    assert (program.names("two.0"), program.names("conv2d"), program.output) == ("two.one", "two.one", "last")
    assert program.graph.shapes["act@1"] == (1, 4, 32, 48)
    assert program.graph.work == {"conv2d": 3 * 4 * 32 * 48, "conv2d_1": 4 * 2 * 32 * 48}
    with pytest.raises(NetworkError, match=r"'two\.2' is not a tensor of this network. Did you mean two\.1"):
        cut(Twice(), image(), at=["two.2"])
    with pytest.raises(NetworkError, match="cut after it"):
        cut(Twice(), image(), at=["image"])


def test_frames_in_and_labels_out() -> None:
    module = skips()
    net = cut_skips(module, input=FRAMES, classes=CLASSES)
    frame = picture()
    x = (torch.from_numpy(frame[..., ::-1].copy()).permute(2, 0, 1)[None] / 255 - _channels(FRAMES.mean)) / _channels(
        FRAMES.std
    )
    with torch.no_grad():
        wanted = module(x)["out"].argmax(1)[0].numpy()
    assert np.array_equal(net(frame), wanted)
    assert net(frame).dtype == np.uint8
    for size in ((96, 64), (61, 37)):
        assert net(picture(size)).shape == size[::-1]
        assert np.mean(net(picture(size)) == net.uncut()(picture(size))) > 0.999
    assert (net.sidecar.cuts, net.sidecar.classes, net.sidecar.stages[0]) == (
        (("low",), ("mid",), ("deep",)),
        CLASSES,
        "stage1",
    )


def _channels(values: tuple[float, float, float]) -> Tensor:
    return torch.tensor(values).view(1, 3, 1, 1)


def test_frames_in_and_a_map_of_numbers_out() -> None:
    module = skips()
    net = cut_skips(module, input=FRAMES)
    found = net(picture((96, 64)))
    assert (found.shape, found.dtype) == ((4, 64, 96), np.float32)
    assert np.abs(found - net.uncut()(picture((96, 64)))).max() <= CLOSE * np.abs(found).max()


def test_schedules_on_frames() -> None:
    module = skips()
    # Scores that are near each other, so that what the deep stage holds decides some labels.
    module.score.bias.data.zero_()
    module.norm.reset_parameters()
    net = cut_skips(module, input=FRAMES, classes=CLASSES)
    frames = [picture(seed=seed) for seed in range(5)]
    oracle = [net(frame) for frame in frames]
    shown = [output for output, _ in run(net, frames, alternating)]
    assert all(np.array_equal(shown[t], oracle[t]) for t in (0, 2, 4))
    assert not any(np.array_equal(shown[t], oracle[t]) for t in (1, 3))


def test_clocks_watch_features_of_tensors() -> None:
    session = Session(cut_skips(skips()), difference(0.1, of="features"))
    fired = []
    for seed in (0, 0, 1):
        session(image(seed=seed))
        fired.append(session.record.fired)
    assert fired == [(True, True, True), (True, True, False), (True, True, True)]


def test_scores_of_a_stage_are_watched() -> None:
    class Scored(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low, self.deep = Block(3, 8, 2), Block(8, 8, 2)
            self.first, self.last = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            low = self.low(x)
            return self.first(low) + F.interpolate(self.last(self.deep(low)), low.shape[2:])

    module = Scored().eval()
    net = cut(module, image(), at=["low", "deep"], scores=["first", "last"], names=["low", "deep"])
    trunk = net.stages[0].body(net.prepare(image()))
    assert net.stages[0].scores(net.stages[0].head(trunk)).shape == (1, 4, 16, 24)
    assert torch.equal(net(image()), module(image()))


def test_what_is_held_is_in_memory_of_its_own() -> None:
    class Later(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low, self.last = Block(3, 3, 1), nn.Conv2d(3, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.low(x)) + x[:, :2]

    net, x = cut(Later().eval(), image(), at=["low", "last"]), image()
    held = net.stages[0].head(net.stages[0].body(net.prepare(x)))
    before = {name: map.clone() for name, map in held.items() if isinstance(map, Tensor)}
    net(image(seed=3))
    x.zero_()
    assert before
    assert all(torch.equal(held[name], map) for name, map in before.items())


class Point(NamedTuple):
    scores: Any
    other: Tensor


@dataclass
class Found:
    logits: Tensor
    hidden: Any = None


@pytest.mark.parametrize(
    ("given", "output", "number"),
    [
        (torch.tensor(1), None, 1),
        ({"aux": torch.tensor(0), "out": torch.tensor(1)}, None, 1),
        ({"aux": torch.tensor(0), "out": torch.tensor(1)}, "aux", 0),
        ((torch.tensor(1),), None, 1),
        ([torch.tensor(0), torch.tensor(1)], "1", 1),
        (({"a": [torch.tensor(2)]},), "0.a.0", 2),
        (Point([torch.tensor(1)], torch.tensor(0)), "scores.0", 1),
        (Found(torch.tensor(1), torch.tensor(0)), None, 1),
    ],
)
def test_one_tensor_is_picked(given: Any, output: str | None, number: int) -> None:
    assert pick(given, output).item() == number


@pytest.mark.parametrize(
    ("given", "output", "match"),
    [
        ((torch.ones(1), torch.ones(1)), None, "several tensors; choose with output="),
        ({"out": torch.ones(1)}, "aut", "'aut' isn't among.*Did you mean out"),
        (torch.ones(1), "out", "returns one tensor; leave output= out"),
    ],
)
def test_picking_refuses(given: Any, output: str | None, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        pick(given, output)


def made(function: Callable[[Any, Tensor], Any]) -> nn.Module:
    """A module with two convolutions, a pooling pair and a buffer, which computes ``function(self, x)``."""

    class Made(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
            self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x: Tensor) -> Any:
            return function(self, x)

    return Made().eval()


def branching(self: Any, x: Tensor) -> Tensor:
    y = self.a(x)
    if y.sum() > 0:
        return self.b(y)
    return y


def masking(self: Any, x: Tensor) -> Tensor:
    y = self.a(x)
    return self.b(y) + y[y > 0].sum()


def remembering(self: Any, x: Tensor) -> Tensor:
    y = self.a(x)
    self.mean.mul_(0.9).add_(0.1 * y.mean((0, 2, 3)))
    return self.b(y - self.mean[:, None, None])


def unpooling(self: Any, x: Tensor) -> Tensor:
    small, places = self.pool(self.a(x))
    return self.unpool(self.b(small), places)


def telling(self: Any, x: Tensor) -> str:
    return "no tensor"


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (branching, r"can't follow the module \(.*test_torch_cut.py:\d+, 'if y.sum\(\) > 0:'\).*Export it to ONNX"),
        (masking, r"shape of what index makes \(.*test_torch_cut.py:\d+, .*\) depends on the numbers"),
        (remembering, "changes its own buffer 'mean'"),
        (unpooling, "holds whole numbers, such as the positions that max-unpooling needs"),
        (telling, "gives a str"),
    ],
)
def test_what_cannot_be_cut_says_why_and_what_to_do(function: Callable[[Any, Tensor], Any], match: str) -> None:
    with pytest.raises(NetworkError, match=match):
        cut(made(function), image(), at=["a", "b"] if function is not unpooling else ["pool.0", "b"])


def test_unpooling_inside_one_part_is_fine() -> None:
    module = made(lambda self, x: self.b(unpooling(self, x)))
    assert apart(cut(module, image(), at=["unpool"])(image()), module(image())) <= CLOSE


def test_writing_into_parts_of_maps_is_brought_into_another_form() -> None:
    def masked(self: Any, x: Tensor) -> Tensor:
        y = self.a(x)
        z = y.clone()
        z[:, :2] = 0
        x.mul_(2.0)
        return self.b(z) + y

    module, x = made(masked), image()
    net = cut(module, image(), at=["a", "b"])
    assert apart(net(x), module(image())) <= CLOSE
    assert torch.equal(x, image())


@pytest.mark.filterwarnings("ignore")
def test_a_condition_that_torch_sees_is_one_node() -> None:
    def conditional(self: Any, x: Tensor) -> Tensor:
        y = self.a(x)
        with torch.no_grad():
            z = torch.cond(y.sum() > 0, lambda t: t + 1, lambda t: t - 1, (y,))
        return self.b(y) + z

    module = made(conditional)
    net = cut(module, image(), at=["a", "b"])
    for seed in range(3):
        assert apart(net(image(seed=seed)), module(image(seed=seed))) <= CLOSE


def test_usage() -> None:
    module = skips()
    for options, match in (
        ({"at": "low"}, "give a list"),
        ({"at": None}, "give a list"),
        ({"at": [1]}, "give a list"),
        ({"at": [["low", 1]]}, "give a list"),
        ({"at": []}, "at least one cut"),
        ({"at": ["low"], "classes": CLASSES}, "classes needs input="),
        (
            {"at": ["low"], "classes": CLASSES[:2], "input": FRAMES},
            r"2 classes, but the module's output has shape \[1, 4",
        ),
        ({"at": ["low"], "scores": ["score", "score"]}, "2 scores for 1 cut"),
    ):
        with pytest.raises((UsageError, NetworkError), match=match):
            cut(module, image(), **options)
    with pytest.raises(UsageError, match="the example is a ndarray"):
        cut(module, picture(), at=["low"])
    with pytest.raises(UsageError, match=r"the module is a function; give a torch.nn.Module"):
        cut(picture, image(), at=["low"])
    with pytest.raises(NetworkError, match=r"The nearest names: .*clockseg\.candidates"):
        cut(module, image(), at=["quite another"])
    with torch.inference_mode():
        born = nn.Sequential(nn.Conv2d(3, 4, 1))
    with pytest.raises(UsageError, match=r"created inside torch.inference_mode\(\)"):
        cut(born, image(), at=["0"])
    with pytest.raises(UsageError, match="frames are read as"):
        cut(module, image(batch=2), at=["low"], input=FRAMES)
    with pytest.raises(UsageError, match="this network reads tensors"):
        cut_skips(module)(picture())


def segformer(**shape: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="SegFormer is transformers'")
    torch.manual_seed(0)
    return transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=7, **shape)).eval()


SMALL = {
    "depths": [1, 1, 1, 1],
    "hidden_sizes": [8, 16, 24, 32],
    "num_attention_heads": [1, 2, 3, 4],
    "decoder_hidden_size": 32,
}


def test_segformer_at_every_candidate() -> None:
    """All at once: as many stages as candidates."""
    module, x = segformer(**SMALL), image((96, 64))
    found = candidates(module, x)
    assert ("segformer.stages.0",) in {one.tensors for one in found}
    net = cut(module, x, at=[one.tensors for one in found])
    assert len(net) == len(found)
    assert apart(net(x), module(x).logits) <= CLOSE


def test_segformer_b0_in_its_four_stages() -> None:
    """Its decoder's 1x1 convolution over the concatenation is most of its work; split, two thirds of that rest."""
    module, x = segformer(), image((96, 64))
    at = [f"segformer.stages.{index}" for index in range(4)]
    net = cut(module, x, at=at)
    assert [list(stage.head.names) for stage in net.stages] == [
        [f"decode_head.linear_fuse.term{term}.product"] for term in (4, 3, 2, 1)
    ]
    work = net.stages[0].body.source.first.program.graph.work
    assert sum(work.values()) == 91_484_160  # of 158,724,096 unsplit
    for size in ((96, 64), (128, 96)):
        assert apart(net(image(size)), module(image(size)).logits) <= CLOSE


class _Deciding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        return self.b(2 * x if x.sum() > 0 else x)


def test_what_depends_on_the_numbers_is_refused_in_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    """torch.export prints the graph that it has by then."""
    with pytest.raises(NetworkError, match="can't follow the module"):
        cut(_Deciding(), torch.zeros(1, 3, 16, 16), at=["a"])
    assert capfd.readouterr() == ("", "")
