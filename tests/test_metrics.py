"""Scores of label maps: exact values, the reference's traps, other libraries as a cross-check, properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from skimage.morphology import dilation, disk, erosion
from sklearn.metrics import accuracy_score, confusion_matrix, jaccard_score, recall_score

from clockseg.errors import DataError, UsageError
from clockseg.evaluation.metrics import Confusion, band_kind, boundary_band, confusion

LABELS = arrays(
    np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.sampled_from([0, 1, 2, 3, 255])
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def pair(rng: np.random.Generator, classes: int = 5, shape: tuple[int, int] = (37, 53)):
    truth, predicted = rng.integers(0, classes, (2, *shape)).astype(np.uint8)
    truth[rng.random(shape) < 0.1] = 255
    return truth, predicted


# Exact values


def test_expected_8_scores():
    known = Confusion(np.array([[3, 1], [2, 4]]))
    assert known.pixel_acc == 0.7
    assert known.iu.tolist() == [0.5, 4 / 7]
    assert known.mean_iu == pytest.approx(0.5357142857, abs=1e-10)
    assert known.fw_iu == pytest.approx(0.5428571429, abs=1e-10)
    assert known.mean_acc == pytest.approx((3 / 4 + 4 / 6) / 2)


def test_rows_are_the_truth():
    assert confusion(np.array([0, 0, 1]), np.array([1, 1, 0]), 2).counts.tolist() == [[0, 2], [1, 0]]


def test_expected_8_disk_of_5_has_81_cells_and_is_the_band_around_one_pixel():
    one = np.zeros((21, 21), np.uint8)
    one[10, 10] = 1
    assert int(disk(5).sum()) == 81
    assert int(boundary_band(one).sum()) == 81
    assert np.array_equal(boundary_band(one)[5:16, 5:16], disk(5).astype(bool))


@pytest.mark.parametrize("kind", ["foreground", "classes"])
def test_expected_8_half_plane_gives_a_band_of_ten_pixels_and_none_at_the_frame(kind):
    half = np.zeros((40, 40), np.uint8)
    half[:, 20:] = 1
    band = boundary_band(half, kind=kind)
    assert int(band.sum()) == 400
    assert band[:, 15:25].all()


# Traps of the reference


def test_trap_11_ignore_inside_the_band_is_dropped():
    truth = np.zeros((40, 40), np.uint8)
    truth[:, 20:] = 1
    truth[:, 18:20] = 255
    band = boundary_band(truth)
    assert band[:, 18:20].all()  # 255 counts as background in the mask, so it lies in the band
    scored = confusion(truth, np.zeros_like(truth), 2, where=band)
    assert scored.pixels == int(band.sum()) - 80


@pytest.mark.parametrize("kind", ["foreground", "classes"])
def test_trap_11_all_ignored_and_empty_bands_add_zeros(kind):
    for value in (255, 0):
        truth = np.full((20, 20), value, np.uint8)
        band = boundary_band(truth, kind=kind)
        scored = confusion(truth, np.zeros_like(truth), 2, where=band)
        assert not band.any()
        assert scored == Confusion.none(2)
    assert math.isnan(Confusion.none(2).mean_iu)


def test_trap_12_absent_class_is_left_out_and_a_class_only_predicted_counts_as_0():
    counts = np.zeros((3, 3), int)
    counts[0, 0], counts[0, 1] = 3, 1
    scored = Confusion(counts)
    assert scored.iu[0] == 0.75
    assert scored.iu[1] == 0
    assert math.isnan(scored.iu[2])
    assert scored.mean_iu == 0.375
    assert scored.fw_iu == 0.75


@pytest.mark.parametrize("classes", [11, 19, 21, 40])
def test_trap_12_the_mean_is_over_the_classes_that_are_there(classes, rng):
    truth, predicted = pair(rng, classes)
    assert confusion(truth, predicted, classes).mean_iu == confusion(truth, predicted, 255).mean_iu


def test_trap_12_empty_is_nan_everywhere_without_a_warning():
    empty = Confusion.none(4)
    scores = (empty.pixel_acc, empty.mean_acc, empty.mean_iu, empty.fw_iu, empty.mean_iu_of(0.1))
    assert all(map(math.isnan, scores))
    assert np.isnan(empty.iu).all()


def test_trap_12_huge_counts_do_not_saturate():
    many = Confusion(np.array([[2**24, 0], [0, 2**40]]))
    one = confusion(np.array([0]), np.array([0]), 2)
    assert (many + one).counts.tolist() == [[2**24 + 1, 0], [0, 2**40]]


def test_trap_16_merged_counts_are_not_the_mean_of_two_scores():
    first, second = Confusion(np.array([[1, 0], [1, 0]])), Confusion(np.array([[50, 0], [0, 50]]))
    assert (first + second).mean_iu != pytest.approx((first.mean_iu + second.mean_iu) / 2)


# Errors


def test_predictions_outside_the_classes_are_refused():
    with pytest.raises(DataError, match=r"label is 7, there are 3 classes \(0 to 2\)"):
        confusion(np.zeros(4, np.uint8), np.array([0, 1, 2, 7], np.uint8), 3)
    with pytest.raises(DataError, match="label is -1"):
        confusion(np.zeros(2, int), np.array([0, -1]), 3)


def test_true_labels_outside_the_classes_are_dropped_whatever_the_type():
    for kind in (np.int16, np.int64):
        assert confusion(np.array([-1, 0, 3, 255], kind), np.array([0, 0, 0, 0], kind), 3).pixels == 1
    assert confusion(np.array([0, 3, 255], np.uint8), np.zeros(3, np.uint8), 3).pixels == 1


@pytest.mark.parametrize(
    ("truth", "predicted"),
    [(np.zeros(3, int), np.zeros(4, int)), (np.zeros(3), np.zeros(3, int))],
    ids=["shape", "float"],
)
def test_what_are_no_label_maps_of_one_shape_is_refused(truth, predicted):
    with pytest.raises(DataError, match=r"equal shapes|whole numbers"):
        confusion(truth, predicted, 2)


def test_confusions_of_other_classes_do_not_add():
    with pytest.raises(UsageError, match="2 and 3 classes"):
        Confusion.none(2) + Confusion.none(3)
    with pytest.raises(UsageError, match=r"\[classes, classes\]"):
        Confusion(np.zeros((2, 3)))


def test_a_confusion_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        Confusion.none(2).counts[0, 0] = 1


def test_bands_of_what_is_no_label_map_are_refused():
    with pytest.raises(UsageError, match="one label map"):
        boundary_band(np.zeros((1, 4, 4), np.uint8))
    with pytest.raises(UsageError, match="'foreground' and 'classes'"):
        boundary_band(np.zeros((4, 4), np.uint8), kind="edges")  # type: ignore[arg-type]


# Cross-checks


@settings(deadline=None)  # scikit-learn checks its inputs at length
@given(LABELS.filter(lambda labels: (labels != 255).any()), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_every_score_equals_scikit_learns(truth, highest, seed):
    predicted = np.random.default_rng(seed).integers(0, highest + 1, truth.shape).astype(np.uint8)
    scored, there = confusion(truth, predicted, 4), truth != 255
    known, given = truth[there], predicted[there]
    in_truth, in_either = np.unique(known), np.union1d(known, given)
    assert np.array_equal(scored.counts, confusion_matrix(known, given, labels=range(4)))
    assert scored.pixel_acc == pytest.approx(accuracy_score(known, given))
    assert scored.class_acc[in_truth] == pytest.approx(recall_score(known, given, labels=in_truth, average=None))
    assert scored.mean_acc == pytest.approx(recall_score(known, given, labels=in_truth, average="macro"))
    assert scored.iu[in_either] == pytest.approx(jaccard_score(known, given, labels=in_either, average=None))
    assert scored.mean_iu == pytest.approx(jaccard_score(known, given, labels=in_either, average="macro"))
    assert scored.fw_iu == pytest.approx(jaccard_score(known, given, labels=in_truth, average="weighted"))
    assert np.isnan(np.delete(scored.iu, in_either)).all()


def test_boundary_scores_equal_scikit_learns_in_scikit_images_band(rng):
    truth = np.kron(rng.choice([0, 1, 2, 255], (6, 8), p=[0.5, 0.2, 0.2, 0.1]), np.ones((9, 9))).astype(np.uint8)
    predicted = rng.integers(0, 3, truth.shape).astype(np.uint8)
    scored = confusion(truth, predicted, 3, where=boundary_band(truth))
    mask, around = (truth > 0) & (truth != 255), disk(5)
    band = (dilation(mask, around, mode="reflect") ^ erosion(mask, around, mode="reflect")) & (truth != 255)
    assert 0 < scored.pixels == band.sum()
    assert scored.mean_iu == pytest.approx(jaccard_score(truth[band], predicted[band], average="macro"))
    assert scored.fw_iu == pytest.approx(jaccard_score(truth[band], predicted[band], average="weighted"))


@given(LABELS, st.integers(1, 6))
def test_foreground_band_equals_scikit_image_with_reflected_borders(truth, width):
    mask = (truth > 0) & (truth != 255)
    around = disk(width)
    expected = dilation(mask, around, mode="reflect") ^ erosion(mask, around, mode="reflect")
    assert np.array_equal(boundary_band(truth, width), expected)


@given(LABELS, st.integers(1, 4))
def test_classes_band_is_where_a_disk_holds_two_classes(truth, width):
    height, across = truth.shape
    ys, xs = np.mgrid[:height, :across]
    band = boundary_band(truth, width, kind="classes")
    for y, x in np.ndindex(height, across):
        near = truth[(ys - y) ** 2 + (xs - x) ** 2 <= width**2]
        assert band[y, x] == (len(set(near.tolist()) - {255}) > 1)


@given(LABELS.map(lambda labels: (labels > 1).astype(np.uint8)), st.integers(1, 5))
def test_both_kinds_of_band_agree_on_two_classes_without_ignore(truth, width):
    assert np.array_equal(boundary_band(truth, width), boundary_band(truth, width, kind="classes"))


def test_band_kind_is_foreground_only_where_class_0_is_background():
    assert band_kind(("background", "person")) == "foreground"
    assert band_kind(("sky", "background")) == "classes"


# Properties


@given(st.data())
def test_a_sum_of_parts_is_the_whole(data):
    truth = data.draw(LABELS)
    predicted = data.draw(arrays(np.uint8, truth.shape, elements=st.integers(0, 3)))
    at = data.draw(st.integers(0, len(truth)))
    parts = confusion(truth[:at], predicted[:at], 4) + confusion(truth[at:], predicted[at:], 4)
    assert parts == confusion(truth, predicted, 4)
    assert parts == confusion(truth.astype(np.int32), predicted.astype(np.int64), 4)


@given(LABELS)
def test_agreement_with_oneself_is_1(truth):
    predicted = np.where(truth == 255, 0, truth)
    scored = confusion(truth, predicted, 4)
    for score in (scored.pixel_acc, scored.mean_iu, scored.fw_iu, scored.mean_iu_of()):
        assert math.isnan(score) if scored.pixels == 0 else score == pytest.approx(1)


def test_agreement_leaves_out_classes_below_a_thousandth():
    counts = np.diag([9990, 0, 0])
    counts[1, 0], counts[2, 0] = 9, 1
    assert Confusion(counts).mean_iu_of() == pytest.approx(0.999)
    counts[1, 0] = 12
    assert Confusion(counts).mean_iu_of() == pytest.approx((9990 / 10003) / 2)


def test_where_counts_those_pixels_only(rng):
    truth, predicted = pair(rng)
    where = rng.random(truth.shape) < 0.5
    assert confusion(truth, predicted, 5, where=where) == confusion(truth[where], predicted[where], 5)
    assert confusion(truth, predicted, 5) == sum(
        (confusion(truth, predicted, 5, where=part) for part in (where, ~where)), start=Confusion.none(5)
    )
