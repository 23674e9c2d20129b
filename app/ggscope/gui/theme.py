"""Puts a theme on the application: palette, style sheet, fonts; follows the system."""

import logging

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory

from ggscope.gui.style_sheet import style_sheet
from ggscope.render.theme import Theme, mix, theme
from ggscope.session.settings import Settings

logger = logging.getLogger(__name__)

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

    def wanted(self) -> str:
        """Return "dark" or "light": command line, then settings, then system."""
        name = self._override or self._settings.appearance.theme
        if name in ("dark", "light"):
            return name
        return "light" if system_scheme() is Qt.ColorScheme.Light else "dark"

    def apply(self) -> None:
        """Style the application; nothing happens where it looks so already."""
        chosen = theme(self.wanted())
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


__all__ = ["ThemeManager", "base_px", "color", "mono_family", "palette", "ui_font"]
