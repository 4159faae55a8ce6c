"""Sound: channels, loudness, tracks, and time lines that begin anew."""

from __future__ import annotations

import pytest

from made_videos import FRAMES, Recipe, Tone
from video_checks import tracks
from video_making import with_sound

LEVEL = 0.3 / 2**0.5


def rewritten(path):
    """The sound of the overlay of a video, and what its writer tells."""
    to = path.with_name("overlay.mp4")
    problems = with_sound(path, to)
    return tracks(to), problems


def made(folder, *tones, name="s.mkv", **options):
    return Recipe("", name, tones=tones, **options).make(folder)


@pytest.mark.parametrize(("layout", "channels"), [("mono", 1), ("stereo", 2), ("3.0", 3), ("5.1", 6), ("6.1", 8)])
def test_channels_stay_as_many_and_as_loud(tmp_path, layout, channels):
    path = made(tmp_path, Tone("pcm_s16le", layout=layout, seconds=1.0))
    ((track,), problems) = rewritten(path)
    assert problems == ()
    assert (track.codec, len(track.levels)) == ("aac", channels)
    assert track.levels[:2] == pytest.approx([LEVEL] * min(channels, 2), rel=0.1)


def test_more_channels_than_aac_has_become_stereo(tmp_path):
    path = made(tmp_path, Tone("pcm_s16le", layout="hexadecagonal", seconds=1.0))
    ((track,), _) = rewritten(path)
    assert len(track.levels) == 2
    assert track.seconds == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("codec", ["aac", "mp2"])
def test_sound_goes_on_where_a_second_recording_begins(tmp_path, codec):
    times = [100 * number for number in range(FRAMES)]
    path = made(tmp_path, Tone(codec, seconds=1.4), name="j.ts", times=times)
    one = tracks(path)[0].seconds
    path.write_bytes(path.read_bytes() * 2)
    ((track,), problems) = rewritten(path)
    assert problems == ()
    assert track.seconds == pytest.approx(2 * one, abs=0.1)


def test_tracks_keep_their_order_and_their_starts(tmp_path):
    path = made(tmp_path, Tone("ac3"), Tone("pcm_s16le", start=0.2, seconds=0.3), Tone("flac", seconds=0.4))
    (found, _) = rewritten(path)
    assert [track.codec for track in found] == ["ac3", "aac", "flac"]
    assert [track.start for track in found] == pytest.approx([0.0, 0.2, 0.0], abs=0.03)
