"""Did all of a video come through ``clockseg segment``: its frames in order, its times, its sound, its colours?"""

from __future__ import annotations

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
PERIOD = 1 / 25


class Track(NamedTuple):
    """A track of sound: how it is coded, when it begins, how long it is, and the level of each channel."""

    codec: str
    start: float
    seconds: float
    levels: tuple[float, ...]
    packets: tuple[bytes, ...]


class Check(NamedTuple):
    """What came of one video: frames, whether each is at its place, the largest errors of times (ms), sound, colours (of 255).

    ``labels_ms`` and ``overlay_ms``: against the times that FFmpeg decodes; ``made_ms``: of those against the times the video
    was made with. None: there are none.
    """

    frames_in: int
    frames_out: int
    in_place: bool
    labels_ms: float | None
    overlay_ms: float | None
    made_ms: float | None
    sound: str
    sound_kept: bool
    colours: float | None


def checked(made: Made, result: Path) -> Check:
    """Compares a video with its result folder."""
    pictures = decoded(made)
    numbers = [told(labels) for labels in read_labels(result)]
    lines = len(read_trace(result))
    times = expected_times(pictures)
    overlay = times_of(result / "overlay.mp4")
    said, kept = sound_kept(made.path, result / "overlay.mp4", times)
    return Check(
        len(pictures),
        len(numbers) if len(numbers) == lines == len(overlay) else -1,
        numbers == list(made.numbers),
        apart(times, times_of(result / "labels.mkv")),
        apart(times, overlay),
        None if made.seconds is None or pictures[0].pts is None else apart_but_for_a_shift(times, made.seconds),
        said,
        kept,
        colours(made, pictures),
    )


def decoded(made: Made) -> list[av.VideoFrame]:
    """What FFmpeg decodes, through PyAV alone; of a folder, of every file."""
    if made.path.is_dir():
        return [frame for file in sorted(made.path.iterdir()) for frame in decoded(made._replace(path=file))]
    if made.path.suffix == ".webp":
        return [_from_opencv(image) for image in _webp_images(made.path)]
    frames = []
    with av.open(str(made.path)) as container:
        stream = container.streams.best("video") if made.stream is None else container.streams.video[made.stream]
        for packet in container.demux(stream):
            try:
                frames += packet.decode()
            except av.FFmpegError:
                continue
    return frames


def _webp_images(path: Path) -> list[np.ndarray]:
    found = list(cv2.imreadanimation(str(path))[1].frames)
    return found or [cv2.imread(str(path))]


def _from_opencv(image: np.ndarray) -> av.VideoFrame:
    return av.VideoFrame.from_ndarray(np.ascontiguousarray(image[..., 2::-1]), format="rgb24")


def expected_times(pictures: list[av.VideoFrame]) -> list[float]:
    """The times of the pictures; 25 a second where there are none, and going on where they jump back."""
    times = [None if picture.pts is None else float(picture.pts * picture.time_base) for picture in pictures]
    if times[0] is None:
        return [number * PERIOD for number in range(len(times))]
    if not any(before - after > 1 for before, after in pairwise(times)):
        return sorted(times)
    found, shift, period = [times[0]], 0.0, times[1] - times[0]
    for before, after in pairwise(times):
        shift += before - after + period if before - after > 1 else 0.0
        found.append(after + shift)
    return found


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


def colours(made: Made, pictures: list[av.VideoFrame]) -> float | None:
    """The largest difference of a frame from the reference conversion."""
    found = []
    for frame, picture in zip(open_clip(made.path, stream=made.stream), pictures, strict=False):
        turn = made.turn or getattr(picture, "rotation", 0)
        expected = np.rot90(reference(picture, peak_nits=made.peak_nits), turn // 90)
        expected = expected[:, ::-1] if made.flip else expected
        if expected.shape != frame.image.shape:
            return float("inf")
        found.append(difference(frame.image, expected))
    return max(found, default=None)


def sound_kept(source: Path, result: Path, times: list[float]) -> tuple[str, bool]:
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
    samples = np.concatenate([_samples(frame) for frame in frames], 1)
    levels = tuple(float(level) for level in np.sqrt((samples**2).mean(1)))
    first = frames[0]
    return Track(codec, float(first.pts * first.time_base), samples.shape[1] / first.sample_rate, levels, packets)


def _samples(frame: av.AudioFrame) -> np.ndarray:
    """Samples of -1 to 1, [channels, samples]."""
    values = frame.to_ndarray()
    if not frame.format.is_planar:
        values = values.reshape(-1, frame.layout.nb_channels).T
    if values.dtype.kind == "f":
        return values.astype(float)
    if values.dtype == np.uint8:
        return (values.astype(float) - 128) / 128
    return values / float(np.iinfo(values.dtype).max)
