"""A torch module as one graph of operations without side effects, through torch.export, at the shape of an example."""

from __future__ import annotations

import dataclasses
import io
import linecache
import re
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from clockseg.errors import ClocksegError, NetworkError, UsageError, first_line, nearest
from clockseg.libraries import silent_logs

WAYS_OUT = "Export it to ONNX and cut that file, or build a clockseg.StagedNetwork from clockseg.Stage objects."
INNER = "module."
"""The prefix of the names of a module's parameters and submodules in its exported graph."""
_USUAL = ("out", "logits")
# What these make is in memory of its own, so that writing into it in place is the same as making it again.
_FRESH = ("conv2d", "conv_transpose2d", "batch_norm", "group_norm", "layer_norm", "linear", "matmul", "add", "sub", "mul",
          "div", "relu", "silu", "gelu", "sigmoid", "cat", "upsample_bilinear2d", "upsample_nearest2d", "avg_pool2d",
          "max_pool2d", "adaptive_avg_pool2d")  # fmt: skip


class Picked(nn.Module):  # type: ignore[misc,unused-ignore]
    """``module`` giving one tensor of what it gives: the one that ``output`` names."""

    def __init__(self, module: nn.Module, output: str | None) -> None:
        super().__init__()
        self.module, self.output = module, output

    def forward(self, image: Tensor) -> Tensor:
        """Run the module on [n, channels, h, w]; in graphs the argument's name, ``part.IMAGE``, is that of the input."""
        return pick(self.module(image), self.output)


def pick(value: Any, output: str | None = None) -> Tensor:
    """Pick one tensor of a module's output: a tensor, dict, tuple, list or dataclass of them.

    ``output``: a key, an index or a field's name, dotted for what lies deeper ("aux.0"). Without it "out" or "logits",
    else the only tensor there is.
    """
    if isinstance(value, Tensor):
        if output:
            raise UsageError(f"output={output!r}: the module returns one tensor; leave output= out.")
        return value
    there = {str(name): item for name, item in entries(value).items()}
    first, _, rest = (output or "").partition(".")
    tensors = [name for name, item in there.items() if isinstance(item, Tensor)]
    if output is None:
        first = next((name for name in _USUAL if name in tensors), tensors[0] if len(tensors) == 1 else "")
    if first not in there:
        several = f"the module gives {'several tensors' if tensors else 'no tensor on its own'}"
        what = f"output={output!r} isn't among what the module gives" if output else several
        raise UsageError(f"{what}; choose with output=. {nearest(first, there)}")
    return pick(there[first], rest or None)


