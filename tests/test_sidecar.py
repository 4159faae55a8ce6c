"""Sidecars: what is wrong with one is said so that it can be mended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import networks
from clockseg.errors import NetworkError
from clockseg.graph.sidecar import dump, parse, read
from clockseg.networks.load import load

GOOD: dict[str, Any] = json.loads(dump(networks.TINY))


def changed(**changes: Any) -> str:
    """The good sidecar with fields changed; "input.x" stands for a field of input, None takes a field out."""
    data = json.loads(json.dumps(GOOD))
    for name, value in changes.items():
        where, _, leaf = name.rpartition("__")
        target = data[where] if where else data
        if value is None:
            del target[leaf]
        else:
            target[leaf] = value
    return json.dumps(data)


@pytest.mark.parametrize("sidecar", [networks.TINY, networks.UNET, networks.NO_SKIP, networks.TWO_BRANCHES])
def test_round_trip(sidecar: Any) -> None:
    assert parse(dump(sidecar), source="x.json") == sidecar


def test_the_least_sidecar() -> None:
    found = parse(
        '{"format": "clockseg-1", "input": {"name": "x", "width": 8, "height": 8}, "output": "y", "cuts": ["a"]}',
        source="net.json",
    )
    assert (found.name, found.cuts, found.classes, found.schedule) == ("net", (("a",),), (), None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "clockseg-9"}, r'format is "clockseg-9"; it must be \'clockseg-1\', which this version reads'),
        ({"format": None}, "has no format; it needs one: 'clockseg-1'"),
        ({"output": None}, "has no output"),
        ({"input": None}, "has no input; it needs one: an object"),
        ({"input": 3}, "input is 3; it must be an object"),
        ({"cuts": None}, "has no cuts"),
        ({"cuts": [], "stages": None, "scores": None}, "it must be a list of one cut or more"),
        ({"cuts": [["low"], [], ["deep"]]}, "each a tensor's name or a list of names"),
        ({"cuts": [[1], [2], [3]]}, "each a tensor's name or a list of names"),
        ({"cuts": "low"}, 'cuts is "low"; it must be a list of one cut'),
        ({"classes": "sky"}, "it must be a list"),
        ({"classes": [1, 2, 3, 4]}, r"classes is \[1, 2, 3, 4\]; it must be a list of strings"),
        ({"classes": ["a", "a", "b", "c"]}, "it must be a list of strings, each different"),
        (
            {"classes": [f"c{k}" for k in range(256)], "palette": None},
            "at most 255 because label maps are bytes",
        ),
        ({"palette": [[0, 0, 0]]}, "palette has 1 items and must have 4, one per class"),
        ({"palette": [[0, 0, 0]] * 3 + [[0, 0, 256]]}, "a colour, three whole numbers from 0 to 255"),
        ({"ignore": 256}, "ignore is 256; it must be a whole number from 0 to 255 or null"),
        ({"stages": ["a"]}, "stages has 1 items and must have 3, one per cut"),
        ({"scores": ["a", "b"]}, "scores has 2 items and must have 3, one per cut"),
        ({"schedule": 2}, "schedule is 2; it must be a string or null"),
        ({"input__colour": "rbg"}, "it must be rgb or bgr"),
        ({"input__std": [1, 0, 1]}, r"input\.std is \[1, 0, 1\]; it must be three finite numbers other than 0"),
        ({"input__scale": 0}, "it must be a finite number other than 0"),
        ({"input__std": [1, 1]}, "three finite numbers"),
        ({"input__mean": [1, 1, float("nan")]}, "three finite numbers"),
        ({"input__scale": float("inf")}, "it must be a finite number"),
        ({"input__scale": 10**400}, "it must be a finite number"),
        ({"input__mean": [0, 0, 10**400]}, "three finite numbers"),
        ({"input__width": 0}, r"input\.width is 0; it must be a whole number from 1 to 65535"),
        ({"input__width": "480"}, "it must be a whole number"),
        ({"input__width": True}, "it must be a whole number"),
        ({"input__height": None}, r"has no input\.height"),
        ({"input__pad_multiple": 0}, "it must be a whole number from 1 to 65535"),
        ({"input__pad_value": [0, 0, 300]}, "it must be a colour, three whole numbers"),
        ({"input__pad_multipel": 8}, r"unknown field input\.pad_multipel\. Did you mean pad_multiple"),
        ({"clases": []}, "unknown field clases. Did you mean classes"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        parse(changed(**changes), source="net.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ("[" * 100_000, "is not JSON"), ("[]", "must be an object"), ("", "is not JSON")],
)
def test_no_json(text: str, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        parse(text, source="net.json")


def test_a_network_with_a_correction_is_refused_with_the_way_to_take_it_out() -> None:
    names = {"output": "corrected", "of": "coarse", "moved": "moved", "unexplained": "unexplained"}
    for given in (names, {}):
        with pytest.raises(
            NetworkError, match=r"removed after version 0\.2\. Delete the field correction, and .*extract_model"
        ):
            parse(changed(correction=given), source="x.json")


def test_absent(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"net\.json is missing.*clockseg-1"):
        read(tmp_path / "net.json")
    (tmp_path / "net.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NetworkError, match="can't be read"):
        read(tmp_path / "net.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output": "score"}, "output 'score' is not a tensor of its network. Did you mean scores"),
        ({"input": networks.Input("images", 48, 32)}, "input 'images' is not an input of its network"),
        ({"cuts": (("low",), ("middle",), ("deep",))}, "'middle' is not a tensor of this network"),
        (
            {"classes": ("a", "b"), "palette": ()},
            r"names 2 classes, but the network's output 'scores' has shape \[1, 4,",
        ),
        ({"scores": ("scores_2", None, None)}, "it must be computed from 'low' alone"),
        ({"stages": ("a", "b+c", "d")}, "stage names"),
    ],
)
def test_a_sidecar_that_does_not_fit(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = networks.write_tiny(tmp_path, networks.renamed(networks.TINY, **changes))
    with pytest.raises(NetworkError, match=message):
        load(path, engine=None)
