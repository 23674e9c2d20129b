"""SQL over traces, against the columns themselves; and what it refuses."""

import threading
from pathlib import Path

import numpy as np
import pytest

import sqlite_files
from ggscope.analysis.sql import database as module
from ggscope.analysis.sql.database import SqlDatabase, plain_value
from ggscope.errors import Cancelled, QueryError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import LaneKind, Trace, TraceInfo
from ggscope.readers.registry import open_trace
from reader_files import reader_files, valid_file

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Trace:
    path = tmp_path_factory.mktemp("sql") / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1, 300).data)
    return open_trace(path)


@pytest.fixture(scope="module")
def database(trace):
    with SqlDatabase(trace) as made:
        yield made


def test_spans_are_the_columns(trace, database):
    spans = trace.spans
    result = database.query(
        "select id, start_ns, end_ns, duration_ns, lane_id, name, op, category, "
        "quality from spans order by id"
    )

    rows = list(zip(*result.rows, strict=True))
    assert list(rows[0]) == list(range(len(spans)))
    assert list(rows[1]) == spans.start.tolist()
    assert list(rows[2]) == spans.end.tolist()
    assert list(rows[3]) == (spans.end - spans.start).tolist()
    assert list(rows[4]) == spans.lane.tolist()
    assert list(rows[5]) == [trace.span_name(i) for i in range(len(spans))]
    assert list(rows[6]) == [trace.op_name(op) for op in spans.op.tolist()]
    assert list(rows[7]) == [trace.strings[c] for c in spans.category.tolist()]
    names = [Quality(q).name.lower() for q in quality_of(spans.flags).tolist()]
    assert list(rows[8]) == names
    assert result.is_whole


def test_sums_by_op_are_those_of_numpy(trace, database):
    rows = database.query(
        "select op, count(*), sum(duration_ns) from spans group by op"
    ).rows

    length = trace.spans.end - trace.spans.start
    assert {row[0]: row[1:] for row in rows} == {
        trace.op_name(op): (
            int(np.count_nonzero(trace.spans.op == op)),
            int(length[trace.spans.op == op].sum()),
        )
        for op in np.unique(trace.spans.op).tolist()
    }


def test_accesses_are_unfolded(trace, database):
    flat = trace.accesses.flat(trace.spans)

    rows = database.query(
        'select span, time_ns, kind, size, "offset" from accesses order by span'
    ).rows

    assert [row[0] for row in rows] == sorted(flat.span.tolist())
    assert sorted(row[3] for row in rows) == sorted(flat.what.size.tolist())
    assert {row[2] for row in rows} <= {"read", "write"}
    assert {row[4] for row in rows} == {None}
    start = trace.spans.start
    assert all(row[1] == start[row[0]] for row in rows)


def test_what_the_trace_lacks_is_null(database):
    rows = database.query("select distinct layer, tensor, core from spans").rows
    assert rows == [(None, None, None)]


def test_counters_and_their_samples(trace, database):
    rows = database.query(
        "select c.name, s.time_ns, s.value from samples s "
        "join counters c on c.id = s.counter order by c.id, s.time_ns"
    ).rows

    expected = [
        (series.name, int(time), float(value))
        for series in trace.counters
        for time, value in zip(series.time, series.value, strict=True)
    ]
    assert rows == expected


def test_flows_join_spans(trace, database):
    rows = database.query(
        "select a.category, b.category, count(*) from flows f "
        "join spans a on a.id = f.source join spans b on b.id = f.target group by all"
    ).rows

    assert sum(row[2] for row in rows) == len(trace.flows.source)
    assert {row[0] for row in rows} == {"cuda_runtime"}


@pytest.mark.parametrize("kind", reader_files())
def test_every_table_of_every_format_can_be_asked(kind, tmp_path):
    trace = open_trace(valid_file(kind, tmp_path))

    with SqlDatabase(trace) as database:
        assert database.query("select count(*) from spans").rows == [
            (len(trace.spans),)
        ]
        for table in database.tables:
            result = database.query(f'select * from "{table.name}"', 5)
            assert list(result.columns) == [column for column, _, _ in table.columns]


