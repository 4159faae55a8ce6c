"""Instances: recognised from exports, decoded, followed from key frame to key frame, written and read."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import clockseg
from benchmarks.instance_scores import Score, score
from blobs import NAMES, SIZE, Disc, blob_model, check_coco, found_masks, scene, scenes, shaped_model, write_blobs
from clockseg.cli.main import main
from clockseg.errors import NetworkError, UsageError
from clockseg.instances.heads import Head
from clockseg.instances.network import assignment
from clockseg.instances.recognising import recognise
from clockseg.instances.sets import Instances, decoded, encoded
from clockseg.networks.cutting import cut_network
from clockseg.networks.source import NOTHING_SAID, Said
from clockseg.showing.kind import kind_of
from clockseg.types import FRAME_SIZE
from clockseg.video import OverlayWriter, write_png

ENGINE = "onnxruntime"


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blobs")
    cut_network(write_blobs(folder), folder / "net.onnx", engine=ENGINE, repeat=1)
    return folder / "net.onnx"


@pytest.fixture(scope="module")
def net(network):
    return clockseg.load(network, engine=ENGINE, threads=1)


def followed(net, video, schedule: str) -> Score:
    outputs = (output for output, _ in clockseg.run(net, video.images, clockseg.parse_schedule(schedule)))
    return score(zip(found_masks(outputs), video.truth, strict=True))


# Recognition.


def outputs_model(*outputs: tuple[str, int, list[int | str]], **metadata: str) -> onnx.ModelProto:
    """A network with these outputs that computes nothing."""
    nodes = []
    for name, kind, shape in outputs:
        value = numpy_helper.from_array(np.zeros([1 if isinstance(side, str) else side for side in shape], np.float32))
        nodes.append(helper.make_node("Constant", [], [f"{name}.value"], value=value, name=f"{name}.value"))
        nodes.append(helper.make_node("Cast", [f"{name}.value"], [name], to=kind, name=name))
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 64, 64])],
        [helper.make_tensor_value_info(*output) for output in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, metadata)
    return model


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
EXPORTS = {
    "yolo": [("output0", FLOAT, [1, 116, 84]), ("output1", FLOAT, [1, 32, 16, 16])],
    "yolo-suppressed": [("output0", FLOAT, [1, 300, 38]), ("output1", FLOAT, [1, 32, 16, 16])],
    "detr": [("dets", FLOAT, [1, 50, 4]), ("labels", FLOAT, [1, 50, 91]), ("masks", FLOAT, [1, 50, 16, 16])],
    "queries": [("class_queries_logits", FLOAT, [1, 100, 81]), ("masks_queries_logits", FLOAT, [1, 100, 16, 16])],
    "rcnn": [
        ("boxes", FLOAT, ["n", 4]),
        ("labels", INT64, ["n"]),
        ("scores", FLOAT, ["n"]),
        ("masks", FLOAT, ["n", 1, 64, 64]),
    ],
}


@pytest.mark.parametrize("layout", EXPORTS)
def test_the_usual_exports_are_recognised_by_their_outputs(layout):
    found = recognise(outputs_model(*EXPORTS[layout]))

    assert found is not None
    assert found.head.layout == layout
    assert set(found.head.outputs) == {name for name, _, _ in EXPORTS[layout]}
    assert found.classes == {"yolo": 80, "yolo-suppressed": None, "detr": 91, "queries": 80, "rcnn": None}[layout]


def test_names_size_stride_and_thresholds_are_read_from_the_metadata():
    told = {"names": "{0: 'cat', 1: 'dog'}", "stride": "16", "imgsz": "[48, 64]", "args": "{'conf': 0.4, 'iou': 0.5}"}
    outputs = [("output0", FLOAT, [1, 38, 84]), ("output1", FLOAT, [1, 32, 16, 16])]

    found = recognise(outputs_model(*outputs, task="segment", **told))

    assert (found.names, found.size, found.stride) == (("cat", "dog"), (64, 48), 16)
    assert (found.head.score, found.head.overlap) == (0.4, 0.5)


def test_a_network_of_class_scores_is_not_taken_for_one_of_instances():
    assert recognise(outputs_model(("out", FLOAT, [1, 21, 16, 16]))) is None
    assert recognise(outputs_model(("out", FLOAT, [1, 21, 16, 16]), ("aux", FLOAT, [1, 21, 8, 8]))) is None


def test_an_export_without_masks_is_refused_with_the_shapes_and_what_is_needed(tmp_path):
    onnx.save(outputs_model(("output0", FLOAT, [1, 84, 84]), task="detect"), tmp_path / "detect.onnx")

    with pytest.raises(NetworkError, match=r"task 'detect'.*output0 \[1, 84, 84\].*YOLO-seg"):
        cut_network(tmp_path / "detect.onnx", tmp_path / "net.onnx")


def test_outputs_of_no_known_kind_are_refused_with_what_each_kind_looks_like(tmp_path):
    onnx.save(outputs_model(("a", FLOAT, [1, 7]), ("b", FLOAT, [1, 9])), tmp_path / "odd.onnx")

    with pytest.raises(UsageError, match=r"a \[1, 7\], b \[1, 9\].*class scores are.*matte.*instances are"):
        cut_network(tmp_path / "odd.onnx", tmp_path / "net.onnx", said=Said(mean=(0.0,) * 3, std=(1.0,) * 3))


def test_prototypes_are_not_taken_for_class_scores(network, tmp_path):
    found = cut_network(
        write_blobs(tmp_path), tmp_path / "net.onnx", said=Said(output="output1"), engine=ENGINE, repeat=1
    )

    assert found.sidecar.instances["layout"] == "yolo"
    assert found.sidecar.classes == NAMES


# Decoding.


def value(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {**arrays, FRAME_SIZE: np.array([64, 64])}


def square(left: int, top: int, side: int) -> np.ndarray:
    found = np.full((16, 16), -9.0, np.float32)
    found[top : top + side, left : left + side] = 9.0
    return found


def test_boxes_and_masks_are_scaled_from_the_padded_frame_to_the_frame():
    boxes, logits = np.float32([[[0.25, 0.125, 0.25, 0.125]]]), np.float32([[[-9, 5, -9]]])
    head = Head("detr", ("dets", "labels", "masks"))

    found = head.decode(value(dets=boxes, labels=logits, masks=square(2, 1, 4)[None, None]), (64, 32), (128, 64))

    assert found.classes.tolist() == [1]
    assert found.boxes.tolist() == [[16.0, 8.0, 48.0, 24.0]]
    rows, columns = np.nonzero(found.mask(0))
    assert (columns.min(), columns.max() + 1, rows.min(), rows.max() + 1) == (16, 48, 8, 24)


def test_an_object_smaller_than_a_cell_of_the_masks_is_not_lost():
    boxes, logits = np.float32([[[0.25, 0.125, 0.02, 0.03]]]), np.float32([[[-9, 5, -9]]])
    head = Head("detr", ("dets", "labels", "masks"))

    found = head.decode(value(dets=boxes, labels=logits, masks=square(2, 1, 4)[None, None]), (64, 64), (128, 128))

    assert found.boxes[0] == pytest.approx([30.72, 14.08, 33.28, 17.92])
    assert found.mask(0).sum() > 0


def test_overlapping_boxes_of_a_class_are_suppressed_and_low_scores_left_out():
    rows = np.zeros((1, 4 + 2 + 32, 50), np.float32)
    for n, (box, kind, sure) in enumerate(
        [((32, 32, 20, 20), 0, 0.9), ((33, 32, 20, 20), 0, 0.8), ((33, 32, 20, 20), 1, 0.7), ((8, 8, 9, 9), 0, 0.1)]
    ):
        rows[0, :4, n], rows[0, 4 + kind, n], rows[0, 6, n] = box, sure, 1
    prototypes = np.full((1, 32, 16, 16), 9, np.float32)

    found = Head("yolo", ("a", "b")).decode(value(a=rows, b=prototypes), (64, 64), (64, 64))

    assert found.scores.tolist() == pytest.approx([0.9, 0.7])
    assert found.classes.tolist() == [0, 1]


def test_both_yolo_layouts_give_the_same_instances():
    rows = np.zeros((1, 4 + 3 + 32, 60), np.float32)
    rows[0, :4, 5], rows[0, 6, 5], rows[0, 7, 5] = (20, 24, 16, 16), 0.8, 1
    ends = np.zeros((1, 300, 38), np.float32)
    ends[0, 7, :6], ends[0, 7, 6] = (12, 16, 28, 32, 0.8, 2), 1
    prototypes = np.tile(square(0, 0, 16), (1, 32, 1, 1))

    one = Head("yolo", ("a", "b")).decode(value(a=rows, b=prototypes), (64, 64), (64, 64))
    other = Head("yolo-suppressed", ("a", "b")).decode(value(a=ends, b=prototypes), (64, 64), (64, 64))

    assert one.boxes.tolist() == other.boxes.tolist() == [[12.0, 16.0, 28.0, 32.0]]
    assert one.classes.tolist() == other.classes.tolist() == [2]
    assert (one.soft == other.soft).all()


def test_objectness_weighs_the_scores_of_a_yolov5():
    outputs = [("output0", FLOAT, [1, 252, 117]), ("output1", FLOAT, [1, 32, 16, 16])]
    found = recognise(outputs_model(*outputs))
    assert (found.head.layout, found.classes) == ("yolov5", 80)
    rows = np.zeros((1, 252, 5 + 2 + 32), np.float32)
    rows[0, :2, :5], rows[0, :2, 5:8] = ((20, 20, 16, 16, 0.9), (44, 44, 16, 16, 0.2)), (0.1, 0.8, 1)
    prototypes = np.full((1, 32, 16, 16), 9, np.float32)

    [one] = Head("yolov5", ("a", "b")).decode(value(a=rows, b=prototypes), (64, 64), (64, 64)).scores

    assert one == pytest.approx(0.72)


def test_queries_of_a_mask_transformer_are_decoded():
    logits = np.float32([[[9, 0, 0], [0, 0, 9]]])
    found = Head("queries", ("a", "b"), score=0.5).decode(
        value(a=logits, b=np.stack([square(4, 4, 4), square(8, 8, 4)])[None]), (64, 64), (64, 64)
    )

    assert found.classes.tolist() == [0]
    assert found.boxes.tolist() == [[16.0, 16.0, 32.0, 32.0]]


def test_mask_rcnn_is_decoded_and_none_found_is_fine():
    masks = (square(2, 2, 3)[None, None].repeat(4, 2).repeat(4, 3) > 0).astype(np.float32)
    head = Head("rcnn", ("boxes", "labels", "scores", "masks"), score=0.5)
    one = value(boxes=np.float32([[8, 8, 20, 20]]), labels=np.array([17]), scores=np.float32([0.9]), masks=masks)

    assert head.decode(one, (64, 64), (64, 64)).classes.tolist() == [17]
    assert len(head.decode({**one, "scores": np.float32([0.2])}, (64, 64), (64, 64))) == 0
    none = {name: array if name == FRAME_SIZE else array[:0] for name, array in one.items()}
    assert len(head.decode(none, (64, 64), (64, 64))) == 0


# Matching.


def test_the_assignment_has_the_largest_sum_as_scipy_finds_it():
    scipy = pytest.importorskip("scipy.optimize")
    random = np.random.default_rng(0)
    for _ in range(100):
        gains = random.random(random.integers(1, 9, 2)) * (random.random() < 0.8)
        rows, columns = scipy.linear_sum_assignment(gains, maximize=True)
        ours = assignment(gains)
        assert len(ours) == min(gains.shape)
        assert sum(gains[pair] for pair in ours) == pytest.approx(gains[rows, columns].sum())


@pytest.mark.parametrize("every", [3, 6])
def test_masks_moved_along_motion_are_better_than_held_ones_and_from_both_sides_best(net, every):
    video = scenes()["apart"]

    held, warped, both = (
        followed(net, video, f"carried(skip_frame({every}), {carry})")
        for carry in ("identity", "warp(flow)", "interpolate(flow)")
    )

    assert held.j + 0.03 < warped.j
    assert warped.j + 0.03 < both.j
    assert both.j > 0.9
    assert both.identities > 0.95
    assert (both.switches, both.false) == (0, 0)


@pytest.mark.parametrize(("name", "least"), [("occlusion", 0.95), ("entries and exits", 0.9)])
def test_identities_are_kept_behind_a_post_and_where_discs_enter_and_leave(net, name, least):
    found = followed(net, scenes()[name], "carried(skip_frame(6), interpolate(flow))")

    assert found.identities > least
    assert found.switches == 0


def test_an_instance_that_the_key_frame_denies_ends_and_a_new_one_has_a_new_identity(net):
    video = scenes()["entries and exits"]
    outputs = [output for output, _ in clockseg.run(net, video.images, clockseg.parse_schedule("skip_frame(1)"))]
    seen = [set(map(int, output.ids)) for output in outputs]

    assert seen[-1].isdisjoint(seen[0])
    assert max(set.union(*seen)) == 3


def test_identities_do_not_cross_classes():
    def found(kind: int) -> Instances:
        return Instances.of(np.ones((4, 4, 1), np.float32), [kind], [0.9], (4, 4))

    frames = iter([found(0), found(1)])
    net = clockseg.instance_network(lambda image: next(frames), ["a", "b"])
    blank = np.zeros((4, 4, 3), np.uint8)

    assert [int(one.ids[0]) for one, _ in clockseg.run(net, [blank] * 2, clockseg.frame_oracle)] == [1, 2]


def test_a_function_of_frames_is_followed_like_a_network():
    video = scenes()["apart"]
    at = {image.tobytes(): masks for image, masks in zip(video.images, video.truth, strict=True)}

    def truth(image):
        masks = at[image.tobytes()]
        soft = np.stack(list(masks.values()), axis=2).astype(np.float32)
        return Instances.of(soft, [*masks], [1.0] * len(masks), SIZE)

    net = clockseg.instance_network(truth, NAMES)

    assert kind_of(net) == "instances"
    assert followed(net, video, "carried(skip_frame(6), interpolate(flow))").j > 0.9
    assert followed(net, video, "frame_oracle").j == 1.0


def test_a_session_in_a_loop_follows_instances_as_a_run_does(network):
    images = scenes()["apart"].images[:14]
    session = clockseg.Session(str(network), bgr=True)
    schedule = clockseg.parse_schedule("carried(skip_frame(6), warp(flow))")
    wanted = clockseg.run(clockseg.load(str(network)), images, schedule)
    for image, (other, record) in zip(images, wanted, strict=True):
        found = session(image[..., ::-1].copy())
        assert found.ids.tolist() == other.ids.tolist()
        assert sorted(found.ids) == [1, 2, 3]
        assert found.boxes.tolist() == other.boxes.tolist()
        assert session.record.fired == record.fired
    assert session.tally.network_rate == 2 / 13
    session.reset()
    assert sorted(session(images[0][..., ::-1].copy()).ids) == [4, 5, 6]


def test_instances_of_a_session_are_drawn_in_its_order_of_colours_and_saved(network, tmp_path):
    image = scenes()["apart"].images[0]
    rgb, bgr = clockseg.Session(str(network)), clockseg.Session(str(network), bgr=True)
    drawn = rgb(image).draw(image)
    assert (bgr(image[..., ::-1].copy()).draw(image[..., ::-1])[..., ::-1] == drawn).all()
    assert (drawn != image).any()
    rgb(image).save(tmp_path / "frame.json")
    [line] = clockseg.read_instances(tmp_path / "frame.json")
    assert sorted(one["category"] for one in line["instances"]) == sorted(NAMES)
    with pytest.raises(UsageError, match=r"ends in \.json"):
        rgb(image).save(tmp_path / "frame.png")


# Files.


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("mask", [np.zeros((3, 4), bool), np.ones((3, 4), bool), np.eye(70, 90, dtype=bool)])
def test_masks_are_read_back_from_run_lengths_by_the_coco_api_too(mask):
    told = encoded(mask)

    assert (decoded(told) == mask).all()
    coco = pytest.importorskip("pycocotools.mask")
    assert (coco.decode(told).astype(bool) == mask).all()
    assert coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode() == told["counts"]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with OverlayWriter(path, fps=25, options={"crf": "12"}) as writer:
        for number, image in enumerate(scenes()["apart"].images[:20]):
            writer.append(image, number / 25)
    return path


def test_segment_writes_instances_the_overlay_and_a_report(network, clip, tmp_path):
    code = main(
        [
            "segment",
            str(clip),
            "--network",
            str(network),
            "--engine",
            ENGINE,
            "--report",
            "--quiet",
            "--out",
            str(tmp_path),
        ]
    )

    lines = list(clockseg.read_instances(tmp_path / "clip"))
    assert code == 0
    assert [line["frame"] for line in lines] == list(range(20))
    assert [sorted(one["category"] for one in line["instances"]) for line in lines] == [sorted(NAMES)] * 20
    assert {one["track_id"] for line in lines for one in line["instances"]} == {1, 2, 3}
    truth = scenes()["apart"].truth[10]
    for one in lines[10]["instances"]:
        mask, true = one["mask"], truth[one["category_id"]]
        assert (mask & true).sum() / (mask | true).sum() > 0.85
        left, top, _, high = one["bbox"]
        rows, columns = np.nonzero(mask)
        assert abs(columns.min() - left) <= 4
        assert abs(rows.max() + 1 - top - high) <= 4
    assert {file.name for file in (tmp_path / "clip").iterdir()} == {
        "instances.jsonl", "overlay.mp4", "trace.jsonl", "summary.json", "report.html",
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("layout", ["detr", "queries", "rcnn", "yolo", "yolo-suppressed"])
def test_every_layout_is_cut_and_run_on_a_video_and_its_lines_are_coco_results(layout, clip, tmp_path):
    model = blob_model(suppressed="suppressed" in layout) if "yolo" in layout else shaped_model(layout)
    onnx.save(model, tmp_path / "export.onnx")
    plain = Said(mean=(0.0,) * 3, std=(1.0,) * 3)
    found = cut_network(tmp_path / "export.onnx", tmp_path / "net.onnx", said=plain, engine=ENGINE, repeat=1)
    assert found.sidecar.instances["layout"] == layout
    command = ["segment", str(clip), "--network", str(found.file), "--engine", ENGINE, "--limit", "8", "--quiet"]
    assert main([*command, "--out", str(tmp_path)]) == 0

    lines = list(clockseg.read_instances(tmp_path / "clip"))
    assert len(lines) == 8
    assert all(line["instances"] for line in lines)
    assert check_coco(tmp_path / "clip", found.sidecar.classes) == sum(len(line["instances"]) for line in lines)


def test_segment_writes_only_the_classes_that_are_asked_for(net, clip, tmp_path):
    clockseg.segment(clip, tmp_path / "out", net, clockseg.skip_frame(6), classes=["green"], write=["instances"])

    found = {one["category"] for line in clockseg.read_instances(tmp_path / "out") for one in line["instances"]}
    assert found == {"green"}


def test_outputs_of_other_kinds_are_refused(net, clip, tmp_path):
    with pytest.raises(UsageError, match="gives instances; there are instances, overlay, trace"):
        clockseg.segment(clip, tmp_path / "out", net, clockseg.skip_frame(6), write=["labels"])


def test_a_frame_without_instances_is_a_line_without_instances(net, tmp_path):
    write_png(np.zeros((256, 320), np.uint8), tmp_path / "black.png")
    clockseg.segment(tmp_path / "black.png", tmp_path / "out", net, clockseg.frame_oracle)

    line = json.loads((tmp_path / "out" / "instances.jsonl").read_text())
    assert line == {"frame": 0, "size": [320, 256], "instances": []}


@pytest.mark.parametrize("command", [["evaluate"], ["plan", "--keep", "0.9"]])
def test_commands_that_compare_maps_refuse_instances(command, network, clip, capsys):
    assert main([*command, str(clip), "--network", str(network), "--engine", ENGINE]) == 2
    assert "gives instances, and this command compares maps; segment and live take it" in capsys.readouterr().err


def test_live_writes_instances(network, clip, tmp_path):
    options = [
        "--network",
        str(network),
        "--engine",
        ENGINE,
        "--write",
        "instances,overlay",
        "--quiet",
        "--out",
        str(tmp_path),
    ]
    assert main(["live", str(clip), *options]) == 0

    lines = list(clockseg.read_instances(next(tmp_path.rglob("instances.jsonl"))))
    assert {one["category"] for line in lines for one in line["instances"]} == set(NAMES)


def test_the_overlay_shows_masks_in_the_colours_of_identities(net):
    from clockseg.instances.drawing import drawn

    image = scene([], 1).images[0]
    soft = np.zeros((64, 80, 2), np.float32)
    soft[10:30, 10:30, 0] = soft[30:50, 40:60, 1] = 1
    found = Instances.of(soft, [0, 1], [0.9, 0.8], SIZE, ids=[1, 2])

    shown = drawn(image, found, NAMES)

    changed = (shown != image).any(axis=2)
    assert changed[80, 80]
    assert changed[160, 200]
    assert not changed[220, 20]
    assert np.abs(shown[85:110, 60:110].mean((0, 1)) - shown[130:190, 170:230].mean((0, 1))).max() > 15


# Engines.


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_outputs_whose_number_is_not_known_beforehand_run_in_both_engines(engine, tmp_path):
    model = rcnn_model()
    onnx.save(model, tmp_path / "rcnn.onnx")
    cut_network(tmp_path / "rcnn.onnx", tmp_path / "net.onnx", said=NOTHING_SAID, engine=engine, repeat=1)
    net = clockseg.load(tmp_path / "net.onnx", engine=engine)
    image = np.zeros((64, 64, 3), np.uint8)

    assert len(net(image)) == 0
    image[:, 20:40] = 255
    assert net(image).boxes.tolist() == [[16.0, 0.0, 44.0, 64.0]]


def rcnn_model() -> onnx.ModelProto:
    """A network [3, h, w] -> boxes, labels, scores and masks of as many instances as NonZero finds: one if any pixel is white."""
    weights = {
        "half": np.float32(0.5),
        "box": np.float32([[16, 0, 44, 64]]),
        "label": np.array([3]),
        "sure": np.float32([0.9]),
        "plane": np.ones((1, 1, 64, 64), np.float32),
        "zero": np.array([0]),
        "flat": np.array([-1]),
    }
    make = helper.make_node
    nodes = [
        make("ReduceMax", ["image"], ["most"], keepdims=0),
        make("Greater", ["most", "half"], ["white"]),
        make("Cast", ["white"], ["number"], to=TensorProto.INT64),
        make("Reshape", ["number", "flat"], ["list"]),
        make("NonZero", ["list"], ["there"]),
        make("Reshape", ["there", "flat"], ["which"]),
        *[
            make("Gather", [given, "which"], [name], axis=0)
            for given, name in (("box", "boxes"), ("label", "labels"), ("sure", "scores"), ("plane", "masks"))
        ],
    ]
    outputs = [
        helper.make_tensor_value_info("boxes", FLOAT, ["n", 4]),
        helper.make_tensor_value_info("labels", INT64, ["n"]),
        helper.make_tensor_value_info("scores", FLOAT, ["n"]),
        helper.make_tensor_value_info("masks", FLOAT, ["n", 1, 64, 64]),
    ]
    given = [helper.make_tensor_value_info("image", FLOAT, [3, 64, 64])]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "rcnn", given, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_end_to_end_export_finds_the_same_discs(tmp_path):
    cut_network(write_blobs(tmp_path, suppressed=True), tmp_path / "net.onnx", engine=ENGINE, repeat=1)
    net = clockseg.load(tmp_path / "net.onnx", engine=ENGINE, threads=1)

    assert net.sidecar.instances["layout"] == "yolo-suppressed"
    assert followed(net, scenes()["apart"], "skip_frame(1)").j > 0.9


def test_a_sidecar_with_other_instances_is_refused(network, tmp_path):
    onnx.save(blob_model(), tmp_path / "net.onnx")
    said = json.loads(Path(network).with_suffix(".json").read_text())
    (tmp_path / "net.json").write_text(json.dumps(said | {"instances": {"layout": "boxes", "outputs": []}}))

    with pytest.raises(NetworkError, match=r"layout 'boxes'.*yolo: boxes"):
        clockseg.load(tmp_path / "net.onnx", engine=ENGINE)


@pytest.fixture(scope="module")
def long_video(tmp_path_factory):
    """A video with key frames a minute apart, three times 48 frames. A red disc comes and a green one goes; then there is a cut."""
    path = tmp_path_factory.mktemp("long") / "long.mp4"
    discs = [
        Disc(0, lambda t: (40 + 2 * t if t > 20 else -99, 60)),
        Disc(1, lambda t: (40 + 2 * t if t < 30 else -99, 130)),
        Disc(2, lambda t: (40 + 2 * t, 200)),
    ]
    images = [*scene(discs, 96).images, *(255 - image for image in scene(discs[:1], 48).images)]
    with OverlayWriter(path, fps=Fraction(4, 5), options={"crf": "12", "g": "48", "sc_threshold": "0"}) as writer:
        for number, image in enumerate(images):
            writer.append(image, number / 0.8)
    return path


def test_a_long_video_is_one_piece_so_that_identities_go_on(net, long_video, tmp_path):
    schedule = clockseg.parse_schedule("carried(skip_frame(5), interpolate(flow))")
    done = clockseg.segment(long_video, tmp_path / "out", net, schedule, write=["instances"])

    lines = list(clockseg.read_instances(tmp_path / "out"))
    assert done.summary["starts"] == [0]
    assert [line["frame"] for line in lines] == list(range(144))
    seen = {(one["category"], one["track_id"]) for line in lines[:96] for one in line["instances"]}
    assert sorted(kind for kind, _ in seen) == sorted(NAMES)
    assert ("red", 3) in seen


def test_an_object_seen_after_a_cut_gets_a_new_identity(long_video, tmp_path):
    square = np.zeros((64, 80, 1), np.float32)
    square[20:40, 20:40] = 1
    net = clockseg.instance_network(lambda image: Instances.of(square, [0], [0.9], SIZE), NAMES)
    clockseg.segment(
        long_video,
        tmp_path / "out",
        net,
        clockseg.parse_schedule("carried(skip_frame(5), interpolate(flow))"),
        write=["instances"],
    )

    ids = [line["instances"][0]["track_id"] for line in clockseg.read_instances(tmp_path / "out")]
    assert ids == [1] * 96 + [2] * 48


# Uncut, by the name of the export.


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_an_export_runs_by_its_own_name_as_when_it_is_cut(engine, network, clip, tmp_path):
    path = write_blobs(tmp_path)
    command = ["segment", str(clip), "--engine", engine, "--limit", "8", "--write", "instances", "--quiet"]
    assert main([*command, "--network", str(path), "--out", str(tmp_path / "uncut")]) == 0
    assert main([*command, "--network", str(network), "--out", str(tmp_path / "cut")]) == 0

    texts = [(tmp_path / name / "clip" / "instances.jsonl").read_text() for name in ("uncut", "cut")]
    assert texts[0] == texts[1]
    assert texts[0].count("track_id") == 24


def test_an_export_of_free_size_reads_its_working_size_from_the_metadata(tmp_path):
    outputs = [("output0", FLOAT, [1, 116, 84]), ("output1", FLOAT, [1, 32, 16, 16])]
    model = outputs_model(*outputs, task="segment", imgsz="[96, 128]", stride="32")
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim, ("n", "c", "h", "w"), strict=True):
        dim.dim_param = name
    onnx.save(model, tmp_path / "free.onnx")

    net = clockseg.load(tmp_path / "free.onnx", engine=ENGINE)

    reads = net.sidecar.input
    assert (reads.width, reads.height, reads.pad_multiple, reads.pad_value) == (128, 96, 32, (114, 114, 114))
    assert (reads.scale, reads.mean, reads.std) == (1 / 255, (0, 0, 0), (1, 1, 1))
    assert len(net.classes) == 80


def test_thresholds_and_names_may_stand_in_a_json_file_beside_the_export(tmp_path):
    path = write_blobs(tmp_path)
    path.with_suffix(".json").write_text(json.dumps({"instances": {"score": 0.9}, "classes": ["a", "b", "c"]}))

    net = clockseg.load(path, engine=ENGINE)

    assert (net.sidecar.instances["score"], net.sidecar.instances["overlap"]) == (0.9, 0.3)
    assert net.classes == ("a", "b", "c")


def test_an_export_whose_normalisation_is_not_known_asks_for_it(tmp_path):
    onnx.save(shaped_model("queries"), tmp_path / "masks.onnx")
    with pytest.raises(UsageError, match=r'give --mean and --std.*masks\.json.*"mean"') as told:
        clockseg.load(tmp_path / "masks.onnx", engine=ENGINE)
    (tmp_path / "masks.json").write_text(str(told.value).split("your own values: ")[1])
    net = clockseg.load(tmp_path / "masks.onnx", engine=ENGINE)
    assert kind_of(net) == "instances"
    assert len(net.classes) == 80


def test_the_export_of_an_rf_detr_needs_nothing_said(tmp_path):
    onnx.save(shaped_model("detr"), tmp_path / "rf-detr.onnx")
    net = clockseg.load(tmp_path / "rf-detr.onnx", engine=ENGINE)
    assert (net.sidecar.instances["layout"], net.sidecar.input.mean) == ("detr", (0.485, 0.456, 0.406))


@pytest.mark.parametrize("cut", [False, True])
def test_an_instance_network_of_bytes_normalises_by_itself(cut, tmp_path):
    model = blob_model()
    for node in model.graph.node:
        node.input[:] = ["scaled" if name == "images" else name for name in node.input]
    for node in (
        helper.make_node("Div", ["floats", "255"], ["scaled"]),
        helper.make_node("Cast", ["images"], ["floats"], to=FLOAT),
    ):
        model.graph.node.insert(0, node)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(255), "255"))
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    onnx.save(model, path := tmp_path / "bytes.onnx")
    if cut:
        path = cut_network(path, tmp_path / "net.onnx", engine=ENGINE, repeat=1).file
    net = clockseg.load(path, engine=ENGINE)
    assert sorted(net(scenes()["apart"].images[0]).classes.tolist()) == [0, 1, 2]


def test_openvinos_own_files_without_names_of_tensors_give_the_same_instances(network, tmp_path):
    openvino = pytest.importorskip("openvino")
    model = openvino.convert_model(write_blobs(tmp_path))
    for port in (*model.inputs, *model.outputs):
        port.get_tensor().set_names(set())
    for key, told in {"labels": "red traffic_light blue", "iou_threshold": "0.3"}.items():
        model.set_rt_info(told, ["model_info", key])
    openvino.save_model(model, tmp_path / "blobs.xml", compress_to_fp16=False)
    net = clockseg.load(tmp_path / "blobs.xml")
    image = scenes()["apart"].images[0]

    found, expected = net(image), clockseg.load(network, engine="openvino")(image)

    assert net.classes == ("red", "traffic_light", "blue")
    assert found.classes.tolist() == expected.classes.tolist()
    assert np.allclose(found.boxes, expected.boxes, atol=0.1)


def test_commands_that_need_maps_refuse_instances_in_a_sentence(network, clip, tmp_path, capsys):
    assert main(["quantize", str(network), str(clip), "--out", str(tmp_path / "int8.onnx")]) == 2
    assert "gives instances, and this takes networks of class scores" in capsys.readouterr().err


def test_an_export_is_inspected_as_it_runs_without_places_to_cut(tmp_path, capsys):
    assert main(["inspect", str(write_blobs(tmp_path)), "--engine", ENGINE, "--repeat", "1"]) == 0
    shown = capsys.readouterr().out
    assert "3 classes" in shown
    assert "output0 1x39x1280, output1 1x32x64x80" in shown
    assert "--at auto" not in shown
