"""Where a network can be cut: the places on its trunk where few and small tensors pass, and what each would mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clockseg.graph.load import Cut, Load
from clockseg.graph.neutral import Graph
from clockseg.graph.split import Shapes
from clockseg.graph.strides import Grid, is_map
from clockseg.graph.trunk import Trunk, trunk_of


@dataclass(frozen=True)
class Candidate:
    """A place to cut: its tensors with their shapes, and what it would mean.

    ``stride``, ``channels``: of the first tensor; None where its shape doesn't tell. ``bytes``: of all, as float32.
    ``above``: the share (0..1) of the work that makes them, ``seconds_above`` the same of measured time. ``every_frame``:
    the share that runs on a frame on which stage 1 fires alone, with stage 1 up to here and the last stage up to
    ``then``, mostly the end of the trunk; ``skip``: whether what is fresh then reaches the output while the rest holds. For the
    end itself ``then`` is empty, and all runs.

    >>> Candidate(("a",), ((1, 8, 16, 16),), 4, 8, 8192, 0.25, None, 0.3, True, ("b",)).below
    0.75
    """

    tensors: Cut
    shapes: tuple[tuple[int, ...], ...]
    stride: int | None
    channels: int | None
    bytes: int
    above: float
    seconds_above: float | None
    every_frame: float
    skip: bool
    then: Cut

    @property
    def below(self) -> float:
        """The share of the work that doesn't go into its tensors."""
        return 1 - self.above


def candidates(
    graph: Graph,
    shapes: Shapes,
    work: Mapping[str, float],
    *,
    output: str,
    seconds: Mapping[str, float] | None = None,
) -> tuple[Candidate, ...]:
    """Where the network that leads to ``output`` can be cut, from the frame on; ``divide`` accepts every one.

    ``shapes``: of every tensor, the frame's [1, 3, h, w] included; ``work``: of each node by name, in multiply-adds or
    seconds (none: 0); ``seconds``: of each node, where measured.

    A tensor on the trunk is one that dominates a branch with some work (every way from the frame into it leads through
    the tensor), and round which nothing leads but to a finer stride: the ends of an encoder's blocks, not what is inside
    a residual block. Of neighbours with less than a percent of the work between them the smallest counts. Where branches
    exchange maps again and again, so that no single tensor is narrow: two or three tensors, none made from another.

    >>> from clockseg.graph.neutral import ENLARGE, Node
    >>> up = Node("u", ("b",), ("u",), ENLARGE, 1)
    >>> net = Graph((Node("a", ("x",), ("a",)), Node("b", ("a",), ("b",)), up, Node("y", ("a", "u"), ("y",))), ("x",))
    >>> shapes = {"x": (1, 3, 64, 64), "a": (1, 8, 32, 32), "b": (1, 8, 16, 16), "u": (1, 8, 32, 32), "y": (1, 8, 32, 32)}
    >>> found = candidates(net, shapes, {"a": 1.0, "b": 2.0, "y": 1.0}, output="y")
    >>> [(one.tensors, one.above, one.every_frame, one.then) for one in found]
    [(('a',), 0.25, 0.5, ('b',)), (('b',), 0.75, 1.0, ())]
    """
    trunk = trunk_of(graph, shapes, work, output=output)
    timed = None if seconds is None else Load(graph, seconds, output)
    return tuple(_candidate(trunk, index, timed) for index in trunk.told)


def _candidate(trunk: Trunk, index: int, timed: Load | None) -> Candidate:
    cut, last = trunk.places[index], trunk.last(index)
    sizes = tuple(trunk.shapes[tensor] for tensor in cut)
    grid = trunk.grids.get(cut[0])
    return Candidate(
        cut,
        sizes,
        None if grid is None else grid.stride,
        _channels(sizes[0], grid),
        trunk.bytes(index),
        trunk.above[index],
        None if timed is None else timed.share(timed.needs(cut)),
        1.0 if last is None else trunk.pairs[index, last].every_frame,
        last is not None and trunk.pairs[index, last].skip,
        () if last is None else trunk.places[last],
    )


def _channels(shape: tuple[int, ...], grid: Grid | None) -> int | None:
    if grid is None or len(shape) not in (3, 4):
        return None
    return shape[1] if is_map(shape, grid) else shape[-1]
