"""What leaves the program, by where it goes."""

import csv
import html as standard_html
import io
import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggscope.sanitize import (
    MAX_NAME_BYTES,
    MAX_TIP,
    Html,
    caption,
    csv_text,
    file_name,
    html,
    join_html,
    json_text,
    markdown,
    markdown_row,
    one_line,
    plain,
    tooltip,
    tsv_text,
    xml,
)
from hostile_names import FORMULAS, MARKUP

ANY = st.text(st.characters(codec=None), max_size=40)
"""Any text, halves of surrogate pairs too."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("blk.0.ffn_up é 🙂 👩‍👩‍👧 日本", "blk.0.ffn_up é 🙂 👩‍👩‍👧 日本"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\0\x07\x7f", "\\x00\\x07\\x7f"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("\uffff\U0001ffff", "\\uffff\\U0001ffff"),
        ("two\nlines\tapart", "two\nlines\tapart"),
    ],
)
def test_plain_shows_what_cannot_be_seen(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_one_line_shows_line_ends_and_tabs_too() -> None:
    assert one_line("a\nb\tc\r\u2028") == "a\\nb\\tc\\r\\u2028"
    assert caption("R&D\n") == "R&&D\\n"


@given(ANY)
def test_shown_text_has_no_control_characters_and_is_unicode(text: str) -> None:
    shown = one_line(text)

    shown.encode()
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert one_line(shown) == shown
    assert plain(plain(text)) == plain(text)


@given(ANY)
def test_xml_reads_back_what_plain_shows(text: str) -> None:
    root = ElementTree.fromstring(f'<a b="{xml(text)}">{xml(text)}</a>')

    assert (root.text or "") == plain(text)


def test_html_escapes_its_parts_and_nothing_else() -> None:
    line = html("<b>{}</b>{}", "<i>", html("<br>"))

    assert line == "<b>&lt;i&gt;</b><br>"
    assert join_html([line, html("x")], html("<hr>")) == f"{line}<hr>x"
    assert not isinstance(line + MARKUP[0], Html), "what is added to it is plain again"


@pytest.mark.parametrize("text", MARKUP)
def test_tooltip_of_markup_is_that_text(text: str) -> None:
    shown = tooltip(text)

    inner = re.sub("<[^>]*>", "", shown)
    assert standard_html.unescape(inner) == text
    assert tooltip(shown) is shown


def test_tooltip_of_plain_words_stays_as_it_is() -> None:
    assert tooltip("3 × faster, R&D") == "3 × faster, R&D"
    assert len(tooltip("x" * 10_000)) == MAX_TIP
    assert tooltip(html("<b>{}</b>", "x")) == "<b>x</b>"


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_defused(text: str) -> None:
    assert next(csv.reader(io.StringIO(csv_text([[text]]), newline=""))) == [f"'{text}"]
    assert tsv_text([[text, 1]]).startswith("'")


@pytest.mark.parametrize("text", [" =cmd()", "\u00a0@x", " \t=x"])
def test_formulas_behind_blanks_are_defused(text: str) -> None:
    assert csv_text([[text]]).lstrip('"').startswith("'")


def test_numbers_of_the_program_are_left_alone() -> None:
    assert csv_text([[-5, -0.5, 1e-9, None, "-5", 7]]) == "-5,-0.5,1e-09,,'-5,7\n"
    assert tsv_text([[-5, "a\tb\r\nc", None]]) == "-5\ta b c\t\n"


@given(st.lists(ANY.filter(lambda t: "\0" not in t), min_size=2, max_size=3))
def test_csv_reads_back(cells: list[str]) -> None:
    read = next(csv.reader(io.StringIO(csv_text([cells]), newline="")))

    assert [cell.removeprefix("'") for cell in read] == [
        cell.removeprefix("'") for cell in cells
    ]


@given(st.lists(ANY, min_size=2, max_size=3))
def test_tsv_is_one_line_with_the_same_number_of_cells(cells: list[str]) -> None:
    text = tsv_text([cells])

    assert text.count("\n") == 1
    assert len(text[:-1].split("\t")) == len(cells)
    assert len(text.splitlines()) == 1


def test_markdown_is_shown_as_it_is() -> None:
    assert markdown("a|b <img> [x](y) `z` *w* #1") == (
        "a\\|b \\<img> \\[x](y) \\`z\\` \\*w\\* \\#1"
    )
    assert markdown("ffn_up _x_") == "ffn_up \\_x\\_"
    assert markdown("ffn_up", any_dialect=True) == "ffn\\_up"
    assert markdown_row(["a\nb", "c|d"]) == "| a b | c\\|d |"


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("llama", "llama.timeline.png"),
        ("../../etc/passwd", "_.._etc_passwd.timeline.png"),
        ("-rf", "rf.timeline.png"),
        (".hidden", "hidden.timeline.png"),
        ("a\x1b\nb:c", "a__b_c.timeline.png"),
        ("CON", "_CON.timeline.png"),
        ("", "trace.timeline.png"),
        ("...", "trace.timeline.png"),
        ("日本", "日本.timeline.png"),
    ],
)
def test_file_name_is_one_in_its_folder(stem: str, name: str) -> None:
    assert file_name(stem, ".timeline.png") == name


@given(ANY)
def test_any_text_gives_a_name_that_a_file_can_have(text: str) -> None:
    name = file_name(text * 20, ".graph.svg")

    assert len(name.encode()) <= MAX_NAME_BYTES
    assert os.path.basename(name) == name
    assert name[0] not in ".-"
    assert name.endswith(".graph.svg")
    assert one_line(name) == name


def test_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / file_name("é" * 500, ".timeline.png")

    path.write_bytes(b"")

    assert path.exists()


@given(ANY)
def test_json_keeps_data_and_shows_nothing_hidden(text: str) -> None:
    shown = json_text({"name": text})

    assert json.loads(shown) == {"name": text}
    assert plain(shown) == shown
