"""Closed pipes, closed streams and signals: quiet ends, honest codes, no litter."""

import io
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from ggscope import cli
from statements import new_statement
from tensor_files import encode, llama_trace

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="this system has no such pipes and signals"
)

COMMANDS = [
    ["info", "{}", "--json"], ["check", "{}"], ["stats", "{}"], ["readers"], ["--help"],
    ["convert", "{}", "--to", "token-json", "-o", "out", "--json"],
]  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a good trace of three tokens."""
    path = tmp_path / "run.bin"
    path.write_bytes(encode(llama_trace(3), "256"))
    return path


def started(
    items: Iterable[str], trace: Path, closed: str = "", **streams: int
) -> "subprocess.Popen[bytes]":
    """Start a command, with some descriptors closed as by ``>&-``."""
    filled = [word.replace("{}", str(trace)) for word in items]
    line = ["bash", "-c", f'exec "$@" {closed}', "bash"] if closed else []
    return subprocess.Popen(
        [*line, sys.executable, "-m", "ggscope", *filled],
        cwd=trace.parent,
        env={**os.environ, "GGSCOPE_SAFE_MODE": "1"},  # without plug-ins of the tests
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )


def code_of(items: Iterable[str], trace: Path) -> int:
    """Return the exit code of a command."""
    process = started(items, trace)
    process.communicate()
    return process.returncode


def test_pipe_that_nobody_reads_is_no_error(trace: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)

    processes = [started(text, trace, stdout=writer) for text in COMMANDS]
    texts = [process.communicate()[1] for process in processes]

    os.close(writer)
    assert [process.returncode for process in processes] == [0] * len(COMMANDS)
    assert [text for text in texts if b"convert" in text or b"Error" in text] == []
    assert len(list((trace.parent / "out").iterdir())) == 3


def test_verdict_and_report_are_there_though_nobody_reads(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"version": "1.0", "timeline_events": [{"event": 3}]}')
    reader, writer = os.pipe()
    os.close(reader)
    arguments = ["check", "{}", "no-such-file", "--report", "r.html"]

    process = started(arguments, bad, stdout=writer)
    output = process.communicate()[1]

    os.close(writer)
    assert process.returncode != 0, output
    assert b"no-such-file" in (tmp_path / "r.html").read_bytes()


def test_closed_streams_are_reported_and_no_file_gets_their_number(trace: Path) -> None:
    report = "--report={}.html"
    shut = {
        ">&-": started(["info", "{}"], trace, ">&-"),
        "2>&-": started(["info", "{}", "missing"], trace, "2>&-"),
        ">&- 2>&-": started(["check", "{}", report], trace, "<&- >&- 2>&-"),
        "help": started(["--help"], trace, ">&-"),
    }
    values = {name: process.communicate() for name, process in shut.items()}

    codes = {name: process.returncode for name, process in shut.items()}
    assert codes == {">&-": 1, "2>&-": 1, ">&- 2>&-": 1, "help": 1}
    value = b"ggscope: the output cannot be written: it is closed.\n"
    assert values[">&-"][1] == values["help"][1] == value
    assert new_statement(value.decode(), values["2>&-"][0].decode())
    assert b"run.bin" in values["2>&-"][0]
    # What was printed to closed streams is nowhere in what was written.
    written = Path(f"{trace}.html").read_text()
    assert written.startswith("<!doctype html>")
    assert written.endswith("</html>\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_under_the_output_is_reported(trace: Path) -> None:
    with open("/dev/full", "wb") as full:
        process = started(["stats", "{}"], trace, stdout=full.fileno())
        output = process.communicate()[1]

    assert process.returncode == 1
    assert b"No space left on device" in output
    assert b"Traceback" not in output


SIX = ("first_s", "open_s", "fps", "p99_ms", "max_ms", "peak_mb")
EVERY = [
    ["--help"], ["--version"], ["stats", "--help"], ["man"], ["completion", "bash"],
    ["hot", "{}"], ["hot", "{}", "--json"], ["cache", "{}"], ["cache", "{}", "--json"],
    ["show", "{}"], ["export", "{}", "--force", "-o", "{}.png", "--json"],
    ["bench", "{}"], ["self-test"],
]  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("is_buffered", [True, False])
@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
def test_every_command_shows_that_it_cannot_print(
    trace: Path,
    arguments: list[str],
    is_buffered: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # What these two print is tried here, not what takes them seconds.
    figures = dict.fromkeys(SIX, 1.0)
    monkeypatch.setattr("ggscope.cli.bench._measure", lambda _: figures)
    monkeypatch.setattr("ggscope.cli.self_test._try_sample", lambda _: None)
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    filled = [word.replace("{}", str(trace)) for word in arguments]

    def code_with(stdout: io.FileIO) -> int:
        # Without a buffer it is the print that fails, else the last flush.
        bottom = io.BufferedWriter(stdout) if is_buffered else stdout
        with io.TextIOWrapper(bottom, write_through=not is_buffered) as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            return cli.main(filled)

    assert code_with(io.FileIO("/dev/full", "w")) == 1
    err = capsys.readouterr().err
    assert "it is closed" not in err
    assert (
        "the output cannot be written: No space left on device. Free some space." in err
    )
    reader, writer = os.pipe()
    os.close(reader)
    assert code_with(io.FileIO(writer, "w")) == 0
    assert "cannot be written" not in capsys.readouterr().err
    if arguments[0] == "export":  # the figure is there all the same, whole
        assert Path(f"{trace}.png").read_bytes().endswith(b"IEND\xaeB`\x82")
        assert not list(trace.parent.glob(".ggscope-*"))


ENDED = """
import os, sys
from ggscope.cli import main
from ggscope.exporters.token_json import TokenJson
from ggscope.render import export
real, number = TokenJson.chunks, int(sys.argv[1])

