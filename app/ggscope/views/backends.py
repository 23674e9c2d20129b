"""Backends: which backend runs which op, what splits copy, what fell to the CPU."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ggscope.analysis.backends.graph_nodes import NodeJoin, joined_nodes
from ggscope.analysis.backends.op_groups import OpGroup, op_groups
from ggscope.analysis.backends.op_spans import SpanJoin, joined_spans
from ggscope.analysis.backends.splits import (
    CpuGroup,
    Reason,
    SplitGroup,
    cpu_groups,
    split_groups,
)
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.backends import (
    CPU_COLUMNS,
    CPU_TIPS,
    OP_COLUMNS,
    OP_TIPS,
    SPLIT_COLUMNS,
    SPLIT_TIPS,
    cpu_cells,
    join_text,
    listing_text,
    op_cells,
    spans_text,
    split_cells,
)
from ggscope.model.backend_ops import BackendOps
from ggscope.model.names import normalise
from ggscope.model.selection import Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.views.base.table_pane import MAX_ROWS, TableContents, TablePane
from ggscope.views.base.text_table import Cell, Heading

OPS, SPLITS, ON_CPU = "ops", "splits", "cpu"
_MAX_SELECTED = 1000
_WIDTHS = {
    "backend": 110, "after": 110, "op": 120, "shape": 230, "type": 110, "copied": 150,
    "weights": 84, "largest": 170, "why": 240, "begins with": 104, "tensor": 130,
    "tensors": 210, "result": 150, "total": 92, "begin splits": 92,
}  # fmt: skip
_WORDS = {
    "backend", "after", "op", "shape", "type", "largest", "why", "begins with",
    "tensor", "tensors",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Things:
    """What a row stands for: spans and nodes of its ops, tensors that are copied."""

    spans: tuple[int, ...]
    nodes: tuple[int, ...]
    tensors: tuple[int, ...]
    about: str
    """Which spans these are."""

    def selection(self) -> Selection | None:
        """Return what of it there is, spans before nodes before tensors."""
        if self.spans:
            return Selection("spans", self.spans)
        if self.nodes:
            return Selection("nodes", self.nodes)
        return Selection("tensors", self.tensors) if self.tensors else None


class BackendsView(TablePane):
    """Three tables of what ggml lists; a row selects its spans, nodes or tensors."""

    name = "Backends"
    nothing = "No list of ops by backend in this file."
    parts = (
        ("Ops by backend and shape", OPS),
        ("Splits and copies", SPLITS),
        ("On the CPU beside others", ON_CPU),
    )

    def contents(self, trace: Trace, watcher: Watcher) -> TableContents | None:
        """Return the rows of the table that is chosen."""
        listing = trace.backend_ops
        if listing is None:
            return None
        watcher.progress(0, 1)
        nodes = joined_nodes(trace, listing)
        about = listing_text(listing)
        spans = joined_spans(trace, listing, watcher)
        if trace.graphs:
            about += f"; {format_count(nodes.n_found)} of them are nodes of the graph"
        if len(trace.spans) and (text := join_text(spans)):
            about += f"; {text}"
        join = _Join(listing, nodes, spans)
        if self.part == SPLITS:
            return _table(
                SPLIT_COLUMNS,
                SPLIT_TIPS,
                [
                    (_split_row(group), join.of_split(trace, group))
                    for group in split_groups(listing)
                ],
                about,
                "This file lists no splits.",
            )
        if self.part == ON_CPU:
            return _table(
                CPU_COLUMNS,
                CPU_TIPS,
                [
                    (_cpu_row(group), join.of_ops(group.rows))
                    for group in cpu_groups(listing)
                ],
                about,
                "No op ran on the CPU beside another backend."
                if listing.has_splits
                else "This file does not say which ops ran on the CPU.",
            )
        return _table(
            OP_COLUMNS,
            OP_TIPS,
            [(_op_row(group), join.of_ops(group.rows)) for group in op_groups(listing)],
            about,
        )

    def choose(self, payload: object) -> None:
        """Select the spans or nodes of a row's ops, or the tensors it copies."""
        if isinstance(payload, _Things) and (chosen := payload.selection()):
            self.session.selection.select(chosen)

    def open(self, payload: object) -> None:
        """Fit the timeline to the spans of a row."""
        self.choose(payload)
        if isinstance(payload, _Things) and payload.spans:
            self.session.navigator.fit_selection()


