"""The pane of details in a narrow window: nothing is cut at its side."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QScrollArea
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.views.details.view import DetailsView
from tensor_files import encode, llama_trace
from touching import Hand


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
def test_content_is_as_wide_as_the_pane_for_an_op_of_several_threads(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot, tmp_path: Path
) -> None:
    records = llama_trace(n_passes=150)
    shared = [
        replace(record, thread=100 + k, time=record.time + k)
        for k in range(2)
        for record in records
    ]
    path = tmp_path / "threads.bin"
    path.write_bytes(encode(shared, "256"))
    document = opened(path)
    document.session.selection.select_span(20)
    document.workspace.set_details_shown(True)
    (details,) = document.workspace.views("details")
    assert isinstance(details, DetailsView)
    times = details.histogram
    qtbot.waitUntil(lambda: times.isVisible() and document.session.tasks.is_idle)
    hand.settle()

    (area,) = details.findChildren(QScrollArea)
    assert area.widget().width() <= area.viewport().width()
