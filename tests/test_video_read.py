"""Frames out of videos, images and folders."""

from __future__ import annotations

import gc
import struct
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from clockseg.errors import VideoError
from clockseg.video import Frame, Span, open_clip
from clockseg.video.colour import AS_STORED, ToRGB
from made_videos import drawn
from video_making import MS, data_folder, picture, stream_times, write_video

# Frames that come, words of the problem if any, or words of the error.
ODD_VIDEOS = {
    "-video-with-dash-.mp4": (5, None),
    "bitmap.mp4": (5, None),
    "corrupted.mp4": (49, "1 packet could not be decoded"),
    "example3.mp4": (48, None),
    "gif.gif": (0, "no frame in it could be decoded"),
    "nasa_13013.mp4.audio.mp3": (0, r"no video stream in it \(1 audio stream\)"),
    "no_duration.webm": (74, None),
    "smpte-2997.mp4": (251, None),
    "test_bad_task_info_pynv.mkv": (49, "nothing before 8.37 s could be decoded"),
    "test_res_change.h264": (96, None),
    "test_rot_90_deg.mp4": (30, None),
    "testsrc2_odd_height_and_width_444_10bit.mp4": (25, None),
}


def odd(name: str) -> Path:
    path = data_folder() / "odd-videos" / name
    if not path.exists():
        pytest.skip(f"no shared data at {path.parent}: set CLOCKSEG_DATA")
    return path


@pytest.mark.parametrize("name", ODD_VIDEOS)
def test_odd_video(name):
    frames, words = ODD_VIDEOS[name]
    if not frames:
        with pytest.raises(VideoError, match=words):
            list(open_clip(odd(name)))
        return
    with open_clip(odd(name)) as clip:
        got = list(clip)
    assert [frame.index for frame in got] == list(range(frames))
    assert bool(clip.problems) == bool(words)
    assert words is None or words in "; ".join(clip.problems)
    for frame in got:
        assert frame.image.dtype == np.uint8
        assert frame.image.flags.c_contiguous
        assert frame.image.shape == (frame.size[1], frame.size[0], 3)
        assert frame.decode_seconds > 0


def test_odd_video_sizes():
    assert open_clip(odd("test_rot_90_deg.mp4")).size == (464, 848)
    assert open_clip(odd("bitmap.mp4")).size == (1, 1)
    assert open_clip(odd("testsrc2_odd_height_and_width_444_10bit.mp4")).size == (321, 241)
    sizes = [frame.size for frame in open_clip(odd("test_res_change.h264"))]
    assert sizes[0] == (848, 464)
    assert len(set(sizes)) == 2


def test_what_a_clip_knows(tmp_path):
    path = write_video(tmp_path / "a.b.mp4", [picture(64, 48)] * 10, audio=("aac", 48000, 0, 0.4))
    with open_clip(path) as clip:
        assert (clip.name, clip.kind, clip.fps, clip.size) == ("a.b", "video", 25, (64, 48))
        assert clip.frames_hint == 10
        assert clip.has_audio
        assert clip.problems == ()
        assert clip.duration_seconds == pytest.approx(0.4)
        assert len(list(clip)) == len(list(clip)) == 10


