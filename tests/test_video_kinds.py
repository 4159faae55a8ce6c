"""Pictures and videos of unusual kinds: cut short, of several pages, cropped by their container."""

from __future__ import annotations

import struct
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from clockseg import read_labels, read_summary, read_trace
from clockseg.cli.main import main
from clockseg.errors import VideoError
from clockseg.video import LabelWriter, Span, ValueWriter, open_clip
from clockseg.video.join import join
from networks import write_tiny
from video_making import data_folder, picture, write_video

PROGRESSIVE = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]


def by_ffmpeg(codec: str, pixels: str, image: np.ndarray) -> bytes:
    encoder = av.CodecContext.create(codec, "w")
    encoder.width, encoder.height, encoder.pix_fmt = image.shape[1], image.shape[0], pixels
    encoder.time_base = Fraction(1, 25)
    frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=pixels)
    frame.pts = 0
    return b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])


def encoded(kind: str) -> bytes:
    image = picture(64, 48)
    made = {"jls": ("jpegls", "rgb24"), "ljpg": ("ljpeg", "bgr24"), "tga": ("targa", "bgr24")}
    if kind in made:
        return by_ffmpeg(*made[kind], image)
    options = PROGRESSIVE if kind == "progressive.jpg" else []
    _, data = cv2.imencode(f".{kind.split('.')[-1]}", image[..., ::-1], options)
    return bytes(data)


KINDS = [
    "jpg",
    "progressive.jpg",
    "gif",
    "jls",
    "ljpg",
    "png",
    "webp",
    "tif",
    "bmp",
    "ppm",
    "tga",
    "jp2",
    "avif",
]


@pytest.mark.parametrize("kept", [0.4, 0.7, 0.99])
@pytest.mark.parametrize("kind", KINDS)
def test_an_image_that_is_cut_short_is_told(tmp_path, kind, kept):
    data = encoded(kind)
    whole, cut = tmp_path / f"whole.{kind}", tmp_path / f"cut.{kind}"
    whole.write_bytes(data)
    cut.write_bytes(data[: int(len(data) * kept)])
    with open_clip(whole) as clip:
        assert [frame.size for frame in clip] == [(64, 48)]
        assert clip.problems == ()
    try:
        with open_clip(cut) as clip:
            assert len(list(clip)) == 1
            assert clip.problems
    except VideoError:
        pass


def test_an_avi_that_is_cut_short_is_told(tmp_path):
    whole = write_video(tmp_path / "whole.avi", [picture(64, 48, shift) for shift in range(50)], codec="mpeg4")
    with open_clip(whole) as clip:
        assert (len(list(clip)), clip.problems) == (50, ())
    cut = tmp_path / "cut.avi"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 4])
    with open_clip(cut) as clip:
        count = len(list(clip))
    assert count < 50
    assert any("its header says 2.00 s" in problem for problem in clip.problems)


STREAMS = {
    "a.mjpeg": ("mjpeg", "yuvj420p", "mjpeg"),
    "a.apng": ("apng", "rgb24", "apng"),
    "a.gif": ("gif", "rgb8", "gif"),
}


@pytest.mark.parametrize("kept", [0.6, 0.85, 0.99])
@pytest.mark.parametrize("name", STREAMS)
def test_a_video_without_an_index_that_is_cut_short_is_told(tmp_path, name, kept):
    codec, pixels, form = STREAMS[name]
    images = [picture(64, 48, seed=seed) for seed in range(6)]
    path = write_video(tmp_path / name, images, codec=codec, pix_fmt=pixels, container_format=form)
    with open_clip(path) as clip:
        assert len(list(clip)) == 6
        assert clip.problems == ()
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    with suppress(VideoError), open_clip(path) as clip:
        list(clip)
        assert clip.problems


def test_the_end_of_a_part_is_no_loss(tmp_path):
    path = write_video(
        tmp_path / "a.gif", [picture(64, 48, seed=seed) for seed in range(6)], codec="gif", pix_fmt="rgb8"
    )
    path.write_bytes(path.read_bytes()[:-200])
    with open_clip(path, span=Span(None, Fraction(1, 10))) as clip:
        assert len(list(clip)) > 1
        assert clip.problems == ()


