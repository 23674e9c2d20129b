"""The tables of a trace as SQL sees them: views over the columns, which stay in place.

A view has the columns that a table declares (`ggscope.model.tables.Column`): numbers
that mean "none" become NULL, numbers of texts, lanes, ops and codes become their texts,
and times carry their unit in their name.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag

import numpy as np

from ggscope.model.tables import (
    AccessColumns,
    Array,
    Column,
    Flows,
    Markers,
    Quality,
    SpanFlag,
    Spans,
    quality_of,
    schema_of,
)
from ggscope.model.trace import LaneKind, Trace, lane_titles

_FLAGS = 2 * max(int(flag) for flag in SpanFlag)
"""How many values flags of spans have."""


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A view, and what it is made of.

    Attributes
    ----------
    arrays : columns of the table below, by name; none where the view needs none.
    columns : (name, SQL, meaning) of each column of the view.
    source : SQL behind FROM, without lists and texts.
    joined : SQL of the number of the text, by the name of each column whose texts are
        joined.
    """

    name: str
    doc: str
    arrays: Mapping[str, Array]
    columns: tuple[tuple[str, str, str], ...]
    source: str
    joined: Mapping[str, str] = field(default_factory=dict)

    @property
    def below(self) -> str:
        """Name of the table of arrays."""
        return below(self.name)

    @property
    def text_columns(self) -> dict[str, str]:
        """Name of the column that holds the texts, by the column that joins them."""
        return {name: f"text of {self.name}.{name}" for name in self.joined}

    def view(self, unused: Collection[str] = ()) -> str:
        """Return the SQL that makes the view.

        Texts of columns in `unused` are not joined; such columns are NULL.
        """
        listed, source = [], self.source
        for name, sql, _ in self.columns:
            if name in unused:
                sql = "NULL::VARCHAR"
            elif name in self.joined:
                texts = self.text_columns[name]
                sql = f't_{name}."{texts}"'
                number = self.joined[name]
                source += f' LEFT JOIN "{texts}" t_{name} ON t_{name}.id = {number}'
            listed.append(f'{sql} AS "{name}"')
        if any(sql.startswith(_LISTED) for _, sql, _ in self.columns):
            source += f', "{LISTS}" m'
        return (
            f'CREATE OR REPLACE VIEW "{self.name}" AS SELECT {", ".join(listed)} '
            f"FROM {source}"
        )


@dataclass(slots=True)
class SqlSchema:
    """All tables of a trace, and the lists of texts that their views look up.

    Attributes
    ----------
    lists : texts by the name of the column of `LISTS` that holds them.
    texts : object[n], all texts by number.
    """

    tables: list[SqlTable] = field(default_factory=list)
    lists: dict[str, list[str | None]] = field(default_factory=dict)
    texts: Array = field(default_factory=lambda: np.zeros(0, object))


LISTS = "lists of texts"
"""A table of one row, whose columns are lists: looking a number up there costs nothing
where nobody asks for the text, and less than a join where somebody does."""

_LISTED = "m."
"""How SQL begins that looks texts up in a list."""

_LONG = 50_000
"""Texts beyond are joined, which is faster then, by queries that ask for them."""


def below(name: str) -> str:
    """Return the name of the table of arrays that a view is made of."""
    return f"columns of {name}"


def sql_schema(trace: Trace) -> SqlSchema:
    """Return the tables of a trace. Tables without rows are there, too."""
    return _Schema(trace).made


