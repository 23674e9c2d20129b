"""The filter popup picks tensors, experts and buffers; chips say it in words."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ggscope.analysis.filters.masks import filter_mask
from ggscope.gui.dialogs.filters import MAX_LISTED, Choices, FilterPopup
from ggscope.gui.toolbar import ChipRow
from ggscope.model.selection import Filter
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from link_traces import random_links_trace
from panes import texts_of_widgets
from statements import new_statement


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(random_links_trace(4))
    yield session
    session.close()


@pytest.fixture
def popup(qtbot: QtBot, session: Session) -> FilterPopup:
    popup = FilterPopup(session)
    popup.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(popup)
    popup.show()
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    return popup


def pick(popup: FilterPopup, field: str, text: str) -> None:
    """Choose a field, and tick the value that begins with `text` by its box."""
    popup.field.setCurrentText(field)
    item = next(
        item
        for i in range(popup.list.count())
        if (item := popup.list.item(i)).text().startswith(text)
    )
    popup.list.scrollToItem(item)
    box = popup.list.visualItemRect(item)
    QTest.mouseClick(
        popup.list.viewport(),
        Qt.MouseButton.LeftButton,
        pos=QPoint(box.left() + 12, box.center().y()),
    )


@pytest.mark.parametrize(
    ("field", "text", "requested"),
    [
        ("tensor", "t2", Filter(tensors=frozenset({"t2"}))),
        ("expert", "expert 3", Filter(experts=frozenset({3}))),
        ("buffer", "buffer 1", Filter(buffers=frozenset({0xB0}))),
    ],
)
def test_picking_a_thing_filters_by_it(
    popup: FilterPopup, session: Session, field: str, text: str, requested: Filter
) -> None:
    pick(popup, field, text)

    assert session.queries.filter == requested
    assert session.trace is not None
    expected = filter_mask(session.trace, requested)
    assert session.queries.mask is not None
    assert expected is not None
    assert session.queries.mask.tolist() == expected.tolist()


def test_picking_keeps_what_was_typed_and_cannot_be_picked(
    popup: FilterPopup, session: Session
) -> None:
    session.queries.set_filter(Filter(tensors=frozenset({"blk.*"})))

    pick(popup, "tensor", "t2")

    assert session.queries.filter.tensors == frozenset({"blk.*", "t2"})


def test_typed_offsets_become_a_chip(
    qtbot: QtBot, popup: FilterPopup, session: Session
) -> None:
    chips = ChipRow(session)
    qtbot.addWidget(chips)

    QTest.keyClicks(popup.edit, "offset=0:1KiB tensor=t0")
    QTest.keyClick(popup.edit, Qt.Key.Key_Return)

    assert session.queries.filter == Filter(
        offsets=(0, 1024), tensors=frozenset({"t0"})
    )
    assert [chip.toolTip() for chip in chips.chips] == [
        "tensor t0",
        "offset 0x0000 – 0x0400 (1.0 KiB)",
    ]


def test_parts_that_do_not_fit_beside_each_other_are_counted(
    qtbot: QtBot, session: Session
) -> None:
    session.queries.set_filter(Filter(offsets=(0, 1024), experts=frozenset({3})))

    def shown(width: int) -> str:
        chips = ChipRow(session)
        qtbot.addWidget(chips)
        chips.resize(width, 28)
        chips.show()
        qtbot.waitExposed(chips)
        return "\n".join(texts_of_widgets(chips))

    several, none = shown(60), shown(900)
    one = next(text for w in range(80, 900, 20) if "1 more" in (text := shown(w)))
    assert new_statement(several, none + one)
    assert new_statement(one, none + several)


def test_chip_takes_its_part_away(qtbot: QtBot, session: Session) -> None:
    chips = ChipRow(session)
    qtbot.addWidget(chips)
    session.queries.set_filter(Filter(offsets=(0, 1024), experts=frozenset({3})))

    QTest.mouseClick(chips.chips[0].close_button, Qt.MouseButton.LeftButton)

    assert session.queries.filter == Filter(experts=frozenset({3}))


def test_list_of_very_many_values_ends_with_how_many_more_there_are(
    popup: FilterPopup, session: Session
) -> None:
    last = f"t{2 * MAX_LISTED}"
    session.queries.set_filter(Filter(tensors=frozenset({last})))
    names = [f"t{i}" for i in range(2 * MAX_LISTED + 1)]
    popup._on_choices(Choices({"tensors": tuple((name, name) for name in names)}))

    pick(popup, "tensor", "t7")

    assert popup.list.count() == MAX_LISTED + 1
    remark = popup.list.item(MAX_LISTED)
    remark_text = remark.text()
    assert remark_text == f"{MAX_LISTED + 1:,} more: type them above"
    assert not remark.flags() & Qt.ItemFlag.ItemIsUserCheckable
    assert session.queries.filter.tensors == frozenset({"t7", last})
    few = tuple((name, name) for name in names[:MAX_LISTED])
    popup._on_choices(Choices({"tensors": few}))
    rest = popup.list.item(popup.list.count() - 1).text()
    assert new_statement(remark_text, rest)


# -- completion while typing -----------------------------------------------------


def offered(popup: FilterPopup) -> list[str]:
    model = popup.completions.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def press(popup: FilterPopup, key: Qt.Key) -> None:
    """Press a key where the person's keys go: to the list while it is open."""
    is_open = popup.completions.isVisible()
    QTest.keyClick(popup.completions if is_open else popup.edit, key)


