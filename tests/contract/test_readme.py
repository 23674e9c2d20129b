"""README and the pages of the site are true and complete."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ggscope.readers.registry import infos
from support import ROOT

DOCS = ROOT / "resources" / "docs"


def test_key_table_is_that_of_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "packaging/update_keys.py", "--check"],
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 0, "run packaging/update_keys.py"


MADE_BY_THE_SITE = re.compile(r"pictures/view-\w+\.png|^[a-z-]+\.md$")
"""Pages of formats and pictures of views, which packaging/make_docs.py makes."""


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")],
    ids=lambda p: p.name,
)
def test_every_linked_file_exists(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#:\s]+)\)", path.read_text("utf-8"))

    for target in targets:
        is_made = MADE_BY_THE_SITE.search(target) and path.parent != ROOT
        assert (path.parent / target).exists() or is_made, target


def test_each_format_has_a_row_and_only_those() -> None:
    table = (DOCS / "formats" / "index.md").read_text("utf-8")

    rows = set(re.findall(r"\]\(([a-z-]+)\.md\)", table))
    assert rows == {i.id for i in infos()}, "a row per format in formats/index.md"


def test_navigation_of_the_site_has_each_page() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}

    pages = {name for name in pages if not name.startswith(("decisions/", "formats/"))}
    assert pages - named == set()


def test_every_command_of_the_page_is_one_of_the_program() -> None:
    text = (DOCS / "commands.md").read_text("utf-8")
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
