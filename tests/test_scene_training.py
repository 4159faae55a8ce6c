"""Teaching, training and resuming `scene`, on tiny synthetic pictures with answers in place of the teacher's; needs torch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the authoring side needs torch")
pytest.importorskip("safetensors", reason="checkpoints are safetensors")
pytest.importorskip("openvino", reason="OpenVINO reads the teacher")

from clockseg.errors import DataError, UsageError  # noqa: E402
from clockseg.networks.load import load  # noqa: E402
from recipes.scene import pictures  # noqa: E402
from recipes.scene.exported import load_exported  # noqa: E402
from recipes.scene.loss import distillation_loss, soft_overlap_loss  # noqa: E402
from recipes.scene.recipe import MAIN, Phase  # noqa: E402
from recipes.scene.teacher import GRID, label_file, soft_file  # noqa: E402
from recipes.scene.training import train  # noqa: E402
from recipes.scene.views import SoftViews, moved, rectangle, soft_matrix, some_classes  # noqa: E402
from recipes.street.augment import Augmentation  # noqa: E402
from recipes.street.checkpoint import load_network  # noqa: E402
from recipes.street.export import export  # noqa: E402
from recipes.street.network import Scores, Shape, build, normalise  # noqa: E402
from recipes.street.training import Choices  # noqa: E402

SKY, ROAD = 3, 7
WIDTH, HEIGHT = 96, 72
SCENE = MAIN.recipe
RECIPE = replace(
    SCENE, shape=Shape(features=(16, 16, 16), context=16, classes=32), working=(96, 72), view=(64, 64), batch=2
)
CHOICES = Choices(workers=0, imagenet=False, iterations=2)
CALM = Augmentation(scale=(1.0, 1.0), aspect=1.0, degrees=0.0, colour=0, shade=0, blur=0, noise=0, jpeg=0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pictures of blue over grey, one of them for validation, and in `cache` the answers sky over road."""
    images = tmp_path / "data" / "scenes" / "images"
    images.mkdir(parents=True)
    picture = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    picture[: HEIGHT // 2] = 250, 120, 0
    soft = np.zeros((GRID, GRID, 32), np.float16)
    soft[: GRID // 2, :, SKY] = soft[GRID // 2 :, :, ROAD] = 1
    labels = np.repeat(np.repeat(soft.argmax(2).astype(np.uint8), 4, 0), 4, 1)
    cache = tmp_path / "cache"
    for folder in ("soft", "labels"):
        (cache / folder).mkdir(parents=True)
    for name in ("bsds_0", "bsds_1", "azure_0", "held_0"):
        cv2.imwrite(str(images / f"{name}.jpg"), picture)
    (images.parent / "val.txt").write_text("held_0.jpg\n")
    for found in pictures.training_pictures(tmp_path / "data"):
        np.save(soft_file(cache, found), soft)
    for found in pictures.validation_pictures(tmp_path / "data"):
        cv2.imwrite(str(label_file(cache, found)), labels)
    return tmp_path / "data"


def views(data: Path, mix: float) -> SoftViews:
    """Views of the whole picture at its own size."""
    found = pictures.training_pictures(data)
    return SoftViews(found, data.parent / "cache", (WIDTH, HEIGHT), (WIDTH, HEIGHT), CALM, mix)


def test_validation_pictures_are_not_trained_on(data: Path) -> None:
    assert [one.name for one in pictures.training_pictures(data)] == ["azure_0", "bsds_0", "bsds_1"]
    assert [one.name for one in pictures.training_pictures(data, permissive=True)] == ["azure_0"]
    assert [one.name for one in pictures.validation_pictures(data)] == ["held_0"]


def test_frames_of_clips_are_trained_on(data: Path) -> None:
    clip = data / "davis" / "cows" / "images"
    clip.mkdir(parents=True)
    for number in range(9):
        cv2.imwrite(str(clip / f"{number:05d}.jpg"), np.zeros((600, 1200, 3), np.uint8))
    found = pictures.training_pictures(data)[-2:]
    assert [one.name for one in found] == ["clip_cows_00000", "clip_cows_00008"]
    assert pictures.read_picture(found[0]).shape == (256, 512, 3)


def test_probabilities_move_with_the_picture(data: Path) -> None:
    image, soft = views(data, 0.0).draw(0, np.empty(0), np.random.default_rng(0))
    assert (image.shape, soft.shape, soft.dtype) == ((HEIGHT, WIDTH, 3), (HEIGHT // 4, WIDTH // 4, 32), np.float16)
    blue = image[2::4, 2::4, 2] > 200
    assert np.array_equal(soft.argmax(2) == SKY, blue)
    assert np.array_equal(soft.argmax(2) == ROAD, ~blue)


def test_nothing_is_known_outside_of_the_picture() -> None:
    soft = np.ones((GRID, GRID, 8), np.float32) / 8
    shift = np.array([[1.0, 0, 32], [0, 1, 0]])
    found = moved(soft, soft_matrix(shift, (128, 128)), (32, 32))
    assert (found[:, :7] == 0).all()
    assert found[4:-4, 12:].sum(2) == pytest.approx(1, abs=1e-3)


def test_masks_of_mixed_views(data: Path) -> None:
    rng = np.random.default_rng(0)
    shares = [rectangle((40, 40), rng).mean() for _ in range(50)]
    assert 0.1 < min(shares) < max(shares) < 0.6
    soft = np.zeros((4, 4, 8), np.float32)
    soft[:2, :, 1] = 1
    soft[2:, :2, 5] = 1
    assert some_classes(soft, rng).sum() in (8, 4)


def test_the_loss_is_least_at_the_teachers_answers() -> None:
    soft = torch.softmax(torch.randn(2, 32, 8, 8, generator=torch.Generator().manual_seed(0)), 1)
    same = Scores(soft.log(), (soft.log(),) * 3)
    other = Scores(soft.log().roll(1, 1), (soft.log(),) * 3)
    weights = torch.ones(32)
    assert distillation_loss(same, soft, weights, SCENE) < distillation_loss(other, soft, weights, SCENE)
    assert float(soft_overlap_loss(soft, soft)) == pytest.approx(0, abs=1e-6)
    nothing = torch.zeros_like(soft)
    assert float(distillation_loss(other, nothing, weights, SCENE)) == pytest.approx(0)


def test_training_resumes_with_more_steps_and_is_exported(data: Path, tmp_path: Path) -> None:
    cache, out = tmp_path / "cache", tmp_path / "out"
    options = {"phase": Phase(RECIPE, 0.5), "permissive": False, "say": lambda entry: None}
    train(data, cache, out, choices=CHOICES, **options)
    with pytest.raises(UsageError, match="holds a training already"):
        train(data, cache, out, choices=CHOICES, **options)
    found = train(data, cache, out, choices=replace(CHOICES, resume=True, iterations=4), **options)
    entries = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in entries if entry["event"] == "step"][-1] == 4
    assert 0 <= entries[-1]["pixel_acc"] <= 1
    net = load(str(export(found, tmp_path / "scene.onnx")), engine=None)
    assert net.sidecar.classes[:3] == ("other", "wall", "building")
    assert len(net.sidecar.palette) == len(set(net.sidecar.palette)) == 32
    assert [stage.name for stage in net.stages] == ["stride8", "stride16", "context"]


def test_training_goes_on_from_an_exported_network(data: Path, tmp_path: Path) -> None:
    cache, options = tmp_path / "cache", {"phase": Phase(RECIPE, 0.5), "permissive": False, "say": lambda entry: None}
    checkpoint = train(data, cache, tmp_path / "first", choices=CHOICES, **options)
    exported = export(checkpoint, tmp_path / "scene.onnx")
    images = normalise(torch.randint(0, 256, (4, 64, 64, 3), dtype=torch.uint8))
    trained, again = load_network(checkpoint)[0], build(RECIPE.shape)
    load_exported(again, exported, images)
    with torch.no_grad():
        torch.testing.assert_close(again(images).fused, trained(images).fused, rtol=1e-3, atol=1e-3)
    with pytest.raises(DataError, match="a network of other sizes"):
        load_exported(build(replace(RECIPE.shape, context=32)), exported, images)
    train(data, cache, tmp_path / "second", choices=CHOICES, weights=exported, **options)
    entries = [json.loads(line) for line in (tmp_path / "second" / "log.jsonl").read_text().splitlines()]
    assert entries[0]["weights"] == "scene.onnx"
    assert entries[0]["recipe"]["rate"] == RECIPE.rate / 2


def test_a_cache_without_the_teachers_answers_is_told(data: Path, tmp_path: Path) -> None:
    soft_file(tmp_path / "cache", pictures.training_pictures(data)[0]).unlink()
    with pytest.raises(DataError, match="lacks the teacher's answers for 1 pictures"):
        train(data, tmp_path / "cache", tmp_path / "out", choices=CHOICES, permissive=False, say=print)
