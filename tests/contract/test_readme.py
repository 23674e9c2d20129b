"""README says what the program does."""

import re
import subprocess
import sys

from support import ROOT


def test_key_table_is_that_of_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "packaging/update_readme.py", "--check"],
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 0, "run packaging/update_readme.py"


def test_every_linked_file_exists() -> None:
    text = (ROOT / "README.md").read_text("utf-8")

    targets = re.findall(r"\]\(([^)#:]+)\)", text)

    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def test_every_command_of_the_readme_is_one_of_the_program() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    commands = set(re.findall(r"^ggscope (\w+)", text, re.MULTILINE))

    shown = subprocess.run(
        [sys.executable, "-m", "ggscope", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert len(commands) >= 6
    for command in commands:
        assert command in shown