def entries(value: Any) -> dict[Any, Any]:
    """Return what a module gives by key, index or field's name, without what a dict holds as None; else ``NetworkError``."""
    if isinstance(value, Mapping):
        return {name: item for name, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return dict(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise NetworkError(
        f"the module gives a {type(value).__name__}; it must give tensors, or a dict, tuple or list of them."
    )


def exported(module: nn.Module, example: Tensor, output: str | None) -> torch.export.ExportedProgram:
    """Export ``module`` in eval mode, for inputs of the shape, type and device of ``example``.

    NetworkError where what it computes depends on the numbers in the frame, or where it keeps a state.
    """
    if any(weight.is_inference() for weight in module.parameters()):
        raise UsageError(
            "the module was created inside torch.inference_mode(), so it can't be trained; create it outside."
        )
    try:
        # With gradients, so that no module takes a way of its own that only inference may. Quietly, since torch.export warns,
        # and prints the graph on failure: the error says what matters.
        with (
            _evaluating(module),
            torch.inference_mode(False),
            torch.enable_grad(),
            warnings.catch_warnings(action="ignore"),
            redirect_stderr(io.StringIO()),
            silent_logs(),
        ):
            frame = torch.zeros(example.shape, dtype=example.dtype, device=example.device)
            program = torch.export.export(Picked(module, output), (frame,), strict=False)
            if not _write_nothing(program.graph):
                program = program.run_decompositions({})
    except ClocksegError:
        raise
    except Exception as error:  # torch.export raises what it likes
        check_shape(module, example)
        raise NetworkError(_refusal(error)) from error
    _check(program)
    return program


MULTIPLES = (2, 4, 8, 16, 32, 64)


def check_shape(module: nn.Module, example: Tensor) -> None:
    """Raise ``NetworkError`` with the nearest size that ``module`` takes, if it fails on a frame of the shape of ``example``."""
    reason = _failure(module, example, example.shape)
    if reason is None:
        return
    *outer, height, width = example.shape
    for multiple in MULTIPLES:
        down, across = (-(-side // multiple) * multiple for side in (height, width))
        if (down, across) != (height, width) and _failure(module, example, (*outer, down, across)) is None:
            raise NetworkError(
                f"the network does not take frames of {width}x{height}; the nearest size that it takes is {across}x{down} "
                f"(multiples of {multiple}), so give that one. Its own error: {reason}"
            )
    raise NetworkError(f"the network fails on frames of {width}x{height}: {reason}")


def _failure(module: nn.Module, example: Tensor, shape: Sequence[int]) -> str | None:
    """Return the first line of the error that ``module`` raises on zeros of ``shape``; None if it raises none."""
    try:
        with _evaluating(module), torch.no_grad():
            module(torch.zeros(tuple(shape), dtype=example.dtype, device=example.device))
    except Exception as error:  # modules raise what they like
        return first_line(error)
    return None


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Put ``module`` into eval mode, with nothing computed in place, for a while."""
    before = [(one, one.training, vars(one).get("inplace")) for one in module.modules()]
    try:
        for one, _, inplace in before:
            one.training = False
            if inplace is True:
                one.inplace = False
        yield
    finally:
        for one, training, inplace in before:
            one.training = training
            if inplace is not None:
                one.inplace = inplace


def _write_nothing(graph: fx.Graph) -> bool:
    """Replace operations that write into a tensor nobody else reads; return True if none are left."""
    for node in graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
            continue
        made = node.args[0]
        plain = getattr(torch.ops.aten, operation(node).removesuffix("_"), None)
        if plain is None or made.op != "call_function" or operation(made) not in _FRESH or len(made.users) > 1:
            return False
        node.target = getattr(plain, node.target._overloadname)
    return True


def operation(node: fx.Node) -> str:
    """Return the name of a node's operation without its overload, such as ``conv2d``."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target._schema.name.rpartition("::")[2])
    return target if isinstance(target, str) else str(target.__name__)


def _check(program: torch.export.ExportedProgram) -> None:
    changed = list(program.graph_signature.buffers_to_mutate.values())
    if changed:
        raise NetworkError(
            f"the module changes its own buffer {changed[0].removeprefix(INNER)!r} when it runs: it keeps a state from frame "
            f"to frame, which would be wrong when a stage holds. {WAYS_OUT}"
        )
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, Tensor) and not all(isinstance(side, int) for side in value.shape):
            places = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
            made_at = _place(*places[-1]) if places else ""
            raise NetworkError(
                f"the shape of what {operation(node)} makes{made_at} depends on the numbers in the frame, so that "
                f"nothing can be held for it. {WAYS_OUT}"
            )


def _refusal(error: Exception) -> str:
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        if not frame.filename.startswith("<") and not any(file.is_relative_to(folder) for folder in _NOT_THEIRS):
            place = _place(frame.filename, frame.lineno or 0)
    return f"torch.export can't follow the module{place}: {first_line(error).rstrip('.')}. {WAYS_OUT}"


_NOT_THEIRS = (Path(torch.__file__).parent, Path(__file__).parents[1])
"""The folders of torch and of this package, in which no line of a user's module is."""


def _place(file: str, line: int | str) -> str:
    return f" ({file}:{line}, {linecache.getline(file, int(line)).strip()!r})"
