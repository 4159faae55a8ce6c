"""YouTube-Objects: numbers, masks, sizes, and PASCAL's classes mapped before anything is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clockseg.clocks.rates import frame_oracle, skip_frame
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.datasets import official, read_data
from clockseg.datasets.official import PASCAL, YOUTUBE_OBJECTS
from clockseg.errors import DataError
from clockseg.evaluation.evaluate import evaluate
from clockseg.evaluation.metrics import confusion
from dataset_trees import save, scene, youtube

PERSON, CAT, BIRD = (PASCAL.names.index(name) for name in ("person", "cat", "bird"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return youtube(tmp_path_factory.mktemp("youtube"))


def test_every_tenth_frame_is_a_labelled_one_and_counts_from_21_on(data: Path) -> None:
    cat, train = read_data(data, layout="youtube_objects", every=10)
    assert (cat.name, train.name) == ("cat/0003/001", "train/0003/001")
    assert [cat.images[index].name for index in cat.taken or ()] == [
        f"frame{number:04}.jpg" for number in (1, 11, 21, 31, 41)
    ]
    assert [(frame.index, frame.labels is not None) for frame in cat] == [
        (0, False),
        (10, False),
        (20, True),
        (30, True),
        (40, True),
    ]
    assert len(read_data(data)[0].images) == 42


def test_the_mask_is_the_class_of_the_shot(data: Path) -> None:
    for clip, name in zip(official.youtube_objects(data), ("cat", "train"), strict=True):
        assert clip.classes is not None
        frame = clip.frame(20)
        assert frame.labels is not None
        half = frame.labels.shape[1] // 2
        assert set(np.unique(frame.labels[:, : half - 8])) == {clip.classes.names.index(name)}
        assert set(np.unique(frame.labels[:, half + 8 :])) == {0}


def test_trap_13_a_mask_counts_where_it_is_brighter_than_15(tmp_path: Path) -> None:
    mask = np.kron(np.array([[0, 15], [16, 255]], np.uint8), np.ones((16, 16), np.uint8))
    found = official.read_youtube_mask(save(tmp_path / "00001.jpg", mask, quality=100))
    assert found.shape == (500, 500)
    assert (found[::250, ::250].tolist(), np.unique(found).tolist()) == ([[0, 0], [1, 1]], [0, 1])


@pytest.mark.parametrize(
    ("size", "scaled"),
    [((640, 334), (500, 260)), ((334, 640), (260, 500)), ((320, 240), (500, 375)), ((500, 333), (500, 333))],
)
def test_trap_13_the_longer_side_becomes_500_the_other_is_rounded_down(tmp_path: Path, size, scaled) -> None:
    picture = save(tmp_path / "frame0001.jpg", scene(*size))
    assert official.read_youtube_frame(picture).shape == (scaled[1], scaled[0], 3)
    assert official.read_youtube_mask(picture).shape == (scaled[1], scaled[0])


def test_trap_13_frames_are_scaled_smoothly_and_labels_are_not() -> None:
    edge = np.array([[0, 200]], np.uint8).repeat(2, axis=0)
    assert np.unique(official.scaled(edge, nearest=True)).tolist() == [0, 200]
    assert len(np.unique(official.scaled(edge, nearest=False))) > 50


def test_trap_13_twenty_one_classes_become_eleven_by_name() -> None:
    table = YOUTUBE_OBJECTS.lookup(PASCAL.names)
    names = [YOUTUBE_OBJECTS.names[label] for label in table[:21]]
    kept = {"aeroplane", "bird", "boat", "car", "cat", "cow", "dog", "horse", "motorbike", "train"}
    assert names == [name if name in kept else "background" for name in PASCAL.names]
    assert len(YOUTUBE_OBJECTS.names) == 11
    assert set(table[21:]) == {255}


def network(labeller) -> StagedNetwork:
    """One stage that gives PASCAL's ids."""
    return StagedNetwork("voc", (Stage("all", lambda image: labeller(image).astype(np.uint8)),))


