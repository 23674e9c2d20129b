"""One of the two is killed while llama.cpp's own programs compute.

`make llama` builds them, once; where it was not called these tests skip.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import numpy as np
import pytest

from ggscope_capture import recording, ring, targets
from ggscope_capture.ring_format import RingError
from recordings import facts_of
from tracing import built, info, tracer, tracer_environment

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the tracer runs on Linux only so far"
)
MANY = 8000
"""Tokens that no program comes to the end of before it is killed."""
Variables = dict[str, str]


@pytest.fixture
def rings(tmp_path: Path) -> Path:
    folder = tmp_path / "rings"
    folder.mkdir()
    return folder


@pytest.fixture
def variables(rings: Path, tmp_path: Path) -> Variables:
    tracer()
    plain = {k: v for k, v in os.environ.items() if "GGML" not in k}
    return plain | {
        "GGSCOPE_RINGS": str(rings),
        "OMP_WAIT_POLICY": "passive",  # the cores are shared
        "QT_QPA_PLATFORM": "offscreen",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


def direct(variables: Variables, path: Path) -> Variables:
    """Return what lets the tracer in without the launcher."""
    own = {"GGSCOPE_RING": str(path), "GGSCOPE_RING_SIZE": str(64 << 20)}
    return variables | tracer_environment("preload") | own


def completion(model: Path, n_tokens: int) -> list[str]:
    target = targets.Target(path=built("shared"), kind="program", origin="source")
    line = target.command(model, "sun and moon", tokens=n_tokens, threads=1)
    return [*line, "-c", str(MANY + 100)]


def captured(*text: object) -> list[str]:
    return [sys.executable, "-m", "ggscope_capture", *map(str, text)]


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


@contextmanager
def started(line: list[str], variables: Variables) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that says nothing; whatever happens, it ends here."""
    with subprocess.Popen(
        line, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        try:
            yield child
        finally:
            child.kill()


def check_recording(out: Path, n_records: int) -> None:
    """Nothing is missing, and a person can look at it."""
    sidecar = facts_of(out)
    assert (sidecar["records"], sidecar["lost"]) == (n_records, 0)
    content = np.fromfile(out, "<u8").reshape(-1, 32)[:n_records]
    assert np.all(np.diff(content[:, 0].astype(np.int64)) > 0)
    spans = (lane["spans"] for lane in info(out)["lanes"] if lane["kind"] == "thread")
    assert sum(spans) == n_records


def recover(path: Path, out: Path, variables: Variables) -> None:
    done = subprocess.run(
        captured("recover", path, "-o", out), env=variables, capture_output=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def written(path: Path) -> int:
    """Return how many records a program has put into a ring."""
    with ring.Ring(path, is_owner=False) as opened:
        return int(opened.lanes["head"].sum())


def pause(seed: int) -> None:
    time.sleep(random.Random(seed).random() * 0.2)


def test_completion_that_is_killed_leaves_the_launcher_all_it_wrote(
    variables: Variables, rings: Path, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    line = captured("run", "-o", out, "--", *completion(tiny_models["nano"], MANY))

    with started(line, variables) as launcher:
        wait_for(
            lambda: any(r.state == "running" for r in recording.ring_statuses(rings))
        )
        pause(1)
        (report,) = recording.ring_statuses(rings)
        os.kill(report.pid, signal.SIGKILL)
        code = launcher.wait(30)

    assert code == -signal.SIGKILL  # as the program did
    records = facts_of(out)["records"]
    assert records > 0
    check_recording(out, records)
    assert list(rings.iterdir()) == []


def test_server_that_is_killed_leaves_a_ring_that_is_found(
    variables: Variables, rings: Path, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    path, out, port = rings / "ggscope-server", tmp_path / "out.bin", free_port()
    line = [str(built("shared", "llama-server")), "-m", str(tiny_models["nano"])]
    line += ["-t", "1", "-np", "1", "-c", str(MANY), "--no-warmup"]

    with started([*line, "--port", str(port)], direct(variables, path)) as server:
        asks = threading.Thread(target=ask_for_much, args=(port,))
        asks.start()
        wait_for(lambda: any(r.waiting for r in recording.ring_statuses(rings)))
        pause(2)
        server.kill()
        server.wait(30)
        asks.join(30)

    (report,) = recording.ring_statuses(rings)
    n_records = written(path)
    assert (report.state, report.waiting) == ("dead", n_records)
    recover(path, out, variables)
    check_recording(out, n_records)
    assert list(rings.iterdir()) == []


@pytest.mark.parametrize("kind", ["json", "window"])
def test_program_lives_on_and_what_a_killed_viewer_left_is_there(
    kind: str, variables: Variables, rings: Path, tiny_models: dict[str, Path],
    tmp_path: Path,
) -> None:  # fmt: skip
    path, out = rings / "ggscope-viewed", tmp_path / "out.bin"
    view = {"json": ["live", str(path), "--json"], "window": ["--live", str(path)]}
    line = completion(tiny_models["nano"], MANY)

    with started(line, direct(variables, path)) as program:
        wait_for(lambda: any(r.waiting for r in recording.ring_statuses(rings)))
        program.send_signal(signal.SIGSTOP)  # else the ring may be full before
        viewer_line = [sys.executable, "-m", "ggscope", *view[kind]]
        with started(viewer_line, variables) as viewer:
            wait_for(lambda: taken(path) > 0)
            program.send_signal(signal.SIGCONT)
            pause(3)
            viewer.kill()
        before = written(path)
        wait_for(lambda: written(path) > before)
        assert program.poll() is None
        program.kill()

    (report,) = recording.ring_statuses(rings)
    n_records, n_taken = written(path), taken(path)
    assert (report.state, report.reader) == ("dead", 0)
    assert report.waiting == n_records - n_taken
    recover(path, out, variables)
    # The command keeps nothing; what the window took lies in its folder.
    check_recording(out, n_records if kind == "window" else n_records - n_taken)
    assert list(rings.iterdir()) == []


def taken(path: Path) -> int:
    """Return how many records somebody has taken out of a ring, 0 before it is one."""
    try:
        with ring.Ring(path, is_owner=False) as opened:
            return int(opened.lanes["tail"].sum())
    except RingError:
        return 0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def ask_for_much(port: int) -> None:
    """Ask a server as soon as it listens; that it is killed meanwhile is expected."""
    question = {"prompt": "once upon a time", "n_predict": MANY, "ignore_eos": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/completion", json.dumps(question).encode(),
        {"Content-Type": "application/json"},
    )  # fmt: skip
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError:  # it loads its model
            time.sleep(0.05)
        except (OSError, HTTPException) as error:
            if "refused" not in str(error):
                return
            time.sleep(0.05)
        else:
            return
