"""Events as columns, block by block: what is written as JSON or packets.

Texts are numbers of one list: the strings of the trace, then its ops, then the words
that the program adds.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.exporters.events import I32, WAIT, Events
from ggscope.model.tables import (
    I64,
    Array,
    Phase,
    Quality,
    SpanFlag,
    distinct,
    quality_of,
)
from ggscope.model.trace import Trace

NAMELESS = "–"
WHOLE, OPEN, INSTANT = ord("X"), ord("B"), ord("i")
_BLOCK_ROWS = 1 << 17
_OF_NUMBERS = ("layer", "token", "core", "numa", "bits", "bank", "bank_offset", "color")
_TOLD_BY_QUALITY = (
    SpanFlag.INFERRED_START
    | SpanFlag.INFERRED_END
    | SpanFlag.UNFINISHED
    | SpanFlag.ESTIMATED
)


class Texts:
    """Texts of a trace and of the program by number.

    Attributes
    ----------
    n : how many there are so far.
    """

    def __init__(self, trace: Trace) -> None:
        self._strings, self._op_name = trace.strings, trace.op_name
        self._n_strings = len(trace.strings)
        n_ops = int(trace.spans.op.max(initial=-1)) + 1
        self._first_new = self._n_strings + n_ops
        self._new_texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._empty = trace.strings.find("")

    @property
    def n(self) -> int:
        """How many texts there are so far."""
        return self._first_new + len(self._new_texts)

    def __getitem__(self, number: int) -> str:
        if number >= self._first_new:
            return self._new_texts[number - self._first_new]
        if number >= self._n_strings:
            return self._op_name(number - self._n_strings)
        return self._strings[number]

    def word(self, text: str) -> int:
        """Return the number of a text of the program."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = self.n
            self._new_texts.append(text)
        return number

    def strings(self, ids: Array) -> I64:
        """Return the numbers of strings, -1 where they are none or empty."""
        number = ids.astype(np.int64)
        if self._empty >= 0:
            number[number == self._empty] = -1
        return number

    def ops(self, ops: Array) -> I64:
        """Return the numbers of the names of ops, -1 for none."""
        return np.where(ops >= 0, ops.astype(np.int64) + self._n_strings, -1)

    def names(self, name: Array, op: Array) -> I64:
        """Return the numbers of the names of spans, of ops where they lack one."""
        own = self.strings(name)
        number = np.where(own >= 0, own, self.ops(op))
        return np.where(number >= 0, number, self.word(NAMELESS))

    def numbers(self, texts: Array, of: dict[int, str]) -> I64:
        """Return the numbers of the words of codes, -1 for codes without one."""
        number = np.full(len(texts), -1, np.int64)
        for code in distinct(texts).tolist():
            if word := of.get(code, ""):
                number[texts == code] = self.word(word)
        return number


@dataclass(slots=True, eq=False)
class Rows:
    """Events, n of them.

    Attributes
    ----------
    kind : uint8[n], letter of the phase.
    start, end : int64[n], not negative.
    name, category : int64[n], of `Texts`; -1 none.
    track : int32[n], place in ``Events.tracks``.
    args : by name: whether it is a text, and int64[n], below 0 none.
    place : int64[n], of each in ``Events.spans``; -1 for waits, and of markers.
    """

    kind: npt.NDArray[np.uint8]
    start: I64
    end: I64
    name: I64
    category: I64
    track: I32
    args: dict[str, tuple[bool, I64]]
    place: I64

    def __len__(self) -> int:
        return len(self.kind)


