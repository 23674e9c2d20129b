"""Colourings: a small number per span, what it is called and where its hue is from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import chunks
from ggscope.model.ggml import FAMILIES, family_of
from ggscope.model.lanes import LaneKind
from ggscope.model.selection import ColorBy
from ggscope.model.tables import Accesses, Array, Phase, Quality, Space, quality_of
from ggscope.model.trace import Trace

NONE = "none"
"""Key of spans without a value."""
MIXED = "space:mixed"
"""Key of spans that access both the model file and a buffer."""
MAX_TOKENS = 4096
"""With more tokens than this, every 4096th shares its colour."""

_ENGINES = ("DMA", "TE", "VE", "HOST")
_SPACE_LABELS = {
    Space.FILE: "DISK",
    Space.BUFFER: "BUFFER",
    Space.DRAM: "DRAM",
    Space.SPM: "SPM",
    Space.UNKNOWN: "unknown",
}
_MIXED_CODE = len(Space)
_NO_ACCESS = _MIXED_CODE + 1


@dataclass(frozen=True, slots=True, eq=False)
class Categories:
    """A colouring: a small number per span.

    Attributes
    ----------
    by : what it colours by.
    index : uint8/uint16[n_spans] into `labels`.
    labels : what the legend says, in order of first importance.
    keys : machine name of each label, from which the palette takes the colour:
        family name ("matmul"), op name ("MUL_MAT"), "layer:3", "token:7",
        "thread:2", "phase:0", "space:0", "quality:1", "engine:TE", "rgb:ff0000",
        "none".
    """

    by: ColorBy
    index: Array
    labels: tuple[str, ...]
    keys: tuple[str, ...]


def categorize(trace: Trace, by: ColorBy) -> Categories:
    """Return the colouring of `trace` by `by`; only what occurs gets a label."""
    return _MAKERS[by](trace)


def engine_of(lane_name: str) -> str:
    """Return the kind of an engine: DMA, TE, VE or HOST (which includes CTRL)."""
    name = lane_name.upper()
    return next((e for e in _ENGINES if name.startswith(e)), "HOST")


def _by_op(trace: Trace) -> Categories:
    codes, number = _numbered(trace.spans.op, len(trace.spans))
    # The commonest first: that is what a legend cut short should keep.
    order = sorted(codes, key=lambda code: (code < 0, -codes[code], code))
    entries = [(trace.op_name(code), trace.op_name(code) or NONE) for code in order]
    return _categories("op", trace, number, order, entries)


def _by_family(trace: Trace) -> Categories:
    """Ops by family, spans of engines by engine, the file's own colours first."""
    spans, n = trace.spans, len(trace.spans)
    hints = _distinct_colors(spans.color)
    n_fixed = len(FAMILIES) + len(_ENGINES)
    names = [*FAMILIES, *(f"engine:{e}" for e in _ENGINES)]
    names += [*(f"rgb:{color & 0xFFFFFF:06x}" for color in hints.tolist()), NONE]
    code_of = {name: i for i, name in enumerate(names)}
    codes, op_number = _numbered(spans.op, n)
    of_op = _lookup(
        {c: code_of[NONE if c < 0 else family_of(trace.op_name(c))] for c in codes}
    )
    of_lane = np.full(max(len(trace.lanes), 1), -1, np.int16)
    for lane in trace.lanes:
        if lane.kind == LaneKind.ENGINE:
            of_lane[lane.id] = code_of[f"engine:{engine_of(lane.name)}"]

    def code(rows: slice) -> Array:
        engine = of_lane[spans.lane[rows]]
        result = np.where(engine >= 0, engine, of_op[op_number(rows)])
        if spans.color is None:
            return result
        asked = spans.color[rows]
        return np.where(asked != 0, n_fixed + np.searchsorted(hints, asked), result)

    index = _mapped(n, code, np.uint16)
    return _present("family", index, [(_family_label(name), name) for name in names])


def _family_label(key: str) -> str:
    kind, _, value = key.partition(":")
    if kind == "engine":
        return "HOST, CTRL" if value == "HOST" else value
    if kind == "rgb":
        return f"#{value} (from the file)"
    return "no op" if key == NONE else key


def _by_layer(trace: Trace) -> Categories:
    codes, number = _numbered(trace.spans.layer, len(trace.spans))
    order = sorted(codes, key=lambda code: (code < 0, code))
    entries = [
        (f"layer {c}", f"layer:{c}") if c >= 0 else ("no layer", NONE) for c in order
    ]
    return _categories("layer", trace, number, order, entries)


def _by_token(trace: Trace) -> Categories:
    codes, number = _numbered(trace.spans.token, len(trace.spans))
    order = sorted(codes, key=lambda code: (code < 0, code))
    if len(order) <= MAX_TOKENS:
        entries = [
            (f"token {c}", f"token:{c}") if c >= 0 else ("no token", NONE)
            for c in order
        ]
        return _categories("token", trace, number, order, entries)
    group = {code: code % MAX_TOKENS if code >= 0 else MAX_TOKENS for code in order}
    of_code = _lookup(group)
    index = _mapped(len(trace.spans), lambda rows: of_code[number(rows)], np.uint16)
    entries = [
        (f"token {c}, {c + MAX_TOKENS} …", f"token:{c}") for c in range(MAX_TOKENS)
    ]
    return _present("token", index, [*entries, ("no token", NONE)])


