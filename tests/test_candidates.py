"""Where networks can be cut, and where they are cut by themselves: on symbolic graphs, then on files."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import networks
from clockseg.cli.main import main
from clockseg.engines.profile import graph_seconds
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import onnx_reader
from clockseg.graph.choice import Candidate, Choice, candidates, choose
from clockseg.graph.neutral import CONCAT, ENLARGE, PRODUCT, REARRANGE, Graph, Node
from clockseg.graph.places import Grid, Load, grids
from clockseg.graph.rule import divide
from clockseg.graph.split import splits
from clockseg.graph.static import fix
from clockseg.networks import inspection
from clockseg.networks.load import assemble, load
from clockseg.networks.settling import Cutting, settle
from clockseg.networks.source import Said, Source
from test_rule import evaluate

KINDS = {"up": ENLARGE, "cat": CONCAT, "product": PRODUCT}
Shapes = dict[str, tuple[int, ...]]
DEEP = 1200
"""More layers than Python allows calls inside of calls."""


def net(text: str, side: int = 64) -> Graph:
    """A graph from lines "y stride channels work = op a b", with shapes and work, of a frame of ``side``."""
    nodes, work = [], {}
    shapes: Shapes = {"x": (1, 3, side, side)}
    for line in filter(None, map(str.strip, text.splitlines())):
        made, _, rest = line.partition(" = ")
        name, stride, channels, cost = made.split()
        operator, *reads = rest.split()
        shapes[name] = (1, int(channels), side // int(stride), side // int(stride))
        work[name] = float(cost)
        nodes.append(Node(name, tuple(reads), (name,), KINDS.get(operator, ""), 1 if operator in KINDS else None))
    return Graph(tuple(nodes), ("x",), shapes=shapes, work=work)


def found_in(text: str) -> list[tuple[str, ...]]:
    return [one.tensors for one in candidates(net(text), output="y")]


UNET = """
    a 1 8 10 = conv x
    ra 1 8 0 = relu a
    pa 2 8 0 = pool ra
    b 2 16 10 = conv pa
    pb 4 16 0 = pool b
    c 4 32 10 = conv pb
    ub 2 16 2 = up c
    jb 2 32 0 = cat ub b
    d 2 16 20 = conv jb
    ua 1 8 2 = up d
    ja 1 16 0 = cat ua ra
    e 1 8 20 = conv ja
    y 1 4 1 = conv e
"""
RESIDUAL = """
    a 2 8 10 = conv x
    p 2 8 10 = conv a
    rp 2 8 0 = relu p
    q 2 8 10 = conv rp
    s 2 8 0 = add q a
    b 4 16 10 = conv s
    k 4 16 10 = conv b
    t 4 16 0 = add k b
    f 4 4 2 = conv t
    y 1 4 0 = up f
"""
SEGFORMER = """
    a 4 8 20 = conv x
    b 8 16 20 = conv a
    c 16 32 20 = conv b
    d 32 64 20 = conv c
    ub 4 16 0 = up b
    uc 4 32 0 = up c
    ud 4 64 0 = up d
    j 4 120 0 = cat ud uc ub a
    f 4 60 120 = product j w
    y 4 4 1 = conv f
"""
EXCHANGE = """
    stem 8 8 10 = conv x
    f1 8 8 10 = conv stem
    c1 16 8 10 = conv stem
    uc1 8 8 1 = up c1
    df1 16 8 1 = down f1
    fa 8 8 0 = add f1 uc1
    ca 16 8 0 = add c1 df1
    f2 8 8 10 = conv fa
    f2b 8 8 10 = conv f2
    fr 8 8 0 = add f2b fa
    c2 16 8 10 = conv ca
    cr 16 8 0 = add c2 ca
    uc2 8 8 1 = up cr
    df2 16 8 1 = down fr
    fb 8 8 0 = add fr uc2
    cb 16 8 0 = add cr df2
    d 32 8 20 = conv cb
    ud 8 8 0 = up d
    sum 8 8 0 = add fb ud
    y 8 4 1 = conv sum
