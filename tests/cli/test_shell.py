"""Completion and manual: made from the parser, and understood by real shells."""

import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ggscope
import ggscope_capture
from completion import complete
from ggscope.analysis.filters.text import ALIASES, parse_filter
from ggscope.cli.arguments import COMMANDS, SHELLS, make_parser, parse
from ggscope.cli.manual import ENVIRONMENT, EXAMPLES, FIELDS, FILES
from ggscope.model.selection import BY, Filter
from ggscope.session.settings_store import default_path
from ggscope_capture.manual import commands
from support import need_terminal

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


@needs_bash
def test_bash_completes_commands_options_values_and_files(run, tmp_path: Path) -> None:
    script = run("completion", "bash").out
    (tmp_path / "a run.bin").touch()

    assert complete(script, "ggscope st", tmp_path) == {"stats"}
    assert set(COMMANDS) | {"a run.bin"} == complete(script, "ggscope ", tmp_path)
    assert complete(script, "ggscope stats --by ", tmp_path) == set(BY)
    assert complete(script, "ggscope export --vi", tmp_path) == {"--view"}
    assert complete(script, "ggscope --them", tmp_path) == {"--theme"}
    assert complete(script, "ggscope --theme light sta", tmp_path) == {"stats"}
    assert "graph" in complete(script, "ggscope export x.bin --view g", tmp_path)
    assert complete(script, "ggscope info a", tmp_path) == {"a run.bin"}
    assert complete(script, "ggscope export -o a", tmp_path) == {"a run.bin"}
    assert complete(script, "ggscope completion ", tmp_path) == set(SHELLS)
    assert complete(script, "ggscope stats --from ", tmp_path) == set()
    eras = complete(script, "ggscope info --ops ggml-2024-09", tmp_path)
    assert eras == {"ggml-2024-09-01-79", "ggml-2024-09-20-80-544d86a"}


@needs_bash
def test_bash_offers_all_first_and_no_value_twice(run, tmp_path: Path) -> None:
    script = run("completion", "bash").out

    def offered(typed: str) -> set[str]:
        return complete(script, f"ggscope export --view {typed}", tmp_path)

    assert offered("a") == {"all"}
    assert {"timeline", "all"} < offered("")
    after = offered("timeline,hot,")
    assert "timeline,hot,heatmap" in after
    assert not after & {"timeline,hot,hot", "timeline,hot,timeline"}
    assert "timeline,hot,all" not in after
    assert offered("all,") == set()


@needs_bash
def test_bash_completes_lists_after_a_comma(run, tmp_path: Path) -> None:
    script = run("completion", "bash").out

    completion = complete(script, "ggscope export --view timeline,h", tmp_path)

    assert completion == {"timeline,heatmap", "timeline,hot"}
    assert complete(script, "ggscope stats --by op,", tmp_path) == set()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_options_values_lists_and_files(run, tmp_path: Path) -> None:
    script = tmp_path / "ggscope.fish"
    script.write_text(run("completion", "fish").out)
    (tmp_path / "a run.bin").touch()

    def lines(line: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"',
             str(script), line],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.splitlines()

    def offered(line: str) -> set[str]:
        return {text.split("\t")[0] for text in lines(line)}

    assert offered("ggscope sta") == {"stats"}
    assert offered("ggscope stats --by ") == set(BY)
    assert offered("ggscope export --vi") == {"--view"}
    assert {"timeline,heatmap", "timeline,hot"} <= offered(
        "ggscope export --view timeline,h"
    )
    views = offered("ggscope export --view timeline,hot,")
    assert "timeline,hot,heatmap" in views
    assert not views & {"timeline,hot,hot", "timeline,hot,all"}
    assert offered("ggscope export --view all,") == set()
    assert "all" in offered("ggscope export --view ")
    # The help of an option is no help of each of its values.
    assert not any("\t" in text for text in lines("ggscope stats --by "))
    assert any("run.bin" in name for name in offered("ggscope export -o a"))
    assert any("run.bin" in name for name in offered("ggscope info --json a"))


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_at_the_first_tab(run, tmp_path: Path) -> None:
    import pty

    need_terminal()
    (tmp_path / "_ggscope").write_text(run("completion", "zsh").out)
    (tmp_path / "longname.bin").touch()
    lines = ("ggscope sta", "ggscope export --view timeline,hea", "ggscope info lon")
    ends = (b"ts ", b"tmap", b"gname.bin")
    for line, end in zip(lines, ends, strict=True):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(tmp_path)
            os.environ["TERM"] = "dumb"
            os.execvp("zsh", ["zsh", "-f", "-i"])
        try:
            ready = f"fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u -D; "
            ready += "bindkey '^I' complete-word; PS1='rea''dy> '\n"
            os.write(terminal, ready.encode())
            until(terminal, b"ready> ")
            os.write(terminal, line.encode() + b"\t")
            messages = until(terminal, end)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)
        assert end in messages, line


