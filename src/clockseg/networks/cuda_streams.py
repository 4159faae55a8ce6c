"""Pipelines on a GPU: the segments of a schedule with delays, each in a CUDA stream of its own.

Not yet run on a GPU: written from torch's documented stream semantics, and tested for the order of its waits alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.session import Map
from clockseg.errors import MissingDependency, UsageError


@contextmanager
def cuda_streams(schedule: Schedule, *, device: str = "cuda") -> Iterator[Map]:
    """A ``map`` for ``step``, ``run`` and ``Session`` that launches each segment of ``schedule`` in its own CUDA stream.

    For networks in torch on ``device``. One host thread launches all segments; the GPU may run them at once. Each waits
    for what the frame before left in the current stream, which in turn waits for all of them before it fuses. ``UsageError``
    where torch finds no such device. A clock that reads a map on the host waits for its own stream only.

    >>> from clockseg.clockwork.schedule import pipelined
    >>> with cuda_streams(pipelined(2)(3), device="cuda:99") as map:  # doctest: +IGNORE_EXCEPTION_DETAIL
    ...     pass
    Traceback (most recent call last):
    clockseg.errors.UsageError: there is no CUDA device 'cuda:99' ...
    """
    try:
        import torch
    except ImportError as error:
        raise MissingDependency("pipelines on a GPU need torch: pip install '.[torch]' in the clone") from error
    _check(torch, device)
    streams = [torch.cuda.Stream(device=device) for _ in schedule.segments()]

    def in_streams(function: Callable[[Any], Any], segments: Iterable[Any]) -> list[Any]:
        current = torch.cuda.current_stream(device)
        left = current.record_event()
        made = []
        try:
            for stream, segment in zip(streams, segments, strict=True):
                stream.wait_event(left)
                with torch.cuda.stream(stream):
                    made.append(function(segment))
        finally:
            # The allocator gives freed memory to its own stream again; since every stream has waited for `current`, and
            # `current` for every stream, nothing still reads what was freed at the end of a step. So no record_stream.
            for stream in streams:
                current.wait_stream(stream)
        return made

    yield in_streams
    torch.cuda.synchronize(device)


def _check(torch: Any, device: str) -> None:
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind, _, index = device.partition(":")
    if kind != "cuda" or not (not index or index.isdigit()) or int(index or 0) >= found:
        raise UsageError(
            f"there is no CUDA device {device!r} (torch finds {found}); on the CPU run segments at once in threads: "
            "clockseg.execution.pipeline.concurrent."
        )
