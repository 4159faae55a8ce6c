"""A clock that a small graph makes: trained, or any that fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clockseg.clocks.change import number
from clockseg.clocks.learned_inputs import MOTIONS, looks, signals, value
from clockseg.clockwork.clock import Decision, Tick, Watch
from clockseg.errors import UsageError

if TYPE_CHECKING:
    from clockseg.clocks.learned_graph import Graph


@dataclass(frozen=True)
class Learned:
    """Fires where the graph in ``file`` gives at least ``threshold``, 0..1: the share of labels that a firing would change.

    ``file``: NAME.onnx, whose inputs are known by their names (docs/train.md) and whose one output is a number
    0..1, the signal. It runs in onnxruntime or openvino, on one thread. Its state is the history, where it reads one.

    >>> Learned("no.onnx")
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: learned('no.onnx'): give the path of a clock, NAME.onnx, as clockseg train clock writes it.
    """

    file: str
    threshold: float = 0.1

    def __post_init__(self) -> None:
        number(self.threshold, "the threshold")
        if not isinstance(self.file, str):
            raise UsageError(
                f'learned({self.file!r}); give the path of a clock in quotes, such as learned("clock.onnx").'
            )
        _graph(self.file)

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """From the graph's output."""
        graph = _graph(self.file)
        history = next((one for one in graph.inputs if one.name == "history"), None)
        rows: tuple[tuple[float, ...], ...] = ()
        if history is not None:
            rows = (*(state or ()), signals(tick))[-(history.shape[2] or 1) :]
        found = graph.run({one.name: value(one, tick, rows, graph.watch) for one in graph.inputs})
        if found.size != 1 or not -1e-6 <= float(found.reshape(())) <= 1 + 1e-6:
            raise UsageError(
                f"learned clock {self.file} gave {found.reshape(-1)[:3].tolist()} of shape {list(found.shape)}; "
                "its output is to be one number, 0..1: end it with a sigmoid."
            )
        signal = min(1.0, max(0.0, float(found.reshape(()))))
        return Decision(signal >= self.threshold, signal), rows or None

    def looks(self, stage: int) -> frozenset[Watch]:
        """At what its graph has inputs for."""
        graph = _graph(self.file)
        return looks(graph.inputs, graph.watch)

    @property
    def watch(self) -> int | None:
        """The stage whose features or scores it reads (1 is the first), if any."""
        return _graph(self.file).watch

    @property
    def needs_motion(self) -> bool:
        """Whether it reads what only a carry that finds motion knows."""
        return any(one.name in MOTIONS for one in _graph(self.file).inputs)


def _graph(file: str) -> Graph:
    # The onnx package takes a while to import, and most schedules need no learned clock.
    from clockseg.clocks.learned_graph import load

    return load(file)
