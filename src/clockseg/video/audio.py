"""The sound of the input, carried into the output file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Protocol

import av
from av.container import InputContainer, OutputContainer

from clockseg.video.decode import end_of, open_input, reason
from clockseg.video.output import BACKWARDS_SECONDS

# What MP4 takes and players know; anything else becomes AAC.
_COPIED = {"aac", "mp3", "mp3float", "ac3", "eac3", "alac", "opus", "flac"}
_AAC_RATES = {96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000}
# By the number of channels: what every AAC decoder knows. Their order is often all that a file says of them.
_AAC_LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1", 7: "7.1", 8: "7.1"}
# MP3 in MP4 isn't defined below this rate.
_MP3_LOWEST_RATE = 16000


class _Track(Protocol):
    """Converts the packets of one input stream, the last of which is empty, to those of one output stream."""

    def packets(self, packet: av.Packet) -> Iterator[av.Packet]: ...


class Sound:
    """The audio streams of ``path`` from ``start_seconds`` on, which becomes 0, added to ``output`` in step with the pictures.

    The input is read packet by packet, never further than requested. ``problems`` lists what can't be kept; sound never
    stops a video.
    """

    def __init__(
        self, path: str | os.PathLike[str], output: OutputContainer, *, start_seconds: Fraction = Fraction(0)
    ) -> None:
        self._output = output
        self._problems: dict[str, int] = {}
        self._tracks: dict[int, _Track] = {}
        self._lines: dict[int, _Line] = {}
        self._waiting: av.Packet | None = None
        self._packets: Iterator[av.Packet] = iter(())
        self._input: InputContainer | None = None
        try:
            self._input = open_input(path)
        except (av.FFmpegError, OSError) as error:
            self._note(f"there is no sound: {reason(error)}")
            return
        for stream in self._input.streams.audio:
            try:
                self._tracks[stream.index], self._lines[stream.index] = self._track(stream), _Line()
            except (av.FFmpegError, ValueError) as error:
                self._note(f"audio stream {stream.index} was left out: {reason(error)}")
        if self._tracks:
            self._packets = _from(self._input, list(self._tracks), start_seconds)

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each loss."""
        return tuple(f"{text} ({times} times)" if times > 1 else text for text, times in self._problems.items())

    def write(self, *, until_seconds: float | None) -> None:
        """Write the packets before a time, or all that are left."""
        while (packet := self._next()) is not None:
            if until_seconds is not None and _seconds(packet) > until_seconds:
                return
            self._waiting = None
            self._write(packet)

    def close(self, *, complete: bool = False) -> None:
        """Close the input; with ``complete``, first write what the encoders still hold."""
        if self._input is None:
            return
        if complete:
            for index in self._tracks:
                self._write(end_of(self._input.streams[index]))
        self._input.close()

    def _track(self, stream: av.AudioStream) -> _Track:
        if stream.codec_context is None:
            raise ValueError("its codec is not known")
        name = stream.codec_context.name
        slow = name.startswith("mp3") and stream.codec_context.sample_rate < _MP3_LOWEST_RATE
        return (_Copied if name in _COPIED and not slow else _Recoded)(stream, self._output)

    def _next(self) -> av.Packet | None:
        """Return the next packet, which stays the next one until it is written."""
        while self._waiting is None:
            try:
                packet = next(self._packets, None)
            except av.FFmpegError as error:
                self._note(f"the sound ends early: {reason(error)}")
                packet = None
            if packet is None:
                self._packets = iter(())
                return None
            # The empty packets at the end are made by close, also when the sound is cut before it.
            self._waiting = self._lines[packet.stream.index].moved(packet) if packet.size else None
        return self._waiting

    def _write(self, packet: av.Packet) -> None:
        try:
            made = list(self._tracks[packet.stream.index].packets(packet))
        except (av.FFmpegError, ValueError) as error:
            self._note(f"a piece of the sound was lost: {reason(error)}")
            return
        for one in made:
            self._output.mux(one)

    def _note(self, text: str) -> None:
        self._problems[text] = self._problems.get(text, 0) + 1


class _Line:
    """The time line of a stream: after a jump back by over a second (joined recordings), times continue from the last one."""

    def __init__(self) -> None:
        self._shift = 0
        self._end: int | None = None

    def moved(self, packet: av.Packet) -> av.Packet:
        """Return the packet with its times on the time line."""
        if packet.dts is None:
            return packet
        dts = packet.dts + self._shift
        if self._end is not None and (self._end - dts) * packet.time_base > BACKWARDS_SECONDS:
            self._shift += self._end - dts
        packet.dts += self._shift
        packet.pts = None if packet.pts is None else packet.pts + self._shift
        self._end = packet.dts + (packet.duration or 0)
        return packet


class _Copied:
    """Copies packets unchanged, except for any that come out of order, which are dropped."""

    def __init__(self, stream: av.AudioStream, output: OutputContainer) -> None:
        self._stream = output.add_stream_from_template(stream)
        self._last: int | None = None

    def packets(self, packet: av.Packet) -> Iterator[av.Packet]:
        if packet.dts is None or (self._last is not None and packet.dts <= self._last):
            return
        self._last = packet.dts
        packet.stream = self._stream
        yield packet


class _Recoded:
    """Decodes packets and encodes them as AAC; the encoder's own resampler converts rate, format and layout."""

    def __init__(self, stream: av.AudioStream, output: OutputContainer) -> None:
        rate = stream.codec_context.sample_rate
        rate = rate if rate in _AAC_RATES else 48000
        layout = _AAC_LAYOUTS.get(stream.codec_context.layout.nb_channels, "stereo")
        self._stream = output.add_stream("aac", rate=rate, layout=layout)
        self._stream.codec_context.time_base = Fraction(1, rate)
        self._stream.bit_rate = 64_000 * self._stream.codec_context.layout.nb_channels

    def packets(self, packet: av.Packet) -> Iterator[av.Packet]:
        for frame in packet.decode():
            if isinstance(frame, av.AudioFrame):
                yield from self._stream.encode(frame)
        if not packet.size:
            yield from self._stream.encode(None)


def _seconds(packet: av.Packet) -> float:
    time = packet.pts if packet.pts is not None else packet.dts
    return 0.0 if time is None else float(time * packet.time_base)


def _from(container: InputContainer, streams: list[int], start: Fraction) -> Iterator[av.Packet]:
    """Yield the packets from ``start`` on, shifted so that ``start`` becomes 0."""
    if start:
        container.seek(round(start * av.time_base))
    for packet in container.demux(streams):
        if start and packet.size:
            if _seconds(packet) < start:
                continue
            shift = round(start / packet.time_base)
            packet.pts = None if packet.pts is None else packet.pts - shift
            packet.dts = None if packet.dts is None else packet.dts - shift
        yield packet
