"""Training FCNs, on tiny nets and made pictures: the recipes' arithmetic, starts, resuming, every layout, the command."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the authoring side needs torch")
pytest.importorskip("safetensors", reason="checkpoints are safetensors")

import dataset_trees  # noqa: E402
from caffe_making import as_layers, caffemodel  # noqa: E402
from clockseg.datasets import Classes, read_data  # noqa: E402
from clockseg.datasets.official import CITYSCAPES, PASCAL  # noqa: E402
from clockseg.errors import DataError, NetworkError, TrainingError, UsageError  # noqa: E402
from clockseg.networks.load import load  # noqa: E402
from clockseg.paper.fcn import (  # noqa: E402
    MEAN,
    FCNDescription,
    FCNShape,
)
from narrow_fcn import random_state  # noqa: E402
from recipes.batches import Batches  # noqa: E402
from recipes.fcn.__main__ import main  # noqa: E402
from recipes.fcn.checkpoint import load_fcn, save_fcn  # noqa: E402
from recipes.fcn.fit import prepared, softmax_loss, start, update  # noqa: E402
from recipes.fcn.net import FCN  # noqa: E402
from recipes.fcn.phase import FCNChoices  # noqa: E402
from recipes.fcn.recipe import FCNRecipe, Phase, recipe  # noqa: E402
from recipes.fcn.scales import Scales, attach, folded, unfolded  # noqa: E402
from recipes.fcn.start import pixel_mean, random_start  # noqa: E402
from recipes.fcn.training import train_fcn  # noqa: E402
from recipes.fcn.whole_frames import OVERLAP, Halves, WholeFrames  # noqa: E402
from recipes.frames import Frame, read_frames  # noqa: E402

SIZE = (40, 32)
NAMES = ("left", "right", "strip")
TINY = FCNShape().narrowed(1 / 32)
STILL = 0.0
"""A rate at which nothing is learned."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two clips of three frames: a dark blue and a bright red part, and a strip between them that is ignored."""
    root, random = tmp_path / "data", np.random.default_rng(0)
    for clip in ("a", "b"):
        for folder in ("images", "labels"):
            (root / clip / folder).mkdir(parents=True)
        for number in range(3):
            labels = np.zeros(SIZE[::-1], np.uint8)
            border = 12 + 8 * number
            labels[:, border:], labels[:, border : border + 2] = 1, 255
            colours = np.array([[120, 20, 10], [30, 40, 240]], np.uint8)  # blue, green, red
            image = cv2.add(colours[np.minimum(labels, 1)], random.integers(0, 15, (*labels.shape, 3), dtype=np.uint8))
            cv2.imwrite(str(root / clip / "images" / f"{number}.png"), image)
            cv2.imwrite(str(root / clip / "labels" / f"{number}.png"), labels)
    (root / "classes.json").write_text(json.dumps({"classes": NAMES}))
    return root


def published(variant: Any = "fcn8s", rate: float = 1e-7, iterations: int = 2, **changes: Any) -> FCNRecipe:
    """The at-once recipe at another rate and length."""
    found = recipe("at-once", variant)
    phase = replace(found.phases[0], rate=rate, iterations=iterations)
    return replace(found, phases=(phase,), **{"every": 2, **changes})


def read_log(folder: Path, event: str) -> list[dict[str, Any]]:
    """The entries of one kind in a training's log."""
    return [
        entry for entry in map(json.loads, (folder / "log.jsonl").read_text().splitlines()) if entry["event"] == event
    ]


def net(variant: Any = "pool3", seed: int = 0) -> FCN:
    """A tiny net with random weights, scores too."""
    found = FCN(replace(TINY, variant=variant, classes=3))
    found.load_state_dict({name: torch.from_numpy(value) for name, value in random_state(found.shape, seed).items()})
    return found


def some_batch(seed: int = 0) -> tuple[Any, Any]:
    """A picture as an FCN reads it, and labels, all of them known."""
    random = np.random.default_rng(seed)
    pixels = torch.from_numpy(random.integers(0, 256, (1, 12, 15, 3), dtype=np.uint8))
    return prepared(pixels, MEAN), torch.from_numpy(random.integers(0, 3, (1, 12, 15)))


# What a step is


