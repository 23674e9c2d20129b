"""Which experts worked: choices by layer, expert and token, and how they are known.

They are determined by the router's lists, or by accesses where a trace records no
routing.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.experts.slices import (
    ExpertSlices,
    expert_slices,
    stated_experts,
)
from ggscope.analysis.experts.token_order import TokenOrder, token_order
from ggscope.analysis.reads.op_io import AccessTable, loose_bytes, op_accesses
from ggscope.analysis.workers import add_by_group, chunks
from ggscope.model.routing import UNKNOWN_MORE
from ggscope.model.tables import I64, Array, ranges, ranked, taken
from ggscope.model.tokens import token_noun
from ggscope.model.trace import Trace

_STACK_WORD = "_exps"
_MAX_COUNT = 1 << 53
MAX_EXPERTS, MAX_LAYERS = 1 << 12, 1 << 9
"""Numbers of experts and layers beyond are damage; a grid of them would fill the
memory: 9 GB for a table of 650 kB."""


@dataclass(frozen=True, slots=True, eq=False)
class AccessedExperts:
    """Accesses to experts, one row per token, layer and expert, in that order.

    Attributes
    ----------
    token : int64[n], number of the token; -1 unknown.
    layer, expert : int64[n].
    n_accesses : int64[n].
    bytes : int64[n], the known bytes of them.
    n_left_out : accesses to experts of no known layer.
    """

    token: I64
    layer: I64
    expert: I64
    n_accesses: I64
    bytes: I64
    n_left_out: int


def accessed_experts(trace: Trace, limit: int) -> AccessedExperts:
    """Return which experts the accesses name; expert numbers are below `limit`.

    Notes
    -----
    Spans that do the same accesses for the same token are counted first, so the
    cost is one look at each span and one at each distinct access and token.
    """
    table = op_accesses(trace)
    layer, expert = _experts_of(
        trace, table.what.tensor, table.what.layer, table.what.expert
    )
    is_one = (expert >= 0) & (expert < limit) & table.is_access
    row = np.flatnonzero(is_one)
    of_row = np.searchsorted(table.first, row, "right") - 1
    entry, token, n_times = _repeats(trace, table, of_row)
    begin = np.searchsorted(of_row, entry)
    n_rows = np.searchsorted(of_row, entry, "right") - begin
    at = row[ranges(begin, n_rows)]
    times, size = np.repeat(n_times, n_rows), table.known[at]
    loose = trace.accesses.loose
    what = loose.what
    loose_layer, loose_expert = _experts_of(trace, what.tensor, what.layer, what.expert)
    rows = np.flatnonzero((loose_expert >= 0) & (loose_expert < limit))
    return _grouped(
        np.concatenate([np.repeat(token, n_rows), loose.token[rows].astype(np.int64)]),
        np.concatenate([layer[at], loose_layer[rows]]),
        np.concatenate([expert[at], loose_expert[rows]]),
        np.concatenate([times, np.ones(len(rows), np.int64)]),
        np.concatenate([times * size, loose_bytes(trace)[0][rows]]),
    )


def touches_stacks(trace: Trace) -> bool:
    """Return whether a tensor that stacks experts is accessed or listed."""
    tensors = trace.tensors
    if tensors.n_experts is not None and (tensors.n_experts > 0).any():
        return True
    names = np.unique(tensors.name[tensors.name >= 0]).tolist()
    return any(_STACK_WORD in trace.strings[name] for name in names)


def _experts_of(
    trace: Trace, tensor: Array, layer: Array, expert: Array
) -> tuple[I64, I64]:
    """Return the layer and expert of accesses, else those of their tensors."""
    tensors = trace.tensors
    return (
        np.where(layer >= 0, layer, taken(tensors.layer, tensor)),
        np.where(expert >= 0, expert, taken(tensors.expert, tensor)),
    )


def _repeats(trace: Trace, table: AccessTable, entries: I64) -> tuple[I64, I64, I64]:
    """Return (entry, token, number of ops) of ops that do these entries."""
    spans = trace.spans
    is_repeated = np.zeros(len(table) + 1, np.bool_)
    is_repeated[entries] = True
    is_repeated[-1] = False  # what -1 finds
    parts: list[tuple[I64, I64]] = []
    for part in chunks(len(spans)):
        entry = table.counted_entries(part)
        hit = np.flatnonzero(is_repeated[entry])
        token = (
            np.full(len(hit), -1, np.int64)
            if spans.token is None
            else spans.token[part][hit].astype(np.int64)
        )
        key = entry[hit].astype(np.int64) << 32 | (token + 1)
        parts.append(np.unique(key, return_counts=True))
    if not parts:
        none = np.zeros(0, np.int64)
        return none, none, none
    key, _, inverse = ranked(np.concatenate([p[0] for p in parts]))
    n_times = np.zeros(len(key), np.int64)
    np.add.at(n_times, inverse, np.concatenate([p[1] for p in parts]))
    return key >> 32, (key & 0xFFFFFFFF) - 1, n_times


def _grouped(
    token: I64, layer: I64, expert: I64, n: I64, n_bytes: I64
) -> AccessedExperts:
    """Return one row per token, layer and expert."""
    placed = layer >= 0
    n_left_out = int(n[~placed].sum())
    columns = (token, layer, expert, n, n_bytes)
    token, layer, expert, n, n_bytes = (c[placed] for c in columns)
    order = np.lexsort((expert, layer, token))
    token, layer, expert = token[order], layer[order], expert[order]
    starts = np.flatnonzero(_changes(token) | _changes(layer) | _changes(expert))
    if not len(starts):
        return AccessedExperts(token, layer, expert, n, n_bytes, n_left_out)
    return AccessedExperts(
        token[starts],
        layer[starts],
        expert[starts],
        np.add.reduceat(n[order], starts),
        np.add.reduceat(n_bytes[order], starts),
        n_left_out,
    )


def _changes(values: I64) -> npt.NDArray[np.bool_]:
    return np.append(True, values[1:] != values[:-1])[: len(values)]


class ExpertSource(Enum):
    """How it is known which experts worked.

    ROUTING : the choices of the router were recorded (measured).
    COUNTS : an importance matrix counted the choices of a calibration text (measured,
        but of another run).
    LAUNCHES : launches counted the tokens of each expert (measured, without tokens).
    SIZES : the sizes of tensors show that every expert computed (derived).
    ACCESSES : accesses name the slices of experts (derived: one access is no choice).
    STACKS : ops access, or a model lists, whole stacks: no expert can be determined.
    NONE : nothing in the trace has to do with experts.
    """

    ROUTING = "routing"
    COUNTS = "counts"
    LAUNCHES = "launches"
    SIZES = "sizes"
    ACCESSES = "accesses"
    STACKS = "stacks"
    NONE = "none"


COUNTED = (ExpertSource.COUNTS, ExpertSource.LAUNCHES)
"""Sources that know how often experts were chosen, and nothing of tokens."""
OF_ROUTER = (ExpertSource.ROUTING, *COUNTED, ExpertSource.SIZES)
"""Sources that count choices of the router, not accesses."""


class CountSource(Enum):
    """How the number of experts per layer is known.

    MODEL : the model file or map says it.
    TENSORS : the stacks of experts, or their slices, are listed, or the sizes of the
        router's tensors show.
    SEEN : the highest expert seen is taken for the last one (inferred).
    """

    MODEL = "model"
    TENSORS = "tensors"
    SEEN = "seen"


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Choices of experts that compute, one row each, and what they are counted in.

    Attributes
    ----------
    layers : int64[L], numbers of the layers that have experts, ascending.
    n_experts : experts per layer; `count_source` says how that is known.
    tokens : int64[T], numbers of the tokens (or passes), ascending; empty where the
        trace names none.
    layer : int32[n], row of `layers`.
    expert : int32[n], below `n_experts`.
    token : int32[n], row of `tokens`, -1 unknown.
    rank : int16[n], 0 = first choice, -1 unknown.
    score : float32[n], NaN unknown.
    is_used : bool[n], False for ranked experts that did not compute.
    weight : int64[n], accesses that a row stands for; 1 for a recorded choice.
    bytes : int64[n], bytes that these accesses read; None for recorded choices.
    slices : where the experts lie in the model file.
    n_left_out : choices or accesses without a usable layer or expert.
    more : int64[n], choices of the row's token and layer that no list names and that
        is unknown therefore, see ``Routing.n_more``; None where there are none.
    n_implied : rows that no list names, but the sizes of tensors imply.
    order : the tokens that the rows are of, one by one, and which follow each other: a
        ubatch is one number of `tokens`, and may hold many.
    noun : what `tokens` numbers: "token" or "ubatch".
    """

    source: ExpertSource
    layers: I64
    n_experts: int
    count_source: CountSource
    tokens: I64
    layer: npt.NDArray[np.int32]
    expert: npt.NDArray[np.int32]
    token: npt.NDArray[np.int32]
    rank: npt.NDArray[np.int16]
    score: npt.NDArray[np.float32]
    is_used: npt.NDArray[np.bool_]
    weight: I64
    bytes: I64 | None
    slices: ExpertSlices
    order: TokenOrder
    n_left_out: int = 0
    more: I64 | None = None
    n_implied: int = 0
    noun: str = "token"

    def __len__(self) -> int:
        return len(self.layer)

    def open_pairs(self) -> tuple[I64, I64, I64]:
        """Return layer row, token row and number of choices that no list names.

        One entry per layer and token that has some, int64[k] each; the number is
        `UNKNOWN_MORE` where nobody knows it.
        """
        if self.more is None:
            none = np.zeros(0, np.int64)
            return none, none, none
        rows = np.flatnonzero(self.more)
        n_tokens = len(self.tokens) + 1
        key = self.layer[rows].astype(np.int64) * n_tokens + self.token[rows] + 1
        key, first = np.unique(key, return_index=True)
        layer, token = np.divmod(key, n_tokens)
        return layer, token - 1, self.more[rows[first]]

    @property
    def n_slots(self) -> int:
        """Number of (layer, expert) pairs that the model has."""
        return len(self.layers) * self.n_experts


