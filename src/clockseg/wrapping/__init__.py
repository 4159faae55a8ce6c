"""Clocked execution of a torch module that is already in use, without other changes to its program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clockseg import libraries
from clockseg.carry import parse_carry
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from clockseg.networks.cut_torch import Cuts
    from clockseg.wrapping.clocked import Batch, Clocked


def wrap(
    module: nn.Module,
    schedule: str | ScheduleLike | None = None,
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
    """Run ``module`` under a schedule from now on: each call is the next frame of a video.

    ``module``: its first argument is a tensor [n, channels, h, w], and it returns a tensor, or an object that holds one
    (transformers' ``logits``); the output keeps its type, shape and device. ``schedule``: as for ``Session``; by
    default every third frame, and with ``processor`` the output is warped in between.

    ``engine``: "torch", with a copy of the weights that follows the module's; "module", with the module's own weights; or
    "openvino", "onnxruntime", "auto", for which the module is exported. ``precision`` and ``threads``: of the engine. ``carry``: such
    as "warp(flow)"; carries and clocks that read the picture need ``processor``, the image processor of transformers that
    prepares frames, or a pair (mean, std) for pixels 0..1. ``at``, ``stages`` and ``output``: as for ``clockseg.cut``.
    ``batch``: the meaning of a batch of several frames, "streams" (one of each video) or "frames" (of one video).
    ``tolerance``: the largest allowed difference between stages and module, as a share of the largest output value; they are compared
    on the first frame of each shape.

    The module must be in eval mode. The first call of each shape takes seconds, because the module is exported and cut;
    ``NetworkError`` if that fails, with the module left as it was. The original module runs in training mode, with labels
    or other arguments besides the frame, and with a frame that needs gradients; other outputs have no gradients.

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
    from clockseg.wrapping.clocked import Clocked
    from clockseg.wrapping.staging import Staging, preprocessing

    return Clocked(
        module,
        parse_schedule(schedule) if isinstance(schedule, str) else schedule,
        parse_carry(carry) if isinstance(carry, str) else carry,
        Staging(engine, precision, threads, at, stages, None if output is None else str(output), tolerance),
        None if processor is None else preprocessing(processor),
        batch,
    ).on()


def _check(module: Any, batch: Any) -> None:
    """Raise an error for a module or a ``batch`` that can't be wrapped."""
    if not isinstance(module, libraries.torch("wrapping a module").nn.Module):
        raise UsageError(
            f"the module is a {type(module).__name__}; give a torch.nn.Module, such as transformers' models."
        )
    if module.training:
        raise UsageError("the module is in training mode; call eval() on it first.")
    if batch not in (None, "streams", "frames"):
        raise UsageError(f"batch={batch!r}; give 'streams' or 'frames'.")
