"""Sidecars of recordings: what they add, whose they are, and damaged ones."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recordings
from ggscope.analysis.buffers import buffer_use
from ggscope.analysis.completeness.coverage import Cause, trace_coverage
from ggscope.analysis.statistics.latency import phase_latencies
from ggscope.analysis.summary.bars import token_bars
from ggscope.cli import main
from ggscope.descriptions.files import join_text
from ggscope.descriptions.spans import destination_of, exact_time_text
from ggscope.descriptions.times import fused_ops
from ggscope.errors import CorruptError, TruncatedError, UnsupportedVersionError
from ggscope.model.tables import Quality, SpanFlag
from ggscope.model.trace import LaneKind, Severity, Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.discovery import beside, sidecar_of, survey
from ggscope.readers.registry import open_trace
from ggscope.session_loading import open_bundle, open_parts, without
from recordings import N_GRAPHS, N_THREADS, NODES, recording
from statements import new_statements
from tensor_files import encode, llama_pass


def opened(path: Path, **options: str) -> Trace:
    trace = open_bundle(survey((path,)), context=ReadContext(options=options))
    assert trace.check() == []
    return trace


def codes(trace: Trace) -> set[str]:
    return {warning.code for warning in trace.warnings}


def names(trace: Trace, kind: LaneKind) -> list[str]:
    """Return the names of spans, of threads those of their ops."""
    is_kind = trace.lanes.of_kind(kind)[trace.spans.lane]
    if kind is LaneKind.THREAD:
        is_kind &= trace.spans.op >= 0
    rows = is_kind.nonzero()[0]
    return [trace.span_name(row) for row in rows.tolist()]


def is_joined(trace: Trace) -> bool:
    return any(lane.kind == LaneKind.GRAPH for lane in trace.lanes)


@pytest.mark.parametrize("is_packed", [False, True])
def test_sidecar_beside_its_records_is_taken_with_them(is_packed, tmp_path):
    path = recording(tmp_path, is_packed=is_packed)

    trace = opened(path)

    n = N_GRAPHS * N_THREADS * len(NODES)
    assert names(trace, LaneKind.TOKEN) == [
        f"ubatch {i} · token {i} at {i}" for i in range(N_GRAPHS)
    ]
    assert names(trace, LaneKind.GRAPH) == ["graph"] * N_GRAPHS
    assert sorted(names(trace, LaneKind.COMMAND)) == ["decode", "inp_embd"]
    threads = names(trace, LaneKind.THREAD)
    assert len(threads) == n
    assert set(threads) == set(NODES)  # longer than the field of a record
    spans = trace.spans
    cores = {(int(c), int(m)) for c, m in zip(spans.core, spans.numa, strict=True)}
    assert cores == {(7, 1), (-1, -1)}
    assert [m.name for m in trace.models] == ["tiny.gguf"]
    assert trace.strings[int(trace.buffers.name[0])] == "compute"
    assert (trace.ops.id, trace.op_name(1)) == ("capture", "MUL_MAT")
    assert trace.info.producer["command"] == "llama -m x"
    assert codes(trace) == {"shared_ops"}
    (weight,) = [
        row
        for row in range(len(trace.tensors))
        if trace.strings[int(trace.tensors.name[row])] == "blk.0.attn_q.weight.long"
    ]
    reads = trace.accesses.of_span(threads.index("Qcur-0"))
    assert reads.tensor.tolist()[0] == weight
    assert reads.offset.tolist() == [4096, -1]


def test_reads_of_weights_are_those_of_the_buffer_that_holds_them(tmp_path):
    facts = recordings.sidecar()
    mapped = facts["buffers"][0] | {"buffer": 8, "name": "CPU_Mapped", "usage": 1}
    build = facts["builds"][0]
    tensors = build["tensors"] | {"buffer": [3, 3, 3, 8, 3]}
    changes = {
        "buffers": [*facts["buffers"], mapped | {"base": 0xF00D}],
        "builds": [build | {"tensors": tensors}],
    }

    use = buffer_use(opened(recording(tmp_path, **changes)))

    assert use.count.tolist() == [3 * N_GRAPHS, N_GRAPHS]
    assert [use.knows(row) for row in (0, 1)] == [True, True]


def test_ops_that_ran_with_the_next_node_say_so(tmp_path):
    path = recording(tmp_path)
    records = np.frombuffer(path.read_bytes(), recordings.TRACE).copy()
    of_node = records["sources"]["more"][:, 1]
    records["sources"]["more"][:, 3] |= np.where(of_node == 0, np.uint32(1 << 28), 0)
    path.write_bytes(records.tobytes())

    trace = opened(path)

    fused = (trace.spans.flags & np.uint16(SpanFlag.FUSED)) != 0
    first = [row for row in range(len(trace.spans)) if trace.span_name(row) == NODES[0]]
    assert fused.nonzero()[0].tolist() == first
    assert sum(fused_ops(trace).values()) == N_GRAPHS


def test_result_of_an_op_is_as_large_as_in_its_own_build(tmp_path):
    facts = recordings.sidecar()
    (prompt,) = facts["builds"]
    sizes = {"bytes": [32, 64, 128, 8192, 32]}
    generate = prompt | {"build": 1, "tensors": prompt["tensors"] | sizes}
    graphs = [g | {"build": int(g["graph"] > 0)} for g in facts["graph_list"]]
    path = recording(tmp_path, builds=[prompt, generate], graph_list=graphs)

    trace = opened(path)

    def results(token: int) -> dict[str, str]:
        rows = np.flatnonzero((trace.spans.token == token) & (trace.spans.op >= 0))
        facts = [destination_of(trace, row) for row in rows.tolist()]
        return {fact.label: fact.value for fact in facts if fact is not None}

    assert results(0) == dict.fromkeys(NODES, "256 B")
    for token in range(1, N_GRAPHS):
        assert list(results(token).values()) == ["32 B", "64 B", "128 B"]


def test_whole_graph_of_a_backend_lies_on_its_thread(tmp_path):
    trace = opened(recording(tmp_path))

    (lane,) = [lane for lane in trace.lanes if lane.group == ("Context 1",)]
    (span,) = (trace.spans.lane == lane.id).nonzero()[0].tolist()
    assert (lane.name, trace.span_name(span)) == ("thread 0", "graph")
    assert trace.spans.end[span] - trace.spans.start[span] == 200
    assert trace.spans.token[span] == 0


def test_records_of_a_recording_are_written_as_token_traces(tmp_path):
    path, folder = recording(tmp_path), tmp_path / "tokens"

    assert main(["convert", str(path), "--to", "token-json", "-o", str(folder)]) == 0

    assert len(list(folder.iterdir())) == N_GRAPHS


def test_split_of_a_computation_is_named(tmp_path):
    graphs = recordings.sidecar()["graph_list"]
    graphs[1]["split"] = 2

    result = names(opened(recording(tmp_path, graph_list=graphs)), LaneKind.GRAPH)

    assert result == ["graph", "graph · split 2", "graph", "graph"]


def test_graphs_of_another_backend_are_named_after_it(tmp_path):
    graphs = recordings.sidecar()["graph_list"]
    for number, graph in enumerate(graphs):
        graph["split"], graph["backend_number"] = number % 2, 1 + number % 2
    backends = [
        {"backend": 1 + i, "name": name, "device": name, "description": ""}
        for i, name in enumerate(("CPU", "Vulkan0"))
    ]
    (whole,) = recordings.sidecar()["whole_graphs"]
    changes = {"whole_graphs": [whole | {"graph": 1}], "backends": backends}

    trace = opened(recording(tmp_path, graph_list=graphs, **changes))

    assert names(trace, LaneKind.GRAPH) == ["graph", "graph · split 1 · Vulkan0"] * 2
    (lane,) = [lane for lane in trace.lanes if lane.group == ("Context 1",)]
    (span,) = np.flatnonzero(trace.spans.lane == lane.id).tolist()
    assert trace.span_name(span) == "graph · split 1 · Vulkan0"
    (omission,) = [
        each for each in trace_coverage(trace).omissions
        if each.cause is Cause.GRAPHS_WHOLE
    ]  # fmt: skip
    assert (omission.detail, omission.count) == ("Vulkan0", 1)


def test_ubatch_of_another_backend_ends_when_the_program_has_waited_for_it(tmp_path):
    """The call that starts its graph returns before; without a wait it is a guess."""
    graphs = recordings.sidecar()["graph_list"]
    for number, graph in enumerate(graphs):
        graph["backend_number"] = 1 if number == 3 else 2  # the last one: the CPU
    backends = [
        {"backend": 1 + i, "name": name, "device": name, "description": ""}
        for i, name in enumerate(("CPU", "Vulkan0"))
    ]
    (call,) = recordings.sidecar()["host"]
    waits = [(0, 8000, 8500), (0, 9100, 9600), (0, 9700, 9800), (1, 9200, 9900),
             (3, 9200, 9900)]  # fmt: skip
    calls = [
        call | {"kind": "sync", "ubatch": ubatch,
                "begin": recordings.T0 + 10_000 * ubatch + begin,
                "end": recordings.T0 + 10_000 * ubatch + end}
        for ubatch, begin, end in waits
    ]  # fmt: skip

    trace = opened(
        recording(tmp_path, graph_list=graphs, backends=backends, host=calls)
    )

    rows = np.flatnonzero(trace.lanes.of_kind(LaneKind.TOKEN)[trace.spans.lane])
    length = (trace.spans.end - trace.spans.start)[rows]
    is_guess = (trace.spans.flags[rows] & int(SpanFlag.ESTIMATED)) != 0
    assert length.tolist() == [9600, 9900, 9000, 9000]
    assert is_guess.tolist() == [False, False, True, False]
    # A guess is no latency.
    assert sum(len(each.ids) for each in phase_latencies(trace)) == 3


def test_ubatch_whose_graph_did_not_end_is_unfinished(tmp_path):
    graphs = recordings.sidecar()["graph_list"]
    graphs[-1]["end"] = None

    bars = token_bars(opened(recording(tmp_path, graph_list=graphs)))

    measured = [Quality.MEASURED] * (N_GRAPHS - 1)
    assert bars.quality.tolist() == [*measured, Quality.UNFINISHED]


def test_op_names_of_a_sidecar_settle_which_table_it_is(tmp_path):
    """Few ops fit many tables: without the sidecar their names are in doubt."""
    path = recording(tmp_path, ops={"20": "GET_ROWS"})
    records = np.frombuffer(path.read_bytes(), recordings.TRACE).copy()
    records["op"] = 20
    path.write_bytes(records.tobytes())
    alone = tmp_path / "alone.bin"
    alone.write_bytes(records.tobytes())

    assert "op_table_uncertain" in codes(opened(alone))
    trace = opened(path)
    assert "op_table_uncertain" not in codes(trace)
    assert (trace.ops.id, trace.op_name(20)) == ("capture", "GET_ROWS")


def test_name_too_long_for_a_sidecar_has_none(tmp_path):
    path = tmp_path / ("n" * 251 + ".bin")
    path.write_bytes(recordings.records())

    assert sidecar_of(path) is None
    assert main(["info", str(path)]) == 0


def test_each_of_two_recordings_has_its_own_sidecar(tmp_path):
    recording(tmp_path, "a")
    other = recording(tmp_path, "b", records=3)
    other.write_bytes(recordings.records(later=10**10))

    bundle = survey((tmp_path,))
    trace = open_bundle(bundle)

    assert [m.path.name for m in bundle.sides] == ["a.json", "b.json"]
    assert [join.part for join in trace.joins] == ["a.json"]
    (refused,) = [w for w in trace.warnings if w.code == "sidecar_refused"]
    assert refused.message.startswith("b.json does not match these records")


def test_records_without_their_sidecar_are_as_they_were(tmp_path):
    path = recording(tmp_path)
    session = open_parts(survey((path,)))

    alone = without(session, {path.with_suffix(".json")}).trace

    assert alone.spans.core is None
    assert not is_joined(alone)
    fresh = open_trace(path)
    assert codes(alone) == codes(fresh)
    assert len(alone.spans) == len(fresh.spans)


def test_who_wants_fewer_names_gets_the_records_alone(tmp_path):
    trace = opened(recording(tmp_path), names="none")

    assert not is_joined(trace)
    assert "names_left_out" in codes(trace)


def test_range_of_records_has_the_sidecar_too(tmp_path):
    trace = opened(recording(tmp_path), range="0:6")

    assert is_joined(trace)
    assert len(names(trace, LaneKind.THREAD)) == 6


def test_sidecar_of_another_run_is_no_file_of_a_trace_beside_it(tmp_path):
    path = recording(tmp_path)
    recording(tmp_path, "other")
    (tmp_path / "other.bin").unlink()

    bundle = beside(path)

    assert bundle.sides == ()
    assert [m.path.name for m in survey((path,)).sides] == ["run.json"]


def message_of(trace: Trace) -> str:
    """Return the warnings of a trace, and how well its files fit."""
    fits = [join_text(join) for join in trace.joins]
    return "\n".join([*(w.message for w in trace.warnings), *fits])


def test_sidecar_of_another_run_is_refused_with_the_evidence(tmp_path):
    path = recording(tmp_path)
    fitting = message_of(opened(path))
    assert new_statements(fitting, message_of(open_trace(path)))
    assert "records with a node of run.json: 24 of 24 (100.0 %)" in fitting

    def refused(expected: str, later: int = 0, **changes: Any) -> str:
        recording(tmp_path, **changes)
        path.write_bytes(recordings.records(later=later))
        trace = opened(path)
        (warning,) = [w for w in trace.warnings if w.code == "sidecar_refused"]
        assert warning.message == (
            f"run.json does not match these records: {expected}. It is ignored."
        )
        assert not is_joined(trace)
        assert len(names(trace, LaneKind.THREAD)) == 24
        return warning.message

    assert new_statements(
        refused("it states 3 records, but there are 24", records=3), fitting
    )
    assert new_statements(
        refused("0 of 24 records lie within its graphs", later=10**10), fitting
    )
    assert new_statements(
        refused("no record belongs to one of its graphs", graph_list=[]), fitting
    )


def test_sidecar_named_with_records_of_other_sizes_is_refused(tmp_path):
    fitting = message_of(opened(recording(tmp_path)))
    path = tmp_path / "other.bin"
    path.write_bytes(encode(llama_pass(0), "1024"))

    trace = open_bundle(survey((path, tmp_path / "run.json")))

    (refused,) = [w for w in trace.warnings if w.code == "sidecar_refused"]
    assert "other.bin has no 256-byte records" in refused.message
    assert new_statements(refused.message, fitting)


def test_records_that_were_cut_are_reported_as_lost(tmp_path):
    path = recording(tmp_path)
    path.write_bytes(recordings.records()[: 20 * 256])

    trace = opened(path)

    (cut,) = [w for w in trace.warnings if w.code == "recording_cut"]
    assert (cut.count, cut.severity) == (4, Severity.DATA_LOSS)
    assert is_joined(trace)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("lost", "capture_lost"),
        ("dropped", "capture_lost"),
        ("lost_events", "capture_events_lost"),
        ("dropped_events", "capture_events_lost"),
        ("lost_definitions", "capture_definitions_lost"),
        ("unnamed_ops", "capture_unnamed_ops"),
        ("no_lane", "capture_no_lane"),
        ("damaged_frames", "capture_damaged"),
    ],
)
def test_losses_of_a_recording_are_problems(key: str, code: str, tmp_path: Path):
    trace = opened(recording(tmp_path, **{key: 17}))

    (problem,) = [w for w in trace.warnings if w.code == code]
    assert (problem.count, problem.severity) == (17, Severity.DATA_LOSS)
    assert problem.place == "run.json"
    assert is_joined(trace)


def test_records_without_a_lane_are_not_lost_for_want_of_room(tmp_path):
    trace = opened(recording(tmp_path, lost=20, dropped=17, no_lane=15))

    counts = {w.code: w.count for w in trace.warnings if w.code.startswith("capture_")}
    assert counts == {"capture_lost": 5, "capture_no_lane": 15}


def test_note_of_the_tool_is_a_notice(tmp_path):
    trace = opened(recording(tmp_path, notes=["begins only", 5]))

    (note,) = [w for w in trace.warnings if w.code == "live_note"]
    assert note.message == "begins only"


# -- damaged and hostile ones --------------------------------------------------

WRONG = (
    None, True, -1, 1.5, 1 << 70, "x", "\x1b[31m<b>", [], {}, [[]], [None], [{}],
    {"": 0},
)  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_value_of_a_wrong_kind_costs_itself_only(wrong: object, tmp_path: Path):
    """The records are there whatever stands in the sidecar."""
    items = {"format", "version"}
    for key in sorted(recordings.sidecar().keys() - items):
        path = recording(tmp_path, **{key: wrong})
        assert open_trace(path.with_suffix(".json")).check() == [], key

    trace = opened(recording(tmp_path, **dict.fromkeys(recordings.sidecar(), wrong)))

    assert len(names(trace, LaneKind.THREAD)) == N_GRAPHS * N_THREADS * len(NODES)


def _places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all values within lists and objects."""
    places = []
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value[:2]) if isinstance(value, list) else pairs
    for key, inner in pairs:
        places += [(*path, key), *_places(inner, (*path, key))]
    return places


