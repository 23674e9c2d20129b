"""Rows of the table of tensors: a tensor, or a group with its totals."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ggscope.analysis.model_importance import TensorImportance, tensor_importance
from ggscope.analysis.model_tensors import ModelTensors, model_tensors
from ggscope.analysis.model_tree import (
    TensorReads,
    TensorSums,
    TensorTree,
    element_counts,
    tensor_reads,
    tensor_tree,
)
from ggscope.descriptions.counting import moved_text
from ggscope.descriptions.selected import shape_text, tensor_name
from ggscope.descriptions.tensors import (
    access_text,
    bits_text,
    element_text,
    group_text,
    level_of,
    total_text,
)
from ggscope.model.ggml.types import type_name
from ggscope.model.names import COMPONENTS
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_offset,
    format_share,
)
from ggscope.render.reads import component_color
from ggscope.render.theme import Theme
from ggscope.session.tasks import TaskContext
from ggscope.views.base.text_table import Cell
from ggscope.views.base.tree_table import TreeRow

(
    NAME, PART, LAYER, TYPE, BITS, SHAPE, ELEMENTS, SIZE, OFFSET, SHARE,
    ACCESSES, BYTES, TIME, FILE, IMPORTANCE, TOKENS, UNUSED,
) = range(17)  # fmt: skip
_MAX_KINDS = 3
"""Types or parts named in the row of a group."""


@dataclass(frozen=True, slots=True, eq=False)
class ListedTensors:
    """Tensors of a trace, and what it does with them."""

    tensors: ModelTensors
    reads: TensorReads
    elements: np.ndarray
    importance: TensorImportance | None = None


def list_tensors(trace: Trace, context: TaskContext | None = None) -> ListedTensors:
    """Return the tensors of a trace. Raises Cancelled from the context."""
    if context is not None:
        context.check_cancelled()
    tensors = model_tensors(trace)
    elements = element_counts(trace, tensors.rows)
    reads = tensor_reads(trace, context)
    return ListedTensors(tensors, reads, elements, tensor_importance(trace))


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """A group as the payload of its row; `at` = its number in the tree."""

    at: int


def group_paths(tree: TensorTree) -> list[tuple[object, ...]]:
    """Return the keys by which groups stay open: each behind those of its parents."""
    paths: list[tuple[object, ...]] = []
    here: list[object] = [tree.by]
    for level, key in zip(tree.level.tolist(), tree.key, strict=True):
        del here[level + 1 :]
        here.append(key)
        paths.append(tuple(here))
    return paths


class RowMaker:
    """Makes rows of a tree, those of a group when it is opened."""

    def __init__(
        self,
        trace: Trace,
        listed: ListedTensors,
        tree: TensorTree,
        is_listed: np.ndarray,
        theme: Theme,
    ) -> None:
        self._trace, self._found, self._tree = trace, listed, tree
        self._is_listed, self._theme = is_listed, theme
        self._paths = group_paths(tree)
        whole = tensor_tree(trace, listed.tensors, "tensor", listed.reads).total
        self._total = int(whole.size[0])

    def top(self) -> list[TreeRow]:
        """Return the outermost rows."""
        if not len(self._tree):
            return self._leaves(0, len(self._tree.order))
        groups = np.flatnonzero(self._tree.level == 0)
        return [self._group(i) for i in groups.tolist()]

    def _inside(self, group: int) -> list[TreeRow]:
        tree = self._tree
        first, stop = int(tree.first[group]), int(tree.stop[group])
        is_next = tree.level == tree.level[group] + 1
        inner = np.flatnonzero(is_next & (tree.first >= first) & (tree.stop <= stop))
        if len(inner):
            return [self._group(i) for i in inner.tolist()]
        return self._leaves(first, stop)

    def _leaves(self, first: int, stop: int) -> list[TreeRow]:
        at = self._tree.order[first:stop]
        rows = self._found.tensors.rows
        return [
            TreeRow(
                tensor_cells(self._trace, self._found, i, self._total, self._theme),
                int(rows[i]),
            )
            for i in at[self._is_listed[at]].tolist()
        ]

    def _group(self, group: int) -> TreeRow:
        return TreeRow(
            self._group_cells(group),
            TensorGroup(group),
            self._paths[group],
            partial(self._inside, group),
        )

    def _group_cells(self, group: int) -> tuple[Cell, ...]:
        tree, tensors = self._tree, self._found.tensors
        at = tree.order[int(tree.first[group]) : int(tree.stop[group])]
        sums, kinds = tree.sums, self._trace.tensors.type
        level = level_of(tree.by, int(tree.level[group]))
        key = tree.key[group]
        title = group_text(tensors, level, key)
        parts = _parts(tensors, at)
        layers = np.unique(self._trace.tensors.layer[tensors.rows[at]])
        types = [] if kinds is None else _largest(kinds, tensors, at)
        offset = tensors.offset[at]
        is_one_file = len(np.unique(tensors.file[at])) == 1
        first = int(offset.min()) if is_one_file and len(at) else -1
        n = int(sums.n[group])
        color = component_color(parts[0], self._theme) if len(parts) == 1 else 0
        total = total_text(sums, group)
        is_layer = len(layers) == 1 and layers[0] >= 0
        return (
            Cell(
                title,
                sort=key if isinstance(key, int) and level != "type" else title,
                tip=f"{title}: {total}",
                color=color,
            ),
            Cell(_few(parts), sort=parts[0] if parts else None, tip=", ".join(parts)),
            _number(int(layers[0]) if is_layer else -1),
            Cell(_few(types) or NOT_AVAILABLE, sort=_few(types) or None,
                 tip=", ".join(types)),
            _bits(float(sums.bits[group])),
            Cell(format_counted(n, "tensor"), sort=n, raw=n),
            _elements(int(sums.elements[group]), int(sums.n_unshaped[group])),
            _size(int(sums.size[group]), int(sums.n_unsized[group])),
            _offset(first),
            _share(int(sums.size[group]), self._total),
            *_read_cells(sums, group, self._trace),
            Cell(_file(tensors, at)),
            Cell(""), Cell(""), Cell(""),
        )  # fmt: skip


def _few(names: list[str]) -> str:
    """Return the first words, and that there are more."""
    more = ", …" if len(names) > _MAX_KINDS else ""
    return ", ".join(names[:_MAX_KINDS]) + more


def _parts(tensors: ModelTensors, at: np.ndarray) -> list[str]:
    """Return the parts that tensors belong to, that of most bytes first."""
    size = np.maximum(tensors.size[at], 0).astype(np.float64)
    sizes = np.bincount(tensors.component[at], size, len(COMPONENTS))
    n = np.bincount(tensors.component[at], minlength=len(COMPONENTS))
    order = np.argsort(-sizes, kind="stable")
    return [COMPONENTS[i] for i in order.tolist() if n[i]]


def _largest(kinds: np.ndarray, tensors: ModelTensors, at: np.ndarray) -> list[str]:
    """Return the names of types of tensors, that of most bytes first."""
    used, which = np.unique(kinds[tensors.rows[at]], return_inverse=True)
    size = np.zeros(len(used), np.int64)
    np.add.at(size, which.reshape(-1), np.maximum(tensors.size[at], 0))
    order = np.argsort(-size, kind="stable")
    return [type_name(int(i)) or "unknown" for i in used[order].tolist()]


def _file(tensors: ModelTensors, at: np.ndarray) -> str:
    files: list[int] = np.unique(tensors.file[at]).tolist()
    if len(files) == 1 and 0 <= files[0] < len(tensors.files):
        return tensors.files[files[0]]
    return format_counted(len(files), "file") if len(files) > 1 else ""


def _number(n: int) -> Cell:
    if n < 0:
        return Cell("–", raw="")
    return Cell(format_count(n), sort=n, raw=n)


def _bits(bits: float) -> Cell:
    is_known = bits == bits
    return Cell(
        bits_text(bits), sort=bits if is_known else None, raw=bits if is_known else ""
    )


def _elements(n: int, n_unknown: int = 0) -> Cell:
    if n < 0 or (n_unknown and not n):
        return Cell(NOT_AVAILABLE, raw="")
    more = f"; {format_counted(n_unknown, 'tensor')} of unknown shape"
    tip = f"{n:,}{more if n_unknown else ''}"
    return Cell(element_text(n), sort=n, raw=n, tip=tip)


def _size(n: int, n_unknown: int = 0) -> Cell:
    if n < 0 or (n_unknown and not n):
        return Cell(NOT_AVAILABLE, raw="")
    more = f"; {format_counted(n_unknown, 'tensor')} of unknown size"
    tip = f"{format_exact_bytes(n)}{more if n_unknown else ''}"
    return Cell(format_bytes(n), sort=n, raw=n, tip=tip)


def _offset(offset: int) -> Cell:
    if offset < 0:
        return Cell(NOT_AVAILABLE, raw="")
    tip = f"{format_offset(offset)} ({offset:,})"
    return Cell(format_offset(offset), sort=offset, raw=offset, tip=tip)


def _share(size: int, total: int) -> Cell:
    if size < 0 or not total:
        return Cell(NOT_AVAILABLE, raw="")
    share = size / total
    return Cell(format_share(share), sort=size, raw=share, bar=share)


def _read_cells(
    sums: TensorReads | TensorSums, at: int, trace: Trace
) -> tuple[Cell, Cell, Cell]:
    """Return accesses, their bytes and time of a tensor or group."""
    is_open = bool(sums.is_open[at])
    accesses = n_bytes = time = Cell(NOT_AVAILABLE, raw="")
    if sums.accesses is not None and sums.bytes is not None:
        n, size = int(sums.accesses[at]), int(sums.bytes[at])
        text, tip = access_text(n, is_open=is_open)
        raw = n if n or not is_open else ""
        accesses = Cell(text, sort=n, raw=raw, tip=tip)
        is_known = bool(size) or not (n or is_open)
        n_unsized = 0 if sums.unsized is None else int(sums.unsized[at])
        text = moved_text(size, n_unsized) if is_known else NOT_AVAILABLE if n else text
        exact = format_exact_bytes(size) if is_known else ""
        remark = "; ".join(part for part in (exact, tip) if part)
        n_bytes = Cell(text, sort=size, raw=size if is_known else "", tip=remark)
    if sums.ticks is not None and int(sums.ticks[at]) >= 0:
        ticks, unit = int(sums.ticks[at]), trace.clock.unit
        time = Cell(
            format_duration(ticks, unit),
            sort=ticks,
            raw=ticks,
            tip=format_exact(ticks, unit),
        )
    return accesses, n_bytes, time


def tensor_cells(
    trace: Trace, listed: ListedTensors, at: int, total: int, theme: Theme
) -> tuple[Cell, ...]:
    """Return the row of a tensor."""
    listing = listed.tensors
    row, tensors = int(listing.rows[at]), trace.tensors
    name, part = tensor_name(trace, row), COMPONENTS[int(listing.component[at])]
    layer, size = int(tensors.layer[row]), int(listing.size[at])
    kind = "" if tensors.type is None else type_name(int(tensors.type[row]))
    shape = shape_text(None if tensors.shape is None else tensors.shape[row])
    file, n = int(listing.file[at]), int(listed.elements[at])
    return (
        Cell(name, sort=name, color=component_color(part, theme), tip=name),
        Cell(part, sort=part),
        _number(layer),
        Cell(kind or NOT_AVAILABLE, sort=kind or None),
        _bits(size * 8 / n if n > 0 and size >= 0 else float("nan")),
        Cell(shape or NOT_AVAILABLE, sort=n if n >= 0 else None, raw=shape),
        _elements(n),
        _size(size),
        _offset(int(listing.offset[at])),
        _share(size, total),
        *_read_cells(listed.reads, row, trace),
        Cell(listing.files[file] if 0 <= file < len(listing.files) else ""),
        *_importance_cells(listed.importance, row),
    )


def _importance_cells(
    importance: TensorImportance | None, row: int
) -> tuple[Cell, Cell, Cell]:
    """Return mean square, tokens and unused experts of a tensor."""
    none = Cell(NOT_AVAILABLE, raw="")
    if importance is None:
        return none, none, none
    square, count = float(importance.mean_square[row]), float(importance.count[row])
    unused = int(importance.n_unused[row])
    return (
        none if np.isnan(square) else Cell(f"{square:.4g}", square, square),
        none if np.isnan(count) else Cell(format_count(round(count)), count, count),
        none if unused < 0 else Cell(format_count(unused), unused, unused),
    )
