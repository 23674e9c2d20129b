"""The guide: what it names is in the menus, and its paragraphs stand apart."""

import re

from PySide6.QtGui import QTextBlock, QTextCursor, QTextDocument
from PySide6.QtWidgets import QMenu, QTextBrowser
from pytestqt.qtbot import QtBot

from ggscope.gui.dialogs.dialogs import guide_text, text_dialog
from ggscope.gui.main_window import MainWindow
from support import ROOT

DOCS = ROOT / "resources" / "docs"
_ENTRY = re.compile(r"\*(File|Edit|View|Go|Analyse|Tools|Help) ?[▸>] ?([^*]+)\*")


def entries(menu: QMenu) -> set[str]:
    """Return the words of a menu's entries and those of its menus."""
    found: set[str] = set()
    for action in menu.actions():
        found.add(action.text().replace("&", "").rstrip("…"))
        inner = action.menu()
        if isinstance(inner, QMenu):
            found |= entries(inner)
    return found


def test_menu_entries_that_the_documents_name_are_in_the_menus(
    window: MainWindow,
) -> None:
    menus = {
        action.text().replace("&", ""): action.menu()
        for action in window.menuBar().actions()
    }
    named = {
        (name, *found.groups())
        for name in ("guide.md", "limits.md")
        for found in _ENTRY.finditer((DOCS / name).read_text("utf-8"))
    }
    assert len(named) > 6
    for document, title, entry in sorted(named):
        menu = menus.get(title)
        assert isinstance(menu, QMenu), (document, title)
        words = " ".join(entry.split()).rstrip("…")
        assert words in entries(menu), (document, title, entry)


def blocks(document: QTextDocument) -> list[QTextBlock]:
    found, block = [], document.begin()
    while block.isValid():
        if QTextCursor(block).currentTable() is None:
            found.append(block)
        block = block.next()
    return found


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
