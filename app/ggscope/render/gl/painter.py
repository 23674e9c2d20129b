"""The OpenGL painter: display lists by instanced quads, OpenGL 3.3 core.

PyOpenGL is imported on first use, because it chooses between GLX and EGL once, at
import, and what the windows of this process use is known only then. All objects belong
to one context; docking and undocking a widget makes a new one, so the owner calls
`GlPainter.initialize` for each context and `release` before one goes.
"""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QPainter

from ggscope.render.batch import (
    AreaBatch,
    Batch,
    Clip,
    DisplayList,
    ImageBatch,
    LineBatch,
    Pattern,
    RectBatch,
)
from ggscope.render.gl.base import (
    GlError,
    Program,
    forget_context,
    gl_module,
    gl_string,
)
from ggscope.render.painter import (
    DASH_PX,
    DOT_SHADE,
    HATCH_LINE,
    HATCH_PERIOD,
    paint_texts,
)

_RECT = np.dtype([("bounds", np.float32, 4), ("style", np.uint32, 3)])
_LINE = np.dtype([("bounds", np.float32, 4), ("style", np.uint32)])
_PROGRAMS = {"rect": "rect", "plain": "rect", "line": "line", "image": "image"}
"""Fragment shader and the vertex shader that feeds it."""
_PATTERNS = (Pattern.HATCH, Pattern.FAINT_HATCH, Pattern.DOTTED)