def test_variable_times_are_kept(tmp_path):
    times = [0, 40, 50, 200, 1000, 1001]
    path = write_video(tmp_path / "v.mkv", [picture(64, 48)] * 6, times=times)
    frames = list(open_clip(path))
    assert [frame.pts for frame in frames] == times
    assert frames[0].time_base == MS
    assert [frame.pts_seconds for frame in frames] == stream_times(path)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_rotation(tmp_path, rotation, flip):
    image = picture(64, 48)
    path = write_video(tmp_path / "r.mp4", [image], rotation=rotation, flip=flip, pix_fmt="yuv444p")
    expected = np.rot90(image, rotation // 90)
    expected = expected[:, ::-1] if flip else expected
    (frame,) = open_clip(path)
    assert np.abs(frame.image.astype(int) - expected).mean() < 3


def test_upright_leaves_a_picture_without_a_matrix_alone():
    image = picture(4, 2)
    assert np.array_equal(AS_STORED(image), image)


def rgb_of(yuv: tuple[int, int, int], matrix: int, full: bool, depth: int) -> np.ndarray:
    """The formula of ITU-T H.273, in floats."""
    red, blue = {1: (0.2126, 0.0722), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}[matrix]
    unit = 2 ** (depth - 8)
    top = 2**depth - 1
    black, luma, chroma = (0, top, top) if full else (16 * unit, 219 * unit, 224 * unit)
    y, u, v = (yuv[0] - black) / luma, (yuv[1] - 128 * unit) / chroma, (yuv[2] - 128 * unit) / chroma
    r, b = y + 2 * (1 - red) * v, y + 2 * (1 - blue) * u
    g = (y - red * r - blue * b) / (1 - red - blue)
    return np.clip(np.array([r, g, b]) * 255, 0, 255)


@pytest.mark.parametrize(
    ("pix_fmt", "depth"), [("yuv420p", 8), ("yuv444p", 8), ("yuv420p10le", 10), ("yuv444p10le", 10)]
)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("matrix", [1, 6, 9])
def test_colours(matrix, full, pix_fmt, depth):
    convert = ToRGB(10_000)
    unit = 1 if depth == 8 else 2
    for yuv in ((120, 100, 150), (60, 140, 120), (200, 120, 130)):
        yuv = tuple(value << (depth - 8) for value in yuv)
        frame = av.VideoFrame(33, 21, pix_fmt)
        for plane, value in zip(frame.planes, yuv, strict=True):
            plane.update(value.to_bytes(unit, "little") * (plane.buffer_size // unit))
        frame.colorspace, frame.color_range = matrix, 2 if full else 1
        assert np.abs(convert(frame) - rgb_of(yuv, matrix, full, depth)).max() <= 2


@pytest.mark.parametrize(("height", "matrix"), [(480, 6), (720, 1)])
def test_colours_of_a_stream_that_does_not_say(height, matrix):
    frame = av.VideoFrame(16, height, "yuv444p")
    for plane, value in zip(frame.planes, (120, 90, 160), strict=True):
        plane.update(bytes([value]) * plane.buffer_size)
    assert np.abs(ToRGB(100_000)(frame)[0, 0] - rgb_of((120, 90, 160), matrix, False, 8)).max() <= 2


FORMATS = ["gray", "gray10le", "bgra", "yuva420p", "gbrp10le", "yuv411p", "rgb48le", "yuvj422p"]


@pytest.mark.parametrize("pix_fmt", FORMATS)
def test_any_pixel_format_at_an_odd_size(tmp_path, pix_fmt):
    codec = "mjpeg" if pix_fmt.startswith("yuvj") else "ffv1"
    image = picture(33, 21)
    path = write_video(tmp_path / "p.mkv", [image] * 2, pix_fmt=pix_fmt, codec=codec)
    frames = list(open_clip(path))
    assert [frame.size for frame in frames] == [(33, 21)] * 2
    if not pix_fmt.startswith("gray"):
        assert np.abs(frames[0].image.astype(int) - image).mean() < 8


def test_an_odd_size_in_10_bit_444(tmp_path):
    path = write_video(tmp_path / "p.mp4", [picture(33, 21)], pix_fmt="yuv444p10le", crf="1")
    assert np.abs(next(iter(open_clip(path))).image.astype(int) - picture(33, 21)).mean() < 3


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_a_cut_off_file_gives_what_is_there(tmp_path, suffix):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (48, 64, 3), dtype=np.uint8) for _ in range(60)]
    path = write_video(tmp_path / f"whole.{suffix}", images, **({"g": "10"} if suffix == "ts" else {}))
    if suffix == "mp4":
        path = remuxed(path, tmp_path / "front.mp4", movflags="+faststart")
    cut = tmp_path / f"cut.{suffix}"
    cut.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    with open_clip(cut) as clip:
        frames = list(clip)
    assert 20 < len(frames) < 50
    # A transport stream has no header that says how long it should be.
    assert suffix == "ts" or any(f"after {len(frames)} frames" in text for text in clip.problems)


def remuxed(path: Path, to: Path, **options: str) -> Path:
    with av.open(str(path)) as source, av.open(str(to), "w", container_options=options) as output:
        stream = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                output.mux(packet)
    return to


def test_a_whole_file_has_no_problem(tmp_path):
    for suffix in ("mp4", "mkv", "avi", "ts", "webm", "mov"):
        codec = {"webm": "libvpx", "avi": "mpeg4"}.get(suffix, "libx264")
        path = write_video(tmp_path / f"whole.{suffix}", [picture(64, 48, k) for k in range(30)], codec=codec)
        clip = open_clip(path)
        assert (len(list(clip)), clip.problems) == (30, ()), suffix


def test_broken_bytes_are_told(tmp_path):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (48, 64, 3), dtype=np.uint8) for _ in range(40)]
    path = write_video(tmp_path / "b.mkv", images)
    broken = bytearray(path.read_bytes())
    for at in rng.integers(len(broken) // 4, len(broken), 40):
        broken[at] ^= 0x55
    path.write_bytes(broken)
    clip = open_clip(path)
    assert list(clip)
    assert clip.problems


@pytest.mark.parametrize("name", ["-dash.mp4", "concat:a.mp4", "http:a.mp4", "a%03d.mp4", "a b#?*.mp4", "ü\n.mp4"])
def test_odd_names(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "plain.mp4", [picture(64, 48)] * 3).rename(tmp_path / name)
    with open_clip(name) as clip:
        assert len(list(clip)) == 3
        assert clip.name == name.removesuffix(".mp4")


def test_a_folder_of_images_in_natural_order(tmp_path):
    for number, size in ((10, (8, 6)), (9, (5, 3)), (1, (7, 7))):
        cv2.imwrite(str(tmp_path / f"a{number}.png"), np.full((*size[::-1], 3), number, np.uint8))
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / ".hidden.png").write_text("no image")
    with open_clip(tmp_path) as clip:
        frames = list(clip)
    assert (clip.kind, clip.name, clip.frames_hint, clip.fps) == ("images", tmp_path.name, 3, None)
    assert [frame.size for frame in frames] == [(7, 7), (5, 3), (8, 6)]
    assert [int(frame.image[0, 0, 0]) for frame in frames] == [1, 9, 10]
    assert [(frame.pts, frame.pts_seconds) for frame in frames] == [(None, None)] * 3


