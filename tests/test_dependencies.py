"""The dependencies: every import is declared, and what not every version has is used in one place with a fallback."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import av

from clockseg.video import open_clip
from video_making import picture

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


def test_one_module_opens_containers_for_reading() -> None:
    opening = {
        path.name
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("av.open", "av.container.open")
        and [ast.unparse(one) for one in node.args[1:]] != ["'w'"]
    }
    assert len(opening) == 1


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
