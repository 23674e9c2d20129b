"""What a recording states of how it was made, and what follows from it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recordings
from ggscope.analysis.completeness.coverage import (
    Cause,
    TraceCoverage,
    number_ranges,
    trace_coverage,
)
from ggscope.analysis.completeness.expected import COUNTED, completeness
from ggscope.analysis.reads.hotness import cold, heat
from ggscope.descriptions.completeness import with_completeness
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from ggscope_capture.record import TRACE

N = recordings.N_GRAPHS * recordings.N_THREADS * len(recordings.NODES)
NOTHING = {"state": "exited", "exit_code": 0, "signal": None, "launcher": True}
ALL = {
    "enabled": True, "ops": [], "layers": [], "threads": [], "sample_every": 1,
    "op_timing": True, "thread_tracking": True, "memory_tracking": True,
    "tensor_names": True, "max_records": 0, "ring_records": 0, "overwrite": False,
}  # fmt: skip


def account(**changes: Any) -> dict[str, Any]:
    """Return the account of a recording that lacks nothing, with some changes."""
    return {
        "computed": N, "expected": N, "recorded": N, "left_out": 0, "missing": 0,
        "not_seen": 0, "beyond_limit": 0, "unplaced": 0, "unknown_graphs": 0,
        "interrupted": [], "short": {"graph": [], "expected": [], "recorded": []},
    } | changes  # fmt: skip


def opened(folder: Path, **changes: Any) -> Trace:
    """Return the trace of a recording whose sidecar states how it was made."""
    stated = {
        "settings": ALL, "changes": [], "end": NOTHING, "account": account(),
        "whole_graphs": [],
    } | changes  # fmt: skip
    path = recordings.recording(folder, **stated)
    return open_bundle(survey([path]))


def causes(trace_coverage: TraceCoverage) -> dict[Cause, tuple[int | None, str]]:
    return {o.cause: (o.count, o.detail) for o in trace_coverage.omissions}


def test_recording_that_states_that_it_has_all_is_whole(tmp_path: Path) -> None:
    trace = opened(tmp_path)

    coverage, complete = trace_coverage(trace), completeness(trace)

    assert (coverage.omissions, coverage.is_stated, coverage.is_whole) == (
        (),
        True,
        True,
    )
    assert complete.rests_on == (COUNTED,)
    assert (complete.n_there, complete.n_missing) == (N, 0)


def test_recording_that_states_nothing_is_compared(tmp_path: Path) -> None:
    path = recordings.recording(tmp_path, whole_graphs=[])
    trace = open_bundle(survey([path]))

    assert trace.recordings == ()
    assert trace_coverage(trace).is_whole is None
    assert completeness(trace).rests_on != (COUNTED,)


@pytest.mark.parametrize(
    ("settings", "changes", "cause", "expected"),
    [
        ({"ops": ["MUL_MAT", "ADD"]}, {}, Cause.OPS_FILTERED, (9, "MUL_MAT, ADD")),
        ({"layers": [0, 1, 2, 7]}, {}, Cause.LAYERS_FILTERED, (9, "0-2, 7")),
        ({"threads": [1]}, {}, Cause.THREADS_FILTERED, (9, "1")),
        ({"thread_tracking": False}, {}, Cause.THREADS_FILTERED, (9, "0")),
        ({"op_timing": False}, {}, Cause.OP_TIMING_OFF, (9, "op timing was off")),
        ({"sample_every": 3}, {"skipped_graphs": 8}, Cause.SAMPLED, (8, "1 of 3")),
        ({"enabled": False}, {"skipped_graphs": 8}, Cause.SWITCHED_OFF, (8, "graphs")),
        ({}, {"changes": [{"time": 1}] * 2}, Cause.FILTERS_CHANGED, (2, "")),
        ({}, {"changes": None}, Cause.FILTERS_CHANGED, (None, "")),
    ],
)
def test_what_the_tracer_was_reported_to_leave_out_hides_reads(
    settings: dict[str, Any],
    changes: dict[str, Any],
    cause: Cause,
    expected: tuple[int | None, str],
    tmp_path: Path,
) -> None:
    own = account(left_out=9, computed=N + 9)
    trace = opened(tmp_path, settings=ALL | settings, account=own, **changes)

    coverage = trace_coverage(trace)

    assert causes(coverage) == {cause: expected}
    assert coverage.may_hide_reads
    assert (completeness(trace).n_missing, coverage.is_whole) == (0, False)
    assert "left_out" in codes(with_completeness(trace, completeness(trace)))


def test_names_and_buffers_that_are_left_out_hide_no_reads(tmp_path: Path) -> None:
    off = {"tensor_names": False, "memory_tracking": False}
    coverage = trace_coverage(opened(tmp_path, settings=ALL | off))

    assert set(causes(coverage)) == {Cause.NAMES_OFF, Cause.BUFFERS_OFF}
    assert not coverage.may_hide_reads


def test_records_behind_the_limit_are_left_out_and_not_lost(tmp_path: Path) -> None:
    own = account(expected=N + 30, missing=30, beyond_limit=30)
    trace = opened(tmp_path, settings=ALL | {"max_records": N}, account=own)

    assert causes(trace_coverage(trace)) == {Cause.LIMITED: (30, f"{N} records")}
    assert completeness(trace).n_missing == 0


@pytest.mark.parametrize("has_sidecar", [True, False])
def test_sources_of_graphs_are_all_there(has_sidecar: bool, tmp_path: Path) -> None:
    """An op of four sources has no fifth one where its graph lists them."""
    facts = recordings.sidecar()
    model, build = facts["models"][0], facts["builds"][0]
    weights = {
        "index": [0, 1], "type": [1, 0],
        "name": ["blk.0.attn_q.weight.long", "blk.0.attn_sinks.weight"],
        "shape": [[64, 64, 1, 1], [8, 1, 1, 1]],
        "offset": [4096, 12288], "size": [8192, 32],
    }  # fmt: skip
    sources = {"sources": [[4], [3, 0, 4, 0], [1], [], []]}
    changes = {
        "ops": {"1": "ADD", "2": "FLASH_ATTN_EXT"},
        "models": [model | {"weights": weights}],
        "builds": [build | {"tensors": build["tensors"] | sources}],
    }
    trace = opened(tmp_path, **changes)
    if not has_sidecar:
        trace = replace(trace, joins=())

    untouched_bytes = cold(heat(trace), trace_coverage(trace))

    expected = (1, 0) if has_sidecar else (0, 1)
    assert (untouched_bytes.n_cold, untouched_bytes.n_cut) == expected


@pytest.mark.parametrize(
    ("every", "skipped"),
    [(1, (Cause.GRAPHS_SKIPPED, (9, ""))), (3, (Cause.SAMPLED, (9, "1 of 3")))],
)
def test_graphs_behind_the_limit_are_left_out_too(
    every: int, skipped: tuple[Cause, Any], tmp_path: Path
) -> None:
    own = account(expected=N + 30, missing=30, beyond_limit=30)
    settings = ALL | {"max_records": N, "sample_every": every}
    trace = opened(tmp_path, settings=settings, account=own, skipped_graphs=9)

    limited = {Cause.LIMITED: (30, f"{N} records")}
    assert causes(trace_coverage(trace)) == limited | dict([skipped])


def test_lost_records_are_counted_and_hatched_by_graph(tmp_path: Path) -> None:
    short = {"graph": [1, 2], "expected": [10, 12], "recorded": [6, 0]}
    own = account(expected=N + 16, missing=16, short=short)
    trace = opened(tmp_path, account=own, lost=16)

    complete = completeness(trace)
    (lane,) = [lane.id for lane in trace.lanes if lane.kind is LaneKind.STALL]
    at = np.flatnonzero(trace.spans.lane == lane)

    assert (complete.n_there, complete.n_missing) == (N, 16)
    assert causes(trace_coverage(trace)) == {Cause.RECORDS_LOST: (16, "")}
    assert [trace.span_name(int(i)) for i in at] == [
        "4 of 10 records missing", "12 of 12 records missing",
    ]  # fmt: skip
    begins = trace.spans.start[at] + trace.clock.origin
    assert begins.tolist() == [recordings.T0 + 10_000, recordings.T0 + 20_000]
    (message,) = [w.message for w in trace.warnings if w.code == "capture_lost"]
    assert "Graphs 1 to 2" in message


def test_ops_that_no_loss_explains_are_a_problem(tmp_path: Path) -> None:
    own = account(expected=N + 5, missing=5, not_seen=5)
    trace = opened(tmp_path, account=own)

    (warning,) = [w for w in trace.warnings if w.code == "capture_ops_missing"]
    assert warning.count == 5
    assert causes(trace_coverage(trace)) == {Cause.OPS_NOT_SEEN: (5, "")}


def test_what_a_file_holds_less_than_was_written_is_missing(tmp_path: Path) -> None:
    opened(tmp_path)
    path = tmp_path / "run.bin"
    path.write_bytes(path.read_bytes()[: -3 * TRACE.itemsize])

    trace = open_bundle(survey([path]))
    complete = completeness(trace)

    assert (complete.n_there, complete.n_missing) == (N - 3, 3)
    assert "recording_cut" in codes(trace)


@pytest.mark.parametrize(
    ("end", "interrupted", "expected", "hides"),
    [
        ({"state": "killed", "signal": "SIGILL"}, [3], (1, "by SIGILL"), True),
        ({"state": "killed", "signal": "SIGTERM"}, [], (None, "by SIGTERM"), False),
        ({"state": "gone"}, [3], (1, "cause unknown"), True),
        ({"state": "exited"}, [3], (1, "while computing"), True),
    ],
)
def test_program_that_died_says_so(
    end: dict[str, Any],
    interrupted: list[int],
    expected: tuple[int | None, str],
    hides: bool,
    tmp_path: Path,
) -> None:
    own = account(interrupted=interrupted)
    trace = opened(tmp_path, end=NOTHING | end, account=own)

    coverage = trace_coverage(trace)

    assert causes(coverage) == {Cause.KILLED: expected}
    assert coverage.may_hide_reads is hides
    assert completeness(trace).n_missing == 0


def test_recording_that_was_saved_in_mid_run_is_of_a_running_program(
    tmp_path: Path,
) -> None:
    trace = opened(tmp_path, end=NOTHING | {"state": "running"})

    assert set(causes(trace_coverage(trace))) == {Cause.STILL_RUNNING}
    assert "running" in trace.info.producer["end"]


def test_graphs_of_other_backends_are_known_to_be_whole(tmp_path: Path) -> None:
    """What a graphics card computes has no records of ops: it may read anything."""
    graphs = recordings.sidecar()["graph_list"]
    for graph in graphs:
        graph["backend_number"] = 2
    whole = [
        {"thread": 0, "graph": i, "begin": recordings.T0, "end": recordings.T0 + 5}
        for i in range(3)
    ]
    backends = [
        {"backend": i, "name": name, "device": name, "description": "", "pointer": i}
        for i, name in ((1, "CPU"), (2, "Vulkan0"))
    ]
    trace = opened(
        tmp_path, graph_list=graphs, whole_graphs=whole, backends=backends
    )  # fmt: skip

    coverage = trace_coverage(trace)

    assert causes(coverage) == {Cause.GRAPHS_WHOLE: (3, "Vulkan0")}
    assert coverage.may_hide_reads


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": 5},
        {"settings": {"ops": "MUL_MAT"}},
        {"settings": {"sample_every": -1}},
        {"settings": {"enabled": 1}},
        {"changes": 7},
        {"end": []},
        {"account": [1]},
        {"account": account(missing=-1)},
        {"account": account(interrupted=[None])},
        {"account": account(short={"graph": [1], "expected": [], "recorded": [1]})},
    ],
)
def test_what_cannot_be_is_left_out_and_reported(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    trace = opened(tmp_path, **changes)

    assert "sidecar_values" in codes(trace)
    completeness(trace)


# ---- without records, and beside an event stream ----


@pytest.mark.parametrize(("n_records", "is_cut"), [(0, False), (N, True)])
def test_recording_of_graphs_alone_opens_with_its_graphs(
    n_records: int, is_cut: bool, tmp_path: Path
) -> None:
    opened(
        tmp_path, records=n_records, settings=ALL | {"op_timing": False},
        account=account(expected=0, recorded=0, left_out=N),
    )  # fmt: skip
    path = tmp_path / "run.bin"
    path.write_bytes(b"")

    trace = open_bundle(survey([path]))

    of_graphs = trace.lanes.of_kind(LaneKind.GRAPH)[trace.spans.lane]
    assert int(of_graphs.sum()) == recordings.N_GRAPHS
    assert ("part_unreadable" in codes(trace)) is is_cut
    kinds = {"ops": 0, "graphs": recordings.N_GRAPHS, "lists of experts": 0}
    assert trace.info.records_by_kind == kinds
    assert Cause.OP_TIMING_OFF in causes(trace_coverage(trace))


def test_numbers_are_reported_as_ranges() -> None:
    assert number_ranges(["3", "1", "2", "9", "x"]) == "1-3, 9, x"
    assert number_ranges([]) == ""


def codes(trace: Trace) -> set[str]:
    return {warning.code for warning in trace.warnings}
