"""What the colours of the timeline mean: a line of words that also isolate."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontInfo, QIcon, QPainter, QPixmap, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHeaderView,
    QSizePolicy,
    QToolButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.rows.categories import (
    MAX_TOKENS,
    NONE,
    Categories,
)
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.isolation import Values, isolating
from ggscope.analysis.rows.lanes import FEW_LANES
from ggscope.analysis.workers import chunks, count_values
from ggscope.model.selection import ColorBy, Filter
from ggscope.model.tables import NO_WAIT
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_duration, format_share
from ggscope.render.colors import category_color
from ggscope.render.theme import Theme
from ggscope.render.timeline.waits import wait_color
from ggscope.sanitize import caption, one_line
from ggscope.session.scheduler import FrameClient
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.safe_text import set_column_tip, set_tip
from ggscope.views.base.view import guarded

SYNC_SPANS = 50_000
_AT_ONCE = 1 << 17
"""Spans that are counted while nothing else of Python runs: about a millisecond."""
MAX_BUTTONS = 24
"""More words than this are never shown side by side, however wide the pane."""
_SWATCH_PX = 10
_GAP_PX = 2
_DESIGN_PX = 12
_MAX_LETTERS, _HEAD_LETTERS = 22, 6
"""Of a word, and of its begin where its end distinguishes it from others."""
_KEY = "legend"

WAITS = "waits"
"""Key of the entry that stands for no category but for the waits behind ops."""


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A category that occurs.

    Attributes
    ----------
    key, label : as in `Categories`.
    n_spans : how many spans have it.
    ticks : sum of their durations.
    share : `ticks` of those of all named categories, 0..1; None for "none".
    part, values : the field of the filter that isolates it and what it must
        hold; "" where no filter can.
    """

    key: str
    label: str
    n_spans: int
    ticks: int
    share: float | None
    part: str = ""
    values: Values = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class LegendRequest:
    """Counts the spans of every category, on a worker where there are many."""

    index: TraceIndex
    by: ColorBy
    has_waits: bool = True

    def __call__(self, context: TaskContext | None = None) -> tuple[LegendEntry, ...]:
        """Return the categories in legend order; Cancelled passes through.

        None where no span has one: "no op" alone explains nothing.
        """
        categories, spans = self.index.categories(self.by), self.index.trace.spans
        n = len(categories.keys)
        counts, ticks = np.zeros(n, np.int64), np.zeros(n)
        for rows in chunks(len(spans), _AT_ONCE):
            if context is not None:
                context.check_cancelled()
            of_row = categories.index[rows]
            counts += np.bincount(of_row, minlength=n)
            ticks += np.bincount(of_row, spans.end[rows] - spans.start[rows], n)
        named = np.array([key != NONE for key in categories.keys])
        total = float(ticks[named].sum())
        n_lanes = np.count_nonzero(
            count_values(spans.lane, len(self.index.trace.lanes))
        )
        waits = [_waits(self.index.trace)] if self.has_waits else []
        entries = [
            _entry(
                self.index.trace,
                categories,
                i,
                counts,
                ticks,
                total,
                is_shared=bool(n_lanes > MAX_TOKENS),
            )
            for i in np.flatnonzero(counts).tolist()
            if counts[named].any()
        ]
        return (*entries, *(entry for entry in waits if entry.n_spans))


def _waits(trace: Trace) -> LegendEntry:
    """Return the entry of waits: how many ops were followed by one, and how long."""
    n = ticks = 0
    wait = trace.spans.wait
    for rows in chunks(0 if wait is None else len(trace.spans), _AT_ONCE):
        assert wait is not None
        part = wait[rows]
        part = part[(part > 0) & (part != NO_WAIT)]
        n += len(part)
        ticks += int(part.astype(np.int64).sum())
    return LegendEntry(WAITS, "waiting", n, ticks, None)


