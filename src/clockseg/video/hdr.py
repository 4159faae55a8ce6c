"""HDR and wide gamuts converted to SDR of BT.709: transfer curves, primaries, and tone mapping."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.sidedata.sidedata import Type

from clockseg.types import Array, Image
from clockseg.video.side_data import SideDataReader

Floats = npt.NDArray[np.float64]
# ITU-R BT.2100, table 4.
_M1, _M2, _C1, _C2, _C3 = 2610 / 16384, 2523 / 32, 3424 / 4096, 2413 / 128, 2392 / 128
_PQ_NITS = 10_000.0
# ITU-R BT.2100, table 5.
_A = 0.17883277
_B, _C = 1 - 4 * _A, 0.5 - _A * np.log(4 * _A)
HLG_GAMMA = 1.2
"""Of the whole way from scene to a display of 1,000 cd/m2 (ITU-R BT.2100, note 5f)."""
_BT1886 = 2.4


def from_pq(signal: Floats) -> Floats:
    """Convert PQ to the light of a display in cd/m2 (the EOTF of ITU-R BT.2100).

    >>> from_pq(np.array([0.0, 0.58, 1.0])).round().tolist()
    [0.0, 202.0, 10000.0]
    """
    root = signal ** (1 / _M2)
    return np.asarray(_PQ_NITS * (np.maximum(root - _C1, 0) / (_C2 - _C3 * root)) ** (1 / _M1))


def to_pq(nits: Floats) -> Floats:
    """The other way.

    >>> to_pq(np.array([100.0])).round(3).tolist()
    [0.508]
    """
    power = (nits / _PQ_NITS) ** _M1
    return np.asarray(((_C1 + _C2 * power) / (1 + _C3 * power)) ** _M2)


def from_hlg(signal: Floats) -> Floats:
    """Convert HLG to the light of the scene, 0 to 1 (the inverse OETF of ITU-R BT.2100).

    >>> from_hlg(np.array([0.0, 0.5, 0.75, 1.0])).round(3).tolist()
    [0.0, 0.083, 0.265, 1.0]
    """
    return np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - _C) / _A) + _B) / 12)


def from_sdr(signal: Floats) -> Floats:
    """Convert SDR to the light of a display, 0 to 1 (ITU-R BT.1886, black at 0)."""
    return np.asarray(signal**_BT1886)


def to_sdr(light: Floats) -> Floats:
    """The other way.

    >>> to_sdr(from_sdr(np.array([0.25]))).tolist()
    [0.25]
    """
    return np.asarray(light ** (1 / _BT1886))


def compressed(nits: Floats, *, peak: float, target: float) -> Floats:
    """Compress light up to ``peak`` for a display of ``target`` cd/m2: the EETF of ITU-R BT.2390, 5.4.1, black at 0.

    The dark part stays as it is; from a knee on a Hermite spline in PQ bends the rest to the target.

    >>> compressed(np.array([1.0, 203.0, 1000.0]), peak=1000, target=203).round(1).tolist()
    [1.0, 159.0, 203.0]
    """
    top = to_pq(np.array(peak))
    bound = float(to_pq(np.array(target)) / top)
    if bound >= 1:
        return np.minimum(nits, target)
    knee = 1.5 * bound - 0.5
    signal = np.minimum(to_pq(nits) / top, 1)
    t = np.clip((signal - knee) / (1 - knee), 0, 1)
    bent = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * bound
    return from_pq(np.where(signal <= knee, signal, bent) * top)


# Numbers of ITU-T H.273.
BT709, BT2020, P3_D65 = 1, 9, 12
# x, y of red, green, blue (ITU-T H.273, table 2); all are for white D65.
_CHROMATICITIES = {
    BT709: ((0.640, 0.330), (0.300, 0.600), (0.150, 0.060)),
    BT2020: ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046)),
    P3_D65: ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)),
}
_D65 = (0.3127, 0.3290)
WIDE = (BT2020, P3_D65)
"""Those that are brought to BT.709. Of the others, BT.601's differ by less than is seen."""


def to_bt709(primaries: int) -> npt.NDArray[np.float64]:
    """Return the matrix [3, 3] from linear RGB of these primaries to linear RGB of BT.709.

    >>> np.round(to_bt709(BT2020), 4).tolist()[0]  # ITU-R BT.2407, 2.2
    [1.6605, -0.5876, -0.0728]
    """
    return np.asarray(np.linalg.inv(_to_xyz(BT709)) @ _to_xyz(primaries))


def luminance(primaries: int) -> npt.NDArray[np.float64]:
    """Return the contributions of linear R, G and B to luminance.

    >>> np.round(luminance(BT2020), 4).tolist()
    [0.2627, 0.678, 0.0593]
    """
    return np.asarray(_to_xyz(primaries)[1])


def _to_xyz(primaries: int) -> npt.NDArray[np.float64]:
    """Return the matrix from linear RGB to CIE XYZ, so that white has Y = 1."""
    columns = np.array([_xyz(*place) for place in _CHROMATICITIES[primaries]]).T
    return np.asarray(columns * np.linalg.solve(columns, _xyz(*_D65)))


def _xyz(x: float, y: float) -> npt.NDArray[np.float64]:
    return np.array([x / y, 1.0, (1 - x - y) / y])


# Transfers, and what stands for no primaries told: numbers of ITU-T H.273.
LINEAR, PQ, HLG = 8, 16, 18
_UNTOLD = (0, 2)
PEAK_NITS = 1000.0
"""Of HDR that doesn't tell: what most of it is graded for, and the nominal peak of HLG."""
_MOST_NITS = 10_000.0
# AVMasteringDisplayMetadata: primaries and white point as 8 rationals, least and greatest luminance, what of it is there.
_MASTERING = struct.Struct("=16i4i2i")
_LIGHT_LEVEL = struct.Struct("=2I")


