"""Between numbers and light: the curves of HDR and SDR, and the one that compresses HDR.

Signals are 0 to 1. Light of SDR is 0 to 1, of PQ cd/m2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
    """Light of a display, cd/m2 (the EOTF of ITU-R BT.2100).

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
    """Light of the scene, 0 to 1 (the inverse OETF of ITU-R BT.2100).

    >>> from_hlg(np.array([0.0, 0.5, 0.75, 1.0])).round(3).tolist()
    [0.0, 0.083, 0.265, 1.0]
    """
    return np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - _C) / _A) + _B) / 12)


def from_sdr(signal: Floats) -> Floats:
    """Light of a display, of its white (ITU-R BT.1886, black at 0)."""
    return np.asarray(signal**_BT1886)


def to_sdr(light: Floats) -> Floats:
    """The other way.

    >>> to_sdr(from_sdr(np.array([0.25]))).tolist()
    [0.25]
    """
    return np.asarray(light ** (1 / _BT1886))


def compressed(nits: Floats, *, peak: float, target: float) -> Floats:
    """Light up to ``peak`` on a display that gives ``target``, cd/m2: the EETF of ITU-R BT.2390, 5.4.1, black at 0.

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