def test_trap_13_predictions_are_mapped_before_they_are_counted(data: Path) -> None:
    """A person is background; a bird, PASCAL's 3, is no boat, the 3 of the eleven; and 15 is in no other row."""

    def labeller(image: np.ndarray) -> np.ndarray:
        found = np.full(image.shape[:2], PERSON)
        found[: len(found) // 2] = BIRD
        return found

    clip = replace(official.youtube_objects(data)[0], every=10)
    (found,) = evaluate(network(labeller), {"it": frame_oracle}, [clip], classes=PASCAL.names)
    assert found.classes == YOUTUBE_OBJECTS.names
    truths = [frame.labels for frame in clip if frame.labels is not None]
    predicted = np.zeros_like(truths[0])
    predicted[: len(predicted) // 2] = YOUTUBE_OBJECTS.names.index("bird")
    wanted = sum((confusion(truth, predicted, 11) for truth in truths[1:]), confusion(truths[0], predicted, 11))
    assert found.scores == found.oracle == wanted
    assert found.scores.counts[:, YOUTUBE_OBJECTS.names.index("boat")].sum() == 0
    assert found.facts()["iu"]["boat"] is None


def test_agreement_is_in_the_mapped_classes_too(data: Path) -> None:
    """A person that becomes a chair is background both times; one that becomes a cat isn't."""
    clip = replace(official.youtube_objects(data)[0], every=10, limit=2)
    for other, agreed in ((PASCAL.names.index("chair"), 1.0), (CAT, 0.5)):
        seen: list[int] = []

        def labeller(image: np.ndarray, other: int = other, seen: list[int] = seen) -> np.ndarray:
            first = image[0, 0, 0] == clip.frame(0).image[0, 0, 0]
            return np.full(image.shape[:2], PERSON if first else other)

        (found,) = evaluate(network(labeller), {"it": skip_frame(2)}, [clip], classes=PASCAL.names)
        assert found.agreement.pixel_acc == agreed


def test_a_network_that_lacks_a_class_is_refused(data: Path) -> None:
    names, net = [name for name in PASCAL.names if name != "train"], network(lambda image: image[..., 0])
    with pytest.raises(DataError, match=r"has 11 classes .* network 'voc' has 20 .* the network has no class train"):
        evaluate(net, {"it": frame_oracle}, official.youtube_objects(data), classes=names)


def test_a_shot_that_starts_later_starts_with_its_first_mask(tmp_path: Path) -> None:
    shot = youtube(tmp_path) / "cat" / "data" / "0003" / "shots" / "001"
    (shot / "labels" / "00001.jpg").unlink()
    (shot / "images" / "frame0001.jpg").unlink()
    clip = official.youtube_objects(tmp_path)[0]
    assert [image.name for image in clip.images[::10]] == [f"frame{number:04}.jpg" for number in (11, 21, 31, 41)]


def test_a_gap_would_shift_every_tenth_frame(tmp_path: Path) -> None:
    (youtube(tmp_path) / "cat" / "data" / "0003" / "shots" / "001" / "images" / "frame0014.jpg").unlink()
    with pytest.raises(DataError, match=r"frame0014\.jpg is missing: frame 14 of the shot"):
        official.youtube_objects(tmp_path)


def test_shots_without_masks_are_left_out(tmp_path: Path) -> None:
    youtube(tmp_path)
    save(tmp_path / "dog" / "data" / "0001" / "shots" / "001" / "images" / "frame0001.jpg", scene(4, 4))
    assert len(official.youtube_objects(tmp_path)) == 2


def test_wrong_numbers(tmp_path: Path) -> None:
    youtube(tmp_path, frames=1)
    save(tmp_path / "cat" / "data" / "0003" / "shots" / "001" / "labels" / "mask.jpg", scene(4, 4))
    with pytest.raises(DataError, match=r"mask\.jpg: its name does not end with a number"):
        official.youtube_objects(tmp_path)
