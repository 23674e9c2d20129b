"""The flags of llama.cpp in their pane: values, reasons, and what is copied."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from builders import empty_trace, llama_like_trace
from ggscope.analysis.flags import UNKNOWN_FLAGS, flags
from ggscope.descriptions.flags import flag_texts
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.session_loading import open_bundle
from ggscope.views.flags import FlagsView
from ggscope.views.registry import entry
from panes import experiment, settle_view

LEFT = Qt.MouseButton.LeftButton
GIB = 1 << 30


@pytest.fixture
def session(qtbot: QtBot) -> Iterator[Session]:
    made = Session()
    made.set_trace(llama_like_trace(tokens=4))
    yield made
    made.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> FlagsView:
    made = FlagsView(session, theme("dark"))
    qtbot.addWidget(made)
    made.resize(700, 400)
    made.show()
    qtbot.waitExposed(made)
    settle_view(qtbot, made)
    return made


def arguments(trace: Trace, limit: int | None) -> list[str]:
    return [text.argument for text in flag_texts(flags(trace, limit))]


def with_value(view: FlagsView) -> list[str]:
    cards = view.cards.values()
    return [c.argument.full_text for c in cards if not c.copy_button.isHidden()]


def test_every_flag_has_a_value_or_a_reason(view: FlagsView, session: Session) -> None:
    assert session.trace is not None
    assert view.result is not None
    assert set(view.cards) == set(UNKNOWN_FLAGS)
    assert with_value(view) == arguments(session.trace, None)
    assert len(with_value(view)) + len(view.result.unknown) == len(UNKNOWN_FLAGS)


def test_copy_puts_one_flag_on_the_clipboard(qtbot: QtBot, view: FlagsView) -> None:
    card = view.cards["threads"]
    qtbot.mouseClick(card.copy_button, LEFT)

    assert QGuiApplication.clipboard().text() == card.argument.full_text
    assert card.argument.full_text.startswith("-t ")


def test_memory_of_the_device_gives_the_placement(
    qtbot: QtBot, view: FlagsView, session: Session
) -> None:
    trace = open_bundle(survey((experiment(),)))
    session.set_trace(trace)
    settle_view(qtbot, view)
    assert view.result is not None
    assert "override_tensor" in view.result.unknown

    view.memory_box.setDecimals(6)
    view.memory_box.setValue(300 * 1024 / GIB)
    settle_view(qtbot, view)

    assert view.limit == pytest.approx(300 * 1024, rel=0.01)
    assert with_value(view) == arguments(trace, view.limit)
    assert any(text.startswith("-ot ") for text in with_value(view))
    assert [row[0] for row in view.rows()] == with_value(view)


def test_hidden_pane_computes_when_it_is_shown_and_keeps_no_old_trace(
    qtbot: QtBot, view: FlagsView, session: Session
) -> None:
    view.hide()
    session.set_trace(llama_like_trace(tokens=2))
    assert view.result is None

    view.show()
    settle_view(qtbot, view)

    assert session.trace is not None
    assert with_value(view) == arguments(session.trace, None)


def test_pane_is_offered_where_something_is_evidence() -> None:
    has_data = entry("flags").has_data

    assert has_data(llama_like_trace())
    assert not has_data(empty_trace())
