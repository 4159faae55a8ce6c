"""Instances as COCO run-length JSON lines, one line per frame."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from clockseg.instances.sets import Instances, within
from clockseg.types import Array, Labels, Size


def encoded(mask: Array) -> dict[str, Any]:
    """Return a mask, bool [h, w], as COCO's compressed run-length encoding: {"size": [h, w], "counts": text}.

    Runs go down the columns, the first one is of pixels outside; from the fourth on, each is told by its difference to the one
    two before. Numbers are written in groups of five bits, the lowest first (``rleToString`` of the COCO API).

    >>> encoded(np.array([[0, 1], [0, 1]], bool))
    {'size': [2, 2], 'counts': '22'}
    """
    mask = np.asarray(mask, bool)
    columns = within(mask)[1]
    changes = np.nonzero(np.diff(mask[:, columns].ravel(order="F"), prepend=False, append=False))[0]
    changes += columns.start * mask.shape[0]
    end = [] if changes.size and changes[-1] == mask.size else [mask.size]
    runs = np.diff(np.concatenate([[0], changes, end])).astype(np.int64).tolist()
    text = []
    for index, run in enumerate(runs):
        number = run - runs[index - 2] if index > 2 else run
        more = True
        while more:
            bits = number & 31
            number >>= 5
            more = number != (-1 if bits & 16 else 0)
            text.append(chr(bits + 48 + (32 if more else 0)))
    return {"size": list(mask.shape), "counts": "".join(text)}


def decoded(told: dict[str, Any]) -> Array:
    """Return the mask, bool [h, w], of a run-length encoding as ``encoded`` makes it.

    >>> decoded(encoded(np.array([[0, 1], [1, 1]], bool))).tolist()
    [[False, True], [True, True]]
    """
    runs: list[int] = []
    number = shift = 0
    for character in told["counts"]:
        bits = ord(character) - 48
        number |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            number -= (1 << shift) if bits & 16 else 0
            runs.append(number + runs[-2] if len(runs) > 2 else number)
            number = shift = 0
    height, width = told["size"]
    inside = np.arange(len(runs)) % 2 == 1
    return np.repeat(inside, runs).reshape(height, width, order="F")


def instance_line(frame: int, found: Instances, names: Sequence[str]) -> str:
    """Return one line of ``instances.jsonl``, without its line break.

    Each instance has the fields of COCO results (``category_id``, ``score``, ``bbox`` as left, top, width and height,
    ``segmentation``), the name of its class, and its identity as ``track_id``.
    """
    entries = []
    for index in range(len(found)):
        left, top, right, bottom = (round(float(side), 2) for side in found.boxes[index])
        kind = int(found.classes[index])
        entries.append(
            {
                "image_id": frame,
                "track_id": int(found.ids[index]),
                "category_id": kind,
                "category": names[kind] if 0 <= kind < len(names) else f"class {kind}",
                "score": round(float(found.scores[index]), 4),
                "bbox": [left, top, round(right - left, 2), round(bottom - top, 2)],
                "segmentation": encoded(found.mask(index)),
            }
        )
    return json.dumps({"frame": frame, "size": list(found.size), "instances": entries}, allow_nan=False)


def class_map(entries: Iterable[dict[str, Any]], size: Size) -> Labels:
    """Return the ids of the classes of instances as ``read_instances`` gives them, uint8 [H, W], 255 outside; ``size``: (W, H)."""
    found: Labels = np.full((size[1], size[0]), 255, np.uint8)
    for one in sorted(entries, key=lambda one: float(one["score"])):
        found[one["mask"]] = one["category_id"]
    return found
