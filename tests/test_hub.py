"""Networks by name: downloaded from a hub, cut once, and kept cut. The hub is a small one on the loopback address."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import clockseg
from clockseg.cli.main import main
from clockseg.errors import DataError, MissingDependency, NetworkError
from clockseg.graph import sidecar
from clockseg.networks.checking import picture
from clockseg.networks.load import path_of, silent
from hub_server import Hub, serving
from video_making import write_video

transformers = pytest.importorskip("transformers", reason="needs transformers")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")

from clockseg.networks.hf import download  # noqa: E402

NAMES = ("road", "sky", "car", "person")
PROCESSOR = {
    "image_processor_type": "SegformerImageProcessor",
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "size": {"height": 64, "width": 96},
}
MODEL = "tiny/segformer"


def save(folder: Path, seed: int = 0) -> Path:
    """Write a SegFormer of random weights as save_pretrained does."""
    torch.manual_seed(seed)
    config = transformers.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        id2label=dict(enumerate(NAMES)),
        label2id={name: id for id, name in enumerate(NAMES)},
    )
    transformers.SegformerForSemanticSegmentation(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("made") / "segformer")


@pytest.fixture
def hub(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with one model, and empty caches."""
    from huggingface_hub import constants

    with serving() as hub:
        hub.add(MODEL, checkpoint)
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path / "cache"))
        yield hub


def environment(tmp_path: Path, url: str) -> dict[str, str]:
    return os.environ | {
        "HF_ENDPOINT": url,
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "CLOCKSEG_CACHE": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "0",
    }


WITHOUT = """
import sys
for name in ("torch", "transformers", "huggingface_hub", "safetensors"):
    sys.modules[name] = None
from clockseg.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_second_run_needs_neither_the_hub_nor_torch(hub: Hub, tmp_path: Path) -> None:
    video = write_video(tmp_path / "frames.mp4", [picture((96, 64))] * 3)
    command = ["segment", str(video), "--network", f"hf:{MODEL}", "--engine", "openvino", "--write", "labels", "--out"]
    first = subprocess.run(
        [sys.executable, "-m", "clockseg", *command, str(tmp_path / "one")],
        env=environment(tmp_path, hub.url),
        capture_output=True,
        text=True,
    )
    assert first.returncode == 0, first.stderr
    assert f"downloading {MODEL} at " in first.stderr
    assert "exporting and cutting" in first.stderr
    second = subprocess.run(
        [sys.executable, "-c", WITHOUT, *command, str(tmp_path / "two")],
        env=environment(tmp_path, "http://127.0.0.1:9"),
        capture_output=True,
        text=True,
    )
    assert second.returncode == 0, second.stderr
    one, two = (clockseg.read_labels(tmp_path / name / "frames") for name in ("one", "two"))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_the_network_is_the_one_that_the_hub_has(hub: Hub, checkpoint: Path, tmp_path: Path) -> None:
    net = clockseg.load(f"hf:{MODEL}", engine="openvino")
    assert net.name == "segformer"
    assert net.classes == NAMES
    local = clockseg.load(f"hf:{checkpoint}", engine="openvino")
    image = picture((96, 64))
    assert np.array_equal(net(image), local(image))
    assert main(["cut", f"hf:{MODEL}", "--engine", "openvino", "--out", str(tmp_path / "net.onnx")]) == 0
    assert sidecar.read(tmp_path / "net.json").classes == NAMES


def test_a_revision_is_pinned(hub: Hub, tmp_path: Path) -> None:
    first = path_of(f"hf:{MODEL}")
    commit = hub.add(MODEL, save(tmp_path / "newer", seed=1))
    asked = len(hub.asked)
    assert path_of(f"hf:{MODEL}") == first  # a branch stays what it was when it was first looked up
    assert len(hub.asked) == asked
    newer = path_of(f"hf:{MODEL}@{commit}")
    assert newer.parent.name == commit
    content = newer.read_bytes()
    assert content != first.read_bytes()
    clockseg.engines.clear_cache()
    assert not first.exists()
    assert path_of(f"hf:{MODEL}").read_bytes() == content


def test_a_network_whose_file_was_deleted_is_cut_again(hub: Hub) -> None:
    first = path_of(f"hf:{MODEL}")
    content = first.read_bytes()
    first.unlink()
    assert path_of(f"hf:{MODEL}").read_bytes() == content


def test_a_local_folder_is_cut_again_when_it_changes(hub: Hub, tmp_path: Path) -> None:
    folder = save(tmp_path / "local")
    first = path_of(f"hf:{folder}")
    assert path_of(f"hf:{folder}") == first
    save(folder, seed=1)
    assert path_of(f"hf:{folder}").read_bytes() != first.read_bytes()
    assert hub.asked == []


# Where it fails


def test_what_the_hub_does_not_have(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NetworkError, match="neither a folder tiny/other here nor a model of that name"):
        clockseg.load("hf:tiny/other")
    with pytest.raises(NetworkError, match="no revision 'v9'; give a branch, a tag or a commit"):
        clockseg.load(f"hf:{MODEL}@v9")
    hub.gated = True
    with pytest.raises(NetworkError, match=r"accept conditions.*hf auth login"):
        clockseg.load(f"hf:{MODEL}")
    assert main(["cut", "hf:../up", "--out", str(tmp_path / "net.onnx")]) == 1
    assert "it is not a name on the hub" in capsys.readouterr().err


@pytest.mark.parametrize("offline", [True, False])
def test_without_a_connection(hub: Hub, monkeypatch: pytest.MonkeyPatch, offline: bool) -> None:
    from huggingface_hub import constants

    def gone() -> None:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url if offline else "http://127.0.0.1:9")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)

    reason = "HF_HUB_OFFLINE" if offline else "refused"
    with monkeypatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", hub.url)
        gone()
        with pytest.raises(NetworkError, match=f"weights are not on this machine.*{reason}") as raised:
            clockseg.load(f"hf:{MODEL}")
        assert "\n" not in str(raised.value)
        assert hub.asked == []
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("config.json", "preprocessor_config.json", "model.safetensors"):
        huggingface_hub.hf_hub_download(MODEL, name, revision=hub_commit(hub))
    gone()
    asked = len(hub.asked)
    assert (download(MODEL, hub_commit(hub), silent) / "model.safetensors").is_file()
    assert len(hub.asked) == asked


def test_a_branch_that_was_downloaded_is_in_the_hubs_cache(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a connection, as after clockseg's own cache was cleared."""
    from huggingface_hub import constants

    found = download(MODEL, "main", silent)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert download(MODEL, "main", silent) == found


