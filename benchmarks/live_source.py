"""A source for live.py: a video sent again and again at a given rate, as a camera would, to a pipe or to who connects.

    python benchmarks/live_source.py VIDEO --fps 30 --note FILE > PIPE
    python benchmarks/live_source.py VIDEO --fps 30 --port 9000

The packets are sent as they are, with new times: nothing is encoded, so that it takes no time that is measured elsewhere.
FILE gets the moment (seconds of the machine's monotonic clock) at which frame 0 was sent; frame k is sent k / FPS later.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

import av

_BASE = Fraction(1, 90_000)


def main() -> None:
    """Send until the reader has gone."""
    args = _arguments()
    if args.port is None:
        note = None if args.note is None else Path(args.note)
        send(args.video, sys.stdout.buffer, args.fps, note)
        return
    with socket.create_server(("127.0.0.1", args.port)) as server:
        while True:
            reader = server.accept()[0]
            with reader, reader.makefile("wb", buffering=0) as file:
                send(args.video, file, args.fps, None)


def send(video: str, file: BinaryIO | RawIOBase, fps: float, note: Path | None) -> None:
    """The packets of ``video`` into ``file``, in real time, for ever."""
    try:
        with av.open(video) as source, av.open(file, "w", format="mpegts", options={"flush_packets": "1"}) as sink:
            output = sink.add_stream_from_template(source.streams.video[0])
            sink.start_encoding()
            begun = time.perf_counter()
            for packet, seconds in _endless(source, fps):
                if note is not None and seconds == 0:
                    note.with_suffix(".part").write_text(repr(begun))
                    note.with_suffix(".part").rename(note)
                time.sleep(max(0.0, begun + seconds - time.perf_counter()))
                packet.stream = output
                sink.mux_one(packet)
    except (OSError, av.FFmpegError):
        # The reader has gone; nothing must be written to it any more, not even at the end.
        if file is sys.stdout.buffer:
            os._exit(0)


@contextmanager
def piped(video: str, fps: float, note: Path | None = None) -> Iterator[None]:
    """Standard input is a pipe from a sender, inside the block."""
    noted = [] if note is None else ["--note", str(note)]
    command = [sys.executable, __file__, video, "--fps", str(fps), *noted]
    before = os.dup(0)
    sender = subprocess.Popen(command, stdout=subprocess.PIPE)
    os.dup2(sender.stdout.fileno() if sender.stdout else 0, 0)
    try:
        yield
    finally:
        sender.kill()
        sender.wait()
        sender.communicate()
        os.dup2(before, 0)
        os.close(before)


def _endless(source: av.container.InputContainer, fps: float) -> Iterator[tuple[av.Packet, float]]:
    """Packets with new times, and when to send each, in seconds from the start."""
    stream = source.streams.video[0]
    sent = 0
    while True:
        packets = [packet for packet in source.demux(stream) if packet.dts is not None]
        first, period = packets[0].dts, 1 / (stream.average_rate * stream.time_base)
        begun = sent
        for packet in packets:
            shown = (packet.pts - first) / period + begun
            packet.pts, packet.dts = (round(Fraction(at) / Fraction(fps) / _BASE) for at in (shown, sent))
            packet.time_base = _BASE
            yield packet, sent / fps
            sent += 1
        source.seek(0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video")
    parser.add_argument("--fps", type=float, default=30.0)
    parser.add_argument("--port", type=int, help="wait there for a reader, on TCP (default: standard output)")
    parser.add_argument("--note", metavar="FILE", help="where to note when frame 0 was sent")
    return parser.parse_args()


if __name__ == "__main__":
    main()
