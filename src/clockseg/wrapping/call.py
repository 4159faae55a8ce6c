"""Calls of a module's forward: the frames that a call asks for, and outputs of the module's own type."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clockseg.clockwork.network import same
from clockseg.errors import UsageError
from clockseg.graph.torch_export import entries, pick

FORM = "return_dict"
"""An argument that only changes the type of the output (transformers)."""


class Asked(NamedTuple):
    """A batch of frames [n, channels, h, w], or None for a call that the module itself must answer.

    ``form``: the argument for the output's type, if given. ``beside``: names of other arguments, which prevent clocking.
    """

    frames: Tensor | None
    form: Mapping[str, Any] = {}
    beside: tuple[str, ...] = ()


def asked_for(module: nn.Module, first: str, given: tuple[Any, ...], named: Mapping[str, Any]) -> Asked:
    """Classify a call of ``module``; ``first``: the name of its first argument, the frame.

    The module itself must answer in training mode, while it is traced or compiled, if gradients of the frame are needed,
    and if another argument is given that is not None or False (labels, masks, hidden states).
    """
    if module.training or torch.jit.is_tracing() or torch.compiler.is_compiling():
        return Asked(None)
    rest = {str(place): value for place, value in enumerate(given)} | dict(named)
    frames = rest.pop("0" if given else first, None)
    wanted = isinstance(frames, Tensor) and frames.ndim == 4 and len(frames) > 0
    if not wanted or (frames.requires_grad and torch.is_grad_enabled()):
        return Asked(None)
    form = {FORM: rest.pop(FORM)} if rest.get(FORM) is not None else {}
    beside = tuple(name for name, value in rest.items() if value is not None and value is not False)
    return Asked(None if beside else frames, form, beside)


class Forward:
    """Replaces a module's ``forward``; copied or pickled with the module, it becomes the module's own again."""

    def __init__(self, clocked: Callable[..., Any], module: nn.Module, own: Any) -> None:
        self.clocked, self.module, self.own = clocked, module, own
        self.__signature__ = inspect.signature(module.forward if own is None else own)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.clocked(*given, **named)

    def __reduce__(self) -> Any:
        # While the module is made again, its forward is that of its class.
        return (getattr, (self.module, "forward")) if self.own is None else (same, (self.own,))


@dataclass(frozen=True)
class Outcome:
    """The structure of a module's output (a tensor, or a dict, tuple, list or dataclass), and the place of the clocked tensor.

    ``kind``: its type. ``entries``: its entries by key, index or field, None for every tensor. ``key``: that of the clocked
    tensor; None if the output is a tensor.
    """

    kind: type
    entries: dict[Any, Any]
    key: Any

    @classmethod
    def of(cls, given: Any, output: str | None) -> Outcome:
        """Return the structure of ``given``. ``output`` names the tensor, as for ``clockseg.cut``; default "out", "logits", or
        the only tensor. ``UsageError`` if it is nested, or if there are other tensors and ``output`` does not choose one.
        """
        wanted = pick(given, output)
        if given is wanted:
            return cls(type(given), {}, None)
        there = entries(given)
        key = next((key for key, item in there.items() if item is wanted), None)
        if key is None:
            raise UsageError(f"output={output!r} is nested in another entry; choose a tensor at the top level.")
        others = [str(name) for name, item in there.items() if name != key and _holds_tensors(item)]
        if others and output is None:
            raise UsageError(
                f"beside {str(key)!r} the module gives {', '.join(map(repr, others))}, which would not be updated. Give "
                f"output={str(key)!r} to get this one only, or disable the others in the module."
            )
        return cls(type(given), {name: None if _holds_tensors(item) else item for name, item in there.items()}, key)

    def holding(self, tensor: Tensor) -> Any:
        """Return an output of the module's type holding ``tensor``; other tensors are left out of dicts, and None elsewhere."""
        if self.key is None:
            return tensor
        found = self.entries | {self.key: tensor}
        if dataclasses.is_dataclass(self.kind):
            return self.kind(**found)
        if issubclass(self.kind, Mapping):
            return self.kind({name: item for name, item in found.items() if item is not None})  # type: ignore[call-arg]
        values = found.values()
        return self.kind(*values) if hasattr(self.kind, "_fields") else self.kind(values)  # type: ignore[call-arg]


def _holds_tensors(given: Any) -> bool:
    if isinstance(given, Mapping | tuple | list) or (dataclasses.is_dataclass(given) and not isinstance(given, type)):
        return any(map(_holds_tensors, entries(given).values()))
    return isinstance(given, Tensor)
