"""Facts: the words that tooltips, Details and copies share."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import builders
from ggscope.analysis.reads.op_io import account_of
from ggscope.analysis.statistics.table import stat_table
from ggscope.descriptions.spans import (
    Fact,
    access_facts,
    access_line,
    column_text,
    column_time_form,
    destination_of,
    exact_time_text,
    known_facts,
    marker_facts,
    phase_word,
    quality_text,
    quality_word,
    record_fact,
    span_facts,
    time_text,
    tooltip_text,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    Column,
    FlatAccesses,
    Space,
    SpanFlag,
    Spans,
    StringTable,
    schema_of,
)
from ggscope.model.tensors import Buffers, BufferUsage, Tensors
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import Clock
from ggscope.readers.registry import open_trace
from statements import new_statement


def by_label(facts: tuple[Fact, ...]) -> dict[str, Fact]:
    return {fact.label: fact for fact in facts}


def flagged(flag: int) -> Trace:
    return builders.spans_trace([10], [40], op=3, flags=np.uint16(flag))


def with_accesses(columns: AccessColumns, **span: object) -> Trace:
    """Return a trace of one 1 ms MUL_MAT that makes these accesses."""
    builder = TraceBuilder()
    builder.ops = builders.OPS
    builder.add_lane("thread 0", LaneKind.THREAD)
    names = builder.strings.intern_many(["blk.4.ffn_down.weight", "act"])
    builder.tensors = Tensors(
        name=names,
        offset=np.array([0x0C4A_8800, -1]),
        size=np.array([26_004_480, -1]),
        layer=np.array([4, -1], np.int16),
        expert=np.array([-1, -1], np.int16),
    )
    builder.buffers = Buffers(
        name=np.array([-1, builder.strings.intern("KV cache")], np.int32),
        backend=np.array([-1, -1], np.int32),
        usage=np.array([BufferUsage.COMPUTE, BufferUsage.ANY], np.uint8),
        size=np.array([1, 1]),
        allocated=np.array([0, 0]),
        freed=np.array([-1, -1]),
        address=np.array([0, 0x6000_1000], np.uint64),
    )
    builder.add_spans(
        start=np.array([0]),
        end=np.array([1_000_000]),
        lane=0,
        op=3,
        name=builder.strings.intern("ffn_down-4"),
        **span,  # type: ignore[arg-type]
    )
    n = len(columns)
    builder.accesses = Accesses(
        np.zeros(1, np.int32), np.array([0, n]), columns, FlatAccesses.blank()
    )
    return builders.finished(builder)


def access(**values: int) -> AccessColumns:
    columns = AccessColumns.blank(1)
    for key, value in values.items():
        getattr(columns, key)[0] = value
    return columns


def test_measured_duration_says_so_in_words() -> None:
    fact = by_label(span_facts(flagged(0), 0))["duration"]

    assert fact.value == "30 ns measured"
    assert not fact.caution


@pytest.mark.parametrize(
    ("flag", "word", "text"),
    [
        (
            SpanFlag.INFERRED_END,
            "derived",
            "derived: until the next record of this thread",
        ),
        (SpanFlag.INFERRED_START, "derived", "derived: start not recorded"),
        (SpanFlag.ESTIMATED, "estimated", "estimated: a share of a measured whole"),
        (SpanFlag.UNFINISHED, "unfinished", "unfinished: no end recorded"),
    ],
)
def test_uncertain_duration_gives_reason_and_caution(
    flag: SpanFlag, word: str, text: str
) -> None:
    trace = flagged(flag)

    fact = by_label(span_facts(trace, 0))["duration"]

    assert quality_word(trace, 0) == word
    assert quality_text(trace, 0) == text
    assert fact.value.endswith(text)
    assert fact.qualifier == text
    assert new_statement(quality_text(trace, 0), quality_text(flagged(0), 0))
    assert fact.caution


def test_unfinished_duration_is_a_lower_bound() -> None:
    fact = by_label(span_facts(flagged(SpanFlag.UNFINISHED), 0))["duration"]

    assert fact.value.startswith("at least 30 ns")


def test_missing_columns_read_not_available() -> None:
    facts = by_label(span_facts(flagged(0), 0))

    assert {facts[k].value for k in ("layer", "token", "phase", "bytes")} == {"N/A"}
    assert all("-1" not in f.value and "65535" not in f.value for f in facts.values())


def test_op_fact_names_number_and_table() -> None:
    fact = by_label(span_facts(flagged(0), 0))["op"]

    assert fact.value == "MUL_MAT"
    assert fact.exact == "op number 3 in table test-12 (declared)"


def test_op_without_table_shows_its_number() -> None:
    builder = TraceBuilder()
    builder.add_lane("thread 0", LaneKind.THREAD)
    builder.add_spans(start=np.array([0]), end=np.array([5]), lane=0, op=83)

    fact = by_label(span_facts(builders.finished(builder), 0))["op"]

    assert (fact.value, fact.exact) == ("OP_83?", "op number 83")


def test_lane_with_raw_id_shows_it_in_exact_form() -> None:
    builder = TraceBuilder()
    builder.add_lane("thread 0", LaneKind.THREAD, raw="24832")
    builder.add_spans(start=np.array([0]), end=np.array([5]), lane=0)

    fact = by_label(span_facts(builders.finished(builder), 0))["lane"]

    assert (fact.value, fact.exact) == ("thread 0", "thread 0, id 24832 in the file")


def test_oddities_become_a_note() -> None:
    trace = flagged(SpanFlag.OUT_OF_ORDER | SpanFlag.TRUNCATED_NAME)

    note = by_label(span_facts(trace, 0))["note"]

    assert note.value == "out of order in the file; name truncated in the file"


def test_known_bytes_and_rate_of_measured_span() -> None:
    trace = with_accesses(access(tensor=0, space=0, size=26_004_480, offset=1))

    facts = by_label(span_facts(trace, 0))

    assert facts["bytes read"].value == "24.8 MiB"
    assert facts["bytes read"].exact == "26,004,480 bytes"
    assert facts["rate"].value == "24.2 GiB/s"


@pytest.mark.parametrize("flag", [SpanFlag.ESTIMATED, SpanFlag.UNFINISHED])
def test_rate_is_not_reported_of_times_that_are_shares(flag: SpanFlag) -> None:
    columns = access(tensor=0, size=10)

    trace = with_accesses(columns, flags=np.array([flag], np.uint16))

    assert by_label(span_facts(trace, 0))["rate"].value == "N/A"


def test_unknown_size_reads_not_available() -> None:
    facts = by_label(span_facts(with_accesses(access(tensor=0)), 0))

    assert facts["bytes read"].value == "N/A"
    assert facts["rate"].value == "N/A"


NPU = Path(__file__).parents[3] / "resources" / "samples" / "npu-prefill-decode.json"


def test_bytes_of_memory_events_are_those_of_the_statistics() -> None:
    trace = open_trace(NPU)
    sums: dict[str, int] = {}
    for span in range(len(trace.spans)):
        op = trace.op_name(int(trace.spans.op[span]))
        facts = by_label(span_facts(trace, span))
        for label in ("bytes read", "bytes written"):
            if label in facts:
                n = int(facts[label].exact.removesuffix(" bytes").replace(",", ""))
                sums[op] = sums.get(op, 0) + n
                assert "memory events" in facts
                assert facts["rate"].value == "N/A"

    rows = stat_table(trace).rows
    assert sums == {row.key: row.bytes for row in rows if row.bytes}
    assert sum(sums.values()) > 0


def test_memory_events_are_counted_by_where_they_go() -> None:
    trace = open_trace(NPU)
    loose = trace.accesses.loose
    span = int(loose.span[loose.span >= 0][0])
    (space,) = set(loose.what.space[loose.span == span].tolist())
    n = int(np.count_nonzero(loose.span == span))

    value = by_label(span_facts(trace, span))["memory events"].value

    assert value == f"{n} in {Space(space).word}"
    assert "read" in tooltip_text(trace, span)


def test_written_bytes_are_distinguished() -> None:
    facts = by_label(span_facts(with_accesses(access(kind=1, size=512)), 0))

    assert facts["bytes written"].value == "512 B"
    assert "bytes read" not in facts


def test_rate_in_cycles_is_bytes_per_cycle() -> None:
    trace = with_accesses(access(size=4_000_000))
    cycles = replace(trace, clock=Clock("cycle"))

    assert by_label(span_facts(cycles, 0))["rate"].value == "4 B/cycle"


def test_pending_accesses_are_reported_to_come() -> None:
    builder = TraceBuilder()
    builder.add_lane("thread 0", LaneKind.THREAD)
    builder.add_spans(start=np.array([0]), end=np.array([5]), lane=0)
    trace = builder.snapshot(builders.make_info(), frozenset({"accesses"}))

    assert by_label(span_facts(trace, 0))["bytes"].value == "still being read"


@pytest.mark.parametrize(
    ("values", "badge", "place"),
    [
        (
            {"tensor": 0, "space": 0, "offset": 0x0C4A_8800},
            "DISK",
            "offset 0x0C4A_8800",
        ),
        ({"tensor": 1, "space": 1, "buffer": 0}, "BUF", "compute buffer 0"),
        ({"tensor": 1, "space": 1, "buffer": 1}, "BUF", "KV cache (0x6000_1000)"),
        ({"space": 2, "offset": 0x1000}, "DRAM", "address 0x1000"),
        ({"space": 3, "offset": 8192}, "SPM", "address 0x2000"),
        ({"space": 0}, "DISK", "offset N/A"),
        ({"space": 1}, "BUF", "buffer N/A"),
        ({"space": 4}, "?", "N/A"),
    ],
)
def test_access_shows_badge_and_place(
    values: dict[str, int], badge: str, place: str
) -> None:
    facts = access_facts(with_accesses(access(**values)), 0)

    assert [(a.badge, a.place) for a in facts] == [(badge, place)]


def test_access_with_everything_unknown_reads_not_available() -> None:
    (access_fact,) = access_facts(with_accesses(AccessColumns.blank(1)), 0)

    assert {
        access_fact.name,
        access_fact.size,
        access_fact.layer,
        access_fact.expert,
        access_fact.address,
    } == {"N/A"}


def test_access_line_leaves_unknown_parts_out() -> None:
    (known,) = access_facts(
        with_accesses(access(tensor=0, space=0, size=1024, offset=16)), 0
    )
    (unknown,) = access_facts(with_accesses(access(space=1)), 0)

    assert access_line(known) == (
        "DISK blk.4.ffn_down.weight · 1.0 KiB · offset 0x0010"
    )
    assert access_line(unknown) == "BUF N/A"


def test_destination_takes_size_from_its_tensor() -> None:
    trace = with_accesses(AccessColumns.blank(1), tensor=np.array([0], np.int32))

    fact = destination_of(trace, 0)

    assert fact is not None
    assert (fact.label, fact.value) == ("ffn_down-4", "24.8 MiB")


def test_destination_with_unknown_size_reads_not_available() -> None:
    fact = destination_of(with_accesses(AccessColumns.blank(1)), 0)
    listed = with_accesses(AccessColumns.blank(1), tensor=np.array([1], np.int32))

    assert fact is not None
    assert fact.value == "N/A"
    assert destination_of(listed, 0) == fact


def test_destination_of_no_op_is_none() -> None:
    assert destination_of(builders.spans_trace([0], [1]), 0) is None


def test_record_fact_gives_offset_in_hex() -> None:
    fact = record_fact(104_235, 0x1972B00)

    assert fact.value == "104,235 at 0x0197_2B00"
    assert fact.exact == "record 104,235 at byte 26,684,160"
    assert record_fact(-1).value == "N/A"


@pytest.mark.parametrize(
    ("end", "tick", "text"),
    [
        (9_000, 1_234, "1.234 µs"),
        (9_000_000, 3_370_009, "3.370009 ms"),
        (9_000_000_000, 3_370_009, "3.370 ms"),
        (90_000_000_000, 61_000_001_999, "1:01.000001"),
    ],
)
def test_listed_times_have_the_unit_of_their_size(
    end: int, tick: int, text: str
) -> None:
    trace = builders.spans_trace([0], [end])

    assert time_text(trace, tick) == text


@pytest.mark.parametrize(
    ("begin", "end", "ticks", "texts"),
    [
        (-900_000, 3_625_000, (-900_000, 3_625_000), ("-0.900000 ms", "3.625000 ms")),
        (-66_744_000, 800_000_000, (-66_744_000, 651_000), ("-66.744 ms", "0.651 ms")),
        (0, 90_000_000_000, (33_961_475_000, 65_884_601_000),
         ("0:33.961475", "1:05.884601")),
        (0, 9_000, (5, 1_234), ("0.005 µs", "1.234 µs")),
    ],
)  # fmt: skip
def test_times_of_a_column_have_one_unit(
    begin: int, end: int, ticks: tuple[int, ...], texts: tuple[str, ...]
) -> None:
    form = column_time_form(builders.spans_trace([begin], [end]))

    assert tuple(map(form.text, ticks)) == texts
    assert form.text(begin).split(" ")[1:] == form.text(end).split(" ")[1:]


def test_time_before_the_start_keeps_its_sign() -> None:
    trace = builders.spans_trace([0], [9_000_000])

    assert time_text(trace, -1_500) == "-1.500 µs"


def test_absolute_time_is_that_of_the_files_clock() -> None:
    trace = builders.npu_like_trace()

    assert time_text(trace, 20, absolute=True) == "1,020 cyc"
    assert exact_time_text(trace, 20) == (
        "20 cycles from the start; 1,020 cycles in the file's clock"
    )


def test_phase_words_follow_the_kind_of_trace() -> None:
    assert phase_word(builders.llama_like_trace(), 0) == "prompt"
    assert phase_word(builders.npu_like_trace(), 1) == "decode"
    assert phase_word(builders.npu_like_trace(), -1) == "N/A"


def test_tooltip_has_name_first_and_at_most_five_lines() -> None:
    lines = tooltip_text(builders.llama_like_trace(), 1).splitlines()

    assert lines[0] == "Qcur-0"
    assert lines[1].startswith("MUL_MAT · thread")
    assert lines[2] == "at 20 µs · 240.0 µs measured"
    assert "KiB read" in lines[3]
    assert len(lines) == 5


def test_tooltip_has_all_digits_of_what_it_rounds() -> None:
    trace = builders.llama_like_trace()
    n = int(account_of(trace, 1).known.sum())

    *_, last = tooltip_text(trace, 1).splitlines()

    assert "240,000 ns" in last
    assert f"{n:,} bytes read" in last


def test_tooltip_repeats_no_exact_figure() -> None:
    assert "in full" not in tooltip_text(builders.spans_trace([0], [999]), 0)
    long = tooltip_text(builders.spans_trace([0], [15_463]), 0)
    assert "15.46 µs" in long
    assert "15,463 ns" in long


def test_tooltip_leaves_out_what_is_not_known() -> None:
    lines = tooltip_text(builders.spans_trace([0], [9]), 0).splitlines()

    assert len(lines) == 3
    assert not [line for line in lines if "N/A" in line]


def test_unknown_facts_are_one_line() -> None:
    facts = known_facts(span_facts(builders.spans_trace([0], [9]), 0))

    assert [f for f in facts if f.value == "N/A"] == []
    assert facts[-1].label == "unknown"
    assert "layer" in facts[-1].value.split(", ")


def test_marker_facts_include_detail() -> None:
    trace = builders.llama_like_trace()

    facts = by_label(marker_facts(trace, 1))

    assert facts["name"].value == "PREFILL_DONE"
    assert facts["detail"].value == "tokens=1"


def test_marker_without_detail_or_record_has_neither() -> None:
    builder = TraceBuilder()
    lane = builder.add_lane("markers", LaneKind.MARKER)
    builder.add_markers(time=np.array([5]), lane=lane, name=-1)

    facts = by_label(marker_facts(builders.finished(builder), 0))

    assert set(facts) == {"name", "lane", "time", "record"}
    assert facts["name"].value == facts["record"].value == "N/A"


def test_facts_of_every_span_never_show_sentinels() -> None:
    for trace in (builders.llama_like_trace(), builders.npu_like_trace()):
        for span in range(len(trace.spans)):
            for fact in span_facts(trace, span):
                assert fact.value
                assert not {"65535", "nan", "NaN", "undefined"} & {fact.value}


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (Column("int16", "a time", -1, unit="ticks"), "3 ns"),
        (Column("int16", "a size", -1, unit="bytes"), "3 B"),
        (Column("int16", "a code", -1, code=Space), "spm"),
        (Column("int16", "a number", -1, mark="#"), "#3"),
        (Column("int16", "a number", 3), "N/A"),
        (Column("int16", "a text", -1, of="strings"), "three"),
    ],
)
def test_column_is_reported_as_its_schema_says(
    column: Column, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(schema_of(Spans), "layer", column)
    trace = builders.spans_trace([0], [1])
    spans = replace(trace.spans, layer=np.array([3], np.int16))
    strings = StringTable(["", "one", "two", "three"])

    assert column_text(replace(trace, spans=spans, strings=strings), "layer", 0) == text


def test_column_of_fractions_has_four_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schema_of(Spans), "layer", Column("float32", "a share", np.nan))
    trace = builders.spans_trace([0, 1], [1, 2])
    spans = replace(trace.spans, layer=np.array([0.25, np.nan], np.float32))
    shares = replace(trace, spans=spans)

    assert [column_text(shares, "layer", i) for i in (0, 1)] == ["0.25", "N/A"]
