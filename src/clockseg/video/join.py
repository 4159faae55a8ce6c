"""Joining of the files of pieces, packet by packet: only sound that the container can't hold is encoded."""

from __future__ import annotations

import heapq
import os
import shutil
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
from av.container import OutputContainer

from clockseg.video.audio import Sound, seconds_of
from clockseg.video.decode import open_input, video_stream
from clockseg.video.output import CONTAINERS, Container, partial_file


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
    start, end = start_seconds or Fraction(0), audio_end_seconds
    ending = Path(path).suffix
    with partial_file(Path(path), ending) as container:
        packets = _pictures(pieces, _like(pieces[0], container), CONTAINERS[ending], start)
        sound = None if audio_from is None else Sound(audio_from, container, start_seconds=start)
        if sound is not None:
            # In the order of their times: the muxer then has nothing to hold back.
            of_sound = sound.packets(None if end is None else end - float(start))
            packets = heapq.merge(of_sound, packets, key=seconds_of)
        for packet in packets:
            container.mux(packet)
        return () if sound is None else sound.problems


def linked(source: Path, path: Path) -> None:
    """Link ``source`` under a second name; copy it where the file system has no links."""
    try:
        os.link(source, path)
    except OSError:
        shutil.copyfile(source, path)


def _like(piece: Path, container: OutputContainer) -> av.VideoStream:
    """Add a stream to the output like that of a piece."""
    with open_input(piece) as opened:
        source = video_stream(opened)
        if source is None:
            raise av.InvalidDataError(0, "a piece without a picture")
        stream = container.add_stream_from_template(source, opaque=True)
        stream.time_base = source.time_base
        stream.metadata.update(source.metadata)
    return stream


def _pictures(pieces: Sequence[Path], stream: av.VideoStream, kind: Container, start: Fraction) -> Iterator[av.Packet]:
    """Yield the packets of all pieces for the ``stream`` of the output, shifted so that ``start`` becomes 0."""
    last: int | None = None
    for piece in pieces:
        with open_input(piece) as container:
            for packet in container.demux(video_stream(container)):
                if not packet.size or packet.pts is None:
                    continue
                # Times of pieces meet; no two may be the same in units of the container.
                pts = packet.pts - round(start / packet.time_base)
                packet.pts = packet.dts = last = pts if last is None else max(pts, last + 1)
                packet.stream = stream
                packet.time_base *= kind.told / kind.unit
                yield packet
