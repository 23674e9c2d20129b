"""Programs to be run under the capture tool, with a made-up tracer that writes a ring.

``tests/capture/writer.c`` stands in for the tracer: what is tried with these is what
people see of a run, and not the hooks. The launcher and all processes are real.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ggscope_capture import ring
from support import ROOT

_LIBRARY = """
int ggml_graph_compute(void) { return 0; }
int ggml_cpu_extra_compute_forward(void) { return ggml_graph_compute(); }
int ggml_barrier(void) { return 0; }
int use(void) { return ggml_cpu_extra_compute_forward() + ggml_barrier(); }
"""
_PROGRAM = """
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int ggml_graph_compute(void);
static volatile sig_atomic_t seen;
static void note(int number) { seen = number; }
int main(int n, char **words)
{
    int waits = 0, status = ggml_graph_compute();
    for (int i = 1; i < n; i++) {
        if (!strcmp(words[i], "--stubborn")) signal(SIGTERM, SIG_IGN), waits = 1;
        if (!strcmp(words[i], "--waits")) signal(SIGTERM, note), waits = 1;
        if (!strcmp(words[i], "--fails")) status = 3;
        if (!strcmp(words[i], "-p"))
            printf("<b>%s</b> \\033[31m\\xff\\n", words[i + 1]);
    }
    fflush(stdout);
    fputs("to stderr\\n", stderr);
    while (waits && !seen) usleep(1000);
    return status;
}
"""
_STATIC = (
    'int ggml_graph_compute(void) { return 0; } const char *c = "GGML_ASSERT";'
    "int main(void) { return 0; }"
)


def build(folder: Path) -> dict[str, Path]:
    """Return a linked llama-completion, a static one, and the writer of rings."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the writer of rings is loaded by LD_PRELOAD")
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler here")
    headers = Path(ring.__file__).parent / "native"
    writer = ROOT / "tests" / "capture" / "writer.c"
    made = {
        "writer": folder / "writer.so",
        "library": folder / "libggml-cpu.so",
        "program": folder / "a folder" / "llama-completion",
        "static": folder / "llama-simple",
    }
    made["program"].parent.mkdir()
    library = ["-shared", "-fPIC", "-O0"]
    linked = [str(made["library"]), f"-Wl,-rpath,{folder}"]
    for name, source, flags in (
        ("writer", writer, [*library, f"-I{headers}"]),
        ("library", _LIBRARY, library),
        ("program", _PROGRAM, linked),
        ("static", _STATIC, ["-rdynamic"]),
    ):
        path = source
        if isinstance(source, str):
            path = folder / f"{name}.c"
            path.write_text(source)
        subprocess.run(["cc", "-o", made[name], path, *flags], check=True)
    return made


def set_up(
    monkeypatch: pytest.MonkeyPatch,
    built: dict[str, Path],
    folder: Path,
    *,
    graphs: int = 4,
    pause_us: int = 0,
    only_in: str = "llama-completion",
) -> None:
    """Let the capture tool load the writer into programs of that name."""
    for name in [name for name in os.environ if "GGML" in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GGSCOPE_TRACER", str(built["writer"]))
    monkeypatch.setenv("GGSCOPE_RINGS", str(folder))
    monkeypatch.setenv("WRITER_FOR", only_in)
    monkeypatch.setenv("WRITER_GRAPHS", str(graphs))
    monkeypatch.setenv("WRITER_PAUSE_US", str(pause_us))
