"""Which videos are made: fifty, an axis or two each, and a folder of images."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import av
import cv2
import numpy as np
from av.stream import Disposition

from made_videos import BT601, BT709, BT2020, FPS, FRAMES, FULL, LIMITED, Recipe, Tone, drawn

# H.273's transfers, primaries and matrix that have no name there.
_PQ, _HLG, _P3 = 16, 18, 12
_90K = Fraction(1, 90_000)
_FRAME = Fraction(1, FPS)
_QUIET = {"x265-params": "log-level=none"}
_UNEVEN = (0, 40, 50, 200, 233, 300, 301, 500, 900, 940, 1400, 1433, 2000, 2500)
_A_SECOND_ON = range(1000, 1000 + 40 * FRAMES, 40)
_LATE = tuple(3_600_000 + 40 * number for number in range(FRAMES))


def _doubled(path: Path) -> None:
    """Two recordings in one file: the times of the second begin anew."""
    path.write_bytes(path.read_bytes() * 2)


def _of_two_sizes(path: Path) -> None:
    larger = Recipe("", "larger.h264", container="h264", size=(128, 96)).make(path.parent)
    path.write_bytes(path.read_bytes() + larger.read_bytes())
    larger.unlink()


def _covered(path: Path) -> None:
    """A cover picture before the video."""
    plain = path.with_name(f"plain-{path.name}")
    path.rename(plain)
    with av.open(str(path), "w") as output, av.open(str(plain)) as source:
        cover = output.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 64, "yuvj420p"
        cover.disposition = Disposition.attached_pic
        stream = output.add_stream_from_template(source.streams.video[0])
        picture = av.VideoFrame(64, 64, "yuvj420p")
        picture.pts = 0
        output.mux(cover.encode(picture))
        for packet in source.demux():
            if packet.size:
                packet.stream = stream
                output.mux(packet)
    plain.unlink()


def _without_head(path: Path) -> None:
    """The first half a second before time 0, so that the container hides it: an edit list."""
    source = path.with_name("whole.mp4")
    path.rename(source)
    with av.open(str(source)) as one, av.open(str(path), "w", container_options={"use_editlist": "1"}) as output:
        stream = output.add_stream_from_template(one.streams.video[0])
        for packet in one.demux(video=0):
            if packet.size:
                shift = round(Fraction(4, FPS) / packet.time_base)
                packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, stream
                output.mux(packet)
    source.unlink()


def _aac(**options: object) -> tuple[Tone, ...]:
    return (Tone("aac", **options),)  # type: ignore[arg-type]


RECIPES = (
    Recipe("H.264, BT.709, AAC", "plain.mp4", tags=(BT709, LIMITED, BT709, BT709), tones=_aac()),
    Recipe("full range, BT.601", "full.mkv", pixels="yuvj420p", tags=(BT601, FULL, None, None)),
    Recipe("nothing said of colours, 720 lines", "untold.mp4", size=(128, 720), tags=(BT709, None, None, None),
           options={"x264-params": "colormatrix=undef"}),
    Recipe("HEVC, 10 bits, 4:2:2", "ten.mp4", "libx265", "yuv422p10le", options=_QUIET, tags=(BT709, LIMITED, None, None)),
    Recipe("12 bits, 4:4:4", "twelve.mkv", "ffv1", "yuv444p12le", tags=(BT709, LIMITED, None, None)),
    Recipe("HDR: PQ", "pq.mp4", "libx265", "yuv420p10le", options=_QUIET, tags=(BT2020, LIMITED, BT2020, _PQ)),
    Recipe("HDR: HLG", "hlg.mkv", "libx265", "yuv420p10le", options=_QUIET, tags=(BT2020, LIMITED, BT2020, _HLG)),
    Recipe("SDR of BT.2020", "wide.mkv", "ffv1", "yuv420p10le", tags=(BT2020, LIMITED, BT2020, 14)),
    Recipe("Display P3", "p3.mkv", "ffv1", "yuv444p", tags=(BT709, LIMITED, _P3, 13)),
    Recipe("odd size, 4:4:4", "odd.mp4", pixels="yuv444p", size=(97, 65)),
    Recipe("RGB", "rgb.mkv", "libx264rgb", "rgb24", options={"crf": "4"}),
    Recipe("RGB, 16 bits a pixel, big-endian", "thousands.mov", "qtrle", "rgb555be"),
    Recipe("grey, limited range", "grey.mp4", "libx265", "gray", options=_QUIET, tags=(None, LIMITED, None, None)),
    Recipe("grey, 16 bits", "grey16.mkv", "ffv1", "gray16le"),
    Recipe("4:1:1", "dv411.mkv", "ffv1", "yuv411p"),
    Recipe("4:1:0", "yuv9.mkv", "ffv1", "yuv410p"),
    Recipe("alpha, 10 bits", "alpha.mov", "prores_ks", "yuva444p10le", tags=(BT709, LIMITED, None, None)),
    Recipe("RGB with alpha", "rgba.mkv", "ffv1", "bgra"),
    Recipe("interlaced H.264", "fields.mkv", options={"x264-params": "tff=1"}, tones=(Tone("mp2"),)),
    Recipe("interlaced MPEG-2, AC-3", "fields.ts", "mpeg2video", base=_FRAME, fields=True, tones=(Tone("ac3"),)),
    Recipe("DV: interlaced, pixels 16:15", "tape.dv", "dvvideo", "yuv420p", size=(720, 576)),
    Recipe("anamorphic: pixels 4:3", "anamorphic.mp4", aspect=Fraction(4, 3)),
    Recipe("turned by 90 degrees, anamorphic", "turned.mp4", turn=90, aspect=Fraction(4, 3)),
    Recipe("turned by 270 degrees and mirrored", "mirrored.mp4", turn=270, flip=True),
    Recipe("uneven times", "uneven.mkv", times=_UNEVEN, tones=(Tone("libopus", seconds=2.5),)),
    Recipe("uneven times, MP4", "uneven.mp4", times=_UNEVEN, base=_90K, tones=_aac(seconds=2.5)),
    Recipe("times from an hour on, FLAC", "late.mkv", times=_LATE, tones=(Tone("flac", start=3600.0),)),
    Recipe("a gap of ten minutes", "gap.mp4", times=(*range(0, 520, 40), 600_000), base=_90K),
    Recipe("250 a second", "fast.mkv", times=range(0, 56, 4)),
    Recipe("29.97 a second, transport stream", "ntsc.ts", times=tuple(round(number * 1001 / 30) for number in range(FRAMES)),
           base=_90K, tones=_aac()),
    Recipe("edit list that hides the head", "edited.mp4", options={"bf": "2", "g": "8"}, after=_without_head,
           numbers=range(4, FRAMES)),
    Recipe("no times: raw H.264", "raw.h264", container="h264"),
    Recipe("times out of order: H.264 in AVI", "disorder.avi", options={"bf": "2", "g": "8"}, base=_FRAME),
    Recipe("MPEG-4 with B-frames, ADPCM", "packed.avi", "mpeg4", options={"bf": "2", "g": "8"}, base=_FRAME,
           tones=(Tone("adpcm_ms", 22050),)),
    Recipe("Motion JPEG, PCM of 8 bits", "camera.avi", "mjpeg", "yuvj422p", base=_FRAME,
           tones=(Tone("pcm_u8", 11025, "mono"),)),
    Recipe("WMV, WMA", "media.wmv", "wmv2", container="asf", base=_FRAME,
           tones=(Tone("wmav2", 44100, options={"b": "96000"}),)),
    Recipe("Flash, Nellymoser", "flash.flv", "flv", tones=(Tone("nellymoser", 22050, "mono"),)),
    Recipe("3GP, H.263", "phone.3gp", "h263", size=(128, 96), base=_FRAME),
    Recipe("VP8, Vorbis", "web.webm", "libvpx", tones=(Tone("vorbis", options={"strict": "-2"}),)),
    Recipe("AV1, Opus in 5.1", "av1.mkv", "libsvtav1", tones=(Tone("libopus", layout="5.1"),)),
    Recipe("ProRes, PCM in 5.1", "studio.mov", "prores_ks", "yuv422p10le", tags=(BT709, LIMITED, None, None),
           tones=(Tone("pcm_s24le", layout="5.1"),)),
    Recipe("DVD: program stream, MP2", "disc.vob", "mpeg2video", container="vob", base=_FRAME, tones=(Tone("mp2"),)),
    Recipe("two tracks of sound", "tracks.mkv", tones=(Tone("aac"), Tone("ac3"))),
    Recipe("sound that begins late", "silent.mkv", tones=(Tone("pcm_s16le", start=0.2, seconds=0.3),)),
    Recipe("sound that begins before the picture", "early.mkv", times=_A_SECOND_ON,
           tones=(Tone("pcm_s16le", seconds=1.5),)),
    Recipe("sound that goes on", "longer.mp4", tones=_aac(seconds=2.0)),
    Recipe("a cover picture", "cover.mkv", after=_covered),
    Recipe("MXF, PCM", "broadcast.mxf", "mpeg2video", base=_FRAME, tones=(Tone("pcm_s16le"),)),
    Recipe("size changes", "sizes.h264", container="h264", after=_of_two_sizes, numbers=(*range(FRAMES), *range(FRAMES))),
    Recipe("two recordings in one file", "joined.ts", base=_90K, after=_doubled, numbers=(*range(FRAMES), *range(FRAMES)),
           times=tuple(100 * number for number in range(FRAMES)), tones=_aac(seconds=1.4)),
    Recipe("fragmented MP4", "fragments.mp4", muxer={"movflags": "frag_keyframe+empty_moov"}, options={"g": "5"}, tones=_aac()),
    Recipe("GIF", "moving.gif", "gif", "rgb8", times=tuple(50 * number for number in range(FRAMES)), base=Fraction(1, 100)),
    Recipe("animated PNG", "moving.png", "apng", "rgb24", container="apng"),
)  # fmt: skip


class Made(NamedTuple):
    """A video on disk: what is odd about it, the numbers its frames tell, and how its stored pictures are to be turned."""

    what: str
    path: Path
    numbers: tuple[int, ...]
    seconds: tuple[float, ...] | None = None
    turn: int = 0
    flip: bool = False


def made_videos(folder: Path) -> Iterator[Made]:
    """Each video, made in ``folder``."""
    for recipe in RECIPES:
        yield recipe_made(recipe, folder)
    yield images(folder)


def recipe_made(recipe: Recipe, folder: Path) -> Made:
    """One of them."""
    return Made(
        recipe.what, recipe.make(folder), tuple(recipe.numbers), tuple(recipe.seconds), recipe.turn, recipe.flip
    )


def images(parent: Path) -> Made:
    """A folder of pictures: PNG of 8 and 16 bits, with alpha, TIFF, WebP, and JPEG that is to be turned."""
    folder = parent / "images"
    folder.mkdir(parents=True)
    for number, suffix in enumerate(("png", "png", "png", "tiff", "webp", "jpg")):
        image = drawn(number)[..., ::-1]
        if number == 1:
            image = image.astype(np.uint16) * 257
        if number == 2:
            image = np.dstack([image, np.full(image.shape[:2], 128, np.uint8)])
        path = folder / f"{number}.{suffix}"
        if suffix == "jpg":
            path.write_bytes(_to_be_turned(np.rot90(image)))
        else:
            cv2.imwrite(str(path), image)
    return Made("images: 16 bits, alpha, TIFF, WebP, turned JPEG", folder, tuple(range(6)))


def _to_be_turned(image: np.ndarray) -> bytes:
    """A JPEG whose EXIF says that it is to be turned clockwise by a quarter."""
    data = cv2.imencode(".jpg", np.ascontiguousarray(image))[1].tobytes()
    exif = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<HHHIHHI", 1, 0x0112, 3, 1, 6, 0, 0)
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]
