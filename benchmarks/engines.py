"""How fast is each engine, what does cutting cost, and what does the session's own Python take?

Frames of 480x360 through `street`, in interleaved rounds; ratios are medians over rounds, so that a machine which is now
faster, now slower matters little.

    python benchmarks/engines.py              results/engines.json and a table
    python benchmarks/engines.py --readme     the same, and the tables into README.md between its markers
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from clockseg import Session, frame_oracle, load, skip_frame
from clockseg.cli._terminal import align
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import read_clips
from clockseg.engines import timed
from clockseg.types import Image, Labels
from page import README, insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

Run = Callable[[Image], Any]


class Target(NamedTuple):
    """A figure, what it should be, and whether it is."""

    question: str
    value: float
    target: str
    met: bool


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    frames = [frame.image for frame in islice(read_clips(shared_data("camvid", "val"))[0], args.frames)]
    nets = {f"{engine} {precision}": load(args.network, engine=engine, precision=precision, threads=args.threads)
            for engine, precision in (("openvino", "f32"), ("openvino", "bf16"), ("onnxruntime", "f32"))}  # fmt: skip
    runs = {name: Session(net.uncut(), frame_oracle) for name, net in nets.items()}
    runs |= {f"{name}, staged": Session(net, frame_oracle) for name, net in nets.items() if "bf16" not in name}
    runs |= {"openvino f32, skip_frame(2)": Session(nets["openvino f32"], skip_frame(2))}
    eager = pytorch_eager(args.network, nets["openvino f32"], args.threads)
    rounds = measured(runs | {"pytorch eager": eager}, frames, args.rounds)
    own, framing = own_python(nets["openvino f32"], frames, args.rounds)
    targets = judged(rounds, own)
    milliseconds = {name: round(1000 * statistics.median(seconds), 3) for name, seconds in rounds.items()}
    facts = {"network": nets["openvino f32"].name, "frame": "480x360", "rounds": args.rounds, "frames": args.frames,
             "milliseconds": milliseconds, "framing_share": round(framing, 4),
             "targets": [target._asdict() | {"value": round(target.value, 4)} for target in targets]}  # fmt: skip
    path = write_result("engines", facts)
    print(tables(milliseconds, targets, framing))
    if args.readme:
        insert(README, "engines", markdown(milliseconds, targets))
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def measured(runs: dict[str, Run], frames: Sequence[Image], rounds: int) -> dict[str, list[float]]:
    """Mean seconds a frame of each run, a round; the runs in another order each round."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        order = list(runs)
        random.Random(number).shuffle(order)
        for name in order:
            # Two frames unmeasured: threads of the run before come to rest, and caches are this one's.
            for image in frames[:2]:
                runs[name](image)
            start = time.perf_counter()
            for image in frames:
                runs[name](image)
            if number:  # the first round compiles
                seconds[name].append((time.perf_counter() - start) / len(frames))
        print(f"\rround {number} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return seconds


def own_python(net: StagedNetwork, frames: Sequence[Image], rounds: int) -> tuple[float, float]:
    """What a session takes beside the parts, as a share of their time; and what of it is framing (prepare, restore).

    Both with every stage firing, medians over rounds.
    """
    parts, times = timed(net)
    framing = [0.0]
    parts = _timed_framing(parts, framing)
    session, shares = Session(parts, frame_oracle), []
    for number in range(rounds + 1):
        times.clear()
        framing[0] = 0.0
        start = time.perf_counter()
        for image in frames:
            session(image)
        wall, inside = time.perf_counter() - start, sum(times.seconds.values())
        if number:
            shares.append(((wall - inside) / inside, framing[0] / inside))
    own, framed = zip(*shares, strict=True)
    return statistics.median(own), statistics.median(framed)


def _timed_framing(net: StagedNetwork, total: list[float]) -> StagedNetwork:
    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            start = time.perf_counter()
            value = function(*values)
            total[0] += time.perf_counter() - start
            return value

        return call

    return replace(net, prepare=wrapped(net.prepare), restore=wrapped(net.restore))


def pytorch_eager(network: str, net: StagedNetwork, threads: int | None) -> Run:
    """`street` as PyTorch runs it as it is written, from the frame to the label map; random weights take as long."""
    import torch

    from clockseg.execution.machine import threads_or_all
    from recipes.street.network import Shape, Street

    torch.set_num_threads(threads_or_all(threads))
    said = net.sidecar
    model = Street(Shape(classes=len(said.classes))).eval()
    _check_same(model, network)
    scale, mean, std = said.input.scale, torch.tensor(said.input.mean), torch.tensor(said.input.std)

    def run(image: Image) -> Labels:
        frame = torch.from_numpy(net.prepare(image)["image"]).permute(0, 3, 1, 2).float()
        normal = (frame * scale - mean[None, :, None, None]) / std[None, :, None, None]
        with torch.inference_mode():
            labels = model(normal).fused.argmax(dim=1).to(torch.uint8)
        return net.restore({"labels": labels.numpy()}, image)

    return run


def _check_same(model: Any, network: str) -> None:
    """The module timed must be the one exported: its convolutions hold as many weights."""
    import onnx

    bundled = resources.files("clockseg.networks") / "weights" / f"{network}.onnx"
    exported = onnx.load(str(bundled) if bundled.is_file() else network).graph.initializer
    weights = sum(int(np.prod(tensor.dims)) for tensor in exported if len(tensor.dims) == 4)
    written = sum(parameter.numel() for parameter in model.parameters() if parameter.ndim == 4)
    if abs(weights - written) > 0.02 * written:
        print(
            f"warning: {network} has {weights} weights in convolutions, the PyTorch module {written}", file=sys.stderr
        )


def judged(rounds: dict[str, list[float]], own: float) -> list[Target]:
    """The ratios that are asked for."""
    eager = ratio(rounds, "pytorch eager", "openvino f32")
    cut = ratio(rounds, "openvino f32, staged", "openvino f32")
    cut_too = ratio(rounds, "onnxruntime f32, staged", "onnxruntime f32")
    skip = ratio(rounds, "openvino f32, skip_frame(2)", "openvino f32")
    return [
        Target("PyTorch eager / OpenVINO f32", eager, ">= 3", eager >= 3),
        Target("staged, every stage firing / uncut, OpenVINO f32", cut, "<= 1.10", cut <= 1.1),
        Target("staged, every stage firing / uncut, ONNX Runtime f32", cut_too, "<= 1.10", cut_too <= 1.1),
        Target("the session's own Python / the network's parts", own, "<= 0.03", own <= 0.03),
        Target("skip_frame(2) / uncut, OpenVINO f32", skip, "0.50 +- 0.03", abs(skip - 0.5) <= 0.03),
    ]


def ratio(rounds: dict[str, list[float]], over: str, under: str) -> float:
    """The median over rounds of one run's time over another's."""
    return statistics.median(a / b for a, b in zip(rounds[over], rounds[under], strict=True))


def tables(milliseconds: dict[str, float], targets: Sequence[Target], framing: float) -> str:
    """Both tables, for people."""
    times = align([["per frame", "ms"], *([name, f"{value:.2f}"] for name, value in milliseconds.items())])
    rows = [[each.question, f"{each.value:.3f}", each.target, "yes" if each.met else "NO"] for each in targets]
    judged = align([["ratio", "value", "target", "met"], *rows])
    return f"{times}\n\n{judged}\n\nScaling and padding frames, labels back to their size: {100 * framing:.1f} %."


def markdown(milliseconds: dict[str, float], targets: Sequence[Target]) -> str:
    """What the README tells."""
    under = milliseconds["openvino f32"]
    times = [[name, f"{value:.1f}", f"{value / under:.2f}"] for name, value in milliseconds.items()]
    ratios = [[each.question, f"{each.value:.3f}", each.target, "yes" if each.met else "no"] for each in targets]
    made = provenance()
    where = (
        f"`street` on frames of 480x360, every frame, on {made['machine']['cores']} cores of "
        f"{made['machine']['processor']}, {made['date']}, commit {made['commit']}; medians of interleaved "
        "rounds, ratios of each round."
    )
    return "\n\n".join(
        [table([["per frame", "ms", "ratio"], *times]), table([["ratio", "value", "wanted", "met"], *ratios]), where]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="street", metavar="street|FILE.onnx")
    parser.add_argument("--threads", type=int, help="of every engine (default: as many as the process may use)")
    parser.add_argument("--readme", action="store_true", help="the tables into README.md")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--frames", type=int, default=8, help="a round; an even number, for skip_frame(2)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
