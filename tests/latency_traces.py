"""Traces of ubatches whose tokens have positions, for tests of token latency."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from builders import make_info
from ggscope.model.batches import BatchTokens, TokenSequences
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Phase
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