def until(terminal: int, end: bytes) -> bytes:
    """Return what a terminal shows, up to `end`."""
    value = b""
    while end not in value and select.select([terminal], [], [], 20)[0]:
        value += os.read(terminal, 4096)
    return value


def test_every_option_is_completed_in_every_shell(run) -> None:
    scripts = {shell: run("completion", shell).out for shell in SHELLS}

    for _, _, options in commands(make_parser()):
        for option in options:
            for flag in option.flags:
                assert flag in scripts["bash"]
                assert flag in scripts["zsh"]
                assert f" {'-l' if flag[:2] == '--' else '-s'} " in scripts["fish"]
                assert flag.lstrip("-") in scripts["fish"]


@pytest.mark.parametrize("shell", SHELLS)
def test_real_shell_finds_no_fault_in_the_script(run, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = run("completion", shell).out

    done = subprocess.run(
        [shell, "-n"], input=script, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_completion_without_shtab_is_one_message(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)

    done = run("completion", "bash")

    assert (done.code, done.out) == (1, "")
    assert "shtab" in done.err


def test_unknown_shell_is_a_usage_error(run) -> None:
    assert run("completion", "tcsh").code == 2


def test_manual_has_every_command_and_option(run) -> None:
    text = run("man").out.replace("\\-", "-")

    assert text.startswith(".TH GGSCOPE 1")
    for name, _, options in commands(make_parser()):
        assert f".SS {name}\n" in text
        for option in options:
            assert all(f"\\fB{flag}\\fR" in text for flag in option.flags)
    assert "data loss with --strict" in text


def test_manual_shows_shared_options_once(run) -> None:
    text = run("man").out.replace("\\-", "-")

    options = (option for row in commands(make_parser()) for option in row[2])
    shared = {f for o in options if o.group != "options" for f in o.flags}
    assert {"--json", "--reader", "--shift"} <= shared
    for flag in ("--help", "--json", "--reader", "--shift", "--safe-mode"):
        assert text.count(f"\\fB{flag}\\fR") == 1, flag


def test_manual_has_the_parts_of_a_manual_page(run) -> None:
    heads = [x[4:] for x in run("man").out.splitlines() if x.startswith(".SH ")]

    expected = ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "EXAMPLES", "FILES",
              "ENVIRONMENT", "EXIT STATUS", "SEE ALSO"]  # fmt: skip
    assert [head for head in heads if head in expected] == expected
    assert any(head.startswith("FILTERS") for head in heads)


def test_manual_has_every_field_of_filters_and_its_examples_are_filters() -> None:
    assert {ALIASES[name] for name, *_ in FIELDS} == set(ALIASES.values())
    for name, example, _ in FIELDS:
        assert parse_filter(example) != Filter(), name


def test_environment_and_files_of_the_manual_are_those_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    source = "".join(
        path.read_text("utf-8")
        for module in (ggscope, ggscope_capture)
        for path in Path(module.__file__).parent.rglob("*.py")
        if path.name != "manual.py"
    )

    for names, _ in ENVIRONMENT:
        for name in names.split(", "):
            if name.startswith("GG"):
                assert f'"{name}"' in source, name
    assert default_path() == Path(FILES[1][0]).expanduser()


@pytest.mark.parametrize("line", [line for line, _ in EXAMPLES])
def test_examples_of_the_manual_are_command_lines(line: str) -> None:
    arguments = shlex.split(line)[1:]

    assert parse(arguments).command == (
        arguments[0] if arguments[0] in COMMANDS else "open"
    )


def test_manual_is_good_troff(run) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"],
        input=run("man").out, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