def _entry(
    trace: Trace,
    categories: Categories,
    i: int,
    counts: np.ndarray,
    ticks: np.ndarray,
    total: float,
    *,
    is_shared: bool,
) -> LegendEntry:
    key = categories.keys[i]
    part, values = isolating(trace, categories.by, key, is_shared=is_shared)
    share = None if key == NONE or total <= 0 else float(ticks[i]) / total
    return LegendEntry(
        key, categories.labels[i], int(counts[i]), int(ticks[i]), share, part, values
    )


@guarded
class Legend(QWidget):
    """The categories of the present colouring: what fits, and the rest behind "+n".

    A click isolates a category by the session's filter, a second one ends that;
    with Ctrl categories are added and taken away.
    """

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("legend")
        self.setAccessibleName("Colour legend")
        self._session = session
        self._theme = theme
        self.entries: tuple[LegendEntry, ...] = ()
        self.buttons: list[QToolButton] = []
        self.more = QToolButton(self)
        self.more.setObjectName("legendEntry")
        self.more.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.more.clicked.connect(self.show_all)
        self.more.hide()
        self._updates = FrameClient(session.frames, self._prepare)
        self.setFixedHeight(24)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        session.trace_changed.connect(self._on_changed)
        session.display.color_by_changed.connect(self._on_changed)
        session.queries.filter_changed.connect(self._show_filter)
        session.display.overlays_changed.connect(self._on_changed)
        self._prepare()

    def release(self) -> None:
        """Hear nothing of the session any more."""
        session = self._session
        self._updates.cancel()
        session.tasks.cancel(_KEY)
        session.trace_changed.disconnect(self._on_changed)
        session.display.color_by_changed.disconnect(self._on_changed)
        session.queries.filter_changed.disconnect(self._show_filter)
        session.display.overlays_changed.disconnect(self._on_changed)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        for button, entry in zip(self.buttons, self.entries, strict=False):
            button.setIcon(self.swatch(entry))

    def minimumSizeHint(self) -> QSize:
        """Return the width of the label that counts hidden entries."""
        return QSize(self._more_px() if self.entries else 0, 24)

    def sizeHint(self) -> QSize:
        """Return the size that all words would like."""
        wide = sum(b.sizeHint().width() + _GAP_PX for b in self.buttons)
        return QSize(wide, 24)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show as many words as fit."""
        super().resizeEvent(event)
        self._place()

    def isolate(self, entry: LegendEntry, *, add: bool = False) -> None:
        """Show only this category, or everything where that is so already."""
        session = self._session
        if not entry.part:
            return
        old = session.queries.filter
        present: frozenset[Any] = getattr(old, entry.part) or frozenset()
        values: frozenset[Any] = entry.values
        if add:
            values = present - values if values <= present else present | values
        elif present == values:
            values = frozenset()
        parts: dict[str, Any] = {entry.part: values or None}
        session.queries.set_filter(replace(old, **parts))

    def is_isolated(self, entry: LegendEntry) -> bool:
        """Return whether the filter asks for this category."""
        if not entry.part:
            return False
        present: frozenset[Any] | None = getattr(
            self._session.queries.filter, entry.part
        )
        return present is not None and entry.values <= present

    def describe(self, entry: LegendEntry) -> str:
        """Return what a tooltip says about a category."""
        trace = self._session.trace
        unit = "ns" if trace is None else trace.clock.unit
        template = "{0}: {1} spans, {2}"
        if entry.key == WAITS:
            template = "{0} at a barrier: after {1} ops, {2}"
        text = template.format(
            entry.label, format_count(entry.n_spans), format_duration(entry.ticks, unit)
        )
        if entry.share is not None:
            text += f", {format_share(entry.share)}"
        if entry.part:
            text += "\n" + "Click to show only this; Ctrl+click to add it."
        return text

    def swatch(self, entry: LegendEntry) -> QIcon:
        """Return a square in the category's colour."""
        ratio, size = self.devicePixelRatioF(), self._swatch_px()
        side = round(size * ratio)
        pixmap = QPixmap(side, side)
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if entry.key == WAITS:
            painter.setBrush(QColor.fromRgba(wait_color(self._theme)))
            painter.drawRect(QRectF(0, 0.3 * size, size, 0.4 * size))
        else:
            painter.setBrush(QColor.fromRgba(category_color(entry.key, self._theme)))
            painter.drawRoundedRect(QRectF(0, 0, size, size), 2, 2)
        painter.end()
        # A disabled entry must keep its colour: it is what the legend is about.
        icon = QIcon(pixmap)
        icon.addPixmap(pixmap, QIcon.Mode.Disabled)
        return icon

    def _swatch_px(self) -> int:
        return round(_SWATCH_PX * QFontInfo(self.font()).pixelSize() / _DESIGN_PX)

    def show_all(self) -> None:
        """Open the list of all categories with their shares."""
        popup = LegendList(self)
        popup.show_below(self.more if self.more.isVisible() else self)

    # --- filling -----------------------------------------------------------

    def _on_changed(self, _: object = None) -> None:
        self._updates.mark_dirty()

    def _prepare(self) -> None:
        session = self._session
        if session.index is None or session.trace is None:
            self._show(())
            return
        request = LegendRequest(
            session.index, session.display.color_by, session.display.shows_waits
        )
        trace = session.trace
        if len(trace.spans) <= SYNC_SPANS and len(trace.lanes) <= FEW_LANES:
            session.tasks.cancel(_KEY)
            self._show(request())
        else:
            session.tasks.run(_KEY, request, self._show)

    def _show(self, entries: Iterable[LegendEntry]) -> None:
        for old in self.buttons:
            old.hide()
            old.deleteLater()
        self.entries = tuple(entries)
        shown = self.entries[:MAX_BUTTONS]
        labels = short_labels([entry.label for entry in shown])
        self.buttons = [self._button(*one) for one in zip(shown, labels, strict=True)]
        self._show_filter(None)
        self.updateGeometry()
        self._place()

    def _button(self, entry: LegendEntry, label: str) -> QToolButton:
        made = QToolButton(self)
        made.setObjectName("legendEntry")
        made.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        made.setIcon(self.swatch(entry))
        made.setIconSize(QSize(self._swatch_px(), self._swatch_px()))
        made.setText(caption(label))
        set_tip(made, self.describe(entry))
        made.setAccessibleName(f"Show only {entry.label}")
        made.setCheckable(True)
        made.setEnabled(bool(entry.part))
        made.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        made.clicked.connect(self._on_clicked)
        return made

    def _on_clicked(self) -> None:
        button = self.sender()
        if isinstance(button, QToolButton) and button in self.buttons:
            entry = self.entries[self.buttons.index(button)]
            self.isolate(entry, add=_with_ctrl())
            self._show_filter(None)

    def _show_filter(self, _: Filter | None) -> None:
        for button, entry in zip(self.buttons, self.entries, strict=False):
            button.setChecked(self.is_isolated(entry))

    def _place(self) -> None:
        """Put the words side by side from the right end, the rest behind "+n"."""
        widths = [button.sizeHint().width() + _GAP_PX for button in self.buttons]
        fits, used, more = 0, 0, self._more_px()
        complete = len(self.buttons) == len(self.entries)
        if not complete or sum(widths) > self.width():
            space_px = self.width() - more
            while fits < len(widths) and used + widths[fits] <= space_px:
                used += widths[fits]
                fits += 1
        else:
            fits, used = len(widths), sum(widths)
        n_more = len(self.entries) - fits
        x = self.width() - used - (more if n_more else 0)
        for i, button in enumerate(self.buttons):
            button.setVisible(i < fits)
            if i < fits:
                button.setGeometry(x, 0, widths[i] - _GAP_PX, self.height())
                x += widths[i]
        self.more.setText(f"+{n_more}")
        set_tip(self.more, "All categories with shares")
        self.more.setAccessibleName(self.more.toolTip())
        self.more.setVisible(n_more > 0 and self.width() >= more)
        self.more.setGeometry(self.width() - more, 0, more, self.height())

    def _more_px(self) -> int:
        return self.fontMetrics().horizontalAdvance("+9,999") + 8


