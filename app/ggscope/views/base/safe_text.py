"""Words on widgets: labels and tooltips that show any text as it is.

Qt looks at a text and shows it as rich text where it seems to be such, loading
what it names. So no other file makes a QLabel or sets a tooltip; what may be rich
text is `ggscope.sanitize.Html`, and everything else is shown letter by letter.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QAction, QGuiApplication, QImage, QResizeEvent
from PySide6.QtWidgets import (
    QLabel,
    QListWidgetItem,
    QMenu,
    QMessageBox,
    QTabBar,
    QTableWidgetItem,
    QToolTip,
    QTreeWidgetItem,
    QWidget,
)

from ggscope.model.units import format_absolute, format_duration, format_exact
from ggscope.sanitize import Html, caption, html, join_html, one_line, plain, tooltip
from ggscope.views.base.view import guarded

if TYPE_CHECKING:
    from ggscope.descriptions.spans import Fact
    from ggscope.session.session import Session

Tipped = QWidget | QAction | QListWidgetItem | QTableWidgetItem
"""What has one tooltip."""
_MAX_TOLD = 4
_MAX_LETTERS = 80
_MAX_LINE = 2000
"""Letters of a line that are measured; a name may have millions."""
_MAX_WIDTH = 1200


@guarded
class Label(QLabel):
    """A label that shows any text as it is, and Html as rich text."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        if text:
            self.setText(text)

    def setText(self, text: str) -> None:
        """Show `text`."""
        is_rich = isinstance(text, Html)
        form = Qt.TextFormat.RichText if is_rich else Qt.TextFormat.PlainText
        # Before the text: a label that is plain never parses what it gets.
        if form != self.textFormat():
            super().setText("")
            self.setTextFormat(form)
        super().setText(text if is_rich else plain(text))


