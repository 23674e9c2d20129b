"""How the command line is tested: in this process, or as users start it."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ggscope import cli
from ggscope.live.options import OPTIONS
from ggscope.readers import plugins
from support import ROOT

PLUGIN = '''
"""A reader of files that name one of the builders of the tests."""
import buffer_traces
import builders
import reads_builder
from ggscope.errors import TruncatedError
from ggscope.model.trace import ReadWarning, Severity
from ggscope.readers.api import ReaderInfo, Sniff
import dataclasses

class BuilderReader:
    info = ReaderInfo("builder", "built by a test", (".built",), "Names a builder.",
                      {"tokens": "how many"})

    def sniff(self, head):
        return Sniff(90 if head.data.startswith(b"#built ") else 0)

    def read(self, source, context):
        words = source.head(4096).decode().split()
        if words[1] == "crash":
            raise IndexError("list index out of range")
        if words[1] == "cut":
            raise TruncatedError("the file ends early.", offset=5)
        if "(" in words[1]:
            known = vars(builders) | vars(reads_builder) | vars(buffer_traces)
            return eval(words[1], dict(known))
        make = getattr(builders, words[1])
        tokens = context.options.get("tokens")
        trace = make(tokens=int(tokens)) if tokens else make()
        warnings = tuple(
            ReadWarning(Severity[w], w.lower() + "_code", "It is <so>.", 2, 17, "here",
                        "Do it again.")
            for w in words[2:]
        )
        info = dataclasses.replace(trace.info, reader_id="builder")
        return dataclasses.replace(trace, info=info, warnings=warnings)
'''


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def plugin_folder(tmp_path_factory, monkeypatch) -> Path:
    """Return the only plug-in folder; it holds the reader ``builder``."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "builder.py").write_text(PLUGIN)
    monkeypatch.setenv(plugins.PATH_VARIABLE, str(folder))
    monkeypatch.setenv(plugins.SAFE_VARIABLE, "0")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "none"))
    monkeypatch.setenv("GGSCOPE_PLUGIN_SECONDS", "60")
    # For processes that a command starts.
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    plugins.reload()
    yield folder
    plugins.reload()


@pytest.fixture(autouse=True)
def _live_options(monkeypatch) -> None:
    """Put back what a command takes from settings."""
    for field in dataclasses.fields(OPTIONS):
        monkeypatch.setattr(OPTIONS, field.name, getattr(OPTIONS, field.name))


@pytest.fixture
def built(tmp_path) -> Callable[..., Path]:
    """Return a function that makes a file which opens as a built trace."""

    def make(name: str = "llama_like_trace", *severities: str) -> Path:
        path = tmp_path / f"{name.partition('(')[0]}.built"
        path.write_text(" ".join(["#built", name, *severities]))
        return path

    return make


@pytest.fixture
def run(capsys) -> Callable[..., Answer]:
    """Return a function that runs the command line in this process."""

    def call(*arguments: object) -> Answer:
        capsys.readouterr()
        code = cli.main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def shell(tmp_path) -> Callable[..., Answer]:
    """Return a function that runs ``python -m ggscope`` without a display."""

    def call(*arguments: object, **env: str) -> Answer:
        left_out = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
        inherited = {k: v for k, v in os.environ.items() if k not in left_out}
        done = subprocess.run(
            [sys.executable, "-m", "ggscope", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            cwd=tmp_path,
            env={**inherited, "PYTHONPATH": str(ROOT / "tests"), **env},
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def run_terminal(tmp_path) -> Callable[..., str]:
    """Return a function that runs the command line in a terminal of some width."""
    import fcntl
    import pty
    import struct
    import termios

    def call(*arguments: object, width: int = 80) -> str:
        here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        left_out = ("COLUMNS", "LINES", "DISPLAY")
        env = {k: v for k, v in os.environ.items() if k not in left_out}
        with subprocess.Popen(
            [sys.executable, "-m", "ggscope", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=there,
            stderr=there,
            cwd=tmp_path,
            env=env | {"PYTHONPATH": str(ROOT / "tests"), "NO_COLOR": "1"},
        ) as process:
            os.close(there)
            read = bytearray()
            while True:
                try:
                    chunk = os.read(here, 1 << 16)
                except OSError:  # the other side is closed
                    break
                if not chunk:
                    break
                read += chunk
            process.wait(100)
        os.close(here)
        return read.decode().replace("\r\n", "\n")

    return call
