"""Primaries: what red, green and blue are, and the way from wide ones to those of BT.709."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
    """The matrix [3, 3] that takes linear RGB of these primaries to linear RGB of BT.709.

    >>> np.round(to_bt709(BT2020), 4).tolist()[0]  # ITU-R BT.2407, 2.2
    [1.6605, -0.5876, -0.0728]
    """
    return np.asarray(np.linalg.inv(_to_xyz(BT709)) @ _to_xyz(primaries))


def luminance(primaries: int) -> npt.NDArray[np.float64]:
    """What linear R, G and B contribute to luminance.

    >>> np.round(luminance(BT2020), 4).tolist()
    [0.2627, 0.678, 0.0593]
    """
    return np.asarray(_to_xyz(primaries)[1])


def _to_xyz(primaries: int) -> npt.NDArray[np.float64]:
    """Linear RGB to CIE XYZ, so that white has Y = 1."""
    columns = np.array([_xyz(*place) for place in _CHROMATICITIES[primaries]]).T
    return np.asarray(columns * np.linalg.solve(columns, _xyz(*_D65)))


def _xyz(x: float, y: float) -> npt.NDArray[np.float64]:
    return np.array([x / y, 1.0, (1 - x - y) / y])
