"""What is fuzzed: for each kind of input a way to make one at random and a way to use it, and the errors it may end with."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fuzz_seeds
import networks
from clockseg import read_labels, read_summary, read_trace
from clockseg.carry import parse_carry
from clockseg.clocks.learned import load as load_clock
from clockseg.clocks.rates import frame_oracle
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.schedule import schedule_for
from clockseg.datasets import read_data
from clockseg.datasets.classes import read_class_map
from clockseg.datasets.layouts import parse_layout
from clockseg.errors import ClocksegError
from clockseg.graph import sidecar
from clockseg.networks.load import load
from clockseg.networks.source import read_class_names
from clockseg.paper.caffe import import_caffe
from clockseg.planning.schedule_file import ScheduleFile, dump, read_schedule_file
from clockseg.report import write as write_report
from clockseg.segmenting.manifest import read as read_manifest
from clockseg.segmenting.results import read_values
from clockseg.segmenting.segmentation import segment
from clockseg.video import open_clip
from fuzz_commands import odd_arguments, odd_folder, run_arguments, segment_folder
from fuzzing import as_json, changed_bytes, changed_text, changed_value, changed_words
from hostile_graphs import changed_graph
from toy_networks import toy

FRAMES = 40
"""Of a fuzzed video, at most so many are decoded."""
PIXELS = 4_000_000


class Target(NamedTuple):
    """``make`` writes a hostile input into an empty folder and returns what ``use`` is given."""

    make: Callable[[random.Random, Path], str]
    use: Callable[[str], object]


def tried(target: Target, seed: str, folder: Path) -> bool:
    """Use the input of this seed; whether it was taken. What isn't a ``ClocksegError`` comes out."""
    given = target.make(random.Random(seed), folder)
    try:
        target.use(given)
    except ClocksegError:
        return False
    return True


# Videos


def _broken_video(chance: random.Random, folder: Path) -> str:
    name = chance.choice(fuzz_seeds.KINDS)
    data = changed_bytes(fuzz_seeds.videos()[name], chance, other=fuzz_seeds.videos()[chance.choice(fuzz_seeds.KINDS)])
    path = folder / f"video{chance.choice((Path(name).suffix, Path(name).suffix, '.mp4', '', '.txt'))}"
    path.write_bytes(data)
    return str(path)


def _decode(path: str) -> None:
    for _, _frame in zip(range(FRAMES), open_clip(path, max_pixels=PIXELS), strict=False):
        pass


def _segment(path: str) -> None:
    folder = Path(path).parent / "out"
    done = segment(path, folder, toy(), frame_oracle, limit=FRAMES)
    assert sum(1 for _ in read_labels(folder)) == done.summary["frames"] == len(read_trace(folder))


# Networks


def _write_network(folder: Path, model: bytes, said: bytes) -> str:
    (folder / "net.onnx").write_bytes(model)
    (folder / "net.json").write_bytes(said)
    return str(folder / "net.onnx")


def _broken_sidecar(chance: random.Random, folder: Path) -> str:
    said = changed_value(json.loads(sidecar.dump(networks.TINY)), chance)
    return _write_network(folder, fuzz_seeds.tiny(), as_json(said, chance))


def _broken_onnx(chance: random.Random, folder: Path) -> str:
    return _write_network(folder, changed_bytes(fuzz_seeds.tiny(), chance), sidecar.dump(networks.TINY).encode())


def _hostile_onnx(chance: random.Random, folder: Path) -> str:
    return _write_network(folder, changed_graph(chance).SerializeToString(), sidecar.dump(networks.TINY).encode())


def _load(path: str) -> None:
    net = load(path, engine=None)
    if net.sidecar is not None and net.sidecar.schedule is not None:
        schedule_for(parse_schedule(net.sidecar.schedule), len(net))


def _cut(path: str) -> None:
    from clockseg.networks.cutting import cut_network
    from clockseg.networks.settling import Cutting
    from clockseg.networks.source import Said

    out = Path(path).with_name("cut.onnx")
    cutting = Cutting(at="auto", stages=2)
    cut_network(
        Path(path),
        out,
        said=Said(size=(48, 32), output="scores", mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)),
        cutting=cutting,
        engine="onnxruntime",
        threads=1,
        repeat=1,
    )


def _run(path: str) -> None:
    for engine in ("openvino", "onnxruntime"):
        load(path, engine=engine, threads=1)(np.zeros((32, 48, 3), np.uint8))


# Texts

SCHEDULES = (
    *(
        "frame_oracle",
        "skip_frame(4)",
        "fixed_rate((1, 2, 4))",
        "pipelined(2)",
        "adaptive(0.25)",
        "adaptive(0.1, 0.2, watch=1)",
    ),
    *(
        "either(adaptive(0.25), at_least_every(8))",
        'difference(0.1, of="scores")',
        "paced(adaptive(0.02), 0.5)",
    ),
    *("budget(network_rate=0.25, cap=12)", "carried(skip_frame(4), warp(flow, scale=0.5))", "invert(confidence(0.8))"),
    *("motion_residual(0.1)", "both(adaptive(0.1), confidence(0.8, sense='below'))", "carried('alternating', 'warp')"),
)
CARRIES = ("identity", "warp", "warp(flow)", "warp(flow, scale=0.5)", "warp(codec)", "warp(auto, of='output')")
LAYOUTS = ("clips", "pascal(split='seg11valid')", "translated(shift=16, of=pascal)", "cityscapes", "davis")