@dataclass(frozen=True, slots=True, eq=False)
class ExpertGrid:
    """Counts of one token or of all, by layer and expert.

    Attributes
    ----------
    count : int64[L, E], choices, or accesses where only these are known.
    bytes : int64[L, E], bytes that they read, -1 unknown. For recorded choices that
        is count times the size of the expert's slices (derived).
    more : int64[L], further choices of each layer, of unknown experts;
        `UNKNOWN_MORE` where not even their number is known.
    """

    count: I64
    bytes: I64
    more: I64


def expert_choices(trace: Trace) -> Choices:
    """Return what the trace states about experts; a table without rows where nothing.

    Notes
    -----
    O(routing rows), or O(spans + distinct accesses) where routing is not recorded.
    """
    slices = expert_slices(trace)
    if len(trace.routing):
        return _of_routing(trace, slices)
    choices = _of_accesses(trace, slices)
    if choices.source in (ExpertSource.STACKS, ExpertSource.NONE):
        return _of_counts(trace, slices) or choices
    return choices


def expert_grid(choices: Choices, token: int | None = None) -> ExpertGrid:
    """Return the counts of a token (a row of ``choices.tokens``), or of all.

    Only experts that computed count.
    """
    shape = (len(choices.layers), choices.n_experts)
    chosen = choices.is_used
    if token is not None:
        chosen = chosen & (choices.token == token)
    cell = choices.layer[chosen].astype(np.int64) * choices.n_experts
    cell += choices.expert[chosen]
    count = _sums(cell, choices.weight[chosen], shape[0] * shape[1]).reshape(shape)
    if choices.bytes is not None:
        known = _sums(cell, choices.bytes[chosen], shape[0] * shape[1])
        return ExpertGrid(count, known.reshape(shape), _open(choices, token))
    size = choices.slices.sizes(choices.layers, choices.n_experts)
    n_bytes = np.where(size >= 0, count * np.maximum(size, 0), -1)
    return ExpertGrid(count, n_bytes, _open(choices, token))


