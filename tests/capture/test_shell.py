"""Completion and manual of ``ggscope-capture``: made from its parser."""

import argparse
import shutil
import subprocess
import sys

import pytest

from completion import complete
from ggscope_capture.__main__ import main, parser
from ggscope_capture.completion import SHELLS


def commands() -> dict[str, argparse.ArgumentParser]:
    (result,) = (
        action
        for action in parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return dict(result.choices)


def printed(capsys: pytest.CaptureFixture[str], *text: str) -> str:
    assert main(text) == 0
    return capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_options_values_and_files(capsys, tmp_path) -> None:
    script = printed(capsys, "completion", "bash")
    (tmp_path / "a run.bin").touch()

    assert complete(script, "ggscope-capture rec", tmp_path) == {"recover"}
    everything = complete(script, "ggscope-capture ", tmp_path)
    assert everything == set(commands())
    assert complete(script, "ggscope-capture run --requ", tmp_path) == {"--require"}
    assert complete(script, "ggscope-capture run -o a", tmp_path) == {"a run.bin"}
    assert complete(script, "ggscope-capture run --sample ", tmp_path) == set()
    installs = complete(script, "ggscope-capture targets --install ", tmp_path)
    assert installs == {"npm", "pypi", "source"}
    levels = complete(script, "ggscope-capture run --log-level d", tmp_path)
    assert levels == {"debug"}
    assert complete(script, "ggscope-capture completion ", tmp_path) == set(SHELLS)
    program = complete(script, "ggscope-capture run -- bas", tmp_path)
    assert "bash" in program
    # Behind the program stand its own options and files, none of ours.
    assert complete(script, "ggscope-capture run -- x --re", tmp_path) == set()
    assert complete(script, "ggscope-capture run -- x a", tmp_path) == {"a run.bin"}


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_options_and_values(capsys, tmp_path) -> None:
    script = tmp_path / "ggscope-capture.fish"
    script.write_text(printed(capsys, "completion", "fish"))

    def offered(line: str) -> set[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"',
             str(script), line],
            cwd=tmp_path, capture_output=True, text=True, check=True,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        return {row.partition("\t")[0] for row in done.stdout.splitlines()}

    assert "recover" in offered("ggscope-capture re")
    assert offered("ggscope-capture run --requ") == {"--require"}
    assert offered("ggscope-capture targets --install ") == {"npm", "pypi", "source"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_real_shell_finds_no_fault_in_the_script(capsys, tmp_path, shell) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(printed(capsys, "completion", shell))

    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_command_and_option_is_in_every_script_and_the_manual(capsys) -> None:
    scripts = [printed(capsys, "completion", shell) for shell in SHELLS]
    manual = printed(capsys, "man").replace("\\-", "-")

    for name, made in commands().items():
        assert f".SS {name}\n" in manual
        flags = [flag for action in made._actions for flag in action.option_strings]
        for script in scripts:
            assert name in script
            assert all(flag.lstrip("-") in script for flag in flags)
        assert all(f"\\fB{flag}\\fR" in manual for flag in flags)


def test_completion_without_shtab_is_one_message(capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)

    assert main(["completion", "bash"]) == 1

    output = capsys.readouterr()
    assert output.out == ""
    assert "shtab" in output.err


def test_every_option_says_what_it_is() -> None:
    for name, made in commands().items():
        for action in made._actions:
            if action.option_strings:
                assert action.help, (name, action.option_strings)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_manual_is_understood_by_troff(capsys) -> None:
    text = printed(capsys, "man")

    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-P-cbou"],
        input=text,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "SYNOPSIS" in done.stdout
    assert "EXIT STATUS" in done.stdout
