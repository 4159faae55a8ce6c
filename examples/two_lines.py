"""A SegFormer in a loop over frames, as it is and then on a clock by two lines; random weights, so the labels mean nothing.

python examples/two_lines.py [VIDEO]      without a video: 24 made-up frames of a bar that moves
Needs pip install '.[transformers]' in the clone.
"""

import sys
import time
from itertools import islice

import numpy as np
import torch
from transformers import SegformerConfig, SegformerForSemanticSegmentation, SegformerImageProcessor

from clockseg.video import open_clip
from clockseg.wrapping import wrap

model = SegformerForSemanticSegmentation(SegformerConfig(num_labels=19)).eval()
processor = SegformerImageProcessor(size={"height": 256, "width": 512})


def made_up():
    """A bar that moves to the right over noise."""
    noise = np.random.default_rng(0).integers(0, 255, (128, 256, 3), dtype=np.uint8)
    for t in range(24):
        frame = noise.copy()
        frame[:, 8 * t : 8 * t + 24] = 255
        yield frame


def loop(frames):
    """The loop that was there: labels of every frame."""
    return [
        model(pixel_values=processor(frame, return_tensors="pt")["pixel_values"]).logits.argmax(1) for frame in frames
    ]


frames = [frame.image for frame in islice(open_clip(sys.argv[1]), 24)] if len(sys.argv) > 1 else list(made_up())
with torch.no_grad():
    start = time.perf_counter()
    labels = loop(frames)
    alone = time.perf_counter() - start

    clocked = wrap(model, processor=processor)
    loop(frames[:3])  # at the first frame it is exported and divided, which takes seconds
    clocked.reset()

    start = time.perf_counter()
    ours = loop(frames)
    took = time.perf_counter() - start

same = np.mean([float((a == b).float().mean()) for a, b in zip(ours, labels)])
print(f"the network ran on {100 * clocked.tally.network_rate:.0f} % of frames, in {took / alone:.2f} of the time,")
print(f"and {100 * same:.0f} % of pixels have the label that they had")
clocked.off()
