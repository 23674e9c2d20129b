"""Spans of listed ops against a search span by span."""

from dataclasses import replace

import numpy as np

import op_files
from builders import empty_trace, llama_like_trace
from ggscope.analysis.backends.op_spans import SpanJoin, SpanRule, joined_spans
from ggscope.descriptions.backends import join_text, spans_text
from ggscope.model.backend_ops import BackendOps
from ggscope.model.trace import Trace
from ggscope.readers.common.op_lines import scan_op_text
from ggscope.readers.common.op_listing import listing_of
from op_files import Node, Split

CUT = 20


def listed(pairs: list[tuple[str, str]], n_graphs: int = 2) -> BackendOps:
    nodes = [Node(i, op, name, 64, "CPU") for i, (op, name) in enumerate(pairs)]
    graphs = [[Split(0, "CPU", [], nodes)] for _ in range(n_graphs)]
    listing = listing_of(scan_op_text(op_files.scheduler(graphs)))
    assert listing is not None
    return listing


def names_of(trace: Trace) -> list[tuple[str, str]]:
    """Return op and name of each different op of a trace."""
    spans = trace.spans
    pairs = zip(spans.op.tolist(), spans.name.tolist(), strict=True)
    return sorted({(trace.op_name(op), trace.strings[name]) for op, name in pairs
                   if op >= 0 and name >= 0})  # fmt: skip


def plain_spans(trace: Trace, op: str, name: str) -> tuple[SpanRule, list[int]]:
    """Return the spans of a listed op, looking at each."""
    spans, hits, pairs, has_name = trace.spans, [], set(), False
    for i in range(len(spans)):
        text = trace.strings[int(spans.name[i])] if spans.name[i] >= 0 else None
        if spans.op[i] < 0 or text is None or text[:CUT] != name[:CUT]:
            continue
        has_name = True
        own = trace.op_name(int(spans.op[i]))
        if own == op or (op.endswith("…") and own.startswith(op[:-1])):
            hits.append(i)
            pairs.add((text, own))
    if not hits:
        return (SpanRule.OTHER_OP if has_name else SpanRule.NONE), []
    return (SpanRule.NAME, hits) if len(pairs) == 1 else (SpanRule.AMBIGUOUS, [])


def check(trace: Trace, listing: BackendOps) -> SpanJoin:
    join = joined_spans(trace, listing)
    for row in range(len(listing.ops)):
        op = listing.text(int(listing.ops.op[row]))
        name = listing.text(int(listing.ops.name[row]))
        rule, spans = plain_spans(trace, op, name)
        assert SpanRule(int(join.rule[row])) is rule, (op, name)
        rows = np.array([row])
        assert join.spans_of(rows, 1 << 30).tolist() == spans
        assert join.spans_of(rows, 3).tolist() == spans[:3]
    return join


def test_ops_have_the_spans_of_their_name_in_all_passes():
    trace = llama_like_trace(tokens=3, layers=2)
    pairs = names_of(trace)

    join = check(trace, listed([*pairs, ("ADD", "no such name-0")]))

    assert join.count(SpanRule.NAME) > 10
    assert join.count(SpanRule.NONE) == 2
    every = np.arange(len(join.rule))
    assert len(join.spans_of(every, 1 << 30)) == sum(
        len(plain_spans(trace, *pair)[1]) for pair in pairs
    )


def test_other_op_of_the_same_name_has_no_spans():
    trace = llama_like_trace(tokens=2, layers=1)
    name = next(name for op, name in names_of(trace) if op == "MUL_MAT")

    join = check(trace, listed([("ROPE", name)]))

    assert join.count(SpanRule.OTHER_OP) == 2
    assert "another op" in join_text(join)
    assert "another op" in spans_text(join, np.array([0]), 0)


def with_names(trace: Trace, names: dict[int, str]) -> Trace:
    """Return a trace some of whose spans are called otherwise."""
    column, texts = trace.spans.name.astype(np.int32), list(trace.strings)
    for span, name in names.items():
        if name not in texts:
            texts.append(name)
        column[span] = texts.index(name)
    strings = type(trace.strings)(texts)
    return replace(trace, spans=replace(trace.spans, name=column), strings=strings)


def test_cut_names_that_several_begin_with_are_ambiguous():
    trace = llama_like_trace(tokens=2, layers=1)
    ids = np.flatnonzero(trace.spans.op >= 0).tolist()
    a, b = [i for i in ids if trace.op_name(int(trace.spans.op[i])) == "MUL_MAT"][:2]
    c = next(i for i in ids if trace.op_name(int(trace.spans.op[i])) == "ADD")
    names = {a: "a name as long as it is", b: "a name as long as it was"}
    trace = with_names(trace, {**names, c: "a name as long as it is"})

    join = check(trace, listed([("MUL_MAT", names[a]), ("ADD", names[a])], 1))

    assert join.rule.tolist() == [SpanRule.AMBIGUOUS, SpanRule.NAME]
    assert "ambiguous" in join_text(join)


def test_one_name_of_two_ops_is_distinguished_by_them():
    trace = llama_like_trace(tokens=2, layers=1)
    ids = np.flatnonzero(trace.spans.op >= 0).tolist()
    of_op = {trace.op_name(int(trace.spans.op[i])): i for i in ids}
    trace = with_names(trace, {of_op["MUL_MAT"]: "Qcur-0", of_op["ADD"]: "Qcur-0"})

    join = check(trace, listed([("MUL_MAT", "Qcur-0"), ("ADD", "Qcur-0")], 1))

    assert join.count(SpanRule.NAME) == 2


def test_list_without_names_is_joined_by_ops_of_one_shape():
    trace = llama_like_trace(tokens=2, layers=1)
    pairs = [("ROPE", "a"), ("MUL_MAT", "b"), ("MUL_MAT", "c"), ("POOL_2D", "d")]
    listing = listed(pairs, 1)
    texts = (*listing.texts, "4×4", "8×8")
    shape = np.array([-1, len(texts) - 2, len(texts) - 1, -1], np.int32)
    ops = replace(listing.ops, name=np.full(4, -1, np.int32), shape=shape)
    listing = replace(listing, ops=ops, texts=texts)

    join = joined_spans(trace, listing)

    assert join.rule.tolist() == [
        SpanRule.OP, SpanRule.AMBIGUOUS, SpanRule.AMBIGUOUS, SpanRule.NONE,
    ]  # fmt: skip
    expected = [
        i for i, op in enumerate(trace.spans.op.tolist()) if trace.op_name(op) == "ROPE"
    ]
    assert join.spans_of(np.arange(4), 1 << 30).tolist() == expected


def test_own_spans_of_the_file_stay():
    trace = llama_like_trace(tokens=2, layers=1)
    listing = listed(names_of(trace)[:3], 1)
    own = np.array([5, -1, 7], np.int64)
    listing = replace(listing, ops=replace(listing.ops, span=own))

    join = joined_spans(trace, listing)

    assert join.spans_of(np.array([0, 2]), 9).tolist() == [5, 7]
    assert join.rule[[0, 2]].tolist() == [SpanRule.OWN] * 2


def test_trace_without_spans_has_none():
    listing = listed([("ADD", "a")])

    join = joined_spans(empty_trace(), listing)

    assert join.spans_of(np.arange(2), 9).tolist() == []
    assert join.count(SpanRule.NONE) == 2
