"""A network in 8 bits, made from video without labels, and what came of it: agreement, speed, size.

It stays an ordinary ONNX network with the same tensors and cuts (arithmetic: ``quantizer``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from clockseg.clocks.maps import relative_difference
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip, ignore_problem
from clockseg.errors import DataError, UsageError
from clockseg.evaluation.cost import CONCLUDE, part_seconds
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.execution.machine import machine, versions
from clockseg.graph.correction import network_alone, with_addition
from clockseg.graph.onnx_reader import write_network
from clockseg.graph.onnx_split import split_model
from clockseg.graph.part import IMAGE, LABELS, Tensors, tensors
from clockseg.networks.framing import Framing
from clockseg.networks.load import WorkingSize, assemble, framing, read
from clockseg.networks.quantizer import ends as end_layers
from clockseg.networks.quantizer import layers, quantized, ready
from clockseg.types import PICTURE_SIZE, Array, Image, Size

Item = TypeVar("Item")
Ends: TypeAlias = Literal["int8", "float"]


@dataclass(frozen=True)
class Quantization:
    """The result of ``quantize``: ``path`` (and its sidecar), and the comparison with the network in float.

    ``frames``, ``held_out``: how many it was calibrated on, and judged on. ``layers``: in 8 bits, and all that have
    weights. ``ends``: the names of those left in float. ``parts``: seconds of each part, of all of them ("every stage") and
    of the uncut network ("whole"), in float and now. ``bytes``: of the files, before and now.
    """

    path: Path
    network: str
    engine: str
    size: Size
    frames: int
    held_out: int
    layers: tuple[int, int]
    ends: tuple[str, ...]
    agreement: Agreement
    parts: tuple[Seconds, ...]
    bytes: tuple[int, int]

    def facts(self) -> dict[str, Any]:
        """Return plain values for ``json.dumps``."""
        parts = {
            one.name: {"f32_seconds": one.before, "int8_seconds": one.now, "speed_up": one.speed_up}
            for one in self.parts
        }
        return {
            "network": self.network,
            "file": str(self.path),
            "engine": self.engine,
            "size": list(self.size),
            "calibration_frames": self.frames,
            "held_out_frames": self.held_out,
            "layers": {"int8": self.layers[0], "all": self.layers[1]},
            "float_ends": list(self.ends),
            "agreement": self.agreement._asdict(),
            "parts": parts,
            "bytes": {"f32": self.bytes[0], "int8": self.bytes[1]},
            "machine": machine(),
            "versions": versions(),
        }


def quantize(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    frames: int = 60,
    ends: Ends = "int8",
    engine: str = "auto",
    threads: int | None = None,
    size: WorkingSize | None = None,
    repeat: int = 20,
    say: Callable[[str], None] = ignore_problem,
    problem: Callable[[str], None] = ignore_problem,
) -> Quantization:
    """Write ``network`` in 8 bits as ``out`` (NAME.onnx) and its sidecar; ``clips`` need no labels.

    ``frames``: to calibrate on, spread over the clips; a quarter as many (20 at most), others, judge. ``ends``: the precision
    of the first and last layers, which are the most sensitive. ``engine``, ``threads``: what both are compared in. ``size``:
    the working size, as of ``load``; it is stated in the new sidecar. ``say`` is told what is being done, ``problem`` what
    can't be decoded. Nothing is left half-written. A correction of moved scores stays in float.

    >>> quantize("street-int8", [], Path("again.onnx"))
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: the network is quantized already; give the original network.
    """
    if frames < 1 or repeat < 1:
        raise UsageError(f"frames={frames}, repeat={repeat}; both are at least 1.")
    if ends not in ("int8", "float"):
        raise UsageError(f"ends={ends!r}: give int8 or float.")
    model, said = read(network)
    alone, added = network_alone(model, said)
    fit = framing(model, said, size=size)
    ready(alone)  # whatever is wrong with the network is told before any video is decoded
    said, correction = replace(said, correction=None), said.correction
    split = split_model(alone, said, fit.padded((said.input.width, said.input.height)))
    left = end_layers(ready(split), [said.output, *filter(None, said.scores)]) if ends == "float" else ()
    say("decoding")
    found = gather(clips, fit, calibration=frames, held_out=min(20, -(-frames // 4)), problem=problem)
    say("calibrating")
    samples = ({said.input.name: said.input.normalised(frame[IMAGE])} for frame in found.calibration)
    made = quantized(split, samples, left=left)
    say("comparing")
    float_net, net = (assemble(one, said, engine=engine, threads=threads, size=size) for one in (alone, made))
    judged = agreement(float_net, net, found.held_out)
    before, now = part_seconds([float_net, net], found.held_out or found.calibration, repeat)
    parts = tuple(Seconds(name, before.get(name, 0.0), spent) for name, spent in now.items() if name != CONCLUDE)
    height, width = found.calibration[0][IMAGE].shape[1:3]
    made = made if added is None else with_addition(made, added)
    reads = replace(said.input, width=fit.width, height=fit.height) if fit.width else said.input
    write_network(made, replace(said, name=out.stem, input=reads, correction=correction), out)
    return Quantization(
        out, said.name, net.engine, (width, height), len(found.calibration), len(found.held_out),
        layers(made), left, judged, parts, (model.ByteSize(), out.stat().st_size),
    )  # fmt: skip


class Frames(NamedTuple):
    """Frames to calibrate on, and others between them to judge by; none of the latter where there is one frame only."""

    calibration: tuple[Tensors, ...]
    held_out: tuple[Tensors, ...]


def gather(
    clips: Sequence[Clip],
    framing: Framing,
    *,
    calibration: int = 60,
    held_out: int = 20,
    problem: Callable[[str], None] = ignore_problem,
) -> Frames:
    """Choose at most so many frames of each kind, spread evenly over all ``clips``; labels are not read.

    ``DataError`` if the clips have no frame; ``VideoError`` for one that can't be read.
    """
    wanted = calibration + held_out
    kept = spread(map(framing.prepare, _images(clips, problem)), wanted)
    if not kept:
        raise DataError("the clips have no frame; give videos, clips or pictures.")
    share = max(1, round(len(kept) * held_out / wanted)) if len(kept) > 1 else 0
    apart = set(_evenly(len(kept), share))
    return Frames(
        tuple(one for index, one in enumerate(kept) if index not in apart)[:calibration],
        tuple(one for index, one in enumerate(kept) if index in apart),
    )


def spread(items: Iterable[Item], count: int) -> list[Item]:
    """Choose ``count`` of ``items``, evenly spread, in order, or all if they are fewer; keeps four times as many at most.

    How many come isn't known before the last: every second one is dropped whenever there are too many.

    >>> spread(range(100), 3)
    [16, 48, 80]
    """
    kept: list[Item] = []
    step = 1
    for index, item in enumerate(items):
        if index % step == 0:
            kept.append(item)
        if len(kept) == 4 * count:
            kept, step = kept[::2], 2 * step
    return [kept[index] for index in _evenly(len(kept), min(count, len(kept)))]


def _evenly(there: int, count: int) -> list[int]:
    """Choose ``count`` of the places 0 .. ``there`` - 1, each in the middle of its share."""
    return [int((2 * index + 1) * there / (2 * count)) for index in range(count)]


def _images(clips: Sequence[Clip], problem: Callable[[str], None]) -> Iterator[Image]:
    for clip in clips:
        unlabelled = replace(clip, labels=(None,) * len(clip.images))
        for frame in unlabelled.frames(problem=problem):
            # A decoder may use the frame's memory again.
            yield frame.image.copy()


class Agreement(NamedTuple):
    """Of labels: mIoU (classes with at least 0.1 % of the pixels) and pixel accuracy, 0..1.

    Of other outputs: their relative difference, sum |a - b| / half of sum (|a| + |b|). What doesn't apply is None.
    """

    mean_iu: float | None = None
    pixel_acc: float | None = None
    difference: float | None = None


class Seconds(NamedTuple):
    """A part's median seconds, before and now, measured by turns."""

    name: str
    before: float
    now: float

    @property
    def speed_up(self) -> float:
        """The speed-up factor."""
        return self.before / self.now if self.now else 1.0


def agreement(before: StagedNetwork, now: StagedNetwork, frames: Sequence[Tensors]) -> Agreement:
    """Compare the output of ``now`` with that of ``before``, both uncut, over ``frames``; padding is left out."""
    pairs = [(_output(before, frame), _output(now, frame)) for frame in frames]
    if not pairs:
        return Agreement()
    if pairs[0][0].dtype.kind == "f":
        wanted, given = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
        return Agreement(difference=relative_difference(wanted, given))
    count = len(before.sidecar.classes)
    total = sum((confusion(wanted, given, count) for wanted, given in pairs), Confusion.none(count))
    return Agreement(finite(total.mean_iu_of()), finite(total.pixel_acc))


def _output(net: StagedNetwork, frame: Tensors) -> Array:
    value: Tensors = net.uncut().stages[0].body(frame)
    [output] = tensors(value).values()
    if LABELS not in value:
        return np.asarray(output)
    width, height = frame[PICTURE_SIZE]
    # Bytes that an engine lends are written again at its next run.
    return np.array(output[0, :height, :width])
