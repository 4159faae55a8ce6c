"""The overlay video: picture, times and sound."""

from __future__ import annotations

import av
import numpy as np
import pytest

from clockseg.errors import UsageError, VideoError
from clockseg.video import OverlayWriter, open_clip
from clockseg.video.drawing import fitted
from clockseg.video.join import join
from video_making import picture, stream_times, with_sound, write_video


def rewritten(source, to, **options):
    """The source through OverlayWriter, frame by frame, and its sound."""
    with_sound(source, to, **options)
    return to


def boxes(path) -> list[bytes]:
    """The MP4 file's outermost boxes, in order."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        found.append(data[at + 4 : at + 8])
        at += int.from_bytes(data[at : at + 4], "big")
    return found


@pytest.mark.parametrize("size", [(64, 48), (33, 21), (1, 1), (320, 722)])
def test_a_browser_can_play_it(tmp_path, size):
    path = tmp_path / "overlay.mp4"
    with OverlayWriter(path, fps=25) as writer:
        for seed in range(5):
            writer.append(picture(*size, seed), seed / 25)
    assert [p.name for p in tmp_path.iterdir()] == ["overlay.mp4"]
    assert boxes(path).index(b"moov") < boxes(path).index(b"mdat")
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
    assert len(frames) == 5
    assert stream.pix_fmt == "yuv420p"
    assert stream.codec_context.name == "h264"
    assert (stream.width, stream.height) == tuple(side + side % 2 for side in size)
    assert (frames[0].colorspace, frames[0].color_range) == (1 if size[1] > 720 else 6, 1)


def test_a_build_without_the_encoder_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(av, "codecs_available", set())
    with pytest.raises(VideoError, match="has no libx264"), OverlayWriter(tmp_path / "a.mp4") as writer:
        writer.append(picture(64, 48), 0.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [(64, 48), (64, 722)])
def test_colours_come_back(tmp_path, size):
    image = np.full((size[1], size[0], 3), (200, 90, 40), np.uint8)
    with OverlayWriter(tmp_path / "o.mp4") as writer:
        writer.append(image)
    (frame,) = open_clip(tmp_path / "o.mp4")
    assert np.abs(frame.image.astype(int) - image).max() <= 4


def test_variable_times_and_the_duration_are_kept(tmp_path):
    times = [0, 40, 50, 200, 1000, 1400, 1433]
    source = write_video(tmp_path / "v.mkv", [picture(64, 48, k) for k in range(7)], times=times)
    path = rewritten(source, tmp_path / "o.mp4")
    assert stream_times(path) == pytest.approx([time / 1000 for time in times], abs=1e-4)
    assert open_clip(path).duration_seconds == pytest.approx(1.433 + 0.04, abs=2e-3)


def test_constant_times_and_the_duration_are_kept(tmp_path):
    source = write_video(tmp_path / "v.mp4", [picture(64, 48, k) for k in range(50)])
    path = rewritten(source, tmp_path / "o.mp4")
    assert stream_times(path) == pytest.approx(stream_times(source), abs=1e-4)
    assert open_clip(path).duration_seconds == pytest.approx(2.0, abs=1e-3)


def test_times_that_start_late_stay_late(tmp_path):
    with OverlayWriter(tmp_path / "o.mp4", fps=25) as writer:
        for index in range(5):
            writer.append(picture(64, 48), 1.4 + index / 25)
    assert stream_times(tmp_path / "o.mp4")[0] == pytest.approx(1.4)


COPIED = [("mp4", "aac", 48000), ("mp4", "libmp3lame", 44100), ("mkv", "ac3", 48000), ("ts", "aac", 48000),
          ("mkv", "libopus", 48000), ("mkv", "flac", 44100), ("mp4", "alac", 44100)]  # fmt: skip
RECODED = [
    ("mkv", "pcm_s16le", 22050),
    ("avi", "pcm_s16le", 44100),
    ("mkv", "mp2", 48000),
    ("mkv", "pcm_s16le", 7000),
]


@pytest.mark.parametrize(("suffix", "codec", "rate"), COPIED)
def test_sound_is_copied(tmp_path, suffix, codec, rate):
    video = "mpeg4" if suffix == "avi" else "libx264"
    source = write_video(tmp_path / f"s.{suffix}", [picture(64, 48)] * 50, codec=video, audio=(codec, rate, 0, 2))
    path = rewritten(source, tmp_path / "o.mp4")
    before, after = sound(source), sound(path)
    assert after[0] == before[0] == codec.removeprefix("lib").replace("mp3lame", "mp3float")
    assert after[1] == before[1]
    offset_in = before[2] - stream_times(source)[0]
    assert after[2] - stream_times(path)[0] == pytest.approx(offset_in, abs=0.03)


@pytest.mark.parametrize(("suffix", "codec", "rate"), RECODED)
def test_other_sound_becomes_aac(tmp_path, suffix, codec, rate):
    video = "mpeg4" if suffix == "avi" else "libx264"
    source = write_video(tmp_path / f"s.{suffix}", [picture(64, 48)] * 50, codec=video, audio=(codec, rate, 0, 2))
    path = rewritten(source, tmp_path / "o.mp4")
    name, _, start, seconds, level = sound(path)
    assert name == "aac"
    assert start == pytest.approx(0, abs=0.03)
    assert seconds == pytest.approx(2, abs=0.06)
    assert level == pytest.approx(0.3 / 2**0.5, rel=0.1)


@pytest.mark.parametrize("codec", ["aac", "pcm_s16le"])
def test_sound_that_starts_late_stays_late(tmp_path, codec):
    source = write_video(tmp_path / "s.mkv", [picture(64, 48)] * 50, audio=(codec, 48000, 0.7, 1.0))
    assert sound(rewritten(source, tmp_path / "o.mp4"))[2] == pytest.approx(0.7, abs=0.03)


def sound(path):
    """(codec, bytes of its packets, first time, seconds, level) of the first audio stream."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        packets = [bytes(packet) for packet in container.demux(stream)]
    with av.open(str(path)) as container:
        frames = list(container.decode(audio=0))
    start = float(frames[0].pts * frames[0].time_base)
    rate = frames[0].sample_rate
    samples = np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames[2:-2]])
    level = float(np.sqrt(np.mean(np.square(samples.astype(float))))) if samples.dtype == np.float32 else 0.0
    if packets[0][:1] == b"\xff" and stream.codec_context.name == "aac":
        packets = [packet[7:] for packet in packets]  # the headers of a transport stream
    return stream.codec_context.name, packets, start, sum(frame.samples for frame in frames) / rate, level