def hub_commit(hub: Hub) -> str:
    return next(name for name in hub.models[MODEL] if len(name) == 40)


def test_half_a_file_is_not_used(hub: Hub, tmp_path: Path) -> None:
    hub.fault = "half"
    with pytest.raises(NetworkError, match=r"can't be downloaded: .*Nothing was kept; run again"):
        clockseg.load(f"hf:{MODEL}")
    assert not [*(tmp_path / "hub").rglob("*.safetensors"), *(tmp_path / "hub").rglob("*.incomplete")]
    hub.fault = ""
    assert clockseg.load(f"hf:{MODEL}", engine=None).classes == NAMES


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_wrong_checksum(hub: Hub, tmp_path: Path, file: str) -> None:
    """Weights have a sha256 on the hub, other files the sha1 of git."""
    hub.fault = f"damaged {file}"
    with pytest.raises(NetworkError, match=f"{re.escape(file)} has the checksum .* the hub states .* Run again"):
        clockseg.load(f"hf:{MODEL}")
    assert not [*(tmp_path / "hub").rglob(file)]
    hub.fault = ""
    assert clockseg.load(f"hf:{MODEL}", engine=None).classes == NAMES


def test_a_full_disk(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import file_download

    def full(url: str, file: Any, **_: object) -> None:
        file.write(b"some of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(file_download, "http_get", full)
        with pytest.raises(DataError, match=r"can't be written to .* \(No space left on device\).*set HF_HOME"):
            clockseg.load(f"hf:{MODEL}")
    assert not [*(tmp_path / "hub").rglob("*.incomplete")]
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    monkeypatch.setenv("CLOCKSEG_CACHE", str(blocked))
    with pytest.raises(DataError, match="Set CLOCKSEG_CACHE to another folder"):
        clockseg.load(f"hf:{MODEL}")


def test_a_disk_that_is_full_when_the_cut_network_is_written(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clockseg.networks import cutting

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(cutting, "cut_network", full)
        with pytest.raises(DataError, match=r"can't be written there \(No space left on device\).*set CLOCKSEG_CACHE"):
            clockseg.load(f"hf:{MODEL}")
    assert not [*(tmp_path / "cache" / "networks").rglob("*.onnx"), *(tmp_path / "cache").rglob(".part*")]
    assert clockseg.load(f"hf:{MODEL}", engine=None).classes == NAMES


def test_a_network_that_fails_to_be_cut_leaves_nothing(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clockseg.networks import cutting

    def fail(*_: object, **__: object) -> None:
        raise NetworkError("no")

    with monkeypatch.context() as patch:
        patch.setattr(cutting, "cut_network", fail)
        with pytest.raises(NetworkError, match="no"):
            clockseg.load(f"hf:{MODEL}")
    assert not [
        path for path in (tmp_path / "cache" / "networks").rglob("*") if path.is_file() or path.name.startswith(".part")
    ]


def test_a_pickle_is_refused_with_the_way_out(hub: Hub, checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pickled"
    shutil.copytree(checkpoint, folder)
    (folder / "model.safetensors").unlink()
    network = transformers.SegformerForSemanticSegmentation.from_pretrained(checkpoint)
    torch.save(network.state_dict(), folder / "pytorch_model.bin")
    hub.add("tiny/pickled", folder)
    for name in ("hf:tiny/pickled", f"hf:{folder}"):
        with pytest.raises(NetworkError, match=r"pytorch_model\.bin, a pickle") as raised:
            clockseg.load(name)
    assert not any("pytorch_model.bin" in path for path in hub.asked)
    line = str(raised.value).partition("python -c ")[2].strip('"')
    subprocess.run([sys.executable, "-c", line], cwd=folder, check=True)
    assert clockseg.load(f"hf:{folder}", engine=None).classes == NAMES


def test_libraries_that_are_missing_are_named_before_a_download(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clockseg.networks.load.find_spec", lambda name: None if name == "transformers" else name)
    with pytest.raises(MissingDependency, match="needs transformers to export the network, once: pip install"):
        clockseg.load(f"hf:{MODEL}")
    assert hub.asked == []


def test_a_checkpoint_without_a_size_names_the_command(hub: Hub, checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sizeless"
    shutil.copytree(checkpoint, folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | {"do_resize": False}))
    with pytest.raises(NetworkError, match=r"give --size WIDTHxHEIGHT.*clockseg cut"):
        clockseg.load(f"hf:{folder}")
