"""The frame around the commands: words, exit codes, messages, imports."""

import gc
import importlib
import json
import os
import subprocess
import sys
from types import ModuleType

import pytest

from ggscope import __version__, cli
from ggscope.cli.arguments import COMMANDS, parse
from ggscope.errors import TraceError
from ggscope.gui.single_instance import client
from npu_files import engine
from statements import new_statements
from support import ROOT


@pytest.mark.parametrize(
    ("argv", "command", "files"),
    [
        ([], "open", []),
        (["a.bin", "b.bin"], "open", ["a.bin", "b.bin"]),
        (["open", "a.bin"], "open", ["a.bin"]),
        (["./info"], "open", ["info"]),
        (["info", "info"], "info", ["info"]),
        (["--format", "info", "a.bin"], "open", ["a.bin"]),
        (["--safe-mode", "info", "a.bin"], "info", ["a.bin"]),
        (["--theme", "dark", "a.bin"], "open", ["a.bin"]),
        (["--", "-odd.bin"], "open", ["-odd.bin"]),
        (["stats", "a.bin", "--by", "layer"], "stats", ["a.bin"]),
    ],
)
def test_first_word_says_the_command(argv, command, files):
    arguments = parse(argv)

    assert arguments.command == command
    assert [str(path) for path in arguments.files] == files


@pytest.mark.parametrize("name", COMMANDS)
def test_declared_command_has_its_module(name):
    module = importlib.import_module(f"ggscope.cli.{COMMANDS[name].module}")

    assert callable(module.run)