def test_sound_is_muxed_in_step(tmp_path):
    source = write_video(tmp_path / "s.mp4", [picture(64, 48, k) for k in range(250)], audio=("aac", 48000, 0, 10))
    path = rewritten(source, tmp_path / "o.mp4")
    with av.open(str(path)) as container:
        ahead = {"video": 0.0, "audio": 0.0}
        for packet in container.demux():
            if packet.dts is not None:
                ahead[packet.stream.type] = float(packet.dts * packet.time_base)
                assert abs(ahead["video"] - ahead["audio"]) < 1.5


def test_sound_can_end_with_the_picture(tmp_path):
    source = write_video(tmp_path / "s.mp4", [picture(64, 48)] * 50, audio=("aac", 48000, 0, 2))
    with OverlayWriter(tmp_path / "silent.mp4", fps=25) as writer:
        for index in range(10):
            writer.append(picture(64, 48), index / 25)
    join([tmp_path / "silent.mp4"], tmp_path / "o.mp4", audio_from=source, audio_end_seconds=0.4)
    assert sound(tmp_path / "o.mp4")[3] == pytest.approx(0.4, abs=0.06)


def test_every_audio_stream_is_kept(tmp_path):
    one = write_video(tmp_path / "1.mp4", [picture(64, 48)] * 10, audio=("aac", 48000, 0, 0.4))
    with av.open(str(tmp_path / "2.mkv"), "w") as output, av.open(str(one)) as source:
        templates = [source.streams.video[0], source.streams.audio[0], source.streams.audio[0]]
        streams = [output.add_stream_from_template(template) for template in templates]
        for packet in source.demux():
            for stream in [s for s, t in zip(streams, templates, strict=True) if t is packet.stream]:
                if packet.dts is not None:
                    copy = av.Packet(bytes(packet))
                    copy.pts, copy.dts, copy.time_base, copy.stream = packet.pts, packet.dts, packet.time_base, stream
                    copy.is_keyframe = packet.is_keyframe
                    output.mux(copy)
    with av.open(str(rewritten(tmp_path / "2.mkv", tmp_path / "o.mp4"))) as container:
        assert [stream.type for stream in container.streams] == ["video", "audio", "audio"]