"""


def test_an_encoders_ends_and_nothing_else() -> None:
    assert found_in(UNET) == [("pa",), ("pb",), ("c",)]


def test_of_neighbours_the_narrowest_counts() -> None:
    """The relu reads what the skip reads too, but the pooling behind it is a quarter of it."""
    first = candidates(net(UNET), output="y")[0]
    assert (first.tensors, first.stride, first.channels, first.bytes) == (("pa",), 2, 8, 4 * 8 * 32 * 32)


def test_nothing_inside_a_residual_block() -> None:
    assert found_in(RESIDUAL) == [("a",), ("s",), ("b",), ("t",), ("f",)]


def test_shares_above_and_of_every_frame() -> None:
    whole = 75.0
    told = [(one.above, one.every_frame, one.skip, one.then) for one in candidates(net(UNET), output="y")]
    assert told == [
        (10 / whole, pytest.approx(31 / whole), True, ("c",)),
        (20 / whole, pytest.approx(63 / whole), True, ("c",)),
        (30 / whole, 1.0, False, ()),
    ]


def test_shares_of_measured_time_beside_them() -> None:
    found = candidates(net(UNET), output="y", seconds={"a": 3.0, "e": 1.0})
    assert [one.seconds_above for one in found] == [0.75] * 3
    assert candidates(net(UNET), output="y")[0].seconds_above is None


def test_a_concatenation_counts_as_it_will_run() -> None:
    first = candidates(net(SEGFORMER), output="y")[0]
    assert first.tensors == ("a",)
    whole = 80 + 1 + 8 + 16 / 4 + 32 / 16 + 64 / 64
    assert first.every_frame == pytest.approx((20 + 8 + 1) / whole)


def test_branches_that_exchange_are_cut_before_they_part_and_where_they_meet() -> None:
    assert found_in(EXCHANGE) == [("stem",), ("cb",), ("d",)]


def test_dominators() -> None:
    load_ = Load(net(RESIDUAL), "y")
    names = [node.name or "the frame" for node in load_.nodes]
    above = {name: names[parent] for name, parent in zip(names[1:], load_.parents[1:], strict=True)}
    assert (above["q"], above["s"], above["t"], above["a"]) == ("rp", "a", "b", "the frame")
    assert load_.below[names.index("b")] == pytest.approx(22 / 52)


def test_strides_are_told_along_the_way() -> None:
    """Tokens, padding and layouts that a shape alone doesn't tell."""
    last_axes, token_axes = (1, 2), (1,)
    rows = ["x", "pad", "half", "tokens", "last"]
    shapes = {"x": (1, 3, 64, 96), "pad": (1, 4, 90, 122), "half": (1, 4, 45, 61), "tokens": (1, 2746, 4)}
    shapes |= {"last": (1, 45, 61, 4), "mean": (1, 3, 1, 1)}
    chain = tuple(Node(made, (read,), (made,)) for read, made in itertools.pairwise(rows))
    found = grids(Graph(chain, ("x",), shapes=shapes))
    assert found["half"] == Grid(2, 45, 61)
    assert found["tokens"] == Grid(2, 45, 61, token_axes)
    assert found["last"] == Grid(2, 45, 61, last_axes)
    assert "mean" not in grids(Graph((Node("mean", ("x",), ("mean",)),), ("x",), shapes=shapes))


