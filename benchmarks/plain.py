"""The script that people write first: decode, run the whole network on every frame, draw, encode, and write PNG labels.

Run: python -m benchmarks.plain NETWORK.onnx VIDEO FOLDER. ``wall`` measures ``segment`` against it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import av
import cv2
import numpy as np
import openvino


def main(network: str, video: str, folder: str) -> None:
    """Segment a video frame by frame."""
    side = json.loads(Path(network).with_suffix(".json").read_text())
    given, out = side["input"], Path(folder)
    width, height = given["width"], given["height"]
    padded = [-(-side_ // given["pad_multiple"]) * given["pad_multiple"] for side_ in (height, width)]
    model = openvino.Core().read_model(network)
    scores = next(one for op in model.get_ops() for one in op.outputs() if side["output"] in one.get_names())
    model = openvino.Model([scores], [model.get_parameters()[0]], "plain")
    model.reshape({model.inputs[0]: [1, 3, *padded]})
    net = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    palette = np.zeros((256, 3), np.uint8)
    palette[: len(side["palette"])] = side["palette"]
    out.mkdir(parents=True)
    with av.open(video) as source, av.open(str(out / "overlay.mp4"), "w") as target:
        given_stream = source.streams.video[0]
        stream = target.add_stream("libx264", rate=given_stream.average_rate, options={"preset": "veryfast"})
        stream.width, stream.height = given_stream.width, given_stream.height
        for index, frame in enumerate(source.decode(video=0)):
            image = frame.to_ndarray(format="rgb24")
            picture = np.zeros((*padded, 3), np.float32)
            picture[:height, :width] = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
            picture = (picture * given["scale"] - np.float32(given["mean"])) / np.float32(given["std"])
            found = net([picture.transpose(2, 0, 1)[None]])[0][0].argmax(0).astype(np.uint8)[:height, :width]
            labels = cv2.resize(found, image.shape[1::-1], interpolation=cv2.INTER_NEAREST)
            cv2.imwrite(str(out / f"{index:06d}.png"), labels)
            drawn = cv2.addWeighted(image, 0.5, palette[labels], 0.5, 0)
            target.mux(stream.encode(av.VideoFrame.from_ndarray(drawn, format="rgb24")))
        target.mux(stream.encode(None))


if __name__ == "__main__":
    main(*sys.argv[1:])
