"""Completion and manual: made from the parser, and understood by real shells."""

import os
import select
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from ggscope.cli.arguments import COMMANDS, SHELLS, make_parser
from ggscope.cli.shell import command_lines
from ggscope.model.selection import BY
from support import need_terminal

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


def complete(script: str, line: str, folder: Path) -> set[str]:
    """Return what real bash offers for the last word of `line`."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    array = " ".join(map(shlex.quote, words))
    typed = f"COMP_WORDS=({array})\nCOMP_CWORD={len(words) - 1}\n_ggscope"
    answer = "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{typed}\n{answer}"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return set(done.stdout.split("\n")) - {""}


@needs_bash
def test_bash_completes_commands_options_values_and_files(run, tmp_path: Path) -> None:
    script = run("completion", "bash").out
    (tmp_path / "a run.bin").touch()

    assert complete(script, "ggscope st", tmp_path) == {"stats"}
    assert set(COMMANDS) | {"a run.bin"} == complete(script, "ggscope ", tmp_path)
    assert complete(script, "ggscope stats --by ", tmp_path) == set(BY)
    assert complete(script, "ggscope export --vi", tmp_path) == {"--view"}
    assert "graph" in complete(script, "ggscope export x.bin --view g", tmp_path)
    assert complete(script, "ggscope info a", tmp_path) == {"a run.bin"}
    assert complete(script, "ggscope export -o a", tmp_path) == {"a run.bin"}
    assert complete(script, "ggscope completion ", tmp_path) == set(SHELLS)
    assert complete(script, "ggscope stats --from ", tmp_path) == set()
    eras = complete(script, "ggscope info --ops ggml-2024-09", tmp_path)
    assert eras == {"ggml-2024-09-01-79", "ggml-2024-09-20-80-544d86a"}


@needs_bash
def test_bash_completes_lists_after_a_comma(run, tmp_path: Path) -> None:
    script = run("completion", "bash").out

    found = complete(script, "ggscope export --view timeline,h", tmp_path)

    assert found == {"timeline,heatmap", "timeline,hot"}
    assert complete(script, "ggscope stats --by op,", tmp_path) == set()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_options_values_lists_and_files(run, tmp_path: Path) -> None:
    script = tmp_path / "ggscope.fish"
    script.write_text(run("completion", "fish").out)
    (tmp_path / "a run.bin").touch()

    def offered(line: str) -> set[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"',
             str(script), line],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return {text.split("\t")[0] for text in done.stdout.splitlines()}

    assert offered("ggscope sta") == {"stats"}
    assert offered("ggscope stats --by ") == set(BY)
    assert offered("ggscope export --vi") == {"--view"}
    assert {"timeline,heatmap", "timeline,hot"} <= offered(
        "ggscope export --view timeline,h"
    )
    assert any("run.bin" in name for name in offered("ggscope export -o a"))
    assert any("run.bin" in name for name in offered("ggscope info --json a"))


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_at_the_first_tab(run, tmp_path: Path) -> None:
    import pty

    need_terminal()
    (tmp_path / "_ggscope").write_text(run("completion", "zsh").out)
    (tmp_path / "longname.bin").touch()
    lines = ("ggscope sta", "ggscope export --view timeline,hea", "ggscope info lon")
    ends = (b"ts ", b"tmap ", b"gname.bin")
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
            heard = until(terminal, end)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)
        assert end in heard, line


def until(terminal: int, end: bytes) -> bytes:
    """Return what a terminal shows, up to `end`."""
    heard = b""
    while end not in heard and select.select([terminal], [], [], 20)[0]:
        heard += os.read(terminal, 4096)
    return heard


def test_every_option_is_completed_in_every_shell(run) -> None:
    scripts = {shell: run("completion", shell).out for shell in SHELLS}

    for command in command_lines(make_parser()):
        for option in command.options:
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


def test_unknown_shell_is_a_usage_error(run) -> None:
    assert run("completion", "tcsh").code == 2


def test_manual_has_every_command_and_option(run) -> None:
    text = run("man").out.replace("\\-", "-")

    assert text.startswith(".TH GGSCOPE 1")
    for command in command_lines(make_parser()):
        assert f".SS {command.name}\n" in text
        for option in command.options:
            assert all(f"\\fB{flag}\\fR" in text for flag in option.flags)
    assert "data loss with --strict" in text


def test_manual_is_good_troff(run) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"],
        input=run("man").out, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
