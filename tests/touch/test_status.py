"""The strips of the window, above and below the views: what they show is stated
whole."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QStyle, QStyleOptionFrame
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.session.tasks import TaskContext
from side_files import sound_buffer_lines
from support import ROOT
from tensor_files import encode, llama_trace
from touching import PATIENCE_MS, Hand

SAMPLES = ROOT / "resources" / "samples"


@pytest.mark.parametrize(
    "name", ["moe-experiment", "tinyllama-256.bin", "npu-prefill-decode.json"]
)
def test_range_is_whole_after_opening_and_after_zooming(
    qtbot: QtBot,
    window: MainWindow,
    opened: Callable[[Path], Document],
    hand: Hand,
    name: str,
) -> None:
    status = opened(SAMPLES / name).status
    assert status.range.full_text.startswith("range ")
    assert status.range.text() == status.range.full_text

    before = status.range.full_text
    hand.press("w", "w", "w")
    qtbot.waitUntil(lambda: status.range.full_text != before, timeout=PATIENCE_MS)
    assert status.range.text() == status.range.full_text
    assert not status.ops.isVisible() or "margin" in status.ops.accessibleName()
    width = (window.width(), window.height())
    hand.press("d", "d", "a")
    assert (window.width(), window.height()) == width


@pytest.mark.parametrize("name", ["moe-experiment", "npu-prefill-decode.json"])
def test_hint_of_the_search_is_whole(
    window: MainWindow, opened: Callable[[Path], Document], name: str
) -> None:
    edit = opened(SAMPLES / name).toolbar.search.edit
    option = QStyleOptionFrame()
    edit.initStyleOption(option)
    part = QStyle.SubElement.SE_LineEditContents
    width = edit.style().subElementRect(part, option, edit).width()
    hint = edit.placeholderText()
    assert hint.startswith("Search")
    assert edit.fontMetrics().horizontalAdvance(hint) + 4 <= width
    assert window.width() < 1600 or "Ctrl+F" in hint


@contextmanager
def working(document: Document, title: str) -> Iterator[None]:
    """Let a worker read until the block ends."""
    is_over = threading.Event()

    def read(context: TaskContext) -> None:
        context.progress(1 << 20, 1 << 30)
        is_over.wait()

    tasks = document.session.tasks
    tasks.run("slow", read, lambda _: None, title=title, unit="B")
    try:
        yield
    finally:
        is_over.set()


@pytest.mark.parametrize("name", ["moe-experiment", "npu-prefill-decode.json"])
def test_progress_is_reported_in_whole_words(
    window: MainWindow,
    opened: Callable[[Path], Document],
    hand: Hand,
    qtbot: QtBot,
    name: str,
) -> None:
    document = opened(SAMPLES / name)
    progress = document.status.progress
    with working(document, f"Reading {name}"):
        qtbot.waitUntil(progress.text.isVisible, timeout=PATIENCE_MS)
        hand.settle()
        shown = progress.text.text()
        expected = progress.text.fontMetrics().horizontalAdvance(shown)
        assert expected <= progress.text.width()
        assert "…" not in shown
        assert shown.endswith(" left")
        assert set(shown.split(" · ")) <= set(progress.text.full_text.split(" · "))
        assert progress.bar.width() >= 32
        assert window.width() < 1600 or name in shown


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
def test_chips_are_whole_beside_related_files(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot, tmp_path: Path
) -> None:
    records = [
        replace(record, time=record.time * 1000) for record in llama_trace(n_passes=8)
    ]
    path = tmp_path / "recorded_by_the_tracer.bin"
    path.write_bytes(encode(records, "256")[:-77])
    (tmp_path / "buffer_stats.jsonl").write_text(sound_buffer_lines())
    status = opened(path).status
    qtbot.waitUntil(status.related.isVisible, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: bool(status.memory.full_text), timeout=PATIENCE_MS)
    hand.settle()

    chips = (status.ops, status.problems, status.related, status.renderer)
    for chip in chips:
        assert not chip.isVisible() or chip.width() >= chip.sizeHint().width()
    assert status.ops.isVisible()
    assert status.problems.isVisible()
    memory = status.memory
    assert not memory.isVisible() or memory.text() == memory.full_text
    assert status.range.text() == status.range.full_text
