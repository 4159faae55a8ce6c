"""``clockseg`` and ``python -m clockseg``: where the process begins."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

_GARBAGE = 10_000
"""New objects between two searches for reference cycles: with Python's 700, imports alone cause hundreds of searches."""


def main() -> int:
    """Run the command line; returns the exit code: 130, without a word, if interrupted before it has begun.

    SIGTERM and SIGHUP clean up as an interrupt does; then it is 143 or 129.
    """
    _open_missing()
    gc.set_threshold(_GARBAGE, *gc.get_threshold()[1:])
    # Numpy multiplies no large matrices here, and the threads of OpenBLAS wait actively, which slows down the engine's.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # OpenVINO's converter of models, which no command uses, takes a tenth of a second to import.
    sys.modules["openvino.tools.ovc"] = None  # type: ignore[assignment]  # importlib reads None as "not installed"
    try:
        end_cleanly()
        from clockseg.cli.main import main as run

        return run()
    except KeyboardInterrupt as error:
        return getattr(error, "exit_code", 130)


def _open_missing() -> None:
    """Started without standard streams, the first file opened would become one, and what libraries print go into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115, PTH123  # as long as the process
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123


def end_cleanly() -> None:
    """Let SIGTERM and SIGHUP raise ``Ended`` in the main thread, once; one that is ignored stays ignored."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Under nohup it is to be ignored.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    from clockseg.errors import Ended

    # Once is enough: a second one must not stop the cleaning up.
    signal.signal(number, signal.SIG_IGN)
    raise Ended(number)


if __name__ == "__main__":
    sys.exit(main())
