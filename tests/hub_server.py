"""A small Hugging Face hub on the loopback address: it serves folders as models, at the endpoints that huggingface_hub asks."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Revisions = dict[str, Path]
"""The folder of each revision; a branch has the folder of its commit."""


class Hub:
    """What is served: ``models`` by name. ``asked``: the paths of all requests; ``fault``: "half" of the weights, or "damaged FILE"."""

    def __init__(self) -> None:
        self.models: dict[str, Revisions] = {}
        self.asked: list[str] = []
        self.fault = ""
        self.gated = False
        self.url = ""

    def add(self, name: str, folder: Path, *, branch: str = "main") -> str:
        """Serve ``folder`` as ``branch`` of ``name``; returns its commit."""
        content = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
        commit = hashlib.sha1(content).hexdigest()
        self.models.setdefault(name, {}).update({branch: folder, commit: folder})
        return commit

    def commit(self, name: str, folder: Path) -> str:
        """The commit of a folder of ``name``."""
        return next(one for one, place in self.models[name].items() if place == folder and len(one) == 40)

    def info(self, name: str, folder: Path) -> dict[str, Any]:
        """The answer on a model, as /api/models gives it."""
        siblings = [{"rfilename": path.name} for path in _files(folder)]
        commit = self.commit(name, folder)
        return {"id": name, "modelId": name, "sha": commit, "siblings": siblings, "private": False, "tags": []}


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_file()]


def _tree(folder: Path) -> list[dict[str, Any]]:
    """The answer on the files of a revision."""
    return [{"type": "file", "path": path.name, "size": path.stat().st_size, **_sums(path)} for path in _files(folder)]


def _sums(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    found: dict[str, Any] = {"oid": hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()}
    if path.suffix in (".safetensors", ".bin"):
        sha256 = hashlib.sha256(content).hexdigest()
        found["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 130}
    return found


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve a hub as long as the block runs."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.0"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = urlsplit(self.path).path
        self.hub.asked.append(f"{self.command} {path}")
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"] and len(parts) >= 4:
            revision = "/".join(parts[5:]) or "main"
            folder = self._folder("/".join(parts[2:4]), revision)
            if folder is not None:
                found = _tree(folder) if parts[4:5] == ["tree"] else self.hub.info("/".join(parts[2:4]), folder)
                self._send(json.dumps(found).encode(), {})
        elif len(parts) >= 5 and parts[2] == "resolve":
            folder = self._folder("/".join(parts[:2]), parts[3])
            if folder is not None:
                self._file(folder / parts[4], self.hub.commit("/".join(parts[:2]), folder), body=body)
        else:
            self._fail(404, "")

    def _folder(self, name: str, revision: str) -> Path | None:
        if self.hub.gated:
            self._fail(403, "GatedRepo")
        elif name not in self.hub.models:
            self._fail(404, "RepoNotFound")
        elif revision not in self.hub.models[name]:
            self._fail(404, "RevisionNotFound")
        else:
            return self.hub.models[name][revision]
        return None

    def _file(self, path: Path, commit: str, *, body: bool) -> None:
        content = path.read_bytes()
        sums = _sums(path)
        etag = sums["lfs"]["oid"] if "lfs" in sums else sums["oid"]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Content-Length": str(len(content))}
        if body and "lfs" in sums and self.hub.fault == "half":
            self.hub.fault = "down"
            content = content[: len(content) // 2]
        elif body and self.hub.fault == f"damaged {path.name}":
            content = content[:-1] + bytes([content[-1] ^ 1])
        elif body and self.hub.fault == "down":
            return self._fail(503, "")
        return self._send(content if body else b"", headers)

    def _send(self, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for key, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)

    def _fail(self, status: int, code: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()
