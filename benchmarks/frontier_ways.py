"""The ways of the frontier: which networks, at which working sizes, under which schedules, on which clip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from clockseg import load
from clockseg.clocks import ALWAYS
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, frame_oracle, schedule_for
from clockseg.clockwork.watching import check
from clockseg.errors import UsageError
from clockseg.networks.load import read

LARGE, LARGE_INT8, STREET, INT8 = "street-large", "street-large-int8", "street", "street-int8"
BF16, CORRECTED = "bf16", "corrected"
LARGE_BF16 = f"{LARGE} {BF16}"
EVERY, PAPER, STAYS, MOVED, MENDED = (
    "every frame",
    "the paper's schedules",
    "held as it was",
    "moved along",
    "moved and corrected",
)
OUR_CLOCKS = (
    "either(motion_residual(0.10), at_least_every(12))",
    "either(motion_residual(0.13), at_least_every(12))",
    "budget(motion_residual, network_rate=0.25, cap=12)",
)


class Way(NamedTuple):
    """One point: a family, a network ("street-large", "street-large 3/4", "street bf16 corrected"), a schedule as text."""

    family: str
    network: str
    schedule: str = "frame_oracle"

    @property
    def base(self) -> str:
        """The network that "kept" is relative to, on every frame and at its own size."""
        return self.network.split()[0].removesuffix("-int8")


def networks(files: Mapping[str, str], threads: int | None) -> Callable[[str], StagedNetwork]:
    """Networks by name, each loaded once; ``files``: where they are. ``UsageError`` where there is none of that name."""

    @cache
    def named(name: str) -> StagedNetwork:
        base, *kinds = name.split()
        corrected = CORRECTED in kinds
        file = files.get(f"{base} {CORRECTED}", files[base]) if corrected else files[base]
        size = next((_smaller(file, kind) for kind in kinds if "/" in kind), None)
        precision = BF16 if BF16 in kinds else "f32"
        net = load(file, engine="openvino", threads=threads, size=size, precision=precision)
        if corrected and net.correction is None:
            raise UsageError(f"network {file} has no correction.")
        # What was trained for staleness runs without its correction too, as any other network.
        return net if corrected else replace(net, correction=None)

    return named


def _smaller(file: str, share: str) -> tuple[int, int]:
    over, under = map(int, share.split("/"))
    given = read(file)[1].input
    return given.width * over // under, given.height * over // under


class Running(NamedTuple):
    """A way with the network and the schedule that it is."""

    way: Way
    net: StagedNetwork
    schedule: Schedule


def runnable(ways: list[Way], named: Callable[[str], StagedNetwork]) -> tuple[list[Running], list[str]]:
    """Those ways that the networks at hand can run; and of the others why not."""
    rows, left_out = [], []
    for way in ways:
        try:
            net = named(way.network)
            net = net.uncut() if way.family == EVERY else net
            schedule = schedule_for(frame_oracle if way.family == EVERY else parse_schedule(way.schedule), len(net))
            check(net, schedule)
            _check_mends(way, net, schedule)
            rows.append(Running(way, net, schedule))
        except UsageError as error:
            left_out.append(f"{way.network}, {way.schedule}: {error}")
    return rows, left_out


def _check_mends(way: Way, net: StagedNetwork, schedule: Schedule) -> None:
    """A correction that reads the frame is for frames on which nothing fires, one that reads stage 1 for those it fires on."""
    if way.family != MENDED or net.correction is None:
        return
    if (net.correction.reads is None) == (schedule.clocks[0] == ALWAYS):
        raise UsageError(f"its correction reads {net.correction.reads or 'the frame'}, and so has nothing to do here.")


def carried(family: str, network: str, schedules: list[str], carry: str = "warp(flow)") -> list[Way]:
    """Each schedule under ``carry``."""
    return [Way(family, network, f"carried({schedule}, {carry})") for schedule in schedules]


def rates(*periods: int) -> list[str]:
    """The whole network on every n-th frame."""
    return [f"skip_frame({n})" for n in periods]


def mended(network: str, *periods: int, clocks: tuple[str, ...] = ()) -> list[Way]:
    """The whole network at these periods, and with stage 1 on every frame: which of them it is depends on its correction."""
    partly = [f"fixed_rate((1, {n}, {n}))" for n in periods]
    return carried(MENDED, f"{network} {CORRECTED}", [*rates(*periods), *partly, *clocks])


def large() -> list[Way]:
    """``street-large``: whole and smaller, held, moved, mended; fixed rates and clocks that know of motion."""
    return [
        *(Way(EVERY, f"{LARGE} {share}") for share in ("3/4", "1/2")),
        *(Way(PAPER, LARGE, schedule) for schedule in ("alternating", "adaptive(0.15)")),
        *(Way(STAYS, LARGE, schedule) for schedule in rates(2, 3, 4, 8)),
        *carried(MOVED, LARGE, [*rates(2, 3, 4, 6, 8, 12), *OUR_CLOCKS]),
        *carried(MOVED, f"{LARGE} 3/4", rates(2, 4)),
        *mended(LARGE, 2, 3, 4, 6, 8, 12, clocks=OUR_CLOCKS),
        *carried(MENDED, f"{LARGE} {CORRECTED}", rates(4, 8, 12), "warp(flow, scale=0.75)"),
        *(way for name in (LARGE_BF16, LARGE_INT8) for way in _quicker(name)),
    ]


def _quicker(network: str) -> list[Way]:
    """``street-large`` in fewer bits."""
    return [
        Way(EVERY, network),
        *carried(MOVED, network, rates(2, 3, 4, 8)),
        *carried(MENDED, f"{network} {CORRECTED}", rates(2, 3, 4, 6, 8, 12)),
    ]


def street() -> list[Way]:
    """``street`` and its int8: what ``street-large`` is to beat."""
    return [
        Way(EVERY, STREET),
        *(Way(EVERY, f"{STREET} {share}") for share in ("3/4", "1/2")),
        *(Way(PAPER, STREET, schedule) for schedule in ("alternating", "adaptive(0.15)")),
        *(Way(STAYS, STREET, schedule) for schedule in rates(2, 4)),
        *carried(MOVED, STREET, [*rates(2, 4, 8), *OUR_CLOCKS[1:]]),
        *mended(STREET, 2, 4, 8, 12, clocks=OUR_CLOCKS[1:]),
        Way(EVERY, INT8),
        Way(STAYS, INT8, "skip_frame(2)"),
        *carried(MOVED, INT8, rates(2, 4)),
        *mended(INT8, 2, 4),
    ]


def codec() -> list[Way]:
    """The clip as a P-only H.264 stream: the codec's vectors beside flow on the same frames."""
    both = ("warp(codec)", "warp(flow)")
    return [
        Way(EVERY, STREET),
        *(way for carry in both for way in carried(MOVED, LARGE, rates(2, 4, 8), carry)),
        *(way for carry in both for way in carried(MENDED, f"{LARGE} {CORRECTED}", rates(4, 8), carry)),
    ]


def video() -> list[Way]:
    """For videos without labels."""
    return [
        Way(EVERY, f"{LARGE} 1/2"),
        Way(EVERY, STREET),
        Way(EVERY, INT8),
        *(Way(PAPER, LARGE, schedule) for schedule in ("alternating", "adaptive(0.15)")),
        *(Way(STAYS, LARGE, schedule) for schedule in rates(2, 4)),
        *carried(MOVED, LARGE, [*rates(2, 4, 8), *OUR_CLOCKS]),
        *mended(LARGE, 4, 8, clocks=OUR_CLOCKS[1:]),
    ]


def still() -> list[Way]:
    """For a camera that stands still."""
    return video()
