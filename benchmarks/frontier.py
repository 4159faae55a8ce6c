"""How accurate can a video be segmented in which time? A big network on a clock against a small one on every frame.

python benchmarks/frontier.py                     every part that is not measured yet (results/frontier/PART.json), in turn
python benchmarks/frontier.py large street        these parts, again; each takes one to three minutes
python benchmarks/frontier.py --docs              after that: the tables into results/frontier.md, the picture beside it;
                                                  prints the sentence that README.md may quote
    --large NAME|FILE.onnx                        the big network (default: street-large)
    --large-corrected, --street-corrected FILE    where the corrections trained for staleness are files of their own (street's:
                                                  street-stale)
    --out DIR --limit N                           smoke runs: elsewhere, on so many frames

All ways of a part and every-frame street-large, to which their time is relative, see each frame before any sees the next.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clockseg.carry.motion import sampled
from clockseg.clockwork.trace import Progress
from clockseg.datasets import read_data
from clockseg.evaluation.flicker import Following, flicker
from clockseg.evaluation.labels import Evaluation, evaluate
from clockseg.evaluation.metrics import Confusion, confusion, finite
from frontier_figure import draw
from frontier_page import headline, lines, shown_goals, text
from frontier_ways import (
    CORRECTED,
    EVERY,
    INT8,
    LARGE,
    LARGE_INT8,
    STREET,
    Way,
    codec,
    large,
    networks,
    runnable,
    still,
    street,
    video,
)
from page import insert
from provenance import HERE, RESULTS, provenance
from reencoded import reencoded
from shared_data import shared_data

PAGE = HERE.parent / "docs" / "frontier.md"
PARTS = {"large": large, "street": street, "codec": codec, "driving": video, "fixed-camera": still}
VIDEOS = {"driving": "solidWhiteRight.mp4", "fixed-camera": "one-by-one-person-detection.mp4"}
FRAMES = 120
"""Of the videos."""


def main() -> None:
    """Measure what is asked for or missing; tell what is there."""
    args = _arguments()
    missing = [part for part in PARTS if not (args.out / f"{part}.json").exists()]
    for part in args.parts or ([] if args.docs else missing):
        print(part, file=sys.stderr)
        facts = {"provenance": provenance(), "part": part, **measured(part, args)}
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{part}.json").write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n")
        print("\n".join(lines(facts)))
    found = {part: json.loads(path.read_text()) for part in PARTS if (path := args.out / f"{part}.json").exists()}
    print("\n".join(shown_goals(found)))
    if args.docs:
        insert(PAGE, "frontier", text(found))
        print(headline(found))
        draw(found, HERE.parent / "docs" / "figures" / "frontier")


def measured(part: str, args: argparse.Namespace) -> dict[str, Any]:
    """Every way of a part, as plain values."""
    files = {LARGE: args.large, LARGE_INT8: args.large_int8, STREET: args.street, INT8: args.int8}
    corrected = {LARGE: args.large_corrected, STREET: args.street_corrected, INT8: args.int8_corrected}
    files |= {f"{name} {CORRECTED}": file for name, file in corrected.items() if file}
    named = networks(files, args.threads)
    rows, left_out = runnable(PARTS[part](), named)
    for sentence in left_out:
        print(f"left out: {sentence}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        clip = _clip(part, Path(folder), args.limit)
        beside = [(f"{index}", one.net, one.schedule) for index, one in enumerate(rows)]
        found = evaluate(named(LARGE), {}, [clip], baselines=beside, boundary=False, progress=_told)
        people = flicker(_people(clip)) if clip.labelled else None
    print(file=sys.stderr)
    ways = [_reference(found[0]), *(_facts(row.way, one) for row, one in zip(rows, found, strict=True))]
    frames = found[0].uncut.frames
    return {"clip": clip.name, "frames": frames, "people_flicker": people, "left_out": left_out, "ways": _kept(ways)}


def _clip(part: str, folder: Path, limit: int | None) -> Any:
    if part in VIDEOS:
        return read_data(shared_data("videos", VIDEOS[part]), limit=min(limit or FRAMES, FRAMES))[0]
    [clip] = read_data(shared_data("camvid", "val"), limit=limit)
    return reencoded(clip, folder / "p-only.mp4") if part == "codec" else clip


def _people(clip: Any) -> Confusion:
    """The human labels against those of the frame before, moved: what nothing has to be below."""
    following, before, classes = Following(), None, len(clip.classes.names)
    total = Confusion.none(classes)
    for frame in clip.frames():
        found = following.see(frame.image)
        if found is not None and before is not None and frame.labels is not None:
            moved = sampled(before, found.places, nearest=True)
            total += confusion(frame.labels, moved, classes, where=found.sure & (moved < classes))
        before = frame.labels
    return total


def _reference(one: Evaluation) -> dict[str, Any]:
    """Every-frame street-large, as any way is told."""
    whole = replace(one, scores=one.oracle, tally=one.uncut, flickers=one.uncut_flickers)
    return _facts(Way(EVERY, LARGE), whole) | {"agreement": {"mean_iu": 1.0, "pixel_acc": 1.0}}


def _facts(way: Way, one: Evaluation) -> dict[str, Any]:
    return {
        **way._asdict(),
        "base": way.base,
        "mean_iu": finite(one.scores.mean_iu),
        "agreement": {"mean_iu": finite(one.agreement.mean_iu_of()), "pixel_acc": finite(one.agreement.pixel_acc)},
        "flicker": flicker(one.flickers),
        "network_rate": one.tally.network_rate,
        "relative_time": one.relative_time,
        "milliseconds": 1000 * (one.tally.seconds_per_frame or 0.0),
    }


def _kept(ways: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """With the share of the same network's every-frame mean IU that is left; None without labels."""
    whole = {way["network"]: way["mean_iu"] for way in ways if way["family"] == EVERY}
    return [
        {**way, "kept": way["mean_iu"] / whole[way["base"]] if way["mean_iu"] and whole.get(way["base"]) else None}
        for way in ways
    ]


def _told(at: Progress) -> None:
    print(f"\r{at.clip}: {at.done} of {at.expected} frames", end="", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", choices=[[], *PARTS], help="of the clip and the videos (default: what is missing)"
    )
    parser.add_argument("--large", default=LARGE, metavar="NAME|FILE")
    parser.add_argument("--street", default=STREET, metavar="NAME|FILE")
    parser.add_argument("--int8", default=INT8, metavar="NAME|FILE")
    parser.add_argument("--large-int8", default=LARGE_INT8, metavar="NAME|FILE")
    parser.add_argument("--large-corrected", metavar="NAME|FILE")
    parser.add_argument("--street-corrected", default="street-stale", metavar="NAME|FILE")
    parser.add_argument("--int8-corrected", metavar="NAME|FILE")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=int, help="frames of the clip and of the videos")
    parser.add_argument("--out", type=Path, default=RESULTS / "frontier", metavar="DIR")
    parser.add_argument("--docs", action="store_true", help="write the page's tables and draw the picture")
    return parser.parse_args()


if __name__ == "__main__":
    main()
