"""Themes: contrast, live switching, sizes."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QLineEdit,
    QToolTip,
)
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from ggscope.gui import theme as theme_module
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.start import StartPage
from ggscope.gui.theme import ThemeManager, base_px, style_sheet
from ggscope.gui.widgets import MIN_TARGET, GlyphButton
from ggscope.render.theme import contrast, css, mix, theme
from ggscope.session.settings import Settings
from ggscope.views.base.safe_text import ElidedLabel, Label
from ggscope.views.base.widgets import set_label_color

AA = 4.5


@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize("token", ["text", "dim", "accent", "caution", "error"])
@pytest.mark.parametrize("ground", ["window", "pane", "raised", "lane"])
def test_text_contrast_is_aa(name: str, token: str, ground: str) -> None:
    colors = theme(name)

    assert contrast(getattr(colors, token), getattr(colors, ground)) >= AA


@pytest.mark.parametrize("name", ["dark", "light"])
def test_text_on_tinted_grounds_is_aa(name: str) -> None:
    colors = theme(name)
    on_accent = colors.window if colors.is_dark else colors.pane

    assert contrast(on_accent, colors.accent) >= AA
    for tint, share in ((colors.accent, 0.28), (colors.selection, 0.16),
                        (colors.caution, 0.12), (colors.error, 0.12)):  # fmt: skip
        assert contrast(colors.text, mix(colors.pane, tint, share)) >= AA


@pytest.mark.parametrize("name", ["dark", "light"])
def test_style_sheet_is_complete_and_understood(
    name: str, qtbot: QtBot, recwarn: pytest.WarningsRecorder
) -> None:
    sheet = style_sheet(theme(name), 12)
    edit = QLineEdit()
    qtbot.addWidget(edit)
    edit.setStyleSheet(sheet)

    assert "$" not in sheet
    assert sheet.count("{") == sheet.count("}")
    assert css(theme(name).accent) in sheet
    assert "none" not in sheet.split("QComboBox::down-arrow")[1].split(";")[0]


def test_theme_switches_live(window: MainWindow, settings: Settings) -> None:
    app = QApplication.instance()
    dark = app.palette().color(QPalette.ColorRole.Window).name()
    assert dark == css(theme("dark").window)

    settings.change("appearance", theme="light")

    light = app.palette().color(QPalette.ColorRole.Window).name()
    assert light == css(theme("light").window)


def test_system_theme_follows_the_desktop(
    qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = ThemeManager(qapp, Settings())

    for scheme, name in (
        (Qt.ColorScheme.Light, "light"),
        (Qt.ColorScheme.Dark, "dark"),
    ):
        # The offscreen platform has no scheme of its own to change.
        monkeypatch.setattr(theme_module, "system_scheme", lambda s=scheme: s)
        qapp.styleHints().colorSchemeChanged.emit(scheme)
        assert manager.current.name == name
    manager.deleteLater()


def test_command_line_wins_until_the_settings_change(qapp: QApplication) -> None:
    settings = Settings()
    settings.change("appearance", theme="dark")
    manager = ThemeManager(qapp, settings, "light")
    assert manager.current.name == "light"

    settings.change("appearance", font_scale=110)

    assert manager.current.name == "dark"
    manager.deleteLater()


@pytest.mark.parametrize("scale", [75, 100, 200])
def test_font_scale_changes_the_font(
    window: MainWindow, settings: Settings, scale: int
) -> None:
    settings.change("appearance", font_scale=scale)

    assert QApplication.font().pixelSize() == base_px(scale)
    settings.change("appearance", font_scale=100)


@pytest.mark.parametrize("scale", [75, 100, 150])
def test_targets_are_never_under_24_px(
    window: MainWindow, settings: Settings, qtbot: QtBot, scale: int
) -> None:
    settings.change("appearance", font_scale=scale)
    page = window.findChild(StartPage)
    qtbot.wait(10)

    small = [
        (type(b).__name__, b.text(), b.size())
        for kind in (QAbstractButton, QComboBox)
        for b in page.findChildren(kind)
        if b.isVisible() and min(b.width(), b.height()) < MIN_TARGET
    ]

    assert small == []
    settings.change("appearance", font_scale=100)


def test_glyph_button_has_text_tooltip_and_name(qtbot: QtBot) -> None:
    button = GlyphButton("close", "Close it")
    qtbot.addWidget(button)

    assert button.text() == "Close it"
    assert button.toolTip() == "Close it"
    assert button.accessibleName() == "Close it"
    assert min(button.sizeHint().width(), button.sizeHint().height()) >= MIN_TARGET


def test_elided_label_keeps_the_whole_text_in_its_tooltip(qtbot: QtBot) -> None:
    text = "a very long name " * 100
    label = ElidedLabel(text=text)
    qtbot.addWidget(label)
    label.resize(200, 20)
    label.show()

    assert "…" in label.text()
    assert label.full_text == text
    assert label.toolTip().startswith("a very long name")
    assert label.minimumSizeHint().width() <= 200 or label.minimumWidth() <= 24


@pytest.mark.parametrize("name", ["dark", "light"])
def test_tooltip_of_a_coloured_label_looks_like_any_other(
    window: MainWindow, settings: Settings, qtbot: QtBot, name: str
) -> None:
    settings.change("appearance", theme=name)
    plain, colored = Label("text", window), Label("text", window)
    set_label_color(colored, theme(name).error)

    pictures = []
    for label in (plain, colored):
        QToolTip.showText(QPoint(9, 9), "what the tooltip says", label)
        tips = [w for w in QApplication.topLevelWidgets() if w.inherits("QTipLabel")]
        (tip,) = (w for w in tips if w.isVisible())
        pictures.append(tip.grab().toImage())
        QToolTip.hideText()
        qtbot.waitUntil(lambda tip=tip: not isValid(tip) or not tip.isVisible())

    assert pictures[0] == pictures[1]
    ground = pictures[0].pixelColor(4, pictures[0].height() // 2).name()
    assert ground == css(theme(name).raised)
    assert css(theme(name).error) in colored.styleSheet()
