"""Values of options: the texts that the command line reads, and those that it refuses before any work."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from clockseg.cli import options
from clockseg.cli.main import main
from clockseg.cli.segment import moment


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (options.positive, "8", 8),
        (options.count, "0", 0),
        (options.above_zero, "1e-10", 1e-10),
        (options.share, "1/4", 0.25),
        (options.three, "0.5", (0.5, 0.5, 0.5)),
        (options.three, "1,2,3", (1.0, 2.0, 3.0)),
        (options.kinds, "labels, png,", ("labels", "png")),
        (options.size, "640x360", (640, 360)),
        (options.working_size, "640x360", (640, 360)),
        (options.working_size, "640", 640),
        (options.working_size, "own", "own"),
        (options.ending(".svg", ".png"), "a.b/c.png", Path("a.b/c.png")),
        (moment, "90.5", Fraction(181, 2)),
        (moment, "1:30", 90),
        (moment, "1:02:03.5", Fraction(7447, 2)),
    ],
)
def test_what_is_read(parse: Callable[[str], Any], text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *((options.positive, text) for text in ("0", "-1", "1.5", "", "x", "10000000000")),
        *((options.above_zero, text) for text in ("0", "nan", "1/0", "1e999", "a")),
        *((options.share, text) for text in ("-0.1", "1.01", "3/2")),
        *((options.three, text) for text in ("1,2", "1,2,x", "inf", "")),
        *((options.size, text) for text in ("640", "0x5", "640x", "640x480x3", "100000x1")),
        *((options.working_size, text) for text in ("0", "own own", "640x0")),
        (options.ending(".onnx"), "net.onnx.json"),
    ],
)
def test_what_is_refused(parse: Callable[[str], Any], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse(text)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["cut", "net.onnx", "--out", "x.json"], "--out: x.json: give a name that ends in .onnx"),
        (["import", "net.caffemodel", "--out", "x.safetensors"], "ends in .onnx"),
        (["quantize", "net.onnx", "v.mp4", "--out", "x.txt"], "ends in .onnx"),
        (["tune", "v.mp4", "--fire-rate", "0.5", "--out", "x.txt"], "ends in .toml"),
        (["plan", "v.mp4", "--keep", "0.9", "--out", "x"], "ends in .toml"),
        (["evaluate", "v.mp4", "--table", "x.xls"], "ends in .csv or .tex"),
        (["evaluate", "v.mp4", "--plot", "x.jpeg"], "--plot: x.jpeg: give a name that ends in .svg or .png"),
        (["velocity", "v.mp4", "--plot", "x.pdf"], "ends in .svg or .png"),
        (["report", "results", "--out", "x.pdf"], "ends in .html or .htm"),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else "",
)
def test_wrong_endings_are_refused_before_the_work(
    capsys: pytest.CaptureFixture[str], command: list[str], said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(command)
    assert said in capsys.readouterr().err
