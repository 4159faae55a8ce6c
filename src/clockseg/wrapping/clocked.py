"""A module whose calls run on a clock until it is switched off, with outputs of the module's own type."""

from __future__ import annotations

import dataclasses
import inspect
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from clockseg.carry import Carry, Flow, Warp
from clockseg.clocks import PICTURE
from clockseg.clocks.rates import carried, skip_frame
from clockseg.clockwork.network import StagedNetwork, same
from clockseg.clockwork.schedule import Schedule, ScheduleLike, check, schedule_for
from clockseg.clockwork.session import Session
from clockseg.clockwork.trace import Record
from clockseg.errors import UsageError
from clockseg.evaluation.tally import Tally
from clockseg.graph.sidecar import Input
from clockseg.graph.torch_export import entries, pick
from clockseg.wrapping.staging import Staging, pictured

SHAPES = 4
"""The most frame shapes that stay ready; the least recently used one is dropped."""
FORM = "return_dict"
"""An argument that only changes the type of the output (transformers)."""
Batch: TypeAlias = Literal["streams", "frames"]


class Asked(NamedTuple):
    """A batch of frames [n, channels, h, w], or None for a call that the module itself must answer.

    ``form``: the argument for the output's type, if given. ``beside``: names of other arguments, which prevent clocking.
    """

    frames: Tensor | None
    form: Mapping[str, Any] = {}
    beside: tuple[str, ...] = ()


def asked_for(module: nn.Module, first: str, given: tuple[Any, ...], named: Mapping[str, Any]) -> Asked:
    """Classify a call of ``module``; ``first``: the name of its first argument, the frame.

    The module itself must answer in training mode, while it is traced or compiled, if gradients of the frame are needed,
    and if another argument is given that is not None or False (labels, masks, hidden states).
    """
    if module.training or torch.jit.is_tracing() or torch.compiler.is_compiling():
        return Asked(None)
    rest = {str(place): value for place, value in enumerate(given)} | dict(named)
    frames = rest.pop("0" if given else first, None)
    wanted = isinstance(frames, Tensor) and frames.ndim == 4 and len(frames) > 0
    if not wanted or (frames.requires_grad and torch.is_grad_enabled()):
        return Asked(None)
    form = {FORM: rest.pop(FORM)} if rest.get(FORM) is not None else {}
    beside = tuple(name for name, value in rest.items() if value is not None and value is not False)
    return Asked(None if beside else frames, form, beside)


class Forward:
    """Replaces a module's ``forward``; copied or pickled with the module, it becomes the module's own again."""

    def __init__(self, clocked: Callable[..., Any], module: nn.Module, own: Any) -> None:
        self.clocked, self.module, self.own = clocked, module, own
        self.__signature__ = inspect.signature(module.forward if own is None else own)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.clocked(*given, **named)

    def __reduce__(self) -> Any:
        # While the module is made again, its forward is that of its class.
        return (getattr, (self.module, "forward")) if self.own is None else (same, (self.own,))


@dataclass(frozen=True)
class Outcome:
    """The structure of a module's output (a tensor, or a dict, tuple, list or dataclass), and the place of the clocked tensor.

    ``kind``: its type. ``entries``: its entries by key, index or field, None for every tensor. ``key``: that of the clocked
    tensor; None if the output is a tensor.
    """

    kind: type
    entries: dict[Any, Any]
    key: Any

    @classmethod
    def of(cls, given: Any, output: str | None) -> Outcome:
        """Return the structure of ``given``. ``output`` names the tensor, as for ``clockseg.cut``; default "out", "logits", or
        the only tensor. ``UsageError`` if it is nested, or if there are other tensors and ``output`` does not choose one.
        """
        wanted = pick(given, output)
        if given is wanted:
            return cls(type(given), {}, None)
        there = entries(given)
        key = next((key for key, item in there.items() if item is wanted), None)
        if key is None:
            raise UsageError(f"output={output!r} is nested in another entry; choose a tensor at the top level.")
        others = [str(name) for name, item in there.items() if name != key and _holds_tensors(item)]
        if others and output is None:
            raise UsageError(
                f"beside {str(key)!r} the module gives {', '.join(map(repr, others))}, which would not be updated. Give "
                f"output={str(key)!r} to get this one only, or disable the others in the module."
            )
        return cls(type(given), {name: None if _holds_tensors(item) else item for name, item in there.items()}, key)

    def holding(self, tensor: Tensor) -> Any:
        """Return an output of the module's type holding ``tensor``; other tensors are left out of dicts, and None elsewhere."""
        if self.key is None:
            return tensor
        found = self.entries | {self.key: tensor}
        if dataclasses.is_dataclass(self.kind):
            return self.kind(**found)
        if issubclass(self.kind, Mapping):
            return self.kind({name: item for name, item in found.items() if item is not None})  # type: ignore[call-arg]
        values = found.values()
        return self.kind(*values) if hasattr(self.kind, "_fields") else self.kind(values)  # type: ignore[call-arg]


