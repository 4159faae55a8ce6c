"""``clockseg segment``: from videos to label maps, overlays and traces."""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clockseg.cli import options
from clockseg.cli.loading import as_planned, fetch_network, parse_schedules, tell_engine
from clockseg.cli.terminal import Watch, columns, fail, indented, percent, say, warn
from clockseg.errors import DataError, UsageError, VideoError, install, user_message
from clockseg.files import MAX_HOURS, SourceFiles, printable
from clockseg.networks import ANY_VIDEO

if TYPE_CHECKING:
    from clockseg.clockwork.schedule import Schedule
    from clockseg.segmenting.inputs import Input
    from clockseg.segmenting.segmentation import Outcome
    from clockseg.segmenting.work import Segmented, Work
    from clockseg.segmenting.workers import Workers

Made: TypeAlias = tuple[Any, ...]
"""The values that must be equal in all processes of a run: the setting, the schedule and the carry of its ``Work``."""
WORK_OPTIONS = ("every", "limit", "start", "end", "max_pixels", "max_hours", "strip", "classes")
"""Options that ``Work`` takes as they are."""
LONGEST_NAME = 60
LONGEST_TABLE = 40
"""Rows; of more videos only those that failed or were cut short are in the table."""
FEWEST_TIMED = 20
"""Frames after the first; the network's time on fewer is too uncertain to be told."""
LEAST_BUSY = 0.3
"""The least share of a run that is worth naming as what kept it busy."""
HELP = "segment videos"
DESCRIPTION = """Segment videos. Each input gets a folder DIR/STEM with labels.mkv (lossless, one grey byte per pixel: the class id),
overlay.mp4, trace.jsonl (one JSON object per frame: what fired, why, and how long it took) and summary.json.
Networks that output numbers, such as depth, write values.mkv (one float16 per pixel) instead of labels.mkv; instance networks
write instances.jsonl (COCO run lengths, with identities). DIR/manifest.jsonl has one line per video. One bad input does not
stop the others."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg segment``."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="a video file, an image, a folder of images (one clip) or of videos (all of them), a quoted pattern such as "
        "'cam*/**/*.mp4', or @LIST, a file with one path per line (@-: standard input); put -- before names that start with -",
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for the results")
    text = (
        "outputs to write, a comma-separated subset of labels,overlay,trace,png; of values,overlay,trace,npy for a network "
        "without classes; or of instances,overlay,trace for an instance network (default: the first three)"
    )
    options.add_options(parser, "--write", help=text)
    text = "also write report.html, an interactive page (see clockseg report)"
    parser.add_argument("--report", action="store_true", help=text)
    options.add_options(parser, "--overwrite")
    text = "draw and write only these classes, such as person,car; all others get the label 255"
    parser.add_argument("--classes", type=options.kinds, default=(), metavar="NAMES", help=text)
    text = "show when the network ran in one bar (activity), or in a row for each stage (default: activity)"
    parser.add_argument("--strip", choices=("activity", "stages"), default="activity", help=text)
    options.add_network_options(parser, default=ANY_VIDEO)
    options.add_schedule_options(parser)
    options.add_frames_options(parser)
    _add_part_options(parser.add_argument_group("part of each video"))
    _add_many_options(parser.add_argument_group("many videos"))


def _add_part_options(group: argparse._ArgumentGroup) -> None:
    text = "first moment to process: seconds, or H:MM:SS (default: the beginning)"
    group.add_argument("--start", type=moment, metavar="TIME", help=text)
    group.add_argument("--end", type=moment, metavar="TIME", help="last moment to process (default: the end)")
    options.add_options(group, "--max-pixels")
    text = "refuse videos whose header states more hours (default: %(default)g)"
    group.add_argument("--max-hours", type=options.above_zero, default=MAX_HOURS, metavar="N", help=text)


def _add_many_options(group: argparse._ArgumentGroup) -> None:
    text = "number of processes that share the cores, the videos and the pieces of long videos (default: 1)"
    group.add_argument("--jobs", type=options.positive, default=1, metavar="N", help=text)
    group.add_argument(
        "--cluster",
        metavar="auto|ADDRESS",
        help="run the jobs as actors of a Ray cluster on a file system shared with this machine, each with --threads cores "
        f"(default: this machine's cores divided by --jobs); needs {install('ray')}",
    )
    text = "resume an interrupted run: skip videos and pieces that DIR/manifest.jsonl lists as complete"
    group.add_argument("--resume", action="store_true", help=text)


def moment(text: str) -> Fraction:
    """Parse seconds, optionally with minutes and hours before them, for argparse."""
    if not re.fullmatch(r"(?:\d{1,9}|(?:\d{1,4}:)?[0-5]?\d:[0-5]?\d)(?:\.\d{1,9})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; give seconds, or H:MM:SS, such as 90.5 or 1:30")
    parts = [Fraction(part) for part in text.split(":")]
    return sum((part * 60**power for power, part in enumerate(reversed(parts))), Fraction(0))


def run(args: argparse.Namespace) -> int:
    """Segment each input; 1 if any failed or was cut short."""
    # Motion, drawing and encoding have threads of their own. More of them inside OpenCV cost a twentieth of the processor time.
    os.environ.setdefault("OPENCV_FOR_THREADS_NUM", "1")
    from clockseg.planning.schedule_file import NETWORK_FILES
    from clockseg.segmenting.inputs import inputs
    from clockseg.segmenting.segmentation import segment_many
    from clockseg.video import open_clip
    from clockseg.video.decode import ALLOWED

    found = inputs(args.inputs, warn=lambda text: warn(printable(text)))
    if not any(os.path.lexists(one.source) for one in found):
        names = ", ".join(printable(one.source) for one in found[:3])
        raise VideoError(f"{names}: no such file or folder. {ALLOWED}")
    network = next((one.source for one in found if Path(one.source).suffix in NETWORK_FILES), None)
    if network is not None:
        name = printable(network)
        raise UsageError(f"{name} is a network, not a video. Give it as --network {name}, beside the video.")
    args = as_planned(args, args.schedule)
    if len(found) == 1:
        # Before the network is loaded, which takes longer.
        open_clip(found[0].source, max_pixels=args.max_pixels)
    fetch_network(args)
    args = _pinned(args)
    work = make_work(args)
    # What was imported and loaded stays to the end, so searches for garbage need not look at it.
    gc.freeze()
    tell_engine(args, work.net)
    watch = Watch(len(found), quiet=args.quiet)
    outcomes = segment_many(
        found,
        args.out,
        lambda: _workers(args, work),
        work.facts(),
        overwrite=args.overwrite,
        resume=args.resume,
        on_progress=lambda clip, progress: watch.update(clip.source, progress),
    )
    return tell_each(outcomes, found, watch, quiet=args.quiet, page=args.report)


def _pinned(args: argparse.Namespace) -> argparse.Namespace:
    """With the engine that the run used which is to be resumed: another gives other bytes."""
    from clockseg.segmenting.manifest import read

    if not (args.resume and args.engine == "auto"):
        return args
    engines = {str(entry.setting.get("engine", "auto")).split()[0] for entry in read(args.out).values()}
    return options.changed(args, engine=min(engines, default="auto"))


def make_work(args: argparse.Namespace, made: Made | None = None) -> Work:
    """Load the network and parse its schedule; ``DataError`` if their files are replaced meanwhile.

    ``made``: what another process made of the same options; files that were replaced since give something else.
    """
    from clockseg.networks.load import files_of, load
    from clockseg.segmenting.results import check_writes
    from clockseg.segmenting.work import Work
    from clockseg.showing.kind import kind_of

    before = SourceFiles(files_of(args.network)).digest
    net = load(args.network, **options.engine_options(args))
    writes = check_writes(args.write, kind_of(net))
    [(name, schedule)] = parse_schedules(None if args.schedule is None else [args.schedule], net, args.carry)
    size = None if args.size is None else str(args.size)
    setting = {"network": args.network, "digest": _digest(args, schedule), "size": size}
    more = {option: getattr(args, option) for option in WORK_OPTIONS}
    work = Work(net, schedule, writes, name=name, setting=setting, **more)
    if SourceFiles(files_of(args.network)).digest != before or made not in (None, _made(work)):
        raise DataError(
            f"the files of network {args.network} or of its schedule were replaced during the run; "
            "segment again when they no longer change."
        )
    return work


def recipe(args: argparse.Namespace, work: Work, *, threads: int) -> Callable[[], Work]:
    """Return a function by which other processes make ``work``: in its engine, with so many threads unless --threads is given."""
    engine = work.net.engine.split()[0] if args.engine == "auto" else args.engine
    return partial(make_work, options.changed(args, engine=engine, threads=args.threads or threads), _made(work))


def _made(work: Work) -> Made:
    return work.setting, work.name


def _digest(args: argparse.Namespace, schedule: Schedule) -> str:
    """Return a digest of the network's files, its weights and its sidecar included, and of those of clocks and of the carry.

    With code of the user's, it is also one of the options as typed, since an object may not tell its arguments.
    """
    from clockseg.clockwork.clock import facts, walk
    from clockseg.networks.load import files_of

    clocks = [one for clock in schedule.clocks for one in walk(clock)]
    files = [file for one in clocks for file in facts(one).files if file.is_file()]
    code = [found for one in (*clocks, schedule.carry) if (found := _module_file(one)) is not None]
    digest = hashlib.sha256(repr((args.schedule, args.carry)).encode() if code else b"")
    for path in (*files_of(args.network), *dict.fromkeys([*files, *code])):
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()[:16]


def _module_file(given: Any) -> Path | None:
    """Return the file with the code of a clock or carry of the user's; None for those of clockseg."""
    code = getattr(given, "function", given)
    name = str(getattr(getattr(code, "func", code), "__module__", None))
    file = None if name.startswith("clockseg.") else getattr(sys.modules.get(name), "__file__", None)
    return None if file is None else Path(file)


