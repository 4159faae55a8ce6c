"""Splitting what reads a concatenation into one product per source, so that what is made of held maps rests with them.

A 1x1 convolution over maps joined along channels is a sum of 1x1 convolutions, one of each map; so is any convolution.
Left whole it has the sources of all its maps and runs on every frame, where it is often most of the work: in SegFormer's
decoder two thirds of the network. Split, the product of a map that holds rests too. A product (bias aside) and an
interpolation may change places, since one works on channels and the other on positions: where a joined map is an
interpolation of a smaller one, its product is done, and held, at the smaller one's own stride.

The plan is made on the neutral graph, and each reader carries it out on its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from clockseg.graph.neutral import CONCAT, CONVOLUTION, ENLARGE, OTHER, PRODUCT, Graph, Node
from clockseg.graph.rule import Sources, sources

_WINDOWED = 2 / 3
"""Share of the joined channels that has to rest with later stages for a convolution with a window to be split.

It can't change places with an interpolation, so that its products are held large; one of 304 channels of which 256 rest
takes 0.6 of the time on a frame on which the first stage fires alone and 1.1 where all fire, one of which half rests 0.93
and 1.1.
"""


@dataclass(frozen=True)
class Term:
    """One summand: the product of those joined maps that are ``leaves`` of its split, by position.

    ``reads``: the tensors that are multiplied: these maps, or the smaller map of which the node ``enlarge`` makes the one
    leaf. That node is then repeated behind the product.
    """

    leaves: tuple[int, ...]
    reads: tuple[str, ...]
    enlarge: str = ""


@dataclass(frozen=True)
class SplitNode:
    """A node called ``name`` that reads the maps ``inputs`` and makes ``made``.

    It is a copy of the node ``like`` that computes on the channels of ``term`` alone, or, where that is empty, the
    concatenation of the term's maps; without a term it is a sum. ``bias``: True for the product that has the bias.
    """

    name: str
    made: str
    inputs: tuple[str, ...]
    term: Term | None = None
    like: str = ""
    bias: bool = False


@dataclass(frozen=True)
class Split:
    """A plan to replace the node ``product`` by a sum of ``terms``, in this order.

    ``leaves``: the tensors that were joined along ``axis``, in the order of their ``channels``. Only ``product`` is
    replaced; ``made``, the tensor that it makes, keeps its name.
    """

    product: str
    made: str
    axis: int
    leaves: tuple[str, ...]
    channels: tuple[int, ...]
    terms: tuple[Term, ...]

    def spans(self, term: Term) -> list[tuple[int, int]]:
        """Return the channels of ``term`` along the joined axis: the first of each of its leaves, and the one behind the last."""
        ends = [*itertools.accumulate(self.channels)]
        return [(ends[leaf] - self.channels[leaf], ends[leaf]) for leaf in term.leaves]

    @property
    def steps(self) -> Iterator[SplitNode]:
        """The nodes that take the place of ``product``, in order."""
        # The bias is added where nothing enlarges it, if there is such a place.
        bias = max(range(len(self.terms)), key=lambda index: (not self.terms[index].enlarge, index))
        before = ""
        for index, term in enumerate(self.terms):
            start, inputs = f"{self.made}.term{index + 1}", term.reads
            order = [("joined", "")] if len(inputs) > 1 else []
            order += [("product", self.product), *([("enlarged", term.enlarge)] if term.enlarge else [])]
            for step, like in order:
                name = f"{start}.{step}"
                yield SplitNode(name, name, inputs, term, like, bias=step == "product" and index == bias)
                inputs = (name,)
            if index:
                name = f"{self.made}.sum{index + 1}"
                made = self.made if index == len(self.terms) - 1 else name
                yield SplitNode(name, made, (before, *inputs))
                inputs = (made,)
            [before] = inputs


def splits(graph: Graph, cuts: Sequence[Sequence[str]], *, output: str) -> tuple[Split, ...]:
    """Return the splits for a network cut at ``cuts``, in order: later ones may read tensors of earlier ones.

    A product is split where some of its maps hold while others fire: where the first stage that they are made from isn't
    the same for all. A convolution with a window only if two thirds of the channels rest.

    >>> nodes = (Node("a", ("x",), ("a",)), Node("b", ("a",), ("b",)), Node("u", ("b",), ("u",), ENLARGE, 1),
    ...          Node("c", ("a", "u"), ("c",), CONCAT, 1), Node("y", ("c", "w"), ("y",), PRODUCT, 1))
    >>> net = Graph(nodes, ("x",), shapes={"a": (1, 8, 16, 16), "u": (1, 8, 16, 16)})
    >>> splits(net, [["a"], ["b"]], output="y")[0].terms
    (Term(leaves=(1,), reads=('b',), enlarge='u'), Term(leaves=(0,), reads=('a',), enlarge=''))
    """
    return _all(graph, lambda graph: sources(graph, cuts, output=output))


def every_split(graph: Graph) -> tuple[Split, ...]:
    """Split every product of a concatenation into one term per map, wherever the network is cut."""
    return _all(graph, lambda graph: {tensor: frozenset({index}) for tensor, index in graph.position.items()})


def _all(graph: Graph, owners_in: Callable[[Graph], Mapping[str, Sources]]) -> tuple[Split, ...]:
    """Find splits until there is none: each is carried out before the next is looked for, in the graph that it leaves."""
    found: list[Split] = []
    while True:
        owners = owners_in(graph)
        products = (n for n in graph.nodes if n.kind in (PRODUCT, CONVOLUTION) and n.outputs[0] in graph.dynamic)
        split = next(filter(None, (_split(graph, owners, product) for product in products)), None)
        if split is None:
            return tuple(found)
        found.append(split)
        graph = rewritten(graph, [split])


def _split(graph: Graph, owners: Mapping[str, Sources], product: Node) -> Split | None:
    [read, *others] = graph.reads(product)
    joined = graph.maker.get(read)
    # Its weights, which it reads after the map, may depend on the frame too, as in attention.
    if others or read != product.inputs[0] or joined is None or product.axis is None:
        return None
    if (joined.kind, joined.axis) != (CONCAT, product.axis):
        return None
    leaves = _leaves(graph, owners, joined)
    if not all(leaf in graph.dynamic for leaf in leaves):
        return None
    channels = tuple(graph.shapes[leaf][product.axis] for leaf in leaves)
    firsts = [min(owners[leaf]) for leaf in leaves]
    rest = sum(count for count, first in zip(channels, firsts, strict=True) if first > min(firsts))
    if not rest or (product.kind == CONVOLUTION and rest < _WINDOWED * sum(channels)):
        return None
    terms = _terms(graph, owners, leaves, product.axis, movable=product.kind == PRODUCT)
    return Split(product.name, product.outputs[0], product.axis, leaves, channels, terms)


def _leaves(graph: Graph, owners: Mapping[str, Sources], joined: Node) -> tuple[str, ...]:
    """Return the tensors that ``joined`` concatenates; nested concatenations of maps of different stages are flattened."""
    leaves: list[str] = []
    todo = [*reversed(joined.inputs)]
    while todo:
        tensor = todo.pop()
        node = graph.maker.get(tensor)
        inner = node is not None and node.kind == CONCAT and node.axis == joined.axis
        if node is not None and inner and len({owners.get(read) for read in node.inputs}) > 1:
            todo += reversed(node.inputs)
        else:
            leaves.append(tensor)
    return tuple(leaves)


def _terms(
    graph: Graph, owners: Mapping[str, Sources], leaves: Sequence[str], axis: int, *, movable: bool
) -> tuple[Term, ...]:
    """Return the terms, those that rest longest first, so that sums of them rest as long."""
    together: dict[Sources, list[int]] = {}
    terms: list[tuple[int, Term]] = []
    for index, leaf in enumerate(leaves):
        node = graph.maker.get(leaf)
        if movable and node is not None and node.kind == ENLARGE and node.axis == axis:
            terms.append((min(owners[leaf]), Term((index,), graph.reads(node)[:1], node.name)))
        else:
            together.setdefault(owners[leaf], []).append(index)
    terms += [
        (min(made), Term(tuple(indices), tuple(leaves[index] for index in indices)))
        for made, indices in together.items()
    ]
    return tuple(term for _, term in sorted(terms, key=lambda item: -item[0]))


def rewritten(graph: Graph, plan: Sequence[Split]) -> Graph:
    """Carry out ``plan`` on ``graph``.

    The work of the new nodes is a share of that of the nodes they replace, by channels and positions. Sums and joins cost
    nothing: an engine adds where it multiplies.
    """
    for split in plan:
        like = {node.name: node for node in graph.nodes}
        work, shapes = dict(graph.work), dict(graph.shapes)
        made = []
        for step in split.steps:
            node = like.get(step.like)
            if node is None:
                made.append(Node(step.name, step.inputs, (step.made,), *((CONCAT, split.axis) if step.term else OTHER)))
            else:
                inputs = (*step.inputs, *(tensor for tensor in node.inputs if tensor not in graph.dynamic))
                made.append(replace(node, name=step.name, inputs=inputs, outputs=(step.made,)))
            if step.like in work:
                work[step.name] = work[step.like] * _share(split, step, shapes)
            if step.like == split.product and split.made in shapes:
                sides = [*shapes[step.inputs[0] if step.term and step.term.enlarge else split.made]]
                sides[split.axis] = shapes[split.made][split.axis]
                shapes[step.made] = tuple(sides)
        nodes = [new for node in graph.nodes for new in (made if node.name == split.product else [node])]
        graph = replace(graph, nodes=tuple(nodes), shapes=shapes, work=work)
    return graph


def _share(split: Split, step: SplitNode, shapes: Mapping[str, tuple[int, ...]]) -> float:
    """Return the share of a node's cost that its copy ``step`` has."""
    term = step.term
    if term is None:
        return 0.0
    own = sum(split.channels[leaf] for leaf in term.leaves)
    if step.like == term.enlarge:
        return shapes[split.made][split.axis] / own
    share = own / sum(split.channels)
    if term.enlarge:
        share *= math.prod(shapes[term.reads[0]]) / math.prod(shapes[split.leaves[term.leaves[0]]])
    return share
