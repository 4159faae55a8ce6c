"""Cut = whole on every shape of network: at every candidate cut, in both readers, and as stages are chosen."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import functools
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch

from clockseg.clocks.rates import fixed_rate
from clockseg.clockwork.network import Part, StagedNetwork
from clockseg.engines import onnxruntime
from clockseg.errors import NetworkError
from clockseg.graph import onnx_reader, torch_part
from clockseg.graph import staged as staging
from clockseg.graph.choice import Candidate, candidates, choose
from clockseg.graph.neutral import Graph
from clockseg.graph.part import IMAGE, LABELS
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.staged import staged
from clockseg.graph.static import fix
from clockseg.graph.torch_reader import Program, read
from clockseg.networks.cutting import cut
from clockseg.showing.stream import run
from shape_making import FIXED, NETWORKS, SIZE, export, main_output, module

LATER = {"segmenter": 13, "dpt": 13, "windows": 13, "setr": 17, "aligned": 17}
"""The opset from which on these can be exported; the others take turns with 11, 13 and 17."""
DYNAMO = ("unet-mixed", "deeplabv3plus", "enet-unpooling")
"""Exported through torch.export, in opset 18, whose names and operations differ."""
OUTPUTS = {"bisenet": "0"}
"""Which of its outputs the torch reader is to take; a tensor alone and "out" it finds itself."""
Cuts = Sequence[Sequence[str]]
Maker = Callable[[str], "Network"]


class Network(NamedTuple):
    """A graph at the tests' size, and how it is cut and compiled."""

    graph: Graph
    output: str
    at: Callable[..., StagedNetwork]

    def candidates(self) -> tuple[Candidate, ...]:
        return candidates(self.graph, output=self.output)

    def chosen(self, stages: int) -> Cuts:
        return choose(self.graph, output=self.output, stages=stages).cuts

    def several(self) -> list[Cuts]:
        """A sample of pairs and triples of candidates, in order; those on different branches will be refused."""
        found = [one.tensors for one in self.candidates()]
        tried = [*itertools.combinations(found, 2), *itertools.combinations(found, 3)]
        return random.Random(len(tried)).sample(tried, min(4, len(tried)))


@functools.cache
def program(model: torch.nn.Module, shape: tuple[int, ...], output: str | None) -> Program:
    return read(model, torch.zeros(shape), output)


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """One graph of each network for all its cuts, in both readers."""

    def fixed(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]], **options: Any) -> Any:
        key = (id(model), *shapes.values(), *(str(option) for option in options.values()))
        return statics.setdefault(key, fix(model, shapes, **options)) if key not in statics else statics[key]

    statics: dict[Any, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "fix", fixed)
        patch.setattr(torch_part, "read", lambda model, like, output: program(model, tuple(like.shape), output))
        yield
    program.cache_clear()


