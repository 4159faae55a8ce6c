"""The paper's weights as Caffe saved them: what is checked, mended, and refused."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from caffe_making import as_layers, caffemodel, full
from clockseg.cli.main import main
from clockseg.datasets.official import CITYSCAPES
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import sidecar
from clockseg.networks.load import load
from clockseg.paper.caffe import Imported, import_caffe, trained_on
from clockseg.paper.fcn import MEAN, VARIANTS, FCNShape
from narrow_fcn import NARROW, golden, random_state, with_state

SHAPE = FCNShape(classes=21).narrowed(NARROW)


def write(folder: Path, named: dict[str, Any], **options: bool) -> Path:
    path = folder / "net.caffemodel"
    path.write_bytes(caffemodel(named, **options))
    return path


def imported(folder: Path, named: dict[str, Any], **options: Any) -> Imported:
    return import_caffe(write(folder, named), **options)


def same(found: Imported, state: dict[str, np.ndarray]) -> bool:
    return found.state.keys() == state.keys() and all((found.state[name] == state[name]).all() for name in state)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("old", [False, True])
def test_the_net_its_widths_and_classes_are_told_from_the_layers(tmp_path: Path, variant: Any, old: bool) -> None:
    shape = FCNShape(variant, 21).narrowed(NARROW)
    state = random_state(shape)
    found = import_caffe(write(tmp_path, as_layers(state), old=old, legacy=old))
    plain = FCNShape(variant)
    widths = (*shape.widths[: shape.blocks], *plain.widths[shape.blocks :])
    fc = shape.fc if shape.blocks == 5 else plain.fc
    assert found.description.shape == FCNShape(variant, 21, widths, fc)  # type: ignore[arg-type]
    assert same(found, state)
    assert found.notes == ()
    assert found.description.classes.names[15] == "person"


def test_names_of_2014_become_todays(tmp_path: Path) -> None:
    state = random_state(SHAPE)
    old = {
        "score_fr": "score-fr",
        "upscore2": "score2",
        "score_pool4": "score-pool4",
        "upscore_pool4": "score4",
        "score_pool3": "score-pool3",
        "upscore8": "upsample",
    }
    found = imported(tmp_path, {old.get(name, name): blobs for name, blobs in as_layers(state).items()})
    assert same(found, state)


def test_trap_15_full_and_grouped_enlargements_are_the_same_net(tmp_path: Path) -> None:
    state = random_state(SHAPE)
    named = as_layers(state)
    for name in ("upscore2", "upscore_pool4", "upscore8"):
        named[name] = [full(state[f"{name}.weight"])]
    found = imported(tmp_path, named)
    assert same(found, state)
    assert found.notes == (
        "upscore2, upscore_pool4, upscore8 were stored with kernels between classes, all zero; only the kernel of each class is kept.",
    )


def test_trap_15_enlargements_that_mix_classes_are_refused(tmp_path: Path) -> None:
    named = as_layers(random_state(SHAPE))
    mixed = full(named["upscore8"][0])
    mixed[3, 4, 0, 0] = 1e-6
    with pytest.raises(NetworkError, match="upscore8 has weights between classes"):
        imported(tmp_path, {**named, "upscore8": [mixed]})


def test_a_bias_of_an_enlargement_must_be_zero(tmp_path: Path) -> None:
    state = random_state(SHAPE)
    named = as_layers(state)
    zeros = np.zeros(21, np.float32)
    assert same(imported(tmp_path, {**named, "upscore2": [*named["upscore2"], zeros]}), state)
    with pytest.raises(NetworkError, match="upscore2 has a bias"):
        imported(tmp_path, {**named, "upscore2": [*named["upscore2"], zeros + 1]})


def test_a_missing_enlargement_is_bilinear(tmp_path: Path) -> None:
    state = random_state(SHAPE)
    named = as_layers(state)
    del named["upscore8"]
    found = imported(tmp_path, named)
    assert same(found, state)
    assert found.notes == ("upscore8 is not in the file; it is set to the bilinear kernel.",)


def features_scaled(state: dict[str, np.ndarray], data: torch.Tensor) -> torch.Tensor:
    """What an at-once net gives: its features, not its weights, times .01 and .0001."""
    net = with_state(SHAPE, state)
    net.score_pool4.register_forward_pre_hook(lambda module, given: (given[0] * 0.01,))
    net.score_pool3.register_forward_pre_hook(lambda module, given: (given[0] * 0.0001,))
    with torch.inference_mode():
        return net(data).score


@pytest.mark.parametrize("in_the_file", [False, True])
def test_trap_15_at_once_scales_go_into_the_weights_but_not_into_the_bias(tmp_path: Path, in_the_file: bool) -> None:
    state = random_state(SHAPE)
    named = as_layers(state)
    if in_the_file:
        named |= {"scale_pool4": [np.full(32, 0.01, np.float32)], "scale_pool3": [np.full(16, 0.0001, np.float32)]}
    found = imported(tmp_path, named, at_once=not in_the_file)
    assert found.notes == (
        "the factor 0.01 on pool4 is now part of score_pool4.weight.",
        "the factor 0.0001 on pool3 is now part of score_pool3.weight.",
    )
    np.testing.assert_allclose(found.state["score_pool4.weight"], 0.01 * state["score_pool4.weight"], rtol=1e-6)
    np.testing.assert_array_equal(found.state["score_pool4.bias"], state["score_pool4.bias"])
    net = with_state(SHAPE, found.state)
    data = torch.randn(1, 3, 25, 33, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(net(data).score, features_scaled(state, data), rtol=1e-4, atol=1e-5)


def test_scales_that_are_none(tmp_path: Path) -> None:
    named = as_layers(random_state(SHAPE))
    ones = np.ones(32, np.float32)
    assert imported(tmp_path, {**named, "scale_pool4": [ones, 0 * ones]}).notes[0].startswith("the factor 1 on pool4")
    for wrong in ([ones[:5]], [ones, ones]):
        with pytest.raises(NetworkError, match="one factor or 32 and no shift are supported"):
            imported(tmp_path, {**named, "scale_pool4": wrong})


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, value: float) -> None:
    named = as_layers(random_state(SHAPE))
    named["fc7"][1] = np.full(256, value)
    path = tmp_path / "net.caffemodel"
    path.write_bytes(caffemodel(named, double=True))
    with pytest.raises(NetworkError, match=r"fc7.bias have values that are not finite"):
        import_caffe(path)


SMALL = as_layers(random_state(FCNShape(classes=20).narrowed(1 / 64)))
SHAPES = st.sampled_from([(1,), (3,), (20,), (2, 3), (4, 4, 1, 1), (20, 1, 4, 4), (20, 20, 4, 4), (1, 1, 20, 64)])


@given(st.dictionaries(st.sampled_from([*SMALL, "scale_pool3", "score"]), st.lists(SHAPES, max_size=3), max_size=2))
@settings(max_examples=60, deadline=None)
def test_any_blobs_give_a_net_or_a_network_error(tmp_path_factory: Any, wrong: Any) -> None:
    random = np.random.default_rng(0)
    blobs = {name: [random.normal(size=shape).astype(np.float32) for shape in shapes] for name, shapes in wrong.items()}
    path = tmp_path_factory.getbasetemp() / "any.caffemodel"
    path.write_bytes(caffemodel({**SMALL, **blobs}))
    with contextlib.suppress(NetworkError):
        assert len(import_caffe(path).description.classes.names) in (2, 3, 4, 19, 20)


def test_the_twentieth_channel_of_cityscapes_is_left_out(tmp_path: Path) -> None:
    state = random_state(FCNShape(classes=20).narrowed(NARROW))
    found = imported(tmp_path, as_layers(state))
    assert found.description.classes == CITYSCAPES
    assert found.description.mean == (72.78044, 83.21195, 73.45286)
    assert found.description.working == (2048, 1024)
    assert "the 20th channel is meaningless" in found.notes[0]
    for name in ("score_fr.weight", "score_pool3.bias", "upscore_pool4.weight", "upscore8.weight"):
        np.testing.assert_array_equal(found.state[name], state[name][:19])


def test_published_label_sets() -> None:
    assert [len(trained_on(None, count).classes.names) for count in (21, 40, 19, 20)] == [21, 40, 19, 19]
    assert trained_on(None, 21).mean == MEAN == (104.00698793, 116.66876762, 122.67891434)
    assert (trained_on(None, 40).mean, trained_on(None, 40).working) == ((116.2, 97.2, 92.3), (560, 425))
    assert trained_on(None, 5).classes.names == ("class 0", "class 1", "class 2", "class 3", "class 4")


def test_classes_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "classes.json"
    file.write_text('{"classes": ["sky", "road"], "palette": [[0, 0, 255], [128, 64, 128]]}')
    assert trained_on(str(file), 2).classes.names == ("sky", "road")
    with pytest.raises(NetworkError, match=r"scores 3 classes; .*classes.json has 2"):
        trained_on(str(file), 3)


@pytest.mark.parametrize(
    ("labels", "count", "error", "message"),
    [
        ("voc", 40, NetworkError, "scores 40 classes; voc has 21"),
        ("vok", 21, UsageError, "give voc, nyud, cityscapes, or a classes.json"),
    ],
)
def test_classes_that_do_not_fit(labels: str, count: int, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        trained_on(labels, count)


def test_what_is_missing_and_what_is_left_over_is_told(tmp_path: Path) -> None:
    named = as_layers(random_state(SHAPE))
    found = imported(tmp_path, {**named, "score_boundary": [np.ones((2, 2, 1, 1), np.float32)]})
    assert found.notes == ("not used, since an fcn8s has no such layers: 'score_boundary'.",)
    named["fc-6"] = named.pop("fc6")
    with pytest.raises(NetworkError, match="lacks fc6 of an fcn8s; its layers 'fc_6' are not used"):
        imported(tmp_path, named)


def test_a_shape_that_does_not_fit_is_told(tmp_path: Path) -> None:
    named = as_layers(random_state(SHAPE))
    named["conv2_2"][0] = named["conv2_2"][0][:, :3]
    with pytest.raises(NetworkError, match=r"conv2_2.weight is 8x3x3x3; an fcn8s of 21 classes has 8x8x3x3 there"):
        imported(tmp_path, named)
    with pytest.raises(NetworkError, match=r"conv2_2 has 1 blobs instead of 2"):
        imported(tmp_path, {**named, "conv2_2": named["conv2_2"][1:]})


def test_names_that_fall_together_are_refused(tmp_path: Path) -> None:
    named = as_layers(random_state(SHAPE))
    with pytest.raises(NetworkError, match="two layers 'score_fr'"):
        imported(tmp_path, {**named, "score-fr": named["score_fr"]})


def test_an_image_classifier_is_no_fcn(tmp_path: Path) -> None:
    named = as_layers(random_state(SHAPE))
    classifier = {name: blobs for name, blobs in named.items() if name.startswith(("conv", "fc"))}
    with pytest.raises(NetworkError, match=r"not an FCN.*no score_fr.*VGG-16 cannot be imported"):
        imported(tmp_path, classifier)
    with pytest.raises(NetworkError, match="not an FCN: it has 'x', but no conv3_1"):
        imported(tmp_path, {"x": [np.ones(2, np.float32)]})


# The command


def test_import_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write(tmp_path, as_layers(random_state(SHAPE))), tmp_path / "voc.onnx"
    command = ["import", str(source), "--out", str(out)]
    assert main(command) == 0
    assert "fcn8s, 21 classes (background .. tvmonitor)" in capsys.readouterr().out
    said = sidecar.read(out.with_suffix(".json"))
    assert (said.cuts, said.classes[0], said.input.mean) == ((("pool3",), ("pool4",), ("fc7",)), "background", MEAN)
    assert load(out, engine=None).stages[2].name == "fc7"
    assert main(command) == 2
    assert "--overwrite" in capsys.readouterr().err
    size = out.stat().st_size
    assert main([*command, "--overwrite", "--half", "--mean", "1,2,3", "--at-once", "--size", "640x360"]) == 0
    assert "note: the factor 0.01 on pool4" in capsys.readouterr().err
    assert out.stat().st_size < 0.6 * size
    said = sidecar.read(out.with_suffix(".json")).input
    assert (said.mean, said.width, said.height) == ((1, 2, 3), 640, 360)


def test_import_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path, as_layers(random_state(SHAPE)))
    assert main(["import", str(source), "--out", str(tmp_path / "x.onnx"), "--labels", "nyud"]) == 1
    source.write_bytes(source.read_bytes()[:5000])
    assert main(["import", str(source), "--out", str(tmp_path / "x.onnx")]) == 1
    assert "cut short" in capsys.readouterr().err
    for wrong in (["--mean", "1,2"], ["--mean", "1,2,x"], ["--mean", "1,2,300"], ["--size", "640"]):
        with pytest.raises(SystemExit, match="2"):
            main(["import", str(source), "--out", str(tmp_path / "x.onnx"), *wrong])
    assert [file.name for file in tmp_path.iterdir()] == ["net.caffemodel"]


def test_the_golden_is_read_whole() -> None:
    if not golden().is_dir():
        pytest.skip("no shared data folder; set CLOCKSEG_DATA")
    found = import_caffe(golden() / "fcn8s-tiny.caffemodel")
    assert found.description.shape == FCNShape("fcn8s", 5, (4, 8, 16, 24, 24), 48)
    assert len(found.notes) == 1
    assert found.notes[0].startswith("no published net has 5 classes")
