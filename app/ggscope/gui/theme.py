"""Puts a theme on the application: palette, style sheet, fonts; follows the system.

The style sheet, generated from the tokens of a theme.
"""

import logging
from string import Template

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory

from ggscope import assets
from ggscope.render.theme import Theme, css, mix, theme
from ggscope.session.settings import Settings

logger = logging.getLogger(__name__)


_ICONS = ("down", "up", "check", "tick")


def style_sheet(theme: Theme, base_px: int, mono: str = "monospace") -> str:
    """Return the style sheet of the whole program.

    Parameters
    ----------
    theme : colours.
    base_px : height of the ordinary font; small and large ones follow from it.
    mono : family of the face for names and numbers.
    """
    on_accent = theme.window if theme.is_dark else theme.pane
    look = "dark" if theme.is_dark else "light"
    names = {
        **{name: _icon(f"{name}-{look}.svg") for name in _ICONS},
        "mono": mono,
        "window": css(theme.window),
        "pane": css(theme.pane),
        "raised": css(theme.raised),
        "line": css(theme.line),
        "text": css(theme.text),
        "dim": css(theme.dim),
        "accent": css(theme.accent),
        "on_accent": css(on_accent),
        "selection": css(theme.selection),
        "caution": css(theme.caution),
        "error": css(theme.error),
        "lane": css(theme.lane),
        "hover": css(mix(theme.raised, theme.text, 0.08)),
        "pressed": css(mix(theme.raised, theme.text, 0.16)),
        "tint": css(mix(theme.pane, theme.accent, 0.14)),
        "tint_strong": css(mix(theme.pane, theme.accent, 0.28)),
        "selected_row": css(mix(theme.pane, theme.selection, 0.16)),
        "caution_tint": css(mix(theme.pane, theme.caution, 0.12)),
        "error_tint": css(mix(theme.pane, theme.error, 0.12)),
        "handle": css(mix(theme.line, theme.dim, 0.35)),
        "disabled": css(mix(theme.pane, theme.dim, 0.6)),
        "base": f"{base_px}px",
        "small": f"{max(9, round(base_px * 0.92))}px",
        "large": f"{round(base_px * 1.35)}px",
        "title": f"{round(base_px * 2.0)}px",
        "control": f"{max(24, round(base_px * 2.1))}px",
        "four_lines": f"{round(base_px * 5.2)}px",
        "row": f"{max(24, round(base_px * 2.0))}px",
    }
    return Template(_SHEET).substitute(names)


def _icon(name: str) -> str:
    """Return a style sheet's reference to an icon; "none" where it is missing."""
    try:
        return f'url("{assets.path("icons/" + name).as_posix()}")'
    except FileNotFoundError:
        return "none"


