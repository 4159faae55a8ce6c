"""From a checkpoint of `street` to the files the runtime reads: one ONNX graph and its sidecar.

Batch norms are folded into the convolutions before them, paddings into the convolutions after them; height and width
stay free (multiples of 32). The graph also gives each stage's own scores, and the cuts keep readable names.
"""

from __future__ import annotations

import copy
import io
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from clockseg.errors import NetworkError
from clockseg.graph import sidecar
from clockseg.graph.onnx_reader import write_network
from clockseg.types import Size
from recipes.street.checkpoint import Description, load_network
from recipes.street.encoder import MEAN, STD, same_padding
from recipes.street.half_precision import narrowed
from recipes.street.network import GREY, MULTIPLE, AnyStreet, Context

OPSET = 17
SCHEDULE = "carried(skip_frame(6), interpolate(flow))"
TOLERANCE = 1e-4
"""Largest difference of any output between the module and the graph, as a share of the output's largest value."""
HALF_TOLERANCE = 1e-2
"""The same where weights are rounded to 16 bits."""


def export(checkpoint: Path, out: Path, *, size: Size | None = None, half: bool = False) -> Path:
    """Writes `out` (NAME.onnx) and its sidecar from a checkpoint of `python -m recipes.street train`; returns `out`.

    `size` (width, height) is the working size that the sidecar states; None: the one it was trained for. `half`: weights
    in 16 bits, in half the bytes; the network computes with them in 32.

    The written graph is run on a random picture by ONNX's reference evaluator; if it does not give what the
    module gives, within `TOLERANCE`, nothing is written.
    """
    net, description = load_network(checkpoint)
    description = replace(description, working=size or description.working)
    model = to_onnx(net)
    model.doc_string = f"clockseg {out.stem}: see {out.stem}.md for what it was trained on and its terms"
    check_parity(net, model)
    if half:
        model = narrowed(model)
        check_parity(net, model, HALF_TOLERANCE)
    write_network(model, describe(description, out.stem), out)
    return out


def to_onnx(net: AnyStreet) -> onnx.ModelProto:
    """The network as an ONNX graph."""
    example = torch.zeros(1, 3, 64, 96)
    traced = _Traced(folded(net)).eval()
    names = list(traced.net.named(example))
    free = {"image": {2: "height", 3: "width"}} | {name: {2: f"{name}_height", 3: f"{name}_width"} for name in names}
    written = io.BytesIO()
    with warnings.catch_warnings():
        # The exporter that writes plain operators with constant scales is the older one, which says so.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            traced,
            (example,),
            written,
            dynamo=False,
            opset_version=OPSET,
            input_names=["image"],
            output_names=names,
            dynamic_axes=free,
        )
    model = onnx.load_from_string(written.getvalue())
    del model.graph.output[len(net.shape.cuts) + 1 :]
    fold_pads(model.graph)
    onnx.checker.check_model(model)
    return model


class _Traced(nn.Module):
    """A network with what is cut at or held as further outputs, so that it gets names."""

    def __init__(self, net: AnyStreet) -> None:
        super().__init__()
        self.net = net

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.net.named(image).values())


def folded(net: AnyStreet) -> AnyStreet:
    """A copy in evaluation mode whose batch norms are part of the convolutions before them."""
    net = copy.deepcopy(net).eval()
    for module in list(net.modules()):
        if isinstance(module, Context):
            fold_sum(module)
        elif isinstance(module, nn.Sequential):
            for place in range(len(module) - 1):
                conv, norm = module[place], module[place + 1]
                if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                    module[place], module[place + 1] = fuse_conv_bn_eval(conv, norm), nn.Identity()
    return net


def fold_sum(context: Context) -> None:
    """The norm of a sum of convolutions: its scale goes into each of them, its shift into the first."""
    norm = context.norm
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    for conv in context.around:
        conv.weight = nn.Parameter(conv.weight * scale.view(-1, 1, 1, 1))
    context.around[0].bias = nn.Parameter(norm.bias - norm.running_mean * scale)
    context.norm = nn.Identity()


def fold_pads(graph: onnx.GraphProto) -> None:
    """Moves each Pad before a convolution into that convolution's own padding, which may be uneven.

    All of them come from `SamePadConv`, so the convolution's kernel and stride say how much.
    """
    made = {output: node for node in graph.node for output in node.output}
    for conv in [node for node in graph.node if node.op_type == "Conv"]:
        pad = made.get(conv.input[0])
        if pad is not None and pad.op_type == "Pad":
            sizes = {attribute.name: attribute.ints for attribute in conv.attribute}
            before, after = same_padding(sizes["kernel_shape"][0], sizes["strides"][0])
            sizes["pads"][:] = [before, before, after, after]
            conv.input[0] = pad.input[0]
    drop_unused(graph)


def drop_unused(graph: onnx.GraphProto) -> None:
    """Removes nodes and weights that no output needs."""
    needed = {value.name for value in graph.output}
    for node in reversed(list(graph.node)):
        if needed.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            needed |= set(node.input)
    for weight in [weight for weight in graph.initializer if weight.name not in needed]:
        graph.initializer.remove(weight)


def check_parity(net: AnyStreet, model: onnx.ModelProto, tolerance: float = TOLERANCE) -> None:
    """Raises `NetworkError` unless graph and module give the same on a random picture."""
    image = np.random.default_rng(0).standard_normal((1, 3, 64, 96), dtype=np.float32)
    with torch.inference_mode():
        wanted = net.named(torch.from_numpy(image))
    names = [value.name for value in model.graph.output]
    for name, there in zip(names, ReferenceEvaluator(model).run(names, {"image": image}), strict=True):
        here = wanted[name].numpy()
        apart = np.abs(there - here).max() / max(np.abs(here).max(), 1e-9)
        if not apart <= tolerance:
            raise NetworkError(
                f"the exported graph's {name} is {apart:.1e} of its largest value away from the module's; "
                f"at most {tolerance:.0e} is allowed. This is a fault of the export; nothing was written."
            )


def describe(description: Description, name: str) -> sidecar.Sidecar:
    """The sidecar: what goes in, where to cut, what the labels mean."""
    width, height = description.working
    cuts = description.shape.cuts
    frame = sidecar.Input("image", width, height, "rgb", 1 / 255, MEAN, STD, MULTIPLE, GREY)
    classes = description.classes
    return sidecar.Sidecar(
        name,
        frame,
        "scores",
        tuple((cut,) for cut in cuts),
        cuts,
        tuple(f"scores_{stage}" for stage in range(1, len(cuts) + 1)),
        classes.names,
        classes.palette,
        classes.ignore,
        SCHEDULE if len(cuts) > 1 else None,
    )
