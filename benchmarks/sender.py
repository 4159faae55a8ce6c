"""A sender for live runs: a video sent again and again at a given rate to standard output.

    python benchmarks/sender.py VIDEO FPS

The packets are sent as they are, with new times: nothing is encoded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import av

_BASE = Fraction(1, 90_000)


def main(video: str, fps: str) -> None:
    """Send the packets of ``video`` in real time, until the reader has gone."""
    sent = {"format": "mpegts", "options": {"flush_packets": "1"}}
    try:
        with av.open(video) as source, av.open(sys.stdout.buffer, "w", **sent) as sink:
            output = sink.add_stream_from_template(source.streams.video[0])
            sink.start_encoding()
            begun = time.perf_counter()
            for packet, seconds in _endless(source, float(fps)):
                time.sleep(max(0.0, begun + seconds - time.perf_counter()))
                packet.stream = output
                sink.mux_one(packet)
    except (OSError, av.FFmpegError):
        os._exit(0)  # The reader has gone; nothing must be written to it any more, not even at the end.


def _endless(source: Any, fps: float) -> Iterator[tuple[Any, float]]:
    """Yield packets with new times, and when to send each, in seconds from the start."""
    stream, sent = source.streams.video[0], 0
    while True:
        packets = [packet for packet in source.demux(stream) if packet.dts is not None]
        first, period, begun = packets[0].dts, 1 / (stream.average_rate * stream.time_base), sent
        for packet in packets:
            shown = (packet.pts - first) / period + begun
            packet.pts, packet.dts = (round(Fraction(at) / Fraction(fps) / _BASE) for at in (shown, sent))
            packet.time_base = _BASE
            yield packet, sent / fps
            sent += 1
        source.seek(0)


@contextmanager
def piped(video: str, fps: float) -> Iterator[None]:
    """Make standard input a pipe from a sender inside the block."""
    before = os.dup(0)
    sender = subprocess.Popen([sys.executable, __file__, video, str(fps)], stdout=subprocess.PIPE)
    os.dup2(sender.stdout.fileno() if sender.stdout else 0, 0)
    try:
        yield
    finally:
        sender.kill()
        sender.communicate()
        os.dup2(before, 0)
        os.close(before)


if __name__ == "__main__":
    main(*sys.argv[1:])
