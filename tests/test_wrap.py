"""A module on a clock: it gives what it gave, in the form it gave it, and is itself again when that is switched off."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import copy
import pickle
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clockseg.errors import NetworkError, UsageError
from clockseg.wrapping import wrap
from clockseg.wrapping.clocked import Outcome, asked_for
from clockseg.wrapping.staging import pictured, preprocessing

transformers = pytest.importorskip(
    "transformers", reason="needs transformers: pip install '.[transformers]' in the clone"
)

ENGINES = ("module", "torch", "openvino", "onnxruntime")
HALVES = (0.5, 0.5, 0.5)


class Plain(nn.Module):
    """Two stages with a skip, scores of four classes; ``form`` makes of them what it gives."""

    def __init__(self, form: Any = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.low = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(8, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 4, 1))
        self.skip = nn.Conv2d(8, 4, 1)
        self.form = form

    def forward(self, image: Tensor, mask: Tensor | None = None) -> Any:
        low = self.low(image)
        deep = nn.functional.interpolate(self.deep(low), scale_factor=2.0, mode="bilinear")
        scores = deep + self.skip(low)
        return scores if self.form is None else self.form(scores)


class Pair(NamedTuple):
    scores: Tensor
    name: str


@pytest.fixture
def module() -> Plain:
    return Plain().eval()


@pytest.fixture
def frames() -> list[Tensor]:
    torch.manual_seed(1)
    return list(torch.rand(6, 1, 3, 32, 48))


def segformer() -> Any:
    torch.manual_seed(0)
    config = transformers.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        num_labels=4,
    )
    return transformers.SegformerForSemanticSegmentation(config).eval()


def upernet() -> Any:
    torch.manual_seed(0)
    stages = ["stage1", "stage2", "stage3", "stage4"]
    backbone = transformers.ConvNextConfig(hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1], out_features=stages)
    config = transformers.UperNetConfig(
        backbone_config=backbone, hidden_size=16, num_labels=4, use_auxiliary_head=False, pool_scales=[1, 2]
    )
    return transformers.UperNetForSemanticSegmentation(config).eval()


def apart(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


@torch.no_grad()
def given(module: nn.Module, frames: list[Tensor]) -> list[Any]:
    return [module(frame) for frame in frames]


# What comes out


@pytest.mark.parametrize(
    ("make", "engine"), [*((segformer, engine) for engine in ENGINES), (upernet, "torch"), (upernet, "onnxruntime")]
)
def test_with_every_stage_firing_a_transformers_model_gives_what_it_gave(make, engine) -> None:
    model, frames = make(), list(torch.rand(2, 1, 3, 64, 96))
    before = given(model, frames)
    with wrap(model, "frame_oracle", engine=engine) as clocked:
        after = given(model, frames)
        assert set(clocked.tally.fire_rate.values()) == {1.0}
        assert len(clocked.net) > 1
        assert type(after[0]) is type(before[0])
        assert list(after[0].keys()) == ["logits"]
        for ours, theirs in zip(after, before, strict=True):
            assert ours.logits.shape == theirs.logits.shape
            assert apart(ours.logits, theirs.logits) < 1e-4
        [alone] = model(pixel_values=frames[0], return_dict=False)
        assert apart(alone, before[0].logits) < 1e-4


@pytest.mark.parametrize(
    ("form", "output"),
    [
        (None, None),
        (lambda scores: {"out": scores}, None),
        (lambda scores: (scores,), None),
        (lambda scores: [scores, "labels"], None),
        (lambda scores: Pair(scores, "scores"), None),
        (lambda scores: {"out": scores, "aux": scores * 2}, "out"),
        (lambda scores: (scores * 2, scores), "1"),
    ],
)
def test_the_form_is_the_module_s_own(form, output, frames) -> None:
    module = Plain(form).eval()
    before = given(module, frames[:2])
    with wrap(module, "frame_oracle", output=output):
        after = given(module, frames[:2])
    for ours, theirs in zip(after, before, strict=True):
        assert type(ours) is type(theirs)
        key = 1 if output == "1" else "out" if isinstance(theirs, dict) else 0
        assert apart(*((one if form is None else one[key]) for one in (ours, theirs))) < 1e-4
    if isinstance(before[0], dict):
        assert set(after[0]) == {"out"}
    if isinstance(before[0], Pair):
        assert after[0].name == "scores"
    if output == "1":
        assert after[0][0] is None


def test_an_output_by_its_number(frames) -> None:
    class Two(Plain):
        def forward(self, image):
            made = super().forward(image)
            return made, 2 * made

    torch.manual_seed(0)
    for output in (0, "0"):
        module = Two().eval()
        wanted = module(frames[0])[0]
        wrap(module, "skip_frame(2)", output=output)
        made, other = module(frames[0])
        assert torch.allclose(made, wanted, atol=1e-5)
        assert other is None


def test_other_tensors_need_a_word(frames) -> None:
    module = Plain(lambda scores: {"out": scores, "aux": scores * 2}).eval()
    clocked = wrap(module)
    with pytest.raises(UsageError, match=r"beside 'out' the module gives 'aux'.*output='out'"):
        module(frames[0])
    assert not clocked.is_on
    assert set(module(frames[0])) == {"out", "aux"}


def test_a_tensor_inside_of_another_entry_is_refused(frames) -> None:
    with pytest.raises(UsageError, match="is nested in another"):
        Outcome.of({"all": {"out": frames[0]}}, "all.out")


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_held_is_what_it_was(module, frames, engine) -> None:
    with wrap(module, "skip_frame(3)", engine=engine) as clocked:
        outs = given(module, frames)
        assert clocked.tally.network_rate == 1 / 5
        assert clocked.record.fired == (False,) * len(clocked.net)
    assert torch.equal(outs[0], outs[1])
    assert torch.equal(outs[3], outs[5])
    assert not torch.equal(outs[2], outs[3])
    assert apart(outs[3], given(module, frames[3:4])[0]) < 1e-4


def test_only_the_stages_that_fire_are_fresh(module, frames) -> None:
    with wrap(module, "fixed_rate((1, 6))", stages=2, at=["low", "deep"]) as clocked:
        outs = given(module, frames)
        assert clocked.tally.fire_rate == {"stage1": 1.0, "stage2": 0.0}
    with torch.no_grad():
        deep = nn.functional.interpolate(module.deep(module.low(frames[0])), scale_factor=2.0, mode="bilinear")
        mixed = deep + module.skip(module.low(frames[4]))
    assert apart(outs[4], mixed) < 1e-4


@pytest.mark.parametrize("engine", ENGINES)
def test_the_caller_may_write_into_what_it_gets(module, frames, engine) -> None:
    with wrap(module, "skip_frame(6)", engine=engine):
        first = module(frames[0])
        kept = first.clone()
        first.zero_()
        assert torch.equal(module(frames[1]), kept)


def test_the_caller_may_write_the_next_frame_into_the_same_memory(module, frames) -> None:
    with wrap(module, 'difference(0.01, of="pixels")', processor=(HALVES, HALVES)) as clocked:
        buffer = torch.empty(1, 3, 32, 48)
        for frame in frames[:3]:
            module(buffer.copy_(frame))
        assert clocked.tally.network_rate == 1.0


# Switching


def test_off_gives_the_very_module_back(module, frames) -> None:
    before, attributes, state = given(module, frames), list(vars(module)), list(module.state_dict())
    clocked = wrap(module, "skip_frame(2)")
    given(module, frames)
    assert list(module.state_dict()) == state
    assert clocked.off() is module
    assert not clocked.is_on
    assert list(vars(module)) == attributes
    assert all(torch.equal(a, b) for a, b in zip(given(module, frames), before, strict=True))
    clocked.on()
    assert torch.equal(*given(module, frames[:2]))
    assert clocked.off() is clocked.off() is module


def test_a_forward_of_its_own_comes_back(module, frames) -> None:
    own = module.forward
    module.forward = lambda image: own(image) * 2
    twice = vars(module)["forward"]
    with wrap(module, "frame_oracle") as clocked:
        assert clocked.is_on
        ours = given(module, frames[:1])[0]
    assert vars(module)["forward"] is twice
    assert apart(ours, given(module, frames[:1])[0]) < 1e-4


def test_on_twice_is_refused(module) -> None:
    clocked = wrap(module)
    assert clocked.on() is clocked
    with pytest.raises(UsageError, match="wrapped already"):
        wrap(module)
    clocked.off()
    wrap(module).off()


def test_hooks_run_and_copies_are_the_module_s_own(module, frames) -> None:
    seen = []
    handle = module.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    wrap(module, "skip_frame(2)")
    given(module, frames[:2])
    assert len(seen) == 2 + 1  # exporting and comparing don't go through it, but for the trace
    handle.remove()
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        outs = given(copied, frames[:2])
        assert not torch.equal(*outs)
        assert torch.equal(given(pickle.loads(pickle.dumps(copied)), frames[:1])[0], outs[0])


def test_a_reset_begins_a_clip(module, frames) -> None:
    with wrap(module, "skip_frame(6)") as clocked:
        first, held = given(module, frames[:2])
        clocked.reset()
        with pytest.raises(UsageError, match="since the reset"):
            clocked.record  # noqa: B018
        [fresh] = given(module, frames[1:2])
    assert torch.equal(first, held)
    assert not torch.equal(fresh, held)


def test_before_the_first_frame_there_is_nothing_to_tell(module) -> None:
    with wrap(module) as clocked, pytest.raises(UsageError, match="nothing has run yet"):
        clocked.tally  # noqa: B018


# Calls that are no frames


def test_training_labels_and_gradients_go_to_the_module(module, frames) -> None:
    clocked = wrap(module, "skip_frame(6)")
    module(frames[0])
    wanted = frames[1].clone().requires_grad_()
    module(wanted).sum().backward()
    assert wanted.grad is not None
    with pytest.warns(UserWarning, match="isn't clocked because of the arguments mask"):
        assert module(frames[1], mask=torch.ones(1)).requires_grad
    assert module(frames[1], torch.ones(1)).requires_grad  # told once
    module.train()
    assert module(frames[1]).requires_grad
    module.eval()
    assert clocked.passed == 4
    assert not module(frames[2]).requires_grad
    with pytest.raises(TypeError, match="missing"):
        module()


def test_labels_of_transformers_give_its_loss() -> None:
    model, frame = segformer(), torch.rand(1, 3, 64, 96)
    wrap(model)
    with pytest.warns(UserWarning, match="arguments labels"):
        found = model(pixel_values=frame, labels=torch.zeros(1, 64, 96, dtype=torch.long))
    assert found.loss.requires_grad
    assert model(frame, output_hidden_states=True).hidden_states is not None
    assert list(model(frame, output_hidden_states=False).keys()) == ["logits"]


def test_what_a_call_asks_for() -> None:
    class Free(nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return args[0]

    free, frame = Free().eval(), torch.zeros(1, 3, 2, 2)
    asked = partial(asked_for, free, "args")
    assert asked((frame,), {"scale": None, "return_dict": True}) == (frame, {"return_dict": True}, ())
    assert asked((frame, frame), {}) == (None, {}, ("1",))
    assert asked((frame,), {"scale": 2}) == (None, {}, ("scale",))
    assert asked((frame[0],), {}).frames is None
    assert asked((), {}).frames is None


@torch.inference_mode()
def test_inside_of_inference_mode(module, frames) -> None:
    with wrap(module, "skip_frame(2)"):
        assert torch.equal(*given(module, frames[:2]))


def test_autocast_is_refused(module, frames) -> None:
    with (
        wrap(module),
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(UsageError, match="precision='bf16'"),
    ):
        module(frames[0])


# Weights, shapes, batches


@pytest.mark.parametrize("engine", ENGINES)
def test_new_weights_count_at_once(module, frames, engine) -> None:
    with wrap(module, "frame_oracle", engine=engine):
        module(frames[0])
        with torch.no_grad():
            module.skip.weight.mul_(3)
        ours = given(module, frames[:1])[0]
    assert apart(ours, given(module, frames[:1])[0]) < 1e-4


def test_a_new_shape_and_back(module, frames) -> None:
    other = torch.rand(1, 3, 48, 32)
    wanted = given(module, [frames[0], other, frames[1]])
    with wrap(module, "skip_frame(6)") as clocked:
        outs = given(module, [frames[0], other, other, frames[1]])
        assert clocked.record.fill
    assert [out.shape for out in outs] == [one.shape for one in (wanted[0], wanted[1], wanted[1], wanted[2])]
    assert torch.equal(outs[1], outs[2])
    assert all(apart(outs[at], one) < 1e-4 for at, one in ((0, wanted[0]), (1, wanted[1]), (3, wanted[2])))


def test_another_type_of_number(module, frames) -> None:
    doubles = [frame.double() for frame in frames[:2]]
    with wrap(module.double(), "frame_oracle"):
        outs = given(module, doubles)
    assert outs[0].dtype == torch.float64
    assert apart(outs[1], given(module, doubles)[1]) < 1e-10


def test_a_batch_needs_a_word(module, frames) -> None:
    with wrap(module), pytest.raises(UsageError, match="batch='streams'"):
        module(torch.cat(frames[:2]))


def test_a_batch_of_streams(module, frames) -> None:
    with wrap(module, "skip_frame(2)", batch="streams") as clocked:
        first, held = given(module, [torch.cat(frames[:2]), torch.cat(frames[2:4])])
        with pytest.raises(UsageError, match="3 streams after 2"):
            module(torch.cat(frames[:3]))
        assert clocked.tally.frames == 4
    assert torch.equal(first, held)
    assert apart(first, torch.cat(given(module, frames[:2]))) < 1e-4


def test_a_batch_of_frames_in_order(module, frames) -> None:
    with wrap(module, "skip_frame(3)", batch="frames") as clocked:
        outs = given(module, [torch.cat(frames[:4]), torch.cat(frames[4:])])
        assert clocked.tally.frames == 6
    assert torch.equal(outs[0][0], outs[0][2])
    assert torch.equal(outs[0][3], outs[1][1])
    assert apart(outs[0][3:], given(module, frames[3:4])[0]) < 1e-4


# The picture


@pytest.mark.parametrize("engine", ["torch", "openvino"])
def test_what_is_held_moves_along_with_the_picture(engine) -> None:
    """Eight pixels to the right, four cells of its output: the moved output has moved four cells."""
    module = Plain().eval()
    torch.manual_seed(2)
    wide = nn.functional.interpolate(torch.rand(1, 3, 16, 40), scale_factor=8.0, mode="bicubic").clamp(0, 1)
    still, moved = wide[..., 8:200], wide[..., :192]
    with wrap(module, "skip_frame(2)", carry="warp(flow)", processor=((0.0,) * 3, (1.0,) * 3), engine=engine):
        first, carried = given(module, [still, moved])
    middle = (slice(None), slice(None), slice(8, -8), slice(12, -12))
    there = torch.roll(first, 4, dims=3)
    assert (carried - there)[middle].abs().mean() < 0.4 * (first - there)[middle].abs().mean()
    assert carried.shape == first.shape


@pytest.mark.parametrize("options", [{"carry": "warp(flow)"}, {"schedule": 'difference(0.1, of="pixels")'}])
def test_looking_at_the_picture_needs_the_processor(module, frames, options) -> None:
    wrap(module, **options)
    with pytest.raises(UsageError, match="processor="):
        module(frames[0])
    assert module(frames[0]).requires_grad


def test_clocks_on_class_scores_are_refused(module, frames) -> None:
    clocked = wrap(module, "adaptive(0.2)")
    with pytest.raises(UsageError, match="no class scores at stage"):
        module(frames[0])
    assert not clocked.is_on


@pytest.mark.parametrize("engine", ["torch", "openvino"])
def test_sixteen_bits_need_a_tolerance(module, frames, engine) -> None:
    before = given(module, frames[:1])[0]
    with wrap(module, "frame_oracle", engine=engine, precision="bf16", tolerance=0.05):
        [out] = given(module, frames[:1])
    assert out.dtype == torch.float32
    assert apart(out, before) < 0.05


def test_the_picture_is_what_the_processor_was_given() -> None:
    processor = transformers.SegformerImageProcessor(do_resize=False, do_rescale=True, do_normalize=True)
    pixels = torch.randint(0, 256, (3, 8, 12), dtype=torch.uint8)
    frame = processor(pixels, return_tensors="pt")["pixel_values"]
    assert (pictured(frame, preprocessing(processor)) == pixels.permute(1, 2, 0).numpy()).all()
    raw = preprocessing(transformers.SegformerImageProcessor(do_rescale=False, do_normalize=False))
    assert (pictured(pixels[None].float(), raw) == pixels.permute(1, 2, 0).numpy()).all()


@pytest.mark.parametrize("processor", ["mean", (1, 2), ((0.5,), (0.5,)), (HALVES, (0.0, 1.0, 1.0))])
def test_what_is_no_processor(module, processor) -> None:
    with pytest.raises(UsageError, match="image_mean and image_std"):
        wrap(module, processor=processor)


# Recommended


def test_recommended_without_pictures_runs_every_third_frame(module, frames) -> None:
    with wrap(module, at=["low", "deep"]) as clocked:
        given(module, frames[:1] * 7)
        assert clocked.tally.fire_rate == {"stage1": 1 / 3, "stage2": 1 / 3}


def test_recommended_with_pictures_moves_them(module, frames) -> None:
    with wrap(module, processor=(HALVES, HALVES)) as clocked:
        given(module, frames)
        assert str(clocked.schedule.carry) == "warp(flow)"
        assert clocked.tally.network_rate == 1 / 5


# What can't be


def test_a_module_that_can_not_be_exported_is_left_as_it_was(frames) -> None:
    class Deciding(Plain):
        def forward(self, image: Tensor) -> Tensor:
            return super().forward(image) if image.sum() > 0 else image

    module = Deciding().eval()
    before = given(module, frames[:1])[0]
    clocked = wrap(module)
    with pytest.raises(NetworkError, match=r"torch\.export can't follow.*test_wrap\.py"):
        module(frames[0])
    assert not clocked.is_on
    assert torch.equal(given(module, frames[:1])[0], before)


def test_parts_that_give_something_else_are_refused(module, frames) -> None:
    wrap(module, engine="openvino", tolerance=0.0)
    with pytest.raises(NetworkError, match="of its largest value"):
        module(frames[0])
    assert "forward" not in vars(module)


@pytest.mark.parametrize("engine", ENGINES)
def test_cuts_are_given_as_a_list(module, frames, engine) -> None:
    with wrap(module, at="low", engine=engine), pytest.raises(UsageError, match="give a list, one tensor per stage"):
        module(frames[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "tensorflow"}, "there is no engine 'tensorflow'"),
        ({"engine": "module", "precision": "bf16"}, "engine='torch'"),
        ({"schedule": "skip_frame(0)"}, "skip_frame"),
        ({"carry": "warp(wind)"}, "wind"),
        ({"batch": "videos"}, "'streams' or 'frames'"),
    ],
)
def test_wrong_arguments_are_refused_at_once(module, options, message) -> None:
    with pytest.raises(UsageError, match=message):
        wrap(module, **options)
    assert "forward" not in vars(module)


def test_training_mode_is_refused() -> None:
    with pytest.raises(UsageError, match=r"call eval\(\)"):
        wrap(Plain())


def test_what_is_no_module() -> None:
    with pytest.raises(UsageError, match=r"is a function; give a torch\.nn\.Module"):
        wrap(given)
