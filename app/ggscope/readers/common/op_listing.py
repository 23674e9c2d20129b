"""The list of ops by backend that lines of ggml make up."""

import re
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ggscope.model.backend_ops import (
    BackendOps,
    ListedOps,
    OpSources,
    SplitInputs,
    Splits,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.ops import all_op_names
from ggscope.model.tables import I64, U8
from ggscope.model.trace import Severity
from ggscope.readers.api import NOT_MINE, Estimate, Head, Sniff
from ggscope.readers.common.op_lines import Kind, OpLines, scan_op_text

_CUT_OP, _CUT_NAME = 10, 20
"""Characters that the scheduler leaves of names of ops and tensors."""
_CUT_BACKENDS = (4, 5)
VULKAN = "Vulkan"
"""The logger of Vulkan names no device."""
_OP_WORD = re.compile(r"(?<![\w*=])[A-Z][A-Z0-9_]+(?![\w=*])")
_TYPE_WORD = re.compile(r"(?<![\w=])(?:i?q\d\w*|[bf]f?\d+|i\d+|mxfp4|nvfp4|tq\d\w*)\b")
_LISTED = (Kind.NODE, Kind.TIMED_OP, Kind.PROFILED_OP)


def listing_of(lines: OpLines) -> BackendOps | None:
    """Return the ops, splits and sources that lines list; None where they list none."""
    rows = lines.rows(*_LISTED)
    split_rows = lines.rows(Kind.SPLIT)
    if not len(rows) and not len(split_rows):
        return None
    return _Listing(lines, rows, split_rows).listing()


class _Listing:
    """Puts the tables of a listing together."""

    def __init__(self, lines: OpLines, rows: I64, split_rows: I64) -> None:
        self._lines, self._rows, self._split_rows = lines, rows, split_rows
        self._numbers = {text: i for i, text in enumerate(lines.texts)}
        self._graph, self._n_graphs = _graphs(lines)

    def listing(self) -> BackendOps:
        """Return all tables."""
        lines, rows = self._lines, self._rows
        kind = lines.kind[rows]
        is_node = kind == Kind.NODE
        splits = self._splits()
        of_split = self._split_of(rows)
        of_split[~is_node] = -1
        ops = self._ops(kind, of_split)
        sources = self._sources(of_split)
        inputs = self._inputs()
        return BackendOps(
            texts=tuple(self._numbers),
            ops=ops,
            sources=sources,
            splits=splits,
            inputs=inputs,
            n_graphs=self._n_graphs,
            cut_names=_CUT_NAME if is_node.any() else 0,
        )

    def _number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers)) if text else -1

    def _mapped(self, numbers: I64, table: dict[int, int]) -> I64:
        """Return numbers of texts, some of them replaced."""
        moved = np.append(np.arange(len(self._lines.texts)), -1)
        for old, new in table.items():
            moved[old] = new
        mapped: I64 = moved[numbers]
        return mapped

    def _splits(self) -> Splits:
        lines, rows = self._lines, self._split_rows
        return Splits(
            line=lines.line[rows],
            graph=self._graph[rows].astype(np.int32),
            number=np.minimum(lines.value[rows, 0], (1 << 62) - 1),
            backend=lines.text[rows, 0],
            n_inputs=np.minimum(lines.value[rows, 1], (1 << 62) - 1),
        )

    def _split_of(self, rows: I64) -> I64:
        """Return the split that rows stand below, -1 for none of the same graph."""
        at = np.searchsorted(self._split_rows, rows, side="right") - 1
        if not len(self._split_rows):
            return np.full(len(rows), -1, np.int64)
        graph = self._graph[self._split_rows[np.maximum(at, 0)]]
        return np.where((at >= 0) & (graph == self._graph[rows]), at, -1)

    def _ops(self, kind: U8, of_split: I64) -> ListedOps:
        lines, rows = self._lines, self._rows
        text, value = lines.text[rows].astype(np.int64), lines.value[rows]
        n = len(rows)
        none = np.full(n, -1, np.int64)
        is_node, is_timed = kind == Kind.NODE, kind == Kind.TIMED_OP
        is_profiled = kind == Kind.PROFILED_OP
        op, shape, dtype = text[:, 0].copy(), none.copy(), none.copy()
        op[is_node] = self._whole_ops(op[is_node])
        backend = np.where(is_timed, none, text[:, 2])
        backend[is_node] = self._whole_backends(backend[is_node], of_split[is_node])
        if is_timed.any():
            op[is_timed], shape[is_timed], dtype[is_timed] = self._vulkan_parts(
                op[is_timed]
            )
            backend[is_timed] = self._number(VULKAN)
        shape[is_profiled], dtype[is_profiled] = text[is_profiled, 3:5].T
        name = np.where(is_node | is_profiled, text[:, 1], none)
        name[is_profiled] = self._results(name[is_profiled])
        total = np.where(value[:, 2] >= 0, value[:, 2], _product(value))
        micros = np.minimum(value[:, 0], (1 << 50) - 1) * 1000
        time = np.where(is_timed, total, np.where(is_profiled, micros, -1))
        return ListedOps(
            line=lines.line[rows],
            graph=self._graph[rows].astype(np.int32),
            split=of_split.astype(np.int32),
            node=np.where(is_node, np.minimum(value[:, 0], (1 << 62) - 1), -1),
            op=op.astype(np.int32),
            name=name.astype(np.int32),
            backend=backend.astype(np.int32),
            shape=shape.astype(np.int32),
            dtype=dtype.astype(np.int32),
            cause=np.where(is_node, text[:, 3], none).astype(np.int32),
            count=np.where(is_timed, np.minimum(value[:, 0], (1 << 62) - 1), 1),
            time=np.minimum(time, (1 << 62) - 1),
            size=np.where(is_node, value[:, 1], none),
            step=np.where(is_node, value[:, 2], none),
            rate=np.where(is_timed, value[:, 3], none),
            is_computed=np.where(is_node, value[:, 3], none).astype(np.int8),
            span=none,
        )

    def _sources(self, of_split: I64) -> OpSources:
        lines = self._lines
        rows = lines.rows(Kind.SOURCE)
        op = np.searchsorted(self._rows, rows, side="right") - 1
        is_owned = op >= 0
        rows, op = rows[is_owned], op[is_owned]
        backend = lines.text[rows, 2].astype(np.int64)
        return OpSources(
            op=op.astype(np.int32),
            name=lines.text[rows, 1],
            backend=self._whole_backends(
                backend, np.full(len(rows), -1, np.int64)
            ).astype(np.int32),
            size=lines.value[rows, 1],
            step=lines.value[rows, 2],
        )

    def _inputs(self) -> SplitInputs:
        lines = self._lines
        rows = lines.rows(Kind.INPUT)
        split = np.searchsorted(self._split_rows, rows, side="right") - 1
        rows, split = rows[split >= 0], split[split >= 0]
        return SplitInputs(
            split=split.astype(np.int32),
            name=lines.text[rows, 0],
            size=lines.value[rows, 1],
            step=lines.value[rows, 2],
        )

    # -- names ---------------------------------------------------------------

    def _whole_ops(self, op: I64) -> I64:
        """Return ops of which those that are cut have their whole name."""
        table = {}
        for number in np.unique(op[op >= 0]).tolist():
            whole = whole_op(self._lines.texts[number])
            table[number] = self._number(whole)
        return self._mapped(op, table)

    def _whole_backends(self, backend: I64, of_split: I64) -> I64:
        """Return backends of which those that are cut have their whole name.

        That of the split where it begins with what is left, else of the one backend
        of the file that does.
        """
        texts = self._lines.texts
        named = np.unique(self._lines.text[self._split_rows, 0])
        whole = [texts[number] for number in named.tolist() if number >= 0]
        table = {}
        for number in np.unique(backend[backend >= 0]).tolist():
            text = texts[number]
            matches = [one for one in whole if _is_cut(text, one)]
            if text not in whole and len(matches) == 1:
                table[number] = self._number(matches[0])
        numbers = self._mapped(backend, table)
        rows = np.flatnonzero((of_split >= 0) & (backend >= 0))
        own = self._lines.text[self._split_rows[of_split[rows]], 0].astype(np.int64)
        pairs = np.stack([backend[rows], own], axis=1)
        for pair in np.unique(pairs, axis=0).tolist() if len(rows) else ():
            cut, name = pair
            if name >= 0 and (cut == name or _is_cut(texts[cut], texts[name])):
                numbers[rows[(pairs == pair).all(axis=1)]] = name
        return numbers

    def _vulkan_parts(self, names: I64) -> tuple[I64, I64, I64]:
        """Return op, shape and type of names of Vulkan's logger."""
        different, place = np.unique(names, return_inverse=True)
        parts = []
        for number in different.tolist():
            op_text = vulkan_parts(self._lines.texts[number] if number >= 0 else "")
            parts.append([self._number(word) for word in op_text])
        columns = np.array(parts, np.int64).reshape(-1, 3)[place.reshape(-1)]
        return columns[:, 0], columns[:, 1], columns[:, 2]

    def _results(self, names: I64) -> I64:
        """Return the tensors behind the arrows of ``a x b -> c``."""
        table = {}
        for number in np.unique(names[names >= 0]).tolist():
            text = self._lines.texts[number]
            table[number] = self._number(text.rpartition(" -> ")[2].strip())
        return self._mapped(names, table)