@pytest.mark.parametrize(
    "sql",
    [
        "create table t(a int)",
        "drop view spans",
        "insert into spans select * from spans",
        "attach '/tmp/x.db' as x",
        "copy (select 1) to '/tmp/x.csv'",
        "select * from read_csv('/etc/hosts')",
        "select * from '/etc/hosts'",
        "select * from glob('/etc/*')",
        "select * from read_text('/etc/hosts')",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set memory_limit = '100GB'",
        "pragma database_list",
        "select 1; select 2",
        "export database '/tmp/x'",
        "select * from trace",
        "selec 1",
        "",
        "-- nothing",
        "explain analyze drop view spans",
        "explain analyze create temp table t as select 1",
        "EXPLAIN /* x */ ANALYZE drop view spans",
        "explain /* /* */ select 1 -- */ drop view spans",
        "explain (analyze) drop view spans",
        'explain analyze insert into "lists of texts" select 1',
        "pivot spans on op using count(*)",
    ],
)
def test_whatever_is_no_query_of_the_tables_is_refused(sql, database, tmp_path):
    with pytest.raises(QueryError):
        database.query(sql)
    assert database.query("select count(*) from lanes").rows[0][0] > 0
    assert database.query("select count(*) from spans").rows[0][0] > 0


@pytest.mark.parametrize("prefix", ["explain", "EXPLAIN ANALYZE", "-- x\nexplain"])
def test_queries_are_explained(prefix, database):
    rows = database.query(f"{prefix} select count(*) from spans").rows
    assert "Scan" in rows[0][1] or "SCAN" in rows[0][1].upper()


def test_what_does_not_fit_into_memory_is_refused_and_written_nowhere(
    trace, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "_memory_limit", lambda: 64 << 20)

    with SqlDatabase(trace) as database:
        with pytest.raises(QueryError, match=r"64\.0 MiB"):
            database.query("select range from range(30000000) order by hash(range)")
        assert database.query("select 1").rows == [(1,)]

    assert not list(tmp_path.iterdir())


def test_messages_are_one_line_without_the_query(database):
    with pytest.raises(QueryError) as raised:
        database.query("select operation from spans")

    text = str(raised.value)
    assert "operation" in text
    assert "\n" not in text
    assert "LINE" not in text


def test_a_query_that_does_not_end_can_be_interrupted(database):
    timer = threading.Timer(0.3, database.interrupt)
    timer.start()
    try:
        with pytest.raises(Cancelled):
            database.query(
                "select count(*) from range(100000000) a, range(100000000) b "
                "where (a.range * b.range) % 7 = 3"
            )
    finally:
        timer.cancel()
    for _ in range(100):  # whoever stopped the first query leaves others alone
        assert database.query("select 1").rows == [(1,)]


def test_rows_are_limited(database):
    result = database.query("select id from spans order by id", 3)

    assert result.rows == [(0,), (1,), (2,)]
    assert not result.is_whole


def test_values_become_those_of_json(database):
    (row,) = database.query(
        "select sum(1::hugeint), 1.5::decimal(4,2), 'nan'::double, date '2026-01-02', "
        "interval 1 day, [1, null], {'a': 2}, 'ab'::blob, uuid()"
    ).rows

    *values, name = [plain_value(value) for value in row]
    assert values == [
        1, 1.5, None, "2026-01-02", "1 day, 0:00:00", [1, None], {"a": 2}, "6162",
    ]  # fmt: skip
    assert isinstance(name, str)


def test_columns_are_not_copied(trace):
    with SqlDatabase(trace) as database:
        (spans,) = [t for t in database.tables if t.name == "spans"]
        assert np.shares_memory(spans.arrays["start"], trace.spans.start)
        assert np.shares_memory(spans.arrays["lane"], trace.spans.lane)