class EventRows:
    """The spans and markers of a trace as rows.

    Attributes
    ----------
    has_categories : whether events have the categories of the trace; else the category
        of an event is its op.
    categories_without_op : those of which no span has an op.
    hides_details : whether texts of markers stay away.
    """

    def __init__(self, events: Events) -> None:
        self.events = events
        self.texts = Texts(events.trace)
        self.nesting = events.nesting()
        self.hides_details = events.trace.log is not None
        s = events.trace.spans
        self.has_categories = s.category is not None
        self.categories_without_op: list[str] = []
        self._without_op = np.zeros(0, np.int64)
        if s.category is not None and len(s):
            with_op = distinct(s.category[s.op >= 0])
            without = np.setdiff1d(distinct(s.category[s.op < 0]), with_op)
            self._without_op = without[without >= 0].astype(np.int64)
            strings = events.trace.strings
            self.categories_without_op = strings.get_many(self._without_op.tolist())

    def spans(self) -> Iterator[Rows]:
        """Yield the spans by track and start, and the waits behind them in between."""
        events = self.events
        n, wait = len(events.spans), events.waits(self.nesting)
        order = None if wait is None else self._with_waits(wait)
        n_rows = n if order is None else len(order)
        for begin in range(0, n_rows, _BLOCK_ROWS):
            stop = min(begin + _BLOCK_ROWS, n_rows)
            if order is None or wait is None:
                yield self._rows(np.arange(begin, stop))
                continue
            place = order[begin:stop]
            rows = self._rows(np.where(place < n, place, place - n))
            behind = np.flatnonzero(place >= n)
            if len(behind):
                self._make_waits(rows, behind, wait[place[behind] - n])
            yield rows

    def _with_waits(self, wait: I64) -> I64:
        """Return the order of spans (places) and their waits (n + place)."""
        events, s = self.events, self.events.trace.spans
        n, has_wait = len(events.spans), wait > 0
        if self.nesting.depth < 2:  # each wait behind its span
            count = 1 + has_wait.astype(np.int64)
            order = np.repeat(np.arange(n), count)
            order[np.cumsum(count)[has_wait] - 1] += n
            return order
        behind = np.flatnonzero(has_wait)
        end = s.end[events.spans]
        start = np.concatenate([s.start[events.spans], end[behind]])
        stop = np.concatenate([end, end[behind] + wait[behind]])
        track = np.concatenate([events.track, events.track[behind]])
        number = np.concatenate([np.arange(n), n + behind])
        return number[np.lexsort((-stop, start, track))]

    def _rows(self, place: I64) -> Rows:
        """Return the spans at places in ``Events.spans``."""
        events, texts = self.events, self.texts
        s, shift = events.trace.spans, events.shift
        ids = events.spans[place]
        is_unfinished, is_open = events.is_unfinished[place], events.is_open[place]
        kind = np.where(is_unfinished, np.where(is_open, OPEN, INSTANT), WHOLE)
        name, op = texts.names(s.name[ids], s.op[ids]), texts.ops(s.op[ids])
        category = op
        args: dict[str, tuple[bool, I64]] = {}
        if s.category is not None:
            category = texts.strings(s.category[ids])
            other = np.where(op >= 0, op, texts.word(""))
            is_implied = self._same_text(name, op)
            is_implied |= (op < 0) & np.isin(category, self._without_op)
            args["op"] = (True, np.where(is_implied, -1, other))
        args |= self._args(ids)
        return Rows(
            kind.astype(np.uint8),
            s.start[ids] + shift,
            s.end[ids] + shift,
            name,
            category,
            events.track[place],
            {key: column for key, column in args.items() if (column[1] >= 0).any()},
            place.copy(),
        )

    def _same_text(self, a: I64, b: I64) -> npt.NDArray[np.bool_]:
        """Return where two texts are the same."""
        texts = self.texts
        pair = (a + 1) * (texts.n + 1) + b + 1
        different = distinct(pair)
        is_same = np.array(
            [
                first > 0 and second > 0 and texts[first - 1] == texts[second - 1]
                for first, second in zip(
                    *(x.tolist() for x in np.divmod(different, texts.n + 1)),
                    strict=True,
                )
            ],
            np.bool_,
        )
        if not len(is_same):
            return np.zeros(0, np.bool_)
        return is_same[np.searchsorted(different, pair)]

    def _args(self, ids: I64) -> dict[str, tuple[bool, I64]]:
        """Return what is known of spans beside their times, by name."""
        trace, texts = self.events.trace, self.texts
        s = trace.spans
        args: dict[str, tuple[bool, I64]] = {}
        for key in _OF_NUMBERS:
            column = getattr(s, key)
            if column is not None:
                values = column[ids].astype(np.int64)
                args[key] = (False, np.where(values > 0, values, -1)
                             if key == "color" else values)  # fmt: skip
        if s.moved is not None:
            args["bytes"] = (False, s.moved[ids].astype(np.int64))
        if s.phase is not None:
            names = {int(phase): phase.name.lower() for phase in Phase}
            args["phase"] = (True, texts.numbers(s.phase[ids], names))
        if s.tensor is not None and len(trace.tensors):
            tensor = s.tensor[ids]
            name = texts.strings(trace.tensors.name[tensor])
            args["tensor"] = (True, np.where(tensor >= 0, name, -1))
        record = ids if s.record is None else s.record[ids]
        args["record"] = (False, record.astype(np.int64))
        names = {int(quality): quality.word for quality in Quality if quality}
        args["time"] = (True, texts.numbers(quality_of(s.flags[ids]), names))
        flags = s.flags[ids] & ~np.uint16(_TOLD_BY_QUALITY)
        if flags.any():
            names = {
                code: ", ".join(
                    flag.name.lower().replace("_", " ")
                    for flag in SpanFlag
                    if code & flag and flag.name
                )
                for code in distinct(flags).tolist()
            }
            args["flags"] = (True, texts.numbers(flags, names))
        return args

    def _make_waits(self, rows: Rows, at: I64, wait: I64) -> None:
        """Turn some rows, which are spans, into the waits behind them."""
        word = self.texts.word(WAIT)
        nothing = np.full(len(rows), -1, np.int64)
        after, span = nothing.copy(), nothing.copy()
        after[at], span[at] = rows.name[at], rows.place[at]
        for key, (is_text, values) in rows.args.items():
            values = values.copy()
            values[at] = -1
            rows.args[key] = (is_text, values)
        rows.args["after"], rows.args["span"] = (True, after), (False, span)
        rows.kind[at] = WHOLE
        rows.start[at] = rows.end[at]
        rows.end[at] += wait
        rows.name[at] = rows.category[at] = word
        rows.place[at] = -1

    def markers(self) -> Iterator[Rows]:
        """Yield the markers, by track and time."""
        events, texts = self.events, self.texts
        m = events.trace.markers
        first = np.full(len(events.trace.lanes), -1, np.int64)
        for lane in distinct(m.lane[events.markers]).tolist():
            first[lane] = events.track_of(lane).number - 1
        order = np.lexsort((m.time[events.markers], first[m.lane[events.markers]]))
        ordered = events.markers[order]
        for begin in range(0, len(ordered), _BLOCK_ROWS):
            ids = ordered[begin : begin + _BLOCK_ROWS]
            time = m.time[ids] + events.shift
            none = np.full(len(ids), -1, np.int64)
            # Lines of a server's log state its users and their prompts.
            detail = none if self.hides_details else texts.strings(m.detail[ids])
            yield Rows(
                np.full(len(ids), INSTANT, np.uint8),
                time,
                time,
                texts.names(m.name[ids], none),
                none,
                first[m.lane[ids]].astype(np.int32),
                {"detail": (True, detail)} if (detail >= 0).any() else {},
                none,
            )