@guarded
class LegendList(QFrame):
    """All categories with what they amount to; closes on Esc or a click elsewhere."""

    chosen = Signal(str)

    def __init__(self, legend: Legend) -> None:
        super().__init__(legend, Qt.WindowType.Popup)
        self.setObjectName("overlay")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._legend = legend
        self.tree = QTreeWidget(self)
        self.tree.setObjectName("choices")
        self.tree.setAccessibleName("Categories")
        self.tree.setRootIsDecorated(False)
        self.tree.setUniformRowHeights(True)
        self.tree.setHeaderLabels(["colour", "time", "spans"])
        header = self.tree.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in (1, 2):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
            self.tree.headerItem().setTextAlignment(column, _RIGHT)
        self.tree.addTopLevelItems([self._item(e) for e in legend.entries])
        self._show_filter()
        self.tree.itemClicked.connect(self._on_item)
        self.tree.itemActivated.connect(self._on_item)
        box = QVBoxLayout(self)
        box.setContentsMargins(8, 8, 8, 8)
        box.addWidget(self.tree)

    def show_below(self, anchor: QWidget) -> None:
        """Open under a widget, inside the screen."""
        row = max(24, self.fontMetrics().height() + 8)
        high = min(16, len(self._legend.entries) + 1) * row + 40
        screen = anchor.screen().availableGeometry()
        self.resize(340, min(high, screen.height()))
        right = anchor.mapToGlobal(QPoint(anchor.width(), anchor.height() + 4))
        x = max(screen.left(), min(right.x(), screen.right()) - self.width())
        y = max(screen.top(), min(right.y(), screen.bottom() - self.height()))
        self.move(x, y)
        self.show()
        self.tree.setFocus()

    def _item(self, entry: LegendEntry) -> QTreeWidgetItem:
        share = "–" if entry.share is None else format_share(entry.share)
        item = QTreeWidgetItem(
            [one_line(entry.label), share, format_count(entry.n_spans)]
        )
        item.setIcon(0, self._legend.swatch(entry))
        set_column_tip(item, 0, self._legend.describe(entry))
        for column in (1, 2):
            item.setTextAlignment(column, _RIGHT)
        return item

    def _on_item(self, item: QTreeWidgetItem) -> None:
        entry = self._legend.entries[self.tree.indexOfTopLevelItem(item)]
        self._legend.isolate(entry, add=_with_ctrl())
        self._show_filter()

    def _show_filter(self) -> None:
        for i, entry in enumerate(self._legend.entries):
            item = self.tree.topLevelItem(i)
            if item is not None:
                font = self.tree.font()
                font.setBold(self._legend.is_isolated(entry))
                item.setFont(0, font)


_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


def _with_ctrl() -> bool:
    held = QApplication.keyboardModifiers()
    return bool(held & Qt.KeyboardModifier.ControlModifier)


def short_labels(labels: Sequence[str]) -> list[str]:
    """Return each label in at most 22 characters.

    Those that are alike without their end, as paths of one folder, are cut in the
    middle.
    """
    cut = [x if len(x) <= _MAX_LETTERS else x[: _MAX_LETTERS - 1] + "…" for x in labels]
    n_alike = Counter(cut)
    return [
        f"{label[:_HEAD_LETTERS]}…{label[_HEAD_LETTERS + 1 - _MAX_LETTERS :]}"
        if len(label) > _MAX_LETTERS and n_alike[short] > 1
        else short
        for label, short in zip(labels, cut, strict=True)
    ]