def test_text_of_traces_is_data(tmp_path):
    names = iter(["'; drop view spans; --", '"x"', "a\nb"] * 20)
    path: Path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1, 20, names=names).data)

    with SqlDatabase(open_trace(path)) as database:
        texts = {row[0] for row in database.query("select name from spans").rows}

    assert {"'; drop view spans; --", '"x"', "a\nb"} <= texts


N_LONG = 60_000
"""Texts that are joined, not looked up in a list."""


@pytest.fixture(scope="module")
def long_trace() -> Trace:
    builder, random = TraceBuilder(), np.random.default_rng(4)
    texts = np.array([builder.strings.intern(f"text {i}") for i in range(N_LONG)])
    numbers = np.append(texts, -1).astype(np.int32)
    lane = builder.add_lane("thread", LaneKind.THREAD, ())
    start = np.arange(500, dtype=np.int64) * 10
    builder.add_spans(
        start=start,
        end=start + 5,
        lane=np.full(500, lane, np.int32),
        name=random.choice(numbers, 500),
        category=random.choice(numbers[-9:], 500),
    )
    info = TraceInfo(
        paths=(), reader_id="", format="test", format_version="", byte_size=0
    )
    return builder.snapshot(info)


@pytest.fixture(scope="module")
def long_database(long_trace):
    with SqlDatabase(long_trace) as made:
        yield made


def _text(trace: Trace, number: int) -> str | None:
    return trace.strings[number] if number >= 0 else None


def test_many_texts_are_those_of_the_columns(long_trace, long_database):
    spans = long_trace.spans
    names = [_text(long_trace, i) for i in spans.name.tolist()]
    categories = [_text(long_trace, i) for i in spans.category.tolist()]
    known = [name for name in names if name]

    def rows(sql: str) -> list[tuple[object, ...]]:
        return long_database.query(sql).rows

    for _ in range(2):
        assert rows("select name from spans order by id") == [(n,) for n in names]
        assert rows("select count(*), sum(duration_ns) from spans") == [(500, 2500)]
        assert rows("select category, name from spans order by id") == list(
            zip(categories, names, strict=True)
        )
        assert rows("select id from spans where name is null order by id") == [
            (i,) for i, name in enumerate(names) if name is None
        ]
        assert rows(f"select count(*) from spans where name = '{known[0]}'") == [
            (known.count(known[0]),)
        ]
        assert rows(
            "select max(s.category) from spans s join strings t on t.text = s.name"
        ) == [(max(c for c, n in zip(categories, names, strict=True) if c and n),)]
        assert len(rows("select * from spans")[0]) == len(
            long_database.query("select * from spans limit 0").columns
        )
    assert list(zip(*rows("from spans order by id"), strict=True))[6] == tuple(names)


@pytest.mark.parametrize(
    ("sql", "joined"),
    [
        ("select count(*) from spans", set()),
        ("select op, sum(duration_ns) from spans group by op", set()),
        ("select count(*) from spans where lane = 'thread' and id > 7", set()),
        ("select category, count(*) from spans group by category", {"category"}),
        ("select id from spans where name like '%7'", {"name"}),
        ("select id, s from (select id, name as s from spans) order by s", {"name"}),
        ("select count(*) from (select id, name from spans) t", set()),
        ("select name, category from spans", {"name", "category"}),
    ],
)
def test_texts_are_joined_only_where_asked_for(long_database, sql, joined):
    for explain in ("explain ", "EXPLAIN ANALYZE ", "explain (format json) "):
        plan = str(long_database.query(explain + sql).rows)

        read = {c for c in ("name", "category") if f"text of spans.{c}" in plan}
        assert read == joined
        is_joined = "HASH JOIN" in plan.upper().replace("_", " ")
        assert is_joined == bool(joined)
