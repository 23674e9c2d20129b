"""The summary in its pane: real clicks and keys lead to what a line speaks of."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

import gguf_files
from builders import empty_trace, llama_like_trace
from ggscope.analysis.summary.summary import summary
from ggscope.descriptions.summary import bottleneck_name, bottleneck_text
from ggscope.readers.discovery import survey
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.session_loading import open_bundle
from ggscope.views.base import summary_panel
from ggscope.views.base.summary_list import SummaryList
from ggscope.views.registry import entry
from ggscope.views.summary import SummaryView
from pages import Page


@pytest.fixture
def session(qtbot: QtBot) -> Iterator[Session]:
    made = Session()
    made.set_trace(llama_like_trace(tokens=8))
    yield made
    made.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> SummaryView:
    made = SummaryView(session, theme("dark"))
    qtbot.addWidget(made)
    made.resize(320, 900)
    made.show()
    return made


def place_of(lines: SummaryList, title: str) -> QPoint:
    """Return the middle of the line with a title."""
    for row in lines.placed_rows():
        if row.line is not None and row.line.title == title:
            return row.rect.center()
    raise AssertionError(f"no line {title!r}")


def test_lines_hold_the_facts_of_the_trace(view: SummaryView, session: Session) -> None:
    assert session.trace is not None
    result = view.panel.result
    assert result is not None
    assert result.tokens.generated == summary(session.trace).tokens.generated == 7
    titles = [title for _, title, _ in view.panel.rows()]
    assert {"MUL_MAT", "median token", "slowest token", "spans"} <= set(titles)


def test_sentence_under_the_name_does_not_repeat_it(
    view: SummaryView, session: Session
) -> None:
    assert session.trace is not None
    facts = summary(session.trace)
    name, text = bottleneck_name(facts), bottleneck_text(facts)

    _, heading, sentence = view.panel.rows()[0]

    assert name is not None
    assert text.startswith(f"{name} ")
    assert heading == name
    assert name not in sentence
    assert sentence.lower() in text.lower()


def test_a_click_on_the_slowest_token_goes_there(
    qtbot: QtBot, view: SummaryView, session: Session
) -> None:
    lines = view.panel.lines
    qtbot.mouseClick(
        lines, Qt.MouseButton.LeftButton, pos=place_of(lines, "slowest token")
    )

    result = view.panel.result
    assert result is not None
    assert result.tokens.slowest is not None
    span = int(result.tokens.bars.span[result.tokens.slowest])
    assert session.selection.current.ids == (span,)
    time = result.tokens.bars.time(result.tokens.slowest)
    assert session.viewport.visible.start <= time.start
    assert session.viewport.visible.end >= time.end


def test_keys_walk_the_links(qtbot: QtBot, view: SummaryView, session: Session) -> None:
    lines = view.panel.lines
    lines.setFocus()
    for _ in range(40):
        qtbot.keyClick(lines, Qt.Key.Key_Down)
    qtbot.keyClick(lines, Qt.Key.Key_Return)

    assert session.selection.current.table == "groups"
    group = session.selection.current.group
    assert group is not None
    assert group.by == "thread"


def test_an_op_lights_its_spans(
    qtbot: QtBot, view: SummaryView, session: Session
) -> None:
    result = view.panel.result
    assert result is not None
    op = result.ops.rows[0].key
    lines = view.panel.lines
    qtbot.mouseClick(lines, Qt.MouseButton.LeftButton, pos=place_of(lines, op))

    group = session.selection.current.group
    assert group is not None
    assert (group.by, group.key) == ("op", op)


@pytest.mark.parametrize("width", [120, 320, 1400])
@pytest.mark.parametrize("name", ["dark", "light"])
def test_it_is_painted_at_any_width(view: SummaryView, width: int, name: str) -> None:
    view.set_theme(theme(name))
    view.resize(width, 700)
    lines = view.panel.lines
    lines.resize(width, lines.heightForWidth(width))

    rows = lines.placed_rows()
    assert not lines.grab().isNull()
    assert all(row.rect.right() < width for row in rows)
    for i, row in enumerate(rows):
        assert not any(row.rect.intersects(other.rect) for other in rows[i + 1 :])


def test_a_large_trace_is_summed_up_by_a_worker(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, session: Session
) -> None:
    monkeypatch.setattr(summary_panel, "SYNC_SPANS", 0)
    view = SummaryView(session, theme("dark"))
    qtbot.addWidget(view)

    assert view.panel.result is None
    qtbot.waitUntil(lambda: view.panel.result is not None)
    assert session.trace is not None
    expected = summary(session.trace)
    assert view.panel.result.cause is expected.cause
    view.release()


def test_a_trace_without_spans_has_no_summary(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(empty_trace())
    view = SummaryView(session, theme("light"))
    qtbot.addWidget(view)

    assert Page(view).is_empty
    session.close()


def test_a_model_alone_is_summed_up(qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_files.encode([gguf_files.T("blk.0.a.weight", (64, 32))]))
    trace = open_bundle(survey((path,)))
    session = Session()
    session.set_trace(trace)
    view = SummaryView(session, theme("light"))
    qtbot.addWidget(view)
    view.show()

    titles = [title for _, title, _ in view.panel.rows()]

    assert entry("summary").has_data(trace)
    assert {"size of tensors", "f32"} <= set(titles)
    assert "spans" not in titles
    session.close()


def test_what_a_width_cuts_is_in_a_tooltip(view: SummaryView) -> None:
    """A wide line is whole; a narrow one has all of its text on request."""
    lines = view.panel.lines
    lines.resize(2_000, lines.heightForWidth(2_000))
    assert not any(lines.cut_text(row) for row in lines.placed_rows())

    lines.resize(60, lines.heightForWidth(60))

    tips = {row.line: lines.cut_text(row) for row in lines.placed_rows() if row.line}
    result = view.panel.result
    assert result is not None
    op = result.ops.rows[0].key
    (tip,) = (text for line, text in tips.items() if line.title == op)
    assert op in tip
    assert all(line.value in text for line, text in tips.items() if text)
