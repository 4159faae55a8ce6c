"""What the numbers of a picture mean in light: its primaries, its transfer, and how bright it gets."""

from __future__ import annotations

import struct
from typing import NamedTuple

import av
from av.sidedata.sidedata import Type

from clockseg.video._primaries import BT709, BT2020, WIDE
from clockseg.video._side_data import Beside

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
        """Whether it is SDR of BT.709, or near enough to be taken as it is."""
        return self.primaries == BT709 and not self.transfer


def signal_of(picture: av.VideoFrame, *, peak_nits: float = PEAK_NITS) -> Signal:
    """What a picture says of itself; HDR that doesn't say has the primaries of BT.2020, anything else those of BT.709."""
    transfer = picture.color_trc if picture.color_trc in (LINEAR, PQ, HLG) else 0
    primaries = picture.color_primaries
    if primaries in _UNTOLD and transfer in (PQ, HLG):
        primaries = BT2020
    return Signal(primaries if primaries in WIDE else BT709, transfer, peak_nits if transfer == PQ else PEAK_NITS)


def peak_of(picture: av.VideoFrame, beside: Beside) -> float:
    """The brightest pixel of the content, else the peak of the display it was graded on, in cd/m2."""
    for told in (_brightest(picture, beside), _mastered(picture, beside)):
        if 0 < told <= _MOST_NITS:
            return told
    return PEAK_NITS


def _brightest(picture: av.VideoFrame, beside: Beside) -> float:
    found = beside.get(picture, Type.CONTENT_LIGHT_LEVEL)
    content = b"" if found is None else bytes(found)
    return float(_LIGHT_LEVEL.unpack_from(content)[0]) if len(content) >= _LIGHT_LEVEL.size else 0.0


def _mastered(picture: av.VideoFrame, beside: Beside) -> float:
    found = beside.get(picture, Type.MASTERING_DISPLAY_METADATA)
    content = b"" if found is None else bytes(found)
    if len(content) < _MASTERING.size:
        return 0.0
    *_, numerator, denominator, _, there = _MASTERING.unpack_from(content)
    return numerator / denominator if there and denominator else 0.0