class GlPainter:
    """Draws display lists into the current context.

    Every method but the constructor needs the context to be current.
    """

    def __init__(self) -> None:
        self._gl: Any = None
        self._programs: dict[str, Program] = {}
        self._texture = 0
        self._buffer = 0
        self._arrays: dict[str, int] = {}

    def initialize(self) -> None:
        """Build all objects for the current context; forget those of an older one.

        Raises
        ------
        GlError
            If the context is older than 3.3 or a shader does not compile.
        """
        self._gl = gl = gl_module()
        self._programs, self._arrays = {}, {}
        version = (
            gl.glGetIntegerv(gl.GL_MAJOR_VERSION),
            gl.glGetIntegerv(gl.GL_MINOR_VERSION),
        )
        if tuple(int(part) for part in version) < (3, 3):
            version_text = gl_string(gl, "GL_VERSION")
            raise GlError(f"OpenGL 3.3 is needed, this is {version_text}.")
        for name, vertex in _PROGRAMS.items():
            self._programs[name] = Program(gl, name, vertex)
        self._buffer = gl.glGenBuffers(1)
        self._arrays = {
            "rect": self._vertex_array(_RECT.itemsize, (4, 3)),
            "line": self._vertex_array(_LINE.itemsize, (4, 1)),
            "image": self._vertex_array(12, (3, 0)),
        }
        self._texture = gl.glGenTextures(1)
        gl.glBindTexture(gl.GL_TEXTURE_2D, self._texture)
        for key in (gl.GL_TEXTURE_MIN_FILTER, gl.GL_TEXTURE_MAG_FILTER):
            gl.glTexParameteri(gl.GL_TEXTURE_2D, key, gl.GL_NEAREST)
        gl.glBindTexture(gl.GL_TEXTURE_2D, 0)

    def release(self) -> None:
        """Free everything; `initialize` may be called again."""
        gl = self._gl
        if gl is None or not self._programs:
            return
        for program in self._programs.values():
            gl.glDeleteProgram(program.id)
        for array in self._arrays.values():
            gl.glDeleteVertexArrays(1, [array])
        gl.glDeleteBuffers(1, [self._buffer])
        gl.glDeleteTextures([self._texture])
        self._programs, self._arrays = {}, {}
        forget_context()

    def info(self) -> tuple[str, str, str]:
        """Return (vendor, renderer, version) of the current context."""
        gl = self._gl or gl_module()
        return (
            gl_string(gl, "GL_VENDOR"),
            gl_string(gl, "GL_RENDERER"),
            gl_string(gl, "GL_VERSION"),
        )

    def paint(self, picture: DisplayList, framebuffer: int = 0) -> None:
        """Draw everything but the texts into `framebuffer`.

        Bindings are reset afterwards, so that a QPainter may continue.
        """
        gl = self._gl
        width = max(round(picture.width * picture.scale), 1)
        height = max(round(picture.height * picture.scale), 1)
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, framebuffer)
        gl.glViewport(0, 0, width, height)
        gl.glDisable(gl.GL_SCISSOR_TEST)
        for state in (gl.GL_DEPTH_TEST, gl.GL_CULL_FACE, gl.GL_STENCIL_TEST):
            gl.glDisable(state)
        red, green, blue, _ = _channels(picture.background)
        gl.glClearColor(red, green, blue, 1.0)
        gl.glClear(gl.GL_COLOR_BUFFER_BIT)
        gl.glEnable(gl.GL_BLEND)
        gl.glBlendFuncSeparate(
            gl.GL_SRC_ALPHA,
            gl.GL_ONE_MINUS_SRC_ALPHA,
            gl.GL_ONE,
            gl.GL_ONE_MINUS_SRC_ALPHA,
        )
        self._set_frame(width, height, picture.scale)
        for batch in picture.batches:
            self._draw(batch, height, picture.scale)
        gl.glDisable(gl.GL_SCISSOR_TEST)
        gl.glDisable(gl.GL_BLEND)
        gl.glBindVertexArray(0)
        gl.glBindBuffer(gl.GL_ARRAY_BUFFER, 0)
        gl.glBindTexture(gl.GL_TEXTURE_2D, 0)
        gl.glUseProgram(0)

    def paint_text(self, picture: DisplayList, painter: QPainter) -> None:
        """Draw the texts, all on top, by `painter` on the same surface."""
        paint_texts(picture, painter)

    def _vertex_array(self, stride: int, parts: tuple[int, int]) -> int:
        """Return a vertex array of (float, uint) attributes, one per instance."""
        gl = self._gl
        array = int(gl.glGenVertexArrays(1))
        gl.glBindVertexArray(array)
        gl.glBindBuffer(gl.GL_ARRAY_BUFFER, self._buffer)
        n_floats, n_words = parts
        gl.glEnableVertexAttribArray(0)
        gl.glVertexAttribPointer(
            0, n_floats, gl.GL_FLOAT, gl.GL_FALSE, stride, ctypes.c_void_p(0)
        )
        gl.glVertexAttribDivisor(0, 1)
        if n_words:
            gl.glEnableVertexAttribArray(1)
            gl.glVertexAttribIPointer(
                1, n_words, gl.GL_UNSIGNED_INT, stride, ctypes.c_void_p(4 * n_floats)
            )
            gl.glVertexAttribDivisor(1, 1)
        gl.glBindVertexArray(0)
        return array

    def _set_frame(self, width: int, height: int, scale: float) -> None:
        """Set the uniforms that all batches of a frame share."""
        gl = self._gl
        for program in self._programs.values():
            gl.glUseProgram(program.id)
            gl.glUniform2f(program["size"], width / scale, height / scale)
        rect = self._programs["rect"]
        gl.glUseProgram(rect.id)
        gl.glUniform1f(rect["device_height"], height)
        gl.glUniform1f(rect["scale"], scale)
        gl.glUniform1f(rect["dot_shade"], DOT_SHADE)
        gl.glUniform3i(
            rect["period"], *(max(2, round(HATCH_PERIOD[p] * scale)) for p in _PATTERNS)
        )
        gl.glUniform3i(
            rect["thickness"],
            *(max(1, round(HATCH_LINE[p] * scale)) for p in _PATTERNS),
        )

    def _draw(self, batch: Batch, height: int, scale: float) -> None:
        if isinstance(batch, RectBatch):
            if batch.echo:
                return
            self._clip(batch.clip, height, scale)
            self._draw_rects(rect_instances(batch), batch.radius)
        elif isinstance(batch, ImageBatch):
            self._clip(batch.clip, height, scale)
            self._draw_image(batch)
        elif isinstance(batch, LineBatch):
            self._clip(batch.clip, height, scale)
            self._draw_lines(batch)
        elif isinstance(batch, AreaBatch):
            self._clip(batch.clip, height, scale)
            self._draw_rects(area_instances(batch), 0.0)

    def _clip(self, clip: Clip | None, height: int, scale: float) -> None:
        gl = self._gl
        if clip is None:
            gl.glDisable(gl.GL_SCISSOR_TEST)
            return
        x0, x1 = round(clip.x * scale), round((clip.x + clip.width) * scale)
        y0, y1 = round(clip.y * scale), round((clip.y + clip.height) * scale)
        gl.glEnable(gl.GL_SCISSOR_TEST)
        gl.glScissor(x0, height - y1, max(x1 - x0, 0), max(y1 - y0, 0))

    def _upload(self, kind: str, data: npt.NDArray[Any]) -> None:
        gl = self._gl
        gl.glBindVertexArray(self._arrays[kind])
        gl.glBindBuffer(gl.GL_ARRAY_BUFFER, self._buffer)
        gl.glBufferData(
            gl.GL_ARRAY_BUFFER, data.nbytes, data.view(np.uint8), gl.GL_STREAM_DRAW
        )

    def _draw_rects(self, instances: npt.NDArray[Any], radius: float) -> None:
        if not len(instances):
            return
        gl = self._gl
        # Software GL costs per pixel: plain fills take a simpler shader.
        is_plain = radius == 0 and not instances["style"][:, 1:].any()
        program = self._programs["plain" if is_plain else "rect"]
        gl.glUseProgram(program.id)
        if not is_plain:
            gl.glUniform1f(program["radius"], radius)
        self._upload("rect", instances)
        gl.glDrawArraysInstanced(gl.GL_TRIANGLE_STRIP, 0, 4, len(instances))

    def _draw_lines(self, batch: LineBatch) -> None:
        if not len(batch.color):
            return
        gl, program = self._gl, self._programs["line"]
        instances = np.empty(len(batch.color), _LINE)
        instances["bounds"] = np.stack([batch.x0, batch.y0, batch.x1, batch.y1], 1)
        instances["style"] = batch.color
        gl.glUseProgram(program.id)
        gl.glUniform1f(program["width"], batch.width)
        gl.glUniform1f(program["dash"], DASH_PX if batch.dashed else 0.0)
        self._upload("line", instances)
        gl.glDrawArraysInstanced(gl.GL_TRIANGLE_STRIP, 0, 4, len(instances))

    def _draw_image(self, batch: ImageBatch) -> None:
        rows, columns = batch.pixels.shape
        if not rows or not columns:
            return
        gl, program = self._gl, self._programs["image"]
        pixels = np.ascontiguousarray(batch.straight())
        gl.glUseProgram(program.id)
        gl.glBindTexture(gl.GL_TEXTURE_2D, self._texture)
        gl.glPixelStorei(gl.GL_UNPACK_ALIGNMENT, 4)
        gl.glTexImage2D(
            gl.GL_TEXTURE_2D,
            0,
            gl.GL_RGBA8,
            columns,
            rows,
            0,
            gl.GL_BGRA,
            gl.GL_UNSIGNED_INT_8_8_8_8_REV,
            pixels,
        )
        gl.glUniform2f(program["span"], batch.x0, batch.x1)
        gl.glUniform1i(program["columns"], columns)
        gl.glUniform1i(program["texels"], 0)
        places = np.stack([batch.y0, batch.y1, np.arange(rows)], axis=1)
        self._upload("image", np.ascontiguousarray(places, np.float32))
        gl.glDrawArraysInstanced(gl.GL_TRIANGLE_STRIP, 0, 4, rows)