def _graphs(lines: OpLines) -> tuple[I64, int]:
    """Return the graph of each row, and how many there are.

    A graph begins with its split 0, or where numbers of nodes do not ascend without a
    split between them; a list of Vulkan with its head. What a file that begins in the
    middle has before is a graph of its own. All ops of Hexagon's profile are one.
    """
    n = len(lines)
    begins = np.zeros(n, np.bool_)
    begins[lines.kind == Kind.TIMINGS] = True
    splits = lines.rows(Kind.SPLIT)
    begins[splits[lines.value[splits, 0] == 0]] = True
    ordered = lines.rows(Kind.SPLIT, Kind.NODE)
    is_node = lines.kind[ordered] == Kind.NODE
    number = lines.value[ordered, 0]
    if len(ordered) > 1:
        again = is_node[1:] & is_node[:-1] & (number[1:] <= number[:-1])
        back = ~is_node[1:] & ~is_node[:-1] & (number[1:] <= number[:-1])
        begins[ordered[1:][again | back]] = True
    listed = lines.rows(Kind.SPLIT, *_LISTED)
    if not len(listed):
        return np.zeros(n, np.int64), 0
    begins[: listed[0] + 1] = False
    begins[listed[0]] = True
    graph = np.maximum(np.cumsum(begins) - 1, 0)
    used = np.unique(graph[listed])
    moved = np.searchsorted(used, graph)
    return np.minimum(moved, len(used) - 1).astype(np.int64), len(used)


