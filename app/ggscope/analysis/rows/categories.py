"""Categories of spans: a small number per span, with label and palette key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import numpy.typing as npt

from ggscope.analysis.reads.op_io import choosing, op_accesses
from ggscope.analysis.workers import chunks, count_codes, count_values, share_out
from ggscope.model.ggml.ops import FAMILIES, family_of
from ggscope.model.routing import UNKNOWN_MORE
from ggscope.model.selection import ColorBy
from ggscope.model.tables import (
    FAILED_COLOR,
    Accesses,
    Array,
    CallKind,
    Phase,
    Quality,
    Space,
    distinct,
    quality_of,
)
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Trace, lane_titles
from ggscope.native.library import library

NONE = "none"
"""Key of spans without a value."""
MIXED = "space:mixed"
"""Key of spans that access both the model file and a buffer."""
MAX_TOKENS = 4096
"""With more tokens (or lanes) than this, every 4096th shares its colour."""

_BACKEND, _NO_BACKEND = "backend", "0x0"
"""Attribute of lanes with a backend's pointer, and its value where there is none."""
OF_OPS = "ops"
"""Attribute of lanes of engines whose spans are ops of ggml: their families count."""
_ENGINES = ("DMA", "TE", "VE", "HOST")
_FAILED = -2
"""Beside the strings of categories: calls that failed."""
_NEAR_RED = 4
_MIXED_CODE = len(Space)
_NO_ACCESS = _MIXED_CODE + 1


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Categories:
    """A colouring: a small number per span.

    Attributes
    ----------
    by : what it colours by.
    index : uint8/uint16[n_spans] into `labels`.
    labels : what the legend says, in order of first importance.
    keys : machine name of each label, from which the palette takes the colour:
        family name ("matmul"), op name ("MUL_MAT"), "layer:3", "token:7",
        "thread:2", "backend:0", "expert:5", "expert:several", "core:3", "phase:0",
        "space:0", "quality:1", "engine:TE", "rgb:ff0000", "none".
    """

    by: ColorBy
    index: Array
    labels: tuple[str, ...]
    keys: tuple[str, ...]


def engine_of(lane_name: str) -> str:
    """Return the kind of an engine: DMA, TE, VE or HOST (which includes CTRL)."""
    name = lane_name.upper()
    return next((e for e in _ENGINES if name.startswith(e)), "HOST")


def op_categories(trace: Trace) -> Categories:
    """Return the spans by op, the commonest first."""
    values = _Values(trace.spans.op, len(trace.spans))
    count = values.count
    # The commonest first: that is what a legend cut short should keep.
    order = sorted(count, key=lambda code: (code < 0, -count[code], code))
    entries = [(trace.op_name(code), trace.op_name(code) or NONE) for code in order]
    return _categories("op", values, order, entries)


def family_categories(trace: Trace) -> Categories:
    """Return ops by family, engine spans by engine; colours of the file come first."""
    spans, n = trace.spans, len(trace.spans)
    hints = _distinct_colors(spans.color)
    n_fixed = len(FAMILIES) + len(_ENGINES)
    names = [*FAMILIES, *(f"engine:{e}" for e in _ENGINES)]
    names += [*(f"rgb:{color & 0xFFFFFF:06x}" for color in hints.tolist()), NONE]
    code_of = {name: i for i, name in enumerate(names)}
    ops = _Values(spans.op, n)
    of_op = {
        op: code_of[NONE if op < 0 else family_of(trace.op_name(op))]
        for op in ops.count
    }
    entries = [(_family_label(name), name) for name in names]
    is_engine = trace.lanes.is_engine & ~_of_ops(trace)
    if spans.color is None and not is_engine.any():
        present = sorted(set(of_op.values()))
        place = {op: present.index(family) for op, family in of_op.items()}
        index = ops.mapped(place, np.uint8)
        return _published("family", index, [entries[i] for i in present])
    family_part = ops.part(of_op)
    of_lane = np.full(max(len(trace.lanes), 1), -1, np.int16)
    # A hundred thousand engines differ in the numbers behind their kind.
    engine_types = [name.partition(" ")[0] for name in trace.lanes.names_of(is_engine)]
    meaning = {word: code_of[f"engine:{engine_of(word)}"] for word in set(engine_types)}
    of_lane[np.flatnonzero(is_engine)] = [meaning[word] for word in engine_types]

    def code(rows: slice) -> Array:
        engine = of_lane[spans.lane[rows]]
        result = np.where(engine >= 0, engine, family_part(rows))
        if spans.color is None:
            return result
        hinted = spans.color[rows]
        return np.where(hinted != 0, n_fixed + np.searchsorted(hints, hinted), result)

    index = _mapped(n, code, np.uint16)
    return _present("family", index, entries)