_SHEET = """
QMainWindow, QDialog, #desk { background: $window; color: $text; }
QWidget { color: $text; }
QToolTip {
  background: $raised; color: $text; border: 1px solid $line; padding: 4px 8px;
}

QMenuBar { background: $window; color: $dim; padding: 0 8px; border: none; }
QMenuBar::item { padding: 6px 10px; background: transparent; border-radius: 4px; }
QMenuBar::item:selected { background: $raised; color: $text; }
QMenu {
  background: $raised; color: $text; border: 1px solid $line; padding: 4px;
}
QMenu::item { padding: 5px 28px 5px 24px; border-radius: 4px; }
QMenu::item:selected { background: $tint_strong; }
QMenu::item:disabled { color: $disabled; }
QMenu::separator { height: 1px; background: $line; margin: 4px 8px; }
QMenu::indicator { width: 14px; height: 14px; left: 5px; }
QMenu::indicator:checked { image: $tick; }
QMenu::indicator:unchecked { image: none; }
QMenu::right-arrow { width: 12px; height: 12px; }

#tabs { background: $window; }
QTabBar { background: transparent; border: none; }
QTabBar::tab {
  background: transparent; color: $dim; padding: 8px 12px 8px 16px; border: none;
  min-height: 22px; border-top-left-radius: 6px; border-top-right-radius: 6px;
}
QTabBar::tab:selected { background: $pane; color: $text; font-weight: bold; }
QTabBar::tab:hover:!selected { color: $text; background: $raised; }
QTabBar::tab:focus { border-bottom: 2px solid $accent; }
QTabBar#drawerTabs::tab { padding: 4px 12px; min-height: 20px; font-size: $small; }
QTabBar#drawerTabs::tab:selected { background: transparent; color: $text;
  border-bottom: 2px solid $accent; border-radius: 0; }

#toolbar { background: $pane; border-bottom: 1px solid $line; }
#live { background: $pane; border-bottom: 1px solid $line; }
#live QLabel { font-size: $small; }
#live QLabel[level="good"] { color: $accent; font-weight: bold; }
#live QLabel[level="caution"] { color: $caution; font-weight: bold; }
#live QLabel[level="error"] { color: $error; font-weight: bold; }
#live QPushButton { padding: 0 8px; }
#live QPushButton:checked { background: $tint_strong; }
#program { background: $pane; border-top: 1px solid $line; }
#program QLabel { font-size: $small; }
#program QPushButton { padding: 0 8px; font-size: $small; }
#program QPlainTextEdit {
  border: none; border-radius: 0; padding: 2px 8px; min-height: $four_lines;
}
#program QLabel[level="good"] { color: $accent; font-weight: bold; }
QDialog QLabel[level="good"] { color: $accent; }
#program QLabel[level="caution"] { color: $caution; font-weight: bold; }
QDialog QLabel[level="caution"] { color: $caution; }
#program QLabel[level="error"] { color: $error; font-weight: bold; }
QDialog QLabel[level="error"] { color: $error; }
#status { background: $pane; border-top: 1px solid $line; }
#status QLabel, #status QToolButton { color: $dim; font-size: $small; }
#status QToolButton { border: none; background: transparent; padding: 2px 6px;
  min-height: 20px; }
#status QToolButton:hover { color: $text; background: $raised; }
#status QToolButton:focus { border: 1px solid $accent; }
#status QToolButton[level="caution"] { color: $caution; }
#status QToolButton[level="error"] { color: $error; }

#pane { background: $pane; border: none; border-radius: 6px; }
#paneHead { background: transparent; }
#paneHead QLabel#paneTitle { font-weight: bold; }
#card { background: $raised; border: 1px solid $line; border-radius: 8px; }
#overlay { background: $raised; border: 1px solid $handle; border-radius: 8px; }

QPushButton, QComboBox {
  background: $raised; color: $text; border: 1px solid $line; border-radius: 6px;
  padding: 0 12px; min-height: $control; max-height: $control; outline: none;
}
QPushButton:hover, QComboBox:hover { background: $hover; }
QPushButton:pressed { background: $pressed; }
QPushButton:focus, QComboBox:focus {
  border: 2px solid $accent; padding: 0 11px;
}
QPushButton:disabled, QComboBox:disabled { color: $disabled; }
QPushButton[primary="true"] {
  background: $accent; color: $on_accent; border-color: $accent; font-weight: bold;
}
QPushButton[primary="true"]:focus { border: 2px solid $text; }
QPushButton[primary="true"]:disabled {
  background: $raised; color: $disabled; border-color: $line;
}
QPushButton[link="true"], QToolButton[link="true"] {
  background: transparent; border: 1px solid transparent; color: $accent;
  padding: 0 4px; text-align: left; min-height: 24px;
}
QPushButton[link="true"]:disabled, QToolButton[link="true"]:disabled {
  color: $disabled;
}
QPushButton[link="true"]:hover, QToolButton[link="true"]:hover {
  text-decoration: underline;
}
QPushButton[link="true"]:focus, QToolButton[link="true"]:focus {
  border: 1px solid $accent;
}
QComboBox { padding: 0 8px 0 12px; }
QComboBox:focus { padding: 0 7px 0 11px; }
QComboBox::drop-down { border: none; width: 24px; }
QComboBox::down-arrow { image: $down; width: 12px; height: 12px; }
QComboBox QAbstractItemView {
  background: $raised; border: 1px solid $line; outline: none;
  selection-background-color: $tint_strong; selection-color: $text;
}
QComboBox QAbstractItemView::item { min-height: $row; padding: 0 8px; }

QToolButton { border: 1px solid transparent; border-radius: 4px;
  background: transparent; min-width: 22px; min-height: 22px; color: $dim; }
QToolButton:hover { background: $hover; color: $text; }
QToolButton:focus { border: 1px solid $accent; }
QToolButton::menu-indicator { image: none; width: 0; }

QToolButton#legendEntry { padding: 0 5px; font-size: $small; min-height: 20px;
  text-align: left; }
QToolButton#legendEntry:disabled { color: $dim; background: transparent; }
QToolButton#legendEntry:checked { color: $text; background: $tint_strong;
  border: 1px solid $accent; }

#chip { background: $tint; border: 1px solid $accent; border-radius: 12px; }
#chip QLabel { color: $text; background: transparent; }
#chip QToolButton { min-width: 22px; min-height: 22px; border-radius: 11px; }

QLineEdit, QAbstractSpinBox, QPlainTextEdit {
  background: $window; color: $text; border: 1px solid $line; border-radius: 6px;
  padding: 0 8px; min-height: $control;
  selection-background-color: $accent; selection-color: $on_accent;
}
QLineEdit:disabled, QAbstractSpinBox:disabled { color: $disabled; }
QLineEdit:focus, QAbstractSpinBox:focus, QPlainTextEdit:focus {
  border: 1px solid $accent;
}
QAbstractSpinBox { padding: 0 4px 0 8px; }
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {
  background: transparent; border: none; width: 18px;
}
QAbstractSpinBox::up-button:hover, QAbstractSpinBox::down-button:hover {
  background: $hover; border-radius: 3px;
}
QAbstractSpinBox::up-arrow { image: $up; width: 10px; height: 10px; }
QAbstractSpinBox::down-arrow { image: $down; width: 10px; height: 10px; }
#search { background: $window; border: 1px solid $line; border-radius: 6px; }
#search[focused="true"] { border: 1px solid $accent; }
#search QLineEdit { border: none; background: transparent; min-height: 24px; }
#search QLabel { color: $dim; }
QTextBrowser, QPlainTextEdit[readOnly="true"] {
  background: $pane; border: 1px solid $line; border-radius: 6px; padding: 8px;
}

QTableView, QTreeView, QListView {
  background: $pane; alternate-background-color: $lane; color: $text; border: none;
  outline: none; gridline-color: transparent;
  selection-background-color: $selected_row; selection-color: $text;
}
QListView::item { min-height: $row; padding: 0 8px; }
#overlay QListView, #overlay QTreeView { background: transparent; }
QListView#completions { background: $raised; border: 1px solid $line; }
QListView#completions::item { padding: 3px 8px; }
QListView#completions::item:selected { background: $tint_strong; color: $text; }
QListView#choices::item:selected { background: $tint_strong; color: $text; }
QHeaderView { background: $raised; border: none; }
QHeaderView::section {
  background: $raised; color: $dim; border: none; padding: 4px 8px; min-height: 20px;
  font-weight: bold;
}
QTableCornerButton::section { background: $raised; border: none; }

QScrollBar:vertical { background: transparent; width: 12px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 12px; margin: 0; }
QScrollBar::handle { background: $line; border-radius: 4px; margin: 2px; }
QScrollBar::handle:vertical { min-height: 28px; }
QScrollBar::handle:horizontal { min-width: 28px; }
QScrollBar::handle:hover { background: $handle; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QScrollArea { background: transparent; border: none; }
QAbstractScrollArea::corner { background: transparent; border: none; }
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }
QTableWidget#plain::item { padding: 0 8px; }
QScrollArea > QWidget > QWidget { background: transparent; }

QSplitter::handle { background: transparent; }
QProgressBar {
  background: $line; border: none; border-radius: 2px; max-height: 4px;
  min-height: 4px;
}
QProgressBar::chunk { background: $accent; border-radius: 2px; }
QCheckBox, QRadioButton { spacing: 8px; min-height: 24px; }
QCheckBox::indicator, QListView::indicator {
  width: 14px; height: 14px; border: 1px solid $handle; border-radius: 4px;
  background: $window;
}
QCheckBox::indicator:hover, QListView::indicator:hover { border-color: $accent; }
QCheckBox::indicator:checked, QListView::indicator:checked {
  background: $accent; border-color: $accent; image: $check;
}
QCheckBox:focus, QRadioButton:focus { color: $accent; }
QGroupBox { border: none; margin-top: 20px; font-weight: bold; }

*[mono="true"] { font-family: "$mono"; }
QLabel[role="dim"] { color: $dim; }
QLabel[role="error"] { color: $error; }
QLabel[role="caution"] { color: $caution; }
QLabel[role="head"] { color: $dim; font-size: $small; font-weight: bold; }
QLabel[role="large"] { font-size: $large; font-weight: bold; }
QLabel[role="title"] { font-size: $title; font-weight: bold; }
QLabel[role="key"] { background: $raised; border: 1px solid $line;
  border-radius: 4px; padding: 1px 6px; color: $text; }
QLabel a { color: $accent; }

#dropArea { background: $pane; border: 2px dashed $line; border-radius: 12px; }
#dropArea[hot="true"] { border-color: $accent; background: $tint; }
#fileRow { background: transparent; border: 1px solid transparent; text-align: left;
  border-radius: 6px; padding: 4px 8px; min-height: 36px; max-height: 60px; }
#fileRow:hover { background: $raised; }
#fileRow:focus { border: 1px solid $accent; }
#banner { background: $raised; border-radius: 6px; }
#banner[level="caution"] { background: $caution_tint; }
#banner[level="error"] { background: $error_tint; }
#toast { background: $raised; border: 1px solid $handle; border-left: 3px solid $accent;
  border-radius: 6px; }
#toast[level="caution"] { border-left-color: $caution; }
#toast[level="error"] { border-left-color: $error; }
"""


