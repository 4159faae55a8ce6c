"""Processes that take signals as one begun in a terminal does."""

from __future__ import annotations

import signal


def as_in_a_terminal() -> None:
    """For ``preexec_fn``: what began the tests (nohup, a job in the background) may ignore signals, and children inherit it."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
