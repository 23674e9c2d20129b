"""Files that break, change or vanish: a designed page or a trace, never a fault."""

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ggscope.errors import ReadError
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.session.loader import LoadState, read_error
from hostile import big_files, hostile_files
from reading import workers

BIG_BYTES = 50_000_000
READERS = ("tensor-access", "ggmlviz", "npu-json")
OPENS = {
    "header-only.ggmlviz", "truncated.ggmlviz", "truncated.bin", "future.ggmlviz",
    "endless-label.ggmlviz", "noise-after-header.ggmlviz", "no-events.json",
    "zeros.bin", "sparse.bin", "preallocated.bin", "truncated.json",
}  # fmt: skip
"""Files of which something can be shown, if only why there is nothing."""
MAY_OPEN = {"sparse.ggmlviz"}

Opened = Callable[[Path], Document]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def broken(folder: Path) -> dict[str, Path]:
    return hostile_files(folder)


@pytest.fixture(scope="module")
def big(folder: Path) -> dict[str, Path]:
    return big_files(folder, BIG_BYTES)


@pytest.mark.parametrize("name", sorted(OPENS))
def test_file_with_something_in_it_opens(
    opened: Opened, broken: dict[str, Path], name: str
) -> None:
    document = opened(broken[name])

    assert document.loader.state is LoadState.READY
    assert document.session.trace is not None
    assert not document.session.trace.check()


def test_files_with_nothing_readable_get_a_page_that_says_what_to_do(
    window: MainWindow, opened: Opened, broken: dict[str, Path]
) -> None:
    for name in sorted(broken.keys() - OPENS - MAY_OPEN):
        document = opened(broken[name])
        page = document.problem_page

        assert document.loader.state is LoadState.FAILED, name
        assert isinstance(read_error(document.loader.failure), ReadError), name
        assert page.isVisible(), name
        assert name in page.head.text()
        assert page.message.text(), name
        assert name in page.where.full_text
        texts = page.head.text() + page.message.text() + page.hint.text()
        assert "Traceback" not in texts
        assert "--" not in texts, f"{name} speaks of the command line: {texts}"
        window.close_document(document)


def test_unreadable_file_gets_a_page(
    opened: Opened, broken: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    # Permissions do not stop a test that runs as root.
    monkeypatch.setattr(os, "open", refuse)

    page = opened(broken["truncated.bin"]).problem_page

    assert "Permission denied" in page.message.text()
    assert "permissions" in page.hint.text()


class Meddler:
    """Changes a file again and again on a thread of its own, until left."""

    def __init__(self, change: Callable[[], object]) -> None:
        self._change = change
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Meddler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._change()
            self._stop.wait(0.001)


@pytest.mark.parametrize("reader_id", READERS)
@pytest.mark.parametrize("change", ["shrinks", "grows", "is_rewritten", "vanishes"])
def test_file_that_changes_while_it_is_read_gives_a_trace_or_a_page(
    window: MainWindow,
    qtbot: QtBot,
    big: dict[str, Path],
    tmp_path: Path,
    reader_id: str,
    change: str,
) -> None:
    path = tmp_path / big[reader_id].name
    path.write_bytes(big[reader_id].read_bytes()[:12_000_000])
    dice = random.Random(1)
    changes: dict[str, Callable[[], object]] = {
        "shrinks": lambda: os.truncate(path, int(path.stat().st_size * 0.9)),
        "grows": lambda: _append(path, dice.randbytes(4000)),
        "is_rewritten": lambda: _overwrite(path, dice),
        "vanishes": lambda: path.unlink(missing_ok=True),
    }
    document = window.open_path(path)

    with Meddler(changes[change]):
        _wait_until_read(qtbot, document)

    if document.loader.state is LoadState.READY:
        assert document.session.trace is not None
        assert not document.session.trace.check()
    else:
        failure = document.loader.failure
        assert isinstance(read_error(failure), ReadError), failure
        assert " failed: " not in document.problem_page.message.text()


@pytest.mark.parametrize("reader_id", READERS)
def test_cancelling_at_any_moment_leaves_no_thread_and_no_open_file(
    window: MainWindow, qtbot: QtBot, big: dict[str, Path], reader_id: str
) -> None:
    path = big[reader_id]
    dice = random.Random(7)

    for turn in range(6):
        document = window.open_path(path)
        qtbot.wait(dice.randrange(1, 400))
        if turn % 2:
            window.close_document(document)
            qtbot.waitUntil(lambda: not workers())
        else:
            document.loader.cancel()
            _wait_until_read(qtbot, document)
            window.close_document(document)

    qtbot.waitUntil(lambda: not workers())
    assert str(path) not in {file.path for file in psutil.Process().open_files()}


def _wait_until_read(qtbot: QtBot, document: Document) -> None:
    reading = (LoadState.LOADING, LoadState.IDLE)
    qtbot.waitUntil(lambda: document.loader.state not in reading, timeout=60_000)


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _overwrite(path: Path, dice: random.Random) -> None:
    with path.open("r+b") as file:
        file.seek(dice.randrange(path.stat().st_size))
        file.write(dice.randbytes(64))


def test_cut_json_opens_with_what_stands_before_the_fault(
    qtbot: QtBot, opened: Opened, broken: dict[str, Path]
) -> None:
    document = opened(broken["truncated.json"])
    assert document.session.trace is not None
    (problem,) = document.session.trace.warnings
    assert (problem.code, problem.severity.name) == ("truncated_json", "DATA_LOSS")
    count = len(document.session.trace.spans)
    assert count > 100

    document.loader.reload({"strict": "true"})
    _wait_until_read(qtbot, document)
    assert document.loader.state is LoadState.FAILED
    QTest.mouseClick(document.problem_page.salvage_button, Qt.MouseButton.LeftButton)
    _wait_until_read(qtbot, document)

    assert len(document.session.trace.spans) == count
    assert document.workspace.isVisible()
