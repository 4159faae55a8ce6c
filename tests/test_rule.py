"""The cut rule on symbolic graphs: no arrays, no library."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockseg.errors import NetworkError
from clockseg.graph.neutral import Graph, Node
from clockseg.graph.rule import Division, divide


def graph(text: str, inputs: tuple[str, ...] = ("x",), integers: frozenset[str] = frozenset()) -> Graph:
    """A graph from lines "y = op a b"; the operation's name decides its kind, and a node is named for what it makes."""
    kinds = {"up": "enlarge", "crop": "crop", "softmax": "point"}
    nodes = []
    for line in filter(None, map(str.strip, text.splitlines())):
        made, _, rest = line.partition(" = ")
        operator, *reads = rest.split()
        nodes.append(Node(made.split(",")[0], tuple(reads), tuple(made.split(",")), kinds.get(operator, "")))
    return Graph(tuple(nodes), inputs, integers)


FCN8S = graph("""
    pool3 = conv x w3
    pool4 = conv pool3 w4
    fc7 = conv pool4 w7
    score_fr = conv fc7 w
    upscore2 = up score_fr k
    score_pool4 = conv pool4 w
    score_pool4c = crop score_pool4 size
    fuse_pool4 = add upscore2 score_pool4c
    upscore_pool4 = up fuse_pool4 k
    score_pool3 = conv pool3 w
    score_pool3c = crop score_pool3 size
    fuse_pool3 = add upscore_pool4 score_pool3c
    upscore8 = up fuse_pool3 k
    score = crop upscore8 size
""")

UNET = graph("""
    c1 = conv x
    c2 = conv c1
    c3 = conv c2
    u3 = conv c3
    d2 = cat u3 c2
    e2 = conv d2
    u2 = up e2
    d1 = cat u2 c1
    y = conv d1
""")


def test_fcn8s() -> None:
    found = divide(
        FCN8S,
        [["pool3"], ["pool4"], ["fc7"]],
        output="score",
        names=("pool3", "pool4", "fc7"),
        scores=("score_pool3", "score_pool4", "score_fr"),
    )
    assert [stage.body for stage in found.stages] == [("pool3",), ("pool4",), ("fc7",)]
    assert [stage.held for stage in found.stages] == [("score_pool3",), ("score_pool4",), ("score_fr",)]
    assert [(group.name, group.reads, group.nodes) for group in found.groups] == [
        ("pool4+fc7", ("fc7", "pool4"), ("upscore2", "score_pool4c", "fuse_pool4", "upscore_pool4")),
        ("pool3+pool4+fc7", ("pool4+fc7", "pool3"), ("score_pool3c", "fuse_pool3")),
    ]
    assert (found.scores, found.finish) == ("fuse_pool3", ("upscore8", "score"))


def test_a_score_map_is_held_once() -> None:
    """Watched, it is held: enlarged, if that is what is watched, and what is cropped from it isn't held beside it."""
    cuts = [["pool3"], ["pool4"], ["fc7"]]
    found = divide(FCN8S, cuts, output="score", scores=("score_pool3", None, "upscore2"))
    assert [stage.held for stage in found.stages] == [("score_pool3",), ("score_pool4c",), ("upscore2",)]
    assert [group.nodes for group in found.groups] == [("fuse_pool4", "upscore_pool4"), ("score_pool3c", "fuse_pool3")]


def test_unet_decoder_rests_while_its_sources_hold() -> None:
    found = divide(UNET, [["c1"], ["c2"], ["c3"]], output="y", names=("a", "b", "c"))
    assert [stage.held for stage in found.stages] == [("c1",), ("c2",), ("u3",)]
    assert [(group.sources, group.nodes) for group in found.groups] == [
        (("b", "c"), ("d2", "e2", "u2")),
        (("a", "b", "c"), ("d1", "y")),
    ]
    assert found.finish == ()


def test_no_skip_is_all_finish() -> None:
    net = graph("a = conv x\nb = conv a\ns = conv b\nu = up s\ny = softmax u")
    found = divide(net, [["a"], ["b"]], output="y")
    assert found.groups == ()
    assert found.finish == ("u", "y")
    assert [stage.held for stage in found.stages] == [(), ("s",)]
    assert found.stages[1].head == ("s",)


def test_what_a_body_makes_on_the_way_is_held_by_its_stage() -> None:
    net = graph("fine = conv x\na = conv fine\nb = conv a\ns0 = conv fine\ny = add s0 b")
    [first, second] = divide(net, [["a"], ["b"]], output="y").stages
    assert (first.body, first.head, first.held) == (("fine", "a"), ("s0",), ("s0",))
    assert second.held == ("b",)


