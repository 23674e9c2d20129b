"""Colours and progress: only where a terminal wants them."""

import io
import json
import sys

import pytest

from ggscope.cli import output, reading


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that puts a terminal in the place of both streams."""

    # Called by the test, since pytest sets the streams anew between set-up and test.
    def use():
        stream = Terminal()
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return use


def test_style_is_used_on_a_terminal(terminal):
    terminal()

    assert output.styled("x", "bold") == "\x1b[1mx\x1b[0m"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_style_is_left_out_where_it_is_not_requested(
    terminal, monkeypatch, name, value
):
    terminal()
    monkeypatch.setenv(name, value)

    assert output.styled("x", "bold") == "x"


def test_style_is_left_out_in_a_file():
    assert output.styled("x", "bold", io.StringIO()) == "x"


def test_progress_is_one_line_that_goes_away(terminal, monkeypatch):
    stream = terminal()
    monkeypatch.setattr(reading, "_QUIET_SECONDS", 0)

    with reading.Progress("x.bin") as progress:
        progress.update(50, 100)

    text = stream.getvalue()
    assert "x.bin: 50 %" in text
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text


def test_progress_is_silent_where_reading_is_quick(terminal, monkeypatch):
    stream = terminal()
    monkeypatch.setattr(reading, "_QUIET_SECONDS", 3600)

    with reading.Progress("x.bin") as progress:
        progress.update(50, 100)

    assert stream.getvalue() == ""


def test_progress_is_silent_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(reading, "_QUIET_SECONDS", 0)

    with reading.Progress("x.bin") as progress:
        progress.update(50, 100)

    assert capsys.readouterr().err == ""


def test_table_aligns_numbers_right():
    text = output.table(("op", "n"), [("ADD", "5"), ("MUL_MAT", "1,000")])

    assert text.splitlines() == ["op           n", "ADD          5", "MUL_MAT  1,000"]


def test_items_of_a_list_are_printed_as_they_come(capsys):
    printed = []

    def items():
        for i in range(30_000):
            printed.append(capsys.readouterr().out)
            yield [i, None, "ü"]

    output.emit_json_list({"a": {"b": 1}}, "list", items(), lambda: {"n": len(printed)})

    assert any(printed)
    printed.append(capsys.readouterr().out)
    value = json.loads("".join(printed))
    assert value["a"] == {"b": 1}
    assert value["list"] == [[i, None, "ü"] for i in range(30_000)]
    assert value["n"] == 30_000
