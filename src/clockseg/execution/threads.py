"""Independent calls in threads: the segments of a pipelined schedule read only what the previous frame left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from clockseg.clockwork.lazy import Executor, Interpreter, Lazy
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.errors import UsageError
from clockseg.execution.machine import threads_or_all


@dataclass(frozen=True)
class Threaded:
    """An executor that runs the chains of stages in a batch at once, each through ``executor``, and the rest after them.

    Their seconds are told in shares of the time that passed.
    """

    pool: ThreadPoolExecutor
    executor: Executor = field(default_factory=Interpreter)

    def force(self, batch: Sequence[Lazy]) -> None:
        """Make the calls; the error is that of the first chain that failed, when all have ended."""
        chains, rest = divided(batch)
        if len(chains) < 2:
            self.executor.force(batch)
            return
        begun = time.perf_counter()
        try:
            started = [self.pool.submit(self.executor.force, chain) for chain in chains]
        except RuntimeError as error:
            raise UsageError("the pipeline's workers have ended; run it inside its with block.") from error
        wait(started)
        for one in started:
            one.result()
        wall, calls = time.perf_counter() - begun, [call for chain in chains for call in chain]
        alone = sum(call.seconds for call in calls)
        for call in calls:
            call.seconds *= min(1.0, wall / alone) if alone else 1.0
        if rest:
            self.executor.force(rest)

    def rehearse(self, memory: Any, image: Any, vectors: Any) -> None:
        """Prepare what it runs the chains through."""
        self.executor.rehearse(memory, image, vectors)


def divided(batch: Sequence[Lazy]) -> tuple[list[list[Lazy]], list[Lazy]]:
    """Return the chains of stages in a batch, each with what it depends on, and the calls that no stage depends on.

    >>> a = Lazy(0, "a.body", str, ())
    >>> calls = [a, Lazy(0, "a.head", str, (a,)), Lazy(1, "b.body", str, ()), Lazy("fuse", "sum", str, ())]
    >>> [len(chain) for chain in divided(calls)[0]], len(divided(calls)[1])
    ([2, 1], 1)
    """
    chain: dict[int, int] = {}
    index = {id(call): i for i, call in enumerate(batch)}
    for i, call in enumerate(batch):
        takes = [index[id(one)] for one in call.args if id(one) in index]
        if isinstance(call.kind, int):
            known = {chain[j] for j in takes if j in chain}
            joined = {i, *known}
            chain = {j: i if at in joined else at for j, at in chain.items()} | {i: i}
            chain |= dict.fromkeys(takes, i)
    heads = dict.fromkeys(chain[i] for i in sorted(chain))
    chains = [[call for i, call in enumerate(batch) if chain.get(i) == head] for head in heads]
    return chains, [call for i, call in enumerate(batch) if i not in chain]


@contextmanager
def concurrent(net: StagedNetwork, schedule: Schedule, *, threads: int | None = None) -> Iterator[Executor]:
    """Give an executor for a session that runs the segments of ``schedule`` at once, each in a thread.

    For parts that release the GIL, as those of both engines do; ``threads`` bounds the workers (None: as many as the
    process may use). A frame ends only when all of its segments have: if one fails, the session's memory is that of the
    frame before. The workers end with the ``with`` block.

    >>> from clockseg import Session, Stage, pipelined
    >>> net, schedule = StagedNetwork("two", (Stage("a", "A{}".format), Stage("b", "B{}".format))), pipelined(2)(2)
    >>> with concurrent(net, schedule) as executor:
    ...     session = Session(net, schedule, executor=executor)
    ...     [session(frame) for frame in "012"]
    ['BA0', 'BA0', 'BA1']
    """
    own: Executor = Interpreter() if net.executor is None else net.executor(net, schedule)
    count = min(len(schedule.segments()), threads_or_all(threads))
    if len(schedule.segments()) == 1:
        yield own
        return
    with ThreadPoolExecutor(count, "clockseg-segment") as pool:
        yield Threaded(pool, own)
