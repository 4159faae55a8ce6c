"""HDR and wide gamuts to SDR of BT.709."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

from clockseg.types import Array, Image
from clockseg.video._light import HLG_GAMMA, compressed, from_hlg, from_pq, from_sdr, to_sdr
from clockseg.video._primaries import luminance, to_bt709
from clockseg.video._signal import HLG, LINEAR, PQ, Signal

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
        """What a display multiplies the light of the scene by (the OOTF of ITU-R BT.2100)."""
        luma = cv2.transform(scene, self._luminance).reshape(scene.shape[:2])
        return np.asarray(cv2.pow(luma, HLG_GAMMA - 1) * np.float32(self._peak))


_LIGHT: dict[int, Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]] = {
    0: from_sdr,
    LINEAR: np.asarray,
    HLG: from_hlg,
    PQ: lambda signal: from_pq(signal) / WHITE_NITS,
}


def _entries(light: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """The entries of tables over the root of the light, 0 to 1."""
    return (np.sqrt(light) * np.float32(_LAST) + np.float32(0.5)).astype(np.uint16)


def _gains(light: npt.NDArray[np.float64], peak: float) -> npt.NDArray[np.float64]:
    """What light, of the peak, is multiplied by to be compressed; ``peak`` in whites."""
    nits = np.maximum(light * peak * WHITE_NITS, 1e-6)
    return compressed(nits, peak=peak * WHITE_NITS, target=WHITE_NITS) / nits
