"""Opening of containers, and decoding of their pictures with an account of what was lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import av
from av.container import InputContainer
from av.stream import Disposition

from clockseg.errors import VideoError
from clockseg.video.colour import check_pixels

# PyAV 19 dropped the keyword: it never fails on metadata that is not UTF-8.
_METADATA = {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}


def open_for_reading(file: Any, **options: Any) -> InputContainer:
    """Open a file, URL, device or file object for decoding; ``options`` are those of ``av.open``.

    Metadata that is not UTF-8 never makes a file unreadable.
    """
    container: InputContainer = av.open(file, "r", **options, **_METADATA)
    return container


ALLOWED = "Give a video file, an image or a folder of images."
_THREADS = 4
"""Of a decoder, on any machine: what it makes of damaged packets depends on their number."""
# Containers whose header states the duration, rather than FFmpeg guessing it from a bit rate.
_STATED_DURATION = ("mov,", "matroska", "avi", "flv", "asf")
_NO_VIDEO = Disposition.attached_pic | Disposition.dependent
# "Video" that FFmpeg makes of any text file.
_TEXT_ART = {"tty", "bin", "xbin", "adf", "idf"}


@dataclass
class Damage:
    """The losses while a clip was decoded; ``sentences`` is empty if there were none."""

    frames: int = 0
    damaged: int = 0
    undecodable: int = 0
    stopped: str | None = None
    first_packet_seconds: float | None = None
    first_picture_seconds: float | None = None
    end_seconds: float = 0.0
    stated_seconds: float | None = None
    files: list[str] = field(default_factory=list)

    def take(self, picture: av.VideoFrame) -> None:
        """Count a picture that is used."""
        self.frames += 1
        self.damaged += picture.is_corrupt
        if self.first_picture_seconds is None and picture.pts is not None:
            self.first_picture_seconds = picture.time

    def forget(self) -> None:
        """Discard the losses before the first requested picture."""
        self.undecodable, self.first_packet_seconds = 0, None

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each kind of loss."""
        found = []
        # The last frame's own duration is often unknown, so a little may be missing without loss.
        end, stated, count = self.end_seconds, self.stated_seconds or 0.0, _count(self.frames, "frame")
        if self.stopped:
            found.append(f"decoding stopped after {count}: {self.stopped}")
        elif stated - end > max(0.5, 0.03 * stated):
            found.append(f"the file ends at {end:.2f} s, after {count}; its header says {stated:.2f} s")
        first, picture = self.first_packet_seconds, self.first_picture_seconds
        if first is not None and picture is not None and picture - first > 0.5:
            found.append(f"nothing before {picture:.2f} s could be decoded")
        if self.undecodable:
            found.append(f"{_count(self.undecodable, 'packet')} could not be decoded")
        if self.damaged:
            found.append(f"{_count(self.damaged, 'frame')} came out damaged")
        return (*found, *self.files)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def reason(error: Exception) -> str:
    """Return the message of an error of FFmpeg or the system, without its numbers."""
    if isinstance(error, av.ExitError):  # PyAV's own timeout ended the call
        return "no data came in time"
    return str(getattr(error, "strerror", None) or error)


def open_input(path: str | os.PathLike[str], *, max_pixels: int | None = None) -> InputContainer:
    """Open a local file whatever its name looks like: no protocol, pattern or list in it is followed."""
    limit = {} if max_pixels is None else {"max_pixels": str(max_pixels)}
    return open_for_reading(
        f"file:{os.fspath(path)}",
        options=limit,
        # "pattern_type" concerns single images: "a%03d.png" is a name, not a sequence.
        container_options={"protocol_whitelist": "file", "pattern_type": "none"},
    )


def video_stream(container: InputContainer) -> av.VideoStream | None:
    """Return the stream to decode, which FFmpeg rates best; None for cover pictures, parts of other streams, and text art."""
    best = container.streams.best("video")
    if not isinstance(best, av.VideoStream) or best.codec_context is None or container.format.name in _TEXT_ART:
        return None
    return None if best.disposition & _NO_VIDEO else best


def checked_stream(path: str | os.PathLike[str], container: InputContainer, max_pixels: int) -> av.VideoStream:
    """Return the stream to decode; VideoError if there is none or its pictures are too large."""
    stream = video_stream(container)
    if stream is None:
        raise VideoError(f"{path}: no video stream in it ({_streams(container)}). {ALLOWED}")
    try:
        check_pixels(stream.codec_context.width, stream.codec_context.height, max_pixels)
    except VideoError as error:
        raise VideoError(f"{path}: {error}") from error
    # Decoders then refuse such a picture themselves, also in mid-stream, before they allocate it.
    stream.codec_context.options = {"max_pixels": str(max_pixels)}
    return stream


