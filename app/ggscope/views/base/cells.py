"""The columns of the trace table, the texts of its cells, and rows as text to copy."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.rows.tracks import lanes_where
from ggscope.analysis.sessions.correlate import Correlation, node_text
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.spans import (
    PENDING,
    access_facts,
    access_line,
    column_text,
    column_time_form,
    duration_of,
    exact_time_text,
    known_duration,
    quality_text,
    quality_word,
    wait_of,
)
from ggscope.model.tables import Array, Spans, schema_of
from ggscope.model.tables import Column as SchemaColumn
from ggscope.model.tokens import numbers_per_phase, token_text
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    TimeForm,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
)
from ggscope.sanitize import Value, csv_text, json_text, markdown_row, tsv_text

NONE = "–"
"""Stands where a thing has no such property (an add has no layer of its own)."""
NUMBERS = {
    k: c
    for k, c in schema_of(Spans).items()
    if c.label and not (c.code or c.unit or c.of == "strings")
}
"""Columns of numbers that people know by a name."""
_SCAN = 1 << 20
_MEASURED_LANES = 4096
"""The width of the column goes by the names of so many lanes."""
_SHORT_LANE = 6
"""A column of threads has names of so many letters at most, without "thread"."""
CopyForm = Literal["csv", "tsv", "markdown", "json"]
MAX_COPIED_ROWS = 100_000
"""More is bad for the clipboard of spreadsheets; a message says what is left out."""
_ROWS_AT_A_TIME = 8
_TITLES = {"record": "record", "layer": "layer"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    Attributes
    ----------
    key : stable name, also of `table_order.Sorting`.
    title : what the header says; `tip` says more.
    width : pixels at normal font size; `stretch` > 0 shares what is left.
    right : whether its texts are right-aligned.
    """

    key: str
    title: str
    tip: str
    width: int
    right: bool = False
    stretch: int = 0


def columns_of(trace: Trace, *, absolute: bool = False) -> tuple[Column, ...]:
    """Return the columns for which `trace` has anything to say, in order.

    Parameters
    ----------
    absolute : whether times are those of the day, or of the file's own clock.
    """
    has_accesses = bool(len(trace.accesses.patterns)) or "accesses" in trace.pending
    has_ops = trace.ops is not None or _any(trace.spans.op)
    columns = [
        (bool(trace.graphs), Column("dot", "●", "Matched to a graph node", 30)),
        (True, _record_column(trace)),
        (True, _time_column(trace, absolute)),
        (has_ops, Column("op", "op", "Operation", 138)),
        (_any(trace.spans.layer), Column("layer", "L", "Layer", 34)),
        (len(trace.lanes) > 0, _lane_column(trace)),
        (
            _any(trace.spans.token),
            Column(
                "token",
                "token",
                "Token",
                96 if numbers_per_phase(trace) else 62,
            ),
        ),
        *(
            (_any(getattr(trace.spans, key)), _number_column(key, column))
            for key, column in NUMBERS.items()
            if key not in _MAKERS
        ),
        (not _has_frames_alone(trace), _name_column(trace)),
        (
            has_accesses,
            Column("sources", "sources", "Source tensors", 146, stretch=3),
        ),
        (
            has_accesses,
            # What the op moved of them is determined by details and statistics.
            Column(
                "bytes",
                "operand bytes",
                "Sum of the operand sizes in the record; not all need be read",
                118,
                True,
            ),
        ),
        (True, _duration_column(trace)),
        (
            trace.spans.wait is not None,
            Column("wait", "wait", "Wait at the barrier after the op", 86, True),
        ),
        (
            True,
            Column(
                "quality", "quality", "Timing: measured, derived or estimated", 82, True
            ),
        ),
    ]
    return tuple(column for applies, column in columns if applies)


def _record_column(trace: Trace) -> Column:
    last = max(trace.info.n_records, len(trace.spans))
    width = max(48, _text_width(format_count(last)))
    return Column("record", "#", "Record number in the file", width, right=True)


def _time_column(trace: Trace, absolute: bool) -> Column:
    form = column_time_form(trace, absolute=absolute)
    ends = (trace.extent.start, trace.extent.end, min(trace.extent.end, 999_999_999))
    width = max(_text_width(form.text(tick)) for tick in ends)
    if trace.clock.is_weight:
        tip = "Place on the axis, the heaviest frame first: no time"
        return Column("time", "place", tip, max(72, width), True)
    return Column("time", "time", "Start", max(72, width), True)


def _duration_column(trace: Trace) -> Column:
    if not trace.clock.is_weight:
        return Column("duration", "duration", "Duration: end minus start", 86, True)
    longest = format_duration(trace.extent.duration, trace.clock.unit)
    width = max(86, _text_width(longest))
    return Column("duration", "weight", "What its samples weigh", width, True)


