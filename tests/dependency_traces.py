"""Traces of passes whose ops name what they read, for tests of dependencies."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from builders import OPS, finished, op_number
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import AccessColumns, Accesses, FlatAccesses, Space
from ggscope.model.tensors import Tensors
from ggscope.model.trace import LaneKind, Trace

Op = tuple[str, Sequence[tuple[str, int]]]
"""Name of the result; names and addresses (0 = none) of what it reads."""
OP_TICKS = 100


def dependency_trace(
    passes: Sequence[Sequence[Op]],
    *,
    lanes: Sequence[Sequence[int]] | None = None,
    times: Sequence[Sequence[tuple[int, int]]] | None = None,
    has_tokens: bool = True,
) -> Trace:
    """Return a trace of passes of ADD ops, each `OP_TICKS` long, one after the other.

    Parameters
    ----------
    lanes : thread of each op; all on thread 0 by default.
    times : begin and end of each op, from the begin of its pass.
    has_tokens : whether a lane has a span per pass.
    """
    builder = TraceBuilder()
    builder.ops = OPS
    names = sorted({n for ops in passes for _, reads in ops for n, _ in reads})
    row = {name: i for i, name in enumerate(names)}
    builder.tensors = Tensors(
        name=builder.strings.intern_many(names),
        offset=np.full(len(names), -1, np.int64),
        size=np.full(len(names), 64, np.int64),
        layer=np.full(len(names), -1, np.int16),
        expert=np.full(len(names), -1, np.int16),
    )
    tokens = builder.add_lane("tokens", LaneKind.TOKEN, ("Tokens",))
    n_lanes = 1 + max((i for part in lanes or () for i in part), default=0)
    threads = [
        builder.add_lane(f"thread {i}", LaneKind.THREAD, ("Threads",))
        for i in range(n_lanes)
    ]
    spans: list[tuple[int, int, int, str, int, int]] = []
    patterns: dict[tuple[str, tuple[tuple[str, int], ...]], int] = {}
    pattern: list[int] = []
    begin = 0
    for token, ops in enumerate(passes):
        own = [(i * OP_TICKS, (i + 1) * OP_TICKS) for i in range(len(ops))]
        if times is not None:
            own = list(times[token])
        length = max((end for _, end in own), default=0)
        if has_tokens:
            spans.append((begin, begin + length, tokens, f"token {token}", -1, token))
            pattern.append(-1)
        for i, (name, reads) in enumerate(ops):
            lane = threads[0 if lanes is None else lanes[token][i]]
            start, end = own[i]
            add = op_number("ADD")
            spans.append((begin + start, begin + end, lane, name, add, token))
            pattern.append(patterns.setdefault((name, tuple(reads)), len(patterns)))
        begin += length + OP_TICKS
    start, end, lane, name, op, token = zip(*spans, strict=True)
    builder.add_spans(
        start=np.array(start, np.int64),
        end=np.array(end, np.int64),
        lane=np.array(lane, np.int32),
        name=builder.strings.intern_many(list(name)),
        op=np.array(op, np.int16),
        token=np.array(token, np.int32),
    )
    accesses = [access for _, reads in patterns for access in reads]
    lengths = [len(reads) for _, reads in patterns]
    columns = replace(
        AccessColumns.blank(len(accesses)),
        tensor=np.array([row[name] for name, _ in accesses], np.int32),
        address=np.array([address for _, address in accesses], np.uint64),
        space=np.full(len(accesses), Space.BUFFER, np.uint8),
    )
    builder.accesses = Accesses(
        np.array(pattern, np.int32),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        columns,
        FlatAccesses.blank(),
    )
    return finished(builder)


def span_named(trace: Trace, name: str, nth: int = 0) -> int:
    """Return the nth span of a name."""
    values = [i for i in range(len(trace.spans)) if trace.span_name(i) == name]
    return values[nth]
