"""``python -m clockseg``."""

import sys

from clockseg.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
