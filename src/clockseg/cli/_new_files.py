"""Files that a command is asked to write: what can't be written is refused before the work, not after it."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from clockseg.cli._options import need
from clockseg.errors import DataError, UsageError


def check_new_files(*files: Path, overwrite: bool) -> None:
    """Make the folders of ``files``; each is new, or a file that ``overwrite`` allows to be replaced.

    ``UsageError`` for one that is there already or is a folder, ``DataError`` where nothing can be written.

    >>> check_new_files(Path("."), overwrite=True)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: . is a folder; give the name of a file.
    """
    for file in files:
        if file.is_dir():
            raise UsageError(f"{file} is a folder; give the name of a file.")
        if file.exists() and not overwrite:
            raise UsageError(f"{file} is there already; give --overwrite to replace it, or another name.")
    for folder in {file.parent for file in files}:
        _check_folder(folder)


def check_new_network(file: Path, *, overwrite: bool) -> None:
    """As ``check_new_files``, of NAME.onnx and the sidecar NAME.json beside it.

    >>> check_new_network(Path("street.txt"), overwrite=False)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: --out street.txt: give a name that ends in .onnx; its sidecar goes beside it.
    """
    if file.suffix != ".onnx":
        raise UsageError(f"--out {file}: give a name that ends in .onnx; its sidecar goes beside it.")
    check_new_files(file, file.with_suffix(".json"), overwrite=overwrite)


def check_new_schedule(args: argparse.Namespace) -> None:
    """As ``check_new_files``, of the schedule file that ``--out`` names and the picture that ``--plot`` names, if any.

    >>> check_new_schedule(argparse.Namespace(out=Path("street.txt"), plot=None, overwrite=False))
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: --out street.txt: give a name that ends in .toml, by which --schedule knows it.
    """
    if args.out is not None and args.out.suffix != ".toml":
        raise UsageError(f"--out {args.out}: give a name that ends in .toml, by which --schedule knows it.")
    out = [] if args.out is None else [args.out]
    check_new_files(*out, *plots(args), overwrite=args.overwrite)


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(f"{folder}: nothing can be written there ({error.strerror}). Give another folder.") from error


def add_plot_option(group: argparse._ArgumentGroup | argparse.ArgumentParser, what: str) -> None:
    """``--plot``, which draws ``what``."""
    group.add_argument(
        "--plot", type=Path, metavar="FILE.svg|png", help=f"draw {what} (needs pip install '.[plots]' in the clone)"
    )


def plots(args: argparse.Namespace) -> list[Path]:
    """The file that ``--plot`` names, if any; ``UsageError`` for another ending, ``MissingDependency`` without matplotlib.

    >>> plots(argparse.Namespace(plot=None))
    []
    """
    if args.plot is None:
        return []
    from clockseg.report.plots.style import check_plot

    check_plot(args.plot)
    need("matplotlib", what="--plot", extra="plots")
    return [args.plot]