def test_the_frame_itself_belongs_to_stage_1() -> None:
    net = graph("a = conv x\nb = conv a\ndetail = conv x\ny = add detail b")
    assert divide(net, [["a"], ["b"]], output="y").stages[0].held == ("detail",)


def test_cuts_of_several_tensors() -> None:
    net = graph("a = conv x\np = conv a\nq = conv a\np2 = add p q\nq2 = add q p\ny = add p2 q2")
    found = divide(net, [["p", "q"], ["p2", "q2"]], output="y")
    assert [stage.body for stage in found.stages] == [("a", "p", "q"), ("p2", "q2")]
    assert found.stages[1].inputs == ("p", "q")


def test_a_tensor_may_pass_through_a_cut() -> None:
    net = graph("a = conv x\nb = conv a\nc = cat a b\ny = conv c")
    with pytest.raises(NetworkError, match=r"bypasses cut 2 .* also reads 'a'\. Name that in cut 2 as well: 'b', 'a'"):
        divide(net, [["a"], ["b"], ["c"]], output="y")
    found = divide(net, [["a"], ["b", "a"], ["c"]], output="y")
    assert found.stages[1].trunk == ("b", "a")
    assert found.stages[2].inputs == ("a", "b")


def test_an_enlargement_that_several_groups_read_is_held_large() -> None:
    net = graph("a = conv x\nb = conv a\nc = conv b\ns = conv c\nu = up s\nf = add u b\ng = add u f a\ny = conv g")
    assert divide(net, [["a"], ["b"], ["c"]], output="y").stages[2].held == ("u",)


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        ([["pool3"], ["pool5"]], r"'pool5' is not a tensor of this network\. Did you mean .*pool4"),
        ([["x"], ["pool4"]], "'x' is the network's input"),
        (
            [["pool4"], ["pool3"]],
            "'pool3' isn't reached from the cut before it, 'pool4': they are out of order.*from the frame on",
        ),
        ([["pool3"], ["pool3"]], "stage 2 would be empty"),
        ([["score_pool3"], ["pool4"]], "isn't reached from the cut before it.*different branches"),
        ([["pool3"], ["score_pool4"]], None),
        ([], "at least one cut"),
        ([["pool3"], []], "at least one tensor"),
        ([["pool3", "pool3"]], "names a tensor twice"),
    ],
)
def test_impossible_cuts(cuts: list[list[str]], message: str | None) -> None:
    if message is None:
        divide(FCN8S, cuts, output="score")
        return
    with pytest.raises(NetworkError, match=message):
        divide(FCN8S, cuts, output="score")


def test_names_of_large_networks() -> None:
    """Of hundreds of names the nearest few are told, however unlike they are."""
    net = graph("\n".join(["t0 = conv x", *(f"t{k} = conv t{k - 1}" for k in range(1, 40)), "y = conv t39"]))
    with pytest.raises(NetworkError, match=r"The nearest names: [^,]+, [^,]+, [^,]+\. `clockseg inspect --cuts`"):
        divide(net, [["encoder.layer3"]], output="y")


def test_finish_only_enlarges_crops_and_rewrites() -> None:
    """A node may have a kind, to be split for, without being one that finish may consist of."""
    nodes = (
        Node("a", ("x",), ("a",)),
        Node("b", ("a",), ("b",), "convolution", 1),
        Node("s", ("a", "b"), ("s",)),
        Node("r", ("s",), ("r",), "channelwise"),
        Node("y", ("r",), ("y",), "enlarge", 1),
    )
    found = divide(Graph(nodes, ("x",)), [["a"], ["b"]], output="y")
    assert found.finish == ("y",)
    assert found.groups[0].nodes == ("s", "r")


def test_a_cut_that_the_output_does_not_use() -> None:
    net = graph("a = conv x\nb = conv a\nside = conv b\ny = conv a")
    with pytest.raises(NetworkError, match="output 'y' doesn't depend on the last cut, 'b'"):
        divide(net, [["a"], ["b"]], output="y")


def test_the_frame_goes_round() -> None:
    net = graph("a = conv x\nb = conv a x\ny = conv b")
    with pytest.raises(NetworkError, match=r"also reads 'x', the frame itself"):
        divide(net, [["a"], ["b"]], output="y")


def test_constants_are_no_tensors_of_the_frame() -> None:
    net = graph("k = constant w\na = conv x k\nb = conv a\ny = conv b")
    with pytest.raises(NetworkError, match="'k' doesn't depend on the frame"):
        divide(net, [["k"], ["b"]], output="y")


