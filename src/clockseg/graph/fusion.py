"""Several parts of a network as one graph: what runs together runs as one model.

In one model nothing is handed from part to part, an addition is fused into the convolution before it again, and an
engine is called once. Tensors that nobody reads again need not be given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from clockseg.errors import UsageError
from clockseg.graph.part import IMAGE, LABELS, GraphPart

MakePart = Callable[[str, Sequence[str], Sequence[str], Sequence[str]], GraphPart]
"""A part from its name, the tensors it reads, those it gives, and the network's output if it gives that (else none)."""


@dataclass(frozen=True)
class GraphFusion:
    """Makes one graph of several graph-backed parts of a network.

    ``frame``: the name of the network's input, ``output``: of its output. ``whole``: the uncut network, if it computes
    the very same graph. Nothing is built before an engine asks for it.
    """

    frame: str
    output: str
    make: MakePart = field(repr=False)
    whole: GraphPart | None = None

    def __call__(self, net: Any, schedule: Any) -> Any:
        raise UsageError("these parts are graphs and not compiled; compile the network with an engine first.")

    def fuse(self, parts: Sequence[GraphPart], keep: Collection[str]) -> GraphPart:
        """Return ``parts``, each of which comes after those it reads, as one that gives the tensors ``keep``."""
        made = {tensor for part in parts for tensor in part.made}
        inputs = tuple(dict.fromkeys(name for part in parts for name in part.inputs if name not in made))
        outputs = dict.fromkeys(tensor for part in parts for tensor in part.outputs)
        given = [tensor for tensor in outputs if tensor in keep]
        if self.whole is not None and given == list(self.whole.outputs) and inputs == (IMAGE,):
            return self.whole
        names = " & ".join(part.name.removesuffix(".body") for part in parts if part.name != "finish")
        reads = [self.frame if tensor == IMAGE else tensor for tensor in inputs]
        finished = (self.output,) if LABELS in given else ()
        return self.make(names, reads, [tensor for tensor in given if tensor != LABELS], finished)
