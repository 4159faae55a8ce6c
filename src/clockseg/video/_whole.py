"""What is completed as a whole or not at all: ``close`` at the end of a ``with`` block, ``abort`` on any failure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Whole(ABC):
    """Leaving a ``with`` block closes; leaving it by an exception aborts, and so does a ``close`` that fails.

    >>> class Told(Whole):
    ...     def close(self): print("closed")
    ...     def abort(self): print("aborted")
    >>> with Told():
    ...     pass
    closed
    """

    @abstractmethod
    def close(self) -> None:
        """Completes it."""

    @abstractmethod
    def abort(self) -> None:
        """Leaves nothing of it behind."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return self.abort()
        try:
            self.close()
        except BaseException:
            self.abort()
            raise
