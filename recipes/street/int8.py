"""Makes the bundled `street-int8` from `street` and the pictures of CamVid's train split, and tells how good it is.

python -m recipes.street.int8            weights/street-int8.onnx and .json, results/street_int8.json and the table
python -m recipes.street.int8 --card     the same, the table into the card (weights/street.md) too
python -m recipes.street.int8 --measure  only measures what is there
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.harness import provenance
from benchmarks.inputs import data
from clockseg import evaluate, frame_oracle, load, parse_schedule
from clockseg.cli.terminal import percent
from clockseg.datasets import read_data
from clockseg.evaluation.evaluate import Evaluation
from clockseg.networks.quantization import quantize
from clockseg.networks.session import recommended
from recipes.cards import WEIGHTS, arguments, finish, table

NAME = "street-int8"
FRAMES = 60


def main() -> None:
    """Make, measure, write, print."""
    args = _arguments()
    if not args.measure:
        clips = read_data(data("camvid", "train"))
        quantize("street", clips, WEIGHTS / f"{NAME}.onnx", frames=FRAMES, engine="openvino", repeat=1)
    found = measured(args.threads)
    megabytes = [round((WEIGHTS / f"{name}.onnx").stat().st_size / 1e6, 1) for name in ("street", NAME)]
    facts = {"megabytes": megabytes, "engines": {name: [one.facts() for one in rows] for name, rows in found.items()}}
    finish(args, "street_int8", facts, WEIGHTS / "street.md", "int8", markdown(found, megabytes))


def measured(threads: int | None) -> dict[str, Sequence[Evaluation]]:
    """For each engine: `street` and `street-int8` whole, on the val clip; then `street-int8` cut, every stage firing."""
    clips = read_data(data("camvid", "val"))
    found: dict[str, Sequence[Evaluation]] = {}
    for engine in ("openvino", "onnxruntime"):
        net, small = (load(name, engine=engine, threads=threads) for name in ("street", NAME))
        [whole, eight] = evaluate(net, {"street": frame_oracle}, clips, baselines=[(NAME, small)])
        clocked = {"cut": frame_oracle, "clocked": parse_schedule(recommended(small))}
        found[engine] = (whole, eight, *evaluate(small, clocked, clips))
    return found


def markdown(found: dict[str, Sequence[Evaluation]], megabytes: Sequence[float]) -> str:
    """A row an engine."""
    rows = [["engine", "`street`", f"`{NAME}`", "agreement", "time", "cut at its stages", "on its clock"]]
    for engine, (whole, eight, cut, clocked) in found.items():
        rows.append(
            [
                engine,
                percent(whole.scores.mean_iu),
                percent(eight.scores.mean_iu),
                percent(eight.agreement.mean_iu_of()),
                f"{eight.relative_time or 0:.2f}",
                percent(cut.scores.mean_iu),
                percent(clocked.scores.mean_iu),
            ]
        )
    made = provenance()
    return (
        f"{table(rows)}\n\nMean IU on the val clip; agreement: mean IU against `street`'s labels; time of the uncut network as "
        f"a share of `street`'s, {made['machine']['processor']}, {made['date']}. Files: {megabytes[0]} and {megabytes[1]} MB."
    )


def _arguments() -> argparse.Namespace:
    measure = {"action": "store_true", "help": "measure what is there, make nothing"}
    return arguments(__doc__, threads=None, measure=measure)


if __name__ == "__main__":
    main()
