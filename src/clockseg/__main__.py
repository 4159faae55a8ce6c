"""``clockseg`` and ``python -m clockseg``: where the process begins."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; returns the exit code: 130, without a word, if interrupted before it has begun.

    >>> main.__name__
    'main'
    """
    try:
        from clockseg.commands.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
