"""A video of every kind through ``segment``: frames at their places, times, sound, shape of pixels, colours."""

from __future__ import annotations

import av
import pytest

from bright_network import write_bright
from clockseg.clocks.rates import frame_oracle
from clockseg.networks.load import load
from clockseg.segmenting.segmentation import segment
from video_axes import RECIPES, images, recipe_made
from video_checks import checked


@pytest.fixture(scope="module")
def bright(tmp_path_factory):
    return load(str(write_bright(tmp_path_factory.mktemp("bright"))), threads=1)


def passes(made, bright, folder):
    """All of it came through."""
    result = segment(made.path, folder / "out", bright, frame_oracle(1))
    check = checked(made, result.folder)
    assert check.passed, check


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_video_of_every_kind(recipe, bright, tmp_path) -> None:
    needed = {recipe.codec, *(tone.codec for tone in recipe.tones)}
    if not needed <= av.codecs_available:
        pytest.skip(f"this PyAV has no {', '.join(sorted(needed - av.codecs_available))}")
    (tmp_path / "in").mkdir()
    passes(recipe_made(recipe, tmp_path / "in"), bright, tmp_path)


def test_a_folder_of_images(bright, tmp_path) -> None:
    passes(images(tmp_path / "in"), bright, tmp_path)