def _open(choices: Choices, token: int | None) -> I64:
    """Return how many choices of each layer no list names, of a token or of all."""
    layer, of_token, more = choices.open_pairs()
    if token is not None:
        layer, more = layer[of_token == token], more[of_token == token]
    total = np.zeros(len(choices.layers), np.int64)
    np.add.at(total, layer, np.maximum(more, 0))
    total[layer[more == UNKNOWN_MORE]] = UNKNOWN_MORE
    return total


def _sums(group: Array, values: I64, n: int) -> I64:
    total = np.zeros(n, np.int64)
    add_by_group(total, group, values)
    return total


def _of_routing(trace: Trace, slices: ExpertSlices) -> Choices:
    routing = trace.routing
    usable = (routing.layer >= 0) & (routing.expert >= 0)
    usable &= (routing.expert < MAX_EXPERTS) & (routing.layer < MAX_LAYERS)
    rows = slice(None) if usable.all() else np.flatnonzero(usable)
    layer, expert = routing.layer[rows], routing.expert[rows]
    n = len(layer)
    implied = 0 if routing.is_implied is None else int(routing.is_implied[rows].sum())
    more = None if routing.n_more is None else routing.n_more[rows].astype(np.int64)
    return _choices(
        trace,
        slices,
        layer,
        expert,
        routing.token[rows],
        source=ExpertSource.SIZES if implied == n > 0 else ExpertSource.ROUTING,
        rank=routing.rank[rows].astype(np.int16),
        score=routing.score[rows],
        is_used=routing.is_used[rows],
        weight=np.ones(n, np.int64),
        bytes=None,
        n_left_out=len(routing) - n,
        more=more if more is not None and more.any() else None,
        n_implied=implied,
        row=None if routing.row is None else routing.row[rows],
    )


