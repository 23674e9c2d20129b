"""Rows of spans in the memory of the graphics card.

A row is requested when a picture needs it, uploaded in chunks after each frame, and
evicted when it is deleted or when rows in view need the memory. Until its upload is
complete, the processor draws it.
"""

import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.columns import RowColumns
from ggscope.analysis.rows.peaks import RowPeaks
from ggscope.analysis.rows.rows import PREFIX_STEP, Row
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, Array
from ggscope.render.gl.gpu_buffers import (
    NAMES,
    PAGE_UNITS,
    TIMES,
    Channel,
    Pages,
    Place,
)

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
