"""HDR and wide gamuts converted to SDR of BT.709.

FFmpeg's own scaler (libswscale 9) converts too, but it spends 3 to 14 seconds on a table for each clip, and either clips what is
brighter than white or darkens everything else: 21 to 61 of 255 levels from these formulas at the 95th percentile.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import av
import cv2
import numpy as np
import numpy.typing as npt

from clockseg.types import Array, Image

Floats = npt.NDArray[np.float64]
# Numbers of ITU-T H.273: primaries, those that are not stated, and transfers.
BT709, BT2020, P3_D65 = 1, 9, 12
_NOT_STATED = (0, 2)
LINEAR, PQ, HLG = 8, 16, 18

PEAK_NITS = 1000.0
"""The peak of HDR in cd/m2: most PQ is graded for this, and it is the nominal peak of HLG. Brighter light is dimmed to it."""
WHITE_NITS = 203.0
"""The light in cd/m2 of a white sheet in HDR (ITU-R BT.2408), and of SDR's white here."""
_PEAK = PEAK_NITS / WHITE_NITS
_MOST_NITS = 10_000.0

# ITU-R BT.2100, tables 4 and 5, and note 5f: the gamma from scene to a display of 1,000 cd/m2.
_M1, _M2, _C1, _C2, _C3 = 2610 / 16384, 2523 / 32, 3424 / 4096, 2413 / 128, 2392 / 128
_A, _B, _C = 0.17883277, 0.28466892, 0.55991073
HLG_GAMMA = 1.2
# ITU-R BT.1886, black at 0.
_SDR_GAMMA = 2.4

# From linear RGB to that of BT.709, by the chromaticities of ITU-T H.273, table 2, for white D65.
_TO_BT709 = {
    BT709: np.eye(3),
    BT2020: ((1.660491, -0.587641, -0.072850), (-0.124550, 1.132900, -0.008349), (-0.018151, -0.100579, 1.118730)),
    P3_D65: ((1.224940, -0.224940, 0), (-0.042057, 1.042057, 0), (-0.019638, -0.078636, 1.098274)),
}
_LUMINANCE = np.array([[0.212639, 0.715169, 0.072192]])
"""Of R, G and B of BT.709."""


def from_pq(signal: Floats) -> Floats:
    """Convert PQ to the light of a display in cd/m2 (the EOTF of ITU-R BT.2100).

    >>> from_pq(np.array([0.0, 0.58, 1.0])).round().tolist()
    [0.0, 202.0, 10000.0]
    """
    root = signal ** (1 / _M2)
    return np.asarray(_MOST_NITS * (np.maximum(root - _C1, 0) / (_C2 - _C3 * root)) ** (1 / _M1))


def to_pq(nits: Floats) -> Floats:
    """Convert the light of a display in cd/m2 to PQ."""
    power = (nits / _MOST_NITS) ** _M1
    return np.asarray(((_C1 + _C2 * power) / (1 + _C3 * power)) ** _M2)


def compressed(nits: Floats) -> Floats:
    """Compress light up to ``PEAK_NITS`` for a display of ``WHITE_NITS``: the EETF of ITU-R BT.2390, 5.4.1, black at 0.

    The dark part stays as it is; from a knee on a Hermite spline in PQ bends the rest to the white.
    """
    top = to_pq(np.array(PEAK_NITS))
    bound = float(to_pq(np.array(WHITE_NITS)) / top)
    knee = 1.5 * bound - 0.5
    signal = np.minimum(to_pq(nits) / top, 1)
    t = np.clip((signal - knee) / (1 - knee), 0, 1)
    bent = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * bound
    return from_pq(np.where(signal <= knee, signal, bent) * top)


class Signal(NamedTuple):
    """Primaries and transfer (ITU-T H.273 numbers; transfer 0 for any of SDR)."""

    primaries: int = BT709
    transfer: int = 0

    @property
    def plain(self) -> bool:
        """True for SDR of BT.709, or close enough to be used unchanged."""
        return self.primaries == BT709 and not self.transfer


def signal_of(picture: av.VideoFrame) -> Signal:
    """Return the signal of a picture; primaries that are not stated are those of BT.2020 for HDR, else those of BT.709."""
    transfer = picture.color_trc if picture.color_trc in (LINEAR, PQ, HLG) else 0
    primaries = picture.color_primaries
    if primaries in _NOT_STATED and transfer in (PQ, HLG):
        primaries = BT2020
    # BT.601's primaries differ from BT.709's by less than is seen.
    return Signal(primaries if primaries in _TO_BT709 else BT709, transfer)


# Rows at once, which stay in the processor's cache.
_ROWS = 32
_LAST = 65535


class ToSDR:
    """Converts RGB [h, w, 3] of 16 bits, of one kind of signal, to uint8 of BT.709's primaries and BT.1886's display.

    Light is as of a display: PQ as it says, HLG at its nominal 1,000 cd/m2; SDR's white is 203 cd/m2. What is brighter is
    compressed by the curve of ITU-R BT.2390, applied to the largest of R, G and B and all three scaled alike, so that no hue
    changes. Then the gamut: what lies outside of BT.709 is clipped.
    """

    def __init__(self, signal: Signal) -> None:
        self._transfer = signal.transfer
        codes = np.linspace(0, 1, _LAST + 1)
        self._to_light = _light(codes, signal.transfer).astype(np.float32)
        self._to_bt709 = np.array(_TO_BT709[signal.primaries], np.float32)
        self._luminance = (_LUMINANCE @ self._to_bt709).astype(np.float32)
        # Both by the root of the light, which spends the entries as the eye does.
        nits = np.maximum(codes**2 * PEAK_NITS, 1e-6)
        self._gain = (compressed(nits) / nits).astype(np.float32)
        self._to_codes = np.round(codes ** (2 / _SDR_GAMMA) * 255).astype(np.uint8)

    def __call__(self, rgb: Array) -> Image:
        out = np.empty(rgb.shape, np.uint8)
        for top in range(0, len(rgb), _ROWS):
            out[top : top + _ROWS] = self._rows(rgb[top : top + _ROWS])
        return out

    def _rows(self, rgb: Array) -> Image:
        light = np.take(self._to_light, rgb)
        if self._transfer == HLG:
            # From the light of the scene to that of a display (the OOTF of ITU-R BT.2100).
            luma = cv2.transform(light, self._luminance).reshape(light.shape[:2])
            light *= (cv2.pow(luma, HLG_GAMMA - 1) * np.float32(_PEAK))[..., None]
        if self._transfer in (PQ, HLG):
            # Not light.max(2), which takes ten times as long.
            brightest = np.maximum(np.maximum(light[..., 0], light[..., 1]), light[..., 2]) / np.float32(_PEAK)
            # Light beyond the peak is dimmed to it first.
            light *= (np.take(self._gain, _entries(np.minimum(brightest, 1))) / np.maximum(brightest, 1))[..., None]
        return np.asarray(np.take(self._to_codes, _entries(np.clip(cv2.transform(light, self._to_bt709), 0, 1))))


to_sdr = cache(ToSDR)


def _light(signal: Floats, transfer: int) -> Floats:
    """Return the light, in multiples of SDR's white; of HLG, that of the scene, 0 to 1."""
    if transfer == PQ:
        return from_pq(signal) / WHITE_NITS
    if transfer == HLG:
        return np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - _C) / _A) + _B) / 12)
    return signal if transfer == LINEAR else np.asarray(signal**_SDR_GAMMA)


def _entries(light: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Return table indices: tables are over the square root of the light, 0 to 1."""
    return (np.sqrt(light) * np.float32(_LAST) + np.float32(0.5)).astype(np.uint16)
