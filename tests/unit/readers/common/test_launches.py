"""Which op launched what runs on a device, against a search for each call."""

import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chrome_files
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.filters.text import parse_filter
from ggscope.analysis.rows.colorings import available_colorings, coloring
from ggscope.analysis.rows.isolation import isolating
from ggscope.descriptions.spans import span_facts
from ggscope.readers.common.launches import ops_around, ranges_around
from ggscope.readers.common.nesting import Nesting
from ggscope.readers.registry import open_trace

intervals = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=25
)


@given(intervals, st.randoms(use_true_random=False))
def test_ops_are_the_innermost_around_their_calls(made, random) -> None:
    """Call categories are 1 and 2; others are ops, but for those without."""
    spans = sorted(((k, a, a + n) for k, a, n in made), key=lambda s: (*s[:2], -s[2]))
    lane, start, end = (np.array([s[i] for s in spans], np.int64) for i in range(3))
    category = np.array([random.choice([0, 1, 2, 3]) for _ in spans], np.int64)
    op = np.array([random.choice([-1, 5, 6]) for _ in spans], np.int64)
    nesting = Nesting.of(lane.astype(np.int32), start, end)
    call = np.flatnonzero(np.isin(category, [1, 2]))

    result = ops_around(nesting, call, op, category)

    for one, by in zip(call.tolist(), result.tolist(), strict=True):
        at = int(nesting.parent[one])
        while at >= 0 and (op[at] < 0 or category[at] in set(category[call].tolist())):
            at = int(nesting.parent[at])
        assert by == at


@given(intervals, st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 45))))
def test_ranges_are_the_last_begun_that_are_open(made, queries) -> None:
    thread, start, length = (np.array([m[i] for m in made], np.int64) for i in range(3))
    of, time = (np.array([a[i] for a in queries], np.int64) for i in range(2))

    result = ranges_around(of, time, thread, start, start + length)

    for i, by in enumerate(result.tolist()):
        is_open = (thread == of[i]) & (start <= time[i]) & (time[i] < start + length)
        assert (by >= 0) == is_open.any()
        if by >= 0:
            assert is_open[by]
            assert start[by] == start[is_open].max()
            latest = is_open & (start == start[by])
            assert length[by] == length[latest].min()


def test_kernels_of_chrome_traces_name_their_op(tmp_path) -> None:
    def event(tid, category, name, at, length, **args):
        return {
            "ph": "X", "pid": int(tid == 9), "tid": tid, "name": name,
            "cat": category, "ts": at, "dur": length, "args": args,
        }  # fmt: skip

    events = [
        event(1, "python_function", "step", 0, 100),
        event(1, "cpu_op", "aten::linear", 0, 20),
        event(1, "cpu_op", "aten::mm", 5, 10),
        event(1, "cuda_runtime", "cudaLaunchKernel", 6, 5, correlation=1),
        event(1, "cuda_driver", "cuLaunchKernel", 7, 2, correlation=2),
        event(1, "cuda_runtime", "cudaGraphLaunch", 16, 2, correlation=3),
        event(1, "cuda_runtime", "cudaLaunchKernel", 50, 2, correlation=4),
        event(1, "cpu_op", "aten::add", 60, 5, **{"External id": 77}),
        *(
            event(9, "kernel", f"k{i}", 20 + 10 * i, 5, correlation=c, **more)
            for i, (c, more) in enumerate(
                [(1, {}), (2, {}), (3, {}), (3, {}), (4, {}), (0, {"External id": 77})]
            )
        ),
    ]
    path = tmp_path / "x.json"
    path.write_bytes(chrome_files.text(events))
    trace = open_trace(path)
    s = trace.spans
    assert s.launcher is not None

    values = {
        trace.span_name(i): trace.strings[int(s.launcher[i])]
        for i in np.flatnonzero(trace.lanes.is_engine[s.lane]).tolist()
    }

    assert values == {
        "k0": "aten::mm",
        "k1": "aten::mm",
        "k2": "aten::linear",
        "k3": "aten::linear",
        "k4": "",
        "k5": "aten::add",
    }
    hosts = np.flatnonzero(~trace.lanes.is_engine[s.lane])
    assert (s.launcher[hosts] == -1).all()
    k2 = next(i for i in range(len(s)) if trace.span_name(i) == "k2")
    facts = {fact.label: fact.value for fact in span_facts(trace, k2)}
    assert facts["launching op"] == "aten::linear"
    assert facts["launched by"] == "cudaGraphLaunch"
    mask = filter_mask(trace, parse_filter("group=launcher:aten::linear"))
    assert {trace.span_name(i) for i in np.flatnonzero(mask)} == {"k2", "k3"}
    assert "launcher" in available_colorings(trace)
    colors = coloring("launcher").categorize(trace)
    key = colors.keys[colors.labels.index("aten::add")]
    assert isolating(trace, "launcher", key) == (
        "groups",
        frozenset({"launcher:aten::add"}),
    )


@pytest.mark.parametrize("kind", [59, 60])
def test_kernels_of_nsys_name_their_range(tmp_path, kind) -> None:
    path = tmp_path / "x.sqlite"
    tid = (5 << 24) | 7
    with sqlite3.connect(path) as db:
        db.executescript(
            """
            create table StringIds(id integer primary key, value text);
            create table CUPTI_ACTIVITY_KIND_RUNTIME(start integer, end integer,
                globalTid integer, correlationId integer, nameId integer);
            create table CUPTI_ACTIVITY_KIND_KERNEL(start integer, end integer,
                deviceId integer, contextId integer, streamId integer,
                correlationId integer, globalPid integer, shortName integer,
                demangledName integer);
            create table NVTX_EVENTS(start integer, end integer, eventType integer,
                text text, globalTid integer, textId integer);
            insert into StringIds values(1, 'cudaLaunchKernel'), (2, 'mul_mat');
            """
        )
        for i, at in enumerate((110, 150, 300)):
            db.execute(
                "insert into CUPTI_ACTIVITY_KIND_RUNTIME values(?,?,?,?,1)",
                (at, at + 5, tid, i + 1),
            )
            db.execute(
                "insert into CUPTI_ACTIVITY_KIND_KERNEL values(?,?,0,1,7,?,?,2,2)",
                (1000 + at, 1020 + at, i + 1, tid & ~0xFFFFFF),
            )
        for start, end, text, of in (
            (100, 200, "decode", tid), (105, 120, "MUL_MAT", tid),
            (90, 400, "other thread", tid + 1),
        ):  # fmt: skip
            db.execute(
                "insert into NVTX_EVENTS values(?,?,?,?,?,null)",
                (start, end, kind, text, of),
            )
    db.close()
    trace = open_trace(path)
    s = trace.spans
    assert s.launcher is not None

    kernels = np.flatnonzero(trace.lanes.is_engine[s.lane])

    assert [trace.strings[int(i)] for i in s.launcher[kernels]] == [
        "MUL_MAT", "decode", "",
    ]  # fmt: skip
