"""Files of one run that differ in their order only show the same threads and figures.

Tracers flush a buffer per thread, so a file holds blocks by thread, or is sorted.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ggmlviz_files as events
from ggscope.analysis.reads.hotness import heat
from ggscope.analysis.statistics.table import stat_table
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.registry import open_trace
from tensor_files import Rec, encode, llama_pass, llama_trace

RAW = (30_005, 200, 65_000, 7)


def regular(n_threads: int) -> list[Rec]:
    """Return records of threads that compute every op, each a little later."""
    rng = np.random.default_rng(n_threads)
    return [
        replace(r, thread=RAW[k % 4] + k // 4, time=r.time + int(rng.integers(0, 400)))
        for k in range(n_threads)
        for r in llama_trace(4)
    ]


def irregular(n_threads: int) -> list[Rec]:
    """Return records of threads that share some ops, lose some, and do others."""
    rng = np.random.default_rng(n_threads)
    records = []
    for r in regular(n_threads):
        chance = rng.random()
        if chance < 0.15:
            continue
        time = r.time + int(rng.integers(0, 5_000)) if chance < 0.3 else r.time
        dst = f"{r.dst}x" if chance > 0.9 else r.dst
        records.append(replace(r, time=time, dst=dst))
    return records


def blocks(records: list[Rec], size: int) -> list[Rec]:
    """Return the records as threads flush them: each thread's in time, in blocks."""
    threads = dict.fromkeys(r.thread for r in records)
    own = {t: by_time([r for r in records if r.thread == t]) for t in threads}
    rng = np.random.default_rng(size)
    result: list[Rec] = []
    while any(own.values()):
        thread = int(rng.choice([t for t, left in own.items() if left]))
        result += own[thread][:size]
        del own[thread][:size]
    return result


def by_time(records: list[Rec]) -> list[Rec]:
    return sorted(records, key=lambda r: r.time)


def facts(trace: Trace) -> dict[str, object]:
    """Return what must not depend on the order of a file."""
    spans, result = trace.spans, heat(trace)
    lanes = [
        (lane.name, lane.attributes.get("raw"))
        for lane in trace.lanes
        if lane.kind is LaneKind.THREAD
    ]
    tables = {
        by: [
            (r.key, r.count, r.total, r.bytes, r.ops)
            for r in stat_table(trace, by).rows
        ]
        for by in ("thread", "op", "layer", "tensor")
    }
    names = [trace.span_name(i) for i in range(len(spans))]
    repeated = (spans.flags & int(SpanFlag.REPEATED)) > 0
    return {
        "lanes": lanes,
        "tables": tables,
        "names": names,
        "start": spans.start.tolist(),
        "lane": spans.lane.tolist(),
        "repeated": repeated.tolist(),
        "bytes": int(result.bytes_read.sum()),
        "accesses": int(result.accesses.sum()),
    }


@pytest.mark.parametrize("make", [regular, irregular])
@pytest.mark.parametrize(("n_threads", "size"), [(2, 5), (4, 16), (4, 100), (16, 8)])
@pytest.mark.parametrize("layout", ["128", "256", "1024"])
def test_blocks_and_sorted_records_are_the_same_trace(
    make: Callable[[int], list[Rec]],
    n_threads: int,
    size: int,
    layout: str,
    tmp_path: Path,
) -> None:
    records = make(n_threads)
    (tmp_path / "sorted.bin").write_bytes(encode(by_time(records), layout))
    (tmp_path / "blocks.bin").write_bytes(encode(blocks(records, size), layout))

    a, b = (open_trace(tmp_path / f"{name}.bin") for name in ("sorted", "blocks"))

    assert facts(a) == facts(b)


def test_threads_come_by_their_first_op_and_equal_ones_by_their_id(tmp_path) -> None:
    late, early = 20, [9, 3]
    records = [r for t in (late, *early) for r in llama_pass(1000, thread=t)]
    records = [replace(r, time=r.time + 5 * (r.thread == late)) for r in records]
    (tmp_path / "t.bin").write_bytes(encode(records, "256"))

    trace = open_trace(tmp_path / "t.bin")

    threads = [x for x in trace.lanes if x.kind is LaneKind.THREAD]
    assert [x.attributes["raw"] for x in threads] == ["3", "9", "20"]
    assert [x.name for x in threads] == ["thread 0", "thread 1", "thread 2"]


@pytest.mark.parametrize("interleaved", [True, False])
def test_events_in_blocks_have_the_same_lanes(
    interleaved: bool, tmp_path: Path
) -> None:
    runs = [
        event
        for k, (thread, backend) in enumerate([(7, 0xB0), (900, 0), (31, 0xA0)])
        for i in range(4)
        for event in events.graph(
            events.T0 + 5_000 * i + 11 * (3 - k), 3, thread=thread, backend=backend,
            interleaved=interleaved, ptr=0x1000 * (k + 1),
        )
    ]  # fmt: skip
    events.write(tmp_path / "blocks.ggmlviz", runs)
    events.write(tmp_path / "sorted.ggmlviz", sorted(runs, key=lambda e: e.time))

    a, b = (open_trace(tmp_path / f"{name}.ggmlviz") for name in ("sorted", "blocks"))

    def lanes(trace: Trace) -> list[tuple[object, ...]]:
        return [
            (lane.name, lane.group, lane.attributes.get("raw"),
             lane.attributes.get("backend"))
            for lane in trace.lanes
        ]  # fmt: skip

    assert lanes(a) == lanes(b)
    spans = [
        sorted(zip(t.spans.start.tolist(), t.spans.lane.tolist(), strict=True))
        for t in (a, b)
    ]
    assert spans[0] == spans[1]


def test_entries_of_a_token_trace_have_the_same_threads(tmp_path: Path) -> None:
    entries = [
        {
            "entry_id": i, "timestamp_ns": 1000 + 10 * i, "token_id": 0, "layer_id": 0,
            "thread_id": (9, 3)[i % 2], "phase": "PROMPT", "operation_type": "MUL_MAT",
            "dst_name": f"Qcur-{i}", "num_sources": 0, "sources": [],
        }
        for i in range(8)
    ]  # fmt: skip
    blocks = sorted(entries, key=lambda entry: entry["thread_id"])
    for name, listed in (("sorted", entries), ("blocks", blocks)):
        text = json.dumps({"token_id": 0, "metadata": {}, "entries": listed})
        (tmp_path / f"token-{name}.json").write_text(text)

    a, b = (
        open_trace(tmp_path / f"token-{name}.json") for name in ("sorted", "blocks")
    )

    for trace in (a, b):
        threads = [x for x in trace.lanes if x.kind is LaneKind.THREAD]
        assert [x.attributes["raw"] for x in threads] == ["9", "3"]
    assert a.spans.lane.tolist() == b.spans.lane.tolist()
