"""The truncated networks of `street` beside its pipelines, which answer as early: the paper's question.

python -m recipes.street.truncated           results/street_truncated.json and the table
python -m recipes.street.truncated --card    the same, the table into weights/README.md too
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.harness import provenance
from benchmarks.inputs import data
from clockseg import evaluate, frame_oracle, load, pipelined
from clockseg.datasets import read_data
from clockseg.evaluation.evaluate import Evaluation
from clockseg.graph.cost import price
from clockseg.graph.part import GraphPart
from recipes.cards import RECIPES, arguments, facts, finish, table
from recipes.street.card import training

STREET = RECIPES / "street"
NETWORKS = WHOLE, *TRUNCATED = ("street", "street-stride8", "street-stride16")
SCHEDULES = {"every stage on every frame": frame_oracle, "pipelined(3)": pipelined(3), "pipelined(2)": pipelined(2)}
AS_EARLY = {"pipelined(3)": "street-stride8", "pipelined(2)": "street-stride16"}
"""A pipeline gives its answer when its first stages are done with the frame; so does the network that ends there."""


def main() -> None:
    """Measure, write, print."""
    args = arguments(__doc__, threads=2)
    nets = {name: load(file(name), threads=args.threads) for name in NETWORKS}
    clips = read_data(data("camvid", "val"))
    baselines = [(name, nets[name]) for name in TRUNCATED]
    found = {one.schedule: one for one in evaluate(nets[WHOLE], SCHEDULES, clips, baselines=baselines)}
    figures = {
        "validation": {name: facts(one.scores, one.classes) for name, one in found.items()},
        "relative_time": {name: round(found[name].relative_time or 0.0, 3) for name in TRUNCATED},
        "multiply_adds": {name: multiply_adds(name) for name in NETWORKS},
        "training": {name: training(STREET / "results" / f"{name}-log.jsonl") for name in TRUNCATED},
    }
    text = markdown(figures, list(found.values()))
    finish(args, "street_truncated", figures, STREET / "weights" / "README.md", "truncated", text)


def file(name: str) -> str:
    """Return what loads a network: ``street`` by name, the others from their files."""
    return name if name == WHOLE else str(STREET / "weights" / f"{name}.onnx")


def multiply_adds(name: str) -> int:
    """Of the uncut network at its own working size, padded."""
    net = load(file(name), engine=None)
    said = net.sidecar.input
    width, height = (-(-side // said.pad_multiple) * said.pad_multiple for side in (said.width, said.height))
    assert isinstance(net.whole, GraphPart)
    return price(net.whole, (width, height)).multiply_adds


def markdown(figures: dict[str, Any], found: Sequence[Evaluation]) -> str:
    """A row a pipeline and the network that answers as early."""
    scores = {one.schedule: one.scores for one in found}
    whole = figures["multiply_adds"][WHOLE]
    rows = [["answers as early", "mean IU", "", "mean IU", "multiply-adds", "time"]]
    for pipeline, name in AS_EARLY.items():
        rows.append([f"`{pipeline}` of `street`", f"{100 * scores[pipeline].mean_iu:.1f}",
                     f"`{name}`", f"{100 * scores[name].mean_iu:.1f}",
                     f"{figures['multiply_adds'][name] / whole:.2f}", f"{figures['relative_time'][name]:.2f}"])  # fmt: skip
    runs = "; ".join(f"`{name}` {run['steps']} steps ({run['epochs']} epochs, {run['minutes']:.0f} minutes)"
                     for name, run in figures["training"].items())  # fmt: skip
    made = provenance()
    return (
        f"{table(rows)}\n\nVal clip, percent; multiply-adds and time of the truncated network as shares of the whole one's, "
        f"{made['date']}. Every stage on every frame: {100 * found[0].scores.mean_iu:.1f}. Trained: {runs}."
    )


if __name__ == "__main__":
    main()
