"""Column pictures found by the graphics card: search, sums and hues in shaders.

Two passes: one fragment per row and column edge searches the row, then one per row
and column compares what lies before its two edges. All ticks are whole numbers of 64
bits in two words, so the texels are those of ``texels.column_pixels``; only the
rounding of an opacity may differ by 1/255.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.columns import RowColumns, column_edges
from ggscope.analysis.rows.rows import make_row
from ggscope.model.units import TimeRange
from ggscope.render.batch import U32, ColumnBatch, ColumnRow
from ggscope.render.gl.base import GlError, Program, first_error
from ggscope.render.gl.gpu_buffers import NAMES, PAGE_UNITS, TIMES, Page
from ggscope.render.gl.row_store import BUDGET_BYTES, Held, RowStore
from ggscope.render.texels import FLOOR, resolved

_UNITS = (
    "starts",
    "ends",
    "prefix",
    "categories",
    "sums",
    "rows",
    "edges",
    "colors",
    "found",
)
"""Texture units, in order; the names are those of the samplers."""
_FRAME_BUFFERS = {"rows": "GL_RGBA32UI", "edges": "GL_RG32UI", "colors": "GL_RG32UI"}
"""Texture buffers that are filled anew for each frame."""


@dataclass(frozen=True, slots=True, eq=False)
class _HeldRow:
    """One row of the target."""

    row: ColumnRow
    held: Held

    @property
    def pages(self) -> tuple[Page, Page | None]:
        names = self.held.names
        page = None if names is None or names.place is None else names.place.page
        return self.held.times.page, page


class GpuSearch:
    """Draws column batches into a texture of its own.

    Every method but the constructor needs the context to be current.

    Parameters
    ----------
    budget_bytes, page_units : of the `RowStore`.

    Raises
    ------
    GlError
        If a shader does not compile, or the card fails the self-check.
    """

    def __init__(
        self, gl: Any, budget_bytes: int = BUDGET_BYTES, page_units: int = PAGE_UNITS
    ) -> None:
        self._gl = gl
        limit = int(gl.glGetIntegerv(gl.GL_MAX_TEXTURE_BUFFER_SIZE))
        self._max_side = int(gl.glGetIntegerv(gl.GL_MAX_TEXTURE_SIZE))
        self.store = RowStore(gl, limit, budget_bytes, page_units)
        self._programs = [Program(gl, name, "search") for name in ("edges", "columns")]
        self._array = int(gl.glGenVertexArrays(1))
        self._buffers: dict[str, tuple[int, int]] = {}
        for name, texel in _FRAME_BUFFERS.items():
            self._buffers[name] = self._make_buffer(getattr(gl, texel))
        self._found = _Target(gl, gl.GL_RGBA32UI)
        self._texels = _Target(gl, gl.GL_RGBA8, n_textures=2)
        self._places: dict[int, npt.NDArray[np.float32]] = {}
        self._drawn: tuple[object, ...] = ()
        for program in self._programs:
            gl.glUseProgram(program.id)
            for unit, sampler in enumerate(_UNITS):
                gl.glUniform1i(program[sampler], unit)
        gl.glUniform1f(self._programs[1]["floor_opacity"], FLOOR)
        gl.glUseProgram(0)
        error = first_error(gl)
        if error:
            raise GlError(f"the search cannot be set up (error {error:#x})")

    @property
    def texture(self) -> int:
        """The texture with the texels of the last `draw`."""
        return self._texels.textures[0]

    @property
    def feet_texture(self) -> int:
        """The texture with the feet of the columns of the last `draw`."""
        return self._texels.textures[1]

    def release(self) -> None:
        """Free everything."""
        gl = self._gl
        self.store.release()
        for program in self._programs:
            gl.glDeleteProgram(program.id)
        gl.glDeleteVertexArrays(1, [self._array])
        for buffer, texture in self._buffers.values():
            gl.glDeleteTextures([texture])
            gl.glDeleteBuffers(1, [buffer])
        self._found.release()
        self._texels.release()
        self._places.clear()

    def draw(self, batches: Sequence[ColumnBatch]) -> None:
        """Find the columns of all batches of a frame that are on the card.

        Where a batch went is told by `rows_of`. Leaves other framebuffers, textures
        and the viewport bound than it finds.
        """
        self._places = {}
        if not batches:
            return
        by_edges: dict[int, list[ColumnBatch]] = {}
        for batch in batches:
            by_edges.setdefault(id(batch.edges), []).append(batch)
        if len(by_edges) > 1:
            # One picture has one time scale; anything else goes the slow way.
            batches = next(iter(by_edges.values()))
        listed: list[tuple[_HeldRow, int, int]] = []
        for number, batch in enumerate(batches):
            found = [self._held_row(row) for row in batch.rows]
            if None in found or len(listed) + len(found) > self._max_side:
                continue
            self._places[id(batch)] = np.zeros(len(found), np.float32)
            listed += [(row, number, i) for i, row in enumerate(found) if row]
        if not listed or len(batches[0].edges) > self._max_side:
            self._places = {}
            return
        listed.sort(key=lambda item: _serials(item[0]))
        for y, (_, number, i) in enumerate(listed):
            self._places[id(batches[number])][i] = y
        self._run([row for row, _, _ in listed], batches[0].edges)

    def rows_of(self, batch: ColumnBatch) -> npt.NDArray[np.float32] | None:
        """Return the row of the texture of each row of a batch, float32[rows].

        None where the card does not hold them all.
        """
        return self._places.get(id(batch))

    def read_back(self) -> U32:
        """Return the texels of the last `draw`, uint32[rows, columns], 0xAARRGGBB."""
        return self._texels.read()

    def read_feet(self) -> U32:
        """Return the feet of the last `draw`, uint32[rows, columns], 0xAARRGGBB."""
        return self._texels.read(1)

    def check(self) -> None:
        """Let the card draw a known row and compare.

        Raises
        ------
        GlError
            If the texels are not those of the processor.
        """
        columns, by_id, batch = _known_batch()
        self.store.begin_frame()
        if self.store.hold(columns, by_id, 3) is None:
            self.store.work()
        self.draw([batch])
        places = self.rows_of(batch)
        if places is None:
            raise GlError("the card does not take rows of spans")
        rows = places.astype(np.int64)
        drawn, feet = self.read_back()[rows], self.read_feet()[rows]
        error = first_error(self._gl)
        if error:
            raise GlError(f"the search failed (error {error:#x})")
        both = np.stack([drawn, feet], axis=1).reshape(-1, drawn.shape[1])
        if not are_equal(both, resolved(batch).pixels):
            raise GlError("the search draws other columns than the processor")

    # --- one frame ---------------------------------------------------------

    def _held_row(self, row: ColumnRow) -> _HeldRow | None:
        held = self.store.held(row.columns, in_hues=len(row.colors) > 1)
        return None if held is None else _HeldRow(row, held)

    def _run(self, held_rows: list[_HeldRow], edges: npt.NDArray[np.int64]) -> None:
        gl = self._gl
        table, colors = row_table(held_rows)
        data = [part.tobytes() for part in (edges, table, colors)]
        wanted = (*data, *map(_serials, held_rows))
        if wanted == self._drawn:
            return
        self._drawn = ()
        self._fill("rows", table)
        self._fill("edges", edges)
        self._fill("colors", colors)
        for state in (gl.GL_SCISSOR_TEST, gl.GL_BLEND, gl.GL_CULL_FACE, gl.GL_DITHER):
            gl.glDisable(state)
        gl.glBindVertexArray(self._array)
        n = len(edges)
        for program, target, width in zip(
            self._programs, (self._found, self._texels), (n, n - 1), strict=True
        ):
            gl.glUseProgram(program.id)
            target.begin(width, len(held_rows))
            if target is self._texels:
                gl.glActiveTexture(gl.GL_TEXTURE0 + _UNITS.index("found"))
                gl.glBindTexture(gl.GL_TEXTURE_2D, self._found.textures[0])
            first = 0
            for (times, names), group in groupby(held_rows, key=lambda row: row.pages):
                count = len(list(group))
                self._bind_pages(times, names)
                gl.glViewport(0, first, width, count)
                gl.glDrawArrays(gl.GL_TRIANGLES, 0, 3)
                first += count
        self._unbind()
        self._drawn = wanted

    def _bind_pages(self, times: Page, names: Page | None) -> None:
        gl = self._gl
        for unit, name in enumerate(_UNITS[:5]):
            page = times if name in times.textures else names
            if page is not None:
                gl.glActiveTexture(gl.GL_TEXTURE0 + unit)
                gl.glBindTexture(gl.GL_TEXTURE_BUFFER, page.textures[name])

    def _unbind(self) -> None:
        gl = self._gl
        for unit, name in enumerate(_UNITS):
            gl.glActiveTexture(gl.GL_TEXTURE0 + unit)
            is_plain = name == "found"
            gl.glBindTexture(gl.GL_TEXTURE_2D if is_plain else gl.GL_TEXTURE_BUFFER, 0)
        gl.glActiveTexture(gl.GL_TEXTURE0)
        gl.glEnable(gl.GL_DITHER)
        gl.glBindVertexArray(0)
        gl.glUseProgram(0)

    def _fill(self, name: str, data: npt.NDArray[Any]) -> None:
        gl = self._gl
        buffer, texture = self._buffers[name]
        gl.glBindBuffer(gl.GL_TEXTURE_BUFFER, buffer)
        gl.glBufferData(
            gl.GL_TEXTURE_BUFFER,
            data.nbytes,
            np.ascontiguousarray(data).view(np.uint8),
            gl.GL_STREAM_DRAW,
        )
        gl.glBindBuffer(gl.GL_TEXTURE_BUFFER, 0)
        gl.glActiveTexture(gl.GL_TEXTURE0 + _UNITS.index(name))
        gl.glBindTexture(gl.GL_TEXTURE_BUFFER, texture)

    def _make_buffer(self, texel: int) -> tuple[int, int]:
        gl = self._gl
        buffer, texture = int(gl.glGenBuffers(1)), int(gl.glGenTextures(1))
        gl.glBindBuffer(gl.GL_TEXTURE_BUFFER, buffer)
        gl.glBufferData(gl.GL_TEXTURE_BUFFER, 16, None, gl.GL_STREAM_DRAW)
        gl.glBindTexture(gl.GL_TEXTURE_BUFFER, texture)
        gl.glTexBuffer(gl.GL_TEXTURE_BUFFER, texel, buffer)
        gl.glBindTexture(gl.GL_TEXTURE_BUFFER, 0)
        gl.glBindBuffer(gl.GL_TEXTURE_BUFFER, 0)
        return buffer, texture


class _Target:
    """Textures that are drawn into together; they grow and never shrink."""

    def __init__(self, gl: Any, texel: int, n_textures: int = 1) -> None:
        self._gl, self._texel = gl, texel
        self._room = (0, 0)
        self._size = (0, 0)
        self.textures = [int(gl.glGenTextures(1)) for _ in range(n_textures)]
        self._framebuffer = int(gl.glGenFramebuffers(1))

    def begin(self, width: int, height: int) -> None:
        """Make room for so many texels and draw into them from now on."""
        gl = self._gl
        self._size = (width, height)
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, self._framebuffer)
        if width <= self._room[0] and height <= self._room[1]:
            return
        self._room = (max(width, self._room[0]), max(height, self._room[1]))
        is_whole = self._texel == gl.GL_RGBA32UI
        kind = gl.GL_UNSIGNED_INT if is_whole else gl.GL_UNSIGNED_BYTE
        layout = gl.GL_RGBA_INTEGER if is_whole else gl.GL_RGBA
        places = [self._place(i) for i in range(len(self.textures))]
        gl.glActiveTexture(gl.GL_TEXTURE0 + len(_UNITS))
        for texture, place in zip(self.textures, places, strict=True):
            gl.glBindTexture(gl.GL_TEXTURE_2D, texture)
            gl.glTexImage2D(
                gl.GL_TEXTURE_2D, 0, self._texel, *self._room, 0, layout, kind, None
            )
            for key in (gl.GL_TEXTURE_MIN_FILTER, gl.GL_TEXTURE_MAG_FILTER):
                gl.glTexParameteri(gl.GL_TEXTURE_2D, key, gl.GL_NEAREST)
            gl.glFramebufferTexture2D(
                gl.GL_FRAMEBUFFER, place, gl.GL_TEXTURE_2D, texture, 0
            )
        gl.glBindTexture(gl.GL_TEXTURE_2D, 0)
        gl.glDrawBuffers(len(places), places)
        state = int(gl.glCheckFramebufferStatus(gl.GL_FRAMEBUFFER))
        if state != gl.GL_FRAMEBUFFER_COMPLETE:
            raise GlError(f"the card cannot draw into such a texture ({state:#x})")

    def read(self, number: int = 0) -> U32:
        """Return what was drawn into a texture, uint32[height, width], 0xAARRGGBB."""
        gl = self._gl
        width, height = self._size
        pixels = np.empty((height, width), np.uint32)
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, self._framebuffer)
        gl.glReadBuffer(self._place(number))
        gl.glPixelStorei(gl.GL_PACK_ALIGNMENT, 4)
        gl.glReadPixels(
            0, 0, width, height, gl.GL_BGRA, gl.GL_UNSIGNED_INT_8_8_8_8_REV, pixels
        )
        return pixels

    def release(self) -> None:
        """Free the textures."""
        self._gl.glDeleteFramebuffers(1, [self._framebuffer])
        self._gl.glDeleteTextures(self.textures)

    def _place(self, number: int) -> int:
        return int(self._gl.GL_COLOR_ATTACHMENT0) + number


def row_table(held_rows: Sequence[_HeldRow]) -> tuple[U32, U32]:
    """Return (rows, colours) as the shaders read them.

    Returns
    -------
    rows : uint32[3 * len(held_rows), 4]. Per row: offset of its times, low and high end
        of the search, spans; offset of its categories and of its sums, number of
        categories, spans per sum; first colour, strength as the bits of a float32.
    colours : uint32[n, 2], 0xAARRGGBB: of a category, and of its foot (0 = none).
    """
    table = np.zeros((len(held_rows), 12), np.uint32)
    parts: list[U32] = []
    known: dict[tuple[int, int], int] = {}
    n_colors = 0
    for y, held_row in enumerate(held_rows):
        row, held = held_row.row, held_row.held
        table[y, :4] = (held.times.offset, row.low, row.high, held.n_spans)
        names, colors, key = held.names, row.colors, (id(row.colors), id(row.feet))
        feet = np.zeros_like(colors) if row.feet is None else row.feet
        if names is None or names.place is None:
            table[y, 6:8] = (1, 32)
        else:
            table[y, 4] = names.place.offset
            table[y, 5] = names.place.offset // NAMES[1].units_per_texel
            table[y, 6:8] = (names.n_categories, names.bucket)
            if names.names is not None:
                colors, feet = colors[names.names], feet[names.names]
                key = (id(names), id(row.feet))
        if key not in known:
            known[key] = n_colors
            parts.append(np.stack([colors, feet], axis=1))
            n_colors += len(colors)
        table[y, 8] = known[key]
        table[y, 9] = np.float32(row.strength).view(np.uint32)
    return table.reshape(-1, 4), np.concatenate(parts)


def are_equal(a: U32, b: U32) -> bool:
    """Tell whether two pictures agree: in hue exactly, in opacity to within 1/255."""
    if a.shape != b.shape:
        return False
    of_a, of_b = ((x >> np.uint32(24)).astype(np.int64) for x in (a, b))
    seen = (of_a > 0) | (of_b > 0)
    hue_differs = ((a ^ b) & np.uint32(0xFFFFFF)) > 0
    return not ((np.abs(of_a - of_b) > 1) | (hue_differs & seen)).any()


def _serials(row: _HeldRow) -> tuple[int, int]:
    times, names = row.pages
    return times.serial, 0 if names is None else names.serial


def _known_batch() -> tuple[RowColumns, npt.NDArray[np.uint8], ColumnBatch]:
    """Return a row in which every branch of the shaders is taken, and its picture."""
    rng = np.random.default_rng(3)
    n = 3000
    length = rng.integers(0, 1 << 20, n)
    length[rng.integers(0, n, 300)] = 0
    length[1500] = 1 << 29
    # Beyond 2^53, and over a border of the low word.
    end = np.cumsum(length + rng.integers(0, 1 << 18, n)) + (1 << 55) - (1 << 29)
    row = make_row(end - length, end, np.arange(n, dtype=np.int32))
    by_id = rng.integers(0, 3, n).astype(np.uint8)
    columns = RowColumns(row, by_id, 3)
    first, last = int(row.start[0]), int(row.end[-1])
    edges = column_edges(TimeRange(first - 1000, last + 1000), 97)
    colors = np.array([0xFF102030, 0xFFC0A080, 0xFF0000FF, 0xFFFFFFFF], np.uint32)
    low, high = np.searchsorted(row.start, edges[[0, -1]]).tolist()
    feet = np.array([0xFF405060, 0xFFC0A080, 0xFF8080FF, 0xFFFFFFFF], np.uint32)
    rows = (ColumnRow(columns, colors, 1.0, low, high, feet),)
    top, foot, bottom = np.arange(3, dtype=np.float32)[:, None]
    batch = ColumnBatch(rows, edges, 0.0, 97.0, top, bottom, foot=foot)
    return columns, by_id, batch


assert {c.name for c in (*TIMES, *NAMES)} == set(_UNITS[:5])
