"""A cluster: a local one of two workers, one of which is killed on the way."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from clockseg.cli.main import main
from clockseg.errors import MissingDependency
from clockseg.segmenting.workers import Cluster
from long_videos import FRAMES, different, long_videos
from networks import write_tiny

# A process of its own: Ray warns of what it does itself, and here warnings are errors.
RUN = """
import os, signal, sys, threading, time
from pathlib import Path
import ray
from clockseg.cli.main import main

def kill_one(pieces):
    while not list(pieces.glob("*/.part/000000")):
        time.sleep(0.02)
    for comm in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if comm.read_text().startswith("ray::Serving"):
                os.kill(int(comm.parent.name), signal.SIGKILL)
                print("killed", flush=True)
                return
        except OSError:
            pass

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
threading.Thread(target=kill_one, args=[Path(sys.argv[1])], daemon=True).start()
sys.exit(main(sys.argv[2:]))
"""


def test_without_ray_the_line_that_installs_it_is_told(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"pip install '\.\[ray\]'"):
        Cluster(lambda: None, 1, address="auto", cores=1)


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install '.[ray]' in the clone")
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="the worker to kill is found in /proc")
def test_a_worker_is_killed_on_the_way_and_the_bytes_are_those_of_one_process(tmp_path) -> None:
    long_videos(tmp_path / "videos", 3)
    given = [str(tmp_path / "videos"), "--network", str(write_tiny(tmp_path)), "--engine", "openvino", "--threads", "1"]
    given += ["--schedule", "carried(skip_frame(7), interpolate(flow))"]
    assert main(["segment", *given, "--quiet", "--out", str(tmp_path / "one")]) == 0
    out = tmp_path / "cluster"
    command = ["segment", *given, "--out", str(out), "--jobs", "2", "--cluster", "auto"]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(out), *command], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "killed" in done.stdout
    assert f"{3 * FRAMES} frames" in done.stdout
    assert not different(tmp_path / "one", out)
