"""Run one measurement: ``python -m benchmarks NAME``."""

from __future__ import annotations

import sys

from benchmarks.harness import main

sys.exit(main(sys.argv[1:]))
