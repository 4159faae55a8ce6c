"""Files that get their names when they are whole, alone and together; whatever comes between."""

from __future__ import annotations

from pathlib import Path

import pytest

import networks
from clockseg import DataError
from clockseg.files import whole
from clockseg.graph import sidecar
from clockseg.graph.onnx_reader import write_network
from clockseg.graph.sidecar import Input, Sidecar


def there(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted(folder.iterdir())}


def test_nothing_has_the_name_before_the_end(tmp_path: Path) -> None:
    with whole(tmp_path / "a") as part:
        part.write_text("new")
        assert not (tmp_path / "a").exists()
    assert there(tmp_path) == {"a": "new"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_was_there_stays_when_writing_fails(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "a").write_text("old")

    def failing() -> None:
        with whole(tmp_path / "a") as part:
            part.write_text("ne")
            raise error

    with pytest.raises(error):
        failing()
    assert there(tmp_path) == {"a": "old"}


def test_files_that_belong_together_stay_if_one_cant_be_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def failing() -> None:
        with whole(tmp_path / "a") as part, whole(tmp_path / "b"):
            part.write_text("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert there(tmp_path) == {"a": "old"}


def test_an_older_network_keeps_its_own_sidecar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Sidecar("old", Input("image", 16, 16), "y", (("y",),))
    write_network(networks.tiny(), said, tmp_path / "net.onnx")
    monkeypatch.setattr(sidecar, "dump", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_network(networks.tiny(), said, tmp_path / "net.onnx")
    assert sidecar.read(tmp_path / "net.json") == said
    assert sorted(file.name for file in tmp_path.iterdir()) == ["net.json", "net.onnx"]


def test_where_nothing_can_be_written_it_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="can't be written: No such file or directory"):
        write_network(networks.tiny(), Sidecar("t", Input("image", 16, 16), "y", (("y",),)), tmp_path / "no" / "n.onnx")
