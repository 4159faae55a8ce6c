"""The report: what its page holds, that it is whole and safe, and what it makes of results that lack something."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest

from clockseg import (
    DataError,
    StagedNetwork,
    UsageError,
    frame_oracle,
    load,
    read_labels,
    read_summary,
    read_trace,
    segment,
    skip_frame,
)
from clockseg.cli.main import main
from clockseg.evaluation.metrics import confusion
from clockseg.report import maps as scanning
from clockseg.report import write
from clockseg.report.page import SCRIPTS
from clockseg.report.run import thresholds
from networks import CLASSES, write_network, write_tiny
from test_beyond_labels import DEPTH, depth
from video_making import picture, write_video

FRAMES = 12
TYPES = {"Uint8Array": "u1", "Uint32Array": "<u4", "Float32Array": "<f4", "Float64Array": "<f8"}
PAGE = Path(__file__).resolve().parents[1] / "src" / "clockseg" / "report" / "page"
EVIL = "<script>alert(1)<%2fscript>\"'&"


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> StagedNetwork:
    return load(write_tiny(tmp_path_factory.mktemp("net")), threads=1)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "drive.mp4"
    return write_video(path, [picture(64, 48, 7 * seed) for seed in range(FRAMES)])


@pytest.fixture(scope="module")
def oracle(net: StagedNetwork, video: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return segment(video, tmp_path_factory.mktemp("out") / "oracle", net, frame_oracle, name="frame_oracle").folder


@pytest.fixture(scope="module")
def skipped(net: StagedNetwork, video: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "skipped"
    return segment(video, out, net, skip_frame(3), name="skip_frame(3)").folder


def facts_of(page: Path) -> dict[str, Any]:
    """The facts that lie in a page."""
    found = re.search(r'<script type="application/json" id="facts">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])


def numbers(packed: dict[str, str]) -> np.ndarray:
    """An array out of a page."""
    return np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), TYPES[packed["type"]])


def maps(masks: dict[str, Any]) -> Iterator[np.ndarray]:
    """The label maps out of a page, as its script takes them apart."""
    shape = -1, masks["height"], masks["width"]
    for chunk in masks["chunks"]:
        yield from np.bitwise_xor.accumulate(
            np.frombuffer(zlib.decompress(base64.b64decode(chunk)), np.uint8).reshape(shape)
        )


def embedded(page: Path) -> bytes:
    """The video out of a page."""
    found = re.search(r'id="video">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    return base64.b64decode(found[1])


def test_what_the_page_holds_is_what_the_folder_holds(oracle: Path, tmp_path: Path) -> None:
    facts = facts_of(write(oracle, tmp_path / "report.html"))
    [run] = facts["runs"]
    assert (facts["name"], facts["frames"], facts["timed"]) == ("drive", FRAMES, True)
    assert facts["notes"] == []
    trace = read_trace(oracle)
    assert numbers(facts["seconds"]).tolist() == pytest.approx([line["pts_seconds"] for line in trace])
    assert numbers(run["trace"]["fired"]).tolist() == [0b111] * FRAMES
    assert numbers(run["trace"]["fill"]).tolist() == [1] + [0] * (FRAMES - 1)
    assert len(run["trace"]["seconds"]) == 3 + 4
    assert numbers(run["trace"]["seconds"][1]) == pytest.approx([line["seconds"]["stages"][1] for line in trace])
    labels = list(read_labels(oracle))
    assert all(np.array_equal(a, b) for a, b in zip(labels, maps(run["masks"]), strict=True))
    for share in run["shares"]:
        assert numbers(share["share"]) == pytest.approx([(one == share["id"]).mean() for one in labels])


def test_the_video_in_the_page_has_the_frames_of_the_trace(net: StagedNetwork, video: Path, tmp_path: Path) -> None:
    done = segment(video, tmp_path / "out", net, frame_oracle, every=3, start_seconds=0.1)
    page = write(done.folder, tmp_path / "report.html")
    with av.open(io.BytesIO(embedded(page))) as container:
        shown = [float(frame.pts * frame.time_base) for frame in container.decode(video=0)]
    assert shown == pytest.approx([line["pts_seconds"] - 0.12 for line in read_trace(done.folder)], abs=1e-4)
    assert numbers(facts_of(page)["numbers"]).tolist() == [0, 3, 6]


def test_two_runs_are_compared_pixel_by_pixel(oracle: Path, skipped: Path, tmp_path: Path) -> None:
    facts = facts_of(write([skipped, oracle], tmp_path / "report.html"))
    found = facts["runs"][1]["difference"]
    pairs = list(zip(read_labels(oracle), read_labels(skipped), strict=True))
    expected = [confusion(truth, labels, len(CLASSES)) for truth, labels in pairs]
    assert numbers(found["agreement"]) == pytest.approx([one.pixel_acc for one in expected])
    assert found["pixel_acc"] == pytest.approx(sum(one.pixel_acc for one in expected) / FRAMES)
    differs = np.mean([truth != labels for truth, labels in pairs], axis=0)
    assert numbers(found["places"]).reshape(48, 64) == pytest.approx(255 * differs, abs=0.5)
    assert 0 < found["pixel_acc"] < 1
    assert facts["runs"][0]["difference"] is None


def test_runs_of_other_parts_meet_where_times_are_the_same(
    net: StagedNetwork, video: Path, oracle: Path, tmp_path: Path
) -> None:
    part = segment(video, tmp_path / "part", net, frame_oracle, every=2, start_seconds=0.15, end_seconds=0.35)
    times = [line["pts_seconds"] for line in read_trace(part.folder)]
    facts = facts_of(write([oracle, part.folder], tmp_path / "report.html"))
    there = numbers(facts["runs"][1]["trace"]["there"])
    assert [line["pts_seconds"] for line, on in zip(read_trace(oracle), there, strict=True) if on] == times
    assert facts["runs"][1]["difference"]["frames"] == len(times) < FRAMES


def test_labels_are_thinned_to_a_budget(oracle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "PIXELS", 64 * 48 * 4)
    masks = facts_of(write(oracle, tmp_path / "report.html"))["runs"][0]["masks"]
    assert (masks["every"], masks["kept"]) == (3, 4)
    labels = list(read_labels(oracle))[::3]
    assert all(np.array_equal(a, b) for a, b in zip(labels, maps(masks), strict=True))


def test_nothing_is_fetched(oracle: Path, tmp_path: Path) -> None:
    text = write(oracle, tmp_path / "report.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert "http" not in policy[1]
    assert not re.findall(r"https?://[^'\" ]+", text)
    assert re.findall(r"\b(?:src|href)=[\"'](?!#)", text) == []


def test_names_from_files_are_only_ever_text(oracle: Path, video: Path, net: StagedNetwork, tmp_path: Path) -> None:
    named = tmp_path / f"{EVIL}.mp4"
    shutil.copy(video, named)
    folder = segment(named, tmp_path / "out", net, frame_oracle, name=EVIL, limit=2).folder
    summary = json.loads((folder / "summary.json").read_text())
    summary |= {"classes": [EVIL, "</script>", "c", "d"], "machine": {"processor": EVIL}, "engine": "{{script}}"}
    (folder / "summary.json").write_text(json.dumps(summary))
    page = write(folder, tmp_path / "report.html")
    text, plain = page.read_text(), write(oracle, tmp_path / "plain.html").read_text()
    assert text.count("<script") == plain.count("<script")
    assert text.count("</script>") == plain.count("</script>")
    assert text.count("'use strict'") == 1
    assert facts_of(page)["runs"][0]["classes"][:2] == [EVIL, "</script>"]


def test_thresholds_and_signals(net: StagedNetwork, video: Path, tmp_path: Path) -> None:
    how = ["--network", str(write_tiny(tmp_path)), "--engine", "onnxruntime", "--schedule", "adaptive(0.2)", "--quiet"]
    assert main(["segment", str(video), "--out", str(tmp_path), *how]) == 0
    [run] = facts_of(write(tmp_path / "drive", tmp_path / "report.html"))["runs"]
    assert run["thresholds"] == [None, None, {"value": 0.2, "below": False}]
    signals = [np.nan if line["signal"][2] is None else line["signal"][2] for line in read_trace(tmp_path / "drive")]
    assert numbers(run["trace"]["signal"][2]) == pytest.approx(signals, nan_ok=True)
    assert run["trace"]["signal"][:2] == [None, None]


@pytest.mark.parametrize(
    ("write_kinds", "said", "masks", "trace", "drawn"),
    [
        (("labels",), "has no trace", True, False, False),
        (("trace",), "has no maps", False, True, False),
        (("overlay",), "has no maps", False, False, True),
    ],
)
def test_whatever_is_there_is_shown(
    net: StagedNetwork, video: Path, tmp_path: Path, write_kinds: Any, said: str, masks: bool, trace: bool, drawn: bool
) -> None:
    folder = segment(video, tmp_path / "out", net, frame_oracle, write=write_kinds).folder
    told: list[str] = []
    facts = facts_of(write(folder, tmp_path / "report.html", warn=told.append))
    [run] = facts["runs"]
    assert any(said in sentence and "--write" in sentence for sentence in told)
    assert facts["notes"] == told
    assert (run["masks"] is not None, run["trace"] is not None, facts["picture"]["drawn"]) == (masks, trace, drawn)


def test_a_trace_of_an_older_version_is_shown(skipped: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(skipped, tmp_path / "drive")
    lines = read_trace(folder)
    lines[1]["carried"] = "corrected"
    (folder / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    facts = facts_of(write(folder, tmp_path / "report.html"))
    shown = numbers(facts["runs"][0]["trace"]["carried"])
    assert [facts["carried"][place] for place in shown[:3]] == ["", "output", ""]


def test_a_source_that_is_gone_leaves_the_overlay(net: StagedNetwork, video: Path, tmp_path: Path) -> None:
    moved = shutil.copy(video, tmp_path / "moved.mp4")
    folder = segment(moved, tmp_path / "out" / "moved", net, frame_oracle).folder
    Path(moved).rename(tmp_path / "elsewhere.mp4")
    told: list[str] = []
    page = write(folder, tmp_path / "report.html", warn=told.append)
    assert facts_of(page)["picture"]["drawn"]
    assert "was moved or replaced" in told[0]
    assert embedded(page) == (folder / "overlay.mp4").read_bytes()
    by_name = facts_of(write(folder, tmp_path / "two.html", video="reference"))["picture"]
    assert (by_name["url"], by_name["embedded"]) == ("out/moved/overlay.mp4", False)
    found = facts_of(write(folder, tmp_path / "three.html", source=tmp_path / "elsewhere.mp4"))
    assert not found["picture"]["drawn"]


def test_another_video_in_its_place_is_not_shown(net: StagedNetwork, video: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copy(video, tmp_path / "moved.mp4"))
    folder = segment(moved, tmp_path / "out", net, frame_oracle).folder
    write_video(moved, [picture(64, 48) for _ in range(FRAMES)], fps=10)
    told: list[str] = []
    assert facts_of(write(folder, tmp_path / "report.html", warn=told.append))["picture"]["drawn"]
    assert "was moved or replaced" in told[0]
    write(folder, tmp_path / "report.html", source=moved, overwrite=True, warn=told.append)
    assert "Give the video that was segmented" in told[2]


def test_a_video_that_browsers_play_may_be_referred_to(oracle: Path, tmp_path: Path) -> None:
    found = facts_of(write(oracle, tmp_path / "report.html", video="reference"))["picture"]
    assert found["url"].endswith("/drive.mp4")
    assert (tmp_path / found["url"]).resolve().is_file()
    assert numbers(found["seconds"]).tolist() == pytest.approx([line["pts_seconds"] for line in read_trace(oracle)])
    none = facts_of(write(oracle, tmp_path / "none.html", video="none"))["picture"]
    assert (none["url"], none["embedded"]) == ("", False)


@pytest.mark.parametrize("sizes", [[(1, 1)], [(64, 48)] * 3, [(64, 48), (48, 64), (90, 40)], [(24, 90)], [(300, 1)]])
def test_pictures_of_any_size(net: StagedNetwork, tmp_path: Path, sizes: list[tuple[int, int]]) -> None:
    (tmp_path / "pictures").mkdir()
    for index, (width, height) in enumerate(sizes):
        cv2.imwrite(str(tmp_path / "pictures" / f"{index}.png"), picture(width, height, index))
    folder = segment(tmp_path / "pictures", tmp_path / "out", net, frame_oracle).folder
    page = write(folder, tmp_path / "report.html")
    facts = facts_of(page)
    assert (facts["frames"], facts["timed"], facts["picture"]["embedded"]) == (len(sizes), False, True)
    assert (facts["picture"]["width"], facts["picture"]["height"]) == sizes[0]
    with av.open(io.BytesIO(embedded(page))) as container:
        assert sum(1 for _ in container.decode(video=0)) == len(sizes)


def test_maps_of_numbers(video: Path, tmp_path: Path) -> None:
    net = load(write_network(tmp_path, depth(), DEPTH), threads=1)
    folder = segment(video, tmp_path / "out", net, frame_oracle, limit=4).folder
    told: list[str] = []
    facts = facts_of(write([folder, folder], tmp_path / "report.html", warn=told.append))
    run, other = facts["runs"]
    assert (run["numeric"], run["shares"], len(run["palette"])) == (True, [], 255)
    assert np.isfinite(numbers(run["means"])).all()
    assert len(list(maps(run["masks"]))) == 4
    assert other["difference"] is None
    assert any("labels are not compared" in sentence for sentence in told)


def test_costs_and_conditions(oracle: Path, skipped: Path, tmp_path: Path) -> None:
    facts = facts_of(write([skipped, oracle], tmp_path / "report.html"))
    costs = {row["name"]: row["cells"] for row in facts["costs"]}
    assert costs["frames"] == ["12", "12"]
    assert costs["deep fired on"] == ["27.3 %", "100.0 %"]
    assert set(costs) >= {"relative time", "low, per frame", "fuse, per frame", "decode, per frame"}
    conditions = {row["name"]: row["cells"] for row in facts["conditions"]}
    assert conditions["schedule"] == ["skip_frame(3)", "frame_oracle"]
    assert "clockseg" in conditions["versions"][0]


def test_what_is_no_result(oracle: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="such as one of those in it: oracle"):
        write(oracle.parent, tmp_path / "report.html")
    for read in (read_summary, read_trace, read_labels):
        with pytest.raises(DataError, match="such as one of those in it: oracle"):
            read(oracle.parent)
    with pytest.raises(UsageError, match="1 to 6"):
        write([], tmp_path / "report.html")
    with pytest.raises(UsageError, match="embed"):
        write(oracle, tmp_path / "report.html", video="yes")  # type: ignore[arg-type]
    broken = Path(shutil.copytree(oracle, tmp_path / "broken"))
    (broken / "trace.jsonl").write_text('{"frame": 0}\n')
    with pytest.raises(DataError, match="Segment the video again"):
        write(broken, tmp_path / "report.html")
    assert list(tmp_path.glob("*.html")) == list(tmp_path.glob(".*.part")) == []


def test_labels_cut_short_are_shown_as_far_as_they_go(oracle: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(oracle, tmp_path / "broken"))
    data = (broken / "labels.mkv").read_bytes()
    (broken / "labels.mkv").write_bytes(data[: 2 * len(data) // 3])
    told: list[str] = []
    facts = facts_of(write(broken, tmp_path / "report.html", warn=told.append))
    assert "its maps end after" in told[0]
    assert 0 < facts["runs"][0]["masks"]["kept"] < FRAMES


def test_the_command(oracle: Path, skipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "page.html"
    assert main(["report", str(oracle), str(skipped), "--out", str(out)]) == 0
    assert "open it in a browser" in capsys.readouterr().out
    before = out.read_bytes()
    assert main(["report", str(oracle), "--out", str(out)]) == 2
    assert out.read_bytes() == before
    assert main(["report", str(oracle), "--out", str(out), "--overwrite", "--quiet"]) == 0
    assert len(facts_of(out)["runs"]) == 1
    assert main(["report", str(tmp_path / "nowhere")]) == 1
    assert main(["report", str(oracle), "--source", str(tmp_path / "no.mp4")]) == 2
    assert not (oracle / "report.html").exists()


def test_either_says_the_first_threshold() -> None:
    assert thresholds("either(adaptive(0.15), at_least_every(8))", 3)[2] == {"value": 0.15, "below": False}
    assert thresholds('confidence(0.9, sense="below")', 2)[1] == {"value": 0.9, "below": True}
    assert thresholds("nowhere.toml", 3) == [None] * 3
    assert thresholds('learned("nowhere.onnx", 0.2)', 2) == [None, None]


def test_modules_are_inlined_in_their_order() -> None:
    assert {path.stem for path in PAGE.glob("*.js")} == set(SCRIPTS)
    for place, name in enumerate(SCRIPTS):
        text = (PAGE / f"{name}.js").read_text()
        for names, module in re.findall(r"^import \{ (.*?) \} from '\./(\w+)\.js';$", text, re.MULTILINE):
            assert module in SCRIPTS[:place], f"{name} before {module}"
            exported = (PAGE / f"{module}.js").read_text()
            for one in names.split(", "):
                assert re.search(rf"^export (?:async )?(?:function|class|const) {one}\b", exported, re.MULTILINE), one


def test_text_can_be_read_in_both_themes() -> None:
    css = (PAGE / "page.css").read_text()
    themes = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root[^{]*\{([^}]*)\}", css)
    ]
    assert len(themes) == 3
    assert themes[1] == themes[2]
    for theme in themes:
        for ink in ("ink", "soft", "accent", "mark"):
            for ground in ("paper", "raised"):
                assert contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)
        assert contrast(theme["focus"], theme["paper"]) >= 3


def contrast(one: str, other: str) -> float:
    """As WCAG defines it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
