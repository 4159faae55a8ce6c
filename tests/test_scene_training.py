"""Training and resuming `scene`, on tiny synthetic pictures with a teacher that knows two colours; needs torch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from video_making import data_folder

torch = pytest.importorskip("torch", reason="the authoring side needs torch")
pytest.importorskip("safetensors", reason="checkpoints are safetensors")
pytest.importorskip("openvino", reason="OpenVINO reads the teacher")

from clockseg.errors import DataError, UsageError  # noqa: E402
from clockseg.networks.load import load  # noqa: E402
from clockseg.types import Array, Image, Labels  # noqa: E402
from recipes.scene import pictures  # noqa: E402
from recipes.scene.exported import load_exported  # noqa: E402
from recipes.scene.loss import distillation_loss, soft_overlap_loss  # noqa: E402
from recipes.scene.recipe import SCENE  # noqa: E402
from recipes.scene.teacher import SIDE, Teacher  # noqa: E402
from recipes.scene.training import train  # noqa: E402
from recipes.scene.views import Views, mixed  # noqa: E402
from recipes.street.augment import Augmentation  # noqa: E402
from recipes.street.checkpoint import load_network  # noqa: E402
from recipes.street.export import export  # noqa: E402
from recipes.street.network import Scores, Shape, build, normalise  # noqa: E402
from recipes.street.training import Choices  # noqa: E402

SKY, ROAD = 3, 7
WIDTH, HEIGHT = 96, 72
RECIPE = replace(
    SCENE, shape=Shape(features=(16, 16, 16), context=16, classes=32), working=(96, 72), view=(64, 64), batch=2
)
CHOICES = Choices(workers=0, imagenet=False, iterations=2)
CALM = Augmentation(colour=0, shade=0, blur=0, noise=0, jpeg=0)


class Colours:
    """A teacher that takes blue for sky and all else for road."""

    def labels(self, image: Image) -> Labels:
        square = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_NEAREST)
        return np.where(square[..., 2] > 170, SKY, ROAD).astype(np.uint8)

    def probabilities(self, square: Image) -> Array:
        return np.eye(32, dtype=np.float32)[self.labels(square)[2::4, 2::4]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pictures of blue over grey, one of them for validation."""
    images = tmp_path / "data" / "scenes" / "images"
    images.mkdir(parents=True)
    picture = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    picture[: HEIGHT // 2] = 250, 120, 0
    for name in ("bsds_0", "bsds_1", "azure_0", "held_0"):
        cv2.imwrite(str(images / f"{name}.jpg"), picture)
    (images.parent / "val.txt").write_text("held_0.jpg\n")
    return tmp_path / "data"


def views(data: Path, **settings: Any) -> Views:
    """Views without changes of light."""
    return Views(pictures.training_pictures(data), Colours(), (WIDTH, HEIGHT), CALM, **settings)


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


def test_the_teacher_sees_the_view_that_the_network_sees(data: Path) -> None:
    for seed in range(8):
        image, soft = views(data, mix=0.5).draw(0, np.empty(0), np.random.default_rng(seed))
        assert (image.shape, soft.shape, soft.dtype) == ((HEIGHT, WIDTH, 3), (HEIGHT // 4, WIDTH // 4, 32), np.float16)
        assert soft.sum(2).astype(np.float32) == pytest.approx(1, abs=1e-2)
        sky = soft[..., SKY].repeat(4, 0).repeat(4, 1)
        assert ((image[..., 2] > 170) == (sky > 0.5)).mean() > 0.95


def test_a_view_is_a_part_of_the_picture_or_all_of_it(data: Path) -> None:
    whole = views(data, area=(2.0, 2.0), mix=0.0).draw(0, np.empty(0), np.random.default_rng(0))[1]
    assert whole[..., SKY].mean() == pytest.approx(0.5, abs=0.02)
    part = views(data, area=(0.1, 0.2), mix=0.0)
    shares = [part.draw(0, np.empty(0), np.random.default_rng(seed))[1][..., SKY].mean() for seed in range(20)]
    assert min(shares) < 0.2
    assert max(shares) > 0.8


def test_mixed_views_show_both_pictures() -> None:
    one, other = np.zeros((40, 40, 3), np.uint8), np.full((40, 40, 3), 200, np.uint8)
    made = [mixed(one, other, np.random.default_rng(seed)) for seed in range(50)]
    pasted = [image for image in made if set(np.unique(image)) == {0, 200}]
    blended = [image for image in made if len(np.unique(image)) == 1]
    assert len(pasted) + len(blended) == 50
    assert 10 < len(pasted) < 40
    assert all(0.05 < image.mean() / 200 < 0.6 for image in made)
    assert not one.any()


def test_the_loss_is_least_at_the_teachers_answers() -> None:
    soft = torch.softmax(torch.randn(2, 32, 8, 8, generator=torch.Generator().manual_seed(0)), 1)
    same = Scores(soft.log(), (soft.log(),) * 3)
    other = Scores(soft.log().roll(1, 1), (soft.log(),) * 3)
    weights = torch.ones(32, 1, 1)
    assert distillation_loss(same, soft, weights, SCENE) < distillation_loss(other, soft, weights, SCENE)
    assert float(soft_overlap_loss(soft, soft)) == pytest.approx(0, abs=1e-6)


def test_training_resumes_with_more_steps_and_is_exported(data: Path, tmp_path: Path) -> None:
    out, options = tmp_path / "out", {"recipe": RECIPE, "permissive": False, "say": lambda entry: None}
    train(data, Colours(), out, choices=CHOICES, **options)
    with pytest.raises(UsageError, match="holds a training already"):
        train(data, Colours(), out, choices=CHOICES, **options)
    found = train(data, Colours(), out, choices=replace(CHOICES, resume=True, iterations=4), **options)
    entries = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in entries if entry["event"] == "step"][-1] == 4
    assert 0 <= entries[-1]["pixel_acc"] <= 1
    net = load(str(export(found, tmp_path / "scene.onnx")), engine=None)
    assert net.sidecar.classes[:3] == ("other", "wall", "building")
    assert len(net.sidecar.palette) == len(set(net.sidecar.palette)) == 32
    assert [stage.name for stage in net.stages] == ["stride8", "stride16", "context"]


def test_training_goes_on_from_an_exported_network(data: Path, tmp_path: Path) -> None:
    options = {"recipe": RECIPE, "permissive": False, "say": lambda entry: None}
    checkpoint = train(data, Colours(), tmp_path / "first", choices=CHOICES, **options)
    exported = export(checkpoint, tmp_path / "scene.onnx")
    images = normalise(torch.randint(0, 256, (4, 64, 64, 3), dtype=torch.uint8))
    trained, again = load_network(checkpoint)[0], build(RECIPE.shape)
    load_exported(again, exported, images)
    with torch.no_grad():
        torch.testing.assert_close(again(images).fused, trained(images).fused, rtol=1e-3, atol=1e-3)
    with pytest.raises(DataError, match="a network of other sizes"):
        load_exported(build(replace(RECIPE.shape, context=32)), exported, images)
    train(data, Colours(), tmp_path / "second", choices=CHOICES, weights=exported, **options)
    entries = [json.loads(line) for line in (tmp_path / "second" / "log.jsonl").read_text().splitlines()]
    assert entries[0]["weights"] == "scene.onnx"
    assert entries[0]["recipe"]["rate"] == RECIPE.rate / 5


def test_a_teacher_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="give the teacher's TFLite file"):
        Teacher(tmp_path / "none.tflite")


def test_the_teachers_probabilities_fit_its_labels() -> None:
    file = data_folder().parent / "teachers" / "mosaic-r4" / "mobile_segmenter_r4_quant_argmax_uint8.tflite"
    if not file.is_file():
        pytest.skip("needs the shared data folder (CLOCKSEG_DATA)")
    square = cv2.resize(pictures.read_picture(pictures.validation_pictures(data_folder())[0]), (SIDE, SIDE))
    soft, labels = Teacher(file).probabilities(square), Teacher(file).labels(square)
    assert soft.sum(2) == pytest.approx(1, abs=1e-4)
    assert (soft.argmax(2) == labels[2::4, 2::4]).mean() > 0.9