BASE_PX = 12

_CALM_SHEET = "* { widget-animation-duration: 0; }"
_CURSOR_FLASH_MS = 1000
_EFFECTS = (
    Qt.UIEffect.UI_AnimateMenu,
    Qt.UIEffect.UI_FadeMenu,
    Qt.UIEffect.UI_AnimateCombo,
    Qt.UIEffect.UI_AnimateTooltip,
    Qt.UIEffect.UI_FadeTooltip,
)


class ThemeManager(QObject):
    """Keeps the application's look in step with settings and system.

    Parameters
    ----------
    app : the application, restyled at once.
    settings : `appearance` decides; its changes are followed.
    override : theme named on the command line, wins over the settings.
    """

    changed = Signal(object)  # Theme

    def __init__(
        self, app: QApplication, settings: Settings, override: str | None = None
    ) -> None:
        super().__init__(app)
        self.setObjectName("themeManager")
        self._app = app
        self._settings = settings
        self._override = override
        self._current: Theme | None = None
        self._scale = 0
        self._is_calm: bool | None = None
        style = QStyleFactory.create("Fusion")
        if style is not None:
            app.setStyle(style)
        settings.changed.connect(self._on_settings_changed)
        hints = QGuiApplication.styleHints()
        hints.colorSchemeChanged.connect(self._on_scheme_changed)
        self.apply()

    @property
    def current(self) -> Theme:
        """The theme that is shown."""
        if self._current is None:
            self.apply()
        assert self._current is not None
        return self._current

    def chosen_name(self) -> str:
        """Return "dark" or "light": command line, then settings, then system."""
        name = self._override or self._settings.appearance.theme
        if name in ("dark", "light"):
            return name
        return "light" if system_scheme() is Qt.ColorScheme.Light else "dark"

    def apply(self) -> None:
        """Style the application; nothing happens where it looks so already."""
        chosen = theme(self.chosen_name())
        scale = self._settings.appearance.font_scale
        is_calm = self._settings.appearance.reduced_motion
        if (chosen, scale, is_calm) == (self._current, self._scale, self._is_calm):
            return
        self._current, self._scale = chosen, scale
        self._set_calm(is_calm)
        px = base_px(scale)
        self._app.setFont(ui_font(px))
        self._app.setPalette(palette(chosen))
        sheet = style_sheet(chosen, px, mono_family())
        self._app.setStyleSheet(sheet + (_CALM_SHEET if is_calm else ""))
        self.changed.emit(chosen)

    def _set_calm(self, is_calm: bool) -> None:
        """Switch what moves by itself off or on: menus, tool tips, the text cursor."""
        if is_calm == bool(self._is_calm):
            self._is_calm = is_calm
            return
        self._is_calm = is_calm
        for effect in _EFFECTS:
            QApplication.setEffectEnabled(effect, not is_calm)
        QApplication.setCursorFlashTime(0 if is_calm else _CURSOR_FLASH_MS)

    def _on_settings_changed(self, topic: str) -> None:
        if topic == "appearance":
            # A choice made in the settings ends the command line's.
            self._override = None
            self.apply()

    def _on_scheme_changed(self, _: Qt.ColorScheme) -> None:
        self.apply()


