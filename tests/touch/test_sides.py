"""Several runs of a folder are compared as two sides by mouse and keys."""

from pathlib import Path

from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

import recordings
from ggscope.gui.dialogs.sides import SidesDialog
from ggscope.gui.main_window import MainWindow
from ggscope.session.loader import LoadState
from ggscope.views.compare.view import CompareView
from touching import PATIENCE_MS, Hand


def test_rows_are_selected_and_compared_as_sides(
    window: MainWindow, hand: Hand, qtbot: QtBot, tmp_path: Path
) -> None:
    for side, threads in (("a", "1"), ("b", "2")):
        (tmp_path / side).mkdir()
        command = ["/bin/llama", "-t", threads]
        for number in ("1", "2"):
            recordings.recording(
                tmp_path / side, number, command=command, **recordings.requests()
            )
    runs = window.open_path(tmp_path)
    qtbot.waitUntil(
        lambda: (
            runs.loader.state is LoadState.SEVERAL_RUNS and runs.session.tasks.is_idle
        ),
        timeout=PATIENCE_MS,
    )
    page = runs.runs_page
    table = page.table

    def place(row: int) -> QPoint:
        return table.visualRect(page.model.index(row, 0)).center()

    hand.click(table.viewport(), place(0))
    hand.click(table.viewport(), place(3), held="shift")
    assert len(page.selected()) == 4
    hand.click(page.compare_button)
    qtbot.waitUntil(lambda: window.findChild(SidesDialog) is not None)
    dialog = window.findChild(SidesDialog)
    assert dialog is not None
    qtbot.waitUntil(dialog.isActiveWindow, timeout=PATIENCE_MS)
    assert [box.currentData() for box in dialog.boxes] == ["A", "A", "B", "B"]
    hand.click(dialog.compare_button)

    def is_compared() -> bool:
        views = [
            view
            for document in window.documents[1:]
            for view in document.workspace.views("compare")
        ]
        return any(
            isinstance(view, CompareView)
            and view.result is not None
            and view.result.n_a == 2
            and len(view.result.alignment.runs) == 4
            for view in views
        )

    qtbot.waitUntil(is_compared, timeout=PATIENCE_MS)
    assert window.document is window.documents[1]