def _by_thread(trace: Trace) -> Categories:
    index = _mapped(len(trace.spans), lambda rows: trace.spans.lane[rows], np.uint16)
    entries = [(lane.name, f"thread:{lane.id}") for lane in trace.lanes]
    return _present("thread", index, entries)


def _by_phase(trace: Trace) -> Categories:
    codes, number = _numbered(trace.spans.phase, len(trace.spans))
    order = sorted(codes, key=lambda code: (code < 0, code))
    names = phase_names(trace)
    entries = [
        (names[Phase(c)], f"phase:{c}") if c >= 0 else ("no phase", NONE) for c in order
    ]
    return _categories("phase", trace, number, order, entries)


def phase_names(trace: Trace) -> dict[Phase, str]:
    """Return what the trace calls its phases (prompt/generate, prefill/decode)."""
    names = {Phase.PROMPT: "prompt", Phase.GENERATE: "generate"}
    spans = trace.spans
    lanes = [lane.id for lane in trace.lanes if lane.kind == LaneKind.PHASE]
    if spans.phase is None or not lanes:
        return names
    # Phase bands are few and lie together, so this looks at few spans.
    for phase in Phase:
        on_lane = np.isin(spans.lane, lanes) & (spans.phase == phase)
        found = int(np.argmax(on_lane)) if on_lane.any() else -1
        if found >= 0 and spans.name[found] >= 0:
            names[phase] = trace.strings[int(spans.name[found])]
    return names


def _by_source(trace: Trace) -> Categories:
    of_pattern = np.append(_pattern_codes(trace.accesses), np.uint8(_NO_ACCESS))
    pattern = trace.accesses.pattern
    index = _mapped(len(trace.spans), lambda rows: of_pattern[pattern[rows]], np.uint8)
    _add_loose(trace.accesses, index)
    entries = [(_SPACE_LABELS[s], f"space:{int(s)}") for s in Space]
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


def _by_quality(trace: Trace) -> Categories:
    flags = trace.spans.flags
    index = _mapped(len(flags), lambda rows: quality_of(flags[rows]), np.uint8)
    entries = [(q.name.lower(), f"quality:{int(q)}") for q in Quality]
    return _present("quality", index, entries)


_Part = Callable[[slice], Array]


def _mapped(n: int, part: _Part, dtype: type) -> Array:
    """Return ``part`` of every chunk of rows, joined."""
    index: Array = np.empty(n, dtype)
    for rows in chunks(n):
        index[rows] = part(rows)
    return index


def _numbered(column: Array | None, n: int) -> tuple[dict[int, int], _Part]:
    """Return (occurrences of each value, a function from rows to value numbers).

    A value's number is its position in the dict, whose keys ascend; a missing
    column is -1 everywhere.
    """
    if column is None or not len(column):
        return ({-1: n} if n else {}), lambda rows: np.zeros(
            rows.stop - rows.start, np.int64
        )
    low, high = int(column.min()), int(column.max())
    if high - low >= 1 << 20:
        values, counts = np.unique(column, return_counts=True)
        return (
            dict(zip(values.tolist(), counts.tolist(), strict=True)),
            lambda rows: np.searchsorted(values, column[rows]),
        )
    counts = np.zeros(high - low + 1, np.int64)
    for rows in chunks(n):
        shifted = column[rows].astype(np.int64) - low
        counts += np.bincount(shifted, minlength=len(counts))
    present = np.flatnonzero(counts)
    number = np.cumsum(counts > 0) - 1
    codes = dict(zip((present + low).tolist(), counts[present].tolist(), strict=True))
    return codes, lambda rows: number[column[rows].astype(np.int64) - low]


def _lookup(values: dict[int, int]) -> npt.NDArray[np.int64]:
    """Return the dict's values by value number (see `_numbered`)."""
    return np.array([values[key] for key in sorted(values)] or [0], np.int64)


def _categories(
    by: ColorBy,
    trace: Trace,
    number: _Part,
    order: Sequence[int],
    entries: Sequence[tuple[str, str]],
) -> Categories:
    """Return the colouring whose entry i stands for value ``order[i]``."""
    place = _lookup({code: i for i, code in enumerate(order)})
    dtype = np.uint8 if len(order) <= 256 else np.uint16
    index = _mapped(len(trace.spans), lambda rows: place[number(rows)], dtype)
    return _published(by, index, entries)


def _present(
    by: ColorBy, index: Array, entries: Sequence[tuple[str, str]]
) -> Categories:
    """Return the colouring with only the entries that occur, in their order."""
    counts = np.zeros(len(entries), np.int64)
    for rows in chunks(len(index)):
        counts += np.bincount(index[rows], minlength=len(entries))
    kept = np.flatnonzero(counts)
    place = np.cumsum(counts > 0) - 1
    dtype = np.uint8 if len(kept) <= 256 else np.uint16
    narrow = _mapped(len(index), lambda rows: place[index[rows]], dtype)
    return _published(by, narrow, [entries[i] for i in kept.tolist()])


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
    found = [np.unique(color[rows]) for rows in chunks(len(color))]
    distinct = np.unique(np.concatenate([np.zeros(0, np.uint32), *found]))
    return np.setdiff1d(distinct, np.zeros(1, np.uint32))


_MAKERS: dict[ColorBy, Callable[[Trace], Categories]] = {
    "family": _by_family,
    "op": _by_op,
    "layer": _by_layer,
    "token": _by_token,
    "thread": _by_thread,
    "phase": _by_phase,
    "source": _by_source,
    "quality": _by_quality,
}
