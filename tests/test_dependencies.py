"""The dependencies: every import is declared, and what not every version has is used in one place with a fallback."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from clockseg.video import open_clip
from video_making import picture, write_video

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "huggingface_hub": "huggingface-hub",
    "cv2": "opencv-python-headless",
    "ml_dtypes": "ml-dtypes",
    "google": "onnx",  # protobuf, which onnx is made of
    "torchvision": "torch",  # an adapter for those who have it
}
LOADERS = {"import_module", "_imported", "_onnxruntime", "find_spec"}


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[ast.Constant(value=str(text)), *_]):
                if name in LOADERS:
                    yield text


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return {re.split(r"[\[<>=!~; ]", line)[0] for line in lines}


def test_every_package_that_is_imported_is_declared() -> None:
    found = {
        module.partition(".")[0]
        for path in (ROOT / "src").rglob("*.py")
        for module in imports(ast.parse(path.read_text(encoding="utf-8")))
    }
    needed = found - set(sys.stdlib_module_names) - {"clockseg"}
    assert {"numpy", "av", "ml_dtypes"} <= needed
    assert {PACKAGES.get(name, name) for name in needed} <= declared()


def test_one_module_opens_containers() -> None:
    opening = {
        path.name
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("av.open", "av.container.open")
    }
    assert len(opening) == 1


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_video(tmp_path / "a.mkv", [picture(64, 48, seed) for seed in range(3)])


def test_a_pyav_without_the_keyword_for_metadata_opens_videos(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = av.open
    expected = np.stack([frame.image for frame in open_clip(clip)])

    def without(file: Any, mode: str | None = None, **options: Any) -> Any:
        if "metadata_errors" in options:
            raise TypeError("open() got an unexpected keyword argument 'metadata_errors'")
        return real(file, mode, **options)

    monkeypatch.setattr(av, "open", without)
    assert np.array_equal(np.stack([frame.image for frame in open_clip(clip)]), expected)


def test_another_type_error_is_not_hidden(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise TypeError("another reason")

    monkeypatch.setattr(av, "open", broken)
    with pytest.raises(TypeError, match="another reason"):
        open_clip(clip)


def test_metadata_that_is_not_utf8_does_not_make_a_video_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "titled.mkv"
    with av.open(str(path), "w") as output:
        output.metadata["title"] = "TITLE-HERE"
        stream = output.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        output.mux(stream.encode(av.VideoFrame.from_ndarray(picture(64, 48), format="rgb24")))
        output.mux(stream.encode(None))
    data = path.read_bytes()
    assert data.count(b"TITLE-HERE") == 1
    path.write_bytes(data.replace(b"TITLE-HERE", b"TITL\xe9-HERE"))
    assert len(list(open_clip(path))) == 1