@guarded
class ElidedLabel(Label):
    """One line that ends in … where it does not fit; the tooltip has it all.

    `text` is what it shows, `full_text` what it was given.
    """

    def __init__(
        self,
        parent: QWidget | None = None,
        text: str = "",
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__(parent=parent)
        self._full = ""
        self._mode = mode
        self.tip = ""
        """Tooltip to show in any case; "" = the whole text where it is cut."""
        self.setText(text)

    @property
    def full_text(self) -> str:
        """The whole text."""
        return self._full

    def setText(self, text: str) -> None:
        """Show `text`, as much of it as fits."""
        self._full = one_line(text)
        self.setAccessibleName(text)
        self.updateGeometry()
        self._elide()

    def clear(self) -> None:
        """Show nothing."""
        self.setText("")

    def sizeHint(self) -> QSize:
        """Ask for room for the whole text, within limits."""
        width = self.fontMetrics().horizontalAdvance(self._full)
        return QSize(min(width + 4, _MAX_WIDTH), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Get by with room for one letter."""
        return QSize(self.fontMetrics().averageCharWidth(), super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the text to the new width."""
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        shown = self.fontMetrics().elidedText(
            self._full[:_MAX_LINE], self._mode, max(self.width(), 0)
        )
        super().setText(shown)
        whole = "" if shown == self._full else self._full[: 2 * _MAX_LINE]
        set_tip(self, self.tip or whole)


@guarded
class ShorteningLabel(ElidedLabel):
    """One line that leaves out whole parts where it does not fit, and then all.

    `text` is what it shows, `full_text` the longest of what it was given.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        self._texts: tuple[str, ...] = ()
        super().__init__(parent)

    def set_texts(self, texts: Sequence[str]) -> None:
        """Show the first of these that fits; the longest comes first."""
        self._texts = tuple(map(one_line, texts))
        self.setText(texts[0] if texts else "")

    def _elide(self) -> None:
        metrics, width = self.fontMetrics(), self.width()
        fitting = (t for t in self._texts if metrics.horizontalAdvance(t) <= width)
        shown = next(fitting, "")
        Label.setText(self, shown)
        set_tip(self, self.tip or ("" if shown == self._full else self._full))


def set_tip(target: Tipped, text: str) -> None:
    """Give a widget, action or item a tooltip; "" takes it away."""
    target.setToolTip(tooltip(text))


def set_column_tip(item: QTreeWidgetItem, column: int, text: str) -> None:
    """Give a column of a tree's line a tooltip."""
    item.setToolTip(column, tooltip(text))


def set_tab_tip(bar: QTabBar, position: int, text: str) -> None:
    """Give a tab a tooltip."""
    bar.setTabToolTip(position, tooltip(text))


def show_tip(
    at: QPoint, text: str, widget: QWidget, place: QRect | None = None
) -> None:
    """Show a tooltip now, until the mouse leaves `place` of the widget; "" hides it."""
    QToolTip.showText(at, tooltip(text), widget, QRect() if place is None else place)


def add_action(
    menu: QMenu,
    text: str,
    run: Callable[[], object] | None = None,
    *,
    tip: str = "",
    enabled: bool = True,
) -> QAction:
    """Add an entry that says `text`, & and all, and runs something.

    Its tooltip says the same, or `tip`.
    """
    action = menu.addAction(caption(text))
    set_tip(action, tip or text)
    action.setEnabled(enabled)
    if run is not None:
        action.triggered.connect(lambda _checked=False: run())
    return action


def add_menu(menu: QMenu, text: str) -> QMenu:
    """Add a menu within a menu that says `text`, & and all."""
    return menu.addMenu(caption(text))


def ask_yes(parent: QWidget, question: str) -> bool:
    """Ask a question whose safe answer is No; return whether it was Yes."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(plain(question))
    box.setStandardButtons(
        QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.No
    )
    box.setDefaultButton(QMessageBox.StandardButton.No)
    return box.exec() == QMessageBox.StandardButton.Yes


def ask_choice(
    parent: QWidget, title: str, question: str, choices: Sequence[str], more: str = ""
) -> int | None:
    """Ask which of some commands is meant, the first by Enter; None = none of them.

    `more` stands below `question`.
    """
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    set_title(box, title)
    box.setTextFormat(Qt.TextFormat.PlainText)
    # Not its informative text: that would be taken for rich text.
    box.setText(plain("\n\n".join(part for part in (question, more) if part)))
    buttons = [
        box.addButton(caption(text), QMessageBox.ButtonRole.AcceptRole)
        for text in choices
    ]
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(buttons[0])
    box.exec()
    chosen = box.clickedButton()
    return next((i for i, one in enumerate(buttons) if one is chosen), None)


def copy_text(text: str) -> None:
    """Put `text` on the clipboard, where a terminal may be the next to read it."""
    QGuiApplication.clipboard().setText(plain(text))


def copy_image(image: QImage) -> None:
    """Put a picture on the clipboard."""
    QGuiApplication.clipboard().setImage(image)


def copy_name(name: str) -> None:
    """Put a name on the clipboard, in one line: pasted, a line is a command."""
    copy_text(one_line(name))


def set_title(window: QWidget, text: str) -> None:
    """Name a window; Qt would take [*] for the place of its own sign."""
    window.setWindowTitle(one_line(text).replace("[*]", "[*][*]"))


def tip_table(title: str, rows: Iterable[Sequence[str]]) -> Html:
    """Return rows as a small table under a title.

    Parameters
    ----------
    rows : (label, value) or (label, value, what stands below the value).
    """
    lines = join_html(_line(*row) for row in rows)
    return html("<p><b>{}</b></p><table>{}</table>", title, lines)


def fact_table(title: str, facts: Iterable["Fact"]) -> Html:
    """Return facts as a small table, with all digits where fewer are shown."""
    return tip_table(
        title,
        [(f.label, f.value, f.exact if f.exact != f.value else "") for f in facts],
    )


def _line(label: str, value: str, below: str = "") -> Html:
    return html(
        "<tr><td style='padding-right:12px'>{}</td><td><b>{}</b>{}</td></tr>",
        label,
        value,
        html("<br>{}", below) if below else "",
    )


def bookmark_tip(session: "Session", positions: Sequence[int]) -> Html:
    """Return rich text about bookmarks that are close together; "" for none."""
    trace = session.trace
    if trace is None:
        return Html()
    unit = trace.clock.unit
    lines: list[Html] = []
    for position in positions[:_MAX_TOLD]:
        mark = session.bookmarks.items[position]
        key = f" (Alt+{position + 1})" if position < 9 else ""
        when = format_exact(mark.time.start, unit)
        if session.display.absolute_time:
            when = format_absolute(mark.time.start, trace.clock)
        if mark.time.duration:
            when += f", {format_duration(mark.time.duration, unit)} long"
        note = f" · {mark.note[:_MAX_LETTERS]}" if mark.note else ""
        name = mark.name[:_MAX_LETTERS]
        lines.append(html("<b>{}</b>{}<br>{}{}", name, key, when, note))
    if len(positions) > _MAX_TOLD:
        lines.append(html("and {} more", len(positions) - _MAX_TOLD))
    return join_html(lines, html("<br>"))