def test_times_of_a_recording_are_dated_by_its_sidecar(tmp_path: Path) -> None:
    path = recording(tmp_path)

    trace = opened(path)

    begun = trace.clock.wall(recordings.T0 - 500 - trace.clock.origin)
    assert begun == 1_700_000_000 * 10**9
    alone = open_trace(path)
    assert alone.clock.wall(0) is None
    assert exact_time_text(trace, 0).count(";") == 2
    assert "2023-11-14 22:13:20." in exact_time_text(trace, 0)
    assert "UTC" not in exact_time_text(alone, 0)


@pytest.mark.parametrize("clock", [{}, {"monotonic": 7}, {"real": -1, "monotonic": 7}])
def test_clock_without_a_date_dates_nothing(
    tmp_path: Path, clock: dict[str, int]
) -> None:
    trace = opened(recording(tmp_path, clock={"unit": "ns", **clock}))

    assert trace.clock.epoch is None


@pytest.mark.parametrize("make", [recordings.sidecar, recordings.packed_sidecar])
def test_no_value_within_breaks_anything(make, tmp_path):
    """Each inner value is one of the wrong kinds; with GGSCOPE_SWEEP=1 each of them."""
    sound = json.dumps(make())
    path = tmp_path / "run.json"
    for i, place in enumerate(p for p in _places(json.loads(sound)) if len(p) > 1):
        one = WRONG[i % len(WRONG) :][:1]
        wrongs = WRONG if os.environ.get("GGSCOPE_SWEEP") else one
        for wrong in wrongs:
            facts = json.loads(sound)
            inner = facts
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = wrong
            path.write_text(json.dumps(facts))

            trace = open_trace(path)

            assert trace.check() == [], (place, wrong)