class Signal(NamedTuple):
    """Primaries and transfer (ITU-T H.273 numbers; transfer 0 for any of SDR), and the peak of PQ in cd/m2."""

    primaries: int = BT709
    transfer: int = 0
    peak_nits: float = PEAK_NITS

    @property
    def plain(self) -> bool:
        """True for SDR of BT.709, or close enough to be used unchanged."""
        return self.primaries == BT709 and not self.transfer


def signal_of(picture: av.VideoFrame, *, peak_nits: float = PEAK_NITS) -> Signal:
    """Return the signal of a picture; primaries that are not stated are those of BT.2020 for HDR, else those of BT.709."""
    transfer = picture.color_trc if picture.color_trc in (LINEAR, PQ, HLG) else 0
    primaries = picture.color_primaries
    if primaries in _UNTOLD and transfer in (PQ, HLG):
        primaries = BT2020
    return Signal(primaries if primaries in WIDE else BT709, transfer, peak_nits if transfer == PQ else PEAK_NITS)


def peak_of(picture: av.VideoFrame, reader: SideDataReader) -> float:
    """Return the brightest pixel of the content, else the peak of the display it was graded on, in cd/m2."""
    for told in (_content_peak(picture, reader), _display_peak(picture, reader)):
        if 0 < told <= _MOST_NITS:
            return told
    return PEAK_NITS


def _content_peak(picture: av.VideoFrame, reader: SideDataReader) -> float:
    found = reader.get(picture, Type.CONTENT_LIGHT_LEVEL)
    content = b"" if found is None else bytes(found)
    return float(_LIGHT_LEVEL.unpack_from(content)[0]) if len(content) >= _LIGHT_LEVEL.size else 0.0


def _display_peak(picture: av.VideoFrame, reader: SideDataReader) -> float:
    found = reader.get(picture, Type.MASTERING_DISPLAY_METADATA)
    content = b"" if found is None else bytes(found)
    if len(content) < _MASTERING.size:
        return 0.0
    *_, numerator, denominator, _, there = _MASTERING.unpack_from(content)
    return numerator / denominator if there and denominator else 0.0


WHITE_NITS = 203.0
"""The light of a white sheet in HDR (ITU-R BT.2408), and of SDR's white here."""
# Rows at once: what stays in the processor's cache.
_ROWS = 32
_LAST = 65535


class ToSDR:
    """Converts RGB [h, w, 3] of 16 bits, of one kind of signal, to uint8 of BT.709's primaries and BT.1886's display.

    Light is as of a display: PQ as it says, HLG at its nominal 1,000 cd/m2; SDR's white is 203 cd/m2. What is brighter is
    compressed by the curve of ITU-R BT.2390, applied to the largest of R, G and B and all three scaled alike, so that no hue
    changes. Then the gamut: what lies outside of BT.709 is clipped.
    """

    def __init__(self, signal: Signal) -> None:
        self._transfer, self._peak = signal.transfer, signal.peak_nits / WHITE_NITS
        codes = np.linspace(0, 1, _LAST + 1)
        self._to_light = np.asarray(_LIGHT[signal.transfer](codes), np.float32)
        self._luminance = luminance(signal.primaries).astype(np.float32)[None]
        self._to_bt709 = to_bt709(signal.primaries).astype(np.float32)
        # Both by the root of the light, which spends the entries as the eye does.
        self._gain = _gains(codes**2, self._peak).astype(np.float32)
        self._to_codes = np.round(to_sdr(codes**2) * 255).astype(np.uint8)

    def __call__(self, rgb: Array) -> Image:
        out = np.empty(rgb.shape, np.uint8)
        for top in range(0, len(rgb), _ROWS):
            out[top : top + _ROWS] = self._rows(rgb[top : top + _ROWS])
        return out

    def _rows(self, rgb: Array) -> Image:
        light = np.take(self._to_light, rgb)
        if self._transfer == HLG:
            light *= self._shown(light)[..., None]
        if self._transfer in (PQ, HLG):
            # Not light.max(2), which takes ten times as long.
            brightest = np.maximum(np.maximum(light[..., 0], light[..., 1]), light[..., 2])
            brightest = np.minimum(brightest / np.float32(self._peak), 1)
            light *= np.take(self._gain, _entries(brightest))[..., None]
        return np.asarray(np.take(self._to_codes, _entries(np.clip(cv2.transform(light, self._to_bt709), 0, 1))))

    def _shown(self, scene: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the gain of a display on the light of the scene (the OOTF of ITU-R BT.2100)."""
        luma = cv2.transform(scene, self._luminance).reshape(scene.shape[:2])
        return np.asarray(cv2.pow(luma, HLG_GAMMA - 1) * np.float32(self._peak))


_LIGHT: dict[int, Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]] = {
    0: from_sdr,
    LINEAR: np.asarray,
    HLG: from_hlg,
    PQ: lambda signal: from_pq(signal) / WHITE_NITS,
}


def _entries(light: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Return table indices: tables are over the square root of the light, 0 to 1."""
    return (np.sqrt(light) * np.float32(_LAST) + np.float32(0.5)).astype(np.uint16)


def _gains(light: npt.NDArray[np.float64], peak: float) -> npt.NDArray[np.float64]:
    """Return the gain that compresses light, given as a share of ``peak``, which is in multiples of white."""
    nits = np.maximum(light * peak * WHITE_NITS, 1e-6)
    return compressed(nits, peak=peak * WHITE_NITS, target=WHITE_NITS) / nits
