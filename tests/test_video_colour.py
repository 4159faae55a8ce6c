"""Colours against the standards' formulas: HDR, wide gamuts, ranges, matrices, depths, and formats that swscale gets wrong."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest
from av.video.format import names

from clockseg.errors import VideoError
from clockseg.video import open_clip
from clockseg.video.colour import ToRGB
from clockseg.video.hdr import Signal, ToSDR, compressed, from_pq, to_pq
from video_reference import reference

BT601, BT709, BT2020, P3, PQ, HLG = 6, 1, 9, 12, 16, 18
LIMITED, FULL = 1, 2


def flat(codes, pixels="yuv444p10le", *, matrix=BT2020, extent=LIMITED, primaries=2, transfer=2, size=16):
    """A frame of one colour; ``codes``: a number a plane."""
    frame = av.VideoFrame(size, size, pixels)
    kind = "u1" if frame.format.components[0].bits == 8 else "<u2"
    for plane, code in zip(frame.planes, codes, strict=True):
        plane.update(np.full(plane.buffer_size // np.dtype(kind).itemsize, code, kind).tobytes())
    frame.colorspace, frame.color_range = matrix, extent
    frame.color_primaries, frame.color_trc = primaries, transfer
    return frame


def apart(frame) -> float:
    """How far our picture is from the reference, at its middle."""
    return float(np.abs(ToRGB(10_000)(frame).astype(float) - reference(frame))[8, 8].max())


# Luma and chroma of 10 bits, limited range, from dark to bright, within BT.709's gamut.
COLOURS = [
    (150, 512, 512),
    (300, 500, 530),
    (400, 530, 500),
    (480, 512, 512),
    (520, 490, 525),
    (620, 512, 512),
    (760, 512, 512),
]


@pytest.mark.parametrize("codes", COLOURS)
@pytest.mark.parametrize(("primaries", "transfer"), [(BT2020, PQ), (BT2020, HLG), (BT2020, 14), (P3, 13)])
def test_hdr_and_wide_gamuts(primaries, transfer, codes):
    assert apart(flat(codes, primaries=primaries, transfer=transfer)) <= 1.5


def test_hdr_that_does_not_say_has_the_primaries_and_matrix_of_bt2020():
    told = flat((400, 490, 530), primaries=BT2020, transfer=PQ)
    untold = flat((400, 490, 530), matrix=2, transfer=PQ)
    assert np.array_equal(ToRGB(999)(told), ToRGB(999)(untold))


def test_white_and_what_is_brighter():
    def level(nits):
        code = round(64 + 876 * float(to_pq(np.array(nits))))
        return int(ToRGB(999)(flat((code, 512, 512), primaries=BT2020, transfer=PQ))[0, 0, 1])

    levels = [level(nits) for nits in (0, 1, 10, 100, 203, 500, 1000, 4000)]
    assert levels == sorted(levels)
    assert levels[0] == 0
    assert 215 <= levels[4] <= 235  # a white sheet is bright, and there is room for what is brighter
    assert levels[-2:] == [255, 255]


def test_the_curve_leaves_the_dark_and_ends_at_the_peak():
    nits = np.array([0.01, 1.0, 10.0, 203.0, 1000.0, 4000.0])
    out = compressed(nits)
    assert out[:3] == pytest.approx(nits[:3])
    assert 100 < out[3] < 203 == pytest.approx(out[4]) == pytest.approx(out[5])
    assert from_pq(to_pq(nits)) == pytest.approx(nits)


def test_a_hue_stays_where_light_is_compressed():
    signal = to_pq(np.array([[[4000.0, 2000.0, 2000.0], [900.0, 450.0, 450.0], [90.0, 45.0, 45.0]]]))
    out = ToSDR(Signal(BT709, PQ))(np.round(signal * 65535).astype(np.uint16)).astype(float)
    assert (out[0, :, 1] / out[0, :, 0]).tolist() == pytest.approx([2 ** (-1 / 2.4)] * 3, rel=0.01)
    assert np.array_equal(out[..., 1], out[..., 2])


def test_grey_of_limited_range_is_stretched():
    assert ToRGB(999)(flat((16,), "gray", matrix=2))[0, 0].tolist() == [0, 0, 0]
    assert ToRGB(999)(flat((235,), "gray", matrix=2))[0, 0].tolist() == [255, 255, 255]
    assert ToRGB(999)(flat((235,), "gray", matrix=2, extent=FULL))[0, 0].tolist() == [235, 235, 235]


def test_the_matrix_ycgco_is_refused():
    with pytest.raises(VideoError, match="YCgCo can't be read"):
        ToRGB(999)(flat((120, 110, 150), "yuv444p", matrix=8))


@pytest.mark.parametrize("bits", [10, 12, 14, 16])
@pytest.mark.parametrize("layout", ["420", "422", "444"])
@pytest.mark.parametrize("matrix", [BT601, BT709, BT2020])
def test_more_than_8_bits_are_exact(matrix, layout, bits):
    codes = (120 << bits - 8, 100 << bits - 8, 150 << bits - 8)
    assert apart(flat(codes, f"yuv{layout}p{bits}le", matrix=matrix)) <= 0.6


@pytest.mark.parametrize("name", ["rgb555be", "bgr555be", "rgb565be", "bgr565be"])
def test_16_bits_a_pixel_of_either_order(name):
    green = 6 if "565" in name else 5
    red, middle, blue = round(180 / 255 * 31), round(90 / 255 * (2**green - 1)), round(40 / 255 * 31)
    first, last = (red, blue) if name.startswith("rgb") else (blue, red)
    frame = av.VideoFrame(16, 16, name)
    word = np.full(frame.planes[0].buffer_size // 2, first << (5 + green) | middle << 5 | last, ">u2")
    frame.planes[0].update(word.tobytes())
    assert np.abs(ToRGB(999)(frame)[3, 3].astype(int) - (180, 90, 40)).max() <= 5


@pytest.mark.parametrize("name", ["yaf32le", "yaf32be"])
def test_a_format_that_would_end_the_process_is_refused(name):
    with pytest.raises(VideoError, match="can't be read"):
        ToRGB(999)(av.VideoFrame(16, 16, name))


def test_there_is_no_new_format_of_that_kind():
    """``yaf32`` ends the process in swscale; if FFmpeg adds another float with alpha and grey, look at it."""
    assert {name for name in names if name.startswith("yaf")} <= {"yaf16le", "yaf16be", "yaf32le", "yaf32be"}


def test_hdr_in_an_image(tmp_path):
    frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), round(0.58 * 65535), np.uint16), format="rgb48le")
    frame.pts, frame.time_base = 0, Fraction(1, 25)
    frame.color_trc, frame.color_primaries, frame.colorspace = PQ, BT2020, 0
    with av.open(str(tmp_path / "a.png"), "w", format="image2", container_options={"update": "1"}) as output:
        stream = output.add_stream("png", rate=25)
        stream.width, stream.height, stream.pix_fmt = 16, 16, "rgb48be"
        stream.codec_context.color_trc, stream.codec_context.color_primaries = PQ, BT2020
        output.mux(stream.encode(frame.reformat(format="rgb48be")))
        output.mux(stream.encode(None))
    (found,) = open_clip(tmp_path / "a.png")
    assert 220 <= found.image[0, 0, 0] <= 235
