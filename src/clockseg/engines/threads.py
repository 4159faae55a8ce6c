"""How many threads an engine runs on."""

from __future__ import annotations

from clockseg.engines.provenance import cores
from clockseg.errors import UsageError


def threads_or_all(threads: int | None) -> int:
    """``threads``, or as many as this process may use.

    >>> threads_or_all(2)
    2
    """
    if threads is None:
        return cores()
    if threads < 1:
        raise UsageError(f"threads={threads}: an engine needs at least 1; leave it out for all that there are.")
    return threads