def test_a_broken_image_in_a_folder_is_passed_over_and_told(tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), picture(8, 8))
    cv2.imwrite(str(tmp_path / "c.png"), picture(8, 8))
    (tmp_path / "b.png").write_bytes(b"not a picture")
    clip = open_clip(tmp_path)
    assert [frame.index for frame in clip] == [0, 2]
    assert clip.problems == ("b.png could not be decoded",)


@pytest.mark.parametrize("suffix", ["jpg", "jpeg", "png", "bmp", "tif", "tiff", "webp", "ppm", "pgm"])
def test_a_single_image(tmp_path, suffix):
    image = picture(33, 21)
    path = tmp_path / f"a%03d.{suffix}"
    written = image[..., 0] if suffix == "pgm" else image[..., ::-1]
    cv2.imwrite(str(path), written)
    with open_clip(path) as clip:
        (frame,) = clip
    assert clip.kind == "images"
    assert clip.problems == ()
    assert clip.frames_hint == 1
    expected = np.repeat(image[..., :1], 3, 2) if suffix == "pgm" else image
    assert np.abs(frame.image.astype(int) - expected).mean() < 4


def test_images_with_16_bits_alpha_or_a_grey_scale(tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), np.full((4, 5), 200, np.uint8))
    cv2.imwrite(str(tmp_path / "b.png"), np.full((4, 5, 3), 200 * 257, np.uint16))
    cv2.imwrite(str(tmp_path / "c.png"), np.full((4, 5, 4), 200, np.uint8))
    assert all(np.abs(frame.image.astype(int) - 200).max() <= 1 for frame in open_clip(tmp_path))


@pytest.mark.parametrize("orientation", [1, 2, 3, 6, 8])
def test_exif_orientation(tmp_path, orientation):
    image = picture(64, 48)
    turned = image[:, ::-1] if orientation == 2 else np.rot90(image, {1: 0, 3: 2, 6: 1, 8: 3}[orientation])
    data = cv2.imencode(".jpg", np.ascontiguousarray(turned[..., ::-1]))[1].tobytes()
    tiff = b"II*\0\x08\0\0\0" + struct.pack("<HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)
    exif = b"Exif\0\0" + tiff
    (tmp_path / "a.jpg").write_bytes(data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:])
    (frame,) = open_clip(tmp_path / "a.jpg")
    assert np.abs(frame.image.astype(int) - image).mean() < 5


def test_a_gif_is_a_video(tmp_path):
    path = write_video(tmp_path / "a.gif", [picture(33, 21, k) for k in range(4)], codec="gif", pix_fmt="rgb8", fps=10)
    clip = open_clip(path)
    assert len(list(clip)) == 4
    assert clip.kind == "video"
    assert clip.problems == ()


@pytest.mark.parametrize(
    ("content", "words"), [(None, "no such file"), (b"", "the file is empty"), (b"hello" * 99, "not a video")]
)
def test_no_video(tmp_path, content, words):
    path = tmp_path / "a.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(VideoError, match=f"{words}.*Give a video file, an image or a folder of images"):
        open_clip(path)


