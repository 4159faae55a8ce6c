"""Small videos of every kind, made with PyAV: pixel formats, colours, fields, shapes, times, sound, streams, containers.

Each picture tells its own number (``drawn``), so that a frame out of place is seen in the labels of a network that tells
bright from dark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from av.codec.context import Flags

Image = npt.NDArray[np.uint8]
FRAMES, FPS = 14, 25
MS = Fraction(1, 1000)
BITS = 5
"""Of a picture's number, most significant first; before them a bright field and a dark one."""
# H.273 numbers: matrix, range, primaries, transfer.
BT601, BT709, BT2020 = 6, 1, 9
LIMITED, FULL = 1, 2
PATCHES = ((190, 60, 60), (60, 160, 80), (70, 80, 190), (180, 170, 60), (128, 128, 128), (60, 150, 160))


def drawn(number: int, width: int = 96, height: int = 64) -> Image:
    """A picture: its number in bright and dark fields above, patches of colour below."""
    image = np.zeros((height, width, 3), np.uint8)
    fields = [True, False, *(bool(number >> bit & 1) for bit in reversed(range(BITS)))]
    for place, bright in enumerate(fields):
        image[: height // 2, _part(place, len(fields), width)] = 220 if bright else 20
    for place, colour in enumerate(PATCHES):
        image[height // 2 :, _part(place, len(PATCHES), width)] = colour
    return image


def told(labels: npt.NDArray[np.uint8]) -> int | None:
    """The number that a map of bright (1) and dark (0) tells; None if it tells none."""
    height, width = labels.shape
    count = BITS + 2
    fields = [int(labels[height // 4, int((place + 0.5) * width / count)]) for place in range(count)]
    return int("".join(map(str, fields[2:])), 2) if fields[:2] == [1, 0] else None


def _part(place: int, count: int, width: int) -> slice:
    return slice(round(place * width / count), round((place + 1) * width / count))


@dataclass(frozen=True)
class Tone:
    """A track of sound: a sine a channel, of 300 Hz, 400 Hz, and so on."""

    codec: str
    rate: int = 48000
    layout: str = "stereo"
    start: float = 0.0
    seconds: float = FRAMES / FPS
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """How a video is made, and what must come out of it.

    ``tags``: matrix, range, primaries and transfer (None: not told). ``times``: in ms, one a frame (None: 25 a second).
    ``after``: what is done to the finished file. ``numbers``: what the frames that come out tell.
    """

    what: str
    name: str
    codec: str = "libx264"
    pixels: str = "yuv420p"
    size: tuple[int, int] = (96, 64)
    options: dict[str, str] = field(default_factory=dict)
    tags: tuple[int | None, int | None, int | None, int | None] = (None, None, None, None)
    times: Sequence[int] | None = None
    base: Fraction = MS
    tones: tuple[Tone, ...] = ()
    turn: int = 0
    flip: bool = False
    aspect: Fraction = Fraction(1)
    fields: bool = False
    container: str | None = None
    muxer: dict[str, str] = field(default_factory=dict)
    after: Callable[[Path], None] | None = None
    numbers: Sequence[int] = range(FRAMES)

    def make(self, folder: Path) -> Path:
        """The file, in ``folder``."""
        path = folder / self.name
        with av.open(str(path), "w", format=self.container, container_options=self.muxer) as output:
            stream = self._stream(output)
            tones = [(tone, output.add_stream(tone.codec, rate=tone.rate, layout=tone.layout, options=tone.options))
                     for tone in self.tones]  # fmt: skip
            for number in range(FRAMES):
                output.mux(stream.encode(self._frame(number)))
            for tone, sound in tones:
                for frame in _sines(tone):
                    output.mux(sound.encode(frame))
                output.mux(sound.encode(None))
            output.mux(stream.encode(None))
        if self.after is not None:
            self.after(path)
        return path

    def _stream(self, output: av.container.OutputContainer) -> av.VideoStream:
        stream = output.add_stream(self.codec, rate=FPS, options=self.options)
        stream.width, stream.height = self.size
        stream.pix_fmt = self.pixels
        context = stream.codec_context
        context.time_base, context.sample_aspect_ratio = self.base, self.aspect
        if self.fields:
            context.flags |= Flags.interlaced_dct | Flags.interlaced_me
        for name, value in zip(("colorspace", "color_range", "color_primaries", "color_trc"), self.tags, strict=True):
            if value is not None:
                setattr(context, name, value)
        if self.turn or self.flip:
            stream.set_display_rotation(self.turn, hflip=self.flip)
        return stream

    def _frame(self, number: int) -> av.VideoFrame:
        image = drawn(number, *(self.size[::-1] if self.turn % 180 else self.size))
        if self.flip:
            image = image[:, ::-1]
        image = np.ascontiguousarray(np.rot90(image, -self.turn // 90))
        matrix, extent, primaries, transfer = self.tags
        frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(
            format=self.pixels, dst_colorspace={BT709: "ITU709", BT2020: "BT2020"}.get(matrix, "ITU601"),
            dst_color_range=extent or (LIMITED if self.pixels.startswith("yuv") else FULL),
        )  # fmt: skip
        frame.colorspace, frame.color_range = matrix or 2, extent or 0
        frame.color_primaries, frame.color_trc = primaries or 2, transfer or 2
        time = self.times[number] if self.times else Fraction(1000 * number, FPS)
        frame.pts, frame.time_base = round(time * MS / self.base), self.base
        return frame

    @property
    def seconds(self) -> list[float]:
        """The times of the frames that are to come out; of a file that repeats itself, of its first part."""
        times = self.times or [Fraction(1000 * number, FPS) for number in range(FRAMES)]
        return [float(times[number] * MS) for number in dict.fromkeys(self.numbers)]


def _sines(tone: Tone) -> Iterator[av.AudioFrame]:
    channels = len(av.AudioLayout(tone.layout).channels)
    at = np.arange(round(tone.rate * tone.seconds)) / tone.rate
    samples = np.stack([np.sin(2 * np.pi * (300 + 100 * channel) * at) * 0.3 for channel in range(channels)])
    for first in range(0, samples.shape[1], 1024):
        piece = np.ascontiguousarray(samples[:, first : first + 1024].T, np.float32).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(piece, format="flt", layout=tone.layout)
        frame.sample_rate, frame.time_base = tone.rate, Fraction(1, tone.rate)
        frame.pts = round(tone.start * tone.rate) + first
        yield frame
