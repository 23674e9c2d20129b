"""Whole runs of unmodified llama.cpp under the launcher, read by the viewer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ggscope_capture import targets
from ggscope_capture.__main__ import main
from recordings import facts_of
from tracing import info

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="tried on Linux only"
)
TOKENS = 3


@pytest.mark.parametrize("package", ["npm_llama", "pypi_llama"])
@pytest.mark.parametrize(("model", "threads"), [("nano", 1), ("nano-moe", 2)])
def test_trace_has_every_op_of_every_thread(
    package: str,
    model: str,
    threads: int,
    request: pytest.FixtureRequest,
    tiny_models: dict[str, Path],
    tmp_path: Path,
) -> None:
    """Both entry points: npm's libraries load backends, PyPI's has all in one."""
    target: targets.Target = request.getfixturevalue(package)
    command = target.command(
        tiny_models[model], "sun and moon", tokens=TOKENS, threads=threads
    )
    out, facts = tmp_path / "out.bin", tmp_path / "facts.json"

    plain = subprocess.run(command, capture_output=True, check=True)
    run = [sys.executable, "-m", "ggscope_capture", "run", "--require", "-o", str(out)]
    traced = subprocess.run(
        [*run, "--", *command, "--facts", str(facts)], capture_output=True, check=False
    )

    assert traced.returncode == 0, traced.stderr
    assert (traced.stdout, traced.stderr) == (plain.stdout, b"")
    report = info(out)
    sidecar = facts_of(out)
    n = sidecar["records"]
    assert report["counts"]["records"] == n + sidecar["extension_records"]
    assert (sidecar["extension_records"] > 0) == (model == "nano-moe")
    lanes = [lane for lane in report["lanes"] if lane["kind"] == "thread"]
    assert n % (TOKENS * threads) == 0
    assert [lane["spans"] for lane in lanes] == [n // threads] * threads
    assert report["spans_by_quality"]["measured"] == report["counts"]["spans"] > n
    steps = json.loads(facts.read_bytes())["steps"][0]
    assert len(steps) == report["counts"]["passes"] == TOKENS
    assert report["counts"]["tokens"] == sum(map(len, steps))
    assert report["counts"]["prompt_tokens"] == len(steps[0]) > 1
    assert report["counts"]["generated_tokens"] == TOKENS - 1
    assert (sidecar["lost"], sidecar["mode"]) == (0, "threads")
    (backend,) = sidecar["backends"]
    assert backend["name"] == "CPU"
    assert report["producer"]["backends"].startswith("CPU")
    assert report["producer"]["backends"].endswith(f": {TOKENS} graphs")


def test_demo_leaves_a_session_of_trace_and_model(
    npm_llama: targets.Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))

    done = subprocess.run(
        [
            sys.executable, "-m", "ggscope_capture", "demo", str(tmp_path),
            "--model", "nano-moe", "--tokens", "4", "--threads", "1",
        ],
        capture_output=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().strip().isprintable()
    report = info(tmp_path)
    assert report["counts"]["passes"] == 4
    assert report["counts"]["generated_tokens"] == 3
    assert report["counts"]["records"] > 0


def test_demo_of_an_unknown_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", str(tmp_path), "--model", "huge"]) == 1
    assert "unknown model huge" in capsys.readouterr().err
