"""The network whose moved scores are to be corrected: what it gives for a frame, and how its maps lie on the picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import onnx

from clockseg.carry import Flow, Motion, Sight, Warp
from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import sidecar
from clockseg.graph.heads import FeatureMap, feature_map, with_maps
from clockseg.graph.part import LABELS, Pick, Tensors
from clockseg.graph.static import Static, TypeShape, fix
from clockseg.networks.load import Engine, WorkingSize, assemble, framing
from clockseg.types import IMAGE, PICTURE_SIZE, Array, Image, Labels, Size


class Answer(NamedTuple):
    """The network's values for one frame.

    ``prepared``: what it was given; ``fused``: the value that is moved; ``scores``: the map in it, [classes, h, w];
    ``features``: of the stage that is read, [channels, h, w], or None; ``labels``: uint8 [H, W], at the working size.
    """

    prepared: Tensors
    fused: Tensors
    scores: Array
    features: Array | None
    labels: Labels


@dataclass(frozen=True)
class Teacher:
    """A network compiled to be asked; ``of``: the tensor that is moved; ``features``: the map of the stage that is read.

    ``shape``, ``kind``: of that map, [classes, h, w], and its type in the file; ``output``: of what the network gives.
    ``size``: the working size, padded. ``warp`` moves it, the same code as at run time.
    """

    net: StagedNetwork
    model: onnx.ModelProto
    said: sidecar.Sidecar
    of: str
    shape: tuple[int, int, int]
    kind: int
    output: TypeShape
    size: Size
    features: FeatureMap | None
    flow: Flow
    warp: Warp

    def __call__(self, image: Image) -> Answer:
        """Every stage, once."""
        prepared = self.net.prepare(image)
        trunk, values, seen = prepared, {}, None
        for stage in self.net.stages:
            trunk = stage.body(trunk)
            values[stage.name] = stage.head(trunk)
            if self.features is not None and stage.name == self.features.stage:
                seen = stage.scores(values[stage.name]) if stage.scores else None
        for group in self.net.groups:
            values[group.name] = group.function(*(values[name] for name in group.reads))
        last = values[self.net.last]
        fused = self.net.fused(last)
        return Answer(
            prepared,
            fused,
            fused[self.of][0],
            None if seen is None else seen[0],
            self.net.finish(last)[LABELS][0],
        )

    def see(self, image: Image) -> Sight:
        """Return the part of a frame that motion is estimated from."""
        return self.warp.see(self.net.prepare(image), image, None)

    def small(self, picture: Image, like: Sight) -> Sight:
        """The same of a picture that is already as small as what flow looks at, ``like`` that of another frame."""
        return replace(self.flow, scale=1.0).see(picture, like.share, None)

    def moved(self, fused: Tensors, motion: Motion) -> tuple[Array, Array]:
        """The scores [classes, h, w] brought along, and what the motion leaves unexplained [1, h, w]."""
        value = self.warp.move(fused, motion)
        return value[self.of][0], self.warp.unexplained({self.of: value[self.of]}, motion)["unexplained"][0]

    @property
    def stride(self) -> tuple[float, float]:
        """Pixels of the working size a cell of the map, down and across."""
        return self.size[1] / self.shape[1], self.size[0] / self.shape[2]


def teacher(
    model: onnx.ModelProto,
    said: sidecar.Sidecar,
    *,
    reads: str | None,
    flow: Flow,
    engine: str | Engine = "auto",
    precision: str = "f32",
    threads: int | None = None,
    size: WorkingSize | None = None,
) -> Teacher:
    """``model``, a network alone, ready to teach; ``reads``: the stage whose features the correction is to read.

    ``UsageError`` for a network without classes, ``NetworkError`` for one that has no score map to move.
    """
    if not said.classes:
        raise UsageError(f"network {said.name!r} has no classes in its sidecar, so no scores that could be corrected.")
    frames = framing(model, said, size=size)
    working = frames.padded((said.input.width, said.input.height))
    plain = assemble(model, said, engine=None, size=size)
    of = _moved(plain, said)
    static = fix(model, {said.input.name: (1, 3, working[1], working[0])})
    if of not in static.types or len(static.shape(of)) != 4 or static.shape(of)[1] != len(said.classes):
        shape = list(static.shape(of)) if of in static.types else "not in the file"
        raise NetworkError(
            f"what is fused last in network {said.name!r}, {of!r}, is {shape}; a correction is of a score map "
            f"[1, {len(said.classes)}, h, w]. Cut the network so that its last group makes it (clockseg cut)."
        )
    kind, (_, classes, height, width) = static.types[of]
    features = None
    if reads is not None:
        features = _features(model, said, static, reads, working)
    shown = (model, said) if features is None else (with_maps(model, [features]), _watched(said, features))
    net = assemble(*shown, engine=engine, precision=precision, threads=threads, size=size)
    output = static.types[said.output]
    return Teacher(
        net, model, said, of, (classes, height, width), kind, output, working, features, flow, Warp(flow, of="fused")
    )


def _moved(net: StagedNetwork, said: sidecar.Sidecar) -> str:
    names = net.fused.names if isinstance(net.fused, Pick) else ()
    if len(names) != 1:
        raise NetworkError(
            f"what is fused last in network {said.name!r} is {len(names)} maps ({', '.join(names)}); a correction is of one."
        )
    return str(names[0])


def _names(said: sidecar.Sidecar) -> tuple[str, ...]:
    return said.stages or tuple(f"stage{index + 1}" for index in range(len(said.cuts)))


def _features(model: onnx.ModelProto, said: sidecar.Sidecar, static: Static, reads: str, size: Size) -> FeatureMap:
    names = _names(said)
    if reads not in names[:-1]:
        raise UsageError(
            f"a correction that reads stage {reads!r}: give one of {', '.join(names[:-1]) or 'none'} (all but the last, "
            "which fires when everything is fresh), or None, the frame."
        )
    return feature_map(model, static, said.cuts[names.index(reads)][0], size=size, stage=reads)


def _watched(said: sidecar.Sidecar, features: FeatureMap) -> sidecar.Sidecar:
    """With the features in place of the stage's scores, which is how a stage's own map is got at."""
    have = [*said.scores, *[None] * (len(said.cuts) - len(said.scores))]
    have[_names(said).index(features.stage)] = features.tensor
    return replace(said, scores=tuple(have))


def picture_share(prepared: Tensors) -> tuple[float, float]:
    """Of the width and the height of a prepared frame, what is picture."""
    height, width = prepared[IMAGE].shape[1:3]
    columns, rows = prepared.get(PICTURE_SIZE, (width, height))
    return float(columns) / width, float(rows) / height