def _has_frames_alone(trace: Trace) -> bool:
    """Return whether no span has another name than its frame in a profile."""
    is_profile = bool(trace.lanes.is_stacks.any())
    return is_profile and not bool((trace.spans.name >= 0).any())


def _text_width(text: str) -> int:
    """Return the width of a monospaced text with its padding, at normal font size."""
    return round(len(text) * 7.3) + 18


def _name_column(trace: Trace) -> Column:
    if trace.ops is None or trace.spans.category is not None:
        return Column("destination", "name", "Name of the span", 120, stretch=2)
    tip = "Tensor that the op writes, or name of the span"
    return Column("destination", "destination", tip, 112, stretch=2)


def _lane_column(trace: Trace) -> Column:
    lanes = trace.lanes
    is_listed = _listed_lanes(trace)
    if _has_numbers_of_threads(trace):
        width = 16 + 8 * _longest(map(_short_lane, lanes.names_of(is_listed)))
        return Column("lane", "T", "Thread", min(max(32, width), 40))
    width = min(max(32, 16 + 8 * _longest(lanes.names_of(is_listed))), 130)
    if (is_listed & lanes.is_engine).any():
        return Column("lane", "engine", "Engine", max(width + 16, 64))
    return Column("lane", "lane", "Lane", width)


def _listed_lanes(trace: Trace) -> npt.NDArray[np.bool_]:
    is_listed = lanes_where(trace.lanes, lambda spec: spec.is_listed)
    is_listed[_MEASURED_LANES:] = False
    return is_listed


def _longest(names: Iterable[str]) -> int:
    return max(map(len, names), default=1)


@once
def _has_numbers_of_threads(trace: Trace) -> bool:
    """Return whether the column of lanes is called T and shows threads by number."""
    lanes, is_listed = trace.lanes, _listed_lanes(trace)
    has_engines = bool((is_listed & lanes.is_engine).any())
    short = [_short_lane(name) for name in lanes.names_of(is_listed)]
    has_numbers = any(map(str.isdigit, short))
    return has_numbers and not has_engines and _longest(short) <= _SHORT_LANE


def _short_lane(name: str) -> str:
    return name.removeprefix("thread ")


def _number_column(key: str, column: SchemaColumn) -> Column:
    tip = column.doc[:1].upper() + column.doc[1:]
    return Column(key, column.label, tip, max(72, 24 + 10 * len(column.label)))


def _any(values: Array | None) -> bool:
    """Return whether any value is not -1, looking no further than the first."""
    if values is None:
        return False
    return any(
        bool((values[i : i + _SCAN] >= 0).any()) for i in range(0, len(values), _SCAN)
    )


