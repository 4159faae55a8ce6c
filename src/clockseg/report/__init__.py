"""What ran when, what it cost and what came of it: one self-contained HTML file of a result folder, or of several compared."""

from clockseg.report.write import write

__all__ = ["write"]
