"""Write the sources of the site into build/docs: `make docs` then builds build/site.

The pages of resources/docs as they are; beside them what is made from the program: a
page per format, the command lines, the Python functions, and a picture of each view.
"""

import argparse
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import ggscope
from ggscope import api
from ggscope.cli.arguments import make_parser
from ggscope.readers.api import Option, ReaderInfo
from ggscope.readers.registry import infos
from ggscope_capture.__main__ import parser as capture_parser

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "docs"
SAMPLE = ROOT / "resources" / "samples" / "moe-experiment"
VIEWS = ("timeline", "heatmap", "hot", "cache", "experts", "buffers", "graph",
         "statistics", "tokens", "roofline", "3d", "load")  # fmt: skip
"""Views of which there is a figure: ``pictures/view-NAME.png``."""


def main() -> int:
    """Write everything anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(
        ROOT / "resources" / "docs", TARGET, ignore=shutil.ignore_patterns("*.pyc")
    )
    icon = "hicolor/scalable/apps/org.ggscope.ggscope.svg"
    shutil.copy(ROOT / "resources" / "desktop" / icon, TARGET / "pictures" / "logo.svg")
    pages = dict(generated_pages())
    for name, text in pages.items():
        path = TARGET / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    pictures()
    for path in (TARGET / "views").glob("*.md"):
        path.write_text(with_picture(path.read_text("utf-8"), path.stem), "utf-8")
    return 0


def generated_pages() -> Iterator[tuple[str, str]]:
    """Yield name and text of the pages that are made from the program."""
    for info in infos():
        yield f"formats/{info.id}.md", format_page(info)
    yield "reference/ggscope.md", command_page("ggscope", make_parser())
    yield (
        "reference/ggscope-capture.md",
        command_page("ggscope-capture", capture_parser()),
    )
    yield "reference/python.md", python_page()
    yield "contributing.md", in_site((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    yield "security.md", in_site((ROOT / "SECURITY.md").read_text("utf-8"))
    licence = (ROOT / "LICENSE").read_text("utf-8")
    yield "license.md", f"# Licence\n\n```text\n{licence}```\n"
    yield "changelog.md", in_site((ROOT / "CHANGELOG.md").read_text("utf-8"))


def format_page(info: ReaderInfo) -> str:
    """Return the page of a format."""
    lines = [f"# {info.title}", "", info.doc, "", "[All formats](index.md)", ""]
    lines += ["| property | value |", "|---|---|", f"| `--format` | `{info.id}` |"]
    if info.suffixes:
        lines.append(f"| suffixes | {', '.join(f'`{s}`' for s in info.suffixes)} |")
    if info.names:
        lines.append(f"| names | {', '.join(f'`{n}`' for n in info.names)} |")
    lines.append(f"| role in a session | {info.role} |")
    if info.known_options:
        lines += ["", "## Options", "", "`--option NAME=VALUE`:", "",
                  "| name | meaning | default |", "|---|---|---|"]  # fmt: skip
        lines += [option_row(option) for option in info.known_options]
    return "\n".join(lines) + "\n"


def option_row(option: Option) -> str:
    """Return the row of an option of a reader."""
    default = f"`{option.default}`" if option.default else "–"
    cells = (f"`{option.name}`", option.doc, default)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def command_page(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the page of a program: its help, then that of each command."""
    parts = [f"# `{name}`", "", help_block(parser)]
    for command, one in commands_of(parser).items():
        parts += ["", f"## `{name} {command}`", "", help_block(one)]
    return "\n".join(parts) + "\n"


def commands_of(
    parser: argparse.ArgumentParser,
) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a program's commands, in the order of its help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def help_block(parser: argparse.ArgumentParser) -> str:
    """Return the help of a parser as a block of code."""
    return f"```text\n{parser.format_help().strip()}\n```"


def python_page() -> str:
    """Return the page of the Python functions, from their docstrings."""
    parts = ["# Python", "", "`import ggscope` works where pip installed it; the "
             "`.deb`, `.rpm` and `.tar.zst` have no Python package.", ""]  # fmt: skip
    public = sorted(set(ggscope.__all__) - {"__version__"})
    for name in sorted(public, key=lambda n: inspect.isclass(getattr(ggscope, n))):
        parts += described(f"ggscope.{name}", getattr(ggscope, name))
    for name, one in vars(api).items():
        is_own = inspect.isclass(one) and one.__module__ == api.__name__
        if is_own and not name.startswith("_") and name not in ggscope.__all__:
            parts += described(name, one)
            for method, function in vars(one).items():
                if not method.startswith("_") and callable(function):
                    parts += described(f"{name}.{method}", function, level=3)
    return "\n".join(parts) + "\n"


def described(title: str, thing: object, *, level: int = 2) -> list[str]:
    """Return heading, signature and docstring of a function or class."""
    lines = ["#" * level + f" `{title}`", ""]
    if callable(thing) and not inspect.isclass(thing):
        lines += ["```python", signature(title, thing), "```", ""]
    return [*lines, "```text", inspect.getdoc(thing) or "", "```", ""]


def signature(title: str, function: Callable[..., object]) -> str:
    """Return how a function is called, a parameter per line, without module names."""
    whole = inspect.signature(function)
    kind, lines = None, []
    for parameter in whole.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY is not kind:
            lines.append("*")
        kind = parameter.kind
        lines.append(str(parameter))
    listed = "".join(f"\n    {line}," for line in lines) + "\n" * bool(lines)
    result = inspect.formatannotation(whole.return_annotation)
    text = re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", f"({listed}) -> {result}")
    return title + text


def in_site(text: str) -> str:
    """Return a document of the checkout with links as they are on the site."""
    text = text.replace("](resources/docs/", "](")
    # What is no page stays a name.
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)[^)]*(?<!\.md)\)", r"`\1`", text)


def with_picture(text: str, view: str) -> str:
    """Return a page of a view with its figure below the heading, where it has one."""
    if view not in VIEWS:
        return text
    heading, _, rest = text.partition("\n")
    picture = f"![{heading.lstrip('# ')}](../pictures/view-{view}.png)"
    return f"{heading}\n\n{picture}\n{rest}"


def pictures() -> None:
    """Draw each view of the sample experiment by the command line."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    for view in VIEWS:
        target = TARGET / "pictures" / f"view-{view}.png"
        subprocess.run(
            [sys.executable, "-m", "ggscope", "export", "--view", view, "--preset",
             "readme", "--force", "-o", str(target), str(SAMPLE)],
            check=True, env=environment, stdout=subprocess.DEVNULL,
        )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