def rect_instances(batch: RectBatch) -> npt.NDArray[Any]:
    """Return what the rectangle shader reads, one record per rectangle."""
    instances = np.zeros(len(batch.fill), _RECT)
    instances["bounds"] = np.stack([batch.x0, batch.y0, batch.x1, batch.y1], axis=1)
    instances["style"][:, 0] = batch.fill
    if batch.border is not None:
        instances["style"][:, 1] = batch.border
    if batch.pattern is not None:
        instances["style"][:, 2] = batch.pattern
    return instances


def area_instances(batch: AreaBatch) -> npt.NDArray[Any]:
    """Return a curve as rectangles: the steps, then their upper edge."""
    n = len(batch.y)
    x0, x1 = batch.x[:-1], batch.x[1:]
    steps = np.zeros(n if batch.fill >> 24 else 0, _RECT)
    if len(steps):
        low, high = np.minimum(batch.y, batch.base), np.maximum(batch.y, batch.base)
        steps["bounds"] = np.stack([x0, low, x1, high], axis=1)
        steps["style"][:, 0] = batch.fill
    if not n or not batch.line >> 24:
        return steps
    edge = np.zeros(2 * n - 1, _RECT)
    edge["style"][:, 0] = batch.line
    edge["bounds"][:n] = np.stack([x0, batch.y - 0.5, x1, batch.y + 0.5], axis=1)
    before, after = batch.y[:-1], batch.y[1:]
    edge["bounds"][n:] = np.stack(
        [
            x1[:-1] - 0.5,
            np.minimum(before, after) - 0.5,
            x1[:-1] + 0.5,
            np.maximum(before, after) + 0.5,
        ],
        axis=1,
    )
    return np.concatenate([steps, edge])


def _channels(argb: int) -> tuple[float, float, float, float]:
    return tuple(((argb >> shift) & 255) / 255 for shift in (16, 8, 0, 24))  # type: ignore[return-value]  # four of them
