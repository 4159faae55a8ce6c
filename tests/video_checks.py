"""Did all of a video come through ``clockseg segment``: its frames in order, its times, its sound, its colours?"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import av
import cv2
import numpy as np

from clockseg import read_labels, read_trace
from clockseg.video import open_clip
from made_videos import told
from video_axes import Made
from video_reference import difference, reference

COPIED = ("aac", "mp3", "mp3float", "ac3", "eac3", "alac", "opus", "flac")
BRIGHT = 0.44 * 255
"""What the network of ``bright_network`` tells from dark."""
_MOST_PICTURES = 20
"""Of a video, that are compared with the reference conversion."""
_MOST = {"times": 1.0, "end": 1.0, "colours": 6.0}
"""Matroska counts milliseconds; the least and the greatest of a frame's colours are 0 and 255."""


class Track(NamedTuple):
    """A track of sound: how it is coded, when it begins, how long it is, and the level of each channel."""

    codec: str
    start: float
    seconds: float
    levels: tuple[float, ...]
    packets: tuple[bytes, ...]


class Check(NamedTuple):
    """What came of one video. Errors are the largest of any frame; None: nothing to compare with.

    ``in_place``: each frame of the labels shows what is in that frame of the video. ``times_ms``: of labels and overlay,
    against what FFmpeg decodes; ``made_ms``: of that, against what the video was made with. ``end_ms``: where the overlay ends.
    ``aspect``: pixels are as wide. ``colours``: of 255, against the reference conversion.
    """

    frames_in: int
    frames_out: int
    in_place: bool
    times_ms: float
    made_ms: float | None
    end_ms: float
    aspect: bool
    sound: str
    sound_kept: bool
    colours: float

    @property
    def passed(self) -> bool:
        """Whether all of it is as it should be."""
        return (
            self.frames_in == self.frames_out
            and self.in_place
            and max(self.times_ms, self.made_ms or 0.0) <= _MOST["times"]
            and self.end_ms <= _MOST["end"]
            and self.aspect
            and self.sound_kept
            and self.colours <= _MOST["colours"]
        )


