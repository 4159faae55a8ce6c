"""Starts a training from an exported network, whose batch norms were folded into its convolutions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from clockseg.errors import DataError
from recipes.street.network import AnyStreet

PREFIX = "net."
"""Names of weights begin with it in an exported network."""
HALF = ".half"
"""Names of weights that are stored in half precision end with it; a cast gives them their proper name."""


def load_exported(net: AnyStreet, file: Path, images: Tensor) -> None:
    """Load the weights of an exported ONNX file into a network with batch norms.

    Export folds a batch norm into the convolution before it, whose output is then `x + bias`. Its statistics are set to
    the mean and the variance of x on `images` (normalised, float [n, 3, h, w]), its scale and shift to those that undo
    them: in evaluation mode the network computes what the file does, and it can be trained on. `DataError` if the file
    holds another network.
    """
    weights = _weights(file)
    hooks = []
    for name, norm in net.named_modules():
        if isinstance(norm, nn.BatchNorm2d):
            bias = weights.pop(f"{_folded_into(name)}.bias", None)
            if bias is None:
                raise DataError(f"{file} has no batch norm folded into {_folded_into(name)}: it is another network.")
            hooks.append(norm.register_forward_pre_hook(_undone_by(bias)))
    try:
        unread = net.load_state_dict(weights, strict=False)
        norms = {name.rpartition(".")[0] for name in unread.missing_keys if name.endswith("running_mean")}
        lacking = [name for name in unread.missing_keys if name.rpartition(".")[0] not in norms | {"upscore"}]
        if lacking or unread.unexpected_keys:
            raise DataError(
                f"{file} is another network: {', '.join([*lacking, *unread.unexpected_keys][:3])} does not fit."
            )
        net.eval()
        with torch.no_grad():
            net.coarse(images)
    except RuntimeError as error:  # as torch says that shapes differ
        raise DataError(f"{file} is a network of other sizes: {error}") from error
    finally:
        for hook in hooks:
            hook.remove()


def _folded_into(norm: str) -> str:
    """Return the convolution into which a batch norm is folded; the context sums several, and the first has the bias."""
    return "context.around.0" if norm == "context.norm" else f"{norm.rpartition('.')[0]}.0"


def _undone_by(bias: Tensor) -> Callable[[nn.BatchNorm2d, tuple[Tensor]], None]:
    """Return a hook that sets a batch norm to the statistics of its input and to what undoes them, plus `bias`."""

    def settle(norm: nn.BatchNorm2d, inputs: tuple[Tensor]) -> None:
        variance, mean = torch.var_mean(inputs[0], (0, 2, 3), correction=0)
        norm.running_mean, norm.running_var = mean, variance
        norm.weight.data, norm.bias.data = (variance + norm.eps).sqrt(), mean + bias

    return settle


def _weights(file: Path) -> dict[str, Tensor]:
    """Return all weights by name as float32: those stored in half precision are cast, and equal ones are stored once."""
    graph = onnx.load(file).graph
    found = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    for node in graph.node:
        if node.op_type in ("Cast", "Identity") and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return {
        name.removeprefix(PREFIX): torch.tensor(value.astype("float32"))
        for name, value in found.items()
        if name.startswith(PREFIX) and not name.endswith(HALF)
    }