def _table(
    columns: Sequence[str],
    tips: dict[str, str],
    rows: Sequence[tuple[list[Cell], _Things]],
    about: str,
    nothing: str = "",
) -> TableContents:
    """Return rows without the columns of which the file states nothing."""
    filled = [k for k in range(len(columns)) if any(cells[k].text for cells, _ in rows)]
    headings = tuple(
        Heading(
            columns[k],
            tips.get(columns[k], ""),
            width=_WIDTHS.get(columns[k], 72),
            right=columns[k] not in _WORDS,
            is_text=columns[k] in _WORDS,
            largest_first=columns[k] not in _WORDS,
        )
        for k in filled
    )
    shown = rows[:MAX_ROWS]
    if len(shown) < len(rows):
        about += f"; the first {format_count(len(shown))} rows are listed"
    return TableContents(
        headings,
        tuple(_with_tip([cells[k] for k in filled], things) for cells, things in shown),
        [things for _, things in shown],
        len(rows),
        about,
        nothing,
    )


def _cells(
    columns: Sequence[str], texts: list[str], numbers: dict[str, float | None]
) -> list[Cell]:
    cells = []
    for column, text in zip(columns, texts, strict=True):
        if column in _WORDS:
            cells.append(Cell(text, sort=text or None))
            continue
        number = numbers[column]
        cells.append(Cell(text, sort=number, raw=number))
    return cells


def _op_row(group: OpGroup) -> list[Cell]:
    cells = _cells(
        OP_COLUMNS,
        op_cells(group),
        {
            "count": group.count,
            "graphs": group.n_graphs,
            "total": group.time,
            "share": group.share,
            "mean": group.mean,
            "result": group.min_bytes,
            "GFLOP/s": None if group.rate is None else group.rate / 1e9,
        },
    )
    at = OP_COLUMNS.index("total")
    if group.share is not None:
        total = cells[at]
        cells[at] = Cell(total.text, total.sort, total.raw, bar=group.share)
    return cells


def _split_row(group: SplitGroup) -> list[Cell]:
    return _warned(
        _cells(
            SPLIT_COLUMNS,
            split_cells(group),
            {
                "split": group.number,
                "copied": group.min_bytes,
                "weights": group.weights,
                "inputs": group.n_inputs,
                "ops": group.n_nodes,
                "times": group.count,
            },
        ),
        SPLIT_COLUMNS.index("why"),
        group.reason,
    )


def _cpu_row(group: CpuGroup) -> list[Cell]:
    return _warned(
        _cells(
            CPU_COLUMNS,
            cpu_cells(group),
            {
                "count": group.count,
                "graphs": group.n_graphs,
                "begin splits": group.begins,
                "result": group.min_bytes,
            },
        ),
        CPU_COLUMNS.index("why"),
        group.reason,
    )


def _warned(cells: list[Cell], at: int, reason: Reason) -> list[Cell]:
    """Mark a reason that nothing in the file calls for."""
    if reason is Reason.MOVED:
        cells[at] = Cell(cells[at].text, cells[at].sort, caution=True)
    return cells


def _with_tip(cells: list[Cell], things: _Things) -> tuple[Cell, ...]:
    """Return the cells of a row, the first one with a tip on what it selects."""
    if not cells or not things.about:
        return tuple(cells)
    first = replace(cells[0], tip=f"{cells[0].tip or cells[0].text}\n{things.about}")
    return (first, *cells[1:])


@dataclass(frozen=True, slots=True, eq=False)
class _Join:
    """Nodes and spans of listed ops."""

    listing: BackendOps
    nodes: NodeJoin
    spans: SpanJoin

    def of_ops(self, rows: I64) -> _Things:
        """Return what some listed ops stand for."""
        spans = tuple(self.spans.spans_of(rows, _MAX_SELECTED).tolist())
        about = spans_text(self.spans, rows, len(spans)) if len(self.spans.ids) else ""
        return _Things(spans, _ids(self.nodes.node[rows]), (), about)

    def of_split(self, trace: Trace, group: SplitGroup) -> _Things:
        """Return what the ops of a split stand for, and the tensors it copies."""
        listing = self.listing
        ops = np.flatnonzero(np.isin(listing.ops.split, group.rows[:1]))
        of_ops = self.of_ops(ops.astype(np.int64))
        copied = listing.inputs.name[listing.inputs.split == group.rows[0]]
        names = {normalise(listing.text(int(name))) for name in copied.tolist()}
        tensors = [
            row
            for row, name in enumerate(trace.tensors.name.tolist())
            if trace.strings[name] in names
        ]
        return replace(of_ops, tensors=tuple(tensors[:_MAX_SELECTED]))


def _ids(values: I64) -> tuple[int, ...]:
    """Return the known ids of some, each once."""
    return tuple(np.unique(values[values >= 0])[:_MAX_SELECTED].tolist())