def test_fields_and_values_are_offered_and_taken_by_tab_and_down(
    popup: FilterPopup, session: Session
) -> None:
    popup.edit.setFocus()
    QTest.keyClicks(popup.edit, "te")
    assert popup.completions.isVisible()
    assert offered(popup) == ["tensor="]

    press(popup, Qt.Key.Key_Tab)
    assert popup.edit.text() == "tensor="
    assert "t2" in offered(popup)

    QTest.keyClicks(popup.edit, "t")
    names = offered(popup)
    press(popup, Qt.Key.Key_Down)
    press(popup, Qt.Key.Key_Return)
    assert popup.edit.text() == f"tensor={names[0]}"
    assert not session.queries.filter

    press(popup, Qt.Key.Key_Return)
    assert session.queries.filter == Filter(tensors=frozenset({names[0]}))


def test_enter_adds_what_is_typed_where_nothing_was_chosen(
    popup: FilterPopup, session: Session
) -> None:
    popup.edit.setFocus()
    QTest.keyClicks(popup.edit, "layer=2")
    press(popup, Qt.Key.Key_Return)

    assert session.queries.filter == Filter(layers=frozenset({2}))


def test_popup_fits_the_screen_at_every_size_of_font(
    qtbot: QtBot, session: Session
) -> None:
    settings = Settings(MemoryStore())
    for n in range(5):
        settings.save_filter(f"filter {n}", f"token={n}")
    anchor = QWidget()
    qtbot.addWidget(anchor)
    popup = FilterPopup(session, anchor, settings)
    popup.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    # The offscreen platform moves what is new by a frame of two pixels.
    screen = anchor.screen().availableGeometry().adjusted(0, 0, 2, 2)
    px, has_hint = 11, True

    while has_hint:
        px += 1
        popup.setStyleSheet(f"* {{ font-size: {px}px; }} QLineEdit {{ padding: 4px; }}")
        popup.show_below(anchor)
        qtbot.waitUntil(lambda: session.tasks.is_idle)
        QTest.qWait(1)
        has_hint = popup.hint.isVisible()

        assert screen.contains(popup.geometry()), px
        parts = [
            part
            for part in popup.findChildren(QWidget)
            if part.parentWidget() is popup and part.isVisible()
        ]
        parts.sort(key=lambda part: (part.y(), part.x()))
        for part in parts:
            assert popup.rect().contains(part.geometry()), px
            assert part.height() >= 0.9 * part.minimumSizeHint().height(), px
        for upper, lower in pairwise(parts):
            assert not upper.geometry().intersects(lower.geometry()), px
    assert px > 16
    popup.close()
