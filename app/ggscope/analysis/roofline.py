"""Roofline: arithmetic and bytes of ops over their time, per op, type and shape.

Only matrix multiplications with a weight of a known shape count: their arithmetic
follows from the shape and from how much they read. All else is counted with the reason.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.reads.op_io import choosing
from ggscope.analysis.reads.shared import op_owners, op_times
from ggscope.analysis.reads.weights import is_weight
from ggscope.analysis.statistics.grouping import SpanBytes
from ggscope.analysis.summary.bars import GRAPH_PASS, token_bars
from ggscope.analysis.summary.machine import MachinePeak
from ggscope.analysis.workers import add_by_group
from ggscope.model.ggml.ops import family_of
from ggscope.model.ggml.types import find_type, type_number
from ggscope.model.graph import NodeFlag
from ggscope.model.tables import I64, Array, Quality, looked_up, quality_of, ranked
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Trace

MUL_MAT, MUL_MAT_ID = "MUL_MAT", "MUL_MAT_ID"
F32_BYTES = 4
_NO_POINT = -1
_SMALL = 1 << 22
"""Numbers up to this are counted by a table."""
Bools = npt.NDArray[np.bool_]


class Reason(Enum):
    """Why an op is in no point."""

    NO_ARITHMETIC = "no arithmetic"
    NO_FORMULA = "no formula"
    NO_READS = "no reads"
    NO_SHAPE = "no shape"
    NO_FIT = "no fit"
    NO_EXPERTS = "no experts"
    NO_BYTES = "no bytes"
    NO_TIME = "no time"


_REASONS = tuple(Reason)


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """Ops of one kind: the same op on weights of one type and shape, as many columns.

    Attributes
    ----------
    op : name of the op.
    type : number of the weight's ggml type, -1 unknown.
    shape : ne0 and ne1 of the weight: the length of its rows, and how many it has.
    columns : vectors that are multiplied with the weight, such as tokens.
    experts : experts that each token uses; 0 = the op does not choose any.
    n_ops : how many ops; each counts once, on however many threads.
    flops : float operations of all, two for each multiply-add.
    bytes : known bytes that all of them access.
    ticks : from the first thread's begin to the last one's end, summed over the ops.
    is_f32_assumed : whether the type of the vectors is not recorded, and counts as F32.
    """

    op: str
    type: int
    shape: tuple[int, int]
    columns: int
    experts: int
    n_ops: int
    flops: int
    bytes: int
    ticks: int
    is_f32_assumed: bool

    @property
    def intensity(self) -> float:
        """Float operations per byte."""
        return self.flops / self.bytes

    @property
    def rate(self) -> float:
        """Float operations per tick."""
        return self.flops / self.ticks

    @property
    def byte_rate(self) -> float:
        """Bytes per tick."""
        return self.bytes / self.ticks


@dataclass(frozen=True, slots=True)
class LeftOutOps:
    """Ops that are in no point; `ticks` is the time of those whose time is known."""

    op: str
    reason: Reason
    n_ops: int
    ticks: int


@dataclass(frozen=True, slots=True, eq=False)
class Roofline:
    """The points of a trace, and what is in none.

    Attributes
    ----------
    points : the most time first.
    left_out : the most time first.
    point_of : int32[n_spans], the point of each span's op, -1 = none.
    is_too_long : whether it takes too long to find which spans are of one op.
    """

    points: tuple[RooflinePoint, ...] = ()
    left_out: tuple[LeftOutOps, ...] = ()
    point_of: npt.NDArray[np.int32] | None = None
    is_too_long: bool = False

    @property
    def ticks(self) -> int:
        """Time of the ops of all points."""
        return sum(point.ticks for point in self.points)

    def spans_of(self, point: int) -> I64:
        """Return the spans of the ops of a point, of all threads, ascending."""
        if self.point_of is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.point_of == point)


@dataclass(frozen=True, slots=True)
class Roofs:
    """What the machine reaches at most, per tick.

    Attributes
    ----------
    read, flops : bytes from memory, and float operations.
    n_threads : threads that reached it.
    cpu : name of the processor.
    """

    read: float
    flops: float
    n_threads: int
    cpu: str

    @property
    def ridge(self) -> float:
        """Operations per byte from which arithmetic limits, not memory."""
        return self.flops / self.read

    def attainable(self, intensity: float) -> float:
        """Return the float operations per tick that are possible at most."""
        return min(self.flops, intensity * self.read)


def roofs_of(trace: Trace, machine: MachinePeak | None) -> Roofs | None:
    """Return what a machine reaches per tick of a trace.

    None without a machine, and where ticks are cycles of an unknown length.
    """
    hz = trace.clock.per_s
    if machine is None or not hz or machine.read <= 0 or machine.flops <= 0:
        return None
    return Roofs(machine.read / hz, machine.flops / hz, machine.n_threads, machine.cpu)


@once
def roofline(trace: Trace) -> Roofline:
    """Return the points of a trace; O(spans)."""
    owner = op_owners(trace)
    if owner is None or not op_times(trace).is_known:
        return Roofline(is_too_long=True)
    rows = np.flatnonzero(owner == np.arange(len(owner)))
    ticks = _op_ticks(trace, rows)
    counts = _Counts(trace, rows)
    reason, sizes = counts.reason, SpanBytes(trace)
    n_bytes = sizes.of(rows)[0]
    is_countable = reason < 0
    reason[is_countable & (sizes.open_of(rows) | (n_bytes <= 0))] = _code(
        Reason.NO_BYTES
    )
    reason[(reason < 0) & (ticks <= 0)] = _code(Reason.NO_TIME)
    points, of_row = _points(trace, counts, n_bytes, ticks)
    point_of = np.full(len(owner) + 1, _NO_POINT, np.int32)
    point_of[rows] = of_row
    # The last entry stands for spans without an op.
    return Roofline(
        points, _left_out(trace, counts, ticks), point_of[owner][: len(owner)]
    )


def operand_shapes(trace: Trace) -> tuple[I64, I64]:
    """Return shapes int64[n_tensors, 4], 0 unknown, and types int64[n_tensors], -1.

    What the tensors lack is taken from the graphs: shapes of leaves alone, as other
    nodes have another one in each ubatch.
    """
    tensors, n = trace.tensors, len(trace.tensors)
    shape = np.zeros((n, 4), np.int64)
    if tensors.shape is not None:
        shape[:] = tensors.shape
    types = np.full(n, -1, np.int64)
    if tensors.type is not None:
        types[:] = tensors.type
    for graph in trace.graphs:
        has_tensor = graph.tensor >= 0
        is_leaf = has_tensor & ((graph.flags & NodeFlag.LEAF) != 0)
        at = np.flatnonzero(is_leaf & (graph.shape > 0).all(axis=1))
        at = at[(shape[graph.tensor[at]] <= 0).any(axis=1)]
        shape[graph.tensor[at]] = graph.shape[at]
        at = np.flatnonzero(has_tensor & (graph.dtype >= 0))
        at = at[types[graph.tensor[at]] < 0]
        names, which = np.unique(graph.dtype[at], return_inverse=True)
        numbers = [type_number(trace.strings[int(name)]) for name in names]
        types[graph.tensor[at]] = np.array(numbers, np.int64)[which]
    return shape, types


def _op_ticks(trace: Trace, rows: I64) -> I64:
    """Return how long ops take, -1 = not known."""
    ticks = op_times(trace).ticks
    if ticks is not None:
        return ticks[rows]
    spans = trace.spans
    is_timed = quality_of(spans.flags[rows]) <= Quality.DERIVED
    return np.where(is_timed, spans.end[rows] - spans.start[rows], -1)


def _code(reason: Reason) -> int:
    return _REASONS.index(reason)


@dataclass(frozen=True, slots=True, eq=False)
class _Multiplied:
    """What matrix multiplications of each pattern of accesses multiply.

    One entry per pattern, and a last one for spans without a pattern.

    Attributes
    ----------
    reason : int8, place in `_REASONS`; -1 = the sizes fit the shape of the weight.
    kind : int32, place in `kinds`.
    columns : int64, vectors that are read, of all tokens and experts.
    kinds : int64[m, 5]: type, ne0 and ne1 of the weight, its further matrices, and
        whether the vectors count as F32 without a record of it.
    """

    reason: npt.NDArray[np.int8]
    kind: npt.NDArray[np.int32]
    columns: I64
    kinds: I64


def _multiplied(trace: Trace) -> _Multiplied:
    """Return what is multiplied, by the shapes of weights and sizes of vectors."""
    accesses, what = trace.accesses, trace.accesses.patterns
    n = len(accesses.first) - 1
    reason = np.full(n + 1, _code(Reason.NO_READS), np.int8)
    kind, columns = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int64)
    at = np.flatnonzero(np.diff(accesses.first) >= 2)
    if not len(at):
        return _Multiplied(reason, kind, columns, np.zeros((1, 5), np.int64))
    shapes, types = operand_shapes(trace)
    row = accesses.first[at]
    weight, vectors = what.tensor[row], what.tensor[row + 1]
    shape = shapes[weight]
    has_shape = is_weight(trace, what)[row] & (weight >= 0) & (shape > 0).all(axis=1)
    width, is_assumed = _element_bytes(types, vectors)
    size = what.size[row + 1].astype(np.int64)
    row_bytes = np.maximum(shape[:, 0] * width, 1)
    fits = (size > 0) & (width > 0) & (size % row_bytes == 0)
    columns[at] = size // row_bytes
    reason[at] = np.where(has_shape, np.where(fits, -1, _code(Reason.NO_FIT)),
                          _code(Reason.NO_SHAPE))  # fmt: skip
    table = np.column_stack(
        [types[weight], shape[:, :2], shape[:, 2] * shape[:, 3], is_assumed]
    ).astype(np.int64)
    kinds, which = np.unique(table, axis=0, return_inverse=True)
    kind[at] = which.reshape(-1)
    return _Multiplied(reason, kind, columns, kinds)


class _Counts:
    """The arithmetic of ops.

    Attributes
    ----------
    op : their op codes.
    reason : int8[n], place in `_REASONS`; -1 = the arithmetic is known.
    kind : int32[n], place in `kinds`, see `_Multiplied`.
    columns, experts : int64[n], vectors at once, and experts that each one uses.
    """

    def __init__(self, trace: Trace, rows: I64) -> None:
        self.op = trace.spans.op[rows]
        top = int(self.op.max(initial=0))
        codes = np.flatnonzero(np.bincount(self.op, minlength=top + 1))
        names = {int(code): trace.op_name(int(code)) for code in codes}
        reasons = np.zeros(top + 1, np.int8)
        for code, name in names.items():
            reasons[code] = _reason_of_name(name)
        self.reason = reasons[self.op]
        self.kind = np.zeros(len(rows), np.int32)
        self.columns, self.experts = np.zeros((2, len(rows)), np.int64)
        multiplied = _multiplied(trace)
        self.kinds = multiplied.kinds
        for code, name in names.items():
            if name in (MUL_MAT, MUL_MAT_ID):
                at = np.flatnonzero(self.op == code)
                self._multiply(trace, multiplied, rows, at, name == MUL_MAT_ID)

    def _multiply(
        self,
        trace: Trace,
        multiplied: _Multiplied,
        rows: I64,
        at: I64,
        is_chosen: bool,
    ) -> None:
        """Fill in matrix multiplications: the ops of the spans ``rows[at]``."""
        pattern: Array = np.full(1, -1)
        if len(trace.accesses.pattern):
            pattern = trace.accesses.pattern[rows[at]]
        reason = np.broadcast_to(multiplied.reason[pattern], at.shape).copy()
        self.reason[at] = reason
        good = np.flatnonzero(reason < 0)
        if not len(good):
            return
        at, pattern = at[good], pattern[good]
        kind, columns = multiplied.kind[pattern], multiplied.columns[pattern]
        tokens = _tokens_of(trace, rows[at])
        if is_chosen:
            used, tokens = _experts_used(trace, rows[at], tokens, columns)
            fits = (tokens <= 0) | (columns == tokens) | (columns == tokens * used)
            is_open = fits & ((used <= 0) | (tokens <= 0))
            self.reason[at[is_open]] = _code(Reason.NO_EXPERTS)
            columns, self.experts[at] = tokens, used
        else:
            batch = self.kinds[:, 3][kind]
            fits = (tokens < 0) | (columns <= tokens * batch)
        self.reason[at[~fits]] = _code(Reason.NO_FIT)
        self.kind[at], self.columns[at] = kind, columns


def _reason_of_name(name: str) -> int:
    if name in (MUL_MAT, MUL_MAT_ID):
        return -1
    is_move = name == "NONE" or family_of(name) == "move"
    return _code(Reason.NO_ARITHMETIC if is_move else Reason.NO_FORMULA)


def _element_bytes(types: I64, tensor: Array) -> tuple[I64, Bools]:
    """Return bytes per element of tensors, 0 for packed types; and what is assumed.

    ggml's graphs multiply vectors of F32 with weights: so counts what has no type.
    """
    numbers = np.where(tensor >= 0, types[np.maximum(tensor, 0)], -1)
    used, which = np.unique(numbers, return_inverse=True)
    known_types = [find_type(int(number)) for number in used]
    width = [
        F32_BYTES if number < 0 else t.bytes if t is not None and t.block == 1 else 0
        for number, t in zip(used.tolist(), known_types, strict=True)
    ]
    return np.array(width, np.int64)[which], numbers < 0


def _tokens_of(trace: Trace, spans: I64) -> I64:
    """Return how many tokens are computed together with each span, -1 = not known."""
    unknown = np.full(len(spans), -1, np.int64)
    bars, key = token_bars(trace), tokens_of(trace).key
    if key is None or bars.noun == GRAPH_PASS or not len(bars):
        return unknown
    order = np.argsort(bars.key, kind="stable")
    keys, n_tokens = bars.key[order], bars.n_tokens[order]
    codes = key[spans].astype(np.int64)
    return np.where(codes >= 0, looked_up(keys, n_tokens, codes), unknown)


def _experts_used(
    trace: Trace, spans: I64, tokens: I64, columns: I64
) -> tuple[I64, I64]:
    """Return how many experts each token uses, 0 = not known; and how many tokens.

    As the model states it, else as the router's choice for a single token lists.
    """
    tokens = np.where((tokens < 0) & (columns == 1), 1, tokens)
    stated = {m.metadata.get("n_experts_used", "") for m in trace.models}
    text = stated.pop() if len(stated) == 1 else ""
    if text.isdecimal():
        return np.full(len(spans), int(text), np.int64), tokens
    choices, used = choosing(trace), np.zeros(len(spans), np.int64)
    choice = looked_up(choices.spans, choices.choice, spans)
    known = (choice >= 0) & (tokens == 1)
    known[known] &= choices.more[choice[known]] == 0
    used[known] = np.diff(choices.first)[choice[known]]
    return used, tokens


def _points(
    trace: Trace, counts: _Counts, n_bytes: I64, ticks: I64
) -> tuple[tuple[RooflinePoint, ...], npt.NDArray[np.int32]]:
    """Return the points, the most time first, and the point of each op."""
    of_row = np.full(len(counts.op), _NO_POINT, np.int32)
    at = np.flatnonzero(counts.reason < 0)
    if not len(at):
        return (), of_row
    n_kinds, n_experts = len(counts.kinds), int(counts.experts[at].max()) + 1
    key = counts.op[at].astype(np.int64) * n_kinds + counts.kind[at]
    key = key * n_experts + counts.experts[at]
    columns, columns_of = _places(counts.columns[at])
    kinds, which = _places(key * len(columns) + columns_of)
    first = np.empty(len(kinds), np.int64)
    first[which[::-1]] = np.arange(len(which) - 1, -1, -1)
    sums = np.zeros((2, len(kinds)), np.int64)
    add_by_group(sums[0], which, n_bytes[at])
    add_by_group(sums[1], which, ticks[at])
    n_ops = np.bincount(which, minlength=len(kinds))
    order = np.lexsort((np.arange(len(kinds)), -sums[1]))
    place = np.empty(len(kinds), np.int32)
    place[order] = np.arange(len(kinds), dtype=np.int32)
    of_row[at] = place[which]
    points = []
    for i in order.tolist():
        row, n = int(at[first[i]]), int(n_ops[i])
        kind, cols, rows, _, is_assumed = counts.kinds[int(counts.kind[row])].tolist()
        vectors, experts = int(counts.columns[row]), int(counts.experts[row])
        points.append(
            RooflinePoint(
                op=trace.op_name(int(counts.op[row])),
                type=kind,
                shape=(cols, rows),
                columns=vectors,
                experts=experts,
                n_ops=n,
                flops=2 * cols * rows * vectors * max(experts, 1) * n,
                bytes=int(sums[0, i]),
                ticks=int(sums[1, i]),
                is_f32_assumed=bool(is_assumed),
            )
        )
    return tuple(points), of_row


def _places(values: I64) -> tuple[I64, I64]:
    """Return the different values ascending, and where each value stands among them.

    Values are >= 0; without a sort where they are small numbers.
    """
    top = int(values.max(initial=0))
    if top > _SMALL:
        distinct, _, which = ranked(values)
        return distinct, which
    distinct = np.flatnonzero(np.bincount(values, minlength=top + 1))
    table = np.zeros(top + 1, np.int64)
    table[distinct] = np.arange(len(distinct))
    return distinct, table[values]


def _left_out(trace: Trace, counts: _Counts, ticks: I64) -> tuple[LeftOutOps, ...]:
    at = np.flatnonzero(counts.reason >= 0)
    key = counts.op[at].astype(np.int64) * len(_REASONS) + counts.reason[at]
    kinds, which = _places(key)
    total = np.zeros(len(kinds), np.int64)
    add_by_group(total, which, np.maximum(ticks[at], 0))
    n_ops = np.bincount(which, minlength=len(kinds))
    ops = [
        LeftOutOps(
            trace.op_name(int(kind) // len(_REASONS)),
            _REASONS[int(kind) % len(_REASONS)],
            int(n),
            int(time),
        )
        for kind, n, time in zip(kinds, n_ops, total, strict=True)
    ]
    return tuple(sorted(ops, key=lambda x: (-x.ticks, x.op, x.reason.value)))