def test_the_recipes_are_the_published_ones() -> None:
    at_once = recipe("at-once", "fcn8s")
    assert at_once.phases == (Phase("fcn8s", 1e-10, 300_000, Scales(pool4=0.01, pool3=0.0001)),)
    assert [(phase.variant, phase.rate, phase.iterations) for phase in recipe("staged", "fcn8s").phases] == [
        ("fcn32s", 1e-10, 100_000),
        ("fcn16s", 1e-12, 100_000),
        ("fcn8s", 1e-14, 100_000),
    ]
    assert [recipe("at-once", variant).phases for variant in ("fcn32s", "pool3", "pool4")] == [
        (Phase(variant, 1e-10, 100_000),) for variant in ("fcn32s", "pool3", "pool4")
    ]
    for found in (at_once, recipe("staged", "fcn16s")):
        assert (found.optimiser, found.momentum, found.decay, found.bias_rate) == ("sgd", 0.99, 5e-4, 2.0)
        assert (found.loss, found.batch, found.working, found.augmentation) == ("sum", 1, None, None)
    with pytest.raises(UsageError, match="pool3 has no stages"):
        recipe("staged", "pool3")


def test_the_summed_loss_counts_each_pixel_that_is_labelled() -> None:
    score = torch.zeros(1, 4, 2, 3)
    labels = torch.tensor([[[0, 1, 255], [3, 255, 2]]])
    assert softmax_loss(score, labels, 255, "sum").item() == pytest.approx(4 * math.log(4))
    assert softmax_loss(score, labels, 255, "mean").item() == pytest.approx(math.log(4))
    score[0, :, 0, 0] = torch.tensor([2.0, 0, 0, 0])
    first = math.log(1 + 3 * math.exp(-2))
    assert softmax_loss(score, labels, 255, "sum").item() == pytest.approx(3 * math.log(4) + first)


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_a_frame_without_labels_teaches_nothing(kind: Any) -> None:
    score = torch.randn(1, 3, 2, 2, requires_grad=True)
    loss = softmax_loss(score, torch.full((1, 2, 2), 255), 255, kind)
    loss.backward()
    assert loss.item() == 0
    assert not score.grad.any()


def test_an_fcn_reads_blue_green_red_minus_the_mean() -> None:
    pixels = torch.tensor([[[[10, 20, 30]]]], dtype=torch.uint8)
    assert prepared(pixels, (1.0, 2.0, 3.0)).flatten().tolist() == [29, 18, 7]


def test_weights_decay_and_biases_learn_twice_as_fast() -> None:
    module, (data, labels) = net(), some_batch()
    how = published("pool3", momentum=0.9, decay=50.0)
    run = start(module, how.phases[0], how)
    learned = {name: value for name, value in module.named_parameters() if value.requires_grad}
    wanted = {name: value.detach().clone() for name, value in learned.items()}
    speed = {name: torch.zeros_like(value) for name, value in learned.items()}
    for _ in range(2):  # Caffe: v = 0.9 v + rate (gradient + decay w); w -= v
        loss = softmax_loss(module(data).score, labels, 255, "sum")
        gradients = torch.autograd.grad(loss, list(learned.values()))
        update(run, data, labels, 1e-6, how, ignore=255)
        for name, gradient in zip(learned, gradients, strict=True):
            bias = name.endswith("bias")
            decayed = gradient if bias else gradient + 50 * wanted[name]
            speed[name] = 0.9 * speed[name] + (2e-6 if bias else 1e-6) * decayed
            wanted[name] = wanted[name] - speed[name]
    for name, value in learned.items():
        torch.testing.assert_close(value, wanted[name], rtol=1e-5, atol=1e-8)
    assert "upscore.weight" not in learned
    assert not torch.equal(module.conv1_1.bias, net().conv1_1.bias)


def test_the_mean_loss_at_its_rate_makes_the_same_steps() -> None:
    data, labels = some_batch()
    summed = published("pool3", rate=1e-6, decay=50.0)
    weights = []
    for how in (summed, summed.averaged(labels.numel())):
        module = net()
        run = start(module, how.phases[0], how)
        for _ in range(3):
            update(run, data, labels, how.phases[0].rate, how, ignore=255)
        weights.append(module.state_dict())
    assert summed.averaged(labels.numel()).phases[0].rate == pytest.approx(1e-6 * 180)
    assert not torch.equal(weights[0]["conv1_1.weight"], net().conv1_1.weight)
    for name, value in weights[0].items():
        torch.testing.assert_close(value, weights[1][name], rtol=1e-5, atol=1e-8)