def _of_ops(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return which lanes say that their spans are ops of ggml, engines or not."""
    return np.array([OF_OPS in of for of in trace.lanes.attributes], np.bool_)


def _family_label(key: str) -> str:
    kind, _, value = key.partition(":")
    if kind == "engine":
        return "HOST, CTRL" if value == "HOST" else value
    if kind == "rgb" and int(value, 16) == FAILED_COLOR & 0xFFFFFF:
        return "failed"
    if kind == "rgb":
        return f"#{value} (from the file)"
    return "no op" if key == NONE else key


def layer_categories(trace: Trace) -> Categories:
    """Return the spans by layer, in order."""
    values = _Values(trace.spans.layer, len(trace.spans))
    order = sorted(values.count, key=lambda code: (code < 0, code))
    entries = [
        (f"layer {c}", f"layer:{c}") if c >= 0 else ("no layer", NONE) for c in order
    ]
    return _categories("layer", values, order, entries)


def token_categories(trace: Trace) -> Categories:
    """Return the spans by token; of very many every 4096th shares a colour."""
    tokens = tokens_of(trace)
    values = _Values(tokens.key, len(trace.spans))
    order = sorted(values.count, key=lambda code: (code < 0, code))
    if len(order) <= MAX_TOKENS:
        entries = [
            (f"token {tokens.text(c)}", f"token:{c}") if c >= 0 else ("no token", NONE)
            for c in order
        ]
        return _categories("token", values, order, entries)
    group = {code: code % MAX_TOKENS if code >= 0 else MAX_TOKENS for code in order}
    index = values.mapped(group, np.uint16)
    entries = [
        (f"token {c}, {c + MAX_TOKENS} …", f"token:{c}") for c in range(MAX_TOKENS)
    ]
    return _present("token", index, [*entries, ("no token", NONE)])


def thread_categories(trace: Trace) -> Categories:
    """Return the spans by lane."""
    values = _Values(trace.spans.lane, len(trace.spans))
    order, names = list(values.count), trace.lanes.names
    if len(order) <= MAX_TOKENS:
        entries = [(names[i], f"thread:{i}") for i in order]
        return _categories("thread", values, order, entries)
    index = values.mapped({i: i % MAX_TOKENS for i in order}, np.uint16)
    entries = []
    for i in range(MAX_TOKENS):
        same = names[i::MAX_TOKENS]
        few = ", ".join(same[:2]) + (" …" if len(same) > 2 else "")
        entries.append((few, f"thread:{i}"))
    return _present("thread", index, entries)


def phase_categories(trace: Trace) -> Categories:
    """Return the spans by phase, by the names that the file has for them."""
    values = _Values(trace.spans.phase, len(trace.spans))
    order = sorted(values.count, key=lambda code: (code < 0, code))
    names = phase_names(trace)
    entries = [
        (names[Phase(c)], f"phase:{c}") if c >= 0 else ("no phase", NONE) for c in order
    ]
    return _categories("phase", values, order, entries)


def phase_names(trace: Trace) -> dict[Phase, str]:
    """Return what the trace calls its phases (prompt/generate, prefill/decode)."""
    names = {phase: phase.name.lower() for phase in Phase}
    spans = trace.spans
    lanes = np.flatnonzero(trace.lanes.is_phase)
    if spans.phase is None or not len(lanes):
        return names
    missing = set(Phase)
    for rows in chunks(len(spans)):
        bands = np.flatnonzero(np.isin(spans.lane[rows], lanes)) + rows.start
        for phase in sorted(missing):
            first = bands[spans.phase[bands] == phase][:1].tolist()
            if first and spans.name[first[0]] >= 0:
                names[phase] = trace.strings[int(spans.name[first[0]])]
            missing -= {phase} if first else set()
        if not missing:
            break
    return names


def source_categories(trace: Trace) -> Categories:
    """Return the spans by the kind of memory that they access."""
    of_pattern = np.append(_pattern_codes(trace.accesses), np.uint8(_NO_ACCESS))
    pattern = trace.accesses.pattern
    index = _mapped(len(trace.spans), lambda rows: of_pattern[pattern[rows]], np.uint8)
    _add_loose(trace.accesses, index)
    entries = [(s.word, f"space:{int(s)}") for s in Space]
    entries += [("DISK and BUFFER", MIXED), ("no access", NONE)]
    return _present("source", index, entries)


def _pattern_codes(accesses: Accesses) -> npt.NDArray[np.uint8]:
    """Return the space of each pattern, uint8; `_MIXED_CODE` where there are two."""
    n = len(accesses.first) - 1
    owner = np.repeat(np.arange(n), np.diff(accesses.first))
    bits = np.zeros(n, np.int64)
    np.bitwise_or.at(bits, owner, np.left_shift(1, accesses.patterns.space.astype(int)))
    return _codes_of_bits(bits)


def _codes_of_bits(bits: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return the code of each set of spaces (bit s = space s)."""
    of_bits = np.full(1 << len(Space), _MIXED_CODE, np.uint8)
    of_bits[0] = _NO_ACCESS
    unknown = 1 << Space.UNKNOWN
    of_bits[unknown] = Space.UNKNOWN
    for space in Space:
        # What is not known does not make a mixture of what is.
        of_bits[(1 << space) | unknown] = of_bits[1 << space] = space
    return of_bits[bits]


def _add_loose(accesses: Accesses, index: npt.NDArray[np.uint8]) -> None:
    """Give spans without a pattern the space of their loose accesses."""
    span = accesses.loose.span
    owned = span >= 0
    if not owned.any():
        return
    ids, owner = np.unique(span[owned], return_inverse=True)
    bits = np.zeros(len(ids), np.int64)
    space = accesses.loose.what.space[owned].astype(int)
    np.bitwise_or.at(bits, owner, np.left_shift(1, space))
    bare = index[ids] == _NO_ACCESS
    index[ids[bare]] = _codes_of_bits(bits[bare])


def quality_categories(trace: Trace) -> Categories:
    """Return the spans by how their times are known."""
    flags = trace.spans.flags
    every = np.arange(1 << (8 * flags.itemsize), dtype=flags.dtype)
    index = looked_up(flags, quality_of(every).astype(np.uint16), np.uint8)
    entries = [(q.name.lower(), f"quality:{int(q)}") for q in Quality]
    return _present("quality", index, entries)


def has_backends(trace: Trace) -> bool:
    """Return whether the trace records which backend a lane computes for."""
    return any(
        attributes.get(_BACKEND, _NO_BACKEND) != _NO_BACKEND
        for attributes in trace.lanes.attributes
    )


def has_experts(trace: Trace) -> bool:
    """Return whether the trace records experts that are chosen or accessed."""
    accesses = trace.accesses
    return bool(
        len(trace.routing)
        or int(accesses.patterns.expert.max(initial=-1)) >= 0
        or int(accesses.loose.what.expert.max(initial=-1)) >= 0
    )


def has_cores(trace: Trace) -> bool:
    """Return whether the trace records the processor core of a span."""
    core = trace.spans.core
    return core is not None and any((core[r] >= 0).any() for r in chunks(len(core)))


def core_categories(trace: Trace) -> Categories:
    """Return the spans by the processor core on which they began."""
    values = _Values(trace.spans.core, len(trace.spans))
    order = sorted(values.count, key=lambda code: (code < 0, code))
    entries = [
        (f"core {c}", f"core:{c}") if c >= 0 else ("no core recorded", NONE)
        for c in order
    ]
    return _categories("core", values, order, entries)


def has_calls(trace: Trace) -> bool:
    """Return whether spans are calls of CUDA, or events with categories."""
    return trace.spans.category is not None


def call_categories(trace: Trace) -> Categories:
    """Return calls and events by their category; calls that failed come first."""
    spans = trace.spans
    column = spans.category
    if column is not None and spans.color is not None:
        column = np.where(spans.color == FAILED_COLOR, _FAILED, column)
    values = _Values(column, len(spans))
    numbers = _category_numbers(trace)
    order = sorted(
        values.count,
        key=lambda code: (code != _FAILED, code < 0, numbers.get(code, 0)),
    )
    entries = []
    for code in order:
        if code == _FAILED:
            entries.append(("failed", f"rgb:{FAILED_COLOR & 0xFFFFFF:06x}"))
        elif code < 0:
            entries.append(("no category", NONE))
        else:
            entries.append((trace.strings[code], f"category:{numbers[code]}"))
    return _categories("category", values, order, entries)


def _category_numbers(trace: Trace) -> dict[int, int]:
    """Return the number of each category, which its colour goes by.

    The kinds of calls have theirs; others come behind them, in the order of the file.
    """
    column = trace.spans.category
    present = [] if column is None else distinct(column).tolist()
    kinds = {kind.word: int(kind) for kind in CallKind}
    others = [
        code for code in present if code >= 0 and trace.strings[code] not in kinds
    ]
    place = {code: len(kinds) + i for i, code in enumerate(others)}
    numbers = {
        code: place[code] if code in place else kinds[trace.strings[code]]
        for code in present
        if code >= 0
    }
    # The hue of number 4 is too near to the red of failed calls.
    return {code: n + (n >= _NEAR_RED) for code, n in numbers.items()}


def has_launchers(trace: Trace) -> bool:
    """Return whether ops are known that launched what runs on devices."""
    return trace.spans.launcher is not None


def launcher_categories(trace: Trace) -> Categories:
    """Return what runs on devices by the op that launched it, the most frequent first.

    All else, and what no op is known of, is one category.
    """
    column = trace.spans.launcher
    values = _Values(column, len(trace.spans))
    numbers = _launcher_numbers(trace)
    order = sorted(values.count, key=lambda code: numbers.get(code, len(numbers)))
    entries = [
        (trace.strings[code], f"launcher:{numbers[code]}")
        if code >= 0
        else ("no launching op", NONE)
        for code in order
    ]
    return _categories("launcher", values, order, entries)


def _launcher_numbers(trace: Trace) -> dict[int, int]:
    """Return the number of each launching op, the most frequent first."""
    column = trace.spans.launcher
    if column is None:
        return {}
    codes, counts = np.unique(column[column >= 0], return_counts=True)
    ordered = codes[np.lexsort((codes, -counts))].tolist()
    return {code: number for number, code in enumerate(ordered)}


def launcher_of_key(trace: Trace, key: str) -> str:
    """Return the launching op that a key stands for; "" for other keys."""
    kind, _, value = key.partition(":")
    if kind != "launcher":
        return ""
    codes = [code for code, n in _launcher_numbers(trace).items() if n == int(value)]
    return trace.strings[codes[0]] if codes else ""


def category_of_key(trace: Trace, key: str) -> str:
    """Return the category that a key stands for; "" for other keys."""
    kind, _, value = key.partition(":")
    if kind != "category":
        return ""
    numbers = _category_numbers(trace)
    codes = [code for code, number in numbers.items() if number == int(value)]
    return trace.strings[codes[0]] if codes else ""


def backend_categories(trace: Trace) -> Categories:
    """Return the spans by the backend of their lane, in order of appearance."""
    lanes = trace.lanes
    pointers = _backends_of_lanes(trace)
    codes: dict[str | None, int] = {}
    entries: list[tuple[str, str]] = []
    for i, pointer in enumerate(pointers):
        if pointer is not None and pointer not in codes:
            group = lanes.groups[lanes.group[i]]
            codes[pointer] = len(entries)
            entries.append((group[0] if group else pointer, f"backend:{len(entries)}"))
    codes[None] = len(entries)
    entries += [("backend unknown", "backend:unknown"), ("no backend", NONE)]
    code = np.array([codes[pointer] for pointer in pointers], np.uint16)
    is_other = (code == codes[None]) & ~lanes.is_thread
    of_lane = np.where(is_other, len(entries) - 1, code).astype(np.uint16)
    lane = trace.spans.lane
    index = _mapped(len(lane), lambda rows: of_lane[lane[rows]], np.uint16)
    return _present("backend", index, entries)


def _backends_of_lanes(trace: Trace) -> list[str | None]:
    return [attributes.get(_BACKEND) for attributes in trace.lanes.attributes]


def lanes_of_backend(trace: Trace, number: str) -> list[str]:
    """Return the titles of the lanes of a backend, by the number in its key.

    "unknown": those of threads whose backend no record states.
    """
    pointers = _backends_of_lanes(trace)
    if number == "unknown":
        is_thread = trace.lanes.is_thread
        is_own = [p is None and bool(is_thread[i]) for i, p in enumerate(pointers)]
    else:
        present = list(dict.fromkeys(p for p in pointers if p is not None))
        is_own = [p == present[int(number)] for p in pointers]
    return list(compress(lane_titles(trace.lanes), is_own))


def expert_categories(trace: Trace) -> Categories:
    """Return the spans by the expert whose bytes they access, where only one is.

    Spans on a stack of experts are those of the experts that were chosen. Where that
    is not known, or one is named and nobody knows whether there are others, the
    experts are not known.
    """
    access_table, by_choice = op_accesses(trace), choosing(trace)
    column = access_table.what.expert.astype(np.int64)
    named = column >= 0
    of_entry, n_of_entry = _only(
        access_table.owner[named], column[named], len(access_table)
    )
    n_choices = len(by_choice.more)
    owner = np.repeat(np.arange(n_choices), np.diff(by_choice.first))
    of_choice, n_of_choice = _only(owner, by_choice.expert, n_choices)
    top = max(int(column.max(initial=-1)), int(by_choice.expert.max(initial=-1)))
    several, unknown, none = top + 1, top + 2, top + 3
    codes = np.where(n_of_entry == 0, none, np.where(n_of_entry > 1, several, of_entry))
    table = np.append(codes, none).astype(np.uint16)
    index = _mapped(
        len(trace.spans), lambda r: table[access_table.entries(r)], np.uint16
    )
    is_several = (n_of_choice > 1) | (by_choice.more > 0)
    codes = np.where(is_several, several, of_choice)
    codes[~is_several & (by_choice.more == UNKNOWN_MORE)] = unknown
    table = np.append(codes, unknown).astype(np.uint16)
    index[by_choice.spans] = table[by_choice.choice]
    entries = [(f"expert {e}", f"expert:{e}") for e in range(top + 1)]
    entries += [
        ("several experts", "expert:several"),
        ("experts not known", "expert:unknown"),
        ("no expert", NONE),
    ]
    return _present("expert", index, entries)


def _only(owner: Array, value: Array, n: int) -> tuple[Array, Array]:
    """Return the largest value of each of `n` owners, and how many it has.

    -1 and 0 where it has none; equal values count once.
    """
    largest, count = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    np.maximum.at(largest, owner, value)
    both = np.unique(np.stack([owner, value], 1), axis=0)
    np.add.at(count, both[:, 0], 1)
    return largest, count


_Part = Callable[[slice], Array]


def _mapped(n: int, part: _Part, dtype: type) -> Array:
    """Return ``part`` of every chunk of rows, joined."""
    index: Array = np.empty(n, dtype)
    for rows in chunks(n):
        index[rows] = part(rows)
    return index


def looked_up(codes: Array, meaning: npt.NDArray[np.uint16], dtype: type) -> Array:
    """Return ``meaning`` of codes of one or two bytes, by the number of their bits."""
    codes = np.ascontiguousarray(codes)
    index: Array = np.empty(len(codes), dtype)

    def look_up(_: int, rows: slice) -> None:
        library().ggscope_codes_map(
            codes[rows], codes.itemsize, len(codes[rows]), meaning, index[rows],
            index.itemsize,
        )  # fmt: skip

    share_out(look_up, chunks(len(codes)))
    return index


class _Values:
    """The values of a column, and numbers instead of them.

    Attributes
    ----------
    count : occurrences of each value; keys ascend. A missing column is -1
        everywhere.
    """

    def __init__(self, column: Array | None, n: int) -> None:
        self._column = column if column is not None and len(column) else None
        self._n = n
        if self._column is None:
            self.count = {-1: n} if n else {}
        elif self._is_narrow(self._column):
            self.count = _count_codes(self._column)
        else:
            self.count = _count_wide(self._column)

    def mapped(self, meaning: dict[int, int], dtype: type) -> Array:
        """Return ``meaning`` of the value of every span."""
        column = self._column
        if column is not None and self._is_narrow(column):
            return looked_up(column, _table(column, meaning), dtype)
        return _mapped(self._n, self.part(meaning), dtype)

    def part(self, meaning: dict[int, int]) -> _Part:
        """Return a function from rows to the ``meaning`` of their values."""
        column = self._column
        if column is None:
            alone = meaning.get(-1, 0)
            return lambda rows: np.full(rows.stop - rows.start, alone, np.int64)
        if self._is_narrow(column):
            table = _table(column, meaning)
            codes = column.view(np.dtype(f"u{column.itemsize}"))
            return lambda rows: table[codes[rows]]
        values = np.array(list(self.count), np.int64)
        means = np.array([meaning[value] for value in self.count], np.int64)
        low, extent = int(values[0]), int(values[-1] - values[0]) + 1
        if extent > 1 << 20:
            return lambda rows: means[np.searchsorted(values, column[rows])]
        table = np.zeros(extent, np.int64)
        table[values - low] = means
        return lambda rows: table[column[rows].astype(np.int64) - low]

    @staticmethod
    def _is_narrow(column: Array) -> bool:
        return column.itemsize <= 2


def _count_codes(column: Array) -> dict[int, int]:
    """Return occurrences of each value of a column of one or two bytes."""
    counts = count_codes(np.ascontiguousarray(column))
    present = np.flatnonzero(counts)
    values = present.astype(f"u{column.itemsize}").view(column.dtype)
    pairs = zip(values.tolist(), counts[present].tolist(), strict=True)
    return dict(sorted(pairs))


def _count_wide(column: Array) -> dict[int, int]:
    """Return occurrences of each value of a column of any integers."""
    low, high = int(column.min()), int(column.max())
    if high - low >= 1 << 20:
        values, counts = np.unique(column, return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))
    counts = np.zeros(high - low + 1, np.int64)
    for rows in chunks(len(column)):
        shifted = column[rows].astype(np.int64) - low
        counts += np.bincount(shifted, minlength=len(counts))
    present = np.flatnonzero(counts)
    pairs = zip((present + low).tolist(), counts[present].tolist(), strict=True)
    return dict(pairs)


