"""``clockseg report``: a page on what ran when, what it cost and what came of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from clockseg.cli._options import check_new_files
from clockseg.cli._terminal import indented
from clockseg.errors import UsageError


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``report`` and its options."""
    parser = commands.add_parser(
        "report",
        help="write a page to look at runs: the video with its masks, what fired when, what it cost",
        description="Write one HTML file that shows a run: the video with the masks over it and, in step with it, which stages "
        "fired, the clocks' signals, seconds per frame and class shares. With several runs of one video, the first is shown "
        "and the others are compared with it. The file needs no network and opens from disk.",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a folder that clockseg segment wrote")
    parser.add_argument(
        "--out", type=Path, metavar="FILE.html", help="the page (default: report.html in the first RUN)"
    )
    parser.add_argument(
        "--video",
        choices=("auto", "embed", "reference", "none"),
        default="auto",
        help="put a small copy of the video into the page, refer to it where it is (the page then has to stay where it is "
        "seen from), or leave it out (default: up to 3000 frames are put in)",
    )
    parser.add_argument(
        "--source", type=Path, metavar="VIDEO", help="where the video is now (default: where it was segmented)"
    )
    parser.add_argument("--plan", type=Path, metavar="FILE.toml", help="show the frontier of this plan as well")
    parser.add_argument("--overwrite", action="store_true", help="replace a page that is there")
    parser.add_argument("--quiet", action="store_true", help="warnings and errors only")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    from clockseg.report import write

    out = args.out or args.runs[0] / "report.html"
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {out}: give a name that ends in .html, by which browsers know it.")
    if args.source is not None and not args.source.exists():
        raise UsageError(f"--source {args.source}: no such file or folder; give the video that was segmented.")
    if args.runs[0].is_dir():
        check_new_files(out, overwrite=args.overwrite)
    write(args.runs, out, video=args.video, source=args.source, plan=args.plan, overwrite=args.overwrite, told=_warn)
    if not args.quiet:
        print(f"{out}: {out.stat().st_size / 1e6:.1f} MB; open it in a browser")
    return 0


def _warn(sentence: str) -> None:
    print(f"clockseg: warning: {indented(sentence)}", file=sys.stderr)
