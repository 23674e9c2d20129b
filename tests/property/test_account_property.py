"""Every view says the same of what a run reads, and so does a twin in plain Python.

The twin knows the definitions of the ops and nothing of the program.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.buffers import buffer_use
from ggscope.analysis.experts.experts import expert_choices, expert_grid
from ggscope.analysis.heat.heatmap import heat_base
from ggscope.analysis.reads.file_blocks import read_sequence
from ggscope.analysis.reads.hot_cold import kv_traffic
from ggscope.analysis.reads.hotness import cold, heat, space_totals
from ggscope.analysis.reads.op_io import (
    Direction,
    Knowledge,
    account_of,
    directions_of,
    op_accesses,
)
from ggscope.analysis.reads.usage import usage_of
from ggscope.analysis.statistics.table import stat_table
from ggscope.analysis.statistics.token_layers import token_layers
from ggscope.model.selection import Selection
from ggscope.model.tables import Space
from reads_builder import Op, Read, TensorRow, reads_trace

EMBD, STACK, ATTN, BIAS, OUT, ACT, CACHE, IDS = range(8)
N_EXPERTS = 4
TENSORS = (
    TensorRow("token_embd.weight", 0, 1000, shape=(25, 40, 1, 1)),
    TensorRow("blk.0.ffn_up_exps.weight", 1000, 4002, 0, n_experts=N_EXPERTS),
    TensorRow("blk.1.attn_q.weight", 5002, 500, 1),
    TensorRow("blk.0.ffn_up_exps.bias", 5502, 40, 0, n_experts=N_EXPERTS),
    TensorRow("output.weight", 5542, 2000),
    TensorRow("Qcur-1", -1, 64, 1),
    TensorRow("cache_k_l1", -1, 256, 1),
    TensorRow("ffn_moe_topk-0", -1, 32, 0),
)
SIZE = [t.size for t in TENSORS]


def read(tensor: int, size: int | None = None, expert: int = -1) -> Read:
    in_file = TENSORS[tensor].offset >= 0
    space = Space.FILE if in_file else Space.BUFFER
    return Read(tensor, SIZE[tensor] if size is None else size, -1, expert, space)


@dataclass(frozen=True)
class Truth:
    """What one op moves: (tensor, expert, "r" or "w", known bytes, unknown bytes)."""

    moves: tuple[tuple[int, int, str, int, int], ...]
    is_row: bool = False


@dataclass
class Done:
    """An op as recorded, and what it really does."""

    name: str
    reads: tuple[Read, ...]
    is_row: bool = False
    token: int = 0
    threads: int = 1
    moves: list[tuple[int, int, str, int, int]] = field(default_factory=list)


def slice_of(tensor: int, expert: int) -> int:
    size = SIZE[tensor]
    return (expert + 1) * size // N_EXPERTS - expert * size // N_EXPERTS


def stack_moves(
    tensor: int, experts: tuple[int, ...] | None, more: int
) -> list[tuple[int, int, str, int, int]]:
    """Return what an op reads of a stack, with the choice that a list names."""
    if experts is None:
        return [(tensor, -1, "r", 0, SIZE[tensor])]
    named = sorted(set(experts))
    moves = [(tensor, e, "r", slice_of(tensor, e), 0) for e in named]
    rest = SIZE[tensor] - sum(move[3] for move in moves)
    largest = -(-SIZE[tensor] // N_EXPERTS)
    open_ = rest if more < 0 else min(rest, min(more, N_EXPERTS) * largest)
    return [*moves, (tensor, -1, "r", 0, open_)] if open_ else moves


def done(
    kind: str,
    n: int,
    token: int,
    threads: int,
    chosen: tuple[int, ...] | None,
    more: int,
    named: tuple[int, ...],
) -> Done:
    """Return an op of some kind; n is a small number that some of them use."""
    made = {
        "matmul": Done("MUL_MAT", (read(ATTN), read(ACT))),
        "output": Done("MUL_MAT", (read(OUT), read(ACT, 8 * n))),
        "rows": Done("GET_ROWS", (read(EMBD), read(IDS, 4 * n)), is_row=True),
        "some rows": Done("GET_ROWS", (read(ACT), read(IDS, 4 * n)), is_row=True),
        "chosen": Done("MUL_MAT_ID", (read(STACK), read(ACT), read(IDS))),
        "bias": Done("ADD_ID", (read(ACT), read(BIAS), read(IDS))),
        "named": Done(
            "MUL_MAT_ID",
            (*(read(STACK, slice_of(STACK, e), e) for e in named), read(ACT)),
        ),
        "set rows": Done("SET_ROWS", (read(ACT, 8 * n), read(IDS, 8), read(CACHE))),
        "copy": Done("CPY", (read(ACT, 16), read(CACHE, 16))),
        "view": Done("VIEW", (read(CACHE if n % 2 else ATTN),)),
        "attend": Done("FLASH_ATTN_EXT", (read(ACT), read(CACHE, 32 * n))),
        "unsized": Done("ADD", (read(ACT, -1), read(ACT, 64))),
        "nothing": Done("ADD", ()),
    }[kind]
    made.token, made.threads = token, threads
    for slot, r in enumerate(made.reads):
        known = max(r.size, 0)
        plain = (r.tensor, r.expert, "r", known, 0)
        if made.name == "VIEW":
            continue
        if made.name in ("MUL_MAT_ID", "ADD_ID") and r.tensor in (STACK, BIAS):
            whole = stack_moves(r.tensor, chosen, more)
            made.moves += whole if r.expert < 0 else [plain]
        elif kind == "rows" and slot == 0:
            made.moves.append((r.tensor, -1, "r", n * (1000 // 40), 0))
        elif kind == "some rows" and slot == 0:
            made.moves.append((r.tensor, -1, "r", 0, known))
        elif kind == "set rows" and slot == 2:
            made.moves.append((r.tensor, -1, "w", 0, min(known, 2 * 8 * n)))
        elif kind == "copy" and slot == 1:
            made.moves.append((r.tensor, -1, "w", known, 0))
        else:
            made.moves.append(plain)
    return made


KINDS = (
    "matmul", "output", "rows", "some rows", "chosen", "bias", "named", "set rows",
    "copy", "view", "attend", "unsized", "nothing",
)  # fmt: skip


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Done], dict, dict]:
    """Return ops, the experts that lists name per token, and how many more."""
    chosen: dict[tuple[int, int], tuple[int, ...]] = {}
    more: dict[tuple[int, int], int] = {}
    for token in range(3):
        experts = draw(st.sets(st.integers(0, N_EXPERTS - 1), max_size=N_EXPERTS))
        if experts:
            chosen[token, 0] = tuple(sorted(experts))
            more[token, 0] = draw(st.sampled_from([0, 0, 1, 5, -1]))
    ops = []
    for _ in range(draw(st.integers(0, 12))):
        token = draw(st.integers(0, 2))
        ops.append(
            done(
                draw(st.sampled_from(KINDS)),
                draw(st.integers(1, 4)),
                token,
                draw(st.integers(1, 3)),
                chosen.get((token, 0)),
                more.get((token, 0), 0),
                tuple(draw(st.sets(st.integers(0, 3), min_size=1, max_size=3))),
            )
        )
    return ops, chosen, more


def trace_of(ops: list[Done], chosen: dict, more: dict):
    report = [
        Op(100 * i + 10 * thread, op.reads, op.name, op.token, thread, thread > 0)
        for i, op in enumerate(ops)
        for thread in range(op.threads)
    ]
    return reads_trace(TENSORS, report, chosen, more)


@settings(max_examples=80, deadline=None)
@given(runs())
def test_every_view_agrees_with_the_others_and_with_a_plain_twin(run):
    ops, chosen, more = run
    trace = trace_of(ops, chosen, more)
    moves = [move for op in ops for move in op.moves]
    known, unknown = (sum(move[i] for move in moves) for i in (3, 4))

    hot = heat(trace)
    places = hot.places
    for t in range(len(TENSORS)):
        for side, read_, open_ in (
            ("r", hot.bytes_read, hot.unknown_read),
            ("w", hot.bytes_written, hot.unknown_written),
        ):
            mine = [m for m in moves if m[0] == t and m[2] == side]
            assert int(read_[t]) == sum(m[3] for m in mine)
            assert int(open_[t]) == sum(m[4] for m in mine)
        figures = usage_of(trace, Selection("tensors", (t,)))
        assert figures.bytes_read == hot.bytes_read[t]
        assert figures.bytes_written == hot.bytes_written[t]
        assert figures.unknown_read == hot.unknown_read[t]
        assert figures.unknown_written == hot.unknown_written[t]
        assert figures.n_accesses == hot.accesses[t]

    # The model file: heatmap, hot, cold and cache.
    on_file = [m for m in moves if TENSORS[m[0]].offset >= 0]
    base = heat_base(trace, "token")
    file_bytes = sum(m[3] for m in on_file)
    assert base.totals.file_bytes == int(hot.unit_bytes.sum()) == file_bytes
    assert base.totals.unknown_file_bytes == sum(m[4] for m in on_file)
    assert hot.unknown_file_bytes == base.totals.unknown_file_bytes
    assert base.unit_sums()[0].tolist() == hot.unit_bytes.tolist()
    assert base.unit_sums()[1].tolist() == hot.unit_accesses.tolist()
    assert base.maybe.tolist() == hot.unit_maybe.tolist()
    touched, perhaps = Counter(), Counter()
    for tensor, expert, _, size, open_ in on_file:
        stacked = TENSORS[tensor].n_experts > 0
        if stacked and expert < 0 and not size:
            perhaps.update((tensor, e) for e in range(N_EXPERTS) if open_)
        else:
            touched[tensor, expert] += 1
    for u in range(len(places)):
        unit = int(places.tensor[u]), int(places.expert[u])
        assert int(hot.unit_accesses[u]) == touched[unit]
        assert int(hot.unit_maybe[u]) == perhaps[unit]
    units = {
        (int(t), int(e)) for t, e in zip(places.tensor, places.expert, strict=True)
    }
    never, part = cold(hot), 0
    part = len([u for u in units if not touched[u] and not perhaps[u]])
    assert never.n_cold == part
    assert never.n_unknown == len([u for u in units if not touched[u] and perhaps[u]])
    sequence = read_sequence(trace, places)
    sequence_bytes = int(sequence.size[sequence.unit].sum())
    of_rows = sum(m[3] for op in ops if op.is_row for m in op.moves if m[0] == EMBD)
    assert sequence_bytes == file_bytes - of_rows
    assert sequence.unknown_bytes == sum(m[4] for m in on_file)

    # Runtime tensors: spaces, KV cache and buffers.
    spaces = space_totals(trace)
    assert sum(spaces.bytes.values()) == known
    assert sum(spaces.unknown_bytes.values()) == unknown
    assert spaces.bytes["weights"] == file_bytes
    kv = kv_traffic(trace)
    for column, side, i in (
        (kv.read, "r", 3),
        (kv.written, "w", 3),
        (kv.unknown_read, "r", 4),
        (kv.unknown_written, "w", 4),
    ):
        mine = [m for m in moves if m[0] == CACHE and m[2] == side]
        assert int(column.sum()) == sum(m[i] for m in mine)
    assert int(kv.read.sum() + kv.written.sum()) == spaces.bytes["kv cache"]
    assert not buffer_use(trace).is_known  # this trace names no buffers

    # Statistics by anything, and layers by tokens.
    n_spans = sum(op.threads for op in ops)
    for by in ("op", "family", "tensor", "layer", "token", "phase", "source"):
        table = stat_table(trace, by)
        assert table.all.bytes == sum(row.bytes for row in table.rows) == known, by
        assert table.all.unknown_bytes == unknown, by
        if by != "source":
            assert (table.all.count, table.all.ops) == (n_spans, len(ops)), by
            assert table.all.total == 10 * n_spans
    by_op = {row.key: row for row in stat_table(trace, "op").rows}
    for name in {op.name for op in ops}:
        mine = [m for op in ops if op.name == name for m in op.moves]
        assert by_op[name].bytes == sum(m[3] for m in mine)
        assert by_op[name].unknown_bytes == sum(m[4] for m in mine)
        assert by_op[name].ops == len([op for op in ops if op.name == name])
    grid = token_layers(trace)
    assert (int(grid.ops.sum()), int(grid.bytes.sum())) == (len(ops), known)
    for row in stat_table(trace, "thread").rows:
        is_shared = any(op.threads > 1 for op in ops)
        assert (row.bytes < 0) == is_shared

    # Experts: statistics, hot and the grid.
    by_expert = {row.key: row for row in stat_table(trace, "expert").rows}
    for e in range(N_EXPERTS):
        mine = sum(m[3] for m in moves if m[1] == e)
        assert mine == int(hot.unit_bytes[places.expert == e].sum())
        assert (by_expert[str(e)].bytes if str(e) in by_expert else 0) == mine
    open_ = sum(m[4] for m in moves if m[0] in (STACK, BIAS) and m[1] < 0)
    row = by_expert.get("unknown")
    assert (row.unknown_bytes if row else 0) == open_
    counted = expert_grid(expert_choices(trace))
    if chosen:
        for (token, _), experts in chosen.items():
            mine = expert_grid(expert_choices(trace), token_row(trace, token))
            assert np.flatnonzero(mine.count[0]).tolist() == sorted(experts)
            assert int(mine.more[0]) == more[token, 0]
    else:
        assert int(counted.bytes.sum()) == sum(m[3] for m in moves if m[1] >= 0)


def token_row(trace, token: int) -> int:
    return expert_choices(trace).tokens.tolist().index(token)


@settings(max_examples=30, deadline=None)
@given(runs())
def test_known_unknown_and_not_recorded_are_distinguished(run):
    trace = trace_of(*run)
    access_table = op_accesses(trace)

    knowledge, size = access_table.knowledge, access_table.what.size
    assert ((knowledge == Knowledge.NOT_RECORDED) == (size < 0)).all()
    assert (access_table.unknown[knowledge == Knowledge.KNOWN] == 0).all()
    assert (access_table.unknown[knowledge == Knowledge.UNKNOWN] > 0).all()
    neither = access_table.direction == Direction.NEITHER
    assert not access_table.known[neither].any()
    assert not access_table.unknown[neither].any()
    assert not access_table.counts[neither].any()


@settings(max_examples=30, deadline=None)
@given(runs())
def test_details_of_a_span_say_what_the_sums_are_made_of(run):
    trace = trace_of(*run)
    access_table = op_accesses(trace)

    for span, entry in enumerate(access_table.column.tolist()):
        one = account_of(trace, span)
        rows = (
            slice(0, 0) if entry < 0 else slice(*access_table.first[entry : entry + 2])
        )
        for name in ("direction", "known", "unknown", "passed", "counts"):
            assert (
                getattr(one, name).tolist()
                == getattr(access_table, name)[rows].tolist()
            )
        assert one.what.expert.tolist() == access_table.what.expert[rows].tolist()
        what = trace.accesses.of_span(span)
        if len(what) == len(one.known):
            quick = [int(d) for d in directions_of(trace, span, what)]
            assert quick == one.direction.tolist()