# Scales


def test_scales_fold_into_weights_and_out_of_them() -> None:
    module, plain, (data, _) = net("fcn8s").eval(), net("fcn8s").eval(), some_batch()
    scales = Scales(data=1 / 58, pool4=0.01, pool3=0.0001)
    attach(module, scales)
    scaled = module(data).score
    assert not torch.allclose(plain(data).score, scaled, rtol=1e-2)
    plain.load_state_dict(folded(module.state_dict(), scales))
    torch.testing.assert_close(plain(data).score, scaled, rtol=1e-5, atol=1e-5)
    assert torch.equal(plain.score_pool4.bias, module.score_pool4.bias)
    back = unfolded(plain.state_dict(), scales)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(back[name], value)


def test_the_saved_net_is_the_one_that_was_trained(data: Path, tmp_path: Path) -> None:
    how = published(rate=1e-6, iterations=3)
    saved, description = load_fcn(train_fcn(data, tmp_path / "out", recipe=how, shape=TINY))
    trained = FCN(saved.shape).eval()
    attach(trained, how.phases[0].scales)
    trained.load_state_dict(torch.load(tmp_path / "out" / "fcn8s.state.pt", weights_only=True)["net"])
    assert trained.score_pool4.weight.abs().max() > 0
    torch.testing.assert_close(saved.score_pool3.weight, 0.0001 * trained.score_pool3.weight)
    picture, _ = some_batch()
    torch.testing.assert_close(saved(picture).score, trained(picture).score, rtol=1e-5, atol=1e-5)
    assert (description.classes.names, description.mean, description.working) == (NAMES, MEAN, (40, 40))


# What a net starts from


def test_random_weights_keep_the_scale_of_maps_and_scores_are_zero() -> None:
    module = FCN(replace(FCNShape(), variant="pool4").narrowed(0.25))
    random_start(module, 3)
    assert not module.score_fr.weight.any()
    assert module.conv3_1.weight.std().item() == pytest.approx(math.sqrt(2 / (32 * 9)), rel=0.05)
    again = FCN(module.shape)
    random_start(again, 3)
    assert torch.equal(module.conv4_3.weight, again.conv4_3.weight)


def test_staged_passes_weights_on(data: Path, tmp_path: Path) -> None:
    """Only the first net learns here, so the others have what it learned, and zeros for what is theirs."""
    rates = (1e-6, STILL, STILL)
    phases = (replace(phase, rate=rate, iterations=2) for phase, rate in zip(recipe("staged", "fcn8s").phases, rates))
    how = replace(recipe("staged", "fcn8s"), phases=tuple(phases), every=2)
    last = train_fcn(data, tmp_path / "out", recipe=how, shape=TINY)
    assert last.name == "fcn8s.safetensors"
    first, third = (load_fcn(tmp_path / "out" / f"{name}.safetensors")[0] for name in ("fcn32s", "fcn8s"))
    untrained = FCN(first.shape)
    random_start(untrained, FCNChoices().seed)
    assert not torch.equal(first.conv5_3.weight, untrained.conv5_3.weight)
    assert torch.equal(third.conv5_3.weight, first.conv5_3.weight)
    assert torch.equal(third.score_fr.weight, first.score_fr.weight)
    assert first.score_fr.weight.any()
    assert not third.score_pool3.weight.any()
    steps = read_log(tmp_path / "out", "step")
    assert [entry["net"] for entry in steps] == ["fcn32s"] * 2 + ["fcn16s"] * 2 + ["fcn8s"] * 2


