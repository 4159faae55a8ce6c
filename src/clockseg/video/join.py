"""Joining of the files of pieces, packet by packet, with the sound of the input: only what MP4 can't hold is encoded."""

from __future__ import annotations

import heapq
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
from av.container import OutputContainer

from clockseg.video.decode import end_of, open_input, reason
from clockseg.video.output import BACKWARDS_SECONDS, CONTAINERS, Container, partial_file

# What MP4 takes and players know; anything else becomes AAC.
_COPIED = {"aac", "mp3", "mp3float", "ac3", "eac3", "alac", "opus", "flac"}
# By the number of channels: what every AAC decoder knows. Their order is often all that a file says of them.
_AAC_LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1", 7: "7.1", 8: "7.1"}
# MP3 in MP4 isn't defined below this rate.
_MP3_LOWEST_RATE = 16000


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
    """
    if not pieces:
        return ()
    if len(pieces) == 1 and audio_from is None and not start_seconds:
        linked(pieces[0], Path(path))
        return ()
    start, end = start_seconds or Fraction(0), audio_end_seconds
    ending = Path(path).suffix
    with partial_file(Path(path), ending) as container:
        with open_input(pieces[0]) as first:
            source = first.streams.video[0]
            stream = container.add_stream_from_template(source, opaque=True)
            stream.time_base = source.time_base
            stream.metadata.update(source.metadata)
        packets = _pictures(pieces, stream, CONTAINERS[ending], start)
        sound = Sound(audio_from, container, start)
        of_sound = sound.packets(None if end is None else end - float(start))
        # In the order of their times: the muxer then has nothing to hold back.
        for packet in heapq.merge(of_sound, packets, key=seconds_of):
            container.mux(packet)
        return sound.problems


def linked(source: Path, path: Path) -> None:
    """Link ``source`` under a second name; copy it where the file system has no links."""
    try:
        os.link(source, path)
    except OSError:
        shutil.copyfile(source, path)


def _pictures(pieces: Sequence[Path], stream: av.VideoStream, kind: Container, start: Fraction) -> Iterator[av.Packet]:
    """Yield the packets of all pieces for the ``stream`` of the output, shifted so that ``start`` becomes 0."""
    last: int | None = None
    for piece in pieces:
        with open_input(piece) as container:
            for packet in container.demux(video=0):
                if not packet.size or packet.pts is None:
                    continue
                # Times of pieces meet; no two may be the same in units of the container.
                pts = packet.pts - round(start / packet.time_base)
                packet.pts = packet.dts = last = pts if last is None else max(pts, last + 1)
                packet.stream = stream
                packet.time_base *= kind.told / kind.unit
                yield packet


class Sound:
    """The audio streams of ``path`` (None: none) from ``start`` seconds on, which becomes 0, as streams of ``output``.

    Sound never stops a video: ``problems`` lists what can't be kept.
    """

    def __init__(self, path: str | os.PathLike[str] | None, output: OutputContainer, start: Fraction) -> None:
        self._start, self._losses = start, Counter[str]()
        self._tracks: dict[int, _Track] = {}
        if path is None:
            return
        try:
            self._input = open_input(path)
        except (av.FFmpegError, OSError) as error:
            self._losses[f"there is no sound: {reason(error)}"] += 1
            return
        for stream in self._input.streams.audio:
            try:
                self._tracks[stream.index] = _Track(stream, output, start)
            except (av.FFmpegError, ValueError) as error:
                self._losses[f"audio stream {stream.index} was left out: {reason(error)}"] += 1

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each loss."""
        return tuple(f"{text} ({times} times)" if times > 1 else text for text, times in self._losses.items())

    def packets(self, end_seconds: float | None) -> Iterator[av.Packet]:
        """Yield the packets for the output up to a time, or all; the input is read packet by packet, as they are asked for."""
        if not self._tracks:
            return
        with self._input:
            try:
                if self._start:
                    self._input.seek(round(self._start * av.time_base))
                for packet in self._input.demux(list(self._tracks)):
                    if not packet.size or (self._start and seconds_of(packet) < self._start):
                        continue
                    placed = self._tracks[packet.stream.index].placed(packet)
                    if end_seconds is not None and seconds_of(placed) > end_seconds:
                        break
                    yield from self._converted(placed)
            except av.FFmpegError as error:
                self._losses[f"the sound ends early: {reason(error)}"] += 1
            for index in self._tracks:
                yield from self._converted(end_of(self._input.streams[index]))

    def _converted(self, packet: av.Packet) -> list[av.Packet]:
        try:
            return self._tracks[packet.stream.index].packets(packet)
        except (av.FFmpegError, ValueError) as error:
            self._losses[f"a piece of the sound was lost: {reason(error)}"] += 1
            return []


class _Track:
    """An audio stream of the input and that of ``output``, which gets its packets from ``start`` on, unchanged or encoded as AAC."""

    def __init__(self, stream: av.AudioStream, output: OutputContainer, start: Fraction) -> None:
        if stream.codec_context is None:
            raise ValueError("its codec is not known")
        name, rate = stream.codec_context.name, stream.codec_context.sample_rate
        self._copies = name in _COPIED and not (name.startswith("mp3") and rate < _MP3_LOWEST_RATE)
        self._stream = output.add_stream_from_template(stream) if self._copies else _aac(stream, output)
        self._shift = -round(start / stream.time_base)
        self._end: int | None = None
        self._last: int | None = None

    def placed(self, packet: av.Packet) -> av.Packet:
        """Return the packet at its time in the output; after a jump back by over a second (joined recordings), times continue."""
        if packet.dts is None:
            return packet
        dts = packet.dts + self._shift
        if self._end is not None and (self._end - dts) * packet.time_base > BACKWARDS_SECONDS:
            self._shift += self._end - dts
            dts = self._end
        packet.pts = None if packet.pts is None else packet.pts + self._shift
        packet.dts, self._end = dts, dts + (packet.duration or 0)
        return packet

    def packets(self, packet: av.Packet) -> list[av.Packet]:
        """Return the packets of the output that a packet becomes; an empty one ends the stream."""
        if self._copies:
            # Packets that come out of order are dropped.
            if packet.dts is None or (self._last is not None and packet.dts <= self._last):
                return []
            self._last, packet.stream = packet.dts, self._stream
            return [packet]
        frames = [frame for frame in packet.decode() if isinstance(frame, av.AudioFrame)]
        return [made for frame in (*frames, *([] if packet.size else [None])) for made in self._stream.encode(frame)]


def _aac(stream: av.AudioStream, output: OutputContainer) -> av.AudioStream:
    """Add a stream of AAC; the encoder's own resampler converts rate, format and layout."""
    rate = stream.codec_context.sample_rate
    rate = rate if rate in (av.Codec("aac", "w").audio_rates or ()) else 48000
    layout = _AAC_LAYOUTS.get(stream.codec_context.layout.nb_channels, "stereo")
    made = output.add_stream("aac", rate=rate, layout=layout)
    made.codec_context.time_base = Fraction(1, rate)
    made.bit_rate = 64_000 * made.codec_context.layout.nb_channels
    return made


def seconds_of(packet: av.Packet) -> float:
    """Return the time of a packet."""
    time = packet.pts if packet.pts is not None else packet.dts
    return 0.0 if time is None else float(time * packet.time_base)
