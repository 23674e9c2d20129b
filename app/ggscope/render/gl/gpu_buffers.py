"""Which rows of spans lie in the memory of the graphics card, and how they get there.

A row is wanted when a picture asks for it, sent in parts after each frame, and
dropped when it dies or when the memory is needed for rows that are in view. Until it
is complete, the processor answers for it.

Memory of the graphics card in pages: texture buffers that rows are laid into.

The long spans and the long gaps of a row, found without looking at all of them.

Greatest lengths are kept for every 64th and every 4096th span: a quarter byte per
span. A question touches only the blocks that hold something long enough, so its cost
grows with what it finds.
"""

import weakref
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.columns import RowColumns
from ggscope.analysis.rows.rows import PREFIX_STEP, Row
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, Array
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
        room = self._new_units(channels, units)
        if room < units:
            return None
        return self._hand_out(self._make(channels, room), units)

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
        """Return the page that was not drawn for longest, before frame `before`."""
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
        """Return how large the next page is; less than `units` if it cannot be."""
        have = sum(page.units for page in self.pages if page.channels is channels)
        # Doubling: a small trace takes little memory, a large one few pages.
        wished = min(max(have, _FIRST_UNITS), self._page_units, self._max_units)
        left = self._budget - self.n_bytes
        for room in (max(wished, units), units):
            if room <= self._max_units and _size(channels, room) <= left:
                return room
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


FINE = 64
"""Spans per block of the finer level."""
COARSE = FINE * FINE
"""Spans per block of the coarser level; parts to `RowPeaks.add` begin at multiples."""


class RowPeaks:
    """Finds the long spans and gaps of one row.

    Parameters
    ----------
    n : number of spans of the row.

    Notes
    -----
    Holds no reference to the row; whoever asks brings it along. It is filled part by
    part by `add`, and complete when the last span has been added.
    """

    __slots__ = ("_gaps", "_lengths")

    def __init__(self, n: int) -> None:
        self._lengths = _Maxima(n)
        self._gaps = _Maxima(n)

    def add(self, row: Row, part: slice) -> None:
        """Take in the spans of `part`, which begins at a multiple of COARSE."""
        end = row.end[part]
        self._lengths.add(part.start, end - row.start[part])
        # The gap behind each span; there is none behind the last one.
        following = row.start[part.start + 1 : part.stop + 1]
        self._gaps.add(part.start, following - end[: len(following)])

    def long_spans(self, row: Row, first: int, stop: int, least: int) -> I64:
        """Return positions in [first, stop) of spans of `least` ticks or more."""
        at = self._lengths.candidates(first, stop, least)
        return at[row.end[at] - row.start[at] >= least]

    def long_gaps(self, row: Row, first: int, stop: int, least: int) -> I64:
        """Return the spans in [first, stop) with `least` ticks of nothing behind."""
        first, stop = max(first, 0), min(stop, len(row) - 1)
        at = self._gaps.candidates(first, stop, least)
        return at[row.start[at + 1] - row.end[at] >= least]