def checked(made: Made, result: Path) -> Check:
    """Compares a video with its result folder."""
    pictures = decoded(made)
    labels, overlay = list(read_labels(result)), result / "overlay.mp4"
    times, ends = expected_times(made, pictures)
    came = times_of(overlay)
    said, kept = sound_kept(made.path, overlay)
    step = max(1, len(pictures) // _MOST_PICTURES)
    expected = {number: _turned(made, pictures[number]) for number in range(0, len(pictures), step)}
    return Check(
        len(pictures),
        len(labels) if len(labels) == len(read_trace(result)) == len(came) else -1,
        in_place(made, labels, expected),
        max(apart(times, times_of(result / "labels.mkv")), apart(times, came)),
        None if made.seconds is None or pictures[0].pts is None else apart_but_for_a_shift(times, made.seconds),
        abs(end_of(overlay) - ends) * 1000,
        aspect_of(made, overlay),
        said,
        kept,
        colours(made, expected),
    )


def decoded(made: Made) -> list[av.VideoFrame]:
    """What FFmpeg decodes, through PyAV alone; of a folder, of every file."""
    if made.path.is_dir():
        return [frame for file in sorted(made.path.iterdir()) for frame in decoded(made._replace(path=file))]
    if made.path.suffix == ".webp":
        image = cv2.imread(str(made.path))[..., ::-1]
        return [av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")]
    frames = []
    with av.open(str(made.path)) as container:
        stream = container.streams.best("video")
        # What a damaged packet gives depends on their number.
        stream.thread_type, stream.codec_context.thread_count = "AUTO", 4
        for packet in container.demux(stream):
            try:
                frames += packet.decode()
            except av.FFmpegError:
                continue
    return frames


def expected_times(made: Made, pictures: list[av.VideoFrame]) -> tuple[list[float], float]:
    """The times of the pictures, and when the last ends; by the rate where there are none, and on where they jump back."""
    period = _period(made.path)
    if made.path.is_dir() or pictures[0].pts is None:
        return [number * period for number in range(len(pictures))], len(pictures) * period
    times = [float(picture.pts * picture.time_base) for picture in pictures]
    last = float(pictures[-1].duration * pictures[-1].time_base) or period
    if not any(before - after > 1 for before, after in pairwise(times)):
        return sorted(times), max(times) + last
    found, shift = [times[0]], 0.0
    for before, after in pairwise(times):
        shift += before - after + period if before - after > 1 else 0.0
        found.append(after + shift)
    return found, found[-1] + last


def _period(path: Path) -> float:
    if path.is_dir():
        return 1 / 25
    with av.open(str(path)) as container:
        stream = container.streams.best("video")
        average = stream.average_rate if stream.start_time is not None else None
        return float(1 / (average or stream.guessed_rate or 25))


def _turned(made: Made, picture: av.VideoFrame) -> np.ndarray:
    """The reference conversion, upright."""
    turn = made.turn or picture.rotation
    expected = np.rot90(reference(picture), turn // 90)
    return expected[:, ::-1] if made.flip else expected


def in_place(made: Made, labels: list[np.ndarray], expected: dict[int, np.ndarray]) -> bool:
    """Whether each map shows its own frame: the number in it, or what is bright in the picture, but at its edges."""
    if made.numbers:
        return [told(one) for one in labels] == list(made.numbers)
    shown = [(labels[number], picture) for number, picture in expected.items() if number < len(labels)]
    return all(_alike(one, picture.mean(2) > BRIGHT) for one, picture in shown if one.shape == picture.shape[:2])


def _alike(labels: np.ndarray, bright: np.ndarray) -> bool:
    return float((labels == bright).mean()) > 0.8


def aspect_of(made: Made, overlay: Path) -> bool:
    """Whether pixels of the overlay are as wide as those of the video, turned."""
    if made.path.is_dir():
        return True
    ratios = []
    for path in (made.path, overlay):
        with av.open(str(path)) as container:
            ratios.append(container.streams.best("video").sample_aspect_ratio or Fraction(1))
    return ratios[1] == (1 / ratios[0] if made.turn % 180 else ratios[0])


def end_of(path: Path) -> float:
    """When the last picture of a file ends."""
    with av.open(str(path)) as container:
        *_, last = (packet for packet in container.demux(video=0) if packet.size)
        return float((last.pts + last.duration) * last.time_base)


def times_of(path: Path) -> list[float]:
    """The times of the pictures of a file."""
    with av.open(str(path)) as container:
        return [float(frame.pts * frame.time_base) for frame in container.decode(video=0)]


def apart(times: list[float], others: list[float]) -> float:
    """The largest difference in ms."""
    if len(times) != len(others):
        return float("inf")
    return 1000 * max(abs(one - other) for one, other in zip(times, others, strict=True))


def apart_but_for_a_shift(times: list[float], made: tuple[float, ...]) -> float:
    """The same of times that a container may move all together; of a file that repeats, of its first part."""
    times = times[: len(made)]
    return apart([time - times[0] for time in times], [time - made[0] for time in made[: len(times)]])


def colours(made: Made, expected: dict[int, np.ndarray]) -> float:
    """The largest difference of a frame from the reference conversion."""
    found = []
    for number, frame in enumerate(open_clip(made.path)):
        picture = expected.get(number, frame.image)
        found.append(difference(frame.image, picture) if picture.shape == frame.image.shape else float("inf"))
    return max(found)


def sound_kept(source: Path, result: Path) -> tuple[str, bool]:
    """What became of the sound, and whether it is all there: starts, lengths, levels, and the packets where copied."""
    before, after = tracks(source), tracks(result)
    if len(before) != len(after):
        return f"{len(before)} tracks, {len(after)} came out", False
    said = ", ".join(_became(one, other) for one, other in zip(before, after, strict=True))
    return said, all(_same(one, other) for one, other in zip(before, after, strict=True))


def _became(before: Track, after: Track) -> str:
    return f"{before.codec}, copied" if before.packets == after.packets else f"{before.codec} to {after.codec}"


def _same(before: Track, after: Track) -> bool:
    if before.codec in COPIED:
        return before.packets == after.packets and abs(before.start - after.start) < 0.03
    return (
        abs(before.start - after.start) < 0.03
        and abs(before.seconds - after.seconds) < 0.1
        and len(before.levels) == len(after.levels)
        and all(abs(one - other) < 0.15 * one + 0.01 for one, other in zip(_main(before), _main(after), strict=True))
    )


def _main(track: Track) -> tuple[float, ...]:
    """The levels without that of the low frequencies in 5.1, where encoders leave out what is higher."""
    return track.levels[:3] + track.levels[4:] if len(track.levels) == 6 else track.levels


def tracks(path: Path) -> list[Track]:
    """The tracks of a file."""
    if path.is_dir():
        return []
    with av.open(str(path)) as container:
        count = len(container.streams.audio)
    return [_track(path, number) for number in range(count)]


def _track(path: Path, number: int) -> Track:
    with av.open(str(path)) as container:
        stream = container.streams.audio[number]
        codec = stream.codec_context.name
        packets = tuple(bytes(packet) for packet in container.demux(stream) if packet.size)
    with av.open(str(path)) as container:
        frames = list(container.decode(audio=number))
    if codec == "aac" and packets[0][:1] == b"\xff":
        packets = tuple(packet[7:] for packet in packets)  # the headers of a transport stream
    samples = np.concatenate(_samples(frames), 1)
    levels = tuple(float(level) for level in np.sqrt((samples**2).mean(1)))
    first = frames[0]
    return Track(codec, float(first.pts * first.time_base), samples.shape[1] / first.sample_rate, levels, packets)


def _samples(frames: list[av.AudioFrame]) -> list[np.ndarray]:
    """Samples of -1 to 1, [channels, samples]; packed first, as PyAV reads past eight planes that are eight."""
    packer = av.AudioResampler(format="flt")
    packed = [one for frame in (*frames, None) for one in packer.resample(frame)]
    return [one.to_ndarray().reshape(-1, one.layout.nb_channels).T.astype(float) for one in packed]
