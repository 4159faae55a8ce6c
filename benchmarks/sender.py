"""A sender for live runs: a video sent again and again at a given rate, to standard output or to who connects.

    python benchmarks/sender.py VIDEO FPS [PORT]

The packets are sent as they are, with new times: nothing is encoded.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import av

_BASE = Fraction(1, 90_000)


def main(video: str, fps: str, port: str = "") -> None:
    """Send until the reader has gone."""
    if not port:
        send(video, sys.stdout.buffer, float(fps))
        return
    with socket.create_server(("127.0.0.1", int(port))) as server:
        while True:
            reader = server.accept()[0]
            with reader, reader.makefile("wb", buffering=0) as file:
                send(video, file, float(fps))


def send(video: str, file: Any, fps: float) -> None:
    """Send the packets of ``video`` in real time, for ever."""
    try:
        with av.open(video) as source, av.open(file, "w", format="mpegts", options={"flush_packets": "1"}) as sink:
            output = sink.add_stream_from_template(source.streams.video[0])
            sink.start_encoding()
            begun = time.perf_counter()
            for packet, seconds in _endless(source, fps):
                time.sleep(max(0.0, begun + seconds - time.perf_counter()))
                packet.stream = output
                sink.mux_one(packet)
    except (OSError, av.FFmpegError):
        # The reader has gone; nothing must be written to it any more, not even at the end.
        if file is sys.stdout.buffer:
            os._exit(0)


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


def started(video: str, fps: float, *port: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a sender in a process of its own."""
    return subprocess.Popen([sys.executable, __file__, video, str(fps), *port], **options)


@contextmanager
def piped(video: str, fps: float) -> Iterator[None]:
    """Make standard input a pipe from a sender inside the block."""
    before = os.dup(0)
    sender = started(video, fps, stdout=subprocess.PIPE)
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
