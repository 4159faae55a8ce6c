"""Tables of evaluations: text for people, and CSV and LaTeX files."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clockseg.errors import UsageError
from clockseg.files import whole

if TYPE_CHECKING:
    from clockseg.evaluation.evaluate import Evaluation


def shown(value: float | None, form: Callable[[float], str]) -> str:
    """Format ``value``, or return a dash for None."""
    return "-" if value is None else form(value)


def percent(share: float | None) -> str:
    """Format a share as a percentage, or return a dash for None."""
    return shown(share, lambda share: f"{100 * share:.1f} %")


Columns: TypeAlias = dict[str, tuple[str, Callable[[Any], str]]]
"""For each heading, the place of its value in the facts, and its format."""
_SCORES: Columns = {
    "mIoU": ("mean_iu", percent),
    "kept": ("kept", percent),
    "agreement": ("agreement.mean_iu", percent),
    "pixels": ("agreement.pixel_acc", percent),
    "relative error": ("agreement.relative_error", percent),
    "worst frame": ("agreement.worst_frame", percent),
    "flicker": ("flicker.flicker", percent),
    "uncut flicker": ("uncut_flicker.flicker", percent),
}
"""Labels and numbers have some of these each."""
_COSTS: Columns = {
    "network rate": ("network_rate", percent),
    "ms/frame": ("seconds_per_frame", lambda seconds: f"{1000 * seconds:.2f}"),
    "relative time": ("relative_time", lambda share: f"{share:.3f}"),
    "relative mult-adds": ("relative_multiply_adds", lambda share: f"{share:.3f}"),
}


def table(found: Sequence[Evaluation]) -> list[list[str]]:
    """Return rows of text, one per evaluation below a row of headings; ``-`` where there is nothing to report."""
    rows = [_flat(one) for one in found]
    scores = {heading: column for heading, column in _SCORES.items() if column[0] in rows[0]}
    # Baselines have other stages.
    fires = {f"fires {stage}": (f"fire_rate.{stage}", percent) for stage in found[0].facts()["fire_rate"]}
    columns = scores | fires | _COSTS
    body = [[str(row["schedule"]), *(shown(row.get(place), form) for place, form in columns.values())] for row in rows]
    return [["schedule", *columns], *body]


def write_table(found: Sequence[Evaluation], path: Path) -> None:
    """Write all figures as FILE.csv, in full precision, or the rows of ``table`` as FILE.tex (a LaTeX tabular)."""
    if path.suffix not in (".csv", ".tex"):
        raise UsageError(f"{path}: give a name that ends in .csv or .tex.")
    rows = [_flat(one) for one in found]
    with whole(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        if path.suffix == ".tex":
            file.write(_latex(table(found)))
        else:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)


def _latex(rows: Sequence[Sequence[str]]) -> str:
    head, *body = [" & ".join(map(_escaped, row)) + r" \\" for row in rows]
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}", r"\hline", head, r"\hline", *body, r"\hline"]
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def _escaped(text: str) -> str:
    return "".join(f"\\{one}" if one in "%_&#${}" else one for one in text)


def _flat(one: Evaluation) -> dict[str, Any]:
    """Return all figures by their place, such as ``agreement.mean_iu``."""
    return dict(_leaves(one.facts() | ({"kept": one.kept} if one.classes else {})))


def _leaves(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in facts.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