class _Schema:
    """Makes the tables of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.made = SqlSchema()
        self._unit = trace.clock.unit_name
        self._list("lane_titles", lane_titles(trace.lanes))
        n_ops = int(trace.spans.op.max(initial=-1)) + 1
        texts = trace.strings.texts()
        self.made.texts = _texts(texts)
        self._is_long = len(texts) > _LONG
        self._text_numbers: dict[str, str] = {}
        if not self._is_long:
            self._list("strings", texts)
        named = trace.tensors.name.tolist()
        self._list("tensor_names", [texts[i] if i >= 0 else None for i in named])
        self._list("op_names", [trace.op_name(i) for i in range(n_ops)])
        quality = quality_of(np.arange(_FLAGS).astype(np.uint16))
        names = [q.name.lower() for q in Quality]
        self._list("qualities", [names[q] for q in quality.tolist()])
        self._spans()
        self._plain("markers", "instants", Markers, trace.markers)
        self._accesses()
        self._counters()
        self._others()

    def _spans(self) -> None:
        trace, spans = self._trace, self._trace.spans
        n = len(spans)
        ids = np.arange(n, dtype=np.int32 if n < 1 << 31 else np.int64)
        arrays = {"id": ids, **_arrays(Spans, spans)}
        arrays["pattern"] = _plain_array(trace.accesses.pattern)
        columns = [("id", "r.id", "number of the span, from 0")]
        columns += self._columns(Spans, arrays)
        columns.insert(
            3,
            (
                f"duration_{self._unit}",
                'r."end" - r.start',
                "how long it lasts",
            ),
        )
        columns.append(
            (
                "quality",
                _listed("qualities", f"(r.flags & {_FLAGS - 1})"),
                "how its times are known: measured, derived, estimated, unknown",
            )
        )
        self._add("spans", "ops, tokens, calls: all that lasts", arrays, columns)

    def _plain(
        self, name: str, doc: str, kind: type, table: object, *, number: str = ""
    ) -> None:
        arrays = _arrays(kind, table)
        columns: list[tuple[str, str, str]] = []
        if number:
            n = len(next(iter(arrays.values())))
            arrays = {number: np.arange(n, dtype=np.int32), **arrays}
            columns.append((number, f"r.{number}", "number of the row, from 0"))
        self._add(name, doc, arrays, [*columns, *self._columns(kind, arrays)])

    def _accesses(self) -> None:
        """Unfold accesses: those of a pattern once for each span that makes it."""
        accesses = self._trace.accesses
        lengths = np.diff(accesses.first)
        pattern = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        arrays = {"pattern": pattern, **_arrays(AccessColumns, accesses.patterns)}
        what = self._columns(AccessColumns, arrays)
        unit = self._unit
        of_span = [
            ("span", "s.id", "span that makes the access"),
            (f"time_{unit}", "s.start", "when: the begin of the span"),
            ("lane", _listed("lane_titles", "s.lane"), "lane of the span"),
        ]
        self._add(
            "span_accesses",
            "accesses that spans make",
            arrays,
            [*of_span, *what],
            f'"{below("spans")}" s JOIN "{below("span_accesses")}" r '
            "ON s.pattern = r.pattern",
        )
        loose = accesses.loose
        arrays = {
            "time": loose.time,
            "lane": loose.lane,
            **_arrays(AccessColumns, loose.what),
        }
        of_none = [
            ("span", "NULL::BIGINT", "none"),
            (f"time_{unit}", "r.time", "when"),
            ("lane", _listed("lane_titles", "r.lane"), "its lane"),
        ]
        self._add(
            "other_accesses",
            "accesses that belong to no span",
            arrays,
            [*of_none, *self._columns(AccessColumns, arrays)],
        )
        listed = self.made.tables[-2].columns
        self._add(
            "accesses",
            "what was read and written, one row each",
            {},
            [(name, f'u."{name}"', doc) for name, _, doc in listed],
            "(SELECT * FROM span_accesses UNION ALL SELECT * FROM other_accesses) u",
        )

    def _counters(self) -> None:
        counters = self._trace.counters
        unit = self._unit
        self._add(
            "counters",
            "series of values",
            {
                "id": np.arange(len(counters), dtype=np.int32),
                "name": _texts([series.name for series in counters]),
                "unit": _texts([series.unit for series in counters]),
                "n": np.array([len(series) for series in counters], np.int64),
            },
            [
                ("id", "r.id", "number of the series"),
                ("name", "r.name", "what it counts"),
                ("unit", "r.unit", "unit of its values"),
                ("samples", "r.n", "how many values it has"),
            ],
        )
        # Long columns are joined here: SQL knows no table of many arrays.
        times = [series.time for series in counters]
        values = [series.value for series in counters]
        number = np.repeat(
            np.arange(len(counters), dtype=np.int32),
            [len(series) for series in counters],
        )
        self._add(
            "samples",
            "values of counters",
            {
                "counter": number,
                "time": np.concatenate([np.zeros(0, np.int64), *times]),
                "value": np.concatenate([np.zeros(0), *values]),
            },
            [
                ("counter", "r.counter", "number of the series"),
                (f"time_{unit}", "r.time", "when"),
                ("value", "r.value", "how much"),
            ],
        )

    def _others(self) -> None:
        trace = self._trace
        lanes = trace.lanes
        kinds = [LaneKind(k).name.lower() for k in lanes.kinds.tolist()]
        groups = [" / ".join(group) for group in lanes.group_titles()]
        self._add(
            "lanes",
            "what spans lie on",
            {
                "id": np.arange(len(lanes), dtype=np.int32),
                "name": _texts(lanes.names),
                "title": _texts(lane_titles(lanes)),
                "group": _texts(groups),
                "kind": _texts(kinds),
            },
            [
                ("id", "r.id", "number of the lane"),
                ("name", "r.name", "its name"),
                (
                    "title",
                    "r.title",
                    "its name, with groups where several have it",
                ),
                ("group", 'r."group"', "its groups"),
                ("kind", "r.kind", "thread, engine, token, counter, …"),
            ],
        )
        self._plain("flows", "spans that follow from others", Flows, trace.flows)
        tables = (
            ("tensors", "tensors of the model and of ops", trace.tensors, "id"),
            ("buffers", "backend buffers", trace.buffers, "id"),
            ("routing", "experts that were chosen", trace.routing, ""),
            ("tokens", "tokens of ubatches", trace.batch_tokens, "number"),
            ("sequences", "sequences of tokens", trace.token_sequences, ""),
        )
        for name, doc, table, number in tables:
            self._plain(name, doc, type(table), table, number=number)
        if trace.log is not None:
            requests = trace.log.requests
            self._plain(
                "requests", "requests of a server", type(requests), requests,
                number="id",
            )  # fmt: skip
        warnings = trace.warnings
        self._add(
            "problems",
            "what was wrong with the file",
            {
                "severity": _texts([w.severity.name.lower() for w in warnings]),
                "code": _texts([w.code for w in warnings]),
                "message": _texts([w.message for w in warnings]),
                "count": np.array([w.count for w in warnings], np.int64),
                "place": _texts([w.place for w in warnings]),
            },
            [
                (name, f'r."{name}"', doc)
                for name, doc in (
                    ("severity", "info, notice, data_loss"),
                    ("code", "which problem"),
                    ("message", "in words"),
                    ("count", "how often"),
                    ("place", "where first"),
                )
            ],
        )
        texts = self.made.texts
        self._add(
            "strings",
            "all texts, by number",
            {"id": np.arange(len(texts), dtype=np.int32), "text": texts},
            [("id", "r.id", "number"), ("text", "r.text", "the text")],
        )

    # -- parts -----------------------------------------------------------------

    def _list(self, name: str, texts: Sequence[str | None]) -> None:
        self.made.lists[name] = list(texts)

    def _add(
        self,
        name: str,
        doc: str,
        arrays: Mapping[str, Array],
        columns: Sequence[tuple[str, str, str]],
        source: str = "",
    ) -> None:
        source = source or f'"{below(name)}" r'
        joined = {
            column: self._text_numbers[sql]
            for column, sql, _ in columns
            if self._is_long and sql in self._text_numbers
        }
        self.made.tables.append(
            SqlTable(name, doc, dict(arrays), tuple(columns), source, joined)
        )

    def _columns(
        self, kind: type, arrays: Mapping[str, Array]
    ) -> list[tuple[str, str, str]]:
        """Return the columns of a view of a table; NULL what the trace lacks."""
        made: list[tuple[str, str, str]] = []
        for name, column in schema_of(kind).items():
            lacks = name not in arrays and column.width == 1
            for view, sql, doc in self._column(name, column, arrays):
                is_text = sql.startswith(_LISTED)
                none = f"NULL::{'VARCHAR' if is_text else 'BIGINT'}"
                made.append((view, none if lacks else sql, doc))
        return made

    def _column(
        self, name: str, column: Column, arrays: Mapping[str, Array]
    ) -> Iterator[tuple[str, str, str]]:
        if column.width > 1:
            for i in range(column.width):
                if f"{name}_{i}" in arrays:
                    raw = f'r."{name}_{i}"'
                    yield f"{name}_{i}", _known(raw, column), column.doc
            return
        raw = f'r."{name}"'
        if column.of == "strings":
            text = _listed("strings", raw)
            self._text_numbers[text] = raw
            yield name, text, column.doc
        elif column.of == "lanes":
            yield name, _listed("lane_titles", raw), column.doc
            yield f"{name}_id", _known(raw, column), f"{column.doc}: its number"
        elif column.of == "ops":
            yield name, _listed("op_names", raw), column.doc
            yield f"{name}_id", _known(raw, column), f"{column.doc}: its number"
        elif column.of == "tensors":
            yield name, _listed("tensor_names", raw), column.doc
            yield f"{name}_id", _known(raw, column), f"{column.doc}: its number"
        elif column.code is not None and not issubclass(column.code, IntFlag):
            variable = f"codes_{column.code.__name__}"
            members = {int(member): member.name.lower() for member in column.code}
            self.made.lists[variable] = [
                members.get(i) for i in range(max(members) + 1)
            ]
            yield name, _listed(variable, raw), column.doc
        elif column.unit == "ticks":
            yield f"{name}_{self._unit}", _known(raw, column), column.doc
        else:
            yield name, _known(raw, column), column.doc


def _arrays(kind: type, table: object) -> dict[str, Array]:
    """Return the columns that a table has, as DuckDB takes them."""
    arrays: dict[str, Array] = {}
    for name, column in schema_of(kind).items():
        values = getattr(table, name)
        if values is None or column.per:
            continue
        if column.width > 1:
            for i in range(column.width):
                arrays[f"{name}_{i}"] = _plain_array(values[:, i])
        else:
            arrays[name] = _plain_array(values)
    return arrays


def _plain_array(values: Array) -> Array:
    """Return values as they are, or copied where they do not lie side by side."""
    return np.ascontiguousarray(values)


def _texts(texts: Sequence[str]) -> Array:
    column = np.empty(len(texts), object)
    column[:] = texts
    return column


def _known(raw: str, column: Column) -> str:
    """Return a number, NULL where it means "none"."""
    is_flags = column.code is not None and issubclass(column.code, IntFlag)
    if column.null is None or is_flags:
        return raw
    if column.null != column.null:
        return f"CASE WHEN isnan({raw}) THEN NULL ELSE {raw} END"
    return f"nullif({raw}, {int(column.null)})"


def _listed(name: str, number: str) -> str:
    """Return the text of a number in a list; NULL where it is -1."""
    return f"{_LISTED}{name}[{number}::BIGINT + 1]"