def _product(value: I64) -> I64:
    """Return times × mean of rows, -1 where that is not stated."""
    count, mean = value[:, 0], value[:, 1]
    exact = count.astype(np.float64) * mean
    fits = (count >= 0) & (mean >= 0) & (exact < 1 << 61)
    return np.where(fits, np.where(fits, count, 0) * np.where(fits, mean, 0), -1)


def _is_cut(text: str, whole: str) -> bool:
    return len(text) in _CUT_BACKENDS and whole.startswith(text)


@lru_cache(maxsize=4096)
def whole_op(text: str) -> str:
    """Return the one op of ggml that begins with a name of 10 letters; else the name.

    A name that several begin with ends in "…": it is not known which.
    """
    if len(text) != _CUT_OP:
        return text
    matches = [name for name in all_op_names() if name.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    return f"{text}…" if matches else text


@lru_cache(maxsize=4096)
def vulkan_parts(name: str) -> tuple[str, str, str]:
    """Return op, shape and type of a name such as ``MUL_MAT_VEC q4_K m=2048 n=1``.

    Fused ops and groups of concurrent ones are named one after the other; what is in
    the name beside ops and types is its shape.
    """
    ops = _OP_WORD.findall(name)
    rest = _OP_WORD.sub("", name)
    types = _TYPE_WORD.findall(rest)
    shape = " ".join(_TYPE_WORD.sub("", rest).replace(" ,", ",").split())
    if not ops:
        return name, "", ""
    return ", ".join(ops), shape.strip(" ,"), " ".join(types)


def op_events(lines: OpLines) -> dict[str, int]:
    """Return how many things of each kind lines list; none of those that they lack."""

    def count(*kinds: Kind) -> int:
        return len(lines.rows(*kinds))

    events: dict[str, int] = {}
    if count(Kind.SPLIT, Kind.NODE):
        ordered = lines.rows(Kind.SPLIT, Kind.NODE)
        graph, _ = _graphs(lines)
        events["graphs"] = len(np.unique(graph[ordered]))
        events["splits"], events["nodes"] = count(Kind.SPLIT), count(Kind.NODE)
    if count(Kind.TIMINGS, Kind.TIMED_OP):
        timed = lines.rows(Kind.TIMED_OP)
        events["lists"], events["rows"] = count(Kind.TIMINGS), len(timed)
        events["runs"] = sum(lines.value[timed, 0].tolist())
    if count(Kind.PROFILED_OP, Kind.BATCH, Kind.EVENT):
        events["ops"], events["batches"] = count(Kind.PROFILED_OP), count(Kind.BATCH)
        events["trace_events"] = count(Kind.EVENT)
    return events


def sniff_ops(head: Head, kinds: tuple[Kind, ...], many: Sniff, one: int) -> Sniff:
    """Judge a file by its lines: `many` of some kinds, or one, with that confidence."""
    n = len(scan_op_text(head.data).rows(*kinds)) if head.data else 0
    if n == 1:
        return replace(many, confidence=one)
    return many if n else NOT_MINE


def ops_estimate(head: Head, row_bytes: int) -> Estimate | None:
    """Return what reading a list would cost, by its first lines."""
    if not head.data:
        return None
    rows = int((len(scan_op_text(head.data)) + 1) * head.size / len(head.data))
    return Estimate(rows, rows * row_bytes, 3 * rows * row_bytes)


def warn_of_others(builder: TraceBuilder, lines: OpLines) -> None:
    """Note lines without an op."""
    builder.warn(
        Severity.INFO,
        "other_lines",
        "lines are of another program or of no known form.",
        count=lines.n_other,
    )


def warn_of_lines(builder: TraceBuilder, lines: OpLines) -> None:
    """Say which lines could not be read, and what those that were leave open."""
    builder.warn(
        Severity.DATA_LOSS,
        "broken_op_lines",
        "lines begin like those of ggml and cannot be read; they were skipped.",
        count=lines.n_broken,
        place=f"line {lines.first_broken + 1:,}",
    )
    if len(lines.rows(Kind.NODE)):
        builder.warn(
            Severity.INFO,
            "cut_op_names",
            "the scheduler cuts names of tensors to 20 characters, of ops to 10 and "
            "sizes to whole KiB or MiB.",
            remedy="Open a graph or the model with it: whole names come from there.",
        )
    timed = lines.rows(Kind.TIMED_OP)
    if len(timed) and bool((lines.value[timed, 2] < 0).any()):
        builder.warn(
            Severity.NOTICE,
            "mean_times",
            "the logger lists means only, and calls microseconds ms (ggml of 2025): "
            "totals are times × mean.",
        )
