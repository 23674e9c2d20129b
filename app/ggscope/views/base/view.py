"""What every view is, and what keeps its exceptions from reaching Qt.

On Python 3.11, PySide 6.8 to 6.11 end the process with a segmentation fault where
an exception made by C code (``[][0]``, ``1 / 0``, most errors of numpy) leaves an
override of a Qt method: PySide reads its arguments before the interpreter has made
the exception object. On every Python an exception that passes through Qt also
leaves open painters behind. So no exception may pass that border.
"""

import functools
import sys
import traceback
from collections.abc import Callable
from inspect import isfunction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from PySide6.QtCore import QObject, QSize, QTimer, Signal, Slot
from PySide6.QtWidgets import QWidget

from ggscope.session.scheduler import FrameClient

if TYPE_CHECKING:
    from ggscope.render.export import Figure
    from ggscope.render.theme import Theme
    from ggscope.session.session import Session
    from ggscope.session.settings import Drawing, Settings

_Class = TypeVar("_Class", bound=type)

_MARK = "_ggscope_is_guarded"
_EMPTY: dict[object, Callable[[], object]] = {bool: bool, int: int, QSize: QSize}
"""What an override returns to Qt in place of the value it could not make."""
Connection = tuple[Any, Callable[..., object]]
"""A signal, and the slot connected to it."""


def later(owner: QObject, call: Callable[[], object], ms: int = 0) -> None:
    """Call once in a later turn, or never where `owner` is gone by then.

    In the place of ``QTimer.singleShot``: where its receiver goes before the shot,
    PySide 6.8 to 6.11 keep the method, and with it all that the receiver refers to.
    """
    timer = QTimer(owner, singleShot=True, interval=ms)

    def end() -> None:
        # `call` goes with the timer. Where nothing else refers to `owner`, that goes
        # too, and would end the process with a timer that is half gone.
        timer.setParent(None)
        timer.deleteLater()

    timer.timeout.connect(call)
    timer.timeout.connect(end)
    timer.start()


def guarded(cls: _Class) -> _Class:
    """Return `cls` with all its overrides of Qt methods made safe, in place.

    What one raises goes to ``sys.excepthook`` at once; Qt gets an empty value of
    the annotated return type. For every class that inherits from Qt; a `View`'s
    subclasses are guarded without asking.
    """
    for name in overrides(cls):
        method = vars(cls)[name]
        if not getattr(method, _MARK, False):
            setattr(cls, name, _safe(method))
    return cls


def overrides(cls: type) -> tuple[str, ...]:
    """Return the names of methods that `cls` itself puts in place of Qt's."""
    qt = [base for base in cls.__mro__[1:] if base.__module__.startswith("PySide6.")]
    return tuple(
        name
        for name, value in vars(cls).items()
        if isfunction(value)
        and not name.startswith("__")
        and any(name in vars(base) for base in qt)
    )


def is_guarded(method: object) -> bool:
    """Return whether exceptions of `method` are kept from Qt."""
    return bool(getattr(method, _MARK, False))


def _safe(method: Callable[..., Any]) -> Callable[..., Any]:
    empty = _EMPTY.get(method.__annotations__.get("return"), _nothing)

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except BaseException as error:  # noqa: BLE001 - border to C++
            _report(error)
            return empty()

    setattr(call, _MARK, True)
    return call


def _report(error: BaseException) -> None:
    """Hand `error` to the hook, then let go of all that its frames hold.

    A painter that lives on in a frame is active when Qt ends the picture, and
    crashes the program when the collector finds it later.
    """
    sys.excepthook(type(error), error, error.__traceback__)
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link.__traceback__ = None
        link = link.__context__


def _nothing() -> None:
    return None


class Themed(Protocol):
    """A part of a view with colours of its own."""

    def set_theme(self, theme: "Theme") -> None:
        """Use the colours of `theme`."""


class ThrottledSlot(QObject):
    """A slot that is called less often while a program runs."""

    def __init__(self, view: "View", slot: Callable[..., object]) -> None:
        super().__init__(view)
        self.slot = slot
        self.payload: object = None
        self.is_waiting = False

    @Slot(object)
    def on_signal(self, payload: object = None) -> None:
        """Store the payload until the view flushes what is pending."""
        view = self.parent()
        assert isinstance(view, View)
        self.payload, self.is_waiting = payload, True
        view.mark_dirty()


