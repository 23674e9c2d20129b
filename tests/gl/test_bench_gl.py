"""``ggscope bench`` on OpenGL: frames of that canvas are seen and counted as well."""

import json
import os
import subprocess
import sys

import pytest

from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "llama.ggmlviz"


@pytest.mark.gl
def test_bench_counts_the_frames_of_the_opengl_canvas(gl_context, tmp_path):
    gl_context.doneCurrent()
    command = ["bench", str(SAMPLE), "--renderer", "opengl", "--seconds", "0.5"]
    left_out = ("QT_QPA_PLATFORM", "WAYLAND_DISPLAY")

    done = subprocess.run(
        [sys.executable, "-m", "ggscope", *command, "--size", "640x400"],
        capture_output=True, text=True, timeout=100, check=False,
        env={k: v for k, v in os.environ.items() if k not in left_out},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["renderer"].startswith("OpenGL")
    assert 0 < figures["moved"] <= figures["frames"]
    assert figures["canvas"] == [640, 400]