def test_values_that_cannot_be_are_counted_with_the_place_of_the_first(tmp_path):
    trace = opened(recording(tmp_path, buffers=[5], copies=[{"begin": "soon"}]))

    (problem,) = [w for w in trace.warnings if w.code == "sidecar_values"]
    assert (problem.count, problem.place) == (2, "run.json: buffers[0]")
    assert is_joined(trace)


def test_keys_that_are_not_known_are_passed_over(tmp_path):
    trace = opened(recording(tmp_path, something={"else": [1, 2]}))

    assert codes(trace) == {"shared_ops"}


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ('{"format": "ggscope-capture", "version": 3}', UnsupportedVersionError,
         r"unsupported sidecar version 3 \(supported: 1 and 2\)."),
        ('{"format": "ggscope-capture", "version": true}', UnsupportedVersionError,
         "unsupported sidecar version"),
        ('{"format": "ggscope-capture", "version": [1]}', UnsupportedVersionError,
         "unsupported sidecar version"),
        ('{"format": "ggscope-capture", "version": 1, "records": ', TruncatedError,
         "truncated or damaged sidecar"),
        ('{"format": "ggscope-capture"' + ', "a": [' + "[" * 99_999, TruncatedError,
         "truncated or damaged sidecar"),
        ('{"format": "ggscope-capture"} {}', TruncatedError, "truncated or damaged"),
        ('{"format": "ggscope-capture", "format": 5}', CorruptError,
         "not a recording sidecar"),
    ],
)  # fmt: skip
def test_sidecar_that_cannot_be_read_leaves_the_records(
    content: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = recording(tmp_path)
    path.with_suffix(".json").write_text(content)

    with pytest.raises(error, match=message):
        open_trace(path.with_suffix(".json"))
    trace = opened(path)

    (problem,) = [w for w in trace.warnings if w.code == "part_unreadable"]
    assert problem.message.startswith("cannot read run.json: ")
    assert len(names(trace, LaneKind.THREAD)) == N_GRAPHS * N_THREADS * len(NODES)


def test_names_with_markup_and_escapes_are_data(tmp_path):
    hostile = "<img src=x>\x1b]0;\x07\u202e"
    facts = recordings.sidecar()
    facts["builds"][0]["names"][0] = facts["copies"][0]["name"] = hostile
    facts["program"] = facts["buffers"][0]["name"] = hostile

    trace = opened(recording(tmp_path, **facts))

    assert hostile in names(trace, LaneKind.THREAD)
    assert hostile in names(trace, LaneKind.COMMAND)


def test_build_that_is_missing_leaves_the_names_of_the_records(tmp_path):
    trace = opened(recording(tmp_path, builds=[]))

    assert set(names(trace, LaneKind.THREAD)) == {name[:24] for name in NODES}
    assert len(trace.accesses) > 0
    assert names(trace, LaneKind.GRAPH) == ["graph"] * N_GRAPHS


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (
            [
                {"graph": 0, "found": 3, "expected": 4},
                {"graph": 1, "found": 6, "expected": 8},
            ],
            "graph 1: 6 of 8 expected records seen",
        ),
        ([{"graph": 0, "found": -3, "expected": 4}], None),
        ([{"graph": 0, "expected": 4}], None),
        ([3], None),
        ("all", None),
    ],
)
def test_what_the_self_test_found_is_reported(
    checks: object, expected: str | None, tmp_path: Path
) -> None:
    path = recording(tmp_path)
    side = path.with_suffix(".json")
    side.write_text(json.dumps(json.loads(side.read_bytes()) | {"checks": checks}))

    producer = opened(path).info.producer

    assert producer["command"] == "llama -m x"
    assert producer.get("self-test") == expected


@pytest.mark.parametrize(
    ("backends", "numbers", "expected"),
    [
        ([], [0, 0, 0, 0], None),
        ([{"backend": 1, "name": "CPU", "device": "CPU", "description": "Zen"}],
         [1, 1, 1, 1], "CPU (Zen): 4 graphs"),
        ([{"backend": 1, "name": "CPU", "device": "", "description": ""},
          {"backend": 2, "name": "GPU", "device": "GPU0", "description": "GPU"}],
         [1, 2, 1, None], "CPU: 2 graphs; GPU on GPU0: 1 graph; unknown: 1 graph"),
        ([{"backend": 1, "name": 3, "device": "", "description": ""}, 5], [1] * 4,
         None),
        ("all", [1] * 4, None),
    ],
)  # fmt: skip
def test_backends_are_reported_with_their_graphs(
    backends: object, numbers: list[int | None], expected: str | None, tmp_path: Path
) -> None:
    path = recording(tmp_path)
    side = path.with_suffix(".json")
    facts = json.loads(side.read_bytes()) | {"backends": backends}
    for graph, number in zip(facts["graph_list"], numbers, strict=True):
        graph["backend_number"] = number
    side.write_text(json.dumps(facts))

    assert opened(path).info.producer.get("backends") == expected
