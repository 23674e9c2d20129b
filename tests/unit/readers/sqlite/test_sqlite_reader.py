"""SQLite traces against the rows that they were made of."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import sqlite_files
from ggscope.errors import Cancelled, CorruptError, ReadError
from ggscope.model.tables import AccessKind, SpanFlag
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.common.gathered import NONE
from ggscope.readers.registry import open_trace
from ggscope.readers.sqlite.database import Database

MADE = {
    "nsys": sqlite_files.nsys,
    "rocpd": sqlite_files.rocpd,
    "rocpd stamps": lambda seed, n=40: sqlite_files.rocpd(seed, n, stamps=True),
}


def opened(path: Path, data: bytes) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "sqlite"
    return trace


def spans_of(trace: Trace, *categories: str) -> list[tuple[str, int, int]]:
    """Return name, begin and end of spans of some categories, by begin."""
    origin, spans = trace.clock.origin, trace.spans
    rows = [
        i
        for i, c in enumerate(spans.category.tolist())
        if trace.strings[c] in categories
    ]
    result = [
        (trace.span_name(i), int(spans.start[i]) + origin, int(spans.end[i]) + origin)
        for i in rows
    ]
    return sorted(result, key=lambda row: row[1])


def by_begin(rows: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    return sorted(rows, key=lambda row: row[1])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", MADE)
def test_rows_become_spans(kind, seed, tmp_path):
    made = MADE[kind](seed)

    trace = opened(tmp_path / "x.txt", made.data)

    assert spans_of(trace, "kernel") == by_begin(made.kernels)
    copies = [row[:3] for row in made.copies]
    assert spans_of(trace, "gpu_memcpy") == by_begin(copies)
    calls = spans_of(trace, "cuda_runtime", "hip_runtime_api")
    assert calls == by_begin(made.calls)
    flat = trace.accesses.flat(trace.spans)
    assert sorted(flat.what.size.tolist()) == sorted(c[3] for c in made.copies)
    assert trace.info.summary["events"] == made.rows
    assert not [w for w in trace.warnings if w.severity is Severity.DATA_LOSS]


@pytest.mark.parametrize("kind", MADE)
def test_work_is_joined_to_the_call_that_launched_it(kind, tmp_path):
    made = MADE[kind](4)
    trace = opened(tmp_path / "x.sqlite", made.data)
    origin, spans, flows = trace.clock.origin, trace.spans, trace.flows

    works = sorted(
        [*made.kernels, *(c[:3] for c in made.copies)], key=lambda row: row[1]
    )
    expected = {
        (call[1], work[1])
        for call, work in zip(by_begin(made.calls), works, strict=True)
    }

    joined = {
        (int(spans.start[a]) + origin, int(spans.start[b]) + origin)
        for a, b in zip(flows.source.tolist(), flows.target.tolist(), strict=True)
    }
    assert joined == expected


@pytest.mark.parametrize("kind", MADE)
def test_records_are_rows(kind, tmp_path):
    made = MADE[kind](2)
    trace = opened(tmp_path / "x.sqlite", made.data)

    for span in range(0, len(trace.spans), 7):
        fields = dict(f[:2] for f in trace.records.view(trace.record_of(span)).fields)
        start = int(trace.spans.start[span]) + trace.clock.origin
        if "start" in fields:
            assert fields["start"] == str(start)
        assert fields["table"] in made.rows


def test_copies_from_the_device_read(tmp_path):
    made = sqlite_files.nsys(3)
    trace = opened(tmp_path / "x.sqlite", made.data)

    flat = trace.accesses.flat(trace.spans)
    read = int(flat.what.size[flat.what.kind == AccessKind.READ].sum())
    assert read == sum(c[3] for c in made.copies if c[0] == "memcpy DtoH")


def test_ranges_marks_switches_memory_and_metrics(tmp_path):
    trace = opened(tmp_path / "x.sqlite", sqlite_files.nsys(1).data)

    spans, origin = trace.spans, trace.clock.origin
    ranges = [i for i, c in enumerate(spans.category) if trace.strings[c] == "nvtx"]
    assert trace.span_name(ranges[0]) == "decode, op_id = 3"
    assert trace.op_name(int(spans.op[ranges[0]])) == "decode"
    assert spans.flags[ranges].tolist() == [0, SpanFlag.UNFINISHED]
    assert [trace.strings[n] for n in trace.markers.name.tolist()] == ["mark"]
    assert spans_of(trace, "sched") == [("thread 70 kernel_6", 1000, 1500)]
    series = {s.name: (s.time + origin, s.value) for s in trace.counters}
    time, value = series["GPU 0 device memory allocated since the start"]
    assert (time.tolist(), value.tolist()) == ([1000, 1400, 1500], [64, 96, 32])
    assert series["GPU 0 SM active"][1].tolist() == [5, 50]


def test_ranges_of_named_domains_have_lanes_of_their_own(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1).data)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("alter table NVTX_EVENTS add column domainId integer default 0")
        for domain, kind, text in (
            (1, 75, "NCCL"), (1, 59, "ncclAllReduce"), (2, 59, "nameless"),
        ):  # fmt: skip
            db.execute(
                "insert into NVTX_EVENTS values(1000, 2000, ?, ?, ?, null, ?)",
                (kind, text, sqlite_files.TID, domain),
            )

    trace = open_trace(path)

    lanes = {
        trace.span_name(i): trace.lanes[int(lane)].name
        for i, lane in enumerate(trace.spans.lane)
    }
    assert lanes["ncclAllReduce"].startswith("NVTX NCCL")
    assert lanes["nameless"].startswith("NVTX domain 2")
    (usual,) = {name for text, name in lanes.items() if text.startswith("decode")}
    assert usual.startswith("NVTX ")
    assert not usual.startswith(("NVTX NCCL", "NVTX domain"))
    ranges = [lane.name for lane in trace.lanes if lane.name.startswith("NVTX ")]
    in_order = [name for name in ranges if not name.startswith("NVTX marks")]
    assert in_order == [usual, lanes["ncclAllReduce"], lanes["nameless"]]


@pytest.fixture
def large_export(tmp_path) -> Path:
    """An export of which a part is shown early: of ranges twice the time of kernels."""
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1).data)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("delete from CUPTI_ACTIVITY_KIND_KERNEL")
        for table, step, about in (
            ("CUPTI_ACTIVITY_KIND_KERNEL", 100, {"streamId": 7, "shortName": 1}),
            ("NVTX_EVENTS", 200, {"eventType": 59, "globalTid": sqlite_files.TID}),
        ):
            names = ", ".join(("start", '"end"', *about))
            marks = ", ".join("?" * (2 + len(about)))
            values = tuple(about.values())
            db.executemany(
                f"insert into {table}({names}) values({marks})",
                ((i * step, i * step + 50, *values) for i in range(70_000)),
            )
        db.execute("create table padding(content)")
        db.execute("insert into padding values(zeroblob(50000000))")
    return path


def test_an_early_picture_says_up_to_when_it_shows_all(large_export):
    shown: list[Trace] = []
    done: list[float] = []

    whole = open_trace(
        large_export,
        context=ReadContext(
            publish=shown.append, progress=lambda n, size: done.append(n / size)
        ),
    )

    early, until = shown[0], shown[0].read_until
    assert until
    assert until < early.extent.end
    for trace in (early, whole):
        assert np.count_nonzero(trace.spans.start < until) > 90_000
    assert (
        len({int(np.count_nonzero(t.spans.start < until)) for t in (early, whole)}) == 1
    )
    assert max(done[:-1]) < 0.8


def test_damaged_tables_are_named_where_nothing_is_left(tmp_path):
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table StringIds(id integer, value text)")
        db.execute("create table CUPTI_ACTIVITY_KIND_KERNEL(start, 'end', streamId)")
        db.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values(1, 2, 7)")
    data = bytearray(path.read_bytes())
    data[2 * 4096 :] = b"\x5a" * (len(data) - 2 * 4096)
    path.write_bytes(data)

    with pytest.raises(CorruptError, match="CUPTI_ACTIVITY_KIND_KERNEL"):
        open_trace(path)


def test_facts_leave_out_the_environment(tmp_path):
    trace = opened(tmp_path / "x.sqlite", sqlite_files.nsys(1).data)

    assert trace.info.producer["command"] == "run"
    assert "360.0 GB/s peak" in trace.info.producer["GPU 0"]
    assert "KEY=s" not in str(trace.info)
    assert trace.clock.epoch == 10**18
    (noted,) = [w for w in trace.warnings if w.code == "profiler_warning"]
    assert "kernel_0" in noted.message


def test_work_of_the_profiler_itself_is_reported(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1).data)
    with sqlite3.connect(path) as db:
        db.execute(
            "create table PROFILER_OVERHEAD(start integer, end integer, "
            "globalTid integer, nameId integer, overheadType integer)"
        )
        row = (2000, 5000, sqlite_files.TID, None, 2)
        db.execute("insert into PROFILER_OVERHEAD values(?,?,?,?,?)", row)
    db.close()

    trace = open_trace(path)

    assert spans_of(trace, "overhead") == [("buffer flush", 2000, 5000)]
    assert "profiler_overhead" in {w.code for w in trace.warnings}


def test_merged_databases_have_a_set_of_tables_each(tmp_path):
    first, second = (sqlite_files.rocpd(seed, uuid=f"_{seed}") for seed in (1, 2))
    path = tmp_path / "x.db"
    path.write_bytes(first.data)
    other = tmp_path / "y.db"
    other.write_bytes(second.data)
    with sqlite3.connect(path) as db:
        db.execute("attach ? as other", (str(other),))
        listed = "select name, sql from other.sqlite_master where type='table'"
        for name, sql in db.execute(listed).fetchall():
            db.execute(sql)
            db.execute(f'insert into main."{name}" select * from other."{name}"')
    db.close()

    trace = open_trace(path)

    kernels = by_begin(first.kernels) + by_begin(second.kernels)
    assert spans_of(trace, "kernel") == by_begin(kernels)
    assert trace.info.summary["events"] == first.rows | second.rows
    works = [*first.kernels, *first.copies, *second.kernels, *second.copies]
    assert len(trace.flows.source) == len(works)


def test_a_foreign_database_is_named_by_its_tables(tmp_path):
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as db:
        db.execute("create table songs(id integer, title text)")
    db.close()

    with pytest.raises(ReadError, match="songs"):
        open_trace(path)


def test_views_triggers_and_virtual_tables_are_not_looked_at(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1).data)
    with sqlite3.connect(path) as db:
        db.execute(
            "create view OSRT_API as select start, end, globalTid, nameId, "
            "load_extension('x') as returnValue from CUPTI_ACTIVITY_KIND_RUNTIME"
        )
        db.execute("pragma writable_schema=on")
        db.execute(
            "insert into sqlite_master values('table','CUBLAS_EVENTS','CUBLAS_EVENTS',"
            "0,'CREATE VIRTUAL TABLE CUBLAS_EVENTS USING fts5(start, end, nameId)')"
        )
    db.close()

    trace = open_trace(path)

    assert "OSRT_API" not in trace.info.summary["events"]
    assert "CUBLAS_EVENTS" not in trace.info.summary["events"]
    assert len(spans_of(trace, "cuda_runtime")) == 40


def test_nothing_can_be_written_or_attached(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1).data)

    with Database(path) as database:
        connection = database._connection
        for sql in (
            "insert into StringIds values(99, 'x')",
            "attach 'y' as y",
            "pragma writable_schema=on",
            "select load_extension('x')",
            "create table t(a)",
            "select randomblob(1000)",
        ):
            with pytest.raises(sqlite3.DatabaseError):
                connection.execute(sql).fetchall()
    assert not (tmp_path / "y").exists()


def test_values_of_other_types_are_no_integers(tmp_path):
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as db:
        db.execute("create table t(a integer, b text)")
        values = [(1, "x"), (None, "y"), ("no", b"z"), (1e300, 3), (-(2**63), None)]
        db.executemany("insert into t values(?,?)", values)
    db.close()

    with Database(path) as database:
        (block,) = database.integers("t", ("a", "lacks"))
        texts = [row[1] for rows in database.texts("t", ("b",)) for row in rows]

    assert block[:, 1].tolist() == [1, NONE, NONE, NONE, NONE]
    assert set(block[:, 2].tolist()) == {NONE}
    assert texts == ["x", "y", None, "3", None]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_cut_database_gives_what_is_there(share, tmp_path):
    made = sqlite_files.nsys(1, 4000)
    path = tmp_path / "x.sqlite"
    path.write_bytes(made.data[: int(len(made.data) * share)])

    trace = open_trace(path)

    codes = {w.code for w in trace.warnings}
    assert {"database_cut", "damaged_table"} <= codes
    kernels = spans_of(trace, "kernel")
    assert set(kernels) <= set(made.kernels)
    assert len(trace.spans) > 0


def test_rows_around_a_damaged_page_are_read(tmp_path):
    made = sqlite_files.nsys(1, 6000)
    page = 4096
    data = bytearray(made.data)
    # A page in the middle of the calls, by the bytes of one of them.
    _, start, end = made.calls[3000]
    at = data.find(start.to_bytes(3, "big") + end.to_bytes(3, "big")) // page * page
    data[at : at + page] = bytes([255]) * page

    trace = opened(tmp_path / "x.sqlite", bytes(data))

    calls = spans_of(trace, "cuda_runtime")
    assert 5000 < len(calls) < 6000
    assert set(calls) <= set(made.calls)
    assert calls[0] == by_begin(made.calls)[0]
    assert calls[-1] == by_begin(made.calls)[-1]
    (warning,) = [w for w in trace.warnings if w.code == "damaged_table"]
    assert warning.place == "CUPTI_ACTIVITY_KIND_RUNTIME"


def test_a_damaged_schema_is_reported(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_bytes(b"SQLite format 3\0" + bytes(200))

    with pytest.raises((CorruptError, ReadError)):
        open_trace(path)


def test_a_log_beside_is_reported(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1).data)
    (tmp_path / "x.sqlite-wal").write_bytes(b"something")

    codes = {w.code for w in open_trace(path).warnings}

    assert "write_ahead_log" in codes


def test_a_database_that_is_all_in_its_log_is_reported(tmp_path):
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE a(b)")
        made.commit()
        for end in ("", "-wal"):
            data = Path(f"{tmp_path / 'a.sqlite'}{end}").read_bytes()
            Path(f"{path}{end}").write_bytes(data)

    with pytest.raises(ReadError, match=r"x\.sqlite-wal") as raised:
        open_trace(path)
    assert "wal_checkpoint" in str(raised.value.hint)


def test_generated_columns_are_not_computed(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1).data)
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    with closing(sqlite3.connect(path)) as made:
        made.execute(f"ALTER TABLE {table} ADD bomb AS (hex(zeroblob(1000 + start)))")
        made.commit()

    assert len(open_trace(path).spans)
    with Database(path) as database:
        assert not database.has(table, "bomb")
        row = database.row(table, 1)
        assert row is not None
        assert row.keys() == set(database.tables[table])


def test_pages_that_lead_in_a_circle_give_no_row_twice(tmp_path):
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA page_size=1024")
        made.execute("CREATE TABLE t(start INTEGER, end INTEGER)")
        rows = [(i, i + 1) for i in range(20_000)]
        made.executemany("INSERT INTO t VALUES(?, ?)", rows)
        made.commit()
    data = bytearray(path.read_bytes())
    inner = [at for at in range(1024, len(data), 1024) if data[at] == 5]
    for at in inner[1:]:  # the last child of each is the page behind it
        data[at + 8 : at + 12] = (at // 1024 + 2).to_bytes(4, "big")
    path.write_bytes(data)

    with Database(path) as database:
        result = [int(i) for b in database.integers("t", ("start",)) for i in b[:, 0]]
        assert database.damaged.keys() == {"t"}

    assert result
    assert result == sorted(set(result))


def test_reading_can_be_cancelled(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1, 3000).data)
    stop = threading.Event()
    stop.set()

    with pytest.raises(Cancelled):
        open_trace(path, context=ReadContext(cancel=stop))


def test_rows_without_times_are_counted(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1).data)
    with sqlite3.connect(path) as db:
        db.execute("update CUPTI_ACTIVITY_KIND_RUNTIME set start=null where rowid=1")
        db.execute("update CUPTI_ACTIVITY_KIND_RUNTIME set end=1 where rowid=2")
    db.close()

    trace = open_trace(path)

    (warning,) = [w for w in trace.warnings if w.code == "bad_event_time"]
    assert (warning.count, warning.place) == (2, "CUPTI_ACTIVITY_KIND_RUNTIME")
    assert len(spans_of(trace, "cuda_runtime")) == 38
    assert np.all(trace.spans.end >= trace.spans.start)


def test_names_that_are_numbers_are_no_names(tmp_path):
    path = tmp_path / "x.db"
    path.write_bytes(sqlite_files.rocpd(1, uuid="_1").data)
    with sqlite3.connect(path) as db:
        db.execute("drop table rocpd_info_thread_1")
        db.execute("create table rocpd_info_thread_1(id integer, tid integer, name)")
        db.execute("insert into rocpd_info_thread_1 values(1, 4243, 7)")
    db.close()

    trace = open_trace(path)

    assert "thread 4243" in trace.lanes.names
