"""The handover between the pieces of a long video, with which identities go on from one to the next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from clockseg.carry.flow import Flow
from clockseg.carry.motion import Sight
from clockseg.clocks.scene_cut import scene_cut
from clockseg.errors import DataError
from clockseg.instances.matching import Track, Tracker
from clockseg.instances.sets import INSIDE, InstanceMaps, Instances
from clockseg.types import Array


@dataclass(frozen=True, eq=False)
class Handover:
    """The state of a stream after the last frame of a piece.

    ``shown``: the instances of that frame. ``tracker``: the identities. ``grey``: that frame in grey for motion estimation,
    uint8 [h, w]; None where the carry doesn't estimate motion.
    """

    shown: Instances
    tracker: Tracker
    grey: Array | None = None

    def expected(self, sight: Sight | None) -> Instances | None:
        """Return the instances moved to the next frame, the first of the next piece; None if a shot begins with it.

        ``sight``: the next frame's data for motion estimation; None: they are not moved.
        """
        known = self.shown.only(np.isin(self.shown.ids, list(self.tracker.tracks)))
        if sight is None or self.grey is None:
            return known
        if sight.grey.shape != self.grey.shape:
            return None
        motion = Flow().observe(Sight(self.grey), sight)
        cut, _ = scene_cut(motion, None, None, 0.0)
        if cut:
            return None
        moved: Instances = InstanceMaps.of(known).moved(motion).value()
        return moved

    def write(self, path: Path) -> None:
        """Write the state as a file of arrays."""
        tracks = list(self.tracker.tracks.values())
        shown = self.shown
        np.savez_compressed(
            path,
            **{name: getattr(shown, name) for name in ("classes", "scores", "boxes", "size", "ids")},
            inside=shown.soft >= INSIDE,
            tracks=np.array([(one.one, one.kind, one.frame, one.missed) for one in tracks], np.int64).reshape(-1, 4),
            places=np.array([(one.box, one.velocity) for one in tracks], np.float64).reshape(-1, 2, 4),
            counts=np.array([self.tracker.most, self.tracker.frame]),
            grey=np.zeros((0, 0), np.uint8) if self.grey is None else self.grey,
        )

    @classmethod
    def read(cls, path: Path) -> Handover:
        """Read the state; ``DataError`` if the file is damaged."""
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                told = dict(file)
            width, height = map(int, told["size"])
            soft = told["inside"].astype(np.float32)
            classes, scores, boxes, ids = (told[name] for name in ("classes", "scores", "boxes", "ids"))
            tracks = {
                int(one): Track(int(one), int(kind), box, velocity, int(frame), int(missed))
                for (one, kind, frame, missed), (box, velocity) in zip(told["tracks"], told["places"], strict=True)
            }
            most, frame = map(int, told["counts"])
        except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
            raise DataError(f"{path}: damaged ({error}). Segment the video again with --overwrite.") from error
        shown = Instances(classes, scores, boxes, soft, (width, height), ids)
        return cls(shown, Tracker(tracks, most, frame), told["grey"] if told["grey"].size else None)
