"""Screenings, filmstrips and ranked windows: the pictures of the paper's figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockseg.clocks import adaptive
from clockseg.clocks.rates import alternating, pipelined, skip_frame
from clockseg.clockwork.network import Group, Stage, StagedNetwork
from clockseg.datasets import Clip, ClipFrame, read_data
from clockseg.errors import DataError, MissingDependency, UsageError, VideoError
from clockseg.evaluation.evaluate import evaluate
from clockseg.paper import contact_sheet as sheet
from clockseg.paper import qualitative
from clockseg.paper.contact_sheet import (
    Pictures,
    contact_sheet,
    differing,
    frame_heads,
    masked,
    picture_rows,
    schedule_filmstrip,
    spread,
)
from clockseg.paper.qualitative import Sample, Window, draw_window, picks, rank_windows, sampled
from clockseg.paper.report import ORACLE
from clockseg.paper.screening import screen
from clockseg.report.style import NOW, figure
from clockseg.showing.stream import run
from clockseg.video.overlay import palette
from toy_networks import CLASSES, toy, write_clip
from video_making import picture, write_video

BLUE, WHITE = tuple(bytes.fromhex(NOW[1:])), (255, 255, 255)


def halves() -> StagedNetwork:
    """Class 1 where the picture is bright: the left half of what stage 1 sees, the right half of what stage 2 does."""
    bright = Stage("left", lambda image: (image[..., 0] > 127).astype(np.uint8))
    return StagedNetwork(
        "halves",
        (bright, Stage("right", lambda trunk: trunk)),
        (Group("join", ("left", "right"), lambda left, right: np.concatenate([left[:, :4], right[:, 4:]], 1)),),
    )


def frames_of(letters: str, *, fps: float | None = 10, size=(4, 8)) -> list[ClipFrame]:
    """A flat frame a letter, dark for A and bright for B."""
    return [
        ClipFrame(k, np.full((*size, 3), 255 * (letter == "B"), np.uint8), None, k / fps if fps else None)
        for k, letter in enumerate(letters)
    ]


def flat_clip(tmp_path, letters: str, name="flat") -> Clip:
    """The same as a clip of files."""
    folder = tmp_path / name / "images"
    folder.mkdir(parents=True)
    for frame in frames_of(letters):
        cv2.imwrite(str(folder / f"{frame.index:03}.png"), frame.image)
    return read_data(tmp_path / name)[0]


def screened(letters: str = "AABBAAAB", schedules=None, **how):
    """The halves on flat frames."""
    schedules = {"pipelined(2)": pipelined(2), "skip_frame(2)": skip_frame(2)} if schedules is None else schedules
    frames = frames_of(letters, **how)
    return screen(halves(), Clip("flat", Path("flat")), schedules, frames=frames)


class TestPictures:
    def test_a_white_line_between_classes_but_none_around_what_has_no_class(self) -> None:
        labels = np.array([[0, 0, 1, 1], [0, 0, 1, 255]], np.uint8)
        image = masked(np.zeros((2, 4, 3), np.uint8), labels, [(100, 0, 0), (0, 100, 0)])
        white = (image == WHITE).all(axis=2)
        assert white.tolist() == [[False, True, False, False], [False, True, False, False]]
        assert image[1, 3].tolist() == [0, 0, 0]
        assert image[0, 0].tolist() == [55, 0, 0]

    def test_differences_only_in_colour(self) -> None:
        image = picture(8, 6)
        labels = np.zeros((6, 8), np.uint8)
        wrong = labels.copy()
        wrong[2, 3] = 1
        found = differing(image, wrong, labels, [(200, 0, 0), (0, 200, 0)])
        assert found[2, 3].tolist() == [0, 200, 0]
        others = np.delete(found.reshape(-1, 3), 2 * 8 + 3, axis=0)
        assert (others == others[:, :1]).all()


class TestScreening:
    def test_it_is_what_a_session_gives(self, tmp_path) -> None:
        write_clip(tmp_path / "clip", 6, labelled=3)
        clip, net = read_data(tmp_path)[0], toy()
        screening = screen(net, clip, {"adaptive": adaptive(0.05), "alternating": alternating})
        for name, schedule in (("adaptive", adaptive(0.05)), ("alternating", alternating)):
            outputs, records = zip(*run(net, [frame.image for frame in clip], schedule), strict=True)
            shown = screening.of(name)
            assert all(np.array_equal(shown.labels(at), output) for at, output in enumerate(outputs))
            assert shown.fired == tuple(record.fired[-1] for record in records)
        assert screening.of("alternating").fire_rate == 2 / 5
        assert screening.labelled == (0, 1, 2)
        assert [frame.labels is None for frame in screening.frames()] == [False] * 3 + [True] * 3

    def test_agreement_is_that_of_evaluate(self, tmp_path) -> None:
        write_clip(tmp_path / "clip", 7)
        clips, net = read_data(tmp_path), toy()
        expected = evaluate(net, {"skip": skip_frame(3)}, clips, classes=CLASSES)[0].agreement
        screening = screen(net, clips[0], {"skip": skip_frame(3)})
        assert screening.agreement("skip") == expected
        parts = screening.agreement("skip", range(3)) + screening.agreement("skip", range(3, 7))
        assert parts == expected
        assert expected.pixel_acc == pytest.approx(np.mean([screening.same("skip", at) for at in range(7)]))

    def test_classes_without_colours_get_clockseg_s(self, tmp_path) -> None:
        write_clip(tmp_path / "clip", 2)
        screening = screen(toy(), read_data(tmp_path)[0], {})
        assert screening.colours == palette(3)
        assert screening.legend() == list(zip(CLASSES, palette(3), strict=True))

    def test_without_any_classes_there_is_no_legend(self) -> None:
        screening = screened()
        assert screening.legend() == []
        assert screening.colours[:2] == palette(2)

    def test_only_classes_that_are_seen_are_in_the_legend(self, tmp_path) -> None:
        clip = flat_clip(tmp_path, "AAB")
        (tmp_path / "classes.json").write_text(json.dumps({"classes": ["dark", "bright", "none"], "fps": 5}))
        screening = screen(halves(), read_data(tmp_path / "flat")[0], {})
        assert clip.classes is None
        assert [name for name, _ in screening.legend()] == ["dark", "bright"]
        assert [name for name, _ in screening.legend([0, 1])] == ["dark"]
        assert screening.times == (0.0, 0.2, 0.4)

    def test_human_labels_of_other_classes_are_not_shown(self, tmp_path) -> None:
        write_clip(tmp_path / "clip", 2, labelled=2)
        net = toy()
        sidecar = SimpleNamespace(classes=("sky", "road", "car"), palette=((1, 2, 3), (4, 5, 6), (7, 8, 9)))
        other = StagedNetwork("other", net.stages, net.groups, net.finish, net.prepare, sidecar=sidecar)
        screening = screen(other, read_data(tmp_path)[0], {})
        assert screening.labelled == ()
        assert all(frame.labels is None for frame in screening.frames())
        assert screening.colours == sidecar.palette

    def test_frames_of_two_sizes(self) -> None:
        frames = [*frames_of("AB"), *frames_of("BA", size=(6, 8))]
        screening = screen(halves(), Clip("two", Path("flat")), {"skip": skip_frame(2)}, frames=frames)
        assert [screening.of("skip").labels(at).shape for at in range(4)] == [(4, 8)] * 2 + [(6, 8)] * 2

    def test_errors(self, tmp_path) -> None:
        clip = Clip("flat", Path("flat"))
        with pytest.raises(DataError, match="no frames to show"):
            screen(halves(), clip, {}, frames=[])
        with pytest.raises(VideoError, match="no such file"):
            screen(halves(), clip, {})
        scores = StagedNetwork("scores", (Stage("a", lambda image: image[..., 0].astype(np.float32)),))
        with pytest.raises(UsageError, match="gives float32"):
            screen(scores, clip, {}, frames=frames_of("A"))
        small = StagedNetwork("small", (Stage("a", lambda image: image[:2, :2, 0]),))
        with pytest.raises(UsageError, match=r"gives uint8 \[2, 2\] for a frame of \[4, 8, 3\]"):
            screen(small, clip, {}, frames=frames_of("A"))


@pytest.fixture
def page(monkeypatch):
    """The contact sheets that are asked for, instead of written."""
    kept = []

    def keep(path, rows, **how):
        kept.append(
            SimpleNamespace(name=path.name, rows={row.name: row for row in rows}, names=[r.name for r in rows], **how)
        )

    monkeypatch.setattr(sheet, "contact_sheet", keep)
    monkeypatch.setattr(qualitative, "contact_sheet", keep)
    return kept


class TestFilmstrip:
    def test_truth_over_output_over_rasters(self, tmp_path, page) -> None:
        write_clip(tmp_path / "clip", 12, labelled=12)
        screening = screen(toy(), read_data(tmp_path)[0], {"alternating": alternating, "skip": skip_frame(3)})
        schedule_filmstrip(screening, Path("nowhere"), ["alternating", "skip"], pictures=3)
        [drawn] = page
        assert (drawn.heads, drawn.marks) == (["frame 2", "frame 6", "frame 10"], [2, 6, 10])
        assert drawn.names == ["truth", "alternating"]
        agreement = [f"{100 * screening.same('alternating', at):.1f} %" for at in (2, 6, 10)]
        assert (drawn.rows["alternating"].notes, drawn.rows["alternating"].about) == (agreement, "agreement")
        firings = {name: [t for t, fires in enumerate(fired) if fires] for name, fired in drawn.rasters}
        assert firings == {"alternating": list(range(0, 12, 2)), "skip": list(range(0, 12, 3))}
        assert [name for name, _ in drawn.entries] == list(CLASSES)

    def test_pictures_are_marked_in_the_raster(self, page) -> None:
        schedule_filmstrip(screened("AB" * 20), Path("nowhere"), ["pipelined(2)"], pictures=5)
        assert page[0].marks == pytest.approx([40 * place for place in (0.1, 0.3, 0.5, 0.7, 0.9)], abs=0.501)

    def test_without_labels_the_first_row_is_the_oracle_s(self, page) -> None:
        schedule_filmstrip(screened(), Path("nowhere"), ["pipelined(2)"], pictures=2)
        assert page[0].names == [ORACLE, "pipelined(2)"]

    def test_rows_hold_the_pictures(self) -> None:
        screening = screened("ABBA")
        rows = {row.name: row for row in picture_rows(screening, [1, 3], [ORACLE, "skip_frame(2)"], differences=True)}
        assert list(rows) == ["input", ORACLE, "skip_frame(2)", "unlike the oracle"]
        frames = list(screening.frames())
        assert np.array_equal(rows["input"].pictures[1], frames[3].image)
        assert np.array_equal(rows[ORACLE].pictures[0], masked(frames[1].image, np.ones((4, 8), np.uint8), palette(2)))
        assert rows["unlike the oracle"].notes == ["0.0 %", "0.0 %"]
        assert (rows["unlike the oracle"].pictures[0] == palette(2)[0]).all()

    def test_heads(self) -> None:
        assert frame_heads(screened("ABB"), [0, 2]) == ["frame 0, 0.00 s", "frame 2, 0.20 s"]
        assert frame_heads(screened("ABB", fps=None), [2]) == ["frame 2"]

    @given(st.integers(1, 200), st.integers(1, 12))
    def test_spread(self, count, pictures) -> None:
        found = spread(count, pictures)
        assert found == sorted(set(found))
        assert 0 <= found[0] <= found[-1] < count
        assert len(found) == min(count, pictures)

    def test_the_same_sheet_gives_the_same_file(self, tmp_path) -> None:
        colour = np.full((16, 24, 3), (200, 30, 60), np.uint8)
        rows = [Pictures("input", [colour, None]), Pictures("output", [colour] * 2, ["1 %", "2 %"], "agreement")]
        for name in ("a.png", "b.png"):
            contact_sheet(
                tmp_path / name,
                rows,
                heads=["one", "two"],
                title="title",
                rasters=[("clock", [True, False, True])],
                marks=[0, 2],
                entries=[("road", (128, 64, 128))],
            )
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png"]
        assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
        image = cv2.imread(str(tmp_path / "a.png"))[..., ::-1]
        shown = (image == (200, 30, 60)).all(axis=2)
        rows_of_pixels = shown[:, : shown.shape[1] * 3 // 5].any(axis=1)
        assert np.count_nonzero(np.diff(rows_of_pixels.astype(int)) == 1) == 2, "two pictures, one above the other"
        assert (image == BLUE).all(axis=2).any()


class TestPlotting:
    def test_a_figure_left_by_an_error_is_not_written(self, tmp_path) -> None:
        with pytest.raises(ZeroDivisionError), figure(tmp_path / "broken") as fig:
            fig.subplots().plot([1 / 0])
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_can_not_be_written(self, tmp_path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(DataError, match=r"a\.svg can't be written"), figure(tmp_path / "file" / "a", size=(1, 1)):
            pass

    def test_the_style_ends_with_the_block(self, tmp_path) -> None:
        import matplotlib

        before = dict(matplotlib.rcParams)
        with figure(tmp_path / "a", size=(1, 1)):
            assert matplotlib.rcParams["svg.hashsalt"] == "clockseg"
        assert dict(matplotlib.rcParams) == before

    def test_without_matplotlib(self, tmp_path, monkeypatch) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingDependency, match=r"pip install '\.\[plots\]'"), figure(tmp_path / "a"):
            pass


class TestWindows:
    SAMPLE = Sample(count=9, length=4, lead=2)
    # Windows at 2, 6 and 10: the pipeline gains where skip-frame misses whole frames, loses where it misses none.
    LETTERS = "AAABBAAAAABBAA"

    def test_ranks_are_exact(self, tmp_path) -> None:
        clip = flat_clip(tmp_path, self.LETTERS)
        ranking = rank_windows(halves(), [clip], self.SAMPLE)
        assert ranking.schedule == "pipelined(2)"
        assert [(r.window.start, r.frames, r.pipeline, r.skip_frame) for r in ranking.ranks] == [
            (2, (2, 3, 4, 5), pytest.approx(0.6), pytest.approx(1 / 3)),
            (6, (6, 7, 8, 9), 1.0, 1.0),
            (10, (10, 11, 12, 13), pytest.approx(0.6), 1.0),
        ]
        assert [r.gained for r in ranking.ranks] == [r.pipeline - r.skip_frame for r in ranking.ranks]

    def test_equal_gains_keep_the_order_of_clips(self, tmp_path) -> None:
        clips = [flat_clip(tmp_path, "A" * 10, name) for name in ("first", "second")]
        ranks = rank_windows(halves(), clips, self.SAMPLE).ranks
        assert [(rank.clip, rank.window.start) for rank in ranks] == [
            ("first", 2),
            ("first", 6),
            ("second", 2),
            ("second", 6),
        ]

    @given(st.integers(0, 2**32), st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(1, 20))
    def test_sampling(self, seed, lengths, count) -> None:
        clips = [Clip(str(n), Path("flat"), (Path("flat"),) * n, (None,) * n) for n in lengths]
        sample = Sample(count=count, length=5, lead=3, seed=seed)
        possible = sum(max(0, (n - 3) // 5) for n in lengths)
        if not possible:
            with pytest.raises(DataError, match="a window and its lead take 8"):
                sampled(clips, sample)
            return
        found = sampled(clips, sample)
        assert found == sampled(clips, sample)
        assert len(set(found)) == len(found) == min(count, possible)
        assert found == sorted(found)
        for window in found:
            assert 3 <= window.start <= lengths[window.clip] - 5
            assert (window.start - 3) % 5 == 0

    def test_another_seed_draws_others(self) -> None:
        clips = [Clip("long", Path("flat"), (Path("flat"),) * 500, (None,) * 500)]
        drawn = {tuple(sampled(clips, Sample(count=5, seed=seed))) for seed in range(5)}
        assert len(drawn) == 5

    def test_videos_are_counted(self, tmp_path) -> None:
        source = write_video(tmp_path / "in.mp4", [picture(32, 32, seed) for seed in range(11)])
        assert sampled(read_data(source), self.SAMPLE) == [Window(0, 2), Window(0, 6)]

    @given(st.integers(1, 12))
    def test_no_window_is_drawn_twice(self, count) -> None:
        found = picks(count, seed=1)
        assert len(set(found.values())) == len(found) == min(count, 3)
        assert found["best-1"] == 0
        assert max(found.values()) == count - 1

    def test_what_is_told_and_drawn(self, tmp_path, page) -> None:
        clip = flat_clip(tmp_path, self.LETTERS)
        ranking = rank_windows(halves(), [clip], self.SAMPLE)
        for name, rank in picks(3, seed=0).items():
            draw_window(halves(), [clip], ranking, rank, tmp_path / name, name=name)
        assert [drawn.name for drawn in page] == ["best-1", "worst-1", "random"]
        facts = ranking.facts()
        assert [window["gained"] for window in facts["windows"]] == [rank.gained for rank in ranking.ranks]
        assert facts["sample"] == {"count": 9, "length": 4, "lead": 2, "seed": 0}
        assert facts["windows"][0]["frames"] == (2, 3, 4, 5)

    def test_the_rows_of_a_window(self, tmp_path, page) -> None:
        write_clip(tmp_path / "clip", 7, labelled=7)
        clips = read_data(tmp_path)
        ranking = rank_windows(toy(), clips, Sample(length=3, lead=4))
        draw_window(toy(), clips, ranking, 0, tmp_path / "out", name="best-1")
        [drawn] = page
        assert drawn.title.startswith("best-1: clip, rank 1 of 1\n")
        assert drawn.heads == ["frame 4", "frame 5", "frame 6"]
        both = ["pipelined(3)", "unlike the oracle", "skip_frame(2)", "unlike the oracle"]
        assert drawn.names == ["input", "truth", ORACLE, *both]

    def test_errors(self) -> None:
        with pytest.raises(DataError, match="0 clips of at most 0 frames"):
            rank_windows(halves(), [])
