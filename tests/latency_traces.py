"""Traces of ubatches whose tokens have positions, for tests of token latency."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from builders import OPS, make_info
from ggscope.model.batches import BatchTokens, TokenSequences
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Phase, SpanFlag
from ggscope.model.trace import LaneKind, Trace


@dataclass(frozen=True, slots=True)
class Ubatch:
    """A ubatch of tokens, each (sequence, position); -1 = position not known."""

    begin: int
    end: int
    phase: int = Phase.GENERATE
    tokens: tuple[tuple[int, int], ...] = ()
    context: int = 0
    flags: int = 0


def ubatch_trace(ubatches: Sequence[Ubatch], *, knows_sequences: bool = True) -> Trace:
    """Return a trace with a span per ubatch, and its tokens."""
    builder = TraceBuilder()
    lane = builder.add_lane("ubatches", LaneKind.TOKEN)
    n = len(ubatches)
    builder.add_spans(
        start=np.array([u.begin for u in ubatches], np.int64),
        end=np.array([u.end for u in ubatches], np.int64),
        lane=np.full(n, lane, np.int32),
        name=np.full(n, -1, np.int32),
        op=np.full(n, -1, np.int16),
        token=np.arange(n, dtype=np.int32),
        phase=np.array([u.phase for u in ubatches], np.int8),
        flags=np.array([u.flags for u in ubatches], np.uint16),
    )
    flat = [
        (number, row, u.context, u.phase, sequence, position)
        for number, u in enumerate(ubatches)
        for row, (sequence, position) in enumerate(u.tokens)
    ]
    columns = np.array(flat, np.int64).reshape(-1, 6).T
    tokens = BatchTokens(
        ubatch=columns[0].astype(np.int32),
        row=columns[1].astype(np.int32),
        id=np.full(len(flat), -1, np.int32),
        position=columns[5].astype(np.int32),
        phase=columns[3].astype(np.int8),
        is_output=np.ones(len(flat), np.int8),
        context=columns[2].astype(np.int32),
        decode=np.full(len(flat), -1, np.int64),
    )
    sequences = TokenSequences(
        np.arange(len(flat) if knows_sequences else 0, dtype=np.int64),
        columns[4].astype(np.int32)[: len(flat) if knows_sequences else 0],
    )
    trace = builder.snapshot(make_info())
    return replace(trace, batch_tokens=tokens, token_sequences=sequences)


def generation(
    n: int, seed: int = 0, *, prompt: int = 8, slope: int = 3, longest: int = 9_000
) -> Trace:
    """Return a prompt of one ubatch and `n` generated tokens that slow down.

    `longest` is the time of the prompt.
    """
    rng = np.random.default_rng(seed)
    tokens = tuple((0, i) for i in range(prompt))
    ubatches = [Ubatch(0, longest, Phase.PROMPT, tokens)]
    begin = longest + 500
    for i in range(n):
        duration = 1_000 + slope * i + int(rng.integers(0, 200))
        if i % 17 == 11:
            duration *= 4
        ubatches.append(Ubatch(begin, begin + duration, tokens=((0, prompt + i),)))
        begin += duration + int(rng.integers(1, 50))
    return ubatch_trace(ubatches)


TimedToken = tuple[int, int, bool]
"""Begin, end, and whether its time is known."""
TimedOp = tuple[int, int, int, int, bool]
"""Thread, begin, length, number of the op, and whether its time is known."""


def ops_in_tokens(tokens: Sequence[TimedToken], ops: Sequence[TimedOp]) -> Trace:
    """Return generated tokens and ops of four threads; both may overlap in any way."""
    builder = TraceBuilder()
    builder.ops = OPS
    lane = builder.add_lane("tokens", LaneKind.TOKEN)
    threads = [builder.add_lane(f"thread {i}", LaneKind.THREAD) for i in range(4)]
    rows = [(lane, begin, end, -1, known, i)
            for i, (begin, end, known) in enumerate(tokens)]  # fmt: skip
    rows += [(threads[thread], first, first + length, op, known, -1)
             for thread, first, length, op, known in ops]  # fmt: skip
    of, start, end, op, known, token = np.array(rows, np.int64).reshape(-1, 6).T
    builder.add_spans(
        start=start.copy(), end=end.copy(), lane=of.astype(np.int32),
        op=op.astype(np.int16), token=token.astype(np.int32),
        phase=np.full(len(rows), Phase.GENERATE, np.int8),
        flags=np.where(known, 0, int(SpanFlag.ESTIMATED)).astype(np.uint16),
    )  # fmt: skip
    return builder.snapshot(make_info())


def mixed_tokens(n: int) -> Trace:
    """Return `n` tokens in which matmul and elementwise ops run, at times at once.

    Every seventh has no op; the others are idle for at least a tenth.
    """
    tokens, ops = [], list[TimedOp]()
    for i in range(n):
        begin, length = i * 2_000, 1_000 + 100 * (i % 5)
        tokens.append((begin, begin + length, True))
        if i % 7 != 3:
            ops.append((0, begin, 300 + 100 * (i % 4), 3, True))
            ops.append((1, begin + 200, 600, 1, True))
    return ops_in_tokens(tokens, ops)
