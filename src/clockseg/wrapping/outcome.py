"""Outputs of modules (a tensor, or a dict, tuple, list or dataclass of tensors) with one tensor replaced."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from clockseg.errors import UsageError
from clockseg.graph.torch_export import pick


@dataclass(frozen=True)
class Outcome:
    """The form of what a module gives, and where in it the tensor lies that is computed on a clock.

    ``kind``: its type. ``entries``: what it holds by key, place or field, None for every tensor. ``key``: of the tensor; None
    where the module gives a tensor and nothing else.
    """

    kind: type
    entries: dict[Any, Any]
    key: Any

    @classmethod
    def of(cls, given: Any, output: str | None) -> Outcome:
        """``output`` names the tensor as for ``clockseg.cut``; without it "out" or "logits", or the only tensor there is.

        ``UsageError`` where there are tensors beside it and ``output`` doesn't say that they may go, for nobody would compute
        them; and where it lies deeper than at the top.
        """
        wanted = pick(given, output)
        if isinstance(given, Tensor):
            return cls(type(given), {}, None)
        entries = _entries(given)
        key = next((key for key, item in entries.items() if item is wanted), None)
        if key is None:
            raise UsageError(f"output={output!r} lies inside of another; a module is wrapped for one at the top.")
        others = [str(name) for name, item in entries.items() if name != key and _holds_tensors(item)]
        if others and output is None:
            raise UsageError(
                f"beside {str(key)!r} the module gives {', '.join(map(repr, others))}, which nobody would compute anew. Give "
                f"output={str(key)!r} to have that alone, or switch the others off in the module."
            )
        return cls(type(given), {name: None if _holds_tensors(item) else item for name, item in entries.items()}, key)

    def tensor(self, given: Any) -> Tensor:
        """Return the clocked tensor from an output of the module."""
        return given if self.key is None else _entries(given)[self.key]  # type: ignore[no-any-return]

    def holding(self, tensor: Tensor) -> Any:
        """Return an output of the module's type holding ``tensor``; other tensors are left out of dicts, and None elsewhere.

        >>> import torch
        >>> Outcome.of({"out": torch.zeros(1), "aux": torch.zeros(1)}, "out").holding(torch.ones(1))
        {'out': tensor([1.])}
        """
        if self.key is None:
            return tensor
        found = {name: tensor if name == self.key else item for name, item in self.entries.items()}
        if dataclasses.is_dataclass(self.kind):
            return self.kind(**found)
        if issubclass(self.kind, Mapping):
            return self.kind({name: item for name, item in found.items() if item is not None})  # type: ignore[call-arg]
        named = getattr(self.kind, "_fields", None) is not None
        return self.kind(*found.values()) if named else self.kind(found.values())  # type: ignore[call-arg]


def _entries(given: Any) -> dict[Any, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, tuple | list):
        return dict(enumerate(given))
    return {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}


def _holds_tensors(given: Any) -> bool:
    if isinstance(given, Mapping | tuple | list) or (dataclasses.is_dataclass(given) and not isinstance(given, type)):
        return any(map(_holds_tensors, _entries(given).values()))
    return isinstance(given, Tensor)
