"""Small networks of transformers with random weights, one an architecture, and their checkpoint folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf

NAMES = ("road", "sky", "car", "person")
SIZE = (128, 96)
PROCESSOR = {
    "do_normalize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "size": {"height": SIZE[1], "width": SIZE[0]},
}
SQUARE = {"size": {"height": 64, "width": 64}}
"""Of networks whose position embeddings fit one size."""
LABELS = {"id2label": dict(enumerate(NAMES)), "label2id": {name: id for id, name in enumerate(NAMES)}}
SWIN = {"embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 4}
VIT = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
MASKS = {"hidden_dim": 32, "feature_size": 32, "mask_feature_size": 32, "num_queries": 10, "num_attention_heads": 2}


def swin() -> Any:
    return hf.SwinConfig(**SWIN, out_features=["stage1", "stage2", "stage3", "stage4"])


def convnext() -> Any:
    stages = [f"stage{number}" for number in range(1, 5)]
    return hf.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=stages)


def dinov2() -> Any:
    return hf.Dinov2Config(
        **VIT, image_size=56, patch_size=14, out_indices=[1, 2, 3, 4], apply_layernorm=True, reshape_hidden_states=False
    )


def upernet(backbone: Any) -> Any:
    config = hf.UperNetConfig(backbone_config=backbone, hidden_size=16, auxiliary_channels=16, **LABELS)
    config.auxiliary_in_channels = 32 if isinstance(backbone, hf.SwinConfig) else 24
    return hf.UperNetForSemanticSegmentation(config)


def segformer() -> Any:
    config = hf.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        **LABELS,
    )
    return hf.SegformerForSemanticSegmentation(config)


def mobilevit() -> Any:
    config = hf.MobileViTConfig(
        hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 24, 32, 40, 48], num_attention_heads=2, **LABELS
    )
    return hf.MobileViTForSemanticSegmentation(config)


def mask2former() -> Any:
    config = hf.Mask2FormerConfig(
        backbone_config=swin(), **MASKS, encoder_layers=1, decoder_layers=3, dim_feedforward=32, **LABELS
    )
    config.encoder_feedforward_dim = 32
    return hf.Mask2FormerForUniversalSegmentation(config)


def maskformer() -> Any:
    decoder = hf.DetrConfig(
        d_model=32, decoder_layers=2, decoder_ffn_dim=32, decoder_attention_heads=2, num_queries=10, encoder_layers=1
    )
    config = hf.MaskFormerConfig(
        backbone_config=swin(), decoder_config=decoder, fpn_feature_size=32, mask_feature_size=32, **LABELS
    )
    return hf.MaskFormerForInstanceSegmentation(config)


def oneformer() -> Any:
    config = hf.OneFormerConfig(
        backbone_config=swin(),
        num_queries=10,
        hidden_dim=32,
        mask_dim=32,
        conv_dim=32,
        encoder_feedforward_dim=32,
        dim_feedforward=32,
        encoder_layers=1,
        decoder_layers=3,
        query_dec_layers=1,
        num_attention_heads=2,
        text_encoder_width=32,
        text_encoder_n_ctx=4,
        text_encoder_proj_layers=1,
        text_encoder_num_layers=1,
        text_encoder_vocab_size=len(vocabulary()),
        max_seq_len=12,
        task_seq_len=12,
        **LABELS,
    )
    return hf.OneFormerForUniversalSegmentation(config)


def detr() -> Any:
    backbone = hf.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = hf.DetrConfig(
        backbone_config=backbone,
        use_timm_backbone=False,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        num_queries=10,
        **LABELS,
    )
    return hf.DetrForSegmentation(config)


def rf_detr() -> Any:
    backbone = hf.RfDetrDinov2Config(
        **VIT, image_size=64, patch_size=8, num_windows=2, out_features=[f"stage{number}" for number in range(1, 5)]
    )
    config = hf.RfDetrConfig(
        backbone_config=backbone,
        d_model=32,
        decoder_layers=2,
        decoder_ffn_dim=32,
        decoder_self_attention_heads=2,
        decoder_cross_attention_heads=4,
        num_queries=10,
        group_detr=1,
        intermediate_size=32,
        **LABELS,
    )
    made = hf.RfDetrForInstanceSegmentation(config)
    # Without training no mask would have a pixel inside.
    made.segmentation_bias.data.fill_(2.0)
    return made


def eomt() -> Any:
    config = hf.EomtConfig(
        **{**VIT, "num_hidden_layers": 5},
        image_size=64,
        patch_size=8,
        num_blocks=2,
        num_upscale_blocks=1,
        num_queries=10,
        **LABELS,
    )
    return hf.EomtForUniversalSegmentation(config)


def clipseg() -> Any:
    text = {**VIT, "num_hidden_layers": 1, "vocab_size": len(vocabulary()), "max_position_embeddings": 12}
    text |= {"eos_token_id": len(vocabulary()) - 1, "bos_token_id": len(vocabulary()) - 2, "pad_token_id": 0}
    config = hf.CLIPSegConfig(
        text_config=text,
        vision_config={**VIT, "image_size": 64, "patch_size": 8},
        projection_dim=16,
        reduce_dim=8,
        extract_layers=[1, 2, 3],
        decoder_num_attention_heads=2,
        decoder_intermediate_size=16,
        conditional_layer=0,
    )
    return hf.CLIPSegForImageSegmentation(config)


def dpt(kind: Any) -> Any:
    config = hf.DPTConfig(
        **VIT,
        image_size=64,
        patch_size=16,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16,
        use_auxiliary_head=False,
        **LABELS,
    )
    return kind(config)


def beit() -> Any:
    config = hf.BeitConfig(
        **VIT,
        image_size=64,
        patch_size=16,
        out_indices=[1, 2, 3, 4],
        use_relative_position_bias=True,
        use_auxiliary_head=False,
        pool_scales=[1, 2],
        **LABELS,
    )
    return hf.BeitForSemanticSegmentation(config)


def depth_anything() -> Any:
    config = hf.DepthAnythingConfig(
        backbone_config=dinov2(),
        reassemble_hidden_size=16,
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16,
        head_hidden_size=8,
    )
    return hf.DepthAnythingForDepthEstimation(config)


def zoedepth() -> Any:
    backbone = hf.BeitConfig(**VIT, image_size=64, patch_size=16, out_indices=[1, 2, 3, 4], reshape_hidden_states=False)
    backbone.use_relative_position_bias = True
    config = hf.ZoeDepthConfig(
        backbone_config=backbone,
        backbone_hidden_size=16,
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16,
        bottleneck_features=16,
        bin_embedding_dim=8,
        num_relative_features=8,
    )
    return hf.ZoeDepthForDepthEstimation(config)


def glpn() -> Any:
    config = hf.GLPNConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=8
    )
    return hf.GLPNForDepthEstimation(config)


ARCHITECTURES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "SegFormer": (segformer, {}),
    "UPerNet (ConvNeXt)": (lambda: upernet(convnext()), {}),
    "UPerNet (Swin)": (lambda: upernet(swin()), {}),
    "BEiT": (beit, SQUARE),
    "DPT": (lambda: dpt(hf.DPTForSemanticSegmentation), SQUARE),
    "MobileViT": (mobilevit, {}),
    "MobileViTV2": (
        lambda: hf.MobileViTV2ForSemanticSegmentation(hf.MobileViTV2Config(width_multiplier=0.25, **LABELS)),
        {},
    ),
    "DeepLabV3+ (MobileNetV2)": (
        lambda: hf.MobileNetV2ForSemanticSegmentation(hf.MobileNetV2Config(depth_multiplier=0.25, **LABELS)),
        {},
    ),
    "MaskFormer": (maskformer, {}),
    "Mask2Former": (mask2former, {}),
    "OneFormer": (oneformer, {}),
    "DETR": (detr, {}),
    "RF-DETR": (rf_detr, SQUARE),
    "EoMT": (eomt, SQUARE),
    "CLIPSeg": (clipseg, SQUARE),
    "DPT, depth": (lambda: dpt(hf.DPTForDepthEstimation), SQUARE),
    "GLPN": (glpn, {}),
    "Depth Anything": (depth_anything, {"size": {"height": 56, "width": 84}}),
    "ZoeDepth": (zoedepth, SQUARE),
}
"""The maker of each architecture, and what its processor says other than ``PROCESSOR``."""


def vocabulary() -> list[str]:
    """The tokens of the small tokenizer: single letters, and the ends of a text."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    return [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]


def write_checkpoint(name: str, folder: Path) -> Path:
    """Write the architecture ``name`` with random weights into ``folder``, as its authors would."""
    make, said = ARCHITECTURES[name]
    torch.manual_seed(0)
    network = make().eval()
    network.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | said))
    if name in ("OneFormer", "CLIPSeg"):
        vocab = {token: id for id, token in enumerate(vocabulary())}
        hf.CLIPTokenizer(vocab=vocab, merges=[]).save_pretrained(folder)
    return folder
