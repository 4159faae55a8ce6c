"""Masks drawn on decoded planes: the colours that a player shows are those that were asked for."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from clockseg import Stage, StagedNetwork, frame_oracle
from clockseg.segmenting.segmentation import segment
from clockseg.video import open_clip
from clockseg.video.overlay import palette

PICTURE = (90, 140, 60)
"""The RGB of the whole picture, on the left half of which class 0 is drawn, and class 3 on the right one."""
NEAR = 6
"""Levels of RGB that two conversions of 8 bits and encoding may be off."""


def video(path: Path, size: tuple[int, int], pixels: str, matrix: Colorspace, full: bool) -> Path:
    """Write a picture of one colour losslessly in this matrix and range, stated in the file."""
    width, height = size
    image = np.full((height, width, 3), PICTURE, np.uint8)
    frame = VideoReformatter().reformat(
        av.VideoFrame.from_ndarray(image, format="rgb24"),
        format=pixels,
        dst_colorspace=matrix,
        dst_color_range=ColorRange.JPEG if full else ColorRange.MPEG,
    )
    with av.open(str(path), "w") as output:
        stream = output.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, pixels
        context = stream.codec_context
        context.color_range = ColorRange.JPEG if full else ColorRange.MPEG
        context.colorspace = 1 if matrix is Colorspace.ITU709 else 6
        for index in range(3):
            frame.pts = index
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def halves(image: np.ndarray) -> np.ndarray:
    """Label the left half 0 and the right half 3."""
    labels = np.zeros(image.shape[:2], np.uint8)
    labels[:, image.shape[1] // 2 :] = 3
    return labels


@pytest.mark.parametrize("size", [(96, 64), (95, 63), (96, 63), (1280, 720)], ids=str)
@pytest.mark.parametrize("pixels", ["yuv420p", "yuv422p", "yuv444p"])
@pytest.mark.parametrize("matrix", [Colorspace.ITU601, Colorspace.ITU709])
@pytest.mark.parametrize("full", [False, True], ids=["limited", "full"])
def test_drawn_colours_are_those_asked_for(tmp_path, size, pixels, matrix, full):
    net = StagedNetwork("halves", (Stage("a", halves),))
    source = video(tmp_path / "a.mkv", size, pixels, matrix, full)
    segment(source, tmp_path / "out", net, frame_oracle, write=("overlay",))
    *_, shown = (frame.image for frame in open_clip(tmp_path / "out" / "overlay.mp4"))
    width, height = size
    for left, right, label in ((0, width // 2, 0), (width // 2, width, 3)):
        inner = shown[8 : height - 8, left + 8 : right - 8]
        wanted = (np.array(PICTURE) + palette(4)[label]) / 2
        assert np.abs(inner.reshape(-1, 3).astype(float) - wanted).max() <= NEAR


@pytest.mark.parametrize("size", [(96, 64), (95, 63)], ids=str)
def test_pixels_of_no_class_stay_as_they_were(tmp_path, size):
    net = StagedNetwork("none", (Stage("a", lambda image: np.full(image.shape[:2], 255, np.uint8)),))
    source = video(tmp_path / "a.mkv", size, "yuv420p", Colorspace.ITU601, False)
    segment(source, tmp_path / "out", net, frame_oracle, write=("overlay",))
    *_, shown = (frame.image for frame in open_clip(tmp_path / "out" / "overlay.mp4"))
    inner = shown[8 : size[1] - 8, 8 : size[0] - 8].reshape(-1, 3).astype(float)
    assert np.abs(inner - PICTURE).max() <= NEAR


@pytest.mark.parametrize("full", [False, True], ids=["limited", "full"])
def test_decoded_pictures_are_read_as_the_colours_they_show(tmp_path, full):
    source = video(tmp_path / "a.mkv", (96, 64), "yuv420p", Colorspace.ITU709, full)
    for frame in open_clip(source):
        assert frame.picture.shape == (64, 96, 3) == frame.image.shape
        assert np.abs(frame.image.astype(float) - PICTURE).max() <= 3
