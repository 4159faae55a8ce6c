"""Videos that are cut into pieces, small enough to be run often: a frame a second, key frames, moving bars, sound."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from clockseg.types import Image

FRAMES = 170
"""Of each: three pieces."""
SIZE = (96, 64)
FORMATS = (
    ("mp4", "libx264", {"g": "20", "bf": "2", "sc_threshold": "0"}),
    ("mkv", "libx264", {"g": "33", "bf": "0", "sc_threshold": "0"}),
    ("avi", "mpeg4", {"g": "15", "sc_threshold": "1000000000"}),
    ("mkv", "libx265", {"x265-params": "keyint=20:log-level=none"}),
)


def long_videos(folder: Path, count: int) -> list[Path]:
    """``count`` videos in ``folder``, of the ``FORMATS`` by turns, no two alike."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_long_video(folder, number, *FORMATS[number % len(FORMATS)]) for number in range(count)]


def _long_video(folder: Path, number: int, ending: str, codec: str, options: dict[str, str]) -> Path:
    path = folder / f"video{number}.{ending}"
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=1, options=options)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        sound = output.add_stream("aac", rate=16000, layout="mono")
        for second in range(FRAMES):
            frame = av.VideoFrame.from_ndarray(_picture(number, second), format="rgb24")
            frame.pts, frame.time_base = 1000 * second, Fraction(1, 1000)
            output.mux(stream.encode(frame))
            output.mux(sound.encode(_tone(second)))
        output.mux(stream.encode(None))
        output.mux(sound.encode(None))
    return path


def _picture(number: int, second: int) -> Image:
    width, height = SIZE
    y, x = np.mgrid[:height, :width]
    image = np.stack([x + 40, 2 * y + 20 * number, np.full(x.shape, 60 + second % 90)], 2).astype(np.uint8)
    left = (3 + number) * second % (width - 8)
    image[height // 3 :, left : left + 8] = (200, 40, 30 * number)
    return image


def _tone(second: int, rate: int = 16000) -> av.AudioFrame:
    times = np.arange(second * rate, (second + 1) * rate) / rate
    frame = av.AudioFrame.from_ndarray(np.float32(0.1 * np.sin(2 * np.pi * 220 * times))[None], "fltp", "mono")
    frame.sample_rate, frame.pts, frame.time_base = rate, second * rate, Fraction(1, rate)
    return frame


def different(one: Path, other: Path, names: Sequence[str] = ("labels.mkv", "overlay.mp4", "trace.jsonl")) -> list[str]:
    """Which files of two output folders are not the same bytes (traces: less the seconds), or are in one alone."""
    found = []
    for name in sorted(
        {path.relative_to(root) for root in (one, other) for path in root.rglob("*") if path.name in names}
    ):
        there = [root / name for root in (one, other)]
        if not all(path.is_file() for path in there) or len({_content(path) for path in there}) != 1:
            found.append(str(name))
    return found


def _content(path: Path) -> bytes:
    if path.suffix != ".jsonl":
        return path.read_bytes()
    # The seconds are the last of each line.
    return b"\n".join(line.partition(b'"seconds": ')[0] for line in path.read_bytes().splitlines())
