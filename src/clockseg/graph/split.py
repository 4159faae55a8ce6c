"""Splitting what reads a concatenation into one product per source, so that what is made of held maps rests with them.

A 1x1 convolution over maps joined along channels is a sum of 1x1 convolutions, one of each map; so is any convolution.
Left whole it has the sources of all its maps and runs on every frame, where it is often most of the work: in SegFormer's
decoder two thirds of the network. Split, the product of a map that holds rests too. A product (bias aside) and an
interpolation may change places, since one works on channels and the other on positions: where a joined map is an
interpolation of a smaller one, its product is done, and held, at the smaller one's own stride. What lies between the
joining and the convolution may work on each channel by itself (an activation, normalisation, a depthwise convolution);
then each map is treated by itself.

The plan is made on the neutral graph, and each reader carries it out on its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clockseg.graph.neutral import CHANNELWISE, CONCAT, CONVOLUTION, ENLARGE, PRODUCT, Graph, Node
from clockseg.graph.rule import Sources, sources

Shapes = Mapping[str, tuple[int, ...]]
"""Tensor -> its shape."""
_WINDOWED = 2 / 3
"""Share of the joined channels that has to rest with later stages for a convolution with a window to be split.

It can't change places with an interpolation, so that its products are held large; one of 304 channels of which 256 rest
takes 0.6 of the time on a frame on which the first stage fires alone and 1.1 where all fire, one of which half rests 0.93
and 1.1.
"""


@dataclass(frozen=True)
class Term:
    """One summand: the product of those joined maps that are ``leaves`` of its split, by position.

    ``enlarge``: the node that makes the one leaf from a smaller map, if the product is done on that, and the node
    repeated behind it.
    """

    leaves: tuple[int, ...]
    enlarge: str | None = None


@dataclass(frozen=True)
class Split:
    """A plan to replace the node ``product`` by a sum of ``terms``, in this order.

    ``leaves``: the tensors that were joined along ``axis``, in the order of their channels. ``between``: the nodes from
    the joining to the product, in order; each term repeats them. Only ``product`` is replaced; ``made`` keeps its name.
    """

    product: str
    made: str
    axis: int
    leaves: tuple[str, ...]
    between: tuple[str, ...]
    terms: tuple[Term, ...]

    @property
    def bias(self) -> int:
        """The position of the term whose product has the bias: one that isn't enlarged behind it, if there is one."""
        plain = [index for index, term in enumerate(self.terms) if term.enlarge is None]
        return plain[-1] if plain else len(self.terms) - 1

    def named(self, term: int, step: str | int) -> str:
        """Return the name of a node of term number ``term`` (0 is the first), and of the tensor that it makes.

        ``step``: "joined", the position of one of ``between``, "product" or "enlarged".
        """
        return f"{self.made}.term{term + 1}.{step}"

    def total(self, term: int) -> tuple[str, str]:
        """Return the node that adds term number ``term`` to those before it, and the tensor it makes."""
        node = f"{self.made}.sum{term + 1}"
        return node, self.made if term == len(self.terms) - 1 else node


def splits(graph: Graph, cuts: Sequence[Sequence[str]], *, output: str, shapes: Shapes) -> tuple[Split, ...]:
    """Return the splits for a network cut at ``cuts``, in order: later ones may read tensors of earlier ones.

    A product is split where some of its maps hold while others fire: where the first stage that they are made from isn't
    the same for all. A convolution with a window only if two thirds of the channels rest.

    >>> net = Graph((Node("a", ("x",), ("a",)), Node("b", ("a",), ("b",)), Node("u", ("b",), ("u",), ENLARGE, 1),
    ...              Node("c", ("a", "u"), ("c",), CONCAT, 1), Node("y", ("c", "w"), ("y",), PRODUCT, 1)), ("x",))
    >>> shapes = {"a": (1, 8, 16, 16), "u": (1, 8, 16, 16)}
    >>> splits(net, [["a"], ["b"]], output="y", shapes=shapes)[0].terms
    (Term(leaves=(1,), enlarge='u'), Term(leaves=(0,), enlarge=None))
    """
    found: list[Split] = []
    while (split := _next(graph, sources(graph, cuts, output=output), shapes)) is not None:
        found.append(split)
        graph = rewritten(graph, [split])
    return tuple(found)


def every_split(graph: Graph, shapes: Shapes) -> tuple[Split, ...]:
    """Split every product of a concatenation into one term per map, wherever the network is cut."""
    found: list[Split] = []
    while True:
        apart = {tensor: frozenset({index}) for tensor, index in graph.position.items()}
        split = _next(graph, apart, shapes)
        if split is None:
            return tuple(found)
        found.append(split)
        graph = rewritten(graph, [split])


def _next(graph: Graph, owners: Mapping[str, Sources], shapes: Shapes) -> Split | None:
    for node in graph.nodes:
        if node.kind in (PRODUCT, CONVOLUTION) and node.outputs[0] in graph.dynamic:
            split = _split(graph, owners, node, shapes)
            if split is not None:
                return split
    return None


