"""filter_mask and search against one-span-at-a-time twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import (
    OPS,
    empty_trace,
    finished,
    llama_like_trace,
    random_trace,
    spans_trace,
)
from ggscope.analysis.filters import masks
from ggscope.analysis.filters.masks import filter_mask, read_filter, search
from ggscope.analysis.filters.text import (
    both,
    format_filter,
    parse_filter,
    text_matcher,
)
from ggscope.analysis.workers import add_by_group, count_values
from ggscope.errors import QueryError
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.ops import FAMILIES, family_of
from ggscope.model.selection import AnyOf, Filter, Not
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    FlatAccesses,
    Space,
    no_accesses,
)
from ggscope.model.tensors import Tensors
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange

LLAMA = llama_like_trace()
RANDOM = random_trace(7, 500, shuffled=True)


def matching_slow(trace: Trace, requested: Filter) -> list[int]:
    """Return the ids that match, asking each span by itself."""
    s, ids = trace.spans, []
    left_out = [
        set(matching_slow(trace, c.of)) for c in requested.clauses if isinstance(c, Not)
    ]
    alternatives = [
        {i for one in c.of for i in matching_slow(trace, one)}
        for c in requested.clauses
        if isinstance(c, AnyOf)
    ]
    for i in range(len(s)):
        op = trace.op_name(int(s.op[i]))
        start, end = int(s.start[i]), int(s.end[i])
        what = trace.accesses.of_span(i)
        names = [
            trace.strings[int(s.name[i])],
            op,
            trace.lanes[s.lane[i]].name,
            *(trace.strings[int(trace.tensors.name[t])] for t in what.tensor if t >= 0),
        ]
        quality = 1 if s.flags[i] & 3 else 0
        known = [size for size in what.size.tolist() if size >= 0]
        t = requested.time
        parts = [
            requested.ops is None or op in requested.ops,
            requested.families is None or (op and family_of(op) in requested.families),
            requested.layers is None or int(s.layer[i]) in requested.layers,
            requested.tokens is None or int(s.token[i]) in requested.tokens,
            requested.threads is None
            or trace.lanes[s.lane[i]].name in requested.threads,
            requested.phases is None or int(s.phase[i]) in requested.phases,
            requested.spaces is None
            or bool(set(what.space.tolist()) & requested.spaces),
            requested.qualities is None or quality in requested.qualities,
            requested.text == "" or any(requested.text in n.lower() for n in names),
            requested.min_duration is None or end - start >= requested.min_duration,
            requested.max_duration is None or end - start <= requested.max_duration,
            t is None or (start < t.end and (end > t.start or start >= t.start)),
            requested.min_size is None or (known and sum(known) >= requested.min_size),
            requested.max_size is None or (known and sum(known) <= requested.max_size),
        ]
        parts += [i not in ids_of for ids_of in left_out]
        parts += [i in ids_of for ids_of in alternatives]
        if all(parts):
            ids.append(i)
    return ids


def sets(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | st.frozensets(values, max_size=4)


FILTERS = st.builds(
    Filter,
    ops=sets(st.sampled_from([n for n in OPS.names if n != "NONE"])),
    families=sets(st.sampled_from(FAMILIES)),
    layers=sets(st.integers(-1, 300)),
    tokens=sets(st.integers(-1, 20)),
    threads=sets(st.sampled_from(["thread 0", "thread 1", "graphs"])),
    phases=sets(st.integers(-1, 1)),
    spaces=sets(st.sampled_from([int(s) for s in Space])),
    qualities=sets(st.integers(0, 3)),
    text=st.sampled_from(["", "weight", "thread", "tensor-1", "mul", "zzz"]),
    min_duration=st.none() | st.integers(0, 200_000),
    max_duration=st.none() | st.integers(0, 200_000),
    time=st.none()
    | st.tuples(st.integers(-10, 10**7), st.integers(0, 10**7)).map(
        lambda t: TimeRange(min(t), max(t))
    ),
    min_size=st.none() | st.integers(0, 10_000),
    max_size=st.none() | st.integers(0, 10_000_000),
)
# Few parts each, so that what they combine to matches something.
ONE_PART = st.sampled_from(
    [Filter(ops=frozenset({"ADD"})), Filter(layers=frozenset({0, 1})),
     Filter(text="weight"), Filter(min_duration=5_000), Filter(tokens=frozenset({2})),
     Filter(spaces=frozenset({0})), Filter(threads=frozenset({"thread 0"}))]
)  # fmt: skip
COMBINED = st.recursive(
    ONE_PART,
    lambda inner: (
        inner.map(lambda f: Filter(clauses=(Not(f),)))
        | st.tuples(inner, inner).map(lambda ab: Filter(clauses=(AnyOf(ab),)))
        | st.tuples(inner, inner).map(lambda ab: both(*ab))
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("trace", [LLAMA, RANDOM], ids=["llama", "random"])
@settings(max_examples=60, deadline=None)
@given(requested=FILTERS)
def test_mask_of_any_filter_equals_asking_each_span(trace, requested):
    mask = filter_mask(trace, requested)

    if mask is None:
        assert not requested
    else:
        assert mask.dtype == np.bool_
        assert np.flatnonzero(mask).tolist() == matching_slow(trace, requested)


@pytest.mark.parametrize("trace", [LLAMA, RANDOM], ids=["llama", "random"])
@settings(max_examples=40, deadline=None)
@given(requested=COMBINED)
def test_not_or_and_parentheses_mean_what_they_say(trace, requested):
    expected = set(matching_slow(trace, requested))

    for one in (requested, parse_filter(format_filter(requested))):
        mask = filter_mask(trace, one)
        assert set(np.flatnonzero(mask).tolist()) == expected


@pytest.mark.parametrize(
    ("requested", "shown"),
    [
        ("thread=0", {"thread 0"}),
        ("thread=0-1", {"thread 0", "thread 1"}),
        ("thread=24832", {"thread 1"}),  # nobody shows that number: the file's own
        ("thread=1", {"thread 1"}),  # and not the one that the file calls 1
        ('thread="thread *"', {"thread 0", "thread 1", "thread 7"}),
        ("thread=/[17]$/", {"thread 1", "thread 7"}),
        ("thread~read", {"thread 0", "thread 1", "thread 7"}),
        ("thread=9", set()),
        ("thread!=0", {"thread 1", "thread 7", "graphs"}),
    ],
)
def test_threads_are_named_by_shown_or_raw_numbers(requested, shown):
    builder = TraceBuilder()
    for name, raw in (("thread 0", "24576"), ("thread 1", "24832"), ("thread 7", "1")):
        builder.add_lane(name, LaneKind.THREAD, raw=raw)
    builder.add_lane("graphs", LaneKind.GRAPH)
    start = np.arange(4) * 10
    builder.add_spans(start=start, end=start + 5, lane=np.arange(4))
    trace = finished(builder)

    mask = filter_mask(trace, parse_filter(requested))

    assert {trace.lanes[i].name for i in np.flatnonzero(mask)} == shown


def test_unknown_op_is_refused_with_what_it_may_mean():
    with pytest.raises(QueryError, match=r"Unknown op MULMAT\. Did you mean MUL_MAT"):
        read_filter("layer=1 not (op=MULMAT or op=ADD)", LLAMA)
    with pytest.raises(QueryError, match=r"Unknown op ZZZ\. This trace has ADD"):
        read_filter("op=zzz", LLAMA)

    # ggml knows it, though this trace has none.
    assert read_filter("op=FLASH_ATTN_EXT,X*,/zz/", LLAMA)


def test_mask_of_no_filter_is_none():
    assert filter_mask(LLAMA, Filter()) is None


def test_mask_of_a_trace_without_spans_is_empty():
    assert filter_mask(empty_trace(), Filter(text="x")).shape == (0,)


def test_mask_over_several_chunks_equals_one(monkeypatch):
    row_filter = Filter(text="weight", spaces=frozenset({int(Space.FILE)}))
    whole = filter_mask(LLAMA, row_filter)
    monkeypatch.setattr(masks, "_PIECE_ROWS", 7)

    pieces = filter_mask(LLAMA, row_filter)

    assert np.array_equal(whole, pieces)
    assert 0 < whole.sum() < len(whole)


def test_missing_column_counts_as_none_everywhere():
    trace = spans_trace([0, 5], [1, 9], op=1)

    assert filter_mask(trace, Filter(layers=frozenset({-1}))).all()
    assert not filter_mask(trace, Filter(layers=frozenset({0}))).any()


def test_number_beyond_the_columns_dtype_matches_nothing():
    trace = spans_trace([0, 5], [1, 9], op=1, layer=np.array([0, 1], np.int8))

    mask = filter_mask(trace, Filter(layers=frozenset({1, 257})))

    assert mask.tolist() == [False, True]


@pytest.mark.parametrize("text", ["core=3", "numa=0-1", "core=2,unknown"])
def test_filter_by_core_is_written_as_it_is_read(text):
    assert format_filter(parse_filter(text)) == text.replace("2,unknown", "unknown,2")


def test_core_that_nobody_reported_is_unknown_and_not_none():
    with pytest.raises(QueryError, match="a range like 0-3, or unknown"):
        parse_filter("core=none")


def test_layer_of_no_core_is_called_none_as_before():
    with pytest.raises(QueryError, match="a range like 0-3, or none"):
        parse_filter("layer=unknown")


def test_op_pattern_finds_ops_without_a_name():
    trace = spans_trace([0, 5, 9], [1, 9, 10], op=[1, 94, -1])

    for text in ("op=unknown", "op=OP_94?", "op=op#94"):
        mask = filter_mask(trace, read_filter(text, trace))

        assert mask.tolist() == [False, True, False]
    assert format_filter(parse_filter("op=unknown,OP_94?")) == "op=OP_94?,unknown"


def test_op_pattern_with_star_matches_the_start():
    mask = filter_mask(LLAMA, parse_filter("op=mul*"))

    names = {LLAMA.op_name(int(op)) for op in LLAMA.spans.op[mask]}
    assert names == {"MUL_MAT"}


def test_loose_access_of_a_span_makes_it_match():
    builder = TraceBuilder()
    lane = builder.add_lane("TE0", LaneKind.ENGINE)
    builder.add_spans(start=np.array([0, 5, 9]), end=np.array([1, 6, 10]), lane=lane)
    what = AccessColumns.blank(2)
    what.space[:] = [Space.DRAM, Space.SPM]
    loose = FlatAccesses(
        np.array([5, 9]),
        np.zeros(2, np.int32),
        np.array([1, -1]),
        np.full(2, -1, np.int32),
        what,
    )
    trace = with_loose(builder, loose)

    mask = filter_mask(trace, Filter(spaces=frozenset({int(Space.DRAM)})))

    assert mask.tolist() == [False, True, False]


def with_loose(builder: TraceBuilder, loose: FlatAccesses) -> Trace:
    none = no_accesses(builder.n_spans)
    builder.accesses = Accesses(none.pattern, none.first, none.patterns, loose)
    return finished(builder)


def test_text_matches_the_spans_own_tensor():
    builder = TraceBuilder()
    lane = builder.add_lane("TE0", LaneKind.ENGINE)
    one = np.full(1, -1, np.int64)
    builder.tensors = Tensors(
        builder.strings.intern_many(["blk.0.weight"]),
        one,
        one,
        one.astype(np.int16),
        one.astype(np.int16),
    )
    builder.add_spans(
        start=np.array([0, 5]),
        end=np.array([1, 6]),
        lane=lane,
        tensor=np.array([-1, 0], np.int8),
    )

    mask = filter_mask(finished(builder), Filter(text="WEIGHT"))

    assert mask.tolist() == [False, True]


def test_search_returns_spans_in_time_order_and_markers():
    hits = search(RANDOM, "tensor-3")

    expected = [
        i
        for i in range(len(RANDOM.spans))
        if "tensor-3" in RANDOM.strings[int(RANDOM.spans.name[i])]
    ]
    assert sorted(hits.ids.tolist()) == expected
    assert (np.diff(hits.times) >= 0).all()
    assert np.array_equal(hits.times, RANDOM.spans.start[hits.ids])


def test_search_finds_markers_by_name():
    hits = search(LLAMA, "/prefill_done/")

    assert hits.ids.tolist() == []
    assert hits.markers.tolist() == [1]


def test_search_of_nothing_finds_nothing():
    assert len(search(LLAMA, "").ids) == 0


@pytest.mark.parametrize(
    ("text", "string", "expected"),
    [
        ("attn", "blk.0.ATTN_q", True),
        ("/attn_[qk]/", "blk.0.ATTN_q", True),
        ("/attn_[qk]/c", "blk.0.ATTN_q", False),
        ("/attn", "x/attn", True),
        ("a.c", "abc", False),
        ("//", "a//b", True),
    ],
)
def test_text_matcher_reads_plain_and_regex(text, string, expected):
    assert text_matcher(text)(string) is expected


def test_broken_regex_says_where():
    with pytest.raises(QueryError, match=r"/a\(b/ .*character 2"):
        filter_mask(LLAMA, Filter(text="/a(b/"))


def test_overlong_regex_is_refused():
    with pytest.raises(QueryError, match="at most 512"):
        search(LLAMA, f"/{'a' * 600}/")


def test_layer_and_source_together_count_like_the_records():
    mask = filter_mask(LLAMA, parse_filter("layer=2 & source=DISK"))

    flat = LLAMA.accesses.flat(LLAMA.spans)
    on_disk = set(flat.span[flat.what.space == Space.FILE].tolist())
    layer = set(np.flatnonzero(LLAMA.spans.layer == 2).tolist())
    assert set(np.flatnonzero(mask).tolist()) == on_disk & layer
    assert mask.sum() > 0


def test_counting_values_leaves_out_missing_ones():
    column = np.array([0, 2, -1, 2], np.int8)

    assert count_values(column, 4).tolist() == [1, 0, 2, 0]


def test_adding_by_group_is_exact_beyond_double_precision():
    total = np.zeros(2, np.int64)

    add_by_group(total, np.array([0, 0, 1]), np.array([2**60 + 1, 1, 2**53 + 1]))

    assert total.tolist() == [2**60 + 2, 2**53 + 1]


@pytest.mark.parametrize(
    "bad", ["/(.*)*x!/", r"/([\w.]+)+!/", "/(a|b+)*/", "/((a*)b?)+/"]
)
def test_regular_expression_that_could_take_for_ever_is_refused(bad):
    with pytest.raises(QueryError, match="nested quantifiers"):
        text_matcher(bad)


@pytest.mark.parametrize(
    "good", ["/ffn_.*-[0-9]+/", "/(a|b)+c*/", "/(ab?)*/", "/a{2,5}b+/", "/(a{1,3})+/"]
)
def test_usual_regular_expressions_are_taken(good):
    assert text_matcher(good)("ffn_gate-12 abc aab aaabb") in (True, False)


def test_lanes_of_one_name_are_distinguished_by_their_titles() -> None:
    builder = TraceBuilder()
    lanes = [
        builder.add_lane("thread 0", LaneKind.THREAD, (group,))
        for group in ("CPU backend", "Backend 1")
    ]
    at = np.arange(4)
    builder.add_spans(start=at, end=at + 1, lane=np.array([*lanes, *lanes], np.int32))
    trace = finished(builder)

    def hits(*threads: str) -> list[bool] | None:
        mask = filter_mask(trace, Filter(threads=frozenset(threads)))
        return None if mask is None else mask.tolist()

    assert hits("thread 0") == [True] * 4
    assert hits("Backend 1 / thread 0") == [False, True, False, True]
    assert hits("backend 1 / *") == [False, True, False, True]
    assert hits("Backend 2 / thread 0") == [False] * 4
