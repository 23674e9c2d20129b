"""The table of spans says in every form what the trace holds."""

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from builders import finished, spans_trace
from ggscope.analysis.statistics.table import stat_table
from ggscope.errors import ExportError
from ggscope.exporters import spans
from ggscope.exporters.events import Events
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import NO_WAIT, Phase, Space, SpanFlag, quality_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.discovery import survey
from ggscope.readers.registry import open_trace
from ggscope.session_loading import open_bundle
from reads_builder import Op, Read, TensorRow, reads_trace
from wait_traces import with_waits

SAMPLES = Path(__file__).parents[3] / "resources" / "samples"
NAMES = ("llama.ggmlviz", "tinyllama-256.bin", "npu-prefill-decode.json")


def written(trace: Trace, form: str) -> bytes:
    return b"".join(spans.chunks(Events(trace), form))


def rows_of(data: bytes, form: str) -> list[dict]:
    """Return the rows of a file, numbers as numbers."""
    if form == "json":
        return json.loads(data)
    if form == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is missing")
        return parquet.read_table(io.BytesIO(data)).to_pylist()
    text = io.StringIO(data.decode(), newline="")
    delimiter = "," if form == "csv" else "\t"
    return [
        {
            key: int(v) if v.lstrip("-").isdigit() else v or None
            for key, v in row.items()
        }
        for row in csv.DictReader(text, delimiter=delimiter)
    ]


def meant(trace: Trace) -> list[dict]:
    """Return the rows from the columns of the trace, one span at a time."""
    s, unit = trace.spans, "ns" if trace.clock.unit == "ns" else "cycles"
    meant = []
    for i in range(len(s)):
        row = {
            "record": trace.record_of(i),
            f"start_{unit}": int(s.start[i]),
            f"duration_{unit}": None
            if s.flags[i] & int(SpanFlag.UNFINISHED)
            else int(s.end[i] - s.start[i]),
            "name": trace.strings[int(s.name[i])],
            "op": trace.op_name(int(s.op[i])),
        }
        for name in ("layer", "token"):
            column = getattr(s, name)
            if column is not None:
                row[name] = int(column[i])
        if s.phase is not None:
            number = int(s.phase[i])
            row["phase"] = Phase(number).name.lower() if number >= 0 else None
        row["quality"] = ["measured", "derived", "estimated", "unfinished"][
            int(quality_of(s.flags[i : i + 1])[0])
        ]
        meant.append({k: None if v in ("", -1) else v for k, v in row.items()})
    return meant


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "parquet"])
@pytest.mark.parametrize("name", NAMES)
def test_every_span_is_a_row_with_its_values(name: str, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("duckdb", reason="duckdb is not installed")
    trace = open_trace(SAMPLES / name)

    rows = rows_of(written(trace, form), form)

    expected = meant(trace)
    assert len(rows) == len(expected)
    for row, item in zip(rows, expected, strict=True):
        assert {key: row[key] for key in item} == item
    assert {row["lane"] for row in rows} <= set(trace.lanes.names)


def test_pieces_of_a_parquet_file_are_one_table(monkeypatch) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    trace = open_trace(SAMPLES / "tinyllama-256.bin")
    whole = rows_of(written(trace, "parquet"), "parquet")
    monkeypatch.setattr(spans, "_GROUP", 1000)

    assert rows_of(written(trace, "parquet"), "parquet") == whole


def test_parquet_without_a_library_is_refused(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)

    with pytest.raises(ExportError, match="pip install duckdb"):
        written(spans_trace([0], [1]), "parquet")


def test_columns_that_a_trace_lacks_are_not_there() -> None:
    (row,) = rows_of(written(spans_trace([3], [5]), "json"), "json")

    assert list(row) == [
        "record", "start_ns", "duration_ns", "lane", "name", "op", "quality"
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "parquet"])
def test_hostile_names_stay_data(form: str) -> None:
    if form == "parquet":
        pytest.importorskip("duckdb", reason="duckdb is not installed")
    builder = TraceBuilder()
    builder.add_lane("thread 0", LaneKind.THREAD)
    names = ["=1+1", "+cmd|x", 'a"b,c\nd\te', "\ud800\u202e"]
    builder.add_spans(
        start=np.arange(4),
        end=np.arange(4) + 1,
        lane=0,
        name=builder.strings.intern_many(names),
    )

    data = written(finished(builder), form)

    rows = rows_of(data, form)
    assert [row["record"] for row in rows] == [0, 1, 2, 3]
    if form in ("csv", "tsv"):
        assert [row["name"][0] for row in rows[:2]] == ["'", "'"]
    if form == "json":
        assert [row["name"] for row in rows] == names


