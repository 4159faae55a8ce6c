"""Reports: one self-contained HTML page on a result folder, or on several compared: firings, costs, masks and differences."""

from clockseg.report.write import write

__all__ = ["write"]
