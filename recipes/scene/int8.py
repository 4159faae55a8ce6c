"""Makes the bundled `scene-int8` from `scene` and some of the pictures it was trained on.

python -m recipes.scene.int8
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.inputs import data
from clockseg.datasets import read_data
from clockseg.networks.quantization import quantize
from recipes.cards import WEIGHTS
from recipes.scene.pictures import training_pictures

FRAMES = 100


def main() -> None:
    """Quantize, and say how well the labels agree on pictures kept apart."""
    argparse.ArgumentParser("python -m recipes.scene.int8", description=__doc__).parse_args()
    pictures = [picture for picture in training_pictures(data("scenes").parent) if picture.frame is None]
    with tempfile.TemporaryDirectory() as folder:
        images = Path(folder) / "pictures"
        images.mkdir()
        for number, picture in enumerate(pictures[:: max(1, len(pictures) // (2 * FRAMES))]):
            (images / f"{number:04d}{picture.file.suffix}").symlink_to(picture.file)
        done = quantize(
            WEIGHTS / "scene.onnx", read_data(images), WEIGHTS / "scene-int8.onnx", frames=FRAMES,
            engine="openvino", repeat=1,
        )  # fmt: skip
    print(done.file, done.agreement)


if __name__ == "__main__":
    main()
