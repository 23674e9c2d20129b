"""What the OpenGL tests need: an X display with a 3.3 core context."""

import os
import sys
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import (
    QGuiApplication,
    QOffscreenSurface,
    QOpenGLContext,
    QSurfaceFormat,
)


@pytest.fixture
def gl_context() -> Iterator[QOpenGLContext]:
    """Return a current OpenGL 3.3 core context, or skip with the reason."""
    if sys.platform.startswith("linux") and not os.environ.get("DISPLAY"):
        pytest.skip("OpenGL tests need an X display; run them under xvfb-run")
    running = QCoreApplication.instance()
    if running is None:
        from PySide6.QtWidgets import QApplication

        running = QApplication([])
    if QGuiApplication.platformName() == "offscreen":
        pytest.skip("the running QApplication is offscreen, which has no OpenGL")
    expected = QSurfaceFormat()
    expected.setVersion(3, 3)
    expected.setProfile(QSurfaceFormat.OpenGLContextProfile.CoreProfile)
    surface = QOffscreenSurface()
    surface.setFormat(expected)
    surface.create()
    context = QOpenGLContext()
    context.setFormat(expected)
    if not context.create() or not context.makeCurrent(surface):
        pytest.skip("this display offers no OpenGL context")
    yield context
    context.doneCurrent()
    surface.destroy()
