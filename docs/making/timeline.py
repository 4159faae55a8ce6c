"""The README's picture: which stages fired, under a strip of frames, with the clock's signal against its threshold."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

import clockseg
from clockseg.clockwork.trace import Record
from clockseg.video import open_clip, overlay

WIDTH, MARGIN, NAMES, GAP = 1440, 24, 150, 6
INK, DIM, FIRES, HOLDS, PAPER, MARK = "#1b2733", "#6b7785", "#d9541e", "#e6eaee", "#ffffff", "#2563a8"
THUMBS, ROW, PLOT = 6, 22, 92


@dataclass(frozen=True)
class Run:
    """What is drawn: thumbnails of some frames, and the records of all."""

    thumbs: list[tuple[int, np.ndarray]]
    records: list[Record]
    stages: list[str]
    threshold: float


def ran(video: Path, threshold: float, frames: int) -> Run:
    """``adaptive(threshold)`` over the first frames of a video."""
    net = clockseg.load("street")
    session = clockseg.Session(net, clockseg.adaptive(threshold))
    at = {round(k * (frames - 1) / (THUMBS - 1)) for k in range(THUMBS)}
    thumbs, records = [], []
    for frame in open_clip(video):
        if frame.index >= frames:
            break
        labels = session(frame.image)
        records.append(session.record)
        if frame.index in at:
            thumbs.append((frame.index, overlay(frame.image, labels, net.sidecar.palette, opacity=0.55)))
    return Run(thumbs, records, [stage.name for stage in net.stages], threshold)


class Drawing:
    """The canvas, with x for frames."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.left, self.right = MARGIN + NAMES, WIDTH - MARGIN
        self.thumb_width = (self.right - self.left - (THUMBS - 1) * GAP) // THUMBS
        height, width = run.thumbs[0][1].shape[:2]
        self.thumb_height = self.thumb_width * height // width
        self.rows = MARGIN + self.thumb_height + 30
        self.plot = self.rows + len(run.stages) * (ROW + 5) + 18
        self.image = Image.new("RGB", (WIDTH, self.plot + PLOT + 2 * MARGIN + 10), PAPER)
        self.draw = ImageDraw.Draw(self.image)
        self.font, self.small = ImageFont.load_default(17), ImageFont.load_default(14)

    def x(self, frame: float) -> float:
        return self.left + (self.right - self.left) * frame / len(self.run.records)

    def thumbnails(self) -> None:
        for slot, (index, picture) in enumerate(self.run.thumbs):
            x = self.left + slot * (self.thumb_width + GAP)
            small = cv2.resize(picture, (self.thumb_width, self.thumb_height), interpolation=cv2.INTER_AREA)
            self.image.paste(Image.fromarray(small), (x, MARGIN))
            centre, bottom = self.x(index + 0.5), MARGIN + self.thumb_height
            middle = x + self.thumb_width / 2
            self.draw.line([(middle, bottom + 2), (centre, self.rows - 4)], fill=DIM, width=1)

    def timeline(self) -> None:
        later = self.run.records[1:]
        for row, name in enumerate(self.run.stages):
            top = self.rows + row * (ROW + 5)
            rate = sum(record.fired[row] for record in later) / len(later)
            self.draw.text((MARGIN, top + 1), f"{name}", fill=INK, font=self.font)
            self.draw.text((MARGIN + 88, top + 3), f"{100 * rate:.0f} %", fill=DIM, font=self.small)
            for frame, record in enumerate(self.run.records):
                box = (round(self.x(frame)), top, round(self.x(frame + 1)) - 2, top + ROW)
                self.draw.rectangle(box, fill=FIRES if record.fired[row] else HOLDS)

    def signal(self) -> None:
        signals = [record.signal[-1] for record in self.run.records]
        top = max([self.run.threshold, *(s for s in signals if s is not None)]) * 1.15

        def y(value: float) -> float:
            return self.plot + PLOT * (1 - value / top)

        self.draw.text((MARGIN, self.plot + 8), "label change", fill=INK, font=self.font)
        self.draw.text((MARGIN, self.plot + 30), "since it last fired", fill=DIM, font=self.small)
        self.draw.line([(self.left, self.plot + PLOT), (self.right, self.plot + PLOT)], fill=HOLDS, width=1)
        level = y(self.run.threshold)
        self.draw.line([(self.left, level), (self.right, level)], fill=FIRES, width=1)
        text = f"threshold {self.run.threshold:g}"
        self.draw.text((self.right - self.draw.textlength(text, self.small) - 4, level - 19), text, FIRES, self.small)
        points = [(self.x(f + 0.5), y(s)) for f, s in enumerate(signals) if s is not None]
        self.draw.line(points, fill=MARK, width=2)
        self.draw.text((self.left, self.plot + PLOT + 6), "frame 0", fill=DIM, font=self.small)
        end = f"frame {len(signals) - 1}"
        self.draw.text((self.right - self.draw.textlength(end, self.small), self.plot + PLOT + 6), end, DIM, self.small)


def main() -> None:
    """Run and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("video", type=Path, nargs="?", help="default: the driving video of the shared data folder")
    parser.add_argument("--threshold", type=float, default=0.1)
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--out", type=Path, default=Path("docs/timeline.png"))
    args = parser.parse_args()
    video = args.video or Path(os.environ.get("CLOCKSEG_DATA", "../shared"), "data", "videos", "solidWhiteRight.mp4")
    drawing = Drawing(ran(video, args.threshold, args.frames))
    drawing.thumbnails()
    drawing.timeline()
    drawing.signal()
    args.out.parent.mkdir(exist_ok=True)
    drawing.image.save(args.out, optimize=True)


if __name__ == "__main__":
    main()