@dataclass(frozen=True, slots=True, eq=False)
class CellTexts:
    """Makes the cells of one trace; may be used on any thread.

    Attributes
    ----------
    absolute : whether times are those of the file's own clock.
    correlation : with the graph's nodes, once it is known.
    """

    trace: Trace
    form: TimeForm
    absolute: bool = False
    correlation: Correlation | None = None

    @classmethod
    def of(
        cls,
        trace: Trace,
        *,
        absolute: bool = False,
        correlation: Correlation | None = None,
    ) -> "CellTexts":
        """Return the texts of `trace` with times in its usual unit."""
        form = column_time_form(trace, absolute=absolute)
        return cls(trace, form, absolute, correlation)

    def text(self, span: int, key: str) -> str:
        """Return what the cell of column `key` says."""
        maker = _MAKERS.get(key)
        if maker is None:
            text = column_text(self.trace, key, span)
            return NONE if text == NOT_AVAILABLE else text
        return maker(self, span)

    def tip(self, span: int, key: str) -> str:
        """Return every digit of a cell, or why it is as it is."""
        trace = self.trace
        if key == "dot":
            return self._dot_tip(span)
        if key == "time":
            return exact_time_text(trace, int(trace.spans.start[span]))
        if key == "duration":
            ticks, text = duration_of(trace, span), quality_text(trace, span)
            exact = format_exact(ticks, trace.clock.unit)
            if known_duration(trace, span) is None:
                return f"at least {exact}; {text}" if ticks else text
            return f"{exact} {text}"
        if key == "wait":
            wait = wait_of(trace, span)
            return NOT_AVAILABLE if wait < 0 else format_exact(wait, trace.clock.unit)
        if key == "quality":
            return quality_text(trace, span)
        if key == "bytes":
            n = self._known_bytes(span)
            return NOT_AVAILABLE if n is None else format_exact_bytes(n)
        if key == "sources":
            facts = access_facts(trace, span)
            return "\n".join(access_line(a) for a in facts) or "no sources"
        return self.text(span, key)

    def raw(self, span: int, key: str) -> int | str | list[str] | None:
        """Return a cell as a number or plain text; None where it is not known."""
        trace, spans = self.trace, self.trace.spans
        if key == "time":
            return int(spans.start[span]) + trace.clock.shift(self.absolute)
        if key == "duration":
            return known_duration(trace, span)
        if key == "wait":
            wait = wait_of(trace, span)
            return wait if wait >= 0 else None
        if key == "record":
            record = trace.record_of(span)
            return record if record >= 0 else None
        if key in NUMBERS:
            return _number(getattr(spans, key), span)
        if key == "bytes":
            return self._known_bytes(span)
        if key == "op":
            return trace.op_name(int(spans.op[span])) or None
        if key == "lane":
            return trace.lanes.names[int(spans.lane[span])]
        if key == "dot":
            return "yes" if self.is_in_graph(span) else "no"
        if key == "sources":
            return [f"{a.badge} {a.name}" for a in access_facts(trace, span)]
        if key == "quality":
            return quality_word(trace, span)
        return trace.strings[int(spans.name[span])] or None

    def is_in_graph(self, span: int) -> bool:
        """Return whether a span was found in the graph."""
        return self.correlation is not None and self.correlation.node_of(span)[0] >= 0

    def _dot(self, span: int) -> str:
        return "●" if self.is_in_graph(span) else "○"

    def _dot_tip(self, span: int) -> str:
        """Return by which rule a span was found in the graph, or why it was not."""
        if self.correlation is None:
            return "Still matching spans with the graph."
        if int(self.trace.spans.op[span]) < 0:
            return "Not in the graph: not an op."
        node, rule = self.correlation.node_of(span)
        if node >= 0:
            text = "Graph node {0}, matched by {1}."
            return text.format(node_text(self.trace, node), rule.text)
        name = self.trace.span_name(span)
        text = (
            "Not in the graph: no node matches “{0}” by name (with or without suffix) "
            "and op; addresses are not compared."
        )
        return text.format(name)

    def _record(self, span: int) -> str:
        record = self.trace.record_of(span)
        return format_count(record) if record >= 0 else NOT_AVAILABLE

    def _time(self, span: int) -> str:
        return self.form.text(int(self.trace.spans.start[span]))

    def _op(self, span: int) -> str:
        return self.trace.op_name(int(self.trace.spans.op[span])) or NONE

    def _layer(self, span: int) -> str:
        layer = _number(self.trace.spans.layer, span)
        return NONE if layer is None else format_count(layer)

    def _lane(self, span: int) -> str:
        name = self.trace.lanes.names[int(self.trace.spans.lane[span])]
        return _short_lane(name) if _has_numbers_of_threads(self.trace) else name

    def _token(self, span: int) -> str:
        return token_text(self.trace, span) or NONE

    def _destination(self, span: int) -> str:
        return self.trace.span_name(span)

    def _sources(self, span: int) -> str:
        facts = access_facts(self.trace, span)
        if not facts:
            return PENDING if "accesses" in self.trace.pending else NONE
        more = f" +{len(facts) - 1}" if len(facts) > 1 else ""
        return f"{facts[0].badge} {facts[0].name}{more}"

    def _bytes(self, span: int) -> str:
        n = self._known_bytes(span)
        if n is not None:
            return format_bytes(n)
        return "…" if "accesses" in self.trace.pending else NOT_AVAILABLE

    def _duration(self, span: int) -> str:
        ticks = known_duration(self.trace, span)
        return NONE if ticks is None else format_duration(ticks, self.trace.clock.unit)

    def _quality(self, span: int) -> str:
        return quality_word(self.trace, span)

    def _known_bytes(self, span: int) -> int | None:
        accesses = self.trace.accesses
        pattern = int(accesses.pattern[span])
        if pattern < 0:
            return None
        first, end = int(accesses.first[pattern]), int(accesses.first[pattern + 1])
        size = accesses.patterns.size[first:end]
        known = size[size >= 0]
        return int(known.astype(np.int64).sum()) if len(known) else None


_MAKERS: dict[str, Callable[[CellTexts, int], str]] = {
    "dot": CellTexts._dot,
    "record": CellTexts._record,
    "time": CellTexts._time,
    "op": CellTexts._op,
    "layer": CellTexts._layer,
    "lane": CellTexts._lane,
    "token": CellTexts._token,
    "destination": CellTexts._destination,
    "sources": CellTexts._sources,
    "bytes": CellTexts._bytes,
    "duration": CellTexts._duration,
    "quality": CellTexts._quality,
}


def _number(values: Array | None, span: int) -> int | None:
    if values is None or int(values[span]) < 0:
        return None
    return int(values[span])


def to_tsv(titles: Sequence[str], rows: Iterable[Sequence[Value]]) -> str:
    """Return tab-separated lines under a header line."""
    return tsv_text(chain([titles], rows))


