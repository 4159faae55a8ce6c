"""Wrapping a module; torch is loaded when one comes, so that the name is there without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clockseg.carry import parse_carry
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.schedule import Named, Schedule
from clockseg.errors import MissingDependency, UsageError, install

if TYPE_CHECKING:
    from torch import nn

    from clockseg.wrapping.clocked import Batch, Clocked
    from clockseg.wrapping.staging import Cuts

RECOMMENDED = "recommended"


def wrap(
    module: nn.Module,
    schedule: str | Schedule | Named = RECOMMENDED,
    *,
    engine: str = "torch",
    precision: str = "f32",
    threads: int | None = None,
    carry: Any = None,
    processor: Any = None,
    at: Cuts = "auto",
    stages: int = 3,
    output: str | int | None = None,
    batch: Batch | None = None,
    tolerance: float = 1e-4,
) -> Clocked:
    """``module``, in use in a loop over frames, from now on run on a clock: each call is the next frame.

    ``module``: any that reads a tensor [n, channels, h, w] first and gives a tensor, or something with one in it (transformers'
    ``logits``); what it gives keeps its type, shape and device. ``schedule``: as everywhere, or "recommended": with
    ``processor`` every third frame, moved along in between; else the stages behind the first fire when its features have
    changed by as much as in a move of the first frame by 0.5 % of its width.

    ``engine``: "torch", with weights of its own that follow the module's; "module", on these themselves; or "openvino",
    "onnxruntime", "auto", for which it is exported. ``precision`` and ``threads``: of the engine. ``carry``: such as
    "warp(flow)"; what looks at the picture needs ``processor``, the image processor of transformers that prepares frames, or
    a pair (mean, std) for pixels 0..1. ``at``, ``stages`` and ``output``: as for ``clockseg.cut``. ``batch``: what a batch of
    several is, "streams" (an item of each video) or "frames" (of one). ``tolerance``: how far the parts may be from the module,
    as a share of its largest number; they are compared on the first frame of each shape.

    It has to be in eval mode. The first call of each shape takes seconds: there the module is exported and divided.
    ``NetworkError`` if that can't be done, with the module left as it was. Calls in training mode, with labels or with other
    arguments than the frame, and with a frame that wants gradients go to the module itself; what else comes has no gradients.

    >>> import torch
    >>> from torch import nn
    >>> module = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 2, 3, 2, 1)).eval()
    >>> clocked = wrap(module, "skip_frame(2)", stages=2)
    >>> frames = torch.rand(4, 1, 3, 32, 32)
    >>> [torch.equal(module(frames[t]), module(frames[t])) for t in (0, 2)], clocked.tally.network_rate
    ([True, True], 0.3333333333333333)
    >>> clocked.off() is module
    True
    """
    _check(module, batch)
    from clockseg.wrapping.clocked import Clocked, Wrapping
    from clockseg.wrapping.picture import Normalisation
    from clockseg.wrapping.staging import Staging

    chosen = parse_schedule(schedule) if isinstance(schedule, str) and schedule != RECOMMENDED else schedule
    how = Wrapping(
        None if isinstance(chosen, str) else chosen,
        parse_carry(carry) if isinstance(carry, str) else carry,
        Staging(engine, precision, threads, at, stages, None if output is None else str(output)),
        None if processor is None else Normalisation.of(processor),
        batch,
        tolerance,
    )
    return Clocked(module, how).on()


def _check(module: Any, batch: Any) -> None:
    """Refuse what can't be wrapped."""
    try:
        from torch import nn
    except ImportError as error:
        raise MissingDependency(f"wrapping a module needs torch: {install('torch')}") from error
    if not isinstance(module, nn.Module):
        raise UsageError(
            f"the module is a {type(module).__name__}; give a torch.nn.Module, such as transformers' models."
        )
    if module.training:
        raise UsageError("the module is in training mode, in which nothing is clocked; call eval() on it first.")
    if batch not in (None, "streams", "frames"):
        raise UsageError(f"batch={batch!r}; give 'streams' or 'frames'.")
