"""No name of a trace or file is a command of a terminal, a formula or markup."""

import csv
import io
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ggscope import cli
from ggscope.cli import output
from ggscope.sanitize import markdown, one_line, xml
from hostile_names import CONTROLS, FORMULAS, MARKUP, READERS, hostile_named
from support import need_terminal

FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]"
)
"""What must not reach a terminal; \x1b is looked at by itself."""
OURS = re.compile(r"\x1b\[(?:0|1|2|31|32|33)m")
COMMANDS = (
    ("info",),
    ("info", "--json"),
    ("check",),
    ("check", "--json"),
    ("stats", "--by", "tensor"),
    ("stats", "--by", "op"),
    ("stats", "--by", "engine", "--json"),
    ("hot",),
    ("summary",),
    ("summary", "--json"),
    ("cache",),
    ("flags", "--vram", "1KiB"),
    ("flags", "--vram", "1KiB", "--json"),
    ("show",),
)


class Terminal(io.StringIO):
    """What a terminal is given."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise io.UnsupportedOperation


@pytest.fixture(scope="module")
def controls(tmp_path_factory) -> dict[str, Path]:
    return hostile_named(tmp_path_factory.mktemp("controls") / "\x1b[2J", CONTROLS)


@pytest.fixture(scope="module")
def formulas(tmp_path_factory) -> dict[str, Path]:
    return hostile_named(tmp_path_factory.mktemp("formulas"), FORMULAS)


@pytest.mark.parametrize("reader", READERS)
def test_no_command_sends_control_characters_of_a_trace(run, controls, reader) -> None:
    messages = []
    for command in COMMANDS:
        result = run(*command, controls[reader], "--format", reader)
        messages.append(result.out + result.err)
        assert not FORBIDDEN.search(messages[-1]), command

    assert "FAKE: good" not in "\n".join(messages).splitlines()
    assert "PWNED" in "".join(messages)


@pytest.mark.parametrize("reader", ["ggmlviz", "npu-json", "gguf"])
def test_a_terminal_gets_no_command_but_styles(monkeypatch, controls, reader) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for command in (*COMMANDS, ("stats", "--format", "csv")):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)

        cli.main([*command, str(controls[reader])])

        text = terminal.getvalue()
        assert not FORBIDDEN.search(OURS.sub("", text)), (command, text)
        assert "\x1b[31mred" not in text
        assert "\\x1b[1m" not in text, "styles of the program are sent"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_real_terminal_gets_no_command(controls, tmp_path) -> None:
    import pty

    need_terminal()
    here, there = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "ggscope", "info", str(controls["npu-json"]),
         str(tmp_path / "\x1b]0;GONE\x07.json")],
        stdin=subprocess.DEVNULL, stdout=there, stderr=there,
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(there)
    got = b""
    while True:
        try:
            piece = os.read(here, 65536)
        except OSError:  # how Linux says that nobody has it open any more
            break
        if not piece:
            break
        got += piece
    done.wait()
    os.close(here)

    text = got.decode().replace("\r\n", "\n").replace("\r\x1b[K", "")
    assert "PWNED" in text
    assert "GONE" in text
    assert not FORBIDDEN.search(OURS.sub("", text))


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", "{0}"),
        ("info", "{0}", "--option", "a"),
        ("stats", "{0}", "--where", "op={0}", "--by", "{0}"),
        ("{0}",),
        ("export", "{0}", "-o", "{0}"),
        ("convert", "{0}", "-o", "{0}"),
        ("open", "{0}"),
        ("--{0}",),
    ],
)
def test_what_was_typed_is_shown_and_not_sent(run, arguments, tmp_path) -> None:
    typed = f"{tmp_path}/\x1b]0;PWNED\x07\nggscope: all is well\x9b"

    result = run(*(part.replace("{0}", typed) for part in arguments))

    assert result.code
    assert not FORBIDDEN.search(result.out + result.err)
    assert "ggscope: all is well" not in result.err.splitlines()


def test_streams_show_what_anybody_prints(capsys) -> None:
    output.prepare()

    print("\x1b[2J", file=sys.stderr)
    sys.stdout.writelines(["\x07", "a\tb\n"])

    message = capsys.readouterr()
    assert message.err == "\\x1b[2J\n"
    assert message.out == "\\x07a\tb\n"


def test_log_lines_are_one_line(capsys, shell, controls) -> None:
    result = shell("info", controls["npu-json"], "--log-level", "debug")

    assert result.code == 0
    assert not FORBIDDEN.search(result.err)
    assert all(line.startswith(("DEBUG", "INFO", "ggscope")) for line in
               result.err.splitlines())  # fmt: skip


def test_csv_keeps_data_in_a_pipe(run, controls) -> None:
    result = run("stats", "--by", "op", "--format", "csv", controls["npu-json"])

    keys = {row["key"] for row in csv.DictReader(io.StringIO(result.out, newline=""))}
    assert CONTROLS[0] in keys


def test_csv_defuses_formulas_and_leaves_numbers(run, formulas) -> None:
    result = run("stats", "--by", "op", "--format", "csv", formulas["npu-json"])

    rows = list(csv.DictReader(io.StringIO(result.out, newline="")))
    keys = {row["key"] for row in rows}
    assert keys == {f"'{name}" for name in FORMULAS} & keys
    assert len(keys) > 3
    assert not [key for key in keys if key.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert all(float(row["count"]) >= 1 for row in rows)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


def test_report_holds_no_markup_of_a_name(run, tmp_path) -> None:
    files = hostile_named(tmp_path / "made", MARKUP)
    report = tmp_path / "report.html"

    run("check", *files.values(), "--report", report)

    tags = _Tags()
    tags.feed(report.read_text("utf-8"))
    assert tags.tags <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "code",
        "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip


def test_reports_show_control_characters(run, controls, tmp_path) -> None:
    shown = one_line(CONTROLS[0])
    forms = {".html": xml(shown), ".md": markdown(shown, any_dialect=True)}
    for suffix, form in forms.items():
        report = tmp_path / f"report{suffix}"

        run("check", *controls.values(), "--report", report)

        text = report.read_text("utf-8")
        assert not FORBIDDEN.search(text)
        assert form in text
