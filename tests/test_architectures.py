"""Networks of transformers other than those that score pixels: mask transformers, words as classes, depth."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import json
from pathlib import Path

import numpy as np
import torch

import clockseg
from clockseg.engines import openvino
from clockseg.errors import NetworkError, UsageError
from clockseg.graph.sidecar import Input
from clockseg.instances.sets import Instances
from clockseg.networks.checking import picture, whole
from clockseg.networks.cutting import cut_network
from clockseg.networks.load import path_of
from clockseg.networks.settling import Cutting, settle
from clockseg.networks.source import Said, Source
from clockseg.types import Array
from clockseg.video import OverlayWriter

transformers = pytest.importorskip("transformers", reason="needs transformers")

from architectures import NAMES, vocabulary, write_checkpoint  # noqa: E402
from blobs import check_coco  # noqa: E402
from clockseg.networks import hf, onnx_export  # noqa: E402


@pytest.fixture
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of the architecture that the test is given."""
    return write_checkpoint(request.param, tmp_path / "network")


def frame(size: tuple[int, int]) -> torch.Tensor:
    """A picture as the network reads it."""
    image = picture(size).astype(np.float32) / 255
    values = (image - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
    return torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)[None], np.float32))


def given_by(source: Source, output: str = "scores") -> Array:
    """The output of an exported graph on a picture."""
    said = source.said
    width, height = said.size
    reads = Input("image", width, height, scale=said.scale, mean=said.mean, std=said.std)
    found: Array = openvino(whole(source.model, reads))(picture(said.size))[output]
    return found


@pytest.mark.parametrize("checkpoint", ["MaskFormer", "OneFormer", "DETR", "EoMT"], indirect=True)
def test_pixels_of_a_mask_transformer_score_the_sum_over_its_queries(checkpoint: Path) -> None:
    """As transformers' own processors score them: softmax without "no object" x sigmoid, summed."""
    source = hf.hf_source(checkpoint, engine=openvino)
    model = transformers.AutoModelForUniversalSegmentation.from_pretrained(checkpoint).eval()
    more = {}
    if "oneformer" in type(model).__name__.lower():
        text = [vocabulary().index(token) for token in tokens("the task is semantic")]
        more["task_inputs"] = torch.tensor([(text + [0] * 12)[:12]])
        more["task_inputs"][0, min(len(text), 12) - 1] = len(vocabulary()) - 1
    with torch.inference_mode():
        made = model(pixel_values=frame(source.said.size), **more)
    names = ("logits", "pred_masks") if "pred_masks" in made else ("class_queries_logits", "masks_queries_logits")
    logits, masks = (made[name] for name in names)
    wanted = sum(
        (logits.softmax(-1)[:, query, :-1, None, None] * masks.sigmoid()[:, query, None]).numpy()
        for query in range(logits.shape[1])
    )
    assert source.said.classes == NAMES
    np.testing.assert_allclose(given_by(source), wanted, atol=1e-4 * wanted.max())


def tokens(text: str) -> list[str]:
    """The tokens of the small tokenizer: letters, the last one of a word marked, between the marks of both ends."""
    words = [[*word[:-1], f"{word[-1]}</w>"] for word in text.split()]
    return ["<|startoftext|>", *(token for word in words for token in word), "<|endoftext|>"]


@pytest.mark.parametrize("checkpoint", ["Mask2Former"], indirect=True)
def test_instances_of_a_mask_transformer(checkpoint: Path, tmp_path: Path) -> None:
    source = hf.hf_source(checkpoint, engine=openvino, name="coco-instance")
    assert [told.value for told in source.told if told.what == "task"] == ["instance"]
    found = cut_network(source, tmp_path / "net.onnx", engine="openvino", repeat=1)
    assert found.sidecar.instances["layout"] == "queries"
    net = clockseg.load(tmp_path / "net.onnx", engine="openvino")
    assert net.classes == NAMES
    assert isinstance(net(picture((64, 48))), Instances)