def test_vgg16_is_what_a_net_starts_from(data: Path, tmp_path: Path) -> None:
    state = {name: value for name, value in random_state(replace(TINY, classes=3)).items() if "score" not in name}
    vgg16 = tmp_path / "vgg16.caffemodel"
    vgg16.write_bytes(caffemodel(as_layers(state)))
    found, _ = load_fcn(
        train_fcn(data, tmp_path / "out", recipe=published(rate=STILL), shape=TINY, choices=FCNChoices(vgg16=vgg16))
    )
    for name in state:
        assert np.array_equal(found.state_dict()[name].numpy(), state[name]), name
    assert not found.score_pool4.weight.any()
    with pytest.raises(NetworkError, match="other widths"):
        train_fcn(data, tmp_path / "b", recipe=published(), shape=TINY.narrowed(2), choices=FCNChoices(vgg16=vgg16))


@pytest.mark.parametrize("names", [NAMES, ("sky", "road", "tree")])
def test_scores_are_taken_over_for_the_same_classes_alone(data: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    before = net("fcn8s")
    save_fcn(before, FCNDescription(before.shape, Classes(names)), tmp_path / "before.safetensors")
    choices = FCNChoices(initial=tmp_path / "before.safetensors")
    found, _ = load_fcn(train_fcn(data, tmp_path / "out", recipe=published(rate=STILL), shape=TINY, choices=choices))
    assert torch.equal(found.conv1_1.weight, before.conv1_1.weight)
    if names == NAMES:
        torch.testing.assert_close(found.score_pool3.weight, before.score_pool3.weight)
    else:
        assert not found.score_pool3.weight.any()
    with pytest.raises(UsageError, match="--width"):
        train_fcn(data, tmp_path / "b", recipe=published(), shape=TINY.narrowed(2), choices=choices)


def test_pixels_lose_the_mean_of_the_data_set() -> None:
    assert pixel_mean(CITYSCAPES) == (72.78044, 83.21195, 73.45286)
    assert pixel_mean(PASCAL) == pixel_mean(Classes(("sky", "road"))) == MEAN


# What is trained on


def test_pictures_are_drawn_with_replacement_by_seed_and_step(data: Path) -> None:
    frames = read_frames(data, in_memory=False)
    first = [frame.image for frame in frames.frames]
    batches = Batches(WholeFrames(frames), 1, seed=1337, workers=0, replacement=True)
    views = batches.from_step(0)
    drawn = [next(views)[0][0].numpy() for _ in range(12)]
    order = [next(number for number, image in enumerate(first) if np.array_equal(image, one)) for one in drawn]
    assert sorted(order[:6]) != list(range(6))  # which turns without replacement would be
    assert set(order) <= set(range(6))
    assert np.array_equal(next(batches.from_step(7))[0][0].numpy(), drawn[7])


def test_halves_reach_into_each_other_and_learn_every_pixel_once() -> None:
    width = 1000
    image = np.broadcast_to(np.arange(width) % 251, (3, 4, width)).transpose(1, 2, 0).astype(np.uint8)
    labels = np.ascontiguousarray(image[..., 0] % 19)
    left, right = Halves((Frame("a", image, labels),), 255)
    assert left.image.shape == right.image.shape == (4, 500 + OVERLAP, 3)
    assert np.array_equal(left.image, image[:, : 500 + OVERLAP])
    assert np.array_equal(right.image, image[:, 500 - OVERLAP :])
    assert np.array_equal(left.labels[:, :500], labels[:, :500])
    assert (left.labels[:, 500:] == 255).all()
    assert np.array_equal(right.labels[:, OVERLAP:], labels[:, 500:])
    assert (right.labels[:, :OVERLAP] == 255).all()


def test_scaled_frames_keep_their_aspect_and_their_ids(data: Path) -> None:
    image, labels = WholeFrames(read_frames(data), (20, 20)).draw(0, np.empty(0), np.random.default_rng(0))
    assert image.shape == (16, 20, 3)
    assert set(np.unique(labels)) == {0, 1, 255}


@pytest.mark.parametrize("layout", ["pascal", "cityscapes", "nyud", "camvid", "youtube_objects", "davis", "translated"])
def test_every_layout_can_be_trained_on(tmp_path: Path, layout: str) -> None:
    trees: dict[str, Callable[[Path], Any]] = {
        "pascal": lambda root: dataset_trees.voc(root, ["2007_000001", "2007_000002"]),
        "translated": lambda root: dataset_trees.voc(root, ["2007_000001"], size=(120, 36)),
    }
    trees.get(layout, lambda root: getattr(dataset_trees, layout.partition("_")[0])(root))(tmp_path / "tree")
    how, spec = published("pool3", rate=1e-9), "translated(of=pascal)" if layout == "translated" else layout
    found = train_fcn(tmp_path / "tree", tmp_path / "out", recipe=how, shape=TINY, layout=spec)
    classes = {
        "pascal": 21,
        "translated": 21,
        "cityscapes": 19,
        "nyud": 40,
        "camvid": 11,
        "youtube_objects": 11,
        "davis": 2,
    }
    trained, description = load_fcn(found)
    assert len(description.classes.names) == classes[layout]
    assert trained.score_fr.weight.any()


# The training as a whole


def test_a_net_learns_what_colours_tell(data: Path, tmp_path: Path) -> None:
    how = recipe("scratch", "fcn8s")
    phase = replace(how.phases[0], rate=3e-3, iterations=40)
    how = replace(how, phases=(phase,), working=SIZE, every=20)
    train_fcn(data, tmp_path / "out", recipe=how, shape=replace(FCNShape().narrowed(1 / 16), fc=64), validation=data)
    losses = [entry["loss"] for entry in read_log(tmp_path / "out", "step")]
    scores = read_log(tmp_path / "out", "score")
    assert losses[0] > 2 * losses[-1]
    assert [entry["step"] for entry in scores] == [20, 40]
    assert scores[-1]["iu"]["left"] > 0.7
    assert scores[-1]["iu"]["right"] > 0.7


def test_the_published_recipe_learns_too(data: Path, tmp_path: Path) -> None:
    """Its steps, at a rate for pictures as small and a net as narrow as these."""
    train_fcn(data, tmp_path / "out", recipe=published("pool3", rate=1e-6, iterations=40, every=40), shape=TINY)
    losses = [entry["loss"] for entry in read_log(tmp_path / "out", "step")]
    assert losses[0] > 100
    assert losses[-1] < 0.5 * losses[0]


def test_resuming_gives_what_one_go_gives(data: Path, tmp_path: Path) -> None:
    how, whole, parts = published(rate=1e-5, iterations=5), tmp_path / "whole", tmp_path / "parts"
    one = train_fcn(data, whole, recipe=how, shape=TINY, choices=FCNChoices(workers=1))
    with pytest.raises(KeyboardInterrupt):
        train_fcn(data, parts, recipe=how, shape=TINY, say=_interrupt_at(4))
    assert not (parts / "fcn8s.safetensors").exists()
    resumed = []
    two = train_fcn(data, parts, recipe=how, shape=TINY, choices=FCNChoices(resume=True), say=resumed.append)
    assert [entry["step"] for entry in resumed if entry["event"] == "step"] == [3, 4, 5]
    weights, again = (dict(load_fcn(file)[0].state_dict()) for file in (one, two))
    assert all(torch.equal(weights[name], again[name]) for name in weights)


def _interrupt_at(step: int) -> Callable[[dict[str, Any]], None]:
    """What a log tells is interrupted when it comes to a step, before its state is saved."""

    def say(entry: dict[str, Any]) -> None:
        if entry.get("step") == step:
            raise KeyboardInterrupt

    return say


def test_a_training_that_is_done_can_be_lengthened(data: Path, tmp_path: Path) -> None:
    train_fcn(data, tmp_path / "out", recipe=published(iterations=2), shape=TINY)
    entries: list[dict[str, Any]] = []
    resume = FCNChoices(resume=True)
    train_fcn(data, tmp_path / "out", recipe=published(iterations=2), shape=TINY, choices=resume, say=entries.append)
    assert [entry["event"] for entry in entries] == ["start"]
    train_fcn(data, tmp_path / "out", recipe=published(iterations=3), shape=TINY, choices=resume, say=entries.append)
    assert entries[-1]["step"] == 3


def test_other_choices_are_not_resumed(data: Path, tmp_path: Path) -> None:
    train_fcn(data, tmp_path / "out", recipe=published(), shape=TINY)
    with pytest.raises(UsageError, match="--resume"):
        train_fcn(data, tmp_path / "out", recipe=published(), shape=TINY)
    with pytest.raises(UsageError, match=r"seed 1337 \(now 5\)"):
        train_fcn(data, tmp_path / "out", recipe=published(), shape=TINY, choices=FCNChoices(resume=True, seed=5))
    told = (tmp_path / "out" / "log.jsonl").read_text()
    assert told.count('"start"') == 1  # what was refused has not begun
    (tmp_path / "out" / "fcn8s.state.pt").write_bytes(b"nothing")
    with pytest.raises(DataError, match="can't be resumed"):
        train_fcn(data, tmp_path / "out", recipe=published(), shape=TINY, choices=FCNChoices(resume=True))


def test_a_loss_that_runs_away_ends_the_training(data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf) at step \d+.*lower rate"):
        train_fcn(data, tmp_path / "out", recipe=published(rate=1e30, iterations=50, every=1), shape=TINY)
    assert not (tmp_path / "out" / "fcn8s.safetensors").exists()


def test_weights_that_are_not_finite_are_not_saved(data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="aren't finite"):
        train_fcn(data, tmp_path / "out", recipe=published(rate=1e38, iterations=1), shape=TINY)
    assert not (tmp_path / "out" / "fcn8s.safetensors").exists()


def test_a_time_limit_ends_a_training(data: Path, tmp_path: Path) -> None:
    how = published("pool3", iterations=10**6, every=10**6)
    train_fcn(data, tmp_path / "out", recipe=how, shape=TINY, choices=FCNChoices(minutes=0.01))
    assert (tmp_path / "out" / "pool3.safetensors").exists()


# The command


def test_the_command_trains_and_goes_on(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    how = ["--recipe", "scratch", "--width", "0.03125", "--size", "40x32", "--iterations", "2", "--workers", "0"]
    command = ["fcn8s", str(data), "--validation", str(data), *how, "--out", str(out)]
    assert main(command) == 0
    told = capsys.readouterr()
    assert f"next: clockseg evaluate DATA --network {out / 'fcn8s.onnx'}" in told.out
    assert load(out / "fcn8s.onnx", engine=None).classes == read_data(data)[0].classes.names
    assert "mIoU" in told.err
    assert main(command) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*command, "--resume", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_the_published_recipes_start_from_random_weights_when_told_to(data: Path, tmp_path: Path) -> None:
    how = ["--recipe", "staged", "--random", "--width", "0.03125", "--iterations", "1", "--workers", "0", "--quiet"]
    assert main(["fcn16s", str(data), *how, "--loss", "mean", "--halves", "--out", str(tmp_path)]) == 0
    assert {file.name for file in tmp_path.glob("*.safetensors")} == {"fcn32s.safetensors", "fcn16s.safetensors"}
    start = read_log(tmp_path, "start")[0]
    assert [phase["rate"] for phase in start["recipe"]["phases"]] == pytest.approx([1.875e-5, 1.875e-7])
    assert start["recipe"]["decay"] == pytest.approx(5e-4 / 187_500)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "--vgg16"),
        (["--recipe", "scratch", "--loss", "sum"], "mean loss"),
        (["--vgg16", "x", "--batch", "2"], "one picture"),
        (["--vgg16", "x", "--recipe", "staged"], "pool3 has no stages"),
    ],
)
def test_wrong_options_are_told(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pool3", "nowhere", "--out", "nowhere", *options]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--rate", "0"], ["--width", "x"], ["--vgg16", "a", "--from", "b"], ["--recipe", "32s"], ["--size", "320"]],
)
def test_options_that_cannot_be_read_are_told(options: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["fcn8s", "nowhere", "--out", "nowhere", *options])
    assert ended.value.code == 2


def test_what_goes_wrong_ends_with_one(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start, out = tmp_path / "start.safetensors", ["--out", str(tmp_path / "out")]
    save_fcn(net(), FCNDescription(net().shape, Classes(NAMES)), start)
    how = ["--from", str(start), "--width", "0.03125", "--workers", "0", "--quiet", "--rate", "1e30", *out]
    assert main(["pool3", str(tmp_path / "nowhere"), *how]) == 1
    assert "no such file" in capsys.readouterr().err
    assert main(["pool3", str(data), *how]) == 1
    assert "lower rate" in capsys.readouterr().err
