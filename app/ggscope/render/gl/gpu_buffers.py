"""Texture buffers of the graphics card in pages, into which rows are laid."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.render.gl.base import GlError, first_error

PAGE_UNITS = 1 << 22
"""Spans per page at most, save for rows that are longer; pages start small."""
_FIRST_UNITS = 1 << 18


@dataclass(frozen=True, slots=True)
class Channel:
    """One texture buffer of a page.

    Attributes
    ----------
    format : name of the sized internal format.
    texel_bytes : of that format.
    units_per_texel : spans that share a texel.
    """

    name: str
    format: str
    texel_bytes: int
    units_per_texel: int = 1


TIMES = (
    Channel("starts", "GL_RG32UI", 8),
    Channel("ends", "GL_RG32UI", 8),
    Channel("prefix", "GL_RG32UI", 8, 16),
)
NAMES = (Channel("categories", "GL_R8UI", 1), Channel("sums", "GL_RG32UI", 8, 4))
ALIGNMENT = 64
"""Units to a multiple of which every place is rounded; suits every channel."""


@dataclass(slots=True, eq=False)
class Page:
    """Texture buffers of one kind, handed out from the front.

    Attributes
    ----------
    units : spans that fit.
    used : units handed out; what is given back is not used again before the page
        is empty.
    live : places in use.
    last_used : frame in which one of them was last drawn.
    serial : number that no other page has.
    """

    channels: tuple[Channel, ...]
    units: int
    n_bytes: int
    buffers: dict[str, int] = field(default_factory=dict)
    textures: dict[str, int] = field(default_factory=dict)
    used: int = 0
    live: int = 0
    last_used: int = 0
    serial: int = field(default_factory=count(1).__next__)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where something lies: `offset` units from the front of `page`."""

    page: Page
    offset: int


class Pages:
    """All pages of one context, within a budget.

    Parameters
    ----------
    budget_bytes : that all pages together may take.
    max_texels : of one texture buffer, at most GL_MAX_TEXTURE_BUFFER_SIZE.
    page_units : see `PAGE_UNITS`; tests make pages small.

    Notes
    -----
    Needs the context to be current wherever pages are made or freed.
    """

    def __init__(
        self, gl: Any, budget_bytes: int, max_texels: int, page_units: int = PAGE_UNITS
    ) -> None:
        self._gl = gl
        self._budget = budget_bytes
        self._max_units = max_texels // ALIGNMENT * ALIGNMENT
        self._page_units = _aligned(page_units)
        self.pages: list[Page] = []

    @property
    def n_bytes(self) -> int:
        """Bytes that all pages take."""
        return sum(page.n_bytes for page in self.pages)

    def can_ever_hold(self, channels: tuple[Channel, ...], units: int) -> bool:
        """Tell whether so many units fit into one page of an empty card."""
        units = _aligned(units)
        return units <= self._max_units and _size(channels, units) <= self._budget

    def take(self, channels: tuple[Channel, ...], units: int) -> Place | None:
        """Return a place of so many units, or None where the budget is used up."""
        units = _aligned(units)
        for page in self.pages:
            if page.channels is channels and page.used + units <= page.units:
                return self._hand_out(page, units)
        page_units = self._new_units(channels, units)
        if page_units < units:
            return None
        return self._hand_out(self._make(channels, page_units), units)

    def give_back(self, place: Place) -> None:
        """Give a place back; an empty page is freed at once."""
        place.page.live -= 1
        if not place.page.live:
            self.free(place.page)

    def free(self, page: Page) -> None:
        """Free a page, whatever lies on it."""
        if page not in self.pages:
            return
        self.pages.remove(page)
        if page.textures:
            self._gl.glDeleteTextures(list(page.textures.values()))
            self._gl.glDeleteBuffers(len(page.buffers), list(page.buffers.values()))

    def oldest(self, before: int) -> Page | None:
        """Return the least recently drawn page, drawn before frame `before`."""
        idle = [page for page in self.pages if page.last_used < before]
        return min(idle, key=lambda page: page.last_used, default=None)

    def write(
        self, place: Place, channel: Channel, texel: int, data: npt.NDArray[Any]
    ) -> None:
        """Write `data` from texel `texel` of a place on."""
        gl = self._gl
        first = place.offset // channel.units_per_texel + texel
        data = np.ascontiguousarray(data)
        gl.glBindBuffer(gl.GL_TEXTURE_BUFFER, place.page.buffers[channel.name])
        gl.glBufferSubData(
            gl.GL_TEXTURE_BUFFER,
            first * channel.texel_bytes,
            data.nbytes,
            data.view(np.uint8),
        )
        gl.glBindBuffer(gl.GL_TEXTURE_BUFFER, 0)

    def release(self) -> None:
        """Free everything."""
        for page in list(self.pages):
            self.free(page)

    def _new_units(self, channels: tuple[Channel, ...], units: int) -> int:
        """Return the units of the next page; fewer than `units` if over budget."""
        n_units = sum(page.units for page in self.pages if page.channels is channels)
        # Doubling: a small trace takes little memory, a large one few pages.
        target = min(max(n_units, _FIRST_UNITS), self._page_units, self._max_units)
        free_bytes = self._budget - self.n_bytes
        for size in (max(target, units), units):
            if size <= self._max_units and _size(channels, size) <= free_bytes:
                return size
        return 0

    def _make(self, channels: tuple[Channel, ...], units: int) -> Page:
        gl = self._gl
        page = Page(channels, units, _size(channels, units))
        first_error(gl)
        for channel in channels:
            size = units // channel.units_per_texel * channel.texel_bytes
            buffer = page.buffers[channel.name] = int(gl.glGenBuffers(1))
            gl.glBindBuffer(gl.GL_TEXTURE_BUFFER, buffer)
            gl.glBufferData(gl.GL_TEXTURE_BUFFER, size, None, gl.GL_STATIC_DRAW)
            texture = page.textures[channel.name] = int(gl.glGenTextures(1))
            gl.glBindTexture(gl.GL_TEXTURE_BUFFER, texture)
            gl.glTexBuffer(gl.GL_TEXTURE_BUFFER, getattr(gl, channel.format), buffer)
        gl.glBindTexture(gl.GL_TEXTURE_BUFFER, 0)
        gl.glBindBuffer(gl.GL_TEXTURE_BUFFER, 0)
        self.pages.append(page)
        error = first_error(gl)
        if error:
            self.free(page)
            raise GlError(f"no memory on the graphics card (error {error:#x})")
        return page

    def _hand_out(self, page: Page, units: int) -> Place:
        place = Place(page, page.used)
        page.used += units
        page.live += 1
        return place


def _aligned(units: int) -> int:
    return -(-units // ALIGNMENT) * ALIGNMENT


def _size(channels: tuple[Channel, ...], units: int) -> int:
    return sum(units // c.units_per_texel * c.texel_bytes for c in channels)