class View(QWidget):
    """A window onto one session, from its making until `release`.

    It connects itself to the session (`connect_until_release`); nobody else does. What
    its overrides of Qt methods raise ends in the error panel of its pane, never in Qt.

    Attributes
    ----------
    session : what is shown; there may be no trace in it.
    theme : the colours in use.
    is_released : whether its signals are disconnected, and it asks for nothing.
    updates_live : whether it is updated with each snapshot of a running program, thirty
        times a second. Other views are updated four times a second, with very many
        spans every ten seconds: what they compute of all spans takes longer the more
        there are. User actions reach all views at once.
    """

    updates_live = False

    first_painted = Signal()  # the first picture of a trace is out
    renderer_changed = Signal(str)
    renderer_failed = Signal(str)
    figure_requested = Signal(object)  # Figure, for which the window asks for a file
    table_requested = Signal(object)  # TableFile, for which it does so as well
    file_requested = Signal(object)  # OutputFile, likewise

    def __init_subclass__(cls, **named: object) -> None:
        super().__init_subclass__(**named)
        guarded(cls)

    def __init__(
        self, session: "Session", theme: "Theme", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.session = session
        self.theme = theme
        self._connections: list[Connection] = []
        self._throttled: list[ThrottledSlot] = []
        self._themed: tuple[Themed, ...] = ()
        self._updates = FrameClient(
            session.frames, self._flush, is_ready=self.isVisible
        )
        self.is_released = False

    def connect_until_release(
        self, *pairs: Connection, is_throttled: bool = True
    ) -> None:
        """Connect signals to slots until `release`.

        Parameters
        ----------
        is_throttled : whether the slots are called less often while a program runs.
            Not for signals that neither the trace nor the user causes, such as the
            progress of a job: they would flush all that is pending.
        """
        for signal, slot in pairs:
            if is_throttled and not self.updates_live:
                throttled = ThrottledSlot(self, slot)
                self._throttled.append(throttled)
                slot = throttled.on_signal
            signal.connect(slot)
            self._connections.append((signal, slot))

    def mark_dirty(self) -> None:
        """Call the pending slots: soon while a program runs, else now."""
        self._updates.mark_dirty()

    def _flush(self) -> None:
        """Call the pending slots, in the order in which they were connected.

        So the view knows the trace that a filter is of.
        """
        for throttled in self._throttled:
            if throttled.is_waiting:
                throttled.is_waiting = False
                throttled.slot(throttled.payload)

    def release(self) -> None:
        """Disconnect from the session, which may outlive the view."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._updates.cancel()
        for throttled in self._throttled:
            throttled.deleteLater()
        self._throttled.clear()
        self._connections.clear()
        self.is_released = True

    def theme_with(self, *parts: Themed) -> None:
        """Colour parts of the view as it is coloured, now and in each theme to come."""
        self._themed += parts
        for part in parts:
            part.set_theme(self.theme)

    def set_theme(self, theme: "Theme") -> None:
        """Use the colours of `theme`."""
        self.theme = theme
        for part in self._themed:
            part.set_theme(theme)

    def set_zoom(self, zoom: float) -> None:
        """Draw what is painted by hand `zoom` times as large: the font scale."""

    def use_settings(self, settings: "Settings") -> None:
        """Read from and write to these settings, where the view has any."""

    def set_drawing(self, drawing: "Drawing") -> None:
        """Draw with what the settings ask for, where the view has a choice."""

    def set_calm(self, is_calm: bool) -> None:
        """Let nothing move by itself, or as it likes: "Reduce motion"."""

    def renderer_text(self) -> str:
        """Return what draws, for the status bar; "" where there is no choice."""
        return ""

    def toggle_detailed(self) -> None:
        """Change between compact and detailed rows, where the view has rows."""

    def figure(self) -> "Figure | None":
        """Return the picture as it stands, on its way to a file; None without one."""
        return None

    def head_widget(self) -> QWidget | None:
        """Return what stands in the head of the view's pane, owned by the view."""
        return None
