"""The summary of a source that was watched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clockseg.clockwork.network import StagedNetwork
from clockseg.execution.machine import machine, versions
from clockseg.live.line import Drop

if TYPE_CHECKING:
    from clockseg.live.channel import Channel


@dataclass(frozen=True)
class Setting:
    """Settings of a run and its duration. ``name``: of the schedule; None for the default budget."""

    net: StagedNetwork
    name: str | None
    latency_seconds: float
    drop: Drop
    wall_seconds: float


def summary(channel: Channel, setting: Setting) -> dict[str, Any]:
    """As of ``segment``, and under "live" what is so only of live sources."""
    source, feed, net = channel.source, channel.feed, setting.net
    said, carry = net.sidecar, channel.session.schedule.carry
    problems = [text for text in (feed.trouble,) if text and text != "it ended"]
    return {
        "input": source.stem,
        "source": os.path.abspath(source.given) if source.kind == "file" else source.name,
        **channel.figures.summary(setting.wall_seconds),
        "starts": [0],
        "live": {
            "arrived": feed.arrived,
            "dropped": channel.dropped,
            "skipped_at_start": channel.skipped,
            "source_fps": round(channel.fps, 3),
            "latency_ms": channel.latencies.facts(),
            "latency_budget_ms": round(1000 * setting.latency_seconds, 3),
            "drop": setting.drop,
            "reconnects": feed.reconnects,
            "gaps": channel.gaps,
        },
        "network": net.name,
        "schedule": setting.name or "on time",
        "carry": str(carry),
        "engine": net.engine,
        "classes": [] if said is None else list(said.classes),
        "palette": [] if said is None else [list(colour) for colour in said.palette],
        "versions": versions(),
        "machine": machine(),
        "problems": problems,
    }