class _Maxima:
    """Greatest values of blocks of a long column, in two levels."""

    __slots__ = ("_coarse", "_fine", "_greatest")

    def __init__(self, n: int) -> None:
        self._fine = np.zeros(-(-n // FINE), np.int64)
        self._coarse = np.zeros(-(-n // COARSE), np.int64)
        self._greatest = 0

    def add(self, first: int, values: I64) -> None:
        if not len(values):
            return
        fine = np.maximum.reduceat(values, np.arange(0, len(values), FINE))
        coarse = np.maximum.reduceat(fine, np.arange(0, len(fine), FINE))
        self._fine[first // FINE :][: len(fine)] = fine
        self._coarse[first // COARSE :][: len(coarse)] = coarse
        self._greatest = max(self._greatest, int(coarse.max()))

    def candidates(self, first: int, stop: int, least: int) -> I64:
        """Return positions in [first, stop) of blocks that reach `least`."""
        if self._greatest < least or stop <= first:
            return np.zeros(0, np.int64)
        if stop - first <= COARSE:
            return np.arange(first, stop)
        blocks = _reaching(self._coarse, first // COARSE, -(-stop // COARSE), least)
        fine = _members(blocks, first // FINE, -(-stop // FINE))
        fine = fine[self._fine[fine] >= least]
        return _members(fine, first, stop)


def _reaching(values: I64, first: int, stop: int, least: int) -> I64:
    return np.flatnonzero(values[first:stop] >= least) + first


def _members(blocks: I64, first: int, stop: int) -> I64:
    """Return the members of blocks of FINE that lie in [first, stop), ascending."""
    inside = (blocks[:, None] * FINE + np.arange(FINE)).ravel()
    return inside[(inside >= first) & (inside < stop)]


BUDGET_BYTES = 3 << 29
"""1.5 GiB: about 80 million spans."""
MAX_CATEGORIES = 64
"""As in ``columns.frag``; rows with more stay with the processor."""
FRAME_SPANS = 1 << 18
"""Spans sent after one frame: about 5 MB, and 5 ms of the processor."""
_PART_SPANS = 1 << 16
"""Spans sent at once; a multiple of every block that is folded."""
_SLACK = 256
"""Units that a place of names has beyond its spans, for the last running sums."""
_EXACT_FLOAT = 1 << 45


@dataclass(slots=True, eq=False)
class _Times:
    """Start, end and covered time of one row on the card.

    Attributes
    ----------
    start : the row's own array, weakly: it tells the row from a later one.
    done : spans sent so far.
    """

    start: "weakref.ref[I64]"
    n: int
    peaks: RowPeaks
    place: Place | None = None
    done: int = 0

    @property
    def is_complete(self) -> bool:
        return self.place is not None and self.done == self.n


@dataclass(slots=True, eq=False)
class Names:
    """Categories of the spans of one row on the card, and their running sums.

    Attributes
    ----------
    n_categories : at most MAX_CATEGORIES, numbered 0 … on the card.
    names : int64[n_categories], the category that each number stands for; None
        where they are the same.
    bucket : spans per entry of the running sums.
    """

    n: int
    n_categories: int
    names: npt.NDArray[np.int64] | None = None
    place: Place | None = None
    done: int = 0
    is_refused: bool = False
    total: I64 = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def bucket(self) -> int:
        """Spans per entry of the running sums: two bytes of them per span."""
        return max(32, 1 << (4 * self.n_categories - 1).bit_length())

    @property
    def is_complete(self) -> bool:
        """Tell whether all of it has been sent."""
        return self.place is not None and self.done == self.n


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A row that lies on the card complete. `names` is None for one of one hue."""

    times: Place
    n_spans: int
    names: Names | None


@dataclass(frozen=True, slots=True, eq=False)
class _Wish:
    """A row that a picture would have drawn from the card."""

    columns: RowColumns
    by_id: Array | None
    n_categories: int


class RowStore:
    """Rows on the card of one context.

    Parameters
    ----------
    gl : PyOpenGL's GL module; the context must be current in every method but
        `hold`.
    budget_bytes : see `BUDGET_BYTES`.
    max_texels : GL_MAX_TEXTURE_BUFFER_SIZE.
    page_units : see `PAGE_UNITS`.
    """

    def __init__(
        self,
        gl: Any,
        max_texels: int,
        budget_bytes: int = BUDGET_BYTES,
        page_units: int = PAGE_UNITS,
    ) -> None:
        self._pages = Pages(gl, budget_bytes, max_texels, page_units)
        self._times: dict[int, _Times] = {}
        self._names: weakref.WeakKeyDictionary[RowColumns, Names] = (
            weakref.WeakKeyDictionary()
        )
        self._gone: list[Place] = []
        self._wishes: list[_Wish] = []
        self._frame = 0

    @property
    def n_bytes(self) -> int:
        """Bytes that the rows take on the card."""
        return self._pages.n_bytes

    @property
    def has_work(self) -> bool:
        """Tell whether the next frame could bring more rows onto the card."""
        return bool(self._wishes)

    def begin_frame(self) -> None:
        """Forget what the last picture wished for; a new one is composed now."""
        self._frame += 1
        self._wishes.clear()

    def hold(
        self, columns: RowColumns, by_id: Array | None, n_categories: int
    ) -> RowPeaks | None:
        """Return the long spans and gaps of a row if the card can draw it now.

        Otherwise None, and the row is wished for.

        Parameters
        ----------
        by_id : category per span id, None if the row is drawn in one hue.
        n_categories : number of categories, whatever occurs in the row.
        """
        times, names = self._times_of(columns.row), None
        if by_id is not None:
            names = self._names_of(columns, n_categories)
            if names.is_refused:
                return None
        complete = times.is_complete and (names is None or names.is_complete)
        for slot in (times, names):
            if slot is not None and slot.place is not None:
                slot.place.page.last_used = self._frame
        if not complete:
            self._wishes.append(_Wish(columns, by_id, n_categories))
            return None
        return times.peaks

    def held(self, columns: RowColumns, *, in_hues: bool) -> Held | None:
        """Return where a row lies, None if it is not complete on the card."""
        times = self._times.get(id(columns.row.start))
        names = self._names.get(columns) if in_hues else None
        if times is None or times.start() is not columns.row.start:
            return None
        if not times.is_complete or times.place is None:
            return None
        if in_hues and (names is None or not names.is_complete):
            return None
        return Held(times.place, times.n, names)

    def work(self, n_spans: int = FRAME_SPANS) -> None:
        """Send up to about `n_spans` spans of what the last picture wished for.

        Raises
        ------
        GlError
            If the card has less memory than the budget.
        """
        self._free_the_gone()
        wishes, self._wishes = self._wishes, []
        for number, wish in enumerate(wishes):
            n_spans -= self._send(wish, n_spans)
            if n_spans <= 0:
                self._wishes = wishes[number:]
                return

    def release(self) -> None:
        """Free everything; nothing is held afterwards."""
        self._pages.release()
        self._times.clear()
        self._names.clear()
        self._gone.clear()
        self._wishes.clear()

    # --- what is there -----------------------------------------------------

    def _times_of(self, row: Row) -> _Times:
        key = id(row.start)
        known = self._times.get(key)
        if known is None or known.start() is not row.start:
            if known is not None:
                _leave(known, self._gone)
            # The array may die on any thread, where no context is current.
            watch = weakref.ref(row.start, lambda _: self._on_gone(key, watch))
            known = self._times[key] = _Times(watch, len(row), RowPeaks(len(row)))
        return known

    def _names_of(self, columns: RowColumns, n_categories: int) -> Names:
        known = self._names.get(columns)
        if known is None:
            known = self._names[columns] = Names(len(columns.row), n_categories)
            weakref.finalize(columns, _leave, known, self._gone).atexit = False
        return known

    def _on_gone(self, key: int, watch: "weakref.ref[I64]") -> None:
        slot = self._times.get(key)
        if slot is not None and slot.start is watch:
            del self._times[key]
            _leave(slot, self._gone)

    def _free_the_gone(self) -> None:
        while self._gone:
            place = self._gone.pop()
            if place.page in self._pages.pages:
                self._pages.give_back(place)

    def _find_place(self, channels: tuple[Channel, ...], units: int) -> Place | None:
        """Return a place, made free if need be at the cost of rows out of view."""
        if not self._pages.can_ever_hold(channels, units):
            return None
        while True:
            place = self._pages.take(channels, units)
            if place is not None:
                place.page.last_used = self._frame
                return place
            oldest = self._pages.oldest(self._frame)
            if oldest is None:
                return None
            slots: list[_Times | Names] = list(self._times.values())
            slots += self._names.values()
            for slot in slots:
                if slot.place is not None and slot.place.page is oldest:
                    slot.place, slot.done = None, 0
            self._pages.free(oldest)

    # --- sending -----------------------------------------------------------

    def _send(self, wish: _Wish, n_spans: int) -> int:
        """Send a part of a row; return how many spans' worth of work that was."""
        row, sent = wish.columns.row, 0
        times = self._times_of(row)
        if times.place is None:
            times.place, times.done = self._find_place(TIMES, len(row) + 1), 0
        if times.place is None:
            return 0
        while not times.is_complete and sent < n_spans:
            sent += self._send_times(row, times)
        if wish.by_id is None or sent >= n_spans:
            return sent
        names = self._names_of(wish.columns, wish.n_categories)
        if names.n_categories > MAX_CATEGORIES:
            sent += _survey(row, wish.by_id, names)
        if names.is_refused:
            return sent
        if names.place is None:
            names.place, names.done = self._find_place(NAMES, names.n + _SLACK), 0
            names.total = np.zeros(names.n_categories, np.int64)
        if names.place is None:
            return sent
        while not names.is_complete and sent < n_spans:
            sent += self._send_names(row, wish.by_id, names)
        return sent

    def _send_times(self, row: Row, times: _Times) -> int:
        assert times.place is not None
        part, before = _next_part(times), times.done
        starts, ends, prefix = TIMES
        write = self._pages.write
        write(times.place, starts, part.start, row.start[part])
        write(times.place, ends, part.start, row.end[part])
        first, last = part.start // PREFIX_STEP, part.stop // PREFIX_STEP
        write(times.place, prefix, first, row.prefix[first : last + 1])
        times.peaks.add(row, part)
        times.done = int(part.stop)
        return times.done - before

    def _send_names(self, row: Row, by_id: Array, names: Names) -> int:
        assert names.place is not None
        part, before = _next_part(names), names.done
        category = by_id[row.id[part]]
        if names.names is not None:
            category = np.searchsorted(names.names, category)
        categories, sums = NAMES
        self._pages.write(
            names.place, categories, part.start, category.astype(np.uint8)
        )
        running = _running_sums(row.end[part] - row.start[part], category, names)
        first = part.start // names.bucket * names.n_categories
        self._pages.write(names.place, sums, first, running)
        names.total = running[-1].copy()
        names.done = int(part.stop)
        return names.done - before


def _leave(slot: _Times | Names, gone: list[Place]) -> None:
    """Note that a place is free; it is given back when a context is current."""
    if slot.place is not None:
        gone.append(slot.place)
        slot.place = None


def _next_part(slot: _Times | Names) -> slice:
    return slice(slot.done, min(slot.done + _PART_SPANS, slot.n))


def _survey(row: Row, by_id: Array, names: Names) -> int:
    """Find out which of many categories occur; return what that cost in spans.

    All at once: counting is ten times as fast as sending.
    """
    seen = np.zeros(names.n_categories, np.bool_)
    for part in chunks(len(row)):
        seen |= np.bincount(by_id[row.id[part]], minlength=len(seen)) > 0
    present = np.flatnonzero(seen)
    if len(present) > MAX_CATEGORIES:
        names.is_refused = True
    else:
        names.names, names.n_categories = present, len(present)
    return len(row) // 8


def _running_sums(length: I64, category: Array, names: Names) -> I64:
    """Return the time of each category before every bucket of a part, and after.

    int64[n // bucket + 1, n_categories]; spans behind the last whole bucket are
    left out.
    """
    size, c = names.bucket, names.n_categories
    n = len(length) // size
    cell = np.repeat(np.arange(n) * c, size)
    cell += category[: n * size]
    length = length[: n * size]
    if int(length.max(initial=0)) < _EXACT_FLOAT:
        amount = np.bincount(cell, length, n * c).astype(np.int64)
    else:
        # Sums of floats are exact below 2^53 only: add the two words apart.
        low = np.bincount(cell, length & 0xFFFFFFFF, n * c).astype(np.int64)
        high = np.bincount(cell, length >> 32, n * c).astype(np.int64)
        amount = low + (high << 32)
    running = np.zeros((n + 1, c), np.int64)
    np.cumsum(amount.reshape(n, c), axis=0, out=running[1:])
    running += names.total
    return running
