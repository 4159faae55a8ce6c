"""Results that were recorded at a known commit come out the same; ``goldens/record.py`` compares the slow ones as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from goldens import record


@pytest.mark.slow
@pytest.mark.parametrize("name", record.runs.QUICK)
def test_a_quick_run_gives_what_was_recorded(name: str, tmp_path: Path) -> None:
    found = record.runs.RUNS[name](tmp_path)
    assert record.compare(name, found, alone=False) == []


def test_a_difference_is_named() -> None:
    maps = {"sha256": "a", "frames": ["a", "b"], "counts": {"0": 90, "1": 10}, "shape": [2, 5, 10]}
    other = {"sha256": "b", "frames": ["a", "c"], "counts": {"0": 80, "1": 20}, "shape": [2, 5, 10]}
    there, here = {"labels": maps, "rate": 0.5, "gone": 1}, {"labels": other, "rate": 0.25, "new": 1}
    assert list(record.differences(there, here, "", exact=True)) == [
        "/gone: is gone",
        "/labels: other maps from frame 1 on; class counts differ by 10.000 % of the pixels",
        "/new: is new",
        "/rate: 0.5 -> 0.25",
    ]


def test_with_other_versions_small_differences_are_none() -> None:
    maps = {"sha256": "a", "frames": ["a"], "counts": {"0": 1000}, "shape": [1, 10, 100]}
    other = {"sha256": "b", "frames": ["b"], "counts": {"0": 999, "1": 1}, "shape": [1, 10, 100]}
    assert list(record.differences([maps, 0.5], [other, 0.501], "", exact=False)) == []
    assert list(record.differences([maps, 0.5], [other, 0.6], "", exact=False)) == ["[1]: 0.5 -> 0.6"]
