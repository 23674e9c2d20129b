"""What all OpenGL parts share: the module, its errors, and linked programs."""

import os
import sys
from types import ModuleType
from typing import Any

from PySide6.QtGui import QGuiApplication

from ggscope import assets

SOFTWARE_RENDERERS = ("llvmpipe", "softpipe", "swiftshader", "software", "gdi generic")


class GlError(RuntimeError):
    """OpenGL cannot draw here; the message says why."""


def is_software(renderer: str) -> bool:
    """Return whether GL_RENDERER `renderer` computes on the processor."""
    name = renderer.lower()
    return any(word in name for word in SOFTWARE_RENDERERS)


def current_renderer() -> str:
    """Return GL_RENDERER of the current context."""
    return gl_string(gl_module(), "GL_RENDERER")


def gl_module() -> ModuleType:
    """Return PyOpenGL's GL module, imported for the platform that Qt runs on."""
    if "OpenGL" not in sys.modules:
        name = QGuiApplication.platformName()
        uses_egl = name.startswith(("wayland", "eglfs")) or (
            os.environ.get("QT_XCB_GL_INTEGRATION") == "xcb_egl"
        )
        if sys.platform.startswith("linux"):
            os.environ.setdefault("PYOPENGL_PLATFORM", "egl" if uses_egl else "glx")
        import OpenGL

        # A check after each call costs more than the call; `initialize` asks once.
        OpenGL.ERROR_CHECKING = False
        OpenGL.ERROR_LOGGING = False
    from OpenGL import GL

    return GL  # type: ignore[no-any-return]  # PyOpenGL has no types


def forget_context() -> None:
    """Let PyOpenGL forget the pointers that the current context was ever given."""
    from OpenGL import contextdata

    contextdata.cleanupContext()


def gl_string(gl: ModuleType, name: str) -> str:
    """Return string `name` of the current context, "" where it has none."""
    value = gl.glGetString(getattr(gl, name))
    return value.decode("utf-8", "replace") if value else ""


class Program:
    """A linked shader program and the places of its uniforms.

    Parameters
    ----------
    name, vertex : names of the fragment and the vertex shader among the resources.

    Raises
    ------
    GlError
        If a shader does not compile or the two do not link.
    """

    def __init__(self, gl: Any, name: str, vertex: str) -> None:
        self._gl = gl
        self.id = gl.glCreateProgram()
        self._places: dict[str, int] = {}
        for file, kind in (
            (f"{vertex}.vert", gl.GL_VERTEX_SHADER),
            (f"{name}.frag", gl.GL_FRAGMENT_SHADER),
        ):
            shader = gl.glCreateShader(kind)
            source = assets.path(f"shaders/{file}").read_text("utf-8")
            gl.glShaderSource(shader, source)
            gl.glCompileShader(shader)
            if not gl.glGetShaderiv(shader, gl.GL_COMPILE_STATUS):
                log = gl.glGetShaderInfoLog(shader)
                raise GlError(f"{file} does not compile: {_text(log)}")
            gl.glAttachShader(self.id, shader)
            gl.glDeleteShader(shader)
        gl.glLinkProgram(self.id)
        if not gl.glGetProgramiv(self.id, gl.GL_LINK_STATUS):
            log = gl.glGetProgramInfoLog(self.id)
            raise GlError(f"{name} does not link: {_text(log)}")

    def __getitem__(self, uniform: str) -> int:
        """Return the place of a uniform; -1, which OpenGL ignores, if unused."""
        if uniform not in self._places:
            self._places[uniform] = self._gl.glGetUniformLocation(self.id, uniform)
        return self._places[uniform]


def _text(log: bytes | str) -> str:
    return log.decode("utf-8", "replace") if isinstance(log, bytes) else log