def _text(given: tuple[str, ...]) -> Callable[[random.Random, Path], str]:
    return lambda chance, folder: chance.choice((changed_text, changed_words))(chance.choice(given), chance)


def _schedule_file(chance: random.Random, folder: Path) -> str:
    file = ScheduleFile(
        chance.choice(SCHEDULES), "net", ("a", "b", "c"), {"rate": 0.5}, {"network": "net.onnx", "size": "640"}
    )
    text = dump(file)
    data = text.encode()
    if chance.random() < 0.5:
        data = changed_text(text, chance).encode("utf-8", "surrogatepass")
    path = folder / "plan.toml"
    path.write_bytes(changed_bytes(data, chance) if chance.random() < 0.6 else data)
    return str(path)


# Folders and tables


def _broken_result(chance: random.Random, folder: Path) -> str:
    for name, data in fuzz_seeds.result().items():
        (folder / name).write_bytes(changed_bytes(data, chance) if chance.random() < 0.7 else data)
    (folder / "manifest.jsonl").write_bytes(
        as_json(changed_value({"input": "/a.mp4", "folder": "a", "state": "done"}, chance), chance)
    )
    return str(folder)


def _read_result(folder: str) -> None:
    _each(
        partial(_all_of, read, folder) for read in (read_labels, read_values, read_trace, read_summary, read_manifest)
    )


def _report(folder: str) -> None:
    write_report(folder, Path(folder) / "report.html", video="none")


def _all_of(read: Callable[[str], Iterable[object]], folder: str) -> None:
    for _ in read(folder):
        pass


def _each(uses: Iterable[Callable[[], object]]) -> None:
    """Every one of them; if all refuse, the first refusal comes out."""
    refused: list[ClocksegError | None] = []
    for use in uses:
        refused.append(None)
        try:
            use()
        except ClocksegError as error:
            refused[-1] = error
    if all(refused):
        raise next(filter(None, refused))


def _broken_names(chance: random.Random, folder: Path) -> str:
    value = chance.choice(
        (["sky", "road"], {"0": "sky", "1": "road"}, {"classes": ["a"], "palette": [[1, 2, 3]], "ignore": 255})
    )
    (folder / "names.json").write_bytes(as_json(changed_value(value, chance), chance))
    (folder / "names.txt").write_bytes(changed_bytes("sky = himmel\nroad = straße\n".encode(), chance))
    return str(folder)


def _read_names(folder: str) -> None:
    file = Path(folder) / "names.json"
    text = file.with_suffix(".txt")
    _each([partial(read_class_names, file), partial(read_class_map, file)])
    _each([partial(read_class_names, text), partial(read_class_map, text)])


def _broken_clips(chance: random.Random, folder: Path) -> str:
    for name, data in fuzz_seeds.clips().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(changed_bytes(data, chance) if chance.random() < 0.4 else data)
    if chance.random() < 0.7:
        return str(folder)
    hostile = chance.choice(
        (b"\xff.png", b"-rf.png", b"a\nb.png", b"\x1b[2J.png", b"..png", b"000.png.png", "\u202ea.png".encode())
    )
    (folder / "clip" / "images" / os.fsdecode(hostile)).write_bytes(b"x")
    return str(folder)


def _read_clips(folder: str) -> None:
    for clip in read_data(folder):
        for frame in clip:
            del frame


def _caffe(chance: random.Random, folder: Path) -> str:
    path = folder / "net.caffemodel"
    path.write_bytes(changed_bytes(fuzz_seeds.caffemodel(), chance))
    return str(path)


def _clock(chance: random.Random, folder: Path) -> str:
    path = folder / "clock.onnx"
    path.write_bytes(changed_bytes(fuzz_seeds.clock(), chance))
    return str(path)


TARGETS: dict[str, Target] = {
    "videos": Target(_broken_video, _decode),
    "videos, segmented": Target(_broken_video, _segment),
    "sidecars": Target(_broken_sidecar, _load),
    "ONNX files, damaged": Target(_broken_onnx, _load),
    "ONNX graphs, hostile": Target(_hostile_onnx, _load),
    "ONNX graphs, cut": Target(_hostile_onnx, _cut),
    "ONNX graphs, run": Target(_hostile_onnx, _run),
    "schedules": Target(_text(SCHEDULES), lambda text: schedule_for(parse_schedule(text), 3)),
    "carries": Target(_text(CARRIES), parse_carry),
    "layouts": Target(_text(LAYOUTS), parse_layout),
    "schedule and plan files": Target(_schedule_file, lambda path: read_schedule_file(path)(3)),
    "result folders": Target(_broken_result, _read_result),
    "reports": Target(_broken_result, _report),
    "names, palettes, class maps": Target(_broken_names, _read_names),
    "data sets": Target(_broken_clips, _read_clips),
    "learned clocks": Target(_clock, load_clock),
    "Caffe models": Target(_caffe, lambda path: import_caffe(Path(path))),
    "folders": Target(odd_folder, segment_folder),
    "command lines": Target(odd_arguments, run_arguments),
}
"""By what they are called in the table."""
