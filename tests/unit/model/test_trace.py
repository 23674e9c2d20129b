"""Builder, tables and the checks of a trace."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from builders import llama_like_trace
from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.graph import Graph
from ggscope.model.run import RunStory
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    CounterShape,
    FlatAccesses,
    Flows,
    Quality,
    SpanFlag,
    StringTable,
    narrow,
    quality_of,
)
from ggscope.model.tensors import Buffers, Tensors
from ggscope.model.trace import LaneKind, OpTable, Severity, Trace, TraceInfo

INFO = TraceInfo((), "test", "test", "1", 0)


def tensors(builder: TraceBuilder, n: int) -> Tensors:
    names = [builder.strings.intern(f"tensor {i}") for i in range(n)]
    return Tensors(
        np.array(names, np.int32), np.arange(n) * 100, np.full(n, 100),
        np.full(n, -1, np.int16), np.full(n, -1, np.int16),
    )  # fmt: skip


def patterns(builder: TraceBuilder) -> Accesses:
    """Pattern 0 reads tensors 0 and 1 (300 bytes), pattern 1 nothing, 2 tensor 1."""
    builder.tensors = tensors(builder, 2)
    rows = AccessColumns.blank(3)
    rows = dataclasses.replace(
        rows, tensor=np.array([0, 1, 1], np.int32), size=np.array([100, 200, -1])
    )
    return Accesses(
        np.array([0, 2, -1, 1, 0], np.int32), np.array([0, 2, 2, 3]), rows,
        FlatAccesses.blank(),
    )  # fmt: skip


def five_spans() -> TraceBuilder:
    builder = TraceBuilder()
    lane = builder.add_lane("thread 0", LaneKind.THREAD, ("Threads",), raw="7")
    builder.add_spans(
        start=np.arange(5) * 10, end=np.arange(5) * 10 + 5, lane=lane,
        name=builder.strings.intern("x"), op=np.array([0, 1, 2, 9, -1]), token=3,
    )  # fmt: skip
    builder.ops = OpTable("t", ("NONE", "ADD", ""))
    return builder


def test_snapshot_of_nothing_is_a_sound_empty_trace() -> None:
    trace = TraceBuilder().snapshot(INFO)

    assert trace.check() == []
    assert len(trace.spans) == len(trace.markers) == len(trace.accesses) == 0
    assert trace.extent.duration == 0


def test_snapshots_share_rows_and_count_up() -> None:
    builder = five_spans()
    first = builder.snapshot(INFO, frozenset({"names"}))
    builder.add_spans(start=np.array([100]), end=np.array([101]), lane=0)

    second = builder.snapshot(INFO)

    assert (len(first.spans), len(second.spans)) == (5, 6)
    assert (first.generation, second.generation) == (1, 2)
    assert first.pending == {"names"}
    assert not second.pending
    assert second.spans.token is not None
    assert second.spans.token.tolist() == [3, 3, 3, 3, 3, -1]
    assert first.check() == second.check() == []
    assert not second.spans.start.flags.writeable


def test_colour_column_joins_as_unsigned() -> None:
    builder = five_spans()
    builder.add_spans(
        start=np.array([100]), end=np.array([101]), lane=0, color=0xFFFF0000
    )

    trace = builder.snapshot(INFO)

    assert trace.spans.color is not None
    assert trace.spans.color.dtype == np.uint32
    assert trace.spans.color.tolist() == [0] * 5 + [0xFFFF0000]
    assert trace.check() == []


def test_names_fall_back_to_the_op_then_a_dash() -> None:
    builder = five_spans()
    builder.add_spans(start=np.array([90]), end=np.array([95]), lane=0, op=1)
    builder.add_spans(start=np.array([96]), end=np.array([97]), lane=0)

    trace = builder.snapshot(INFO)

    assert [trace.span_name(i) for i in (0, 5, 6)] == ["x", "ADD", "–"]
    assert [trace.op_name(i) for i in (-1, 1, 2, 9)] == ["", "ADD", "OP_2?", "OP_9?"]
    assert dataclasses.replace(trace, ops=None).op_name(5) == "OP_5?"


def test_repeated_warnings_add_up_and_keep_the_first_place() -> None:
    builder = TraceBuilder()
    builder.warn(Severity.NOTICE, "bad", "first", 10, place="record 1")
    builder.warn(Severity.DATA_LOSS, "bad", "second", 20, 4)
    builder.warn(Severity.ERROR, "worse", "third")

    warnings = builder.snapshot(INFO).warnings

    assert [(w.code, w.severity, w.count) for w in warnings] == [
        ("worse", Severity.ERROR, 1), ("bad", Severity.DATA_LOSS, 5),
    ]  # fmt: skip
    assert (warnings[1].message, warnings[1].offset) == ("first", 10)
    assert Severity.DATA_LOSS.word == "data_loss"


def test_accesses_are_counted_summed_and_flattened() -> None:
    builder = five_spans()
    builder.accesses = patterns(builder)
    trace = builder.snapshot(INFO)
    accesses = trace.accesses

    flat = accesses.flat(trace.spans)
    some = accesses.flat(trace.spans, np.array([1]))

    assert trace.check() == []
    assert accesses.counts().tolist() == [2, 1, 0, 0, 2]
    assert accesses.bytes_read_written().tolist() == [300, 0, 0, 0, 300]
    assert len(accesses) == len(flat) == 5
    assert flat.span.tolist() == [0, 0, 1, 4, 4]
    assert flat.what.tensor.tolist() == [0, 1, 1, 0, 1]
    assert flat.time.tolist() == [0, 0, 10, 40, 40]
    assert flat.token.tolist() == [3] * 5
    assert some.span.tolist() == [1]
    assert accesses.of_span(4).tensor.tolist() == [0, 1]
    assert len(accesses.of_span(2)) == 0


def test_flattening_adds_loose_accesses_and_missing_tokens() -> None:
    builder = TraceBuilder()
    lane = builder.add_lane("DMA 0", LaneKind.ENGINE)
    builder.add_spans(start=np.array([0]), end=np.array([5]), lane=lane)
    rows = AccessColumns.blank(2)
    loose = FlatAccesses(
        np.array([1, 2]), np.zeros(2, np.int32), np.full(2, -1), np.full(2, -1), rows
    )
    builder.accesses = Accesses(
        np.array([0], np.int32), np.array([0, 1]), AccessColumns.blank(1), loose
    )
    trace = builder.snapshot(INFO)

    flat = trace.accesses.flat(trace.spans)

    assert trace.check() == []
    assert flat.time.tolist() == [0, 1, 2]
    assert flat.token.tolist() == [-1, -1, -1]


def test_accesses_grow_with_spans_added_later() -> None:
    builder = five_spans()
    builder.accesses = patterns(builder)
    builder.add_spans(start=np.array([90]), end=np.array([95]), lane=0)

    trace = builder.snapshot(INFO)

    assert trace.accesses.pattern.tolist()[-1] == -1
    assert trace.check() == []


def test_quality_follows_the_worst_flag() -> None:
    flags = np.array(
        [0, SpanFlag.INFERRED_END, SpanFlag.ESTIMATED | SpanFlag.INFERRED_END,
         SpanFlag.UNFINISHED | SpanFlag.ESTIMATED, SpanFlag.TRUNCATED_NAME]
    )  # fmt: skip

    expected = [
        Quality.MEASURED, Quality.DERIVED, Quality.ESTIMATED, Quality.UNFINISHED,
        Quality.MEASURED,
    ]  # fmt: skip
    assert quality_of(flags).tolist() == expected
    builder = five_spans()
    assert builder.snapshot(INFO).quality_counts() == {
        "measured": 5, "derived": 0, "estimated": 0, "unfinished": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([], np.int8), ([-1, 127], np.int8), ([128], np.int16), ([-40_000], np.int32),
     ([1 << 40], np.int64)],
)  # fmt: skip
def test_narrow_takes_the_smallest_type(values: list[int], dtype: type) -> None:
    assert narrow(np.array(values, np.int64)).dtype == dtype


def test_narrow_keeps_what_fits_nothing() -> None:
    assert narrow(np.array([1 << 63], np.uint64), np.uint64).dtype == np.uint64


def broken(**changes: object) -> list[str]:
    builder = five_spans()
    builder.accesses = patterns(builder)
    builder.add_markers(
        time=np.array([3]),
        lane=0,
        name=builder.strings.intern("m"),
        flags=np.zeros(1, int),
    )
    builder.add_counter("c", "B", CounterShape.LEVEL, np.array([1, 2]), np.ones(2))
    trace = builder.snapshot(INFO)
    assert trace.check() == []
    return dataclasses.replace(trace, **changes).check()  # type: ignore[arg-type]


def spans_with(**columns: object) -> Trace:
    trace = five_spans().snapshot(INFO)
    spans = dataclasses.replace(trace.spans, **columns)  # type: ignore[arg-type]
    return dataclasses.replace(trace, spans=spans)


def frozen(values: object, dtype: object = np.int64) -> np.ndarray:
    array = np.array(values, dtype)  # type: ignore[arg-type]
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"end": frozen([-1, 15, 25, 35, 45])}, "ends before it starts"),
        ({"lane": frozen([0, 0, 0, 0, 1])}, "spans.lane has values"),
        ({"lane": frozen([0, 0])}, "spans.lane has shape"),
        ({"name": frozen([0.0] * 5, float)}, "expected integers"),
        ({"start": frozen([0] * 5, np.int32)}, "expected int64"),
        ({"op": np.zeros(5, np.int64)}, "is writable"),
        ({"end": frozen([5, 15, 25, 35, 999])}, "outside the extent"),
    ],
)
def test_check_names_a_broken_span_column(
    columns: dict[str, object], message: str
) -> None:
    assert any(message in line for line in spans_with(**columns).check())


def test_check_names_broken_accesses() -> None:
    good = patterns(five_spans())
    rows: AccessColumns = good.patterns

    def check(accesses: Accesses) -> str:
        return " ".join(broken(accesses=accesses))

    swap = dataclasses.replace
    assert "pattern has shape" in check(swap(good, pattern=frozen([0])))
    assert "does not ascend" in check(swap(good, first=frozen([0, 3, 2, 3])))
    assert "does not end" in check(swap(good, first=frozen([0, 1, 1, 2])))
    assert "accesses.pattern has values" in check(
        swap(good, pattern=frozen([0, 9, 0, 0, 0]))
    )
    assert "patterns.tensor has values 0..7 outside [-1, 2)" in check(
        swap(good, patterns=swap(rows, tensor=frozen([0, 1, 7])))
    )
    assert "patterns.buffer has values" in check(
        swap(good, patterns=swap(rows, buffer=frozen([0, 0, 0])))
    )
    assert "patterns.expert has shape" in check(
        swap(good, patterns=swap(rows, expert=frozen([0])))
    )
    loose = FlatAccesses(
        frozen([1]), frozen([0, 0]), frozen([0]), frozen([0]), AccessColumns.blank(1)
    )
    assert "loose.lane" in check(swap(good, loose=loose))


def test_check_names_broken_lanes_counters_and_markers() -> None:
    builder = five_spans()
    builder.add_counter("c", "B", CounterShape.RATE, np.array([1, 2]), np.ones(2),
                        window=np.array([1, 1]))  # fmt: skip
    builder.add_markers(time=np.array([4]), lane=0, name=-1)
    trace = builder.snapshot(INFO)
    series = trace.counters[0]
    swap = dataclasses.replace

    def check(**changes: object) -> str:
        return " ".join(swap(trace, **changes).check())  # type: ignore[arg-type]

    assert trace.check() == []
    with pytest.raises(ValueError, match="lane 0 has id 5"):
        check(lanes=(swap(trace.lanes[0], id=5), *trace.lanes[1:]))
    assert "counter 0 has id 3" in check(counters=(swap(series, id=3),))
    assert "not in time order" in check(counters=(swap(series, time=frozen([2, 1])),))
    assert "counter c.value has shape" in check(
        counters=(swap(series, time=frozen([2])),)
    )
    assert "marker lies outside" in check(
        markers=swap(trace.markers, time=frozen([1 << 40]))
    )
    assert "flows.source" in check(flows=Flows(frozen([99]), frozen([0])))


def one_node_graph() -> Graph:
    ids, none = np.zeros(1, np.int32), np.full(1, -1, np.int32)
    return Graph(
        name=ids, op=ids, tensor=none, layer=none, source=ids, target=ids,
        slot=np.zeros(1, np.uint8), operation=none, dtype=none,
        shape=np.zeros((1, 4), np.int64), category=np.zeros(1, np.uint8),
        flags=np.zeros(1, np.uint8), address=np.zeros(1, np.uint64),
    )  # fmt: skip


def test_graphs_buffers_and_flows_are_frozen_too() -> None:
    builder = five_spans()
    builder.add_graph(one_node_graph())
    builder.flows = Flows(np.array([0]), np.array([1]))
    builder.buffers = Buffers(
        np.array([-1]), np.array([-1]), np.zeros(1, np.uint8), np.array([10]),
        np.array([0]), np.array([-1]), np.array([1], np.uint64),
    )  # fmt: skip

    trace = builder.snapshot(INFO)

    assert trace.check() == []
    assert not trace.graphs[0].name.flags.writeable
    assert not trace.flows.source.flags.writeable
    assert not trace.buffers.size.flags.writeable


def test_string_table_knows_missing_and_refuses_nonsense() -> None:
    table = StringTable(["a", "b", "a"])

    assert len(table) == 2
    assert table.intern_many(["b", "c"]).tolist() == [1, 2]
    assert (table[-1], table[2], table.find("c"), table.find("z")) == ("", "c", 2, -1)
    assert table.texts() == ["a", "b", "c"]
    with pytest.raises(IndexError):
        table[-2]


def test_selection_and_filter_are_truthy_when_they_say_something() -> None:
    assert not Selection()
    assert Selection().active is None
    assert Selection("spans", (4, 2)).active == 4
    assert not Filter()
    expected = Filter(ops=frozenset({"ADD"}), text="x")
    assert expected
    assert expected.without("text") == Filter(ops=frozenset({"ADD"}))


def test_what_is_reported_is_one_line_whatever_it_names() -> None:
    builder = TraceBuilder()
    builder.warn(Severity.NOTICE, "odd", "the name a\nb", place="events[1].a\nb")

    (warning,) = builder.snapshot(INFO).warnings
    assert (warning.message, warning.place) == (r"the name a\nb", r"events[1].a\nb")
    assert ReadError("the name a\nb").message == r"the name a\nb"


def test_trace_shows_what_it_is_in_one_line():
    trace = llama_like_trace(tokens=2)
    text = repr(trace)
    assert text.startswith("<Trace ")
    assert "\n" not in text
    assert f"{len(trace.spans):,} spans, {len(trace.lanes):,} lanes" in text
    assert len(text) < 200
    paths = tuple(Path(f"a\n{i}.bin") for i in range(5))
    info = dataclasses.replace(trace.info, paths=paths)
    many = dataclasses.replace(trace, info=info)
    assert "…" in repr(many)
    assert "\n" not in repr(many)


def test_recordings_are_also_known_by_their_names_of_the_last_release() -> None:
    plain = llama_like_trace()
    info = RunStory(
        settings={}, n_changes=0, skipped_graphs=3, end="exited", signal="",
        whole=(), account=None,
    )  # fmt: skip
    columns = {f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)}
    del columns["recordings"]

    trace = Trace(**columns, stories=(info,))

    assert trace.recordings == trace.stories == (info,)
    later = dataclasses.replace(trace, recordings=())
    assert later.stories == ()
    with pytest.raises(TypeError, match="no_such"):
        Trace(**columns, no_such=1)