def test_markdown_holds_a_line_for_each_span_and_marks_up_nothing() -> None:
    builder = TraceBuilder()
    builder.add_lane("thread 0", LaneKind.THREAD)
    names = ["a|b", "two\nlines", "<b>bold</b>", "\ud800\u202e"]
    builder.add_spans(
        start=np.arange(4),
        end=np.arange(4) + 7,
        lane=0,
        name=builder.strings.intern_many(names),
    )

    lines = written(finished(builder), "markdown").decode().splitlines()

    assert lines[0].startswith("| record | start")
    assert lines[1].startswith("| ---: | ---: | ---: | --- |")
    assert len(lines) == 2 + len(names)
    assert [line.split(" | ")[:3] for line in lines[2:]] == [
        [f"| {i}", str(i), "7"] for i in range(4)
    ]
    assert "a\\|b" in lines[2]
    assert "\\<b>bold" in lines[4]
    assert "\u202e" not in lines[5]


def test_empty_part_is_an_empty_table() -> None:
    made = Events(spans_trace([0], [1]), np.zeros(1, np.bool_))

    assert json.loads(b"".join(spans.chunks(made, "json"))) == []
    assert b"".join(spans.chunks(made, "csv")).count(b"\n") == 1


WEIGHTS = [TensorRow(f"blk.{i}.attn_q.weight", 8000 * i, 8000, i) for i in range(2)]


def reading_trace() -> Trace:
    """Return ops on two threads, one of which both compute, one that reads nothing."""
    both = (Read(0, 8000, 0), Read(1, -1, space=Space.BUFFER))
    ops = [
        Op(0, both),
        Op(0, both, thread=1, repeated=True),
        Op(40, (Read(1, 100, 8000),)),
        Op(60, (), "ADD"),
    ]
    return reads_trace(WEIGHTS, ops)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_rows_say_what_ops_read_and_where(form: str) -> None:
    rows = rows_of(written(reading_trace(), form), form)

    assert [row["bytes_read"] for row in rows] == [8000, None, 100, None]
    # Each thread's record lists the sources; their bytes count once.
    names = "blk.0.attn_q.weight; blk.1.attn_q.weight"
    assert [row["sources"] for row in rows][:2] == [names, names]
    assert [row["sizes"] for row in rows][:2] == ["8000; ", "8000; "]
    assert rows[2]["offsets"] in (8000, "8000")
    assert rows[3]["sources"] is None


@pytest.mark.parametrize("name", ["tinyllama-256.bin", "moe-experiment"])
def test_bytes_of_the_rows_are_those_of_the_statistics(name: str) -> None:
    trace = open_bundle(survey((SAMPLES / name,)))
    rows = rows_of(written(trace, "json"), "json")

    for row in stat_table(trace, "op").rows:
        mine = [r for r in rows if r["op"] == row.key]
        moved = sum((r["bytes_read"] or 0) + (r["bytes_written"] or 0) for r in mine)
        assert moved == row.bytes
        assert sum(r["bytes_unknown"] or 0 for r in mine) == row.unknown_bytes


@pytest.mark.parametrize("by", spans.SORTS)
def test_rows_come_with_the_largest_first(by: str) -> None:
    trace = with_waits(
        spans_trace([30, 0, 60, 80], [35, 9, 61, 99], op=1, flags=[0, 0, 0, 4]),
        np.array([7, NO_WAIT, 9, 8]),
    )
    whole = json.loads(b"".join(spans.chunks(Events(trace), "json")))
    order = spans.SpanOrder(by, 3)

    rows = json.loads(b"".join(spans.chunks(Events(trace), "json", order)))

    expected = {
        "start": [0, 30, 60],
        "duration": [0, 30, 60],  # the one without an end comes last
        "wait": [60, 80, 30],
        "bytes": [row["start_ns"] for row in whole][:3],  # none are recorded
    }
    assert [row["start_ns"] for row in rows] == expected[by]