def _split(graph: Graph, owners: Mapping[str, Sources], product: Node, shapes: Shapes) -> Split | None:
    joined, between = _joining(graph, product)
    if joined is None or product.axis is None:
        return None
    leaves = _leaves(graph, owners, joined)
    if not all(leaf in graph.dynamic for leaf in leaves):
        return None
    channels = [shapes[leaf][product.axis] for leaf in leaves]
    firsts = [min(owners[leaf]) for leaf in leaves]
    rest = sum(count for count, first in zip(channels, firsts, strict=True) if first > min(firsts))
    if not rest or (product.kind == CONVOLUTION and rest < _WINDOWED * sum(channels)):
        return None
    terms = _terms(graph, owners, leaves, product.axis, movable=product.kind == PRODUCT and not between)
    return Split(product.name, product.outputs[0], product.axis, leaves, between, terms)


def _joining(graph: Graph, product: Node) -> tuple[Node | None, tuple[str, ...]]:
    """Return the concatenation that ``product`` reads, and the nodes between; None if what it reads is none."""
    between: list[str] = []
    reads = graph.reads(product)
    while len(reads) == 1 and (node := graph.maker.get(reads[0])) is not None:
        if node.kind == CONCAT and node.axis == product.axis:
            return node, tuple(reversed(between))
        if node.kind != CHANNELWISE or node.axis not in (None, product.axis):
            break
        between.append(node.name)
        reads = graph.reads(node)
    return None, ()


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
            terms.append((min(owners[leaf]), Term((index,), node.name)))
        else:
            together.setdefault(owners[leaf], []).append(index)
    terms += [(min(made), Term(tuple(indices))) for made, indices in together.items()]
    return tuple(term for _, term in sorted(terms, key=lambda item: -item[0]))


def rewritten(graph: Graph, plan: Sequence[Split]) -> Graph:
    """Carry out ``plan`` on ``graph``."""
    for split in plan:
        nodes = [
            new for node in graph.nodes for new in (_summed(graph, split) if node.name == split.product else [node])
        ]
        graph = Graph(tuple(nodes), graph.inputs, graph.integers)
    return graph


def _summed(graph: Graph, split: Split) -> list[Node]:
    nodes = {node.name: node for node in graph.nodes}
    product = nodes[split.product]
    made: list[Node] = []
    before = ""
    for index, term in enumerate(split.terms):

        def add(step: str | int, like: Node, reads: Sequence[str], index: int = index) -> str:
            name = split.named(index, step)
            constants = [tensor for tensor in like.inputs if tensor not in graph.dynamic]
            made.append(Node(name, (*reads, *constants), (name,), like.kind, like.axis))
            return name

        enlarge = nodes[term.enlarge] if term.enlarge else None
        reads = graph.reads(enlarge) if enlarge else tuple(split.leaves[leaf] for leaf in term.leaves)
        tensor = reads[0]
        if len(reads) > 1:
            tensor = add("joined", Node("", (), (), CONCAT, split.axis), reads)
        for step, name in enumerate(split.between):
            tensor = add(step, nodes[name], [tensor])
        tensor = add("product", product, [tensor])
        if enlarge:
            tensor = add("enlarged", enlarge, [tensor])
        if index:
            name, total = split.total(index)
            made.append(Node(name, (before, tensor), (total,)))
            tensor = total
        before = tensor
    return made


def priced(
    graph: Graph, plan: Sequence[Split], shapes: Shapes, work: Mapping[str, float]
) -> tuple[Graph, dict[str, float]]:
    """Carry out ``plan`` on ``graph``, and add the costs of the new nodes to ``work`` (node -> cost)."""
    costs = dict(work)
    for split in plan:
        costs |= shared_work(graph, split, shapes, costs)
        graph = rewritten(graph, [split])
    return graph, costs


def shared_work(graph: Graph, split: Split, shapes: Shapes, work: Mapping[str, float]) -> dict[str, float]:
    """Return the cost of the nodes that ``split`` makes, as shares of the nodes they replace, by channels and positions.

    ``graph``: before it is carried out. Sums and joins cost nothing: an engine adds where it multiplies.
    """
    channels = [shapes[leaf][split.axis] for leaf in split.leaves]
    nodes = {node.name: node for node in graph.nodes}
    found: dict[str, float] = {}
    for index, term in enumerate(split.terms):
        share = sum(channels[leaf] for leaf in term.leaves) / sum(channels)
        for step, name in enumerate(split.between):
            found[split.named(index, step)] = work.get(name, 0.0) * share
        if term.enlarge:
            [small] = graph.reads(nodes[term.enlarge])
            share *= math.prod(shapes[small]) / math.prod(shapes[split.leaves[term.leaves[0]]])
            wider = shapes[split.made][split.axis] / channels[term.leaves[0]]
            found[split.named(index, "enlarged")] = work.get(term.enlarge, 0.0) * wider
        found[split.named(index, "product")] = work.get(split.product, 0.0) * share
    return found