def _workers(args: argparse.Namespace, work: Work) -> Workers:
    from clockseg.execution.machine import cores
    from clockseg.segmenting.workers import Cluster, Here, Pool, Process

    if args.jobs == 1 and args.cluster is None:
        return Here(work)
    threads = max(1, cores() // args.jobs)
    how = recipe(args, work, threads=threads)
    if args.cluster is not None:
        return Cluster(how, args.jobs, address=args.cluster, cores=args.threads or threads)
    return Pool(partial(Process, how), args.jobs)


def tell_each(
    outcomes: Generator[Outcome, None, None], inputs: Sequence[Input], watch: Watch, *, quiet: bool, page: bool
) -> int:
    """Print the result of each of ``inputs`` as it comes, and a table of several at the end; return the exit code.

    ``watch`` counts those that have ended. ``page``: also write the page of each. The error of a single input is raised,
    unless its files are at fault (``OSError``, ``DataError``), which is printed.
    """
    told: list[Outcome] = []
    try:
        with closing(outcomes):
            for outcome in outcomes:
                error = outcome.error
                if len(inputs) == 1 and error is not None and not isinstance(error, OSError | DataError):
                    raise error
                told.append(outcome)
                watch.ended()
                _tell(outcome, quiet=quiet)
                if page and outcome.done is not None and not outcome.before:
                    _write_page(outcome.done.folder)
    except KeyboardInterrupt:
        say("run the same command with --resume to continue from here.")
        raise
    finally:
        if len(inputs) > 1 and not quiet and told:
            place = {input.key: number for number, input in enumerate(inputs)}
            print(_table(sorted(told, key=lambda one: place[one.input.key]), len(place)))
    return 0 if all(outcome.whole for outcome in told) else 1


def _tell(outcome: Outcome, *, quiet: bool) -> None:
    source = outcome.input.source
    if outcome.error is not None:
        text = user_message(outcome.error) or f"{type(outcome.error).__name__}: {outcome.error}"
        fail(text if source in text else f"{source}: {text}")
    if outcome.done is None:
        return
    if not outcome.before:
        for sentence in (*outcome.done.problems, *outcome.done.summary["warnings"]):
            warn(f"{source}: {sentence}")
    if not quiet:
        print(indented(f"{source}: done before") if outcome.before else _told(outcome.done), flush=True)


def _write_page(folder: Path) -> None:
    from clockseg.report import write
    from clockseg.segmenting.results import REPORT

    write([folder], folder / REPORT, overwrite=True, warn=say)


def _told(done: Segmented) -> str:
    summary: dict[str, Any] = done.summary
    if summary["network_rate"] is None:
        return f"{done.folder}: 1 frame"
    rates, time, frames = summary["fire_rate"], _time(summary), summary["frames"]
    told = f"{done.folder}: {frames} frames in {summary['wall_seconds']:.1f} s ({summary['fps']:.1f} FPS)"
    # As in the summary: the network always runs on the first frame, which says nothing about the schedule.
    later = frames - 1
    ran = f"The network ran on {round(summary['network_rate'] * later)} of the {later} frames after the first"
    if len(set(rates.values())) > 1:
        ran += f" ({', '.join(f'{name} on {round(rate * later)}' for name, rate in rates.items())})"
    if time:
        ran += f", in {percent(time)} of the time that it would need for all of them (estimated)"
    carry = "" if summary["carry"] == "identity" else f" Carry: {summary['carry']}."
    return f"{told}. {ran}.{carry}{_busiest(summary)}"


def _time(figures: dict[str, Any]) -> float | None:
    """Return the estimated time relative to the network's on every frame; None if too few frames were timed."""
    return figures.get("relative_time_estimate") if (figures.get("frames") or 0) > FEWEST_TIMED else None


def _busiest(summary: dict[str, Any]) -> str:
    """Return a sentence on the activity that took the most time, or "" if it took little of it, as in a short run.

    Activities overlap, each in a thread of its own.
    """
    name, seconds = max(summary["busy_seconds"].items(), key=lambda one: one[1])
    share = min(1.0, seconds / summary["wall_seconds"])
    if share < LEAST_BUSY:
        return ""
    what = {"writing": "drawing and encoding", "showing": "making outputs", "network": "the network"}.get(name, name)
    return f" Busiest: {what}, {percent(share)} of the time."


def _table(outcomes: Sequence[Outcome], given: int) -> str:
    """A row a video, or, of many, a row of each that isn't whole; and the sum."""
    shown = outcomes if len(outcomes) <= LONGEST_TABLE else [one for one in outcomes if not one.whole]
    failed = sum(one.error is not None for one in outcomes)
    cut = sum(not one.whole for one in outcomes) - failed
    before, coming = sum(one.before for one in outcomes), given - len(outcomes)
    counts = {"of them before": before, "with problems": cut, "failed": failed, "to come": coming}
    parts = [f"{len(outcomes) - failed} of {given} videos segmented"]
    parts += [f"{count} {what}" for what, count in counts.items() if count]
    total = f"{', '.join(parts)}; {sum(_figures(one).get('frames') or 0 for one in outcomes)} frames"
    return f"{columns(shown, _CELLS)}\n{total}" if shown else total


def _short(text: str) -> str:
    """A name with its middle left out, if it is long."""
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME // 2]}…{text[-LONGEST_NAME // 2 :]}"


def _figures(outcome: Outcome) -> dict[str, Any]:
    return {} if outcome.done is None else outcome.done.summary


def _state(outcome: Outcome) -> str:
    if outcome.before:
        return "done before"
    return "failed" if outcome.error is not None else "" if outcome.whole else "with problems"


_CELLS: dict[str, Callable[[Outcome], str]] = {
    "video": lambda one: _short(one.input.source),
    "frames": lambda one: str(_figures(one).get("frames", "")),
    "network ran on": lambda one: percent(_figures(one).get("network_rate")),
    "time": lambda one: percent(_time(_figures(one))),
    "": _state,
}