@pytest.mark.parametrize("checkpoint", ["EoMT"], indirect=True)
def test_a_network_of_one_size_says_so_and_takes_wide_frames(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path / "cache"))
    told: list[str] = []
    net = clockseg.load(path_of(f"hf:{checkpoint}", tell=told.append), engine="openvino")
    assert any("at 64x64, and fixed to it" in line and "scaled to fit and padded" in line for line in told)
    assert net(picture((160, 90))).shape == (90, 160)


@pytest.mark.parametrize("checkpoint", ["Mask2Former"], indirect=True)
def test_a_mask2former_is_cut_where_its_backbone_ends_or_behind_its_pixel_decoder_by_name(
    checkpoint: Path, tmp_path: Path
) -> None:
    source = hf.hf_source(checkpoint, engine=openvino)
    (first,), (second,), _ = settle(source, Said(), Cutting(measured=False), "net").sidecar.cuts
    assert first.startswith("/model/pixel_level_module/encoder/swin/encoder/layers.0/")
    layers = [node for node in source.model.graph.node if "/decoder/encoder/layers." in node.name]
    assert any(second in node.input for node in layers)
    assert all(second not in node.output for node in layers)
    cutting = Cutting(at="model.pixel_level_module.decoder")
    found = cut_network(source, tmp_path / "net.onnx", cutting=cutting, engine="openvino", repeat=1)
    assert found.sidecar.cuts == (("/model/pixel_level_module/decoder/mask_projection/Conv_output_0",),)


@pytest.mark.parametrize("checkpoint", ["RF-DETR"], indirect=True)
def test_queries_of_an_rf_detr_are_those_of_transformers(checkpoint: Path, tmp_path: Path) -> None:
    source = hf.hf_source(checkpoint, engine=openvino)
    model = transformers.AutoModelForInstanceSegmentation.from_pretrained(checkpoint).eval()
    with torch.inference_mode():
        made = model(pixel_values=frame((64, 64)))
    for name, wanted in (("dets", made.pred_boxes), ("labels", made.logits), ("masks", made.pred_masks)):
        np.testing.assert_allclose(given_by(source, name), wanted, atol=1e-4 * wanted.abs().max().item())
    found = cut_network(source, tmp_path / "net.onnx", engine="openvino", repeat=1)
    assert found.sidecar.instances["layout"] == "detr"
    assert found.sidecar.classes == NAMES
    assert isinstance(clockseg.load(found.file, engine="openvino")(picture((64, 48))), Instances)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("checkpoint", ["Mask2Former", "RF-DETR"], indirect=True)
def test_instances_of_a_video_are_coco_results(checkpoint: Path, tmp_path: Path) -> None:
    source = hf.hf_source(checkpoint, engine=openvino, name="coco-instance")
    found = cut_network(source, tmp_path / "net.onnx", engine="openvino", repeat=1)
    # Random weights are sure of nothing.
    said = json.loads((tmp_path / "net.json").read_text())
    (tmp_path / "net.json").write_text(json.dumps(said | {"instances": said["instances"] | {"score": 0.0}}))
    with OverlayWriter(tmp_path / "clip.mp4", fps=25) as writer:
        for number in range(8):
            writer.append(np.roll(picture((96, 64)), 2 * number, axis=1), number / 25)
    net = clockseg.load(found.file, engine="openvino")
    schedule = clockseg.parse_schedule("carried(skip_frame(6), interpolate(flow))")
    assert clockseg.segment(tmp_path / "clip.mp4", tmp_path / "out", net, schedule).summary["frames"] == 8
    assert check_coco(tmp_path / "out", NAMES) > 8


