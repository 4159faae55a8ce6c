"""Small videos for the tests, made with PyAV."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from clockseg.video import OverlayWriter, open_clip
from clockseg.video.join import join

MS = Fraction(1, 1000)


def data_folder() -> Path:
    """The shared data: CLOCKSEG_DATA, else the folder beside the checkout."""
    default = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("CLOCKSEG_DATA", default)) / "data"


def picture(width: int, height: int, seed: int = 0) -> np.ndarray:
    """A smooth picture with a bright top left corner."""
    y, x = np.mgrid[:height, :width]
    image = np.stack([120 + 60 * x / width, 60 + 100 * y / height, np.full(x.shape, 40 + 5 * (seed % 30))], 2)
    image[: height // 2, : width // 2] += 60
    return image.astype(np.uint8)


def write_video(
    path: Path,
    images: Iterable[np.ndarray],
    *,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    fps: int = 25,
    times: Sequence[int] | None = None,
    rotation: int = 0,
    flip: bool = False,
    audio: tuple[str, int, float, float] | None = None,
    container_format: str | None = None,
    base: Fraction = MS,
    aspect: Fraction = Fraction(1),
    **options: str,
) -> Path:
    """Encodes pictures; ``times`` in ms; ``audio`` is (codec, rate, start seconds, seconds); ``aspect`` of a pixel."""
    images = list(images)
    with av.open(str(path), "w", format=container_format) as output:
        stream = output.add_stream(codec, rate=fps, options=options)
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = pix_fmt
        stream.codec_context.time_base, stream.codec_context.sample_aspect_ratio = base, aspect
        if rotation or flip:
            stream.set_display_rotation(rotation, hflip=flip)
        sound = None if audio is None else output.add_stream(audio[0], rate=audio[1], layout="stereo")
        for index, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            seconds = Fraction(times[index], 1000) if times else Fraction(index, fps)
            frame.pts, frame.time_base = int(seconds / base), base
            output.mux(stream.encode(frame))
        if audio is not None:
            _tone(output, sound, audio)
        output.mux(stream.encode(None))
    return path


def _tone(output, stream, audio) -> None:
    _, rate, start, seconds = audio
    sample = np.sin(np.arange(int(rate * seconds)) * 2 * np.pi * 440 / rate) * 0.3
    planes = np.stack([sample, sample]).astype(np.float32)
    for at in range(0, planes.shape[1], 1024):
        piece = np.ascontiguousarray(planes[:, at : at + 1024])
        frame = av.AudioFrame.from_ndarray(piece, format="fltp", layout="stereo")
        frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), int(start * rate) + at
        output.mux(stream.encode(frame))
    output.mux(stream.encode(None))


def with_sound(source: Path, to: Path, **options: Any) -> tuple[str, ...]:
    """The pictures of a video encoded anew, with its sound; gives what of the sound was lost."""
    silent = to.with_name("silent.mp4")
    with open_clip(source) as clip, OverlayWriter(silent, fps=clip.fps, **options) as writer:
        for frame in clip:
            writer.append(frame.image, frame.pts_seconds)
    problems = join([silent], to, audio_from=source)
    silent.unlink()
    return problems


def stream_times(path: Path, kind: str = "video") -> list[float]:
    """Times of a stream's frames, in seconds."""
    with av.open(str(path)) as container:
        return [float(frame.pts * frame.time_base) for frame in container.decode(**{kind: 0})]
