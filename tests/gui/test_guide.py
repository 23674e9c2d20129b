"""The guide: what it names is in the menus, and its paragraphs stand apart."""

import re

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextBlock, QTextCursor, QTextDocument
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QMenu, QTextBrowser
from pytestqt.qtbot import QtBot

from ggscope.gui.dialogs.dialogs import GUIDE_PAGES, guide_text, text_dialog
from ggscope.gui.dialogs.find import FindLine
from ggscope.gui.main_window import MainWindow
from support import ROOT

DOCS = ROOT / "resources" / "docs"
_ENTRY = re.compile(r"\*(File|Edit|View|Go|Analyse|Tools|Help) ?[▸>] ?([^*]+)\*")


def entries(menu: QMenu) -> set[str]:
    """Return the words of a menu's entries and those of its menus."""
    names: set[str] = set()
    for action in menu.actions():
        names.add(action.text().replace("&", "").rstrip("…"))
        inner = action.menu()
        if isinstance(inner, QMenu):
            names |= entries(inner)
    return names


def test_menu_entries_that_the_documents_name_are_in_the_menus(
    window: MainWindow,
) -> None:
    menus = {
        action.text().replace("&", ""): action.menu()
        for action in window.menuBar().actions()
    }
    named = {
        (name, *one.groups())
        for name in (*GUIDE_PAGES, "limits")
        for one in _ENTRY.finditer((DOCS / f"{name}.md").read_text("utf-8"))
    }
    assert len(named) > 6
    for document, title, entry in sorted(named):
        menu = menus.get(title)
        assert isinstance(menu, QMenu), (document, title)
        text = " ".join(entry.split()).rstrip("…")
        assert text in entries(menu), (document, title, entry)


def test_guide_has_each_page_as_a_chapter_without_links_to_files() -> None:
    text = guide_text()

    chapters = re.findall(r"^## (.+)$", text, re.MULTILINE)
    titles = [
        (DOCS / f"{n}.md").read_text("utf-8").splitlines()[0] for n in GUIDE_PAGES
    ]
    assert [t for t in titles if t.removeprefix("# ") not in chapters] == []
    assert ".md)" not in text
    assert "![" not in text
    on_disk = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for folder in ("guide", "views")
        for path in (DOCS / folder).glob("*.md")
    }
    assert on_disk <= set(GUIDE_PAGES)


def blocks(document: QTextDocument) -> list[QTextBlock]:
    blocks, block = [], document.begin()
    while block.isValid():
        if QTextCursor(block).currentTable() is None:
            blocks.append(block)
        block = block.next()
    return blocks


def test_paragraphs_stand_apart_and_headings_more_so(qtbot: QtBot) -> None:
    dialog = text_dialog("Guide", guide_text(), None)
    qtbot.addWidget(dialog)
    browser = dialog.findChild(QTextBrowser)
    assert browser is not None
    all_of_them = blocks(browser.document())
    plain = [
        b.blockFormat()
        for b in all_of_them
        if b.textList() is None and b.text() and not b.blockFormat().headingLevel()
    ]
    heads = [b.blockFormat() for b in all_of_them if b.blockFormat().headingLevel()][1:]
    apart = [form.bottomMargin() for form in plain if form.bottomMargin() > 0]
    assert len(apart) > 20
    assert heads
    assert min(form.topMargin() for form in heads) > min(apart)


def guide(qtbot: QtBot) -> tuple[QDialog, QTextBrowser, FindLine]:
    dialog = text_dialog("Guide", guide_text(), None)
    qtbot.addWidget(dialog)
    with qtbot.waitActive(dialog):
        dialog.show()
        dialog.activateWindow()
    browser, line = dialog.findChild(QTextBrowser), dialog.findChild(FindLine)
    assert browser is not None
    assert line is not None
    return dialog, browser, line


def test_words_of_the_guide_are_found_by_keys(qtbot: QtBot) -> None:
    dialog, browser, line = guide(qtbot)
    n = browser.toPlainText().casefold().count("ring")

    QTest.keyClick(browser, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert line.edit.hasFocus()
    QTest.keyClicks(line.edit, "ring")

    assert len(line.places) == n > 10
    assert line.count.text() == f"1 of {n}"
    assert browser.textCursor().selectedText().casefold() == "ring"
    assert len(browser.extraSelections()) == n
    QTest.keyClick(line.edit, Qt.Key.Key_Return)
    assert line.count.text() == f"2 of {n}"
    QTest.keyClick(line.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClick(line.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert line.count.text() == f"{n} of {n}"
    assert browser.viewport().rect().contains(browser.cursorRect().center())
    assert browser.verticalScrollBar().value() > 0
    assert dialog.isVisible()


def test_search_in_the_guide_goes_on_from_what_is_seen(qtbot: QtBot) -> None:
    _, browser, line = guide(qtbot)
    document = browser.document()
    document.documentLayout().blockBoundingRect(document.lastBlock())  # lays all out
    middle = browser.textCursor()
    middle.setPosition(browser.document().characterCount() // 2)
    browser.setTextCursor(middle)
    browser.ensureCursorVisible()
    seen = browser.cursorForPosition(QPoint(1, 1)).position()

    QTest.keyClicks(line.edit, "trace")

    assert line.at > 0
    assert line.places[line.at].selectionStart() >= seen
    assert line.places[line.at - 1].selectionStart() < seen


def test_words_that_are_not_there_are_reported_and_escape_ends_the_search(
    qtbot: QtBot,
) -> None:
    dialog, browser, line = guide(qtbot)
    QTest.keyClicks(line.edit, "trace")
    line.edit.clear()
    QTest.keyClicks(line.edit, "<b>no such words</b>")

    assert line.count.text() == "no matches"
    assert not line.next.isEnabled()
    assert not browser.textCursor().hasSelection()
    QTest.keyClick(line.edit, Qt.Key.Key_Escape)
    assert line.edit.text() == ""
    assert line.count.text() == ""
    assert dialog.isVisible()
    QTest.keyClick(line.edit, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_short_texts_have_no_line_to_find_with(qtbot: QtBot) -> None:
    dialog = text_dialog("About", "few words", None)
    qtbot.addWidget(dialog)

    assert dialog.findChild(FindLine) is None