def test_bytes_after_the_end_are_no_loss(tmp_path):
    (tmp_path / "a.jpg").write_bytes(encoded("jpg") + bytes(1000))
    (tmp_path / "b.gif").write_bytes(encoded("gif") + b"trailer")
    for name in ("a.jpg", "b.gif"):
        with open_clip(tmp_path / name) as clip:
            assert len(list(clip)) == 1
            assert clip.problems == ()


def test_a_thumbnail_does_not_end_a_jpeg(tmp_path):
    """It is a JPEG of its own, with an end marker, in the metadata."""
    data, thumbnail = encoded("jpg"), encoded("jpg")[:2000] + b"\xff\xd9"
    metadata = b"\xff\xe1" + struct.pack(">H", 2 + len(thumbnail)) + thumbnail
    path = tmp_path / "a.jpg"
    for end, early in ((len(data), False), (len(data) * 9 // 10, True)):
        path.write_bytes(data[:2] + metadata + data[2:end])
        with open_clip(path) as clip:
            assert len(list(clip)) == 1
            assert bool(clip.problems) == early


def tiff(path: Path, pages: list[np.ndarray], *, order: str = "<", kinds: tuple[int, ...] = ()) -> Path:
    """Write RGB pages without compression; ``kinds``: their NewSubfileType."""
    out = bytearray(b"II*\0" if order == "<" else b"MM\0*")
    link = len(out)
    out += bytes(4)
    for number, page in enumerate(pages):
        strip = len(out)
        out += page.tobytes() + bytes(page.size % 2)
        bits = len(out)
        out += struct.pack(order + "3H", 8, 8, 8)
        height, width = page.shape[:2]
        kind = kinds[number] if kinds else 0
        fields = [(254, 4, 1, kind), (256, 4, 1, width), (257, 4, 1, height), (258, 3, 3, bits), (259, 3, 1, 1)]
        fields += [(262, 3, 1, 2), (273, 4, 1, strip), (277, 3, 1, 3), (278, 4, 1, height), (279, 4, 1, page.size)]
        struct.pack_into(order + "I", out, link, len(out))
        out += struct.pack(order + "H", len(fields))
        for tag, type_, count, value in fields:
            short = type_ == 3 and count == 1
            out += struct.pack(order + ("HHIHH" if short else "HHII"), tag, type_, count, value, *([0] * short))
        link = len(out)
        out += bytes(4)
    path.write_bytes(out)
    return path


def flat(*colour: int) -> np.ndarray:
    return np.full((16, 24, 3), colour, np.uint8)


COLOURS = [(200, 10, 20), (10, 200, 20), (10, 20, 200)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_all_pages_of_a_tiff_are_taken(tmp_path, order):
    path = tiff(tmp_path / "p.tif", [flat(*colour) for colour in COLOURS], order=order)
    with open_clip(path) as clip:
        found = [(frame.index, frame.file, tuple(frame.image[3, 5].tolist())) for frame in clip]
        assert clip.frames_hint == 3
        assert clip.problems == ()
    assert found == [(index, "p.tif", colour) for index, colour in enumerate(COLOURS)]


def test_smaller_copies_and_masks_are_no_pages(tmp_path):
    path = tiff(tmp_path / "p.tif", [flat(*COLOURS[at % 3]) for at in range(4)], kinds=(0, 1, 4, 0))
    with open_clip(path) as clip:
        assert [tuple(frame.image[3, 5].tolist()) for frame in clip] == [COLOURS[0], COLOURS[0]]


def test_pages_that_are_cut_off_are_named(tmp_path):
    path = tiff(tmp_path / "p.tif", [flat(*colour) for colour in COLOURS])
    path.write_bytes(path.read_bytes()[:-1400])
    with open_clip(path) as clip:
        assert len(list(clip)) == 1
        assert "page 2 of p.tif could not be decoded" in clip.problems


def test_pages_of_too_many_pixels_are_refused(tmp_path):
    path = tiff(tmp_path / "p.tif", [flat(1, 2, 3), np.zeros((100, 100, 3), np.uint8)])
    with open_clip(path, max_pixels=5000) as clip:
        assert len(list(clip)) == 1
        assert clip.problems == ("page 2 of p.tif could not be decoded",)


def segment(tmp_path: Path, *args: object) -> int:
    network = tmp_path / "network"
    network.mkdir(exist_ok=True)
    options = ["--quiet", "--threads", "1", "--network", str(write_tiny(network)), "--out", str(tmp_path / "out")]
    return main(["segment", *options, *map(str, args)])


def test_results_tell_which_picture_they_belong_to(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("b10.png", "b9.png", "b9.jpg", "é" * 120 + ".png"):
        (folder / name).write_bytes(encoded(name.split(".")[-1]))
    (folder / "broken.png").write_bytes(b"x")
    tiff(folder / "t.tif", [flat(1, 2, 3), flat(4, 5, 6)])
    assert segment(tmp_path, folder, "--write", "labels,trace,png") == 1
    out = tmp_path / "out" / "in"
    expected = ["b9.jpg", "b9.png", "b10.png", "t.tif", "t.tif", "é" * 120 + ".png"]
    assert sorted(line["file"] for line in read_trace(out)) == sorted(expected)
    written = {path.stem for path in (out / "png").iterdir()}
    assert written == {"b9", "b9-2", "b10", "t", "t-2", "é" * 80}
    assert len(list(read_labels(out))) == len(expected)


def test_frames_of_a_video_keep_their_numbers(tmp_path):
    video = write_video(tmp_path / "v.mp4", [picture(32, 16, seed=seed) for seed in range(2)])
    assert segment(tmp_path, video, "--write", "trace,png") == 0
    out = tmp_path / "out" / "v"
    assert sorted(path.name for path in (out / "png").iterdir()) == ["000000.png", "000001.png"]
    assert "file" not in read_trace(out)[0]
    assert "files" not in read_summary(out)


def ramp(width: int = 96, height: int = 64) -> np.ndarray:
    """A picture whose red is x and whose green is y."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 2, y * 3, np.full_like(x, 50)], 2).astype(np.uint8)


def test_matroska_s_cropping(tmp_path):
    path = tmp_path / "v.mkv"
    with av.open(str(path), "w") as output:
        stream = output.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "bgr0"
        output.mux(stream.encode(av.VideoFrame.from_ndarray(ramp(), format="rgb24")))
        output.mux(stream.encode(None))
    # In place of DisplayUnit and MaxBlockAdditionID, which follow each other: PixelCropLeft and PixelCropTop, both in Video.
    old = bytes.fromhex("e08ab08160ba814054b2810455ee8100")
    new = bytes.fromhex("e08eb08160ba814054cc811454bb8108")
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    [frame] = open_clip(path)
    assert frame.size == (76, 56)
    assert np.array_equal(frame.image, ramp()[8:, 20:])


def with_clap(path: Path, width: int, height: int, across: Fraction, down: Fraction) -> None:
    """Insert a clean aperture box: a size, and the distance of its centre from the picture's."""
    values = (width, 1, height, 1, across.numerator, across.denominator, down.numerator, down.denominator)
    box = struct.pack(">I4s8i", 40, b"clap", *values)
    data = bytearray(path.read_bytes())
    entry = data.index(b"mp4v") - 4
    end = entry + int.from_bytes(data[entry : entry + 4], "big")
    for name in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"mp4v"):
        at = data.index(name) - 4
        struct.pack_into(">I", data, at, int.from_bytes(data[at : at + 4], "big") + len(box))
    data[end:end] = box
    path.write_bytes(data)


@pytest.mark.parametrize("rotation", [0, 90])
def test_the_clean_aperture_of_mp4(tmp_path, rotation):
    plain, path = tmp_path / "p.mp4", tmp_path / "v.mp4"
    for each in (plain, path):
        with av.open(str(each), "w") as output:
            stream = output.add_stream("mpeg4", rate=25)
            stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
            if rotation:
                stream.set_display_rotation(rotation)
            output.mux(stream.encode(av.VideoFrame.from_ndarray(ramp(), format="rgb24")))
            output.mux(stream.encode(None))
    with_clap(path, 60, 40, Fraction(8), Fraction(-3))
    [shown], [whole] = open_clip(path), open_clip(plain)
    # Left 96 / 2 + 8 - 60 / 2 = 26, top 64 / 2 - 3 - 40 / 2 = 9.
    coded = np.rot90(whole.image, -rotation // 90)
    assert np.array_equal(np.rot90(shown.image, -rotation // 90), coded[9:49, 26:86])


def test_vectors_are_those_of_the_part_that_is_shown(tmp_path):
    path = write_video(tmp_path / "v.mp4", [picture(96, 64, seed=1)] * 3, codec="mpeg4")
    with_clap(path, 60, 40, Fraction(8), Fraction(-3))
    frames = list(open_clip(path, vectors=True))
    assert frames[1].vectors is not None
    assert frames[1].vectors.size == (96, 64)
    assert frames[1].vectors.upright == (1, 0, 26, 0, 1, 9)


@pytest.mark.parametrize("fps", [1000, 2000, 2997, 20_000])
@pytest.mark.parametrize("pieces", [1, 2])
def test_times_of_any_rate_are_kept(tmp_path, fps, pieces):
    """Matroska files count milliseconds by default."""
    parts = []
    for part in range(pieces):
        parts.append(tmp_path / f"{part}.mkv")
        with LabelWriter(parts[-1], fps=fps) as writer:
            for number in range(40 * part, 40 * part + 40):
                writer.append(np.full((16, 24), number % 250, np.uint8), number / fps)
    path = tmp_path / "labels.mkv"
    join(parts, path)
    assert [int(labels[0, 0]) for labels in read_labels(path)] == list(range(40 * pieces))
    with open_clip(path) as clip:
        seconds = [frame.pts_seconds for frame in clip]
        assert clip.problems == ()
        assert clip.duration_seconds == pytest.approx(40 * pieces / fps, abs=0.001)
        assert pieces > 1 or clip.fps == pytest.approx(fps, rel=0.01)
    assert seconds == pytest.approx([number / fps for number in range(40 * pieces)], abs=1e-6 if fps > 1000 else 5e-4)


def test_maps_of_numbers_too(tmp_path):
    with ValueWriter(tmp_path / "values.mkv", fps=4000) as writer:
        for number in range(4):
            writer.append(np.full((16, 24), number, np.float32), number / 4000)
    with open_clip(tmp_path / "values.mkv") as clip:
        assert [frame.pts_seconds for frame in clip] == [0.0, 0.00025, 0.0005, 0.00075]


def test_a_part_of_a_video_of_a_high_rate(tmp_path):
    path = write_video(
        tmp_path / "v.mp4", [picture(32, 16, seed=at) for at in range(40)], fps=2000, base=Fraction(1, 2000)
    )
    assert segment(tmp_path, path, "--start", "0.005", "--write", "labels,overlay,trace") == 0
    out = tmp_path / "out" / "v"
    times = [line["pts_seconds"] for line in read_trace(out)]
    for name, start in (("labels.mkv", 0), ("overlay.mp4", 0.005)):
        with open_clip(out / name) as clip:
            assert [frame.pts_seconds for frame in clip] == pytest.approx([at - start for at in times], abs=2e-5)


def test_a_cover_picture_is_no_video(tmp_path):
    path = tmp_path / "song.mp3"
    with av.open(str(path), "w") as output:
        sound = output.add_stream("mp3", rate=44100)
        cover = output.add_stream("png", rate=1)
        cover.width, cover.height, cover.pix_fmt = 16, 16, "rgb24"
        cover.disposition = av.stream.Disposition.attached_pic
        output.mux(cover.encode(av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), np.uint8), format="rgb24")))
        output.mux(cover.encode(None))
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 44100), np.int16), format="s16", layout="mono")
        silence.sample_rate = 44100
        output.mux(sound.encode(silence))
        output.mux(sound.encode(None))
    with pytest.raises(VideoError, match=r"no video stream in it \(1 audio stream, 1 cover picture\)"):
        open_clip(path)


@pytest.mark.parametrize(
    ("name", "frames", "size", "code"),
    [
        ("truncated.jpg", 1, None, 1),
        ("truncated.gif", 1, None, 1),
        ("three_pages.tif", 3, None, 0),
        ("cropped.mkv", 5, (80, 60), 0),
        ("start61.ts", 10, None, 0),
        ("fps2000.mp4", 40, None, 0),
    ],
)
def test_the_shared_inputs(tmp_path, name, frames, size, code):
    path = data_folder() / "odd-inputs" / name
    if not path.is_file():
        pytest.skip("needs the shared data folder (CLOCKSEG_DATA)")
    start = ["--start", "0"] if name.endswith(".ts") else []
    assert segment(tmp_path, path, *start) == code
    [out] = (tmp_path / "out").glob("*/summary.json")
    assert read_summary(out.parent)["frames"] == frames
    assert size is None or tuple(read_trace(out.parent)[0]["size"]) == size
