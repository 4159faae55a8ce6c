"""Fixtures that several test files share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import hypothesis
import pytest

# Maps are tiny, and as many processes run tests as there are cores: several threads would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test is timed: a busy machine must not fail one.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names that differ between processes, and skip examples in docstrings that import torch where it is missing."""
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError(f"the name of {unstable[0]} contains an address; give its parameters ids=[...].")
    if find_spec("torch"):
        return
    for item in items:
        if isinstance(item, pytest.DoctestItem) and "import torch" in item.dtest.docstring:
            item.add_marker(pytest.mark.skip(reason="needs torch"))


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Give torch its one thread back after tests of engines, which set the number for the whole process."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
