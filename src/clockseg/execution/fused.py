"""Fused execution: parts that are called together run as one model, if that gives the same bits.

The outputs of a model influence which of its nodes an engine fuses, and so how results are rounded. So when a joint model is
first needed at a working size, it is compared with its parts, run one by one on the same frame. All of its tensors must have
the same bits, and so must those of a witness: the same joint with the scores before the labels as outputs, since labels
alone can hide a rounding for many frames. If they differ, a joint that outputs all held values is tried, and then stages and
groups as two; failing that, parts run one by one. The verdict is stored on disk beside the compiled models.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from clockseg.clockwork.lazy import Executor, Lazy
from clockseg.clockwork.network import Part, StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.step import Memory, step
from clockseg.errors import NetworkError
from clockseg.execution.cache import add_note, cache_limit, read_notes
from clockseg.execution.liveness import depths, liveness, prompted
from clockseg.graph.part import FRAME_SIZE, LABELS, AsFloats, GraphFusion, GraphPart, Pick, Tensors
from clockseg.types import Size

BYTES = 256_000_000
"""Limit of the weights of a network's joints, in bytes. Parts that don't fit run one by one, since calls of the engine are
fast compared with so large a network. No joint is dropped for another, or schedules that take turns would keep compiling.
"""
SIZES = 10
"""Number of working sizes for which a part stays compiled; the least recently used is dropped first."""
VERDICTS = "fused.json"
"""The file of verdicts in the cache folder, so that start-up need not repeat the checks."""
Compiled: TypeAlias = Callable[[GraphPart], Part]
"""Compiles a part; returns the same object for the same part."""
Takes: TypeAlias = tuple[tuple[int, ...], ...]
"""For each call of a batch, the places of the calls whose values it takes."""
ALONE = Executor()


class Verdict(NamedTuple):
    """Verdict on a joint at one working size: it runs as ``part``, with ``bytes`` of weights (None: it runs part by part).

    ``shares``: seconds of its calls one by one, by which the seconds of the joint are divided among them.
    """

    part: Part | None
    bytes: int
    shares: tuple[float, ...]


@dataclass
class Joint:
    """Graph-backed parts that may run as one model, with a verdict for each working size. Threads may share it.

    ``attempts``: the parts as one graph with different outputs, each with its witness unless that would be the same graph.
    """

    parts: tuple[GraphPart, ...]
    attempts: tuple[tuple[GraphPart, ...], ...]
    verdicts: dict[Size, Verdict] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


class Piece(NamedTuple):
    """Calls of a batch by their places in it, in order: of one model and selections from it, or to run one by one.

    ``joint``: the graph-backed ones as one model; None: one by one. ``halves``: the pieces to run instead if the engine gives
    other bits for the joint: its stages and its groups.
    """

    calls: tuple[int, ...]
    joint: Joint | None = None
    halves: tuple[Piece, ...] = ()


class Fusion:
    """Runs the parts of one compiled network as one; called with a session's network and schedule it gives its executor.

    ``graphs``: the network before it was compiled to ``net`` by ``compiled``; ``fusion`` makes one graph of several of its
    parts. ``engine``: everything that the bits of its results depend on, as text; "": verdicts aren't stored on disk.
    """

    def __init__(
        self, graphs: StagedNetwork, fusion: GraphFusion, net: StagedNetwork, compiled: Compiled, engine: str = ""
    ) -> None:
        self.compiled, self.engine, self.fusion = compiled, engine, fusion
        self.parts, self.known = named_parts(graphs), named_parts(net)
        names = [f"{stage.name}.body" for stage in net.stages] + [group.name for group in net.groups] + ["finish"]
        self.fusable = frozenset(name for name in names if isinstance(self.parts[name], GraphPart))
        self.whole = net.whole
        self.joints: dict[Hashable, Joint] = {}
        self.prepared: set[Hashable] = set()
        self.lock = threading.Lock()

    def __call__(self, net: StagedNetwork, schedule: Schedule) -> Executor:
        """Return an executor for a session of ``net`` under ``schedule``; parts that aren't this network's run alone.

        So do all parts under delays, and where firing is not nested: tensors of two frames would have the same names in a joint.
        """
        if any(schedule.delays) or not schedule.nested:
            return Executor()
        return Fused(self, net, schedule)

    def joint(self, names: tuple[str, ...], keep: frozenset[str]) -> Joint | None:
        """Return the joint of the parts of these names that gives the tensors ``keep``; None if there are none."""
        if not keep:
            return None
        with self.lock:
            if (names, keep) not in self.joints:
                parts = tuple(self.parts[name] for name in names)
                self.joints[names, keep] = Joint(parts, tuple(self._attempts(parts, keep)))
            return self.joints[names, keep]

    def _attempts(self, parts: tuple[GraphPart, ...], keep: frozenset[str]) -> Iterator[tuple[GraphPart, ...]]:
        """Yield joints that output the tensors that are read again, and all held values as well."""
        every = frozenset(tensor for part in parts for tensor in part.outputs)
        fusing = [self.parts[name] for name in self.fusable if not name.endswith(".body")]
        held = {tensor for part in fusing for tensor in (*part.inputs, *part.outputs)} - {LABELS}
        for keeps in dict.fromkeys((keep, keep | (every & held))):
            witness = keeps | (self._scores() & every) if LABELS in keeps else keeps
            yield tuple(self.fusion.fuse(parts, outputs) for outputs in dict.fromkeys((keeps, witness)))

    def _scores(self) -> frozenset[str]:
        """Return the tensors from which the labels are computed."""
        last = next(self.parts[name] for name in self.fusable if LABELS in self.parts[name].outputs)
        return frozenset(last.outputs if len(last.outputs) > 1 else last.inputs) - {LABELS}

    def room(self) -> int:
        """Return the bytes that joints may still take; each is compiled for a few sizes at most."""
        held = (one.bytes for joint in tuple(self.joints.values()) for one in tuple(joint.verdicts.values())[-SIZES:])
        return BYTES - sum(held)


def named_parts(net: StagedNetwork) -> dict[str, Any]:
    """Return the parts of a network by the names that their calls have, with those that only select."""
    found: dict[str, Any] = net.parts
    for stage in net.stages:
        found |= {f"{stage.name}.scores": stage.scores, f"{stage.name}.features": stage.features}
    return found


class Fused(Executor):
    """The executor of one session.

    ``live``: the values that later batches read. ``own``: the parts of the session's network that ``fusion`` knows, and its
    selections, by name; ``parts``: the same before they were compiled. ``plans``: the pieces of a batch, by the names of its
    calls ("" for those of others than the network's parts) and the places of the calls whose values each takes.
    """

    def __init__(self, fusion: Fusion, net: StagedNetwork, schedule: Schedule) -> None:
        super().__init__()
        self.fusion, self.net, self.schedule = fusion, net, schedule
        self.live = liveness(net, schedule)
        parts = named_parts(net).items()
        picks = {name: part for name, part in parts if isinstance(part, Pick)}
        self.own = {name: part for name, part in parts if part is fusion.known.get(name)} | picks
        self.parts, self.fusable = {**fusion.parts, **picks}, fusion.fusable - picks.keys()
        self.plans: dict[tuple[tuple[str, ...], Takes], list[Piece]] = {}

    def force(self, batch: Sequence[Lazy]) -> None:
        """Make the calls, those of graph-backed parts in as few models as possible."""
        if len(batch) == 1:
            ALONE.force(batch)
            return
        own = self.own
        names = tuple([call.name if own.get(call.name) is call.part else "" for call in batch])
        index = {id(call): i for i, call in enumerate(batch)}
        takes = tuple([tuple([index[id(one)] for one in call.args if id(one) in index]) for call in batch])
        if (names, takes) not in self.plans:
            self.plans[names, takes] = self._pieces(names, takes)
        waiting = self.plans[names, takes][::-1]
        while waiting:
            piece = waiting.pop()
            calls = [batch[i] for i in piece.calls]
            if piece.joint is not None and self._fuse(piece.joint, calls):
                continue
            if piece.halves:
                waiting += piece.halves[::-1]
            else:
                ALONE.force(calls)

    def _pieces(self, names: tuple[str, ...], takes: Takes) -> list[Piece]:
        """Return pieces of all calls of a batch, in an order in which they can run.

        Calls are on levels, above those of the calls that have to run before them: graph-backed ones, and selections from them,
        on odd ones, and calls that run between models on even ones.
        """
        levels: list[int] = []
        for name, taken in zip(names, takes, strict=True):
            level = max((levels[j] for j in taken), default=0)
            if name in self.fusable:
                level |= 1
            elif not isinstance(self.parts.get(name), Pick):
                level += level % 2
            levels.append(level)
        by_level = [[i for i, one in enumerate(levels) if one == level] for level in sorted(set(levels))]
        return [self._piece(names, takes, calls) for calls in by_level]

    def _piece(self, names: tuple[str, ...], takes: Takes, calls: Sequence[int]) -> Piece:
        """Return the piece of these calls: one model if several of them are graph-backed."""
        models = tuple(i for i in calls if names[i] in self.fusable)
        if len(models) < 2:
            return Piece(tuple(calls))
        keep = frozenset(tensor for i in models for tensor in self._wanted(names, takes, i, models))
        stages = [i for i in calls if names[i].endswith((".body", ".head"))]
        groups = [i for i in calls if i not in stages]
        halves = tuple(self._piece(names, takes, half) for half in (stages, groups)) if stages and groups else ()
        return Piece(tuple(calls), self.fusion.joint(tuple(names[i] for i in models), keep), halves)

    def _wanted(self, names: tuple[str, ...], takes: Takes, i: int, inside: Sequence[int]) -> set[str]:
        """Return the tensors of call ``i`` that are read by others than the calls ``inside`` a piece."""
        part = self.parts[names[i]]
        outputs = set(part.names if isinstance(part, Pick) else part.outputs)
        found: set[str] = set()
        for j, name in enumerate(names):
            if i in takes[j] and j not in inside:
                pick = isinstance(self.parts.get(name), Pick)
                found |= self._wanted(names, takes, j, inside) if pick else _read_by(self.parts.get(name), outputs)
        for name in self.live.get(names[i], ()):
            found |= _read_by(self.parts.get(name), outputs)
        return found & outputs

    def rehearse(self, memory: Memory, image: Any, vectors: Any) -> None:
        """Compile what later frames may need, once for all sessions that need the same: fire any number of stages."""
        # Without watched maps, the fill before this has made the calls of a frame on which all stages fire.
        found = depths(self.schedule)[0 if any(self.schedule.watched) else 1 :]
        needed = memory.shape, frozenset(self.live.items()), found, str(self.schedule.carry)
        if needed not in self.fusion.prepared:
            self.fusion.prepared.add(needed)
            for depth in found:
                step(self.net, prompted(self.schedule, depth), memory, image, vectors=vectors, executor=self)

    def _fuse(self, joint: Joint, calls: Sequence[Lazy]) -> bool:
        """Run a piece as one model, if it gives the same bits; the verdict is found at its first run at a working size."""
        inside = set(map(id, calls))
        models = [call for call in calls if not isinstance(call.part, Pick)]
        taken = {id(one): one for call in models for one in call.args if id(one) not in inside}
        given = [one.value if type(one) is Lazy else one for one in taken.values()]
        size = joint.parts[0].frame_size(given)
        made: Tensors | None = None
        if size not in joint.verdicts:
            with joint.lock:
                if size not in joint.verdicts:
                    joint.verdicts[size], made = self._judge(joint, size, models, calls, given)
        part, _, shares = joint.verdicts[size]
        if part is None:
            return False
        seconds = total = sum(shares) or 1.0
        if made is None:
            start = time.perf_counter()
            made = part(*given)
            seconds = time.perf_counter() - start
        for call, one, share in zip(models, joint.parts, shares, strict=True):
            call.value = {name: made[name] for name in (*one.outputs, FRAME_SIZE) if name in made}
            call.seconds = seconds * share / total
        for call in calls:
            if isinstance(call.part, Pick):
                call.value = call.part(made)
        return True

    def _judge(
        self, joint: Joint, size: Size, calls: Sequence[Lazy], span: Sequence[Lazy], given: Sequence[Tensors]
    ) -> tuple[Verdict, Tensors | None]:
        """Find the verdict for a working size, and the joint's outputs if it had to run for nothing but its compilation."""
        fusion, engine = self.fusion, self.fusion.engine
        told = [(part.name, part.inputs, part.outputs) for part in joint.parts]
        digest = joint.attempts[0][0].build(size).digest
        name = hashlib.sha256(repr((engine, size, told, digest)).encode()).hexdigest()[:32]
        known = _recalled(name, joint) if engine else None
        if known is not None:
            attempt, shares = known
            part, bytes = (None, 0) if attempt is None else self._compiled(joint.attempts[attempt][0], size)
            return Verdict(part, bytes, shares), None if part is None else part(*given)
        ALONE.force(span)
        ALONE.force(span)
        wanted, shares = [call.value for call in calls], tuple(call.seconds for call in calls)
        verdict, attempt = Verdict(None, 0, shares), None
        for number, (joined, *witness) in enumerate(joint.attempts):
            try:
                part, bytes = self._compiled(joined, size)
                tries = (part, *map(fusion.compiled, witness)) if bytes <= fusion.room() else ()
                if tries and all(_same(one(*given), joint, wanted) for one in tries):
                    verdict, attempt = Verdict(part, bytes, shares), number
                    break
            except NetworkError:  # the engine can't compile it
                continue
        if engine and cache_limit():
            add_note(VERDICTS, name, {"attempt": attempt, "shares": shares})
        return verdict, None

    def _compiled(self, joint: GraphPart, size: Size) -> tuple[Part, int]:
        """Return the compiled joint, and the bytes of its weights; 0 if it is the whole network, which is there anyway."""
        part = self.fusion.compiled(joint)
        return part, 0 if part is self.fusion.whole else len(joint.build(size).model)


def _read_by(part: Any, every: set[str]) -> set[str]:
    """Return the tensors that a part reads; for a function that is unknown, so ``every`` one."""
    if isinstance(part, GraphPart | Pick):
        return set(part.names if isinstance(part, Pick) else part.inputs)
    return {part.name} if isinstance(part, AsFloats) else every


def _recalled(name: str, joint: Joint) -> tuple[int | None, tuple[float, ...]] | None:
    """Return the attempt that gave the same bits (None: none did) and ``Verdict.shares``, if a verdict for this joint is on disk."""
    found: Any = read_notes(VERDICTS).get(name)
    try:
        attempt, shares = found["attempt"], tuple(map(float, found["shares"]))
    except (TypeError, KeyError, ValueError):
        return None
    fits = attempt is None or (isinstance(attempt, int) and 0 <= attempt < len(joint.attempts))
    return (attempt, shares) if fits and len(shares) == len(joint.parts) else None


def _same(made: Tensors, joint: Joint, wanted: Sequence[Tensors]) -> bool:
    """Return True if all tensors in ``made`` have the bits of those in ``wanted``."""
    pairs = (
        (made[name], value[name])
        for part, value in zip(joint.parts, wanted, strict=True)
        for name in part.outputs
        if name in made
    )
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def fused(graphs: StagedNetwork, made: StagedNetwork, compiled: Compiled, engine: str = "") -> StagedNetwork:
    """Return ``made``, which is ``graphs`` compiled by ``compiled``, with an executor that runs its parts as one."""
    if not isinstance(graphs.executor, GraphFusion):
        return made
    return replace(made, executor=Fusion(graphs, graphs.executor, made, compiled, engine))