def chunks(self, file):
    '''Send the signal in the middle of the second file.'''
    for chunk in real(self, file):
        yield chunk
        if file.name == "token-00001.json":
            os.kill(os.getpid(), number)

TokenJson.chunks = chunks
sys.exit(main(["convert", sys.argv[2], "--to", "token-json", "-o", sys.argv[3]]))
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_signal_in_the_middle_of_a_set_leaves_nothing_half(
    trace: Path, name: str
) -> None:
    number = signal.Signals[name].value
    out = trace.parent / "sub" / "out"
    out.parent.mkdir()

    done = subprocess.run(
        [sys.executable, "-c", ENDED, str(number), str(trace), str(out)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    left = list(out.parent.iterdir())
    if name == "SIGKILL":
        assert done.returncode == -number
        assert [path.name for path in left if path.name == "out"] == []
        arguments = ["convert", "{}", "--to", "token-json", "-o", str(out)]
        assert code_of(arguments, trace) == 0
        assert [path.name for path in out.parent.iterdir()] == ["out"]
    else:
        assert done.returncode == 128 + number, done.stderr
        assert left == []
        assert "Traceback" not in done.stderr


def test_ignored_signals_stay_ignored(trace: Path) -> None:
    code = (
        "import os, signal, sys; from ggscope.cli import raised_signals\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with raised_signals() as heard:\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "sys.exit(heard.number)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


CAMPAIGN = int(os.environ.get("GGSCOPE_KILLS", "2"))
"""Kills at random moments; ``GGSCOPE_KILLS=500`` for a long campaign."""


@pytest.mark.parametrize("seed", range(CAMPAIGN))
def test_kill_at_a_random_moment_leaves_old_or_new(trace: Path, seed: int) -> None:
    chance = random.Random(seed)
    out = trace.parent / "out"
    arguments = ["convert", "{}", "--to", "token-json", "-o", str(out), "--force"]
    has_old = chance.random() < 0.5
    if has_old:
        out.mkdir()
        for number in range(3):
            (out / f"token-{number:05}.json").write_text("old")

    process = started(arguments, trace)
    time.sleep(chance.uniform(0.0, 1.5))
    chosen = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    process.send_signal(chosen)
    output = process.communicate()[1]

    files = sorted(p for p in out.glob("token-*")) if out.exists() else []
    contents = [path.read_text() for path in files]
    is_old = contents == (["old"] * 3 if has_old else [])
    is_new = len(contents) == 3 and all(text.endswith("}") for text in contents)
    journal = list(out.glob(".ggscope-*.set")) if out.exists() else []
    assert is_old or is_new or (journal and chosen == signal.SIGKILL), contents
    if chosen != signal.SIGKILL:
        assert b"Traceback" not in output or b"import" in output
        assert not list(trace.parent.glob("**/.ggscope-*"))
    assert code_of(arguments, trace) == 0
    assert not list(trace.parent.glob("**/.ggscope-*"))
    assert len(list(out.iterdir())) == 3


WRITERS = {
    "export": ["export", "{}", "--force", "-o", "f.svg"],
    "check": ["check", "{}", "--force", "--report", "f.html"],
}
ENDS = {".svg": b"</svg>", ".html": b"</html>"}


@pytest.mark.parametrize("seed", range(CAMPAIGN))
@pytest.mark.parametrize("command", ["export", "check"])
def test_kill_at_a_random_moment_leaves_an_old_or_a_new_file(
    trace: Path, command: str, seed: int
) -> None:
    chance = random.Random(f"{command} {seed}")
    value = WRITERS[command]
    target = trace.parent / value[-1]
    old = b"old" if chance.random() < 0.5 else b""
    if old:
        target.write_bytes(old)

    process = started(value, trace)
    time.sleep(chance.uniform(0.0, 2.0))
    chosen = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    process.send_signal(chosen)
    output = process.communicate()[1]

    content = target.read_bytes() if target.exists() else b""
    assert content == old or is_whole(target), content[-60:]
    if chosen != signal.SIGKILL:
        assert b"Traceback" not in output or b"import" in output
        assert not list(trace.parent.glob(".ggscope-*"))
    # What a killed one has left behind is gone after the next.
    assert code_of(value, trace) == 0
    assert is_whole(target)
    assert sorted(path.name for path in trace.parent.iterdir()) == sorted(
        [trace.name, target.name]
    )


def is_whole(path: Path) -> bool:
    """Return whether a file ends as its format does."""
    return path.read_bytes().rstrip().endswith(ENDS[path.suffix])


KILLED = """
import os, signal, sys
from pathlib import Path
import ggscope.cli.check, ggscope.cli.export, ggscope.cli.check, ggscope.render.export
from ggscope.cli import main
from ggscope.readers import registry
target, end, *words = sys.argv[1:]
registry.readers()
calls = 0

def watched(name, moment):
    real = getattr(os, name)
    def call(*arguments, **named):
        global calls
        calls += 1
        if calls == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)
    setattr(os, name, call)

for moment in range(1, 100):
    Path(target).write_bytes(b"old")
    child = os.fork()
    if not child:
        for name in ("write", "fsync", "replace", "rename", "link", "unlink"):
            watched(name, moment)
        os._exit(main(words))
    _, status = os.waitpid(child, 0)
    content = Path(target).read_bytes()
    assert content == b"old" or content.rstrip().endswith(end.encode()), content
    if os.WIFEXITED(status):
        print(moment - 1, os.WEXITSTATUS(status), content != b"old")
        break
"""


@pytest.mark.parametrize("command", ["export", "check"])
def test_kill_at_every_step_of_writing_leaves_an_old_or_a_new_file(
    trace: Path, command: str
) -> None:
    text = [word.replace("{}", str(trace)) for word in WRITERS[command]]
    target = trace.parent / text[-1]

    done = subprocess.run(
        [sys.executable, "-c", KILLED, target, ENDS[target.suffix], *text],
        cwd=trace.parent, capture_output=True, text=True, check=False,
        env={**os.environ, "GGSCOPE_SAFE_MODE": "1", "QT_QPA_PLATFORM": "offscreen"},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    n_kills, code, is_new = done.stdout.splitlines()[-1].split()
    assert int(n_kills) >= 3  # written, brought to the disk, renamed
    assert (code, is_new) == ("0", "True")
    assert sorted(path.name for path in trace.parent.iterdir()) == sorted(
        [trace.name, target.name]
    )
