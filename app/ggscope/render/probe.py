"""Checks of pictures and drivers without a window, for the self-test."""

from pathlib import Path

from PySide6.QtGui import QGuiApplication, QImage, QOffscreenSurface, QOpenGLContext

_MIN_COLORS = 8
"""A picture with fewer colours shows no spans."""
_STEP = 3
_GL_STRINGS = {"vendor": 0x1F00, "renderer": 0x1F01, "OpenGL": 0x1F02}


def is_blank(figure: Path) -> bool:
    """Return whether a PNG or SVG figure shows nothing, or cannot be decoded."""
    if figure.suffix == ".svg":
        text = figure.read_text("utf-8")
        return text.count("<rect") + text.count("<path") < _MIN_COLORS
    image = QImage(str(figure))
    colors: set[int] = set()
    for y in range(0, image.height(), _STEP):
        colors.update(image.pixel(x, y) for x in range(0, image.width(), _STEP))
    return len(colors) < _MIN_COLORS


def gl_facts() -> dict[str, str]:
    """Return what draws OpenGL here: platform, vendor, renderer and version.

    Makes a QGuiApplication; call it in a process of its own, since a broken driver
    may end it.
    """
    application = QGuiApplication(["ggscope"])
    surface, context = QOffscreenSurface(), QOpenGLContext()
    surface.create()
    facts = {"platform": application.platformName()}
    if not (context.create() and context.makeCurrent(surface)):
        return {**facts, "OpenGL": "not available"}
    functions = context.functions()
    for name, number in _GL_STRINGS.items():
        facts[name] = functions.glGetString(number) or "unknown"
    context.doneCurrent()
    return facts