@pytest.mark.parametrize("checkpoint", ["CLIPSeg"], indirect=True)
def test_words_are_the_classes_of_clipseg(checkpoint: Path, tmp_path: Path) -> None:
    words = Said(classes=("a road", "sky", "car"))
    found = cut_network(
        hf.hf_source(checkpoint, given=words, engine=openvino), tmp_path / "net.onnx", engine="openvino"
    )
    net = clockseg.load(found.file, engine="openvino")
    assert net.classes == words.classes
    model = transformers.CLIPSegForImageSegmentation.from_pretrained(checkpoint).eval()
    texts = [[vocabulary().index(token) for token in tokens(word)] for word in net.classes]
    length = max(map(len, texts))
    ids = torch.tensor([text + [0] * (length - len(text)) for text in texts])
    mask = torch.tensor([[1] * len(text) + [0] * (length - len(text)) for text in texts])
    with torch.inference_mode():
        wanted = model(ids, frame((64, 64)).expand(3, -1, -1, -1), attention_mask=mask).logits.numpy()
    second, first = np.sort(wanted, axis=0)[-2:]
    sure = first - second > 1e-4 * np.abs(wanted).max()
    assert sure.any()
    assert np.array_equal(net(picture((64, 64)))[sure], wanted.argmax(0)[sure])


@pytest.mark.parametrize("checkpoint", ["Depth Anything"], indirect=True)
def test_depth_whose_graph_has_constants_of_the_adapter_too(checkpoint: Path) -> None:
    source = hf.hf_source(checkpoint, engine=openvino)
    model = transformers.AutoModelForDepthEstimation.from_pretrained(checkpoint).eval()
    with torch.inference_mode():
        wanted = model(frame(source.said.size)).predicted_depth.numpy()
    np.testing.assert_allclose(given_by(source)[:, 0], wanted, atol=1e-4 * wanted.max())
    made = [name for node in source.model.graph.node for name in node.output]
    assert len(made) == len(set(made))


def test_patches_pooling_and_filling_are_exported(tmp_path: Path) -> None:
    """MobileViTV2's patches, which ONNX has from opset 18 on; UPerNet's pooling; OneFormer's masks."""

    class Module(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            patches = torch.nn.functional.unfold(image, 4, stride=4)
            mask = patches.sigmoid() < 0.5
            mask[torch.where(mask.sum(-1) > 10)] = False
            plain = torch.nn.functional.fold(patches * mask, image.shape[-2:], 4, stride=4)
            return plain + torch.nn.functional.adaptive_avg_pool2d(image, (3, 1)).mean()

    exported, told = onnx_export.export(Module(), (32, 16), engine=openvino, of="torch")
    assert "fixed to it" in told.why
    assert not {"NonZero", "Col2Im"} & {node.op_type for node in exported.graph.node}


def test_patches_that_do_not_fill_the_picture() -> None:
    picture, columns = torch.arange(20.0).view(1, 1, 4, 5), torch.arange(32.0).view(1, 8, 4)
    assert torch.equal(onnx_export.unfolded(picture, 2), torch.nn.functional.unfold(picture, 2, stride=2))
    assert torch.equal(onnx_export.folded(columns, (4, 5), 2), torch.nn.functional.fold(columns, (4, 5), 2, stride=2))


# What is refused


def test_a_size_that_a_checkpoint_is_not_made_for(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"fails on frames of 100x75: .* The checkpoint's own size is 64x64\."):
        hf.hf_source(write_checkpoint("EoMT", tmp_path), given=Said(size=(100, 75)), engine=openvino)


def folder(path: Path, architecture: str) -> Path:
    """A checkpoint without weights."""
    config = {"architectures": [architecture], "id2label": {"0": "road", "1": "sky"}}
    (path / "config.json").write_text(json.dumps(config))
    processor = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 64, "width": 64}}
    (path / "preprocessor_config.json").write_text(json.dumps(processor))
    return path


@pytest.mark.parametrize(
    ("architecture", "text"),
    [
        ("CLIPSegForImageSegmentation", r"whose classes are words that you choose.* --classes road,car,sky"),
        ("VideomtForUniversalSegmentation", "whose output can't be used"),
    ],
)
def test_checkpoints_that_need_something_else(tmp_path: Path, architecture: str, text: str) -> None:
    with pytest.raises((NetworkError, UsageError), match=text):
        hf.hf_source(folder(tmp_path, architecture), engine=openvino)


def test_words_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="has no tokenizer that transformers can load"):
        hf.hf_source(folder(tmp_path, "CLIPSegForImageSegmentation"), given=Said(classes=("a", "b")), engine=openvino)