def test_text_is_no_video(tmp_path):
    (tmp_path / "a.txt").write_text("hello\n" * 99)
    with pytest.raises(VideoError, match="Give a video file"):
        open_clip(tmp_path / "a.txt")


def test_a_folder_without_images(tmp_path):
    with pytest.raises(VideoError, match=r"no image in this folder .*Give a folder that contains images"):
        open_clip(tmp_path)


def test_a_folder_whose_subfolder_has_the_images(tmp_path):
    (tmp_path / "camera" / "left").mkdir(parents=True)
    (tmp_path / "camera" / "left" / "a.png").touch()
    with pytest.raises(VideoError, match=r"no image in this folder .*give .*left, and others like it"):
        open_clip(tmp_path)


def test_a_name_with_a_zero_byte():
    with pytest.raises(VideoError, match="cannot be read"):
        open_clip("a\0b.mp4")


def test_too_many_pixels_are_refused(tmp_path):
    path = write_video(tmp_path / "a.mp4", [picture(64, 48)])
    with pytest.raises(VideoError, match="64x48 pixels is over the limit"):
        open_clip(path, max_pixels=64 * 48 - 1)
    assert len(list(open_clip(path, max_pixels=64 * 48))) == 1


def test_too_many_pixels_in_mid_stream(tmp_path):
    small = write_video(tmp_path / "s.h264", [picture(64, 48)] * 5, container_format="h264")
    large = write_video(tmp_path / "l.h264", [picture(128, 96)] * 5, container_format="h264")
    small.write_bytes(small.read_bytes() + large.read_bytes())
    clip = open_clip(small, max_pixels=5000)
    assert {frame.size for frame in clip} == {(64, 48)}
    assert clip.problems
    assert [frame.size for frame in open_clip(small)] == [(64, 48)] * 5 + [(128, 96)] * 5


def test_a_frame_without_a_time_base_has_no_seconds():
    frame = Frame(0, np.zeros((1, 1, 3), np.uint8), pts=3)
    assert frame.pts_seconds is None
    assert Frame(0, frame.image, pts=3, time_base=Fraction(1, 2)).pts_seconds == 1.5


def test_pictures_do_not_stay_until_the_collector_comes(tmp_path):
    path = write_video(tmp_path / "a.mkv", [picture(64, 48)] * 200)
    gc.collect()
    gc.disable()
    try:
        count = sum(1 for _ in open_clip(path))
        alive = sum(type(found) is av.VideoFrame for found in gc.get_objects())
    finally:
        gc.enable()
    assert count == 200
    assert alive < 20


@pytest.fixture
def moving(tmp_path):
    """An animated WebP of 14 frames, each shown for its own time."""
    animation = cv2.Animation()
    animation.frames = [np.ascontiguousarray(drawn(number)[..., ::-1]) for number in range(14)]
    animation.durations = [40 * (1 + number % 3) for number in range(14)]
    path = tmp_path / "moving.webp"
    cv2.imwriteanimation(str(path), animation)
    return path


FFMPEG_9 = av.library_versions["libavformat"][0] >= 63


@pytest.mark.skipif(FFMPEG_9, reason="this FFmpeg reads animated WebP")
def test_an_animated_webp_is_refused(moving):
    with pytest.raises(VideoError, match=r"animated WebP needs PyAV 19 or newer"):
        open_clip(moving)


@pytest.mark.skipif(not FFMPEG_9, reason="needs an FFmpeg that reads animated WebP")
def test_an_animated_webp_is_a_video(moving):
    clip = open_clip(moving)
    frames = list(clip)
    assert (clip.kind, len(frames), clip.problems) == ("video", 14, ())
    assert [frame.pts_seconds for frame in frames[:4]] == [0, 0.04, 0.12, 0.24]
    part = list(open_clip(moving, span=Span(Fraction(1, 5), Fraction(2, 5))))
    assert [frame.pts_seconds for frame in part] == [0.24, 0.28, 0.36]
    with pytest.raises(VideoError, match="no frame in it could be decoded"):
        list(open_clip(moving, max_pixels=96 * 64 - 1))


@pytest.mark.parametrize("size", [21, 29, 60, 400])
def test_an_animated_webp_that_is_cut_short_is_told(moving, size):
    moving.write_bytes(moving.read_bytes()[:size])
    with suppress(VideoError), open_clip(moving) as clip:
        list(clip)
        assert clip.problems