@pytest.mark.parametrize("channels", [32, 64, 128])
def test_a_shape_that_fits_both_layouts_keeps_the_one_it_had(channels: int) -> None:
    """Maps [1, 32, 64, 128] that are enlarged from [1, c, 32, 64] look like maps of 32 rows with their channels last."""
    rows = ["small", "large", "moved", "same", "back"]
    nodes = [Node(made, (read,), (made,)) for read, made in itertools.pairwise(["x", *rows])]
    nodes[2] = Node("moved", ("large",), ("moved",), REARRANGE)
    nodes[4] = Node("back", ("same",), ("back",), REARRANGE)
    first, last = (1, channels, 64, 128), (1, 64, 128, channels)
    shapes = {"x": (1, 3, 256, 512), "small": (1, channels, 32, 64), "large": first, "moved": last, "same": last}
    found = grids(Graph(tuple(nodes), ("x",), shapes={**shapes, "back": first}))
    assert [(found[name].stride, found[name].axes) for name in rows] == [
        (8, (2, 3)),
        (4, (2, 3)),
        (4, (1, 2)),
        (4, (1, 2)),
        (4, (2, 3)),
    ]


@pytest.mark.parametrize("channels", [16, 32, 40, 64])
def test_a_skip_is_found_whatever_the_number_of_channels(tmp_path: Path, channels: int) -> None:
    build = networks.Builder()
    fine = build.block("input", 3, channels, stride=4, to="fine")
    deep = build.block(fine, channels, 48, stride=2)
    for index in range(4):
        deep = build.block(deep, 48, 48, to=f"deep{index}")
    weight = build.constant(np.ones((48, channels, 2, 2), np.float32))
    up = build.node("ConvTranspose", deep, weight, strides=[2, 2], kernel_shape=[2, 2])
    build.conv(build.node("Add", up, fine), channels, 5, kernel=1, to="scores")
    onnx.save(build.model({"scores": 5}), tmp_path / "net.onnx")
    found = inspection.inspect_cuts(tmp_path / "net.onnx", size=(512, 256), repeat=0)
    assert [one.tensors for one in found.candidates if one.skip][:1] == [("fine",)]
    assert found.choice.cuts[0] == ("fine",)


def chosen(text: str, stages: int = 3) -> Choice:
    return choose(net(text), output="y", stages=stages)


def test_least_time() -> None:
    found = chosen(SEGFORMER)
    assert found.cuts == (("a",), ("b",), ("d",))
    assert found.reaching == (True, True, True)
    assert found.every_frame == pytest.approx((20 + 8 + 1) / 96)
    assert sum(found.stages) + found.shared == pytest.approx(1)


def test_the_backbone_ends_a_stage_and_no_layer_of_the_decoder_behind_it() -> None:
    """All maps from ``back`` on are of one size; a cut behind ``p0`` would make the later stages a little more even."""
    layers = [f"p{k} 16 8 6 = conv {f'p{k - 1}' if k else 'back'}" for k in range(6)]
    lines = ["fine 4 8 6 = conv x", "back 16 8 29 = conv fine", *layers, "u 4 8 0 = up p5", "s 4 8 0 = add u fine"]
    found = chosen("\n".join([*lines, "y 4 4 1 = conv s"]))
    assert found.cuts == (("fine",), ("back",), ("p5",))
    assert found.reaching == (True, False, True)


def test_a_network_without_skips_gets_even_stages() -> None:
    found = chosen(RESIDUAL, 2)
    assert found.cuts == (("s",), ("f",))
    assert found.stages == (pytest.approx(30 / 52), pytest.approx(22 / 52))
    assert "no skip" in found.note