def _of_accesses(trace: Trace, slices: ExpertSlices) -> Choices:
    accessed = accessed_experts(trace, MAX_EXPERTS)
    source = ExpertSource.ACCESSES
    if not len(accessed.layer):
        stacked = touches_stacks(trace)
        source = ExpertSource.STACKS if stacked else ExpertSource.NONE
    keep = accessed.layer < MAX_LAYERS
    n = int(np.count_nonzero(keep))
    return _choices(
        trace,
        slices,
        accessed.layer[keep],
        accessed.expert[keep],
        accessed.token[keep],
        source=source,
        rank=np.full(n, -1, np.int16),
        score=np.full(n, np.nan, np.float32),
        is_used=np.ones(n, np.bool_),
        weight=accessed.n_accesses[keep],
        bytes=accessed.bytes[keep],
        n_left_out=accessed.n_left_out + int(accessed.n_accesses[~keep].sum()),
    )


def _of_counts(trace: Trace, slices: ExpertSlices) -> Choices | None:
    """Return choices that launches or an importance matrix counted; None without."""
    if (counted := trace.expert_counts) is not None:
        source = ExpertSource.LAUNCHES
        layer, expert = counted.layer, counted.expert
        count = counted.count.astype(np.float64)
    elif trace.importance is not None:
        source = ExpertSource.COUNTS
        layer, expert, count, _ = trace.importance.expert_counts()
    else:
        return None
    known = (count >= 0) & (count < _MAX_COUNT)  # false for what is no number
    known &= (layer < MAX_LAYERS) & (expert < MAX_EXPERTS)
    if not known.any():
        return None
    layer, expert, count = layer[known], expert[known], count[known]
    n = len(layer)
    return _choices(
        trace,
        slices,
        layer,
        expert,
        np.full(n, -1, np.int64),
        source=source,
        rank=np.full(n, -1, np.int16),
        score=np.full(n, np.nan, np.float32),
        is_used=np.ones(n, np.bool_),
        weight=np.rint(count).astype(np.int64),
        bytes=None,
    )


def _choices(
    trace: Trace,
    slices: ExpertSlices,
    layer: Array,
    expert: Array,
    token: Array,
    row: Array | None = None,
    **columns: Any,
) -> Choices:
    """Return choices of experts by their layers, numbers and tokens."""
    n_experts, count_source = _number_of_experts(trace, slices, expert)
    layers, layer_row = _layers(slices, layer)
    tokens, token_row = _numbers(token)
    return Choices(
        layers=layers,
        n_experts=n_experts,
        count_source=count_source,
        tokens=tokens,
        layer=layer_row,
        expert=expert.astype(np.int32),
        token=token_row,
        slices=slices,
        order=token_order(trace, token, layer, row, tokens),
        noun=token_noun(trace),
        **columns,
    )


def _number_of_experts(
    trace: Trace, slices: ExpertSlices, expert: Array
) -> tuple[int, CountSource]:
    """Return the experts per layer, at least as many as were seen."""
    seen = int(expert.max(initial=-1)) + 1
    stated = stated_experts(trace)
    if stated and seen <= stated <= MAX_EXPERTS:
        return stated, CountSource.MODEL
    if slices.n_experts and slices.n_experts >= seen:
        return slices.n_experts, CountSource.TENSORS
    if trace.routing.n_experts and trace.routing.n_experts >= seen:
        return trace.routing.n_experts, CountSource.TENSORS
    return seen, CountSource.SEEN


def _layers(slices: ExpertSlices, layer: Array) -> tuple[I64, npt.NDArray[np.int32]]:
    """Return the layers that have experts, and the row of each choice's layer."""
    stacks = slices.layers[slices.layers < MAX_LAYERS]
    numbers = np.union1d(stacks, distinct(layer)).astype(np.int64)
    lookup = np.full(int(numbers.max(initial=-1)) + 1, -1, np.int32)
    lookup[numbers] = np.arange(len(numbers))
    return numbers, lookup[layer]


def _numbers(token: Array) -> tuple[I64, npt.NDArray[np.int32]]:
    """Return the distinct tokens without -1, and the row of each choice's token."""
    numbers = distinct(token)
    numbers = numbers[numbers >= 0].astype(np.int64)
    row = np.searchsorted(numbers, token).astype(np.int32)
    row[token < 0] = -1
    return numbers, row


def distinct(values: Array) -> Array:
    """Return the distinct values, ascending; quick where many repeat in a row."""
    if not len(values):
        return values
    # Rows come token by token and layer by layer: few runs, so little to sort.
    changes = np.append(True, values[1:] != values[:-1])
    return np.unique(values[changes])
