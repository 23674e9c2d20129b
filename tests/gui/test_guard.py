"""What views and widgets raise stays on the Python side of the border to Qt."""

import gc
import importlib
import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
import weakref
from collections.abc import Iterator
from functools import partial

import pytest
import shiboken6
from _pytest.mark.structures import ParameterSet
from PySide6.QtCore import QEvent, QObject, QSize
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

import ggscope.gui
import ggscope.render
import ggscope.session
import ggscope.views
from ggscope.gui.pages.start import samples
from ggscope.views.base.view import View, guarded, is_guarded, later, overrides

PROGRAM = """
import faulthandler, sys, time
from pathlib import Path
from ggscope.gui import app as app_module
from ggscope.session.loader import LoadState
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
import ggscope.render.gl.painter
from ggscope.views.overview import OverviewView
from ggscope.views.timeline.view import TimelineView
from ggscope.views.table import grid as table_grid
import ggscope.views.base.text_table, ggscope.views.details.access_cards
faulthandler.enable()
out = sys.stdout
what, renderer, path = sys.argv[1:]
app = app_module.create_app()
settings = Settings(MemoryStore())
settings.change("drawing", renderer=renderer)
window = app_module.create_window(settings, "dark")
app_module.install_exception_hook(window)
window.resize(1400, 900)
window.show()
document = window.open_path(Path(path))
until = time.monotonic() + 30
def turn(is_done):
    while not is_done() and time.monotonic() < until:
        app.processEvents()
turn(lambda: document.loader.state is LoadState.READY)
workspace = document.workspace
turn(lambda: workspace.filler.is_done)
def by_c(*arguments, **named):
    return [][0]  # made by C code: no object yet while it leaves the override
faults = {
    "timeline": (TimelineView, "draw_scene", workspace.cells[0]),
    "overview": (OverviewView, "draw_scene", workspace.overview),
    "table": (table_grid.VirtualTable, "visible_rows", workspace.cells[1]),
    "driver": (ggscope.render.gl.painter.GlPainter, "paint", workspace.cells[0]),
}
owner, name, host = faults[what]
good = getattr(owner, name)
setattr(owner, name, by_c)
window.repaint()
window.grab()
for widget in host.findChildren(ggscope.views.base.view.View)[0].children():
    if hasattr(widget, "repaint"):
        widget.repaint()
if what == "driver":
    turn(lambda: host.view.renderer_text() == "raster")
    print(bool(window.messages.toasts), host.error_panel, host.view.renderer_text(), file=out)
    window.close()
    sys.exit()
turn(lambda: host.error_panel is not None)
window.resize(900, 600)
app.processEvents()
report = host.error_panel.report
setattr(owner, name, good)
host.error_panel.retry_button.click()
app.processEvents()
print(host.error_panel, host.view is not None, "list index" in report, file=out)
window.close()
"""  # noqa: E501


def programs() -> list[ParameterSet]:
    """Return the displays that this machine has."""
    programs = [pytest.param("offscreen", [], id="offscreen")]
    if os.environ.get("DISPLAY"):
        programs.append(pytest.param("xcb", [], id="display"))
    elif shutil.which("xvfb-run"):
        runner = ["xvfb-run", "-a", "-s", "-screen 0 1600x1000x24"]
        programs.append(pytest.param("xcb", runner, id="xvfb"))
    return programs


def guarded_classes() -> Iterator[type]:
    """Yield every class of the window's packages that overrides a Qt method."""
    for package in (ggscope.views, ggscope.gui, ggscope.session, ggscope.render):
        for item in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            module = importlib.import_module(item.name)
            for member in vars(module).values():
                if inspect.isclass(member) and member.__module__ == module.__name__:
                    yield member


@pytest.mark.parametrize("what", ["timeline", "overview", "table"])
@pytest.mark.parametrize(("platform", "runner"), programs())
def test_view_that_cannot_paint_is_replaced_and_retried(
    what: str, platform: str, runner: list[str]
) -> None:
    renderer = "opengl" if platform == "xcb" and what == "timeline" else "raster"

    done = run_program(what, renderer, platform, runner)

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["None", "True", "True"], done.stderr[-3000:]


def test_driver_that_fails_while_painting_gives_way_to_raster() -> None:
    displays = [p.values for p in programs() if p.values[0] == "xcb"]
    if not displays:
        pytest.skip("OpenGL needs an X display or xvfb-run")

    done = run_program("driver", "opengl", *displays[0])

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["True", "None", "raster"], done.stderr[-3000:]


def run_program(
    what: str, renderer: str, platform: str, runner: list[str]
) -> subprocess.CompletedProcess[str]:
    """Open a sample in a process of its own, where part `what` cannot paint."""
    if not samples():
        pytest.skip("the samples have not been made")
    environment = os.environ | {
        "QT_QPA_PLATFORM": platform,
        "LIBGL_ALWAYS_SOFTWARE": "1",
    }

    return subprocess.run(
        [*runner, sys.executable, "-c", PROGRAM, what, renderer, str(samples()[0])],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env=environment,
    )


def test_every_override_of_qt_is_guarded() -> None:
    bare = [
        f"{cls.__module__}.{cls.__name__}.{name}"
        for cls in guarded_classes()
        for name in overrides(cls)
        if not is_guarded(vars(cls)[name])
    ]

    assert not bare


def test_third_party_view_is_guarded_without_asking() -> None:
    class Mine(View):
        def leaveEvent(self, event: QEvent) -> None:
            raise ValueError

    assert overrides(Mine) == ("leaveEvent",)
    assert is_guarded(Mine.leaveEvent)


def test_guarded_override_reports_and_returns_an_empty_value(qtbot: QtBot) -> None:
    @guarded
    class Broken(QWidget):
        def sizeHint(self) -> QSize:
            return [][0]

        def event(self, event: QEvent) -> bool:
            return super().event(event) if event else 1 / 0

        def helper(self) -> None:
            raise KeyError

    widget = Broken()
    qtbot.addWidget(widget)

    with qtbot.captureExceptions() as caught:
        size = widget.sizeHint()
        result = widget.event(None)

    assert [kind for kind, _, _ in caught] == [IndexError, ZeroDivisionError]
    assert not size.isValid()
    assert result is False
    with pytest.raises(KeyError):
        widget.helper()


class Caller(QObject):
    """Notes that it was called."""

    def __init__(self, items: list[str]) -> None:
        super().__init__()
        self.items = items

    def say(self, what: str = "said") -> None:
        self.items.append(what)


@pytest.mark.parametrize("is_bound", [True, False])
def test_later_calls_once_and_keeps_nothing(qtbot: QtBot, is_bound: bool) -> None:
    messages: list[str] = []
    caller = Caller(messages)

    later(caller, caller.say if is_bound else partial(caller.say, "said"))
    assert messages == []
    qtbot.wait(30)

    assert messages == ["said"]
    assert caller.children() == []


@pytest.mark.parametrize("is_bound", [True, False])
def test_later_lets_go_of_an_owner_that_went_first(
    qtbot: QtBot, is_bound: bool
) -> None:
    messages: list[str] = []
    caller = Caller(messages)
    watched = weakref.ref(caller)

    later(caller, caller.say if is_bound else partial(caller.say, "said"), 10)
    shiboken6.delete(caller)
    del caller
    qtbot.wait(50)
    gc.collect()

    assert messages == []
    assert watched() is None
