"""The torch engine: the same numbers as the module within its precision, and nothing that was given is written to again."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import os
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn import functional as F

from clockseg import UsageError, alternating, run
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.engines.torch import torch as engine
from clockseg.graph.sidecar import Input
from clockseg.networks.cutting import cut
from narrow_fcn import picture

SIZE = (48, 32)
CLASSES = ("sky", "road", "tree", "car")
FRAMES = Input("image", *SIZE, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4), pad_multiple=8)


class Two(nn.Module):
    """Two strides, each scored, summed and enlarged; a layer normalisation and a table that depends on weights alone."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.norm = nn.LayerNorm(16)
        self.table = nn.Parameter(torch.randn(1, 16, 4, 4))
        self.first, self.second = nn.Conv2d(8, len(CLASSES), 1), nn.Conv2d(16, len(CLASSES), 1)

    def forward(self, x: Tensor) -> Tensor:
        low = self.low(x)
        deep = self.deep(low)
        deep = self.norm(deep.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        deep = deep + F.interpolate(self.table, deep.shape[2:], mode="bilinear")
        scores = self.first(low) + F.interpolate(self.second(deep), low.shape[2:], mode="bilinear")
        return F.interpolate(scores, x.shape[2:], mode="bilinear")


def two() -> Two:
    torch.manual_seed(0)
    return Two().eval()


def image(seed: int = 0, size: tuple[int, int] = SIZE) -> Tensor:
    return torch.randn(1, 3, size[1], size[0], generator=torch.Generator().manual_seed(seed))


def cut_two(module: Two, **options: Any) -> StagedNetwork:
    return cut(module, image(), at=["low", "deep"], names=["low", "deep"], **options)


def apart(a: Tensor, b: Tensor) -> float:
    a, b = a.detach().float(), b.detach().float()
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.parametrize(("precision", "most"), [("f32", 1e-5), ("bf16", 0.03), ("f16", 0.005)])
def test_the_same_numbers_within_the_precision(precision: str, most: float) -> None:
    module = two()
    net = engine(cut_two(module), precision=precision)
    for x in (image(), image(1, (64, 40))):
        found = apart(net(x), module(x))
        assert found <= most
        assert (found > 1e-6) == (precision != "f32")
        assert apart(net.uncut()(x), module(x)) <= most
        assert not net(x).requires_grad
    assert net.engine == ("torch" if precision == "f32" else f"torch {precision}")


def test_what_it_holds_is_smaller_in_bf16() -> None:
    net = engine(cut_two(two()), precision="bf16")
    held = net.stages[1].head(net.stages[1].body(net.stages[0].body(net.prepare(image()))))
    [map] = [map for map in held.values() if isinstance(map, Tensor)]
    assert map.dtype == torch.bfloat16
    assert net.stages[0].features(net.stages[0].body(net.prepare(image()))).dtype == np.float32


def test_frames_through_a_schedule() -> None:
    module = two()
    plain, net = (make(cut_two(module, input=FRAMES, classes=CLASSES)) for make in (lambda net: net, engine))
    frames = [picture((60, 40), seed) for seed in range(4)]
    for (a, first), (b, second) in zip(run(plain, frames, alternating), run(net, frames, alternating), strict=True):
        assert np.mean(a == b) > 0.999
        assert a.dtype == b.dtype == np.uint8
        assert first.fired == second.fired


def test_numbers_for_frames_are_arrays_in_bf16_too() -> None:
    net = engine(cut_two(two(), input=FRAMES), precision="bf16")
    found = net(picture(SIZE))
    assert (found.dtype, found.shape) == (np.float32, (len(CLASSES), *SIZE[::-1]))


def test_weights_are_as_they_were_when_it_was_made() -> None:
    module = two()
    net = engine(cut_two(module))
    before = net(image())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2)
    assert torch.equal(net(image()), before)
    assert apart(engine(cut_two(module))(image()), module(image())) <= 1e-5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_a_module_of_another_type_runs_in_the_engines_precision(dtype: torch.dtype) -> None:
    module = two()
    wanted = module(image())
    net = engine(cut(module.to(dtype), image().to(dtype), at=["low", "deep"]))
    found = net(image().to(dtype))
    assert found.dtype == torch.float32
    assert apart(found, wanted) <= (1e-5 if dtype == torch.float64 else 5e-3)


def test_what_was_given_is_never_written_to_again() -> None:
    net = engine(cut_two(two()))
    given: list[Tensor] = []
    for seed in range(3):
        trunk = net.prepare(image(seed))
        for stage in net.stages:
            trunk = stage.body(trunk)
            given += [map for map in trunk.values() if isinstance(map, Tensor)]
        given.append(net(image(seed)))
        if not seed:
            first = [map.clone() for map in given]
    assert len(first) == 5
    assert all(torch.equal(a, b) for a, b in zip(first, given, strict=False))


def test_a_network_prepared_twice_has_the_options_of_the_last_time() -> None:
    plain = cut_two(two())
    net = engine(engine(plain, precision="bf16"))
    assert net.engine == "torch"
    assert torch.equal(net(image()), engine(plain)(image()))


@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")
def test_compiled_it_is_the_same() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 2, 1)).eval()
    net = engine(cut(module, image(), at=["2"]), compile=True)
    assert apart(net(image()), module(image())) <= 1e-5
    assert apart(net(image(1)), module(image(1))) <= 1e-5


def test_each_part_is_compiled_at_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of functions that share code, torch keeps eight compiled, and runs the others as they are."""
    compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda graph, **options: compile(graph, backend="eager", **options))
    torch._dynamo.reset()
    counters.clear()
    module = nn.Sequential(*(nn.Conv2d(3, 3, 1) for _ in range(5))).eval()
    net = engine(cut(module, image(), at=[str(index) for index in range(5)]), compile=True)
    for side in (8, 16, 24):
        net(torch.zeros(1, 3, side, side))
    assert counters["frames"]["ok"] == counters["frames"]["total"] == 5 * 3


def test_usage() -> None:
    net = cut_two(two())
    with pytest.raises(UsageError, match="precision 'int8'; torch runs here in f32, bf16, f16"):
        engine(net, precision="int8")
    with pytest.raises(UsageError, match=r"network 'letters' .* has no parts in torch; cut a module"):
        engine(StagedNetwork("letters", (Stage("a", str.upper),)))
    with pytest.raises(UsageError, match="threads=0"):
        engine(net, threads=0)
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="device 'cuda' isn't available"):
            engine(net, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_on_a_gpu(precision: str) -> None:
    module = two()
    wanted = module(image())
    net = engine(cut_two(module), device="cuda", precision=precision)
    first = net(image())
    net(image(1))
    assert apart(first.cpu(), wanted) <= (1e-3 if precision == "f32" else 0.03)


FORK = """
import os, signal, sys
import torch
import clockseg
from torch import nn
net = clockseg.cut(nn.Sequential(nn.Conv2d(3, 64, 3), nn.Conv2d(64, 2, 3)), torch.ones(1, 3, 256, 256), at=["0", "1"])
for run in (net, clockseg.engines.torch(net)):
    run(torch.ones(1, 3, 256, 256))
child = os.fork()
if child == 0:
    signal.alarm(60)
    for run in (net, clockseg.engines.torch(net)):
        run(torch.ones(1, 3, 256, 256))
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_runs_a_network() -> None:
    assert subprocess.run([sys.executable, "-c", FORK], timeout=120, check=False).returncode == 0
