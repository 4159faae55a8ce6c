"""An executor for sessions that are replayed from a recording: values are looked up instead of computed, when they are read.

The key of a promise says how its value is computed and from which frames, so that two schedules that would compute the same
value are known to do so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from clockseg.clockwork.clock import PICTURE, Clock, Decision, Tick, View, Watch
from clockseg.clockwork.lazy import Executor, Lazy
from clockseg.errors import UsageError

if TYPE_CHECKING:
    from clockseg.execution.recording import Recording

Key: TypeAlias = tuple[Hashable, ...]
ALONE = Executor()


class Promise:
    """A lazy value that runs when ``value`` is read. Equal keys mean equal values; the last item is the frame, if it is of one."""

    def __init__(self, key: Key, part: Callable[..., Any], *args: Any) -> None:
        calls = tuple([one.call if type(one) is Promise else one for one in args])
        self.key = key
        self.call: Lazy = Lazy(0, str(key[0]), part, calls)

    @property
    def value(self) -> Any:
        """The value.

        >>> Promise(("sum",), int.__add__, Promise(("one",), int, "1"), 2).value
        3
        """
        return ALONE.read(self.call)


def kept(given: Any) -> Any:
    """Return the value of a promise, and any other value as it is."""
    return given.value if isinstance(given, Promise) else given


class Shot(Promise):
    """A recorded frame: its ``shape``, and its picture if that is stored and the schedule declares that it reads it."""

    def __init__(self, recording: Recording, index: int, *, declared: bool = True) -> None:
        super().__init__(("picture", index), recording.look if declared else recording.refuse, PICTURE, index)
        self.index, self.shape = index, recording.frames[index].shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.value.__array__(dtype)


@dataclass
class Replay(Executor):
    """An executor that looks the values of a recording up instead of computing them. ``carry``: identity, or a warp.

    The value of a call is a promise; for the data that a carry keeps of a frame, it is the frame's number. Bodies and heads
    are looked up, since a stage that fires has the oracle's value; so are values fused from one frame.
    """

    recording: Recording
    carry: Any

    def force(self, batch: Sequence[Lazy]) -> None:
        """Promise the value of each call."""
        for call in batch:
            args = tuple([one.value if type(one) is Lazy else one for one in call.args])
            call.value = args[1].index if call.name == "see" else self._promised(call, args)

    def ask(self, clock: Clock, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Return the decision of a clock that reads values in place of promises, and may not read the time."""
        return super().ask(clock, ReplayTick(*tick), state)

    def _promised(self, call: Lazy, args: tuple[Any, ...]) -> Promise:
        name = call.name
        if name == "observe":
            estimator, (before, now) = self.carry.motion, args
            return Promise(("motion", estimator, before, now), self.recording.motion, estimator, now)
        if name == "compose":
            first, then = args
            return then if first is None else Promise((*first.key[:-1], then.key[-1]), call.part, first, then)
        if name == "prepare":
            return cast(Promise, args[0])  # only bodies read it, and these are looked up
        if name.endswith((".scores", ".features")) and (recorded := self._watched(name, args[0])):
            return recorded
        if name.endswith((".body", ".head")):
            return self._looked_up(("trunk" if name.endswith(".body") else "held", call.kind), args[0].key[-1])
        # For values of a single frame, it is the oracle's result.
        index = None if name in ("move", "restore") else _of_one_frame(args)
        if index is not None and name == "finish":
            return self._looked_up("output", index)
        key = (name, *(one.key for one in args)) if index is None else ("whole", name, index)
        return Promise(key, call.part, *args)

    def _watched(self, name: str, given: Promise) -> Promise | None:
        """Return the recorded map that a clock watches; None if it is made from another value that is recorded."""
        value, index = given.key[0], cast(int, given.key[-1])
        if not isinstance(value, tuple):
            return None
        of = ("features",) if name.endswith(".features") else ("scores", "labels")
        maps = (Watch(one, value[1] + 1) for one in of)
        return next((self._looked_up(one, index) for one in maps if one in self.recording.keep), None)

    def _looked_up(self, name: Hashable, index: Any) -> Promise:
        return Promise((name, index), self.recording.look, name, index)


def _of_one_frame(values: tuple[Any, ...]) -> int | None:
    """Return the frame that all of these values are of, as the oracle has them; None if they are of several, or moved."""
    own = all(isinstance(value.key[0], tuple) or value.key[0] == "whole" for value in values)
    frames = {value.key[-1] for value in values}
    return int(frames.pop()) if own and len(frames) == 1 else None


class ReplayTick(Tick):
    """A tick on promises, each computed when a clock reads it. It has no time: a replay takes other seconds than the run."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name == "last_seconds":
            raise UsageError(
                f"a clock that reads tick.{name} can't be replayed; it must declare not_replayable, the reason."
            )
        if name == "views":
            return {watch: View(*map(kept, view)) for watch, view in found.items()}
        return kept(found)
