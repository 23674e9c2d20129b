"""What the window imports ahead, a part in each turn of its event loop."""

import gc
import json
import linecache
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QTimer
from pytestqt.qtbot import QtBot

from ggscope.gui import imports
from ggscope.gui.imports import TAB, import_ahead, import_one, import_tab, next_part
from ggscope.gui.main_window import MainWindow
from ggscope.gui.memory import MainThreadCollector
from ggscope.readers.registry import BUILTIN as READERS
from ggscope.views.base.view import later
from ggscope.views.registry import BUILTIN as VIEWS
from reading import Reading

LIGHT = ("json.tool", "this_module_is_not_there", "colorsys")


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the light modules be what a tab needs, and none of them be there."""
    monkeypatch.setattr(imports, "TAB", LIGHT)
    for name in LIGHT:
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("forgotten")
def test_tab_is_imported_a_module_a_turn_on_the_main_thread(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[tuple[str, threading.Thread]] = []
    turns: list[int] = []
    owner = QObject()

    def one(name: str) -> bool:
        imported.append((name, threading.current_thread()))
        return import_one(name)

    def in_later_turn(whose: QObject, call: Callable[[], object], ms: int) -> None:
        turns.append(ms)
        later(whose, call, ms)

    monkeypatch.setattr(imports, "import_one", one)
    monkeypatch.setattr(imports, "later", in_later_turn)
    done: list[bool] = []
    import_tab(owner, lambda: done.append(True))
    begun = [name for name, _ in imported]
    qtbot.waitUntil(lambda: bool(done))
    gc.unfreeze()

    assert begun == ["json.tool"]
    assert imported == [(name, threading.main_thread()) for name in LIGHT]
    assert turns == [0, 0, 0]


@pytest.mark.usefixtures("forgotten")
def test_importing_ends_with_its_owner(qtbot: QtBot) -> None:
    owner = QObject()
    done: list[bool] = []
    import_tab(owner, lambda: done.append(True))
    owner.deleteLater()
    qtbot.wait(50)

    assert not done


def test_owner_that_only_the_call_refers_to_goes_with_it(qtbot: QtBot) -> None:
    """Its timer went twice, which ended the process after some."""
    done: list[int] = []
    alive: list[weakref.ref[QObject]] = []

    def call(number: int, _: QObject) -> None:
        done.append(number)

    for number in range(100):
        owner = QObject()
        alive.append(weakref.ref(owner))
        later(owner, partial(call, number, owner))
        del owner
        qtbot.waitUntil(lambda: done[-1:] == [number])  # noqa: B023
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    assert done == list(range(100))
    assert not any(ref() for ref in alive)


def test_panes_and_readers_are_imported_ahead(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [*TAB, *(entry.module for entry in VIEWS)]
    expected += [path.partition(":")[0] for path in READERS]
    was_there = frozenset(sys.modules)
    imported: list[str] = []

    class Empty(dict[str, object]):
        """Modules of which none is there."""

    class Sys:
        modules = Empty()

    monkeypatch.setattr(imports, "sys", Sys)
    monkeypatch.setattr(imports, "REST_MS", 0)
    monkeypatch.setattr(imports, "import_one", lambda name: imported.append(name))
    owner = QObject()
    import_ahead(owner, lambda: True)
    qtbot.waitUntil(lambda: imported[-1:] == expected[-1:])
    qtbot.wait(20)  # the list of plug-ins

    assert set(expected) <= set(imported)
    assert was_there <= set(sys.modules)


@pytest.mark.parametrize("had_tabs", [False, True])
def test_what_a_closed_tab_left_is_never_set_apart(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, *, had_tabs: bool
) -> None:
    frozen: list[bool] = []
    imported: list[bool] = []
    monkeypatch.setattr(imports.gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr(imports, "import_one", lambda _: None)

    def answer() -> bool:
        imported.append(True)
        return had_tabs

    owner = QObject()
    import_ahead(owner, answer)
    qtbot.waitUntil(lambda: bool(imported), timeout=20_000)

    assert bool(frozen) is not had_tabs


def test_window_remembers_that_it_had_a_tab(
    window: MainWindow, file: Path, reading: Reading
) -> None:
    assert not window.had_tabs
    window.close_document(window.open_path(file))

    assert window.n_documents == 0
    assert window.had_tabs


@pytest.mark.parametrize("module", [entry.module for entry in VIEWS])
def test_what_a_pane_imports_comes_in_parts_and_itself_at_last(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[str, object] = {}

    class Sys:
        modules = known

    monkeypatch.setattr(imports, "sys", Sys)
    imported = []
    while name := next_part(module):
        imported.append(name)
        known[name] = None

    assert imported[-1] == module
    assert len(set(imported)) == len(imported)
    assert all(import_one(name) for name in imported)


@pytest.mark.parametrize("name", [*TAB, "ggscope.session_loading"])
def test_what_is_imported_ahead_is_there(name: str) -> None:
    assert import_one(name)


def test_what_importing_made_is_no_part_of_what_garbage_is_sought_in() -> None:
    gc.unfreeze()  # what the tests themselves have set apart
    collector = MainThreadCollector()
    set_apart = gc.get_freeze_count()
    collector.stop()

    assert set_apart > 10_000
    assert not gc.get_freeze_count()


def test_source_of_an_imported_module_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "ggscope_reads_nothing": "from PySide6.QtCore import QTimer\n",
        "ggscope_imports_it": "import ggscope_reads_nothing\n",
        "ggscope_has_features": "from PySide6.QtCore import QTimer\n"
        "from __feature__ import snake_case\n"
        "timer = QTimer()\ntimer.set_interval(3)\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    linecache.clearcache()

    imports.spare_sources()

    assert import_one("ggscope_imports_it")
    assert not any(str(tmp_path) in name for name in linecache.cache)
    assert import_one("ggscope_has_features")
    assert QTimer().interval() == 0  # whose names are the usual ones here


_TURNS = """
import importlib, json, sys
from ggscope.gui.app import create_app
from ggscope.gui.imports import TAB, next_part
from ggscope.gui.main_window import MainWindow
from ggscope.views.registry import BUILTIN

def turn(name):
    before = set(sys.modules)
    importlib.import_module(name)
    new = [m for m in sys.modules if m not in before and m.startswith("ggscope.")]
    turns[name] = len(new)

turns = {}
for name in TAB:
    turn(name)
first = [entry for entry in BUILTIN if entry.id in sys.argv[1:]]
for entry in (*first, *BUILTIN):
    while name := next_part(entry.module):
        turn(name)
print(json.dumps(turns))
"""


@pytest.mark.parametrize("first", [("table", "details"), ("heatmap", "statistics")])
def test_no_turn_imports_many_modules(first: tuple[str, ...]) -> None:
    """Each takes about a millisecond, in which the window does not move."""
    command = (sys.executable, "-c", _TURNS, *first)
    result = subprocess.run(command, capture_output=True, text=True, check=True)

    turns = json.loads(result.stdout)

    assert {name: n for name, n in turns.items() if n > 12} == {}
