"""Fixtures that several test files share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Torch on one thread: maps are tiny, and several threads would only wait for each other."""
    torch = pytest.importorskip("torch", reason="the authoring side needs torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
