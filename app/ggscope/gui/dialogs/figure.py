"""The figure studio: how a picture leaves the program, seen before it does.

The preview is drawn as the file will be, on a worker. Figure and style are all that is
asked; `ggscope.render.export` does the rest, for the command line too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QEvent, QRectF, QSignalBlocker, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ggscope.errors import ExportError
from ggscope.gui.dialogs.fitted import Dialog
from ggscope.gui.widgets import button, label, set_property
from ggscope.render.export import (
    MAX_PIXELS,
    Figure,
    check_size,
    ensure_gui_application,
    render_image,
)
from ggscope.render.figure_style import (
    MAX_DPI,
    MAX_FONT,
    MIN_DPI,
    MIN_FONT,
    PRESET_WORDS,
    PRESETS,
    UNITS,
    FigureStyle,
    Length,
)
from ggscope.sanitize import plain
from ggscope.session.settings import Settings
from ggscope.session.tasks import TaskContext, TaskFailure, Tasks
from ggscope.views.base.safe_text import copy_image, copy_text, set_tip, set_title
from ggscope.views.base.view import guarded

Source = Callable[[], Figure | None]
_SETTLE_MS = 200
"""The preview waits so long for a further change."""
_BUSY_MS = 300
_MAX_PREVIEW = 4_000_000
"""A preview of more pixels is drawn with fewer dots per inch: the same picture."""
_USUAL_DPI = 96.0
_THEMES = ("print", "light", "dark")


@dataclass(frozen=True, slots=True)
class Preview:
    """What a figure will be.

    Attributes
    ----------
    width, height : pixels of a PNG; `image` may have fewer.
    """

    image: QImage
    width: int
    height: int
    caption: str


@dataclass(frozen=True, slots=True, eq=False)
class PreviewRequest:
    """Draw a figure as it will be, on a worker."""

    figure: Figure
    style: FigureStyle

    def __call__(self, context: TaskContext) -> Preview:
        """Return the preview; raises ExportError."""
        context.check_cancelled()
        ensure_gui_application()
        style = self.style
        check_size(style)
        drawn = self.figure.draw(style)
        context.check_cancelled()
        picture = drawn.picture
        width = max(round(picture.width * picture.scale), 1)
        height = max(round(picture.height * picture.scale), 1)
        if max(width, height) > MAX_PIXELS:
            self.figure.image(style)
        less = (_MAX_PREVIEW / (width * height)) ** 0.5
        if less < 1:
            picture = replace(picture, scale=picture.scale * less)
        image = render_image(picture, style.dpi, transparent=style.transparent)
        image.setDevicePixelRatio(1.0)
        return Preview(image, width, height, drawn.caption)


@guarded
class PreviewPane(QWidget):
    """Shows a picture as large as fits, or says why there is none."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.image: QImage | None = None
        self.message = ""
        self.setMinimumSize(200, 120)
        self.setAccessibleName("Preview")

    def show_image(self, image: QImage) -> None:
        """Show a picture."""
        self.image, self.message = image, ""
        self.update()

    def say(self, message: str) -> None:
        """Say something in the place of a picture."""
        self.image, self.message = None, plain(message)
        self.update()

    def sizeHint(self) -> QSize:
        """Return what a picture of a common shape needs."""
        return QSize(620, 420)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the picture on a ground of its own."""
        painter = QPainter(self)
        try:
            painter.fillRect(self.rect(), self.palette().alternateBase())
            if self.image is None:
                painter.setPen(self.palette().placeholderText().color())
                flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
                area = self.rect().adjusted(24, 24, -24, -24)
                painter.drawText(area, flags, self.message)
            else:
                self._paint_image(painter, self.image)
        finally:
            painter.end()

    def _paint_image(self, painter: QPainter, image: QImage) -> None:
        margin, ratio = 12.0, self.devicePixelRatioF()
        inner = QRectF(self.rect()).adjusted(margin, margin, -margin, -margin)
        size = image.size().toSizeF() / ratio
        if size.width() > inner.width() or size.height() > inner.height():
            size.scale(inner.size(), Qt.AspectRatioMode.KeepAspectRatio)
        area = QRectF(inner.topLeft(), size)
        area.moveCenter(inner.center())
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        exact = (size * ratio).toSize()
        if exact.width() < image.width():  # less jagged than the painter's own way
            image = image.scaled(
                exact,
                Qt.AspectRatioMode.IgnoreAspectRatio,
                Qt.TransformationMode.SmoothTransformation,
            )
        painter.drawImage(area, image)
        painter.setPen(self.palette().mid().color())  # white paper has an edge
        painter.drawRect(area)


@guarded
class FigureDialog(Dialog):
    """Asks for the style of a figure, and shows the figure so.

    Signals
    -------
    export_requested(Figure, FigureStyle) : Export was pressed.
    """

    export_requested = Signal(object, object)

    def __init__(
        self,
        sources: Mapping[str, Source],
        first: str,
        settings: Settings,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._sources, self._settings = sources, settings
        self._figure: Figure | None = None
        self._tasks = Tasks(self)
        self._drawn_of: tuple[Figure, FigureStyle] | None = None
        self.preview: Preview | None = None
        set_title(self, "Export figure")
        self.setAccessibleName(self.windowTitle())
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(1160, 720)
        self._make()
        self._lay_out()
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settle.timeout.connect(self._draw)
        self._busy = QTimer(self, singleShot=True, interval=_BUSY_MS)
        self._busy.timeout.connect(self._say_busy)
        self.view.setCurrentText(first)
        self._recall()
        self._connect()
        self._on_view()

    # -- widgets -------------------------------------------------------------------

    def _make(self) -> None:
        self.pane = PreviewPane(self)
        self.size_text = label("", self, "dim")
        self.view = self._combo("View", {name: name for name in self._sources})
        presets = {"": "as in window"} | dict(PRESET_WORDS)
        self.preset = self._combo(
            "Preset",
            presets,
            "Sets size, font size and resolution together",
        )
        self.width_box = self._number("Width")
        self.height_box = self._number("Height")
        # What follows the content is not known before the first preview.
        self.height_box.setSpecialValueText("…")
        self.unit = self._combo("Unit", {unit: unit for unit in UNITS})
        self.fits = self._tick(
            "fit &height to content",
            "High enough for all lanes or rows; otherwise they adapt to the height",
        )
        self.dpi = QSpinBox(self)
        self.dpi.setRange(int(MIN_DPI), int(MAX_DPI))
        self.dpi.setSuffix(" dpi")
        set_tip(self.dpi, "Dots per inch of a PNG; 300 for print")
        self.dpi.setAccessibleName("Resolution")
        self.font_box = QDoubleSpinBox(self)
        self.font_box.setRange(MIN_FONT, MAX_FONT)
        self.font_box.setDecimals(2)
        self.font_box.setSuffix(" pt")
        set_tip(self.font_box, "Size of normal text on paper")
        self.font_box.setAccessibleName("Font size")
        themes = {name: name for name in _THEMES}
        self.theme = self._combo("Theme", themes)
        kinds = {"seen": "as in window", "clean": "clean"}
        self.kind = self._combo(
            "Content",
            kinds,
            "As in window: pinned and hidden lanes, order, selection",
        )
        self.has_title = self._tick("&Title", "Heading above the figure")
        self.title = QLineEdit(self)
        self.title.setPlaceholderText("file name")
        self.title.setAccessibleName("Title text")
        self.legend = self._tick("&Legend", "What the colours mean")
        self.color_bar = self._tick(
            "Colour &bar",
            "Colour scale of numeric values",
        )
        self.notes = self._tick("&Notes", "Bookmarks with name, note and colour")
        self.transparent = self._tick("T&ransparent", "PNG and SVG without background")
        self.caption = self._text("Caption", 3)
        self.command = self._text("Command line", 3)
        self.command.setProperty("mono", True)
        self.lacks = label("", self, "dim", wraps=True)
        self.problem = label("", self, "dim", wraps=True)
        self.copy_caption = button(
            "Copy caption", lambda: copy_text(self.caption.toPlainText()), self
        )
        self.copy_command = button(
            "Copy command", lambda: copy_text(self.command.toPlainText()), self
        )
        self.export = button("Export…", self._on_export, self, primary=True)
        self.export.setDefault(True)
        width = max(
            self.copy_caption.sizeHint().width(), self.copy_command.sizeHint().width()
        )
        for one in (self.copy_caption, self.copy_command):
            one.setFixedWidth(width)
        self.copy = button("Copy picture", self._on_copy, self)
        self.stop = button("Cancel drawing", self._on_stop, self)
        self.stop.hide()
        self.close_button = button("Close", self.close, self)

    def _combo(self, name: str, choices: Mapping[str, str], tip: str = "") -> QComboBox:
        made = QComboBox(self)
        for value, title in choices.items():
            made.addItem(title, value)
        made.setAccessibleName(name)
        if tip:
            set_tip(made, tip)
        return made

    def _number(self, name: str) -> QDoubleSpinBox:
        made = QDoubleSpinBox(self)
        made.setRange(0.1, 99_999)
        made.setMinimumWidth(made.fontMetrics().horizontalAdvance("0000.00") + 44)
        made.setMaximumWidth(2 * made.minimumWidth())
        made.setDecimals(2)
        made.setAccessibleName(name)
        return made

    def _tick(self, label: str, tip: str) -> QCheckBox:
        made = QCheckBox(label, self)
        set_tip(made, tip)
        return made

    def _text(self, name: str, lines: int) -> QPlainTextEdit:
        made = QPlainTextEdit(self)
        made.setReadOnly(True)
        made.setTabChangesFocus(True)
        made.setAccessibleName(name)
        line = made.fontMetrics().lineSpacing()
        made.setMinimumHeight(line + 18)
        made.setMaximumHeight(lines * line + 18)
        return made

    def _lay_out(self) -> None:
        form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        sides = QWidget(self)
        sides.setFocusProxy(self.width_box)
        size = QHBoxLayout(sides)
        size.setContentsMargins(0, 0, 0, 0)
        size.addWidget(self.width_box, 1)
        size.addWidget(label("×", self))
        size.addWidget(self.height_box, 1)
        size.addWidget(self.unit)
        titles = QWidget(self)
        titled = QHBoxLayout(titles)
        titled.setContentsMargins(0, 0, 0, 0)
        titled.addWidget(self.has_title)
        titled.addWidget(self.title, 1)
        for row_label, field in (
            ("&View", self.view),
            ("&Preset", self.preset),
            ("&Size", sides),
            ("", self.fits),
            ("Re&solution", self.dpi),
            ("&Font size", self.font_box),
            ("Them&e", self.theme),
            ("C&ontent", self.kind),
            ("", titles),
            ("", self.legend),
            ("", self.color_bar),
            ("", self.notes),
            ("", self.transparent),
        ):
            if row_label:
                form.addRow(row_label, field)
            else:
                form.addRow(field)
        inside = QWidget(self)
        inside.setLayout(form)
        choices = QScrollArea(self)
        choices.setWidgetResizable(True)
        choices.setFrameShape(QScrollArea.Shape.NoFrame)
        choices.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        choices.setWidget(inside)
        choices.setFixedWidth(max(inside.minimumSizeHint().width() + 24, 340))
        seen = QVBoxLayout()
        seen.addWidget(self.pane, 1)
        seen.addWidget(self.size_text)
        top = QHBoxLayout()
        top.setSpacing(16)
        top.addLayout(seen, 1)
        top.addWidget(choices)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(8)
        box.addLayout(top, 1)
        for text, copies in (
            (self.caption, self.copy_caption),
            (self.command, self.copy_command),
        ):
            row = QHBoxLayout()
            row.addWidget(text, 1)
            row.addWidget(copies, 0, Qt.AlignmentFlag.AlignTop)
            box.addLayout(row)
        box.addWidget(self.lacks)
        box.addWidget(self.problem)
        buttons = QHBoxLayout()
        buttons.addWidget(self.stop)
        buttons.addStretch(1)
        for one in (self.copy, self.export, self.close_button):
            buttons.addWidget(one)
        box.addLayout(buttons)

    def _connect(self) -> None:
        self.view.currentIndexChanged.connect(self._on_view)
        self.preset.currentIndexChanged.connect(self._on_preset)
        self.unit.currentIndexChanged.connect(self._on_unit)
        for number in (self.width_box, self.height_box, self.font_box, self.dpi):
            number.valueChanged.connect(self._on_changed)
        for choice in (self.theme, self.kind):
            choice.currentIndexChanged.connect(self._on_changed)
        for tick in (
            self.fits,
            self.has_title,
            self.legend,
            self.color_bar,
            self.notes,
            self.transparent,
        ):
            tick.toggled.connect(self._on_changed)
        self.title.textChanged.connect(self._on_changed)

    # -- the style --------------------------------------------------------------------

    def figure_style(self) -> FigureStyle:
        """Return the style that the fields show."""
        unit = self._unit
        height = Length(self.height_box.value(), unit)
        title = self.title.text() or None
        return FigureStyle(
            preset=self.preset.currentData(),
            width=Length(self.width_box.value(), unit),
            height=None if self.fits.isChecked() else height,
            dpi=float(self.dpi.value()),
            font=round(self.font_box.value(), 2),
            theme=self.theme.currentData(),
            transparent=self.transparent.isChecked(),
            seen=self.kind.currentData() == "seen",
            title=title if self.has_title.isChecked() else "",
            legend=self.legend.isChecked(),
            color_bar=self.color_bar.isChecked(),
            notes=self.notes.isChecked(),
        )

    def set_figure_style(self, style: FigureStyle) -> None:
        """Show a style in the fields."""
        blockers = [QSignalBlocker(field) for field in self._fields()]
        width = style.width or Length(180, "mm")
        dpi = style.dpi
        if width.unit == "in" and not style.preset:  # of the window: pixels
            width, dpi = width.to("px", _USUAL_DPI), _USUAL_DPI
        self._unit = width.unit
        self.preset.setCurrentIndex(self.preset.findData(style.preset))
        self.unit.setCurrentIndex(self.unit.findData(width.unit))
        self.width_box.setValue(width.value)
        self.fits.setChecked(style.height is None)
        if style.height is not None:
            self.height_box.setValue(style.height.to(width.unit, dpi).value)
        self.height_box.setEnabled(style.height is not None)
        self.dpi.setValue(round(dpi))
        self.font_box.setValue(8.25 if style.font is None else style.font)
        self.theme.setCurrentIndex(max(self.theme.findData(style.theme), 0))
        self.kind.setCurrentIndex(self.kind.findData("seen" if style.seen else "clean"))
        self.has_title.setChecked(style.title != "")
        self.title.setText(style.title or "")
        self.legend.setChecked(style.legend)
        self.color_bar.setChecked(style.color_bar)
        self.notes.setChecked(style.notes)
        self.transparent.setChecked(style.transparent)
        del blockers

    def _fields(self) -> tuple[QWidget, ...]:
        choices = (self.preset, self.unit, self.theme, self.kind)
        numbers = (self.width_box, self.height_box, self.dpi, self.font_box)
        ticks = (self.fits, self.has_title, self.legend, self.color_bar, self.notes)
        return (*choices, *numbers, *ticks, self.transparent, self.title)

    def _recall(self) -> None:
        """Begin with what was chosen last."""
        stored = self._settings.figures
        style = PRESETS.get(stored.preset, PRESETS["double"])
        self.set_figure_style(
            replace(
                style,
                theme=stored.theme,
                seen=stored.is_seen,
                legend=stored.has_legend,
                color_bar=stored.has_color_bar,
                notes=stored.has_notes,
                transparent=stored.is_transparent,
            )
        )

    def _keep(self) -> None:
        style = self.figure_style()
        self._settings.change(
            "figures",
            preset=style.preset,
            theme=style.theme,
            is_seen=style.seen,
            has_legend=style.legend,
            has_color_bar=style.color_bar,
            has_notes=style.notes,
            is_transparent=style.transparent,
        )

    # -- what changes ------------------------------------------------------------------

    def refresh(self, _: object = None) -> None:
        """Take the picture anew as it stands in the window."""
        self._on_view()

    def _on_view(self, _: object = None) -> None:
        make = self._sources.get(self.view.currentData())
        self._figure = None if make is None else make()
        if self.preset.currentData() == "" and self._figure is not None:
            self.set_figure_style(self._figure.style)
        self._on_changed()

    def _on_preset(self, _: object = None) -> None:
        name = self.preset.currentData()
        now = self.figure_style()
        if name:
            base = PRESETS[name]
        elif self._figure is not None:
            base = self._figure.style
        else:
            return
        self.set_figure_style(
            replace(
                base,
                seen=now.seen,
                title=now.title,
                legend=now.legend,
                color_bar=now.color_bar,
                notes=now.notes,
                transparent=now.transparent,
            )
        )
        self._on_changed()

    def _on_unit(self, _: object = None) -> None:
        """Say the same size in another unit."""
        unit, dpi = self.unit.currentData(), float(self.dpi.value())
        for box in (self.width_box, self.height_box):
            with QSignalBlocker(box):
                box.setValue(Length(box.value(), self._unit).to(unit, dpi).value)
        self._unit = unit
        self._on_changed()

    def _on_changed(self, _: object = None) -> None:
        self.height_box.setEnabled(not self.fits.isChecked())
        self.title.setEnabled(self.has_title.isChecked())
        self.notes.setEnabled(self.kind.currentData() == "seen")
        self._say("")
        self._settle.start()

    def _draw(self) -> None:
        """Ask for the preview of what is chosen now."""
        self._busy.start()
        figure, style = self._figure, self.figure_style()
        self._drawn_of = None
        if figure is None:
            self._fail("This view has nothing to draw.")
            return
        self._drawn_of = figure, style
        self._tasks.run(
            "preview",
            PreviewRequest(figure, style),
            self._on_preview,
            on_error=self._on_no_preview,
        )

    def _say_busy(self) -> None:
        if self._tasks.is_running("preview"):
            self.size_text.setText("Drawing the preview…")
            self.stop.show()

    def _on_preview(self, preview: Preview) -> None:
        self._busy.stop()
        self.stop.hide()
        self.preview = preview
        self.pane.show_image(preview.image)
        self.caption.setPlainText(plain(preview.caption))
        per_mm = self.dpi.value() / 25.4
        self.size_text.setText(
            "{} × {} pixels · {} × {} mm".format(
                f"{preview.width:,}",
                f"{preview.height:,}",
                f"{preview.width / per_mm:.4g}",
                f"{preview.height / per_mm:.4g}",
            )
        )
        if self.fits.isChecked():
            with QSignalBlocker(self.height_box):
                length = Length(float(preview.height), "px")
                now = length.to(self._unit, float(self.dpi.value()))
                self.height_box.setValue(now.value)
        for one in (self.export, self.copy, self.copy_caption):
            one.setEnabled(True)
        self._show_command()

    def _show_command(self) -> None:
        if self._drawn_of is None:
            return
        figure, style = self._drawn_of
        text = lacks = ""
        try:
            command = figure.command(f"{figure.name}.png", style)
        except ExportError as error:
            lacks = str(error)
        else:
            text, lacks = command.text, " ".join(command.lacks)
        self.command.setPlainText(plain(text))
        self.copy_command.setEnabled(bool(text))
        self.lacks.setText(lacks)
        self.lacks.setVisible(bool(lacks))

    def _on_no_preview(self, failure: TaskFailure) -> None:
        self._fail(failure.message)

    def _fail(self, message: str) -> None:
        self._busy.stop()
        self.stop.hide()
        self.preview = None
        self.pane.say(message)
        self.size_text.setText("")
        for text in (self.caption, self.command):
            text.clear()
        for one in (self.export, self.copy, self.copy_caption, self.copy_command):
            one.setEnabled(False)

    def _on_stop(self) -> None:
        self._tasks.cancel("preview")
        self._fail("Cancelled. Change an option to draw again.")

    # -- out of the program ------------------------------------------------------------

    def say_written(self, path: Path) -> None:
        """Report that the file is there."""
        self._say(f"Saved {path}", "good")

    def say_failed(self, message: str) -> None:
        """Report why the file is not there."""
        self._say(message, "error")

    def _say(self, message: str, level: str = "") -> None:
        self.problem.setText(message)
        self.problem.setVisible(bool(message))
        set_property(self.problem, "level", level)

    def _on_export(self) -> None:
        if self._figure is not None:
            self._keep()
            self.export_requested.emit(self._figure, self.figure_style())

    def _on_copy(self) -> None:
        if self._figure is None:
            return
        figure, style = self._figure, self.figure_style()
        self._tasks.run(
            "copy",
            lambda context: figure.image(style),
            self._on_copied,
            on_error=lambda failure: self.say_failed(failure.message),
        )

    def _on_copied(self, image: QImage) -> None:
        copy_image(image)
        size = f"{image.width():,} × {image.height():,}"
        text = "Copied the picture ({0} px)."
        self._say(text.format(size), "good")

    def closeEvent(self, event: QCloseEvent) -> None:
        """Keep what was chosen."""
        self._keep()
        super().closeEvent(event)

    def done(self, result: int) -> None:
        """Leave nothing behind that works for nobody."""
        self._tasks.close()
        super().done(result)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the window: what it shows may be another picture now."""
        super().changeEvent(event)
        is_back = event.type() == QEvent.Type.ActivationChange and self.isActiveWindow()
        if is_back and self._drawn_of is not None:
            self._on_view()
