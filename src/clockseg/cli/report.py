"""``clockseg report``: a page on what ran when, what it cost and what came of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from clockseg.cli.options import add_options, check_new_files, ending
from clockseg.cli.terminal import warn
from clockseg.errors import UsageError

HELP = "write an HTML page that shows when each stage fired, beside the video"
DESCRIPTION = """Write one HTML file that shows a run: the video with the masks over it and, in step with it, which stages
fired, the clocks' signals, seconds per frame and class shares. With several runs of one video, the first is shown and the
others are compared with it. The file needs no internet connection and opens from disk."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg report``."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a folder that clockseg segment wrote")
    help = "file to write (default: report.html in the first RUN)"
    parser.add_argument("--out", type=ending(".html", ".htm"), metavar="FILE.html", help=help)
    help = (
        "embed a small copy of the video, link to the video (the page then has to stay in its folder), or show none "
        "(default: auto, which embeds up to 3000 frames)"
    )
    parser.add_argument("--video", choices=("auto", "embed", "reference", "none"), default="auto", help=help)
    help = "path of the video, if it has moved since it was segmented"
    parser.add_argument("--source", type=Path, metavar="VIDEO", help=help)
    add_options(parser, "--overwrite", help="replace existing files")
    add_options(parser, "--quiet", help="print warnings and errors only")


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    from clockseg.report import write

    out = args.out or args.runs[0] / "report.html"
    if args.source is not None and not args.source.exists():
        raise UsageError(f"--source {args.source}: no such file or folder; give the video that was segmented.")
    if args.runs[0].is_dir():
        check_new_files(out, overwrite=args.overwrite)
    write(args.runs, out, video=args.video, source=args.source, overwrite=args.overwrite, warn=warn)
    if not args.quiet:
        print(f"{out}: {out.stat().st_size / 1e6:.1f} MB; open it in a browser")
    return 0
