"""What a decoded picture looks like by the standards' formulas, in floats: ITU-T H.273, ITU-R BT.1886, BT.2100, BT.2390.

Written apart from the package, from the planes as FFmpeg decodes them; chroma is enlarged without a filter.
"""

from __future__ import annotations

import av
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
LUMA = {
    1: (0.2126, 0.0722),
    4: (0.30, 0.11),
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
}
"""Of H.273's matrices: what red and blue contribute to luma."""
BT2020, P3, PQ, HLG = 9, 12, 16, 18
TO_BT709 = {
    BT2020: [[1.660491, -0.587641, -0.072850], [-0.124550, 1.132900, -0.008349], [-0.018151, -0.100579, 1.118730]],
    P3: [[1.224940, -0.224940, 0.0], [-0.042057, 1.042057, 0.0], [-0.019638, -0.078636, 1.098274]],
}
"""Linear light (ITU-R BT.2407, and the same for P3 with white D65)."""
WHITE_NITS, PEAK_NITS = 203.0, 1000.0


def reference(picture: av.VideoFrame) -> Floats:
    """The picture as RGB [h, w, 3] of 0 to 255, not turned."""
    rgb = np.clip(_rgb(picture), 0, 1)
    primaries, transfer = picture.color_primaries, picture.color_trc
    hdr = transfer in (PQ, HLG)
    if not hdr and primaries not in TO_BT709:
        return rgb * 255
    light = _shown(rgb, transfer) if hdr else rgb**2.4
    return np.clip(light @ np.array(TO_BT709[primaries]).T, 0, 1) ** (1 / 2.4) * 255


def _rgb(picture: av.VideoFrame) -> Floats:
    name = picture.format.name
    if name.startswith("rgb555"):
        words = np.frombuffer(picture.planes[0], "<u2" if name.endswith("le") else ">u2").reshape(picture.height, -1)
        words = words[:, : picture.width]
        return np.stack([words >> 10 & 31, words >> 5 & 31, words & 31], 2) / 31
    if picture.format.is_rgb:
        order = [2, 1, 0] if name.startswith("bgr") else [0, 1, 2]
        array = picture.to_ndarray()
        return array[..., order] / (2 ** picture.format.components[0].bits - 1)
    depth = picture.format.components[0].bits
    full = picture.color_range == 2 or name.startswith("yuvj") or (name.startswith("gray") and picture.color_range != 1)
    unit, top = 2 ** (depth - 8), 2**depth - 1
    planes = [_plane(picture, place) for place in range(3 if len(picture.planes) > 2 else 1)]
    luma = planes[0] / top if full else (planes[0] - 16 * unit) / (219 * unit)
    if len(planes) == 1:
        return np.repeat(luma[..., None], 3, 2)
    blue, red = ((plane - 128 * unit) / (top if full else 224 * unit) for plane in planes[1:])
    return _from_luma(luma, blue, red, picture.colorspace, picture.height)


def _from_luma(luma: Floats, blue: Floats, red: Floats, matrix: int, height: int) -> Floats:
    kr, kb = LUMA.get(matrix, LUMA[1 if height >= 720 else 6])
    r, b = luma + 2 * (1 - kr) * red, luma + 2 * (1 - kb) * blue
    return np.stack([r, (luma - kr * r - kb * b) / (1 - kr - kb), b], 2)


def _plane(picture: av.VideoFrame, place: int) -> Floats:
    """A plane at the size of the picture."""
    part = picture.format.components[place]
    kind = np.dtype("<u2" if part.bits > 8 else "u1")
    plane = picture.planes[place]
    values = np.frombuffer(plane, kind).reshape(-1, plane.line_size // kind.itemsize)[: plane.height, : plane.width]
    rows = np.arange(picture.height) * plane.height // picture.height
    columns = np.arange(picture.width) * plane.width // picture.width
    return values[rows][:, columns].astype(float)


def _shown(rgb: Floats, transfer: int) -> Floats:
    """Light of HDR on a display of 203 cd/m2, whose white is 1."""
    if transfer == HLG:
        low, high = rgb**2 / 3, (np.exp((rgb - 0.55991073) / 0.17883277) + 0.28466892) / 12
        scene = np.where(rgb <= 0.5, low, high)
        nits = 1000 * scene * np.maximum(scene @ [0.2627, 0.6780, 0.0593], 1e-12)[..., None] ** 0.2
    else:
        nits = _from_pq(rgb)
    top = np.maximum(nits.max(2, keepdims=True), 1e-9)
    return nits * _bent(np.minimum(top, PEAK_NITS)) / top / WHITE_NITS


def _bent(nits: Floats) -> Floats:
    """ITU-R BT.2390, 5.4.1, from 1,000 to 203 cd/m2, black at 0."""
    most = _to_pq(np.array(PEAK_NITS))
    e, limit = _to_pq(nits) / most, _to_pq(np.array(WHITE_NITS)) / most
    start = 1.5 * limit - 0.5
    t = (e - start) / (1 - start)
    spline = (2 * t**3 - 3 * t**2 + 1) * start + (t**3 - 2 * t**2 + t) * (1 - start) + (-2 * t**3 + 3 * t**2) * limit
    return _from_pq(np.where(e < start, e, spline) * most)


def _from_pq(signal: Floats) -> Floats:
    root = signal ** (32 / 2523)
    return 10000 * (np.maximum(root - 0.8359375, 0) / (18.8515625 - 18.6875 * root)) ** (16384 / 2610)


def _to_pq(nits: Floats) -> Floats:
    power = (nits / 10000) ** (2610 / 16384)
    return ((0.8359375 + 18.8515625 * power) / (1 + 18.6875 * power)) ** (2523 / 32)


def difference(image: npt.NDArray[np.uint8], expected: Floats) -> float:
    """How far two pictures are apart: in means of 4x4 pixels amid each 8x8, the largest of the channels; 95 % are nearer.

    Chroma at edges, which depends on the filter that enlarges it, is mostly left out.
    """
    apart = np.abs(_middles(image) - _middles(expected)).max(2)
    return float(np.percentile(apart, 95))


def _middles(image: npt.NDArray[np.generic]) -> Floats:
    if min(image.shape[:2]) < 8:
        return image.mean((0, 1), keepdims=True)
    parts = np.lib.stride_tricks.sliding_window_view(image.astype(float), (4, 4), (0, 1))
    return parts[2::8, 2::8].mean((3, 4))