def test_missing_library_ends_a_command_with_one_sentence(tmp_path):
    sample = ROOT / "resources" / "samples" / "llama.ggmlviz"
    environment = os.environ | {"GGSCOPE_NATIVE": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-m", "ggscope", "info", str(sample)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "the compiled part of ggscope is missing" in line
    assert "Install ggscope again" in line


def test_word_that_is_neither_command_nor_file_is_a_usage_error(run):
    result = run("inof", "x.bin")

    assert result.code == 2
    assert "'inof' is neither a command nor a file" in result.err
    assert "Did you mean info?" in result.err


def test_word_that_is_a_file_is_opened(tmp_path, monkeypatch):
    (tmp_path / "trace").write_text("x")
    monkeypatch.chdir(tmp_path)

    assert parse(["trace"]).command == "open"


@pytest.mark.parametrize(
    "argv",
    [
        ["info", "--nonsense"],
        ["stats", "x", "--by", "colour"],
        ["check"],
        ["export", "x"],
        ["export", "x", "-o", "x.png", "--size", "big"],
        ["export", "x", "-o", "x.png", "--size", "1x1"],
        ["export", "x", "-o", "x.png", "--dpi", "0"],
        ["info", "x", "--option", "novalue"],
        ["show", "x", "--width", "-3"],
        ["info"],
    ],
)
def test_wrong_usage_exits_with_two(run, argv):
    result = run(*argv)

    assert result.code == 2
    assert result.out == ""
    assert result.err


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_is_printed(run, option):
    assert run(option).out == f"ggscope {__version__}\n"


def test_help_names_every_command_and_exit_code(run):
    result = run("--help")

    assert result.code == 0
    for word in ("info", "check", "stats", "show", "export", "readers", "130"):
        assert word in result.out


def test_help_lists_the_options_of_the_window(run):
    out = run("--help").out

    for flag in ("--live", "--demo", "--layout", "--install-desktop"):
        assert flag in out
    assert "--views" not in run("info", "--help").out


@pytest.mark.parametrize("command", ["open", "info", "check", "stats", "export"])
def test_help_of_a_command_hides_what_is_only_accepted(run, command):
    result = run(command, "--help")

    assert result.code == 0
    assert "--json" in result.out
    assert "--no-hook" not in result.out


def test_help_of_export_names_every_kind_of_figure(run):
    out = run("export", "--help").out

    assert all(f".{suffix}" in out for suffix in ("png", "svg", "pdf", "dot"))
    assert "PNG, SVG or PDF" in out


def test_options_of_ggml_viz_are_accepted_with_a_note(run, built):
    result = run("info", built(), "--web", "--port", "8080", "--no-hook")

    assert result.code == 0
    assert result.err.count("ggml-viz") == 3


def test_interrupt_exits_with_130(run, built, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupt)

    assert run("info", built()).code == 130


def test_fault_of_the_program_is_one_line_and_exit_one(run, built, monkeypatch):
    def fail(_):
        raise RuntimeError("no\nway")

    def refuse(_):
        raise TraceError("no\nway")

    monkeypatch.setattr(cli, "_run", refuse)
    refused = run("info", built())
    monkeypatch.setattr(cli, "_run", fail)
    plain, verbose = run("info", built()), run("info", built(), "-v")

    assert plain.code == verbose.code == 1
    assert new_statements(plain.err, refused.err)
    assert "internal error: RuntimeError: no way. Please report it" in plain.err
    assert "Traceback" not in plain.err
    assert "Traceback" in verbose.err


def test_window_without_a_display_is_refused_with_advice(shell, built):
    result = shell(built())

    assert result.code == 1
    assert "no display to open a window on" in result.err
    assert "export" in result.err


def test_window_whose_parts_are_not_installed_says_so(run, monkeypatch):
    def result_with(module):
        monkeypatch.setitem(sys.modules, "ggscope.gui.app", module)
        return run()

    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setattr(client, "socket_path", lambda: None)

    there = ModuleType("ggscope.gui.app")
    there.run = lambda *_: 0
    none, whole = result_with(None), result_with(there)

    assert (none.code, whole.code) == (1, 0)
    assert new_statements(none.err, whole.err)


def test_window_for_missing_files_is_refused(run):
    result = run("nowhere.ggmlviz")

    assert result.code == 1
    assert "nowhere.ggmlviz: the file does not exist" in result.err


@pytest.mark.parametrize(
    "argv",
    [
        ["--version"],
        ["info", "FILE", "--json"],
        ["stats", "FILE"],
        ["readers"],
        ["check", "FILE"],
    ],
)
def test_commands_without_pictures_do_not_import_qt(built, argv):
    argv = [str(built()) if word == "FILE" else word for word in argv]
    code = (
        "import sys; from ggscope.cli import main\n"
        f"assert main({argv!r}) == 0\n"
        "found = [m for m in sys.modules if m.startswith(('PySide6', 'OpenGL'))]\n"
        "assert not found, found\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )

    assert done.returncode == 0, done.stderr


def test_version_does_not_import_numpy():
    code = (
        "import sys; from ggscope.cli import main\n"
        "assert main(['--version']) == 0\n"
        "assert 'numpy' not in sys.modules\n"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_closed_pipe_is_no_error(built):
    command = (
        f'"{sys.executable}" -m ggscope info "{built()}" --json; echo "code=$?" >&2'
    )
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -n 1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )

    assert done.stdout.strip() == "{"
    assert "code=0" in done.stderr
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_odd_file_name_and_ascii_terminal_are_harmless(shell, tmp_path):
    path = tmp_path / "trâce \udcff.built"
    path.write_text("#built llama_like_trace")

    result = shell("info", path, PYTHONIOENCODING="ascii")

    assert result.code == 0
    assert "Traceback" not in result.err


def test_python_m_ggscope_passes_the_exit_code_on(shell):
    result = shell("check", "missing.bin")

    assert result.code == 1
    assert "missing.bin: the file does not exist." in result.err


def test_very_many_lanes_are_not_walked_again_and_again_for_garbage(run, tmp_path):
    path = tmp_path / "many.npu.json"
    events = [engine(i * 10, i * 10 + 8, engine_id=i) for i in range(5_000)]
    path.write_text(json.dumps({"version": "1.0", "timeline_events": events}))
    run("info", path)  # what is imported the first time is not counted
    phases = []
    before, was_enabled = gc.get_threshold(), gc.isenabled()
    gc.callbacks.append(lambda phase, _: phases.append(phase))
    gc.enable()
    try:
        result = run("info", path)
    finally:
        gc.callbacks.pop()
        if not was_enabled:
            gc.disable()

    assert result.code == 0
    assert len(phases) <= 10  # begins and ends
    assert gc.get_threshold() == before
