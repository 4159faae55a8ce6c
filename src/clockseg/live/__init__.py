"""Live: cameras, streams and pipes through a network, on time."""

from clockseg.live.feed import Drop
from clockseg.live.on_time import OnTime, Room
from clockseg.live.run import LiveResult, Until, live
from clockseg.live.sources import Source, source

__all__ = ["Drop", "LiveResult", "OnTime", "Room", "Source", "Until", "live", "source"]
