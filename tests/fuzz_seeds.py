"""Good inputs of every kind, small, each made once: what hostile ones are made from."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import cv2
from onnx import TensorProto, helper

import networks
from clockseg.clocks.rates import frame_oracle
from clockseg.segmenting.segmentation import segment
from toy_networks import toy, write_clip
from video_making import picture, write_video

_CODECS = {
    "h264.mp4": ("libx264", "yuv420p"),
    "h264.mkv": ("libx264", "yuv420p"),
    "h264.ts": ("libx264", "yuv420p"),
    "h264.mov": ("libx264", "yuv420p"),
    "hevc.mp4": ("libx265", "yuv420p"),
    "mpeg4.avi": ("mpeg4", "yuv420p"),
    "mpeg4.mp4": ("mpeg4", "yuv420p"),
    "mjpeg.avi": ("mjpeg", "yuvj420p"),
    "prores.mov": ("prores_ks", "yuv422p10le"),
    "vp8.mkv": ("libvpx", "yuv420p"),
    "vp9.webm": ("libvpx-vp9", "yuv420p"),
    "ffv1.mkv": ("ffv1", "yuv420p"),
    "flv.flv": ("flv", "yuv420p"),
    "gif.gif": ("gif", "rgb8"),
}
_STILLS = ("png.png", "jpg.jpg", "tiff.tiff", "bmp.bmp", "webp.webp")
KINDS = (*_CODECS, *_STILLS)


@cache
def videos() -> dict[str, bytes]:
    """A small good file of each kind: B-frames and edit lists, sound, variable times, rotation among them."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: _video(Path(folder) / name).read_bytes() for name in KINDS}


def _video(path: Path) -> Path:
    # libx265 damages memory below 64x64.
    size = (64, 64) if path.name == "hevc.mp4" else (48, 32)
    images = [picture(*size, seed) for seed in range(10)]
    if path.name in _STILLS:
        cv2.imwrite(str(path), images[0])
        return path
    codec, pix_fmt = _CODECS[path.name]
    audio = ("aac", 8000, 0.0, 0.4) if path.name in ("h264.mp4", "h264.mkv") else None
    options = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    return write_video(
        path,
        images,
        codec=codec,
        pix_fmt=pix_fmt,
        audio=audio,
        rotation=90 if path.name == "h264.mov" else 0,
        **options,
    )


@cache
def tiny() -> bytes:
    return bytes(networks.tiny().SerializeToString())


@cache
def result() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write_video(Path(folder) / "in.mp4", [picture(48, 32, seed) for seed in range(6)])
        segment(Path(folder) / "in.mp4", Path(folder) / "out", toy(), frame_oracle)
        return {file.name: file.read_bytes() for file in (Path(folder) / "out").iterdir()}


@cache
def clips() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write_clip(Path(folder) / "clip", 3, labelled=2)
        found = [file for file in Path(folder).rglob("*") if file.is_file()]
        return {str(file.relative_to(folder)): file.read_bytes() for file in found}


@cache
def caffemodel() -> bytes:
    from caffe_making import as_layers, caffemodel
    from narrow_fcn import narrow

    return caffemodel(as_layers({name: value.numpy() for name, value in narrow().state_dict().items()}))


@cache
def clock() -> bytes:
    """A learned clock."""
    inputs = [helper.make_tensor_value_info("now", TensorProto.FLOAT, [1, 1, 6, 8])]
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["now"], ["fire"], keepdims=0)],
        "clock",
        inputs,
        [helper.make_tensor_value_info("fire", TensorProto.FLOAT, [])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())
