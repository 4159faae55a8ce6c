"""Joining of the files of pieces, packet by packet: only sound that the container can't hold is encoded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer

from clockseg.video.audio import Sound
from clockseg.video.decode import open_input, video_stream
from clockseg.video.output import FINE, PartialFile

_MILLISECOND = Fraction(1, 1000)


def join(
    pieces: Sequence[Path],
    path: str | os.PathLike[str],
    *,
    audio_from: str | os.PathLike[str] | None = None,
    start_seconds: Fraction | None = None,
    audio_end_seconds: float | None = None,
) -> tuple[str, ...]:
    """Write one video file with the pictures of ``pieces``, made by the same writer, and the sound of ``audio_from``.

    ``start_seconds``: of the input, where the output is to begin at 0 (None: times stay as they are); sound before it, and
    after ``audio_end_seconds``, is left out. Returns what of the sound could not be kept, a sentence each. The file appears
    under its name once it is whole. VideoError if it can't be written.

    >>> join([], "no.mkv")
    ()
    """
    if not pieces:
        return ()
    if len(pieces) == 1 and audio_from is None and not start_seconds:
        linked(pieces[0], Path(path))
        return ()
    with PartialFile(path, Path(path).suffix) as part, part.errors():
        return _joined(pieces, part, audio_from, start_seconds or Fraction(0), audio_end_seconds)


def linked(source: Path, path: Path) -> None:
    """Link ``source`` under a second name; copy it where the file system has no links."""
    try:
        os.link(source, path)
    except OSError:
        shutil.copyfile(source, path)


def _joined(
    pieces: Sequence[Path],
    part: PartialFile,
    audio_from: str | os.PathLike[str] | None,
    start: Fraction,
    audio_end_seconds: float | None,
) -> tuple[str, ...]:
    output, sound = part.container, None
    stream: av.VideoStream | None = None
    last: int | None = None
    for piece in pieces:
        with open_input(piece) as container:
            if stream is None:
                stream = _like(container, part)
                sound = None if audio_from is None else Sound(audio_from, output, start_seconds=start)
            for packet in _packets(container, start):
                # Times of pieces meet; no two may be the same in units of the container.
                packet.pts = packet.pts if last is None else max(packet.pts, last + 1)
                packet.dts = last = packet.pts
                if sound is not None:
                    # Sound up to this picture comes first: the muxer then has nothing to hold back.
                    sound.write(until_seconds=float(packet.pts * packet.time_base))
                packet.stream = stream
                if part.fine:
                    packet.time_base *= FINE
                output.mux(packet)
    if sound is None:
        return ()
    sound.write(until_seconds=None if audio_end_seconds is None else audio_end_seconds - float(start))
    sound.close(complete=True)
    return sound.problems


def _like(container: InputContainer, part: PartialFile) -> av.VideoStream:
    """Add a stream to the output like that of the first piece."""
    source = video_stream(container)
    if source is None:
        raise av.InvalidDataError(0, "a piece without a picture")
    stream = part.container.add_stream_from_template(source, opaque=True)
    stream.time_base = source.time_base
    part.fine = part.path.suffix == ".mkv" and source.time_base is not None and source.time_base < _MILLISECOND
    stream.metadata.update(source.metadata)
    return stream


def _packets(container: InputContainer, start: Fraction) -> Iterator[av.Packet]:
    """Yield the packets of a piece, shifted so that ``start`` becomes 0."""
    for packet in container.demux(video_stream(container)):
        if packet.size and packet.pts is not None:
            packet.pts -= round(start / packet.time_base)
            yield packet