@pytest.fixture(scope="module")
def from_onnx(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Networks by name, exported and read once."""
    folder = tmp_path_factory.mktemp("shapes")
    return functools.cache(lambda name: onnx_network(onnx_reader.read(exported(name, folder / f"{name}.onnx"))))


def exported(name: str, path: Path) -> Path:
    number = list(NETWORKS).index(name)
    opset = max((11, 13, 17)[number % 3], LATER.get(name, 0))
    free = name not in FIXED and number % 2 == 0
    return export(module(name), path, dynamo=name in DYNAMO, opset=18 if name in DYNAMO else opset, free=free)


def onnx_network(model: onnx.ModelProto, size: tuple[int, int] = SIZE) -> Network:
    static = fix(model, {"image": (1, 3, size[1], size[0])})

    def at(cuts: Cuts, classes: Sequence[str] = ()) -> StagedNetwork:
        said = Sidecar("it", Input("image", *size), "scores", tuple(map(tuple, cuts)), classes=tuple(classes))
        return onnxruntime(staged(model, said, size=size), threads=1)

    return Network(onnx_reader.neutral(static, "image"), "scores", at)


@functools.cache
def from_torch(name: str) -> Network:
    return torch_network(module(name), OUTPUTS.get(name))


def torch_network(model: torch.nn.Module, output: str | None = None, size: tuple[int, int] = SIZE) -> Network:
    example = tensor(picture(size=size))
    found = program(model, tuple(example.shape), output)

    def at(cuts: Cuts) -> StagedNetwork:
        return cut(model, example, at=[tuple(names) for names in cuts], output=output)

    return Network(found.graph, found.output, at)


@functools.cache
def picture(seed: int = 0, size: tuple[int, int] = SIZE) -> np.ndarray:
    """A frame of noise, uint8 [1, h, w, 3]."""
    return np.random.default_rng(seed).integers(0, 256, (1, size[1], size[0], 3), dtype=np.uint8)


def tensor(frame: np.ndarray) -> torch.Tensor:
    """A frame as modules read it: [1, 3, h, w], 0 to 1."""
    return torch.from_numpy(frame.transpose(0, 3, 1, 2).astype(np.float32) / 255)


@functools.cache
def wanted(name: str) -> np.ndarray:
    """What the module itself gives for the picture."""
    return given(module(name), picture())


def given(model: torch.nn.Module, frame: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return main_output(model(tensor(frame))).numpy()


def apart(found: np.ndarray, by: np.ndarray) -> float:
    """max|a - b| / max|b|; of class ids, the share that differs."""
    assert found.shape == by.shape
    if by.dtype.kind in "iu":
        return float((found != by).mean())
    return float(np.abs(found.astype(np.float64) - by).max() / np.abs(by).max())


def in_onnx(net: StagedNetwork, frame: np.ndarray) -> np.ndarray:
    return net({IMAGE: frame})["scores"]


def in_torch(net: StagedNetwork, frame: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return net(tensor(frame)).numpy()


def with_end(one: Candidate) -> Cuts:
    """A candidate as the first of two cuts, the other being the end of the trunk; alone if it is that."""
    return [one.tensors, one.then] if one.then else [one.tensors]


def check(network: Network, cuts: Sequence[Cuts], output: Callable[..., np.ndarray], by: np.ndarray) -> None:
    """Each of ``cuts`` gives what the whole gives."""
    size = network.graph.shapes[network.graph.inputs[0]][:1:-1]
    worst = {str(each): apart(output(network.at(each), picture(size=size)), by) for each in cuts}
    assert {each: difference for each, difference in worst.items() if difference > 1e-4} == {}


def accepted(network: Network, cuts: Sequence[Cuts]) -> list[Cuts]:
    """Those that can be; the others are refused with what to do instead."""
    found, refused = [], []
    for each in cuts:
        try:
            network.at(each)
            found.append(each)
        except NetworkError as error:
            refused.append(str(error))
    assert all(any(word in reason for word in ("Name", "Give", "Leave", "Cut")) for reason in refused)
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_every_candidate_in_onnx(from_onnx, name: str) -> None:
    network = from_onnx(name)
    check(network, [with_end(one) for one in network.candidates()], in_onnx, wanted(name))


@pytest.mark.parametrize("name", NETWORKS)
def test_every_candidate_in_torch(name: str) -> None:
    network = from_torch(name)
    check(network, [[one.tensors] for one in network.candidates()], in_torch, wanted(name))


@pytest.mark.parametrize("name", NETWORKS)
def test_chosen_and_sampled_cuts(from_onnx, name: str) -> None:
    for network, output in ((from_onnx(name), in_onnx), (from_torch(name), in_torch)):
        chosen = [network.chosen(2), network.chosen(3)]
        assert 1 <= len(chosen[0]) <= 2
        assert len(chosen[0]) <= len(chosen[1]) <= 3
        check(network, [*chosen, *accepted(network, network.several())], output, wanted(name))


@pytest.mark.parametrize(
    "name", ["unet", "deeplabv3", "lr-aspp", "bisenet", "hrnet", "everything-inside", "probabilities"]
)
def test_labels_of_the_chosen_cut(from_onnx, name: str) -> None:
    found = from_onnx(name).at(from_onnx(name).chosen(3), "abcde")({IMAGE: picture()})[LABELS][0]
    scores = wanted(name)
    if scores.dtype.kind == "i":
        assert np.array_equal(found, scores[0])
        return
    best = np.sort(scores[0], axis=0)
    clear = best[-1] - best[-2] > 2e-4 * np.abs(scores).max()
    assert clear.mean() > 0.9
    assert np.array_equal(found[clear], scores[0].argmax(0)[clear])


@pytest.mark.parametrize("name", ["unet", "deeplabv3plus", "bisenetv2", "ddrnet", "shared"])
def test_what_fires_is_the_oracles_and_what_rests_is_not_rerun(from_onnx, name: str) -> None:
    ran: Counter[str] = Counter()

    def counted(part_name: str, part: Part) -> Part:
        def call(*values: Any) -> Any:
            ran[part_name] += 1
            return part(*values)

        return call

    net = from_onnx(name).at(from_onnx(name).chosen(3))
    stages = len(net)
    frames = [{IMAGE: picture(seed)} for seed in range(6)]
    oracle = [held(net, frame) for frame in frames]
    schedule = fixed_rate((1, 2, 4)[:stages])
    for t, (output, record) in enumerate(run(net.map(counted), frames, schedule)):
        shown = [t - t % period for period in (1, 2, 4)[:stages]]
        assert record.fired == tuple(frame == t for frame in shown)
        fused = {stage.name: oracle[frame][stage.name] for stage, frame in zip(net.stages, shown, strict=True)}
        for group in net.groups:
            fused[group.name] = group.function(*(fused[read] for read in group.reads))
        assert np.array_equal(output["scores"], net.finish(fused[net.last])["scores"])
    bodies = [ran[f"{stage.name}.body"] for stage in net.stages]
    assert bodies == [6, 3, 2][:stages]
    for group in net.groups:
        assert (
            ran[group.name]
            == bodies[min(index for index, stage in enumerate(net.stages) if reads(net, group, stage.name))]
        )


def held(net: StagedNetwork, frame: Any) -> dict[str, Any]:
    """What each stage holds when all fire."""
    trunk, values = frame, {}
    for stage in net.stages:
        trunk = stage.body(trunk)
        values[stage.name] = stage.head(trunk)
    return values


def reads(net: StagedNetwork, group: Any, name: str) -> bool:
    """Whether a group is made from a stage, itself or through other groups."""
    others = {other.name: other for other in net.groups}
    return any(read == name or (read in others and reads(net, others[read], name)) for read in group.reads)


def test_positions_of_unpooling_cannot_cross_a_cut(from_onnx) -> None:
    for network, cuts in (
        (from_torch("enet-unpooling"), [["middle"], ["deep"]]),
        (from_onnx("enet-unpooling"), [["relu_3"], ["relu_7"]]),
    ):
        with pytest.raises(NetworkError, match="positions that max-unpooling needs"):
            network.at(cuts)
    assert in_torch(from_torch("enet-unpooling").at([["second"], ["deep"]]), picture()).shape == (1, 5, 64, 128)


def test_segformer(tmp_path: Path) -> None:
    small = {"hidden_sizes": [4, 8, 12, 16], "num_attention_heads": [1, 1, 2, 2], "decoder_hidden_size": 8}
    model = segformer(depths=[1, 1, 1, 1], **small)
    free = onnx_reader.read(export(model, tmp_path / "segformer.onnx"))
    for size in ((128, 64), (96, 160)):
        by = given(model, picture(size=size))
        for network, output in ((onnx_network(free, size), in_onnx), (torch_network(model, "logits", size), in_torch)):
            cuts = [with_end(one) for one in network.candidates()]
            check(network, [*cuts, network.chosen(2), network.chosen(3)], output, by)


def test_segformer_b0(tmp_path: Path) -> None:
    model = segformer()
    network = onnx_network(onnx_reader.read(export(model, tmp_path / "b0.onnx", opset=17)))
    check(network, [network.chosen(3)], in_onnx, given(model, picture()))


def segformer(**options: Any) -> torch.nn.Module:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    torch.manual_seed(0)
    config = transformers.SegformerConfig(num_labels=5, **options)
    return transformers.SegformerForSemanticSegmentation(config).eval()