def test_positions_across_a_cut_are_refused() -> None:
    text = "a,where = pool x\nb = conv a\nc = unpool b where\ny = conv c"
    net = graph(text, integers=frozenset({"where"}))
    with pytest.raises(NetworkError, match=r"'where' .*max-unpooling"):
        divide(net, [["a"], ["b"]], output="y")
    with pytest.raises(NetworkError, match="max-unpooling"):
        divide(net, [["a", "where"], ["c"]], output="y")
    assert divide(net, [["c"]], output="y").stages[0].held == ("y",)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (("nothing", None, None), "is not a tensor"),
        (("fuse_pool4", None, None), r"computed from 'stage2', 'stage3'; it must be computed from 'stage1' alone"),
    ],
)
def test_scores_of_another_stage(scores: tuple[str | None, ...], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        divide(FCN8S, [["pool3"], ["pool4"], ["fc7"]], output="score", scores=scores)


@pytest.mark.parametrize("names", [("a",), ("a", "a", "b"), ("a", "b+c", "d"), ("a", "finish", "b"), ("", "a", "b")])
def test_bad_stage_names(names: tuple[str, ...]) -> None:
    with pytest.raises(NetworkError, match="names"):
        divide(FCN8S, [["pool3"], ["pool4"], ["fc7"]], output="score", names=names)


@st.composite
def trunks(draw: st.DrawFn) -> tuple[Graph, list[list[str]]]:
    """A trunk with a head on any of its tensors and a decoder that sums heads in a drawn order."""
    length = draw(st.integers(2, 7))
    lines = ["t0 = conv x", *(f"t{k} = conv t{k - 1}" for k in range(1, length))]
    read = draw(st.lists(st.integers(0, length - 1), unique=True, max_size=length))
    heads = [*dict.fromkeys([*read, length - 1])]
    lines += [f"h{k} = {draw(st.sampled_from(['conv', 'up']))} t{k}" for k in heads]
    total = f"h{heads[0]}"
    for step, k in enumerate(heads[1:]):
        lines.append(f"f{step} = add {total} h{k}")
        total = f"f{step}"
    lines.append(f"y = {draw(st.sampled_from(['conv', 'up', 'softmax']))} {total}")
    cut = [*sorted(draw(st.sets(st.integers(0, length - 2), max_size=length - 1))), length - 1]
    return graph("\n".join(lines)), [[f"t{k}"] for k in cut]


def evaluate(net: Graph, found: Division) -> str:
    """The output computed part by part, each from what it may read alone."""
    nodes = {node.name: node for node in net.nodes}

    def run(names: tuple[str, ...], given: dict[str, str], wanted: tuple[str, ...]) -> dict[str, str]:
        known = dict(given)
        for name in (node.name for node in net.nodes if node.name in names):
            known[nodes[name].outputs[0]] = f"{name}({','.join(known[tensor] for tensor in nodes[name].inputs)})"
        return {tensor: known[tensor] for tensor in wanted}

    trunk, values = {"x": "x"}, {}
    for stage in found.stages:
        made = run(
            (*stage.body, *stage.head), {name: trunk[name] for name in stage.inputs}, (*stage.trunk, *stage.held)
        )
        trunk = {name: made[name] for name in stage.trunk}
        values[stage.name] = {name: made[name] for name in stage.held}
    for group in found.groups:
        given = {name: value for part in group.reads for name, value in values[part].items() if name in group.inputs}
        values[group.name] = run(group.nodes, given, group.outputs)
    last = found.groups[-1].name if found.groups else found.stages[-1].name
    return run(found.finish, {found.scores: values[last][found.scores]}, (found.output,))[found.output]


@given(trunks())
def test_the_parts_compute_what_the_whole_does(drawn: tuple[Graph, list[list[str]]]) -> None:
    net, cuts = drawn
    found = divide(net, cuts, output="y")
    whole = {"x": "x"}
    for node in net.nodes:
        whole[node.outputs[0]] = f"{node.name}({','.join(whole[tensor] for tensor in node.inputs)})"
    assert evaluate(net, found) == whole["y"]


@given(trunks())
def test_a_group_reads_no_stage_beyond_its_sources(drawn: tuple[Graph, list[list[str]]]) -> None:
    net, cuts = drawn
    found = divide(net, cuts, output="y")
    sources = {stage.name: {stage.name} for stage in found.stages} | {g.name: set(g.sources) for g in found.groups}
    for group in found.groups:
        assert set().union(*(sources[part] for part in group.reads)) == set(group.sources)
