"""Does generic acceleration compound with the clock? `street` in f32, bf16 and int8, every stage or clocked.

All run interleaved, frame by frame, on the dense CamVid clip with its human labels, in OpenVINO; times are shares of the
uncut network in f32. If the two factors were independent, together they would give their product.

    python benchmarks/compound.py           results/compound.json and the table
    python benchmarks/compound.py --docs    the same, and the table into docs/quantize.md between its markers
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from clockseg import Session, load, parse_schedule
from clockseg.cli._options import recommended
from clockseg.cli._terminal import percent
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import schedule_for
from clockseg.clockwork.trace import Tally
from clockseg.datasets import read_clips
from clockseg.datasets.clips import Clip
from clockseg.evaluation.metrics import Confusion, confusion
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

PAGE = HERE.parent / "docs" / "quantize.md"
EVERY, SKIP = "every stage", "skip_frame(2)"
WHOLE = "f32", "uncut"


@dataclass
class Way:
    """A network on a schedule, and what it gave so far."""

    network: str
    schedule: str
    session: Session
    scores: Confusion
    agreement: Confusion
    tally: Tally = field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally(tuple(stage.name for stage in self.session.net.stages))

    @property
    def key(self) -> tuple[str, str]:
        """What it is called."""
        return self.network, self.schedule


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    nets = networks(args.threads)
    [clip] = read_clips(shared_data("camvid", "val"), limit=args.limit)
    passes = [measured(ways(nets), clip, number) for number in range(args.passes)]
    rows = facts(passes)
    setting = {"engine": "openvino", "data": "CamVid val", "passes": args.passes}
    path = write_result("compound", setting | {"rows": rows})
    text = markdown(rows)
    print(text)
    if args.docs:
        insert(PAGE, "compound", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def networks(threads: int | None) -> dict[str, StagedNetwork]:
    """By the name of what makes them fast."""
    return {
        "f32": load("street", engine="openvino", threads=threads),
        "bf16": load("street", engine="openvino", precision="bf16", threads=threads),
        "int8": load("street-int8", engine="openvino", threads=threads),
    }


def ways(nets: dict[str, StagedNetwork]) -> list[Way]:
    """The uncut network in f32, and each network on each schedule."""
    count = len(nets["f32"].sidecar.classes)
    none = Confusion.none(count)
    clocks = {EVERY: "frame_oracle", recommended(nets["f32"]): recommended(nets["f32"]), SKIP: SKIP}
    found = [Way(*WHOLE, Session(nets["f32"].uncut(), schedule_for(parse_schedule("frame_oracle"), 1)), none, none)]
    for name, net in nets.items():
        for clock, spec in clocks.items():
            session = Session(net, schedule_for(parse_schedule(spec), len(net)))
            found.append(Way(name, clock, session, none, none))
    return found


def measured(found: list[Way], clip: Clip, seed: int) -> list[Way]:
    """All ways over the clip, by turns frame by frame, in another order each."""
    for done, frame in enumerate(clip.frames()):
        if not done:
            for way in found:
                way.session.net(frame.image)  # compiles
        outputs = {}
        for way in random.Random(1000 * seed + done).sample(found, len(found)):
            outputs[way.key] = way.session(frame.image)
            way.tally = way.tally.add(way.session.record, first=done == 0)
        for way in found:
            way.scores += confusion(frame.labels, outputs[way.key], len(way.scores))
            way.agreement += confusion(outputs[WHOLE], outputs[way.key], len(way.scores))
        print(f"\rpass {seed + 1}: {done + 1} frames", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def facts(passes: Sequence[list[Way]]) -> list[dict[str, object]]:
    """A row a way: scores of the first pass (they repeat), seconds of all, and both factors."""
    seconds = {way.key: sum(one[at].tally.seconds for one in passes) for at, way in enumerate(passes[0])}
    time = {key: value / seconds[WHOLE] for key, value in seconds.items()}
    rows = []
    for way in passes[0]:
        alone = (
            time["f32" if way.key == WHOLE else way.network, EVERY],
            time["f32", way.schedule] if way.key != WHOLE else 1,
        )
        rows.append({
            "network": way.network, "schedule": way.schedule, "mean_iu": way.scores.mean_iu,
            "agreement": way.agreement.mean_iu_of(), "relative_time": time[way.key],
            "of_network": alone[0], "of_clock": alone[1], "product": alone[0] * alone[1] / time["f32", EVERY],
            "network_rate": way.tally.network_rate,
        })  # fmt: skip
    return rows


def markdown(rows: Sequence[dict[str, object]]) -> str:
    """The table, and a line on where it was made."""
    head = ["network", "schedule", "mean IU", "agreement", "time", "network alone", "clock alone", "product"]
    cells = [
        [
            str(row["network"]),
            f"`{row['schedule']}`" if "(" in str(row["schedule"]) else str(row["schedule"]),
            percent(float(row["mean_iu"])),
            percent(float(row["agreement"])),
            f"{row['relative_time']:.2f}",
            *(f"{row[name]:.2f}" if _both(row) else "" for name in ("of_network", "of_clock", "product")),
        ]
        for row in rows
    ]
    made = provenance()
    where = (
        f"CamVid val, 480x360, OpenVINO, {made['machine']['cores']} cores of {made['machine']['processor']}, {made['date']}, "
        f"commit {made['commit']}. Time: relative to the uncut network in f32, all interleaved; agreement: mean IU against its "
        f"labels; product: of the two factors alone, to be compared with the time measured."
    )
    return f"{table([head, *cells])}\n\n{where}"


def _both(row: dict[str, object]) -> bool:
    return row["network"] != "f32" and row["schedule"] != EVERY


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=int, help="frames of the clip")
    parser.add_argument("--passes", type=int, default=3, help="over the clip; their times are summed (default: 3)")
    parser.add_argument("--docs", action="store_true", help="the table into docs/quantize.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
