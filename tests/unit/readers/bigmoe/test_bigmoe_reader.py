"""Tables of BigMoeOnEdge against the rows that they were made of."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bigmoe_files
import people
from bigmoe_files import MAKERS
from ggscope.cli import main
from ggscope.errors import ReadError
from ggscope.model.tables import Phase, Quality, Space, quality_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.registry import open_trace


def opened(path: Path, data: bytes) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "bigmoe"
    return trace


def passes(rows: list[dict[str, Any]]) -> list[list[int]]:
    """Return the numbers of the rows of each pass."""
    values: dict[tuple[int, int, int], list[int]] = {}
    for i, row in enumerate(rows):
        values.setdefault((row["turn"], row["phase"], row["step"]), []).append(i)
    return list(values.values())


@pytest.mark.parametrize("make", MAKERS)
def test_rows_are_counted_and_durations_kept(make, tmp_path):
    data, rows = make(1)

    trace = opened(tmp_path / "x.txt", data)

    assert trace.info.summary["events"] == {"rows": len(rows)}
    n = len(rows)
    lasts = (trace.spans.end - trace.spans.start)[:n].tolist()
    expected = [
        row.get("latency_ns") or row.get("wall_ns") or round(row["wall_ms"] * 1e6)
        for row in rows
    ]
    assert lasts == expected
    assert set(quality_of(trace.spans.flags).tolist()) == {Quality.DERIVED}
    assert "no_times" in {w.code for w in trace.warnings}


@pytest.mark.parametrize("seed", range(4))
def test_reads_of_a_lane_follow_one_another_in_their_pass(seed, tmp_path):
    data, rows = bigmoe_files.io_trace(seed)

    trace = opened(tmp_path / "x.csv", data)

    spans, now = trace.spans, 0
    for number, members in enumerate(passes(rows)):
        lanes: dict[int, int] = {}
        for i in members:
            begin = lanes.get(rows[i]["lane"], now)
            lanes[rows[i]["lane"]] = begin + rows[i]["latency_ns"]
            assert (spans.start[i], spans.end[i]) == (begin, lanes[rows[i]["lane"]])
            assert spans.token is not None
            assert spans.token[i] == number
        band = len(rows) + number
        assert (spans.start[band], spans.end[band]) == (now, max(lanes.values()))
        now = max(lanes.values())


def test_reads_are_accesses_to_the_model_file(tmp_path):
    data, rows = bigmoe_files.io_trace(5)

    trace = opened(tmp_path / "x.csv", data)

    flat = trace.accesses.flat(trace.spans)
    assert flat.what.offset.tolist() == [row["offset"] for row in rows]
    assert flat.what.size.tolist() == [row["read_bytes"] for row in rows]
    assert flat.what.expert.tolist() == [row["expert"] for row in rows]
    assert flat.what.layer.tolist() == [row["layer"] for row in rows]
    assert set(flat.what.space.tolist()) == {Space.FILE}
    ops = [trace.op_name(op) for op in trace.spans.op[: len(rows)].tolist()]
    assert ops == ["PREFETCH" if row["spec"] else "READ" for row in rows]


def test_read_amplification_is_by_pass_and_in_all(tmp_path):
    data, rows = bigmoe_files.io_trace(7)

    trace = opened(tmp_path / "x.csv", data)

    by_name = {series.name: series for series in trace.counters}
    requested = [sum(rows[i]["req_bytes"] for i in part) for part in passes(rows)]
    read = [sum(rows[i]["read_bytes"] for i in part) for part in passes(rows)]
    assert by_name["bytes requested"].value.tolist() == requested
    assert by_name["bytes read"].value.tolist() == read
    ratio = by_name["read amplification"]
    assert ratio.value.tolist() == pytest.approx(
        [b / a for a, b in zip(requested, read, strict=True)]
    )
    assert ratio.time.tolist() == trace.spans.start[len(rows) :].tolist()
    stated = trace.info.producer["read amplification"]
    assert stated.startswith(f"{sum(read) / sum(requested):.3f} ")


def test_without_requested_bytes_there_is_no_amplification(tmp_path):
    data, _ = bigmoe_files.io_trace(7)

    trace = opened(tmp_path / "x.csv", data.replace(b"req_bytes", b"other"))

    assert trace.counters == ()
    assert "read amplification" not in trace.info.producer


def test_nodes_have_their_names_ops_and_layers(tmp_path):
    data, rows = bigmoe_files.compute_trace(2)

    trace = opened(tmp_path / "x.csv", data)

    spans, n = trace.spans, len(rows)
    assert [trace.span_name(i) for i in range(n)] == [row["name"] for row in rows]
    assert [trace.op_name(op) for op in spans.op[:n].tolist()] == [
        row["op"] for row in rows
    ]
    assert spans.layer is not None
    assert spans.layer[:n].tolist() == [row["layer"] for row in rows]
    assert (spans.start[1:n] == spans.end[: n - 1]).all()
    assert spans.phase is not None
    assert spans.phase[:n].tolist() == [
        Phase.GENERATE if row["phase"] else Phase.PROMPT for row in rows
    ]
    tokens = trace.lanes.of_kind(LaneKind.TOKEN)[spans.lane]
    assert np.count_nonzero(tokens) == len(passes(rows))


def test_tokens_have_their_counters(tmp_path):
    data, rows = bigmoe_files.metrics(3)

    trace = opened(tmp_path / "x.csv", data)

    by_name = {series.name: series for series in trace.counters}
    assert by_name["read"].value.tolist() == [row["read_bytes"] for row in rows]
    assert by_name["cache hit"].value.tolist() == [r["cache_hit_pct"] for r in rows]
    assert by_name["read"].time.tolist() == trace.spans.start.tolist()
    assert trace.info.producer["tok/s"] == "5.093"


@pytest.mark.parametrize("make", MAKERS)
def test_cut_and_broken_lines_cost_themselves(make, tmp_path):
    data, rows = make(4)
    lines = data.split(b"\n")
    lines.insert(len(lines) // 2, b"half,a\xff line")
    rng = np.random.default_rng(1)

    trace = opened(tmp_path / "x.csv", b"\n".join(lines))

    assert trace.info.n_records == len(rows)
    assert "stray_line" in {w.code for w in trace.warnings}
    for cut in rng.integers(len(data) // 2, len(data) - 40, 10).tolist():
        path = tmp_path / "y.csv"
        path.write_bytes(data[:cut])
        try:
            part = open_trace(path)
        except ReadError:
            continue
        assert 0 < part.info.n_records <= len(rows)


def test_columns_in_another_order_and_new_ones_are_taken_by_name(tmp_path):
    data, rows = bigmoe_files.io_trace(6)
    head, _, body = data.partition(b"turn,phase")
    table = [line.split(b",") for line in (b"turn,phase" + body).split(b"\n")[:-1]]
    turned = b"\n".join(b",".join([*line[::-1], b"7"]) for line in table)

    a = opened(tmp_path / "a.csv", data)
    b = opened(
        tmp_path / "b.csv", head + turned.replace(b"turn,7", b"turn,new") + b"\n"
    )

    assert np.array_equal(a.spans.start, b.spans.start)
    assert len(rows) == b.info.n_records


@people.each("csv", lambda name, _: name.startswith("bigmoe/"))  # of the corpus
def test_tables_of_people_have_the_rows_of_the_index(name, tmp_path, capsys):
    copy = tmp_path / "x.txt"
    copy.write_bytes(people.content(name))

    assert main(["info", str(copy), "--json"]) == 0

    n_rows = people.counts("csv")[name]["rows"]
    assert json.loads(capsys.readouterr().out)["events"] == {"rows": n_rows}


@pytest.mark.parametrize(
    "line", ["step,layer,op,name,wall_ns\n", "step,steps,wall_ms\n"]
)
def test_durations_longer_than_times_can_be_are_refused(line, tmp_path):
    is_in_ms = "ms" in line
    row = "1,1,9000000000\n" if is_in_ms else "1,1,MUL_MAT,a,9000000000000000\n"

    few = opened(tmp_path / "few.csv", (line + row * 2).encode())
    assert few.info.summary["events"] == {"rows": 2}
    (tmp_path / "many.csv").write_text(line + row * 600)
    with pytest.raises(ReadError, match="add up to"):
        open_trace(tmp_path / "many.csv")


def test_token_longer_than_times_can_be_is_listed(tmp_path):
    data = b"step,steps,wall_ms\n1,2,2.5\n2,2,9799254740991\n"

    trace = opened(tmp_path / "x.csv", data)

    assert trace.info.summary["events"] == {"rows": 1}
    assert len(trace.warnings) == 2