def test_a_skip_from_the_second_level_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three stages have none from the first; the cuts that are suggested have one."""
    onnx.save(networks.three_levels(skip=True), tmp_path / "model.onnx")
    found = inspection.inspect_cuts(tmp_path / "model.onnx", size=(96, 64), repeat=0)
    best = found.choice
    assert best.reaching == (False, True, True)
    assert best.note.startswith(
        "no skip from stage 1 bypasses stage 2, so that the output does not change until stage 2 "
    )
    suggested = best.note.split("--at ")[1]
    cut = ["cut", f"{tmp_path}/model.onnx", "--out", f"{tmp_path}/net.onnx", "--size", "96x64", "--mean=0", "--std=1"]
    assert main(cut) == 0
    told = capsys.readouterr().out
    assert "chosen: a frame on which only stage 1 fires takes " in told
    assert "measured node by node, but keeps the old output" in told
    assert f"note: {best.note}." in told
    assert main([*cut, "--overwrite", "--at", suggested]) == 0
    assert set(load(tmp_path / "net.onnx").groups[-1].reads) == {"stage1", "stage2"}


def test_more_stages_than_places() -> None:
    found = chosen(SEGFORMER, 9)
    assert found.cuts == (("a",), ("b",), ("c",), ("d",))
    assert "only 4 of 9 stages: there are only 4 places to cut at" in found.note
    assert chosen(SEGFORMER, 1).cuts == (("d",),)


def test_many_places_are_tried_from_the_best_of_shorter_rows() -> None:
    """26 blocks: too many rows of six to try them all."""
    lines = ["t0 1 8 10 = conv x", *(f"t{k} {2 ** (k // 6)} 8 10 = conv t{k - 1}" for k in range(1, 26))]
    lines += ["u 1 8 0 = up t25", "s 1 8 0 = add u t0", "y 1 4 1 = conv s"]
    found = choose(net("\n".join(lines)), output="y", stages=6)
    assert len(found.cuts) == 6
    assert found.cuts[0] == ("t0",)
    assert max(found.stages[1:]) < 0.35


@pytest.mark.parametrize("text", [SEGFORMER, UNET, RESIDUAL])
@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0.93, 1.07), min_size=60, max_size=60))
def test_noise_in_times_changes_nothing(text: str, noise: list[float]) -> None:
    graph = net(text)
    seconds = {node.name: graph.work.get(node.name, 0.0) * one for node, one in zip(graph.nodes, noise, strict=False)}
    found = choose(graph, output="y", seconds=seconds)
    assert found.cuts == choose(graph, output="y").cuts


def test_times_that_are_really_others_choose() -> None:
    """By multiply-adds the first stage ends at a; where c takes nearly all the time, cutting there spares nothing less."""
    graph = net(RESIDUAL)
    slow = max(graph.work, key=lambda name: graph.work[name])
    seconds = {**graph.work, slow: 50 * graph.work[slow]}
    by_time = choose(graph, output="y", seconds=seconds, stages=2)
    by_work = choose(graph, output="y", stages=2)
    assert max(by_time.stages) >= 0.9  # the shares told are of time
    assert max(by_work.stages) < 0.6


def test_what_can_not_be_chosen() -> None:
    with pytest.raises(UsageError, match="0 stages; give at least 1"):
        chosen(UNET, 0)
    with pytest.raises(NetworkError, match="'z' is not a tensor of this network"):
        candidates(net(UNET), output="z")


def test_without_a_place_to_cut_there_is_one_stage_and_the_reason() -> None:
    branches = tuple(Node(name, ("x",), (name,)) for name in "abcde")
    nodes = (*branches, Node("top", tuple("abcde"), ("values", "ids")))
    shapes = {"x": (1, 3, 64, 64), **dict.fromkeys((*"abcde", "values", "ids"), (1, 8, 32, 32))}
    graph = Graph(nodes, ("x",), frozenset({"ids"}), shapes, dict.fromkeys("abcde", 1.0))
    [only] = candidates(graph, output="ids")
    assert (only.tensors, only.every_frame, only.then) == (("ids",), 1.0, ())
    found = choose(graph, output="ids")
    assert (found.cuts, found.stages) == ((("ids",),), (1.0,))
    assert found.note == (
        "only 1 of 3 stages: no tensor was found between the frame and the output through which all that follows is "
        "computed."
    )


@st.composite
def drawn(draw: st.DrawFn) -> Graph:
    """An encoder with residual blocks, and a decoder that enlarges what it has and adds or concatenates some skips."""
    lines, ends, last = [], [], "x"
    for level in range(draw(st.integers(2, 4))):
        stride = 2 ** (level + 1)
        lines.append(f"d{level} {stride} 8 {draw(st.integers(1, 9))} = conv {last}")
        last = f"d{level}"
        for block in range(draw(st.integers(0, 2))):
            name = f"{level}{block}"
            lines.append(f"i{name} {stride} 8 {draw(st.integers(1, 9))} = conv {last}")
            lines.append(f"o{name} {stride} 8 0 = add i{name} {last}")
            last = f"o{name}"
        ends.append((last, stride))
    last, _ = ends.pop()
    for level, (skip, stride) in enumerate(reversed(ends)):
        lines.append(f"u{level} {stride} 8 0 = up {last}")
        last = f"u{level}"
        if draw(st.booleans()):
            operator = draw(st.sampled_from(["add", "cat"]))
            lines.append(f"m{level} {stride} {8 if operator == 'add' else 16} 0 = {operator} {last} {skip}")
            lines.append(f"n{level} {stride} 8 {draw(st.integers(1, 9))} = conv m{level}")
            last = f"n{level}"
    lines.append(f"y 2 4 1 = conv {last}")
    return net("\n".join(lines))


def every_frame(graph: Graph, one: Candidate) -> float:
    """What runs where the first stage fires alone, by the parts that ``divide`` makes."""
    found = divide(graph, [one.tensors, one.then], output="y")
    first = found.stages[0]
    parts = [first.body, first.head, *(group.nodes for group in found.groups if first.name in group.sources)]
    # Without groups, finish follows the last stage alone.
    parts += [found.finish] if found.groups and first.name in found.groups[-1].sources else []
    return sum(graph.work[name] for part in parts for name in part) / sum(graph.work.values())


@settings(max_examples=60, deadline=None)
@given(drawn())
def test_every_candidate_is_accepted_and_exact(graph: Graph) -> None:
    whole = {"x": "x"}
    for node in graph.nodes:
        whole[node.outputs[0]] = f"{node.name}({','.join(whole[tensor] for tensor in node.inputs)})"
    for one in candidates(graph, output="y"):
        rows = [[one.tensors], [one.tensors, one.then]] if one.then else [[one.tensors]]
        for row in rows:
            assert evaluate(graph, divide(graph, row, output="y")) == whole["y"]
        if one.then:
            assert one.every_frame == pytest.approx(every_frame(graph, one))


@settings(max_examples=40, deadline=None)
@given(drawn(), st.integers(1, 4))
def test_every_choice_is_accepted(graph: Graph, stages: int) -> None:
    found = choose(graph, output="y", stages=stages)
    assert len(found.cuts) <= stages
    assert len(divide(graph, found.cuts, output="y").stages) == len(found.cuts)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What engines keep on disk goes to the tests' own folder."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def bare(folder: Path) -> Path:
    path = networks.write_tiny(folder)
    path.with_suffix(".json").unlink()
    return path


def test_seconds_of_nodes() -> None:
    static = fix(networks.tiny(), {"input": (1, 3, 320, 480)})
    found = graph_seconds(static, "input", "scores", threads=1, repeat=2)
    assert found is not None
    convolutions = [node.name for node in static.nodes if node.op_type == "Conv"]
    assert len(convolutions) == 8
    assert min(found[name] for name in convolutions) > 0


def test_candidates_of_a_bundled_network() -> None:
    found = inspection.candidates("street")
    assert {("stride8",), ("stride16",)} < {one.tensors for one in found}


def test_inspect_of_a_bare_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bare(tmp_path)
    assert main(["inspect", str(path), "--output", "scores", "--repeat", "1"]) == 0
    out = capsys.readouterr().out
    assert "tiny: 512x256" in out
    assert "reads input 1x3x256x512" in out
    assert "gives scores 1x4x256x512" in out
    assert "--at auto, by shares of the uncut network's time, measured node by node: " in out
    assert "of time" in out
    assert "stage 1 alone: share of the multiply-adds that run" in out


def test_inspect_of_several_outputs_shows_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bare(tmp_path)), "--repeat", "1"]) == 0
    shown = capsys.readouterr().out
    assert "multiply-adds to scores" in shown
    assert "shown for scores, one of 4 outputs; --output NAME selects another" in shown


def test_inspect_cuts_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = networks.write_tiny(tmp_path)
    assert main(["inspect", str(path), "--cuts", "--json", "--stages", "2", "--size", "96x64"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["size"] == [96, 64]
    assert len(found["choice"]["cuts"]) == 2
    assert [one["tensors"] for one in found["candidates"]] == [["relu_1"], ["low"], ["mid"], ["relu_8"], ["scores_3"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "score_3"], "'score_3' is not a tensor of this network. Did you mean scores_3"),
        (["--output", "scores", "--size", "640"], "has no sidecar; give WIDTHxHEIGHT"),
    ],
)
def test_inspect_says_what_to_give(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(bare(tmp_path)), *arguments]) != 0
    assert message in capsys.readouterr().err


def test_options_of_cuts_need_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(networks.write_tiny(tmp_path)), "--stages", "2"]) == 2
    assert "--output and --stages work only with --cuts" in capsys.readouterr().err


def test_a_file_of_fixed_size(tmp_path: Path) -> None:
    path = tmp_path / "fixed.onnx"
    onnx.save(networks.tiny(size=(32, 48)), path)
    assert inspection.inspect_cuts(path, output="scores", repeat=0).size == (48, 32)
    with pytest.raises(UsageError, match="fixed to 48x32"):
        inspection.candidates(path, output="scores", size=(96, 64))


def test_files_that_run_uncut_are_no_graphs(tmp_path: Path) -> None:
    (tmp_path / "it.xml").write_bytes(b"")
    with pytest.raises(UsageError, match=r"runs uncut .* and this needs a graph"):
        inspection.candidates(tmp_path / "it.xml")


def test_a_network_may_be_deeper_than_pythons_stack(tmp_path: Path) -> None:
    """A chain of many layers, then joined maps through layers that read constants, which are stored behind a long chain."""
    build = networks.Builder()
    fine = x = build.block("input", 3, 4, stride=4, to="fine")
    for index in range(DEEP):
        x = build.node("Relu", x, to=f"deep{index}")
    x = build.node("Concat", build.conv(x, 4, 4), fine, axis=1)
    factor = build.constant(np.ones((1, 8, 1, 1), np.float32))
    for _ in range(DEEP // 10):
        factor = build.node("Identity", factor)
    x = build.node("Mul", x, factor)
    for _ in range(DEEP):
        x = build.node("Relu", x)
    build.conv(x, 8, 5, kernel=1, to="scores")
    onnx.save(build.model({"scores": 5}), tmp_path / "net.onnx")
    settled = settle(
        Source(onnx_reader.read(tmp_path / "net.onnx"), "net"),
        Said(size=(64, 32), mean=(0, 0, 0), std=(1, 1, 1)),
        Cutting(measured=False, stages=10 * DEEP),
        "net",
    )
    assert len(settled.sidecar.cuts) > 1
    net_ = assemble(settled.model, settled.sidecar, engine=None)
    assert all(part.body.build((64, 32)).outputs for part in net_.stages)


def test_joined_maps_may_be_nested_as_deep() -> None:
    nodes = [Node("a", ("x",), ("a",)), Node("b", ("a",), ("b",)), Node("j0", ("a", "b"), ("j0",), CONCAT, 1)]
    nodes += [Node(f"j{i}", (f"j{i - 1}", "a"), (f"j{i}",), CONCAT, 1) for i in range(1, DEEP)]
    nodes.append(Node("y", (f"j{DEEP - 1}", "w"), ("y",), PRODUCT, 1))
    graph = Graph(tuple(nodes), ("x",), shapes={node.outputs[0]: (1, 8, 16, 16) for node in nodes})
    [found] = splits(graph, [["a"], ["b"]], output="y")
    assert found.leaves == ("a", "b", *["a"] * (DEEP - 1))
