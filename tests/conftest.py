"""What holds for every test: nothing left behind, nobody's settings touched."""

import gc
import os
import tempfile
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from ggscope.live import open_source
from support import may_use_corpus

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

_LEAVE_SECONDS = 10.0
# No window of a test takes files of another test, or of the person who runs them.
os.environ["GGSCOPE_INSTANCE"] = "off"

_USER_FOLDERS = (
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "GGSCOPE_RINGS",
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Draw into memory, except where tests of the display itself are asked for."""
    if not _wants_display(config):
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what cannot see the corpus where only the rest is asked for."""
    is_wanted = os.environ.get("ONLY") != "corpus" or collection_path.is_dir()
    return None if is_wanted or may_use_corpus(collection_path) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what collecting makes, the tests themselves, out of collections of garbage.

    These are 400,000 objects, which stay until the end; looking through them took
    a tenth of the time of all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _wants_display(config: pytest.Config) -> bool:
    """Return whether only tests of the display itself are to run."""
    if not os.environ.get("DISPLAY"):
        return False
    if config.getoption("markexpr", "") == "gl":
        return True
    # A window system must be chosen for the whole process, before the first test.
    return bool(config.args) and all(
        {"gl", "touch"} & set(Path(a).parts) for a in config.args
    )


@pytest.fixture(scope="session", autouse=True)
def _application(qapp: object) -> None:
    """Make the application of the widgets before anything else can make a lesser one.

    A process has one for good: where the first test that runs draws a figure as the
    command line does, it would be one without widgets, and every window fails.
    """


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Point settings, plug-ins, caches and rings of the user at folders of the tests.

    A window that follows whatever comes must not meet what the person records.
    """
    before = {name: os.environ.get(name) for name in _USER_FOLDERS}
    for name in _USER_FOLDERS:
        os.environ[name] = str(tmp_path_factory.mktemp(name.lower()))
    usual, open_source.SHARED_MEMORY = (
        open_source.SHARED_MEMORY,
        Path(os.environ["GGSCOPE_RINGS"]),
    )
    yield
    open_source.SHARED_MEMORY = usual
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def _scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Put temporary files into a folder that only this run uses."""
    folder = tmp_path_factory.mktemp("scratch")
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    yield folder
    tempfile.tempdir = before


_tests_run = 0


@pytest.fixture(autouse=True)
def _collect_on_the_main_thread() -> Iterator[None]:
    """Keep the collector off the workers, as the program does; see gui.garbage.

    A widget that is collected on a worker's thread takes the process with it. What
    outlives a collection of everything, the trees of all sources among it, is left out
    of the next: it took 3 s.
    """
    global _tests_run
    gc.disable()
    yield
    _tests_run += 1
    if _tests_run % 25:
        gc.collect(1)
    else:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def _no_key_is_held() -> None:
    """Let go of Shift and the like where a test before ended with one of them.

    Qt keeps the modifiers of the last event: a row that a program selects would
    be added or nothing be selected, as if a person held the key.
    """
    if QApplication.keyboardModifiers() != Qt.KeyboardModifier.NoModifier:
        QTest.keyClick(QWidget(), Qt.Key.Key_F35)
    assert QApplication.keyboardModifiers() == Qt.KeyboardModifier.NoModifier


@pytest.fixture(autouse=True)
def _nothing_left_behind(_scratch: Path) -> Iterator[None]:
    """Fail a test that leaves a thread or a temporary file behind."""
    threads = set(threading.enumerate())
    files = set(os.listdir(_scratch))
    yield
    left = [t for t in threading.enumerate() if t not in threads and not t.daemon]
    for thread in left:
        thread.join(_LEAVE_SECONDS)
    alive = [t.name for t in left if t.is_alive()]
    assert not alive, f"threads left behind: {alive}"
    extra = sorted(set(os.listdir(_scratch)) - files)
    assert not extra, f"temporary files left behind: {extra}"
