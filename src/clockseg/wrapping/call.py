"""A call of a module's forward: whether it asks for a frame and no more, which can be clocked, and the frame."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

FORM = "return_dict"
"""An argument that changes the type of what is given and nothing else (transformers)."""


class Asked(NamedTuple):
    """A batch of frames [n, channels, h, w], None in a call that the module has to answer as it is.

    ``form``: what was said of the outcome's type, if anything. ``beside``: what is given beside frames that prevents a clock.
    """

    frames: Tensor | None
    form: Mapping[str, Any] = {}
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Calls:
    """The calls of ``module``, whose own forward is ``plain``."""

    module: nn.Module
    plain: Callable[..., Any]
    signature: inspect.Signature

    @classmethod
    def of(cls, module: nn.Module, plain: Callable[..., Any]) -> Calls:
        """By the signature of ``plain``."""
        return cls(module, plain, inspect.signature(plain))

    def asked(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> Asked:
        """Classify a call.

        The module has to answer as it is: in training mode, while it is traced or compiled, where gradients of the frame are
        wanted, and where anything else is given that isn't None or False (labels, masks, hidden states).
        """
        if self.module.training or torch.jit.is_tracing() or torch.compiler.is_compiling():
            return Asked(None)
        try:
            arguments = self.signature.bind(*given, **named).arguments
        except TypeError:
            return Asked(None)
        frames, rest = _first(self.signature, arguments)
        wanted = isinstance(frames, Tensor) and frames.ndim == 4 and len(frames) > 0
        if not wanted or (frames.requires_grad and torch.is_grad_enabled()):
            return Asked(None)
        form = {FORM: rest.pop(FORM)} if rest.get(FORM) is not None else {}
        rest.pop(FORM, None)
        beside = tuple(name for name, value in rest.items() if value is not None and value is not False)
        return Asked(None if beside else frames, form, beside)


def _first(signature: inspect.Signature, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The first argument, and all others, those of ``**kwargs`` among them."""
    name, kind = next(((one.name, one.kind) for one in signature.parameters.values()), ("", None))
    rest: dict[str, Any] = {}
    for key, value in arguments.items():
        if signature.parameters[key].kind is inspect.Parameter.VAR_KEYWORD:
            rest |= value
        else:
            rest[key] = value
    found = rest.pop(name, None)
    if kind is inspect.Parameter.VAR_POSITIONAL and found:
        return found[0], rest | dict(zip(map(str, range(1, len(found))), found[1:], strict=True))
    return found, rest


class Forward:
    """Stands in a module's place of ``forward``; copied or pickled with the module, it is the module's own again."""

    def __init__(self, clocked: Callable[..., Any], module: nn.Module, own: Any) -> None:
        self.clocked, self.module, self.own = clocked, module, own
        self.__signature__ = inspect.signature(module.forward if own is None else own)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.clocked(*given, **named)

    def __reduce__(self) -> Any:
        if self.own is not None:
            return _same, (self.own,)
        return _bound, (type(self.module).forward, self.module)


def _bound(function: Callable[..., Any], module: nn.Module) -> Any:
    return types.MethodType(function, module)


def _same(value: Any) -> Any:
    return value