def to_markdown(
    titles: Sequence[str],
    rows: Iterable[Iterable[str]],
    right: Sequence[bool] | None = None,
) -> str:
    """Return a Markdown table; `right` says which columns are right-aligned."""
    lines = [*_markdown_head(titles, right), *map(markdown_row, rows)]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, eq=False)
class TableFile:
    """Rows of a table on their way to a file.

    Attributes
    ----------
    name : what the file is called besides the trace, e.g. ``statistics``.
    text : makes the rows in a form, on a worker.
    n, n_all : rows in it, and rows that there are.
    rest : what to say of the others, a sentence; "" where there are none.
    what : what the rows are of, such as "936 rows in the marked range".
    selected : the selected rows alone, where two or more are: which ones are meant is
        asked then. One row is selected by any click into the table.
    """

    name: str
    text: Callable[[CopyForm, Watcher], str]
    n: int
    n_all: int
    rest: str = ""
    what: str = ""
    selected: "TableFile | None" = None

    @classmethod
    def of(
        cls, name: str, titles: Sequence[str], rows: Sequence[Sequence[Value]]
    ) -> "TableFile | None":
        """Return rows that are there already; None where there are none."""

        def text(form: CopyForm, _: Watcher) -> str:
            return rows_text(form, titles, rows)

        return cls(name, text, len(rows), len(rows)) if rows else None


def rows_text(
    form: CopyForm,
    titles: Sequence[str],
    rows: Iterable[Sequence[Value]],
    right: Sequence[bool] | None = None,
) -> str:
    """Return rows in a form; of Markdown they are the words that are shown.

    In JSON an empty cell is null: what is not recorded or has no such figure.
    """
    if form == "json":
        known = ([None if cell == "" else cell for cell in row] for row in rows)
        return "[\n" + ",\n".join(_json_line(titles, row) for row in known) + "\n]\n"
    if form == "markdown":
        return to_markdown(titles, (map(str, row) for row in rows), right)
    if form == "csv":
        return csv_text(chain([titles], rows))
    return to_tsv(titles, rows)


@dataclass(frozen=True, slots=True, eq=False)
class CopyRequest:
    """Makes the text of some spans' rows; runs on a worker for many.

    Attributes
    ----------
    spans : ids in table order.
    columns : the columns shown, in order.

    Notes
    -----
    TSV and JSON hold plain numbers with the unit in the title, so that a sheet
    can add them up; Markdown holds the words of the table.
    """

    texts: CellTexts
    spans: Array
    columns: tuple[Column, ...]
    form: CopyForm

    def __call__(self, context: Watcher | None = None) -> str:
        """Return the text. Raises Cancelled from the context, between rows."""
        columns = tuple(c for c in self.columns if c.key != "dot")
        titles = [self._title(c) for c in columns]
        # Each row becomes one string at once: a hundred thousand lists of cells
        # would keep the garbage collector busy for a second.
        if self.form == "json":
            keys = [c.key for c in columns]
            lines = [_json_line(keys, row) for row in self._rows(columns, context)]
            return "[\n" + ",\n".join(lines) + "\n]\n"
        rows = self._rows(columns, context)
        return rows_text(self.form, titles, rows, [c.right for c in columns])

    def _rows(
        self, columns: tuple[Column, ...], context: Watcher | None
    ) -> Iterator[list[Any]]:
        """Yield the cells of one row after the other: texts, for JSON values."""
        spans = self.spans.tolist()
        for n, span in enumerate(spans):
            if context is not None and n % _ROWS_AT_A_TIME == 0:
                context.progress(n, len(spans))
                # Lets the main thread paint: it asks for the interpreter hundreds
                # of times per picture, and would wait 5 ms each time.
                time.sleep(0)
            yield [self._cell(span, c.key) for c in columns]

    def _cell(self, span: int, key: str) -> object:
        if self.form == "markdown":
            return self.texts.text(span, key)
        value = self.texts.raw(span, key)
        if self.form == "json":
            return value
        return "; ".join(value) if isinstance(value, list) else value

    def _title(self, column: Column) -> str:
        title = _TITLES.get(column.key, column.title)
        title = "thread" if title == "T" else title
        if self.form in ("csv", "tsv") and column.key in ("time", "duration", "wait"):
            clock = self.texts.trace.clock
            unit_text = clock.column_unit(column.key == "time" and self.texts.absolute)
            return f"{title} ({unit_text})"
        return title


def _json_line(keys: Sequence[str], values: Sequence[object]) -> str:
    record = dict(zip(keys, values, strict=True))
    return " " + json_text(record)


def _markdown_head(titles: Sequence[str], right: Sequence[bool] | None) -> list[str]:
    sides = right if right is not None else [False] * len(titles)
    rule = "|".join(" ---: " if side else " --- " for side in sides)
    return [markdown_row(titles), f"|{rule}|"]