def test_a_source_without_sound(tmp_path):
    source = write_video(tmp_path / "s.mp4", [picture(64, 48)] * 3)
    with av.open(str(rewritten(source, tmp_path / "o.mp4"))) as container:
        assert len(container.streams) == 1


def test_sound_that_cannot_be_opened_is_told(tmp_path):
    with OverlayWriter(tmp_path / "silent.mp4") as writer:
        writer.append(picture(64, 48))
    problems = join([tmp_path / "silent.mp4"], tmp_path / "o.mp4", audio_from=tmp_path / "missing.mp4")
    assert problems == ("there is no sound: No such file or directory",)


def test_broken_sound_never_stops_the_video(tmp_path):
    source = write_video(tmp_path / "s.mkv", [picture(64, 48)] * 50, audio=("flac", 48000, 0, 2))
    data = bytearray(source.read_bytes())
    rng = np.random.default_rng(0)
    for at in rng.integers(len(data) // 4, len(data), 30):
        data[at] ^= 0x55
    source.write_bytes(data[: len(data) * 3 // 4])
    with OverlayWriter(tmp_path / "silent.mp4", fps=25) as writer:
        for index in range(50):
            writer.append(picture(64, 48), index / 25)
    join([tmp_path / "silent.mp4"], tmp_path / "o.mp4", audio_from=source)
    assert len(stream_times(tmp_path / "o.mp4")) == 50


def test_a_picture_of_another_size_is_fitted_in(tmp_path):
    with OverlayWriter(tmp_path / "o.mp4") as writer:
        writer.append(np.full((48, 64, 3), 200, np.uint8))
        writer.append(np.full((96, 96, 3), 200, np.uint8))
    _, second = open_clip(tmp_path / "o.mp4")
    assert second.size == (64, 48)
    assert second.image[:, :40].mean() > 190
    assert second.image[:, 56:].mean() < 10


def test_a_picture_that_fits_is_not_copied():
    image = picture(64, 48)
    assert fitted(image, (64, 48)) is image


def test_an_exception_leaves_nothing_behind(tmp_path):
    with pytest.raises(UsageError), OverlayWriter(tmp_path / "o.mp4") as writer:  # noqa: PT012
        writer.append(picture(64, 48))
        writer.append(np.zeros((4, 4), np.uint8))
    assert not list(tmp_path.iterdir())


def test_no_frames_no_file(tmp_path):
    OverlayWriter(tmp_path / "o.mp4").close()
    assert list(tmp_path.iterdir()) == []


def test_joining_no_pieces_writes_nothing(tmp_path):
    assert join([], tmp_path / "o.mp4") == ()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_told(tmp_path):
    with pytest.raises(VideoError, match="cannot be written"):
        OverlayWriter(tmp_path / "missing" / "o.mp4")
    with pytest.raises(UsageError, match="Give uint8 RGB"), OverlayWriter(tmp_path / "o.mp4") as writer:
        writer.append(np.zeros((4, 4), np.uint8))


def test_odd_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("-o.mp4", "http:o.mp4", "a%03d.mp4"):
        with OverlayWriter(name) as writer:
            writer.append(picture(64, 48))
        assert (tmp_path / name).exists()