def system_scheme() -> Qt.ColorScheme:
    """Return what the desktop asks for; Unknown where it does not say."""
    return QGuiApplication.styleHints().colorScheme()


def base_px(scale: int) -> int:
    """Return the height of the ordinary font at `scale` per cent."""
    return max(8, round(BASE_PX * scale / 100))


def ui_font(px: int) -> QFont:
    """Return the system's face for words at `px`."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    font.setPixelSize(px)
    return font


def mono_family() -> str:
    """Return the family of the face for names and numbers."""
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()


def color(value: int) -> QColor:
    """Return a Qt colour from 0xAARRGGBB."""
    return QColor.fromRgba(value)


def palette(chosen: Theme) -> QPalette:
    """Return the palette of a theme, for what the style sheet does not reach."""
    roles = QPalette.ColorRole
    result = QPalette()
    on_accent = chosen.window if chosen.is_dark else chosen.pane
    for role, value in (
        (roles.Window, chosen.window),
        (roles.WindowText, chosen.text),
        (roles.Base, chosen.pane),
        (roles.AlternateBase, chosen.lane),
        (roles.Text, chosen.text),
        (roles.Button, chosen.raised),
        (roles.ButtonText, chosen.text),
        (roles.ToolTipBase, chosen.raised),
        (roles.ToolTipText, chosen.text),
        (roles.Highlight, chosen.accent),
        (roles.HighlightedText, on_accent),
        (roles.Link, chosen.accent),
        (roles.LinkVisited, chosen.accent),
        (roles.PlaceholderText, chosen.dim),
        (roles.BrightText, chosen.selection),
        (roles.Mid, chosen.line),
        (roles.Light, mix(chosen.raised, chosen.text, 0.1)),
        (roles.Dark, chosen.line),
        (roles.Shadow, chosen.window),
        (roles.Accent, chosen.accent),
    ):
        result.setColor(role, color(value))
    faded = color(mix(chosen.pane, chosen.dim, 0.6))
    for role in (roles.Text, roles.WindowText, roles.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, role, faded)
    return result
