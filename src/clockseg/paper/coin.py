"""The authors' Cityscapes protocol: a coin decides for each labelled frame whether a rate of period 2 is on or off.

The coin is one stream for all methods, seeded once. Which snippet gets which throw depends on the order in which the
authors' file system listed the cities, so single throws can't be had again; merged phases are what to compare with.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from clockseg.datasets.clips import Clip
from clockseg.paper.method import Method, Score, score

SEED = 0xCAFFE


def throws(count: int, rounds: int) -> list[list[bool]]:
    """For each of so many methods and each labelled frame: whether it is off, its held output shown.

    >>> [sum(off) for off in throws(500, 2)]
    [238, 254]
    """
    coin = random.Random(SEED)
    return [[coin.random() < 0.5 for _ in range(count)] for _ in range(rounds)]


def score_by_coin(
    oracle: Method, methods: Sequence[Method], clips: Sequence[Clip], *, classes: int, scored: int
) -> list[Score]:
    """Each method's score on frame ``scored`` of every clip, at the phase that the coin gives; named after it.

    ``methods`` are of period 2; ``oracle``: what they are compared with.
    """
    found = []
    for method, off in zip(methods, throws(len(clips), len(methods)), strict=True):
        phases = [replace(method, phases=1, first=scored - held) for held in off]
        now = replace(oracle, first=scored)
        scores = [score([now, at], [clip], classes=classes, first_scored=scored)[1] for at, clip in zip(phases, clips)]
        total = score([oracle, method], [], classes=classes)[1]
        found.append(sum(scores, total))
    return found