def _streams(container: InputContainer) -> str:
    """Return how many streams of each kind there are, as text."""
    covers = [stream for stream in container.streams.video if stream.disposition & Disposition.attached_pic]
    kinds = [
        "cover picture" if stream in covers else f"{stream.type or 'unknown'} stream" for stream in container.streams
    ]
    return ", ".join(_count(kinds.count(kind), kind) for kind in sorted(set(kinds))) or "no streams"


def pictures(
    container: InputContainer, stream: av.VideoStream, damage: Damage, *, threads: str = "AUTO"
) -> Iterator[av.VideoFrame]:
    """Yield every picture that can be decoded, skipping broken packets, and record the losses in ``damage``.

    The caller passes each picture it uses to ``damage.take``.
    """
    stream.thread_type = threads  # type: ignore[assignment]  # the setter takes names, the stub doesn't know
    stream.codec_context.thread_count = _THREADS
    for packet in _packets(container, damage):
        _note_time(packet, packet.stream is stream, damage)
        if packet.stream is not stream:
            continue
        yield from _decoded(packet, damage)
    # Only at the end: a pass that is stopped early misses nothing.
    if container.duration is not None and container.format.name.startswith(_STATED_DURATION):
        damage.stated_seconds = float(container.duration / av.time_base)
        # The duration of an AVI without its index is guessed from its size.
        if container.format.name == "avi" and stream.average_rate:
            damage.stated_seconds = max(damage.stated_seconds, float(stream.frames / stream.average_rate))


def _packets(container: InputContainer, damage: Damage) -> Iterator[av.Packet]:
    # Packets of all streams are looked at, since an audio track may be what the stated duration is the length of.
    try:
        yield from container.demux()
    except av.FFmpegError as error:
        damage.stopped = reason(error)
        # The decoder still holds pictures from before the break.
        yield from map(end_of, container.streams.video)


def end_of(stream: av.stream.Stream) -> av.Packet:
    """Return the empty packet that makes a decoder or an encoder give what it still holds."""
    packet = av.Packet()
    packet.stream = stream
    return packet


def _decoded(packet: av.Packet, damage: Damage) -> list[av.VideoFrame]:
    try:
        found = [frame for frame in packet.decode() if isinstance(frame, av.VideoFrame)]
    except EOFError:
        return []
    except av.FFmpegError:
        damage.undecodable += 1
        return []
    damage.undecodable += packet.is_corrupt and not found
    return found


def _note_time(packet: av.Packet, is_video: bool, damage: Damage) -> None:
    if packet.pts is None or packet.stream.type not in ("video", "audio", "subtitle"):
        return
    start = float(packet.pts * packet.time_base)
    damage.end_seconds = max(damage.end_seconds, start + float((packet.duration or 0) * packet.time_base))
    if is_video and not packet.is_discard and damage.first_picture_seconds is None:
        first = damage.first_packet_seconds
        damage.first_packet_seconds = start if first is None else min(start, first)


# The end markers of files and of their parts.
_JPEG_END, _GIF_END, _PNG_END = b"\xff\xd9", b"\0;", b"IEND\xae\x42\x60\x82"
# Bytes after the end of a GIF that are no loss.
_GIF_TRAILER = 1000


def ends_early(path: Path) -> bool:
    """Return True for a file that is cut short in a format whose decoder does not notice it.

    Known are GIF, JPEG and Motion JPEG, PNG and APNG, and WebP.
    """
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        whole = next((whole for start, whole in _WHOLE.items() if data[: len(start)] == start), None)
        return whole is not None and not whole(data)


def _whole_jpeg(data: mmap) -> bool:
    """Return True if an end marker follows the last scan of the last JPEG: thumbnails, which have one too, come before it."""
    return data.rfind(_JPEG_END) > max(data.rfind(b"\xff\xd8\xff"), data.rfind(b"\xff\xda\0"))


_WHOLE: dict[bytes, Callable[[mmap], bool]] = {
    b"GIF8": lambda data: data.rfind(_GIF_END, len(data) - _GIF_TRAILER) >= 0,
    b"\xff\xd8\xff": _whole_jpeg,
    b"\x89PNG": lambda data: data.rfind(_PNG_END) >= 0,
    b"RIFF": lambda data: data[8:12] != b"WEBP" or len(data) >= 8 + int.from_bytes(data[4:8], "little"),
}