def _table(column: Array, meaning: dict[int, int]) -> npt.NDArray[np.uint16]:
    """Return ``meaning`` by the number that the bits of a value make."""
    table = np.zeros(1 << (8 * column.itemsize), np.uint16)
    values = np.array(list(meaning), column.dtype)
    table[values.view(np.dtype(f"u{column.itemsize}"))] = list(meaning.values())
    return table


def _categories(
    by: ColorBy,
    values: _Values,
    order: Sequence[int],
    entries: Sequence[tuple[str, str]],
) -> Categories:
    """Return the colouring whose entry i stands for value ``order[i]``."""
    place = {code: i for i, code in enumerate(order)}
    dtype = np.uint8 if len(order) <= 256 else np.uint16
    return _published(by, values.mapped(place, dtype), entries)


def _present(
    by: ColorBy, index: Array, entries: Sequence[tuple[str, str]]
) -> Categories:
    """Return the colouring with only the entries that occur, in their order."""
    counts = count_values(index, len(entries))
    present = np.flatnonzero(counts)
    place = np.zeros(1 << (8 * index.itemsize), np.uint16)
    place[present] = np.arange(len(present))
    dtype = np.uint8 if len(present) <= 256 else np.uint16
    narrow = looked_up(index, place, dtype)
    return _published(by, narrow, [entries[i] for i in present.tolist()])


def _published(
    by: ColorBy, index: Array, entries: Sequence[tuple[str, str]]
) -> Categories:
    """Return the colouring; one without spans still has a label."""
    index.flags.writeable = False
    shown = list(entries) or [(NONE, NONE)]
    return Categories(
        by, index, tuple(e[0] or "no op" for e in shown), tuple(e[1] for e in shown)
    )


def _distinct_colors(color: Array | None) -> npt.NDArray[np.uint32]:
    """Return the colours that the file asks for, ascending, without 0."""
    if color is None:
        return np.zeros(0, np.uint32)
    parts = [distinct(color[rows]) for rows in chunks(len(color))]
    every = distinct(np.concatenate([np.zeros(0, np.uint32), *parts]))
    return np.asarray(every[every != 0], np.uint32)
