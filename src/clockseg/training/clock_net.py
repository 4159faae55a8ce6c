"""The small network that a learned clock is, in torch, and as an ONNX graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from clockseg.clocks.learned import SIGNALS, Input

Form = Literal["frames", "history"]
HEIGHT, WIDTH = 36, 48
"""Of the pictures that the form frames reads."""
FRAMES = 16
"""Number of frames that the form history reads."""
CHANNELS, HIDDEN = (8, 16, 16), 16
_OPSET = 13


def inputs_of(form: Form, *, motion: bool) -> tuple[Input, ...]:
    """Return the inputs of a clock of this form; ``motion``: the carry estimates motion.

    >>> [one.name for one in inputs_of("history", motion=True)]
    ['history', 'since']
    """
    since, side = Input("since", (1, 1)), (1, 1, HEIGHT, WIDTH)
    if form == "history":
        return Input("history", (1, SIGNALS, FRAMES)), since
    pictures = [Input(name, side) for name in ("now", "fired", *(["residual"] if motion else []))]
    return (*pictures, since)


class ClockNet(nn.Module):
    """Three convolutions over small pictures (or over the last frames), their mean, and two layers behind it.

    Beside the mean of what the convolutions find there is that of the pictures themselves (of the history its last
    frame), so that it starts from what a clock on the residual alone knows. Output: [n], before the sigmoid.
    """

    def __init__(self, names: Sequence[str], mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.names = tuple(names)
        self.history = "history" in self.names
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        kind = nn.Conv1d if self.history else nn.Conv2d
        widths = (len(mean), *CHANNELS)
        steps = [{"padding": 2**n, "dilation": 2**n} if self.history else {"padding": 1, "stride": 2} for n in range(3)]
        self.convs = nn.ModuleList(kind(a, b, 3, **step) for a, b, step in zip(widths, widths[1:], steps, strict=False))
        self.hidden = nn.Linear(CHANNELS[-1] + len(mean) + 1, HIDDEN)
        self.last = nn.Linear(HIDDEN, 1)

    def forward(self, values: Mapping[str, Tensor]) -> Tensor:
        """``values``: a batch of every input, by name."""
        planes = stacked(values)
        places = tuple(range(2, planes.ndim))
        found = planes = (planes - self._wide(self.mean, planes)) / self._wide(self.scale, planes)
        for conv in self.convs:
            found = torch.relu(conv(found))
        own = planes[:, :, -1] if self.history else planes.mean(places)
        features = torch.cat([found.mean(places), own, values["since"]], 1)
        answer: Tensor = self.last(torch.relu(self.hidden(features)))[:, 0]
        return answer

    @staticmethod
    def _wide(each: Tensor, like: Tensor) -> Tensor:
        return each.reshape(1, -1, *(1,) * (like.ndim - 2))


def stacked(values: Mapping[str, Tensor]) -> Tensor:
    """The planes that the convolutions read: the history, or the pictures and how far they differ."""
    if "history" in values:
        return values["history"]
    planes = [values[name] for name in ("now", "fired", "residual") if name in values]
    return torch.cat([*planes, (values["now"] - values["fired"]).abs()], 1)


def exported(net: ClockNet, inputs: Sequence[Input]) -> onnx.ModelProto:
    """``net`` as a graph with these inputs and one output ``change``, [1, 1], 0..1."""
    weights: dict[str, np.ndarray] = {name: value.detach().numpy() for name, value in net.state_dict().items()}
    rank = 1 if net.history else 2
    for name in ("mean", "scale"):
        weights[name] = weights[name].reshape(1, -1, *(1,) * rank)
    nodes = _stacking(inputs)
    nodes += [_node("Sub", "planes", "mean", to="centred"), _node("Div", "centred", "scale", to="found")]
    last = "found"
    for index, conv in enumerate(net.convs):
        pads, strides, dilations = ([value] * rank for value in (conv.padding[0], conv.stride[0], conv.dilation[0]))
        named = (last, f"convs.{index}.weight", f"convs.{index}.bias")
        nodes.append(_node("Conv", *named, to=f"conv{index}", pads=pads * 2, strides=strides, dilations=dilations))
        nodes.append(_node("Relu", f"conv{index}", to=f"relu{index}"))
        last = f"relu{index}"
    axes = [2, 3][:rank]
    nodes.append(_node("ReduceMean", last, to="seen", axes=axes, keepdims=0))
    if net.history:
        weights["newest"] = np.array(-1, np.int64)
        nodes.append(_node("Gather", "found", "newest", to="own", axis=2))
    else:
        nodes.append(_node("ReduceMean", "found", to="own", axes=axes, keepdims=0))
    nodes += [
        _node("Concat", "seen", "own", "since", to="features", axis=1),
        _node("Gemm", "features", "hidden.weight", "hidden.bias", to="hidden", transB=1),
        _node("Relu", "hidden", to="active"),
        _node("Gemm", "active", "last.weight", "last.bias", to="answer", transB=1),
        _node("Sigmoid", "answer", to="change"),
    ]
    return _model(nodes, inputs, weights)


def _stacking(inputs: Sequence[Input]) -> list[onnx.NodeProto]:
    names = [one.name for one in inputs if one.name != "since"]
    if names == ["history"]:
        return [_node("Identity", "history", to="planes")]
    return [
        _node("Sub", "now", "fired", to="apart"),
        _node("Abs", "apart", to="difference"),
        _node("Concat", *names, "difference", to="planes", axis=1),
    ]


def _node(kind: str, *reads: str, to: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(kind, list(reads), [to], **attributes)


def _model(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Input], weights: Mapping[str, np.ndarray]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "clock",
        [helper.make_tensor_value_info(one.name, TensorProto.FLOAT, list(one.shape)) for one in inputs],
        [helper.make_tensor_value_info("change", TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(np.asarray(value, order="C"), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="clockseg")
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model
