"""Depth and edges from one network on a clock: nothing in it has classes, and agreement is a relative error.

python examples/depth_and_edges.py [VIDEO]      without a video: 24 made-up frames of a bar that moves and then rests
"""

import sys

import numpy as np
import torch
from torch import nn
from torch.nn.functional import interpolate

from clockseg import Session, cut, parse_schedule
from clockseg.evaluation.metrics import Deviation, deviation
from clockseg.graph.sidecar import Input
from clockseg.video import open_clip

SCHEDULES = ("skip_frame(2)", "alternating", 'difference(0.2, of="features")', 'difference(0.2, of="pixels")')


class DepthAndEdges(nn.Module):
    """Three stages with a skip from each, and two maps, metres and edges, as the channels of one output."""

    def __init__(self):
        super().__init__()
        self.fine = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU())
        self.skips = nn.ModuleList(nn.Conv2d(width, 2, 1) for width in (16, 32, 64))
        for weight in self.parameters():
            nn.init.kaiming_normal_(weight) if weight.ndim > 1 else nn.init.zeros_(weight)

    def forward(self, image):
        fine = self.fine(image)
        middle = self.middle(fine)
        maps = [skip(x) for skip, x in zip(self.skips, (fine, middle, self.deep(middle)))]
        mixed = sum(interpolate(one, fine.shape[2:], mode="bilinear") for one in maps)
        return torch.cat([nn.functional.softplus(mixed[:, :1]), torch.sigmoid(mixed[:, 1:])], 1)


def made_up():
    noise = np.random.default_rng(0).integers(0, 90, (120, 160, 3), np.uint8)
    columns = np.arange(160)[None, :, None]
    return [np.where(abs(columns - 4 * min(at, 10) - 20) < 20, np.uint8(250), noise) for at in range(24)]


def main(video=None):
    torch.manual_seed(0)
    frames = [frame.image for frame in open_clip(video)] if video else made_up()
    reads = Input("image", 160, 120, pad_multiple=8)
    net = cut(DepthAndEdges(), torch.zeros(1, 3, 120, 160), at=["fine", "middle", "deep"], input=reads)
    uncut = [net.uncut()(image) for image in frames]  # float32 [2, h, w] each, at the frame's size
    for text in SCHEDULES:
        session, apart = Session(net, parse_schedule(text)), [Deviation(), Deviation()]
        for image, truth in zip(frames, uncut):
            apart = [one + deviation(a, b) for one, a, b in zip(apart, session(image), truth)]
        fires = " ".join(f"{rate:4.0%}" for rate in session.tally.fire_rate.values())
        depth, edges = (one.relative_error for one in apart)
        print(f"{text:30}  fires {fires}  relative error: depth {depth:6.2%}, edges {edges:6.2%}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