def _holds_tensors(given: Any) -> bool:
    if isinstance(given, Mapping | tuple | list) or (dataclasses.is_dataclass(given) and not isinstance(given, type)):
        return any(map(_holds_tensors, entries(given).values()))
    return isinstance(given, Tensor)


@dataclass
class _Ready:
    """A module in parts for frames of one shape.

    ``sessions``: one per stream, ``tally``: their sums; ``forms``: output structures by arguments.
    """

    net: StagedNetwork
    schedule: Schedule
    weights: list[tuple[Tensor, int, int]]
    sessions: list[Session] = field(default_factory=list)
    forms: dict[tuple[Any, ...], Outcome] = field(default_factory=dict)
    tally: Tally = field(init=False)

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Clear the caches and sums of all streams."""
        self.sessions.clear()
        self.tally = Tally(self.net.names)

    def run(self, session: Session, image: Any) -> Any:
        """Return the output of one of the sessions for its next frame."""
        first = session.memory is None
        output = session(image)
        self.tally = self.tally.add(session.record, first=first)
        return output

    def current(self) -> bool:
        """Return True if the module's weights are unchanged and at the same addresses."""
        return all((t.data_ptr(), t._version) == (place, version) for t, place, version in self.weights)


class Clocked:
    """Control of a wrapped ``module``, returned by ``clockseg.wrap``: switches its clock on and off and reports what ran.

    A ``with`` block over it switches it off at its end. ``said``: the preprocessing of frames, if it is known.
    """

    def __init__(
        self,
        module: nn.Module,
        schedule: ScheduleLike | None,
        carry: Carry | None,
        staging: Staging,
        said: Input | None,
        batch: Batch | None,
    ) -> None:
        self.module, self._asked, self._carry, self._staging = module, schedule, carry, staging
        self._said, self._batch = said, batch
        self.passed = 0
        """Calls that the module itself answered."""
        self._told = False
        self._ready: dict[tuple[Any, ...], _Ready] = {}
        self._lock = threading.RLock()

    @property
    def is_on(self) -> bool:
        """True while calls of the module run on the clock."""
        forward = vars(self.module).get("forward")
        return isinstance(forward, Forward) and forward.clocked == self._call

    def on(self) -> Clocked:
        """Switch it on; the next frame is the first of a clip. ``UsageError`` if another clock is on."""
        own = vars(self.module).get("forward")
        if self.is_on:
            return self
        if isinstance(own, Forward):
            raise UsageError("the module is wrapped already; call off() on the earlier wrapper first.")
        self._plain = self.module.forward
        self._first = next(iter(inspect.signature(self._plain).parameters), "")
        self.module.forward = Forward(self._call, self.module, own)  # type: ignore[method-assign,assignment]
        self.reset()
        return self

    def off(self) -> nn.Module:
        """Switch it off and return the module, whose weights were never changed."""
        if self.is_on:
            own = vars(self.module)["forward"].own
            del self.module.forward
            if own is not None:
                self.module.forward = own  # type: ignore[method-assign]
        return self.module

    def reset(self) -> None:
        """Clear the caches: the next frame is the first of a clip, on which every stage runs."""
        with self._lock:
            for ready in self._ready.values():
                ready.clear()

    def __enter__(self) -> Clocked:
        return self.on()

    def __exit__(self, *error: object) -> None:
        self.off()

    @property
    def net(self) -> StagedNetwork:
        """The module in parts, for frames of the last shape."""
        return self._known().net

    @property
    def schedule(self) -> Schedule:
        """The schedule that it runs on."""
        return self._known().schedule

    @property
    def tally(self) -> Tally:
        """Firings since the start or the last reset, for frames of the last shape."""
        return self._known().tally

    @property
    def record(self) -> Record:
        """Record of the last frame (with several streams: of the last stream)."""
        ready = self._known()
        if not ready.sessions:
            raise UsageError("nothing has run since the reset; call the module with a frame first.")
        return ready.sessions[-1].record

    def _known(self) -> _Ready:
        if not self._ready:
            raise UsageError("nothing has run yet; call the module with a frame first.")
        return next(reversed(self._ready.values()))

    def _call(self, *given: Any, **named: Any) -> Any:
        """Run a call in place of the module's forward."""
        asked = asked_for(self.module, self._first, given, named)
        if asked.frames is not None:
            with self._lock, torch.no_grad():
                return self._run(asked.frames.detach(), asked.form)
        self.passed += 1
        if asked.beside and not self._told:
            self._told = True
            warnings.warn(
                f"a call of the wrapped module isn't clocked because of the arguments {', '.join(asked.beside)} "
                "(shown once; clocked.passed counts such calls)",
                stacklevel=5,
            )
        return self._plain(*given, **named)

    def _run(self, frames: Tensor, asked: Mapping[str, Any]) -> Any:
        self._check(frames)
        ready = self._at(frames[:1])
        key = tuple(asked.items())
        if key not in ready.forms:
            ready.forms[key] = Outcome.of(self._plain(frames[:1], **asked), self._staging.output)
        images = [frame if self._said is None else pictured(frame, self._said) for frame in frames.split(1)]
        made = [ready.run(session, image) for session, image in zip(self._sessions(ready, frames), images)]
        # A copy, because the caller may write into it; made here, outside of any inference mode.
        joined = torch.cat([tensor.to(frames.device, frames.dtype) for tensor in made])
        return ready.forms[key].holding(joined)

    def _check(self, frames: Tensor) -> None:
        if torch.is_autocast_enabled(frames.device.type):
            raise UsageError(
                "autocast is on around a wrapped module; leave it out and give precision='bf16' to clockseg.wrap."
            )
        if len(frames) > 1 and self._batch is None:
            raise UsageError(
                f"a batch of {len(frames)}: give clockseg.wrap its meaning: batch='streams' (each item is the next frame of its "
                "own video) or batch='frames' (frames of one video, in order)."
            )

    def _sessions(self, ready: _Ready, frames: Tensor) -> list[Session]:
        """Return one session for each frame."""
        streams = len(frames) if self._batch == "streams" else 1
        if not ready.sessions:
            ready.sessions += [Session(ready.net, ready.schedule) for _ in range(streams)]
        if len(ready.sessions) != streams:
            raise UsageError(f"{streams} streams after {len(ready.sessions)}; call reset() where their number changes.")
        return ready.sessions if streams == len(frames) else ready.sessions * len(frames)

    def _at(self, frame: Tensor) -> _Ready:
        """Return the parts for frames of this shape, type and device, and for the module's current weights."""
        key = (tuple(frame.shape), frame.dtype, frame.device)
        last = next(reversed(self._ready), None)
        ready = self._ready.pop(key, None)
        if ready is None or not ready.current():
            ready = self._made(frame)
        if key != last:
            ready.clear()
        self._ready[key] = ready
        if len(self._ready) > SHAPES:
            del self._ready[next(iter(self._ready))]
        return ready

    def _made(self, frame: Tensor) -> _Ready:
        """Divide the module and compare it with itself on this frame, switched off; on failure it stays so."""
        module = self.off()
        given, output = self._plain(frame), self._staging.output
        form = Outcome.of(given, output)
        net = self._staging.net(module, frame, pick(given, output))
        schedule = self._schedule(net)
        if self._said is not None:
            prepare: Callable[[Tensor], Any] = net.prepare
            net = replace(net, prepare=lambda image: prepare(image.tensor))
        weights = [(one, one.data_ptr(), one._version) for one in (*module.parameters(), *module.buffers())]
        self.on()
        return _Ready(net, schedule, weights, forms={(): form})

    def _schedule(self, net: StagedNetwork) -> Schedule:
        # Without a schedule: every third frame, warped in between if there are pictures to estimate motion from.
        recommended = skip_frame(3) if self._said is None else carried(skip_frame(3), Warp(Flow()))
        chosen = self._asked or recommended
        if self._carry is not None:
            chosen = carried(chosen, self._carry)
        schedule = schedule_for(chosen, len(net))
        check(net, schedule)
        pictures = any(PICTURE in watched for watched in schedule.watched)
        if (schedule.carry.estimates_motion or pictures) and self._said is None:
            raise UsageError(
                f"the schedule reads the picture (carry {schedule.carry}), so the normalisation of frames must be known: give "
                "processor=, the image processor that prepares them, or a pair (mean, std)."
            )
        return schedule
