"""What every view is.

Keeps what an override of Qt raises from reaching Qt.

On Python 3.11, PySide 6.8 to 6.11 end the process with a segmentation fault where
an exception made by C code (``[][0]``, ``1 / 0``, most errors of numpy) leaves an
override of a Qt method: PySide reads its arguments before the interpreter has made
the exception object. On every Python an exception that passes through Qt also
leaves open painters behind. So no exception may pass that border.

Which views there are. A view's module is imported when it is first shown.
"""

import functools
import importlib
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from inspect import isfunction
from typing import Any, Literal, TypeVar

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QWidget

from ggscope.model.trace import Trace
from ggscope.render.theme import Theme
from ggscope.session.session import Session

logger = logging.getLogger(__name__)


_Class = TypeVar("_Class", bound=type)

_MARK = "_ggscope_is_guarded"
_EMPTY: dict[object, Callable[[], object]] = {bool: bool, int: int, QSize: QSize}
"""What an override returns to Qt in place of the value it could not make."""


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
    """Tell whether exceptions of `method` are kept from Qt."""
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


Area = Literal["centre", "right", "bottom"]


class View(QWidget):
    """A window onto one session.

    A view connects to the session in `attach` and disconnects in `detach`;
    nobody else connects on its behalf. It keeps working without a session and
    shows an empty state then. What its overrides of Qt methods raise ends in the
    error panel of its pane, never in Qt.
    """

    def __init_subclass__(cls, **named: object) -> None:
        super().__init_subclass__(**named)
        guarded(cls)

    def attach(self, session: Session) -> None:
        """Show `session` from now on."""
        raise NotImplementedError

    def detach(self) -> None:
        """Stop showing it."""
        raise NotImplementedError

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme` for what the style sheet does not reach."""

    def set_zoom(self, zoom: float) -> None:
        """Draw what is painted by hand `zoom` times as large: the font scale."""

    def head_widget(self) -> QWidget | None:
        """Return what stands in the head of the view's pane, owned by the view."""
        return None


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A kind of view.

    Attributes
    ----------
    id : stable name, kept in layouts.
    title : what tabs and menus say.
    area : where it lives by default.
    factory : makes one.
    """

    id: str
    title: str
    area: Area
    factory: Callable[[], View]


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view as menus know it, before its module is imported.

    Attributes
    ----------
    id, title, area : as in `ViewSpec`.
    target : ``module:name`` of the `ViewSpec`.
    height : that its picture or list needs to be read, device-independent pixels at
        100 %; 0 = it makes do with what the drawer has.
    has_data : tells whether a trace has anything for it to show.
    """

    id: str
    title: str
    area: Area
    target: str
    height: int = 0
    has_data: Callable[[Trace], bool] = lambda _: True

    def load(self) -> ViewSpec:
        """Import the module and return its spec.

        Raises whatever the import raises; the caller shows it in the view's place.
        """
        module, _, name = self.target.partition(":")
        spec = getattr(importlib.import_module(module), name)
        if not isinstance(spec, ViewSpec):
            raise TypeError(f"{self.target} is no ViewSpec")
        return spec


def _has_accesses(trace: Trace) -> bool:
    return len(trace.accesses.patterns) > 0


def _has_file_places(trace: Trace) -> bool:
    return _has_accesses(trace) or bool(trace.models)


def _has_graphs(trace: Trace) -> bool:
    return bool(trace.graphs)


def _has_experts(trace: Trace) -> bool:
    return bool(len(trace.routing)) or bool((trace.tensors.expert >= 0).any())


def _has_buffers(trace: Trace) -> bool:
    return bool(len(trace.buffers))


BUILTIN: tuple[ViewEntry, ...] = (
    ViewEntry("overview", "Overview", "centre", "ggscope.views.overview:SPEC"),
    ViewEntry("timeline", "Timeline", "centre", "ggscope.views.timeline.view:SPEC"),
    ViewEntry("table", "Trace table", "centre", "ggscope.views.table.view:SPEC"),
    ViewEntry("details", "Details", "right", "ggscope.views.details.view:SPEC"),
    ViewEntry(
        "statistics",
        "Selection statistics",
        "bottom",
        "ggscope.views.statistics.view:SPEC",
    ),
    ViewEntry(
        "heatmap",
        "File heatmap",
        "centre",
        "ggscope.views.heatmap.view:SPEC",
        has_data=_has_file_places,
    ),
    ViewEntry(
        "graph",
        "Graph",
        "centre",
        "ggscope.views.graph.view:SPEC",
        has_data=_has_graphs,
    ),
    ViewEntry(
        "hot_cold",
        "Hot and cold",
        "bottom",
        "ggscope.views.hot_cold:SPEC",
        height=360,
        has_data=_has_accesses,
    ),
    ViewEntry(
        "cache",
        "What-if cache",
        "bottom",
        "ggscope.views.cache:SPEC",
        height=380,
        has_data=_has_accesses,
    ),
    ViewEntry(
        "experts",
        "Experts",
        "bottom",
        "ggscope.views.experts.view:SPEC",
        height=380,
        has_data=_has_experts,
    ),
    ViewEntry(
        "buffers",
        "Buffers",
        "bottom",
        "ggscope.views.buffers.view:SPEC",
        height=380,
        has_data=_has_buffers,
    ),
    ViewEntry("bookmarks", "Bookmarks", "bottom", "ggscope.views.bookmarks:SPEC"),
    ViewEntry("problems", "Problems", "bottom", "ggscope.views.problems:SPEC"),
)


def entry(view_id: str) -> ViewEntry:
    """Return the entry of a view. Raises KeyError for an unknown one."""
    for known in BUILTIN:
        if known.id == view_id:
            return known
    raise KeyError(view_id)


def cell_views() -> tuple[ViewEntry, ...]:
    """Return the views that a cell of the centre can show, in menu order.

    The overview strip has a place of its own.
    """
    return tuple(known for known in BUILTIN if known.id != "overview")
