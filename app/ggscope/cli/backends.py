"""``ggscope backends``: which backend runs which op, and what splits copy."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from ggscope.analysis.backends.graph_nodes import joined_nodes
from ggscope.analysis.backends.op_groups import op_groups
from ggscope.analysis.backends.op_spans import joined_spans
from ggscope.analysis.backends.splits import cpu_groups, split_groups
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, load, print_heading
from ggscope.descriptions.backends import (
    CPU_COLUMNS,
    OP_COLUMNS,
    SPLIT_COLUMNS,
    cpu_cells,
    join_text,
    listing_text,
    op_cells,
    split_cells,
)
from ggscope.errors import QueryError
from ggscope.exporters.backends_json import backends_json
from ggscope.model.backend_ops import BackendOps
from ggscope.model.trace import Trace
from ggscope.model.units import format_count

_MAX_SHOWN = 40
_LEFT_OPS = (0, 1, 2, 3)
_LEFT_SPLITS = (1, 2, 6, 7, 8, 9)
_LEFT_CPU = (0, 1, 6)


def run(arguments: Namespace) -> int:
    """Print ops, splits and what ran on the CPU of each file; return the exit code."""

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        listing = trace.backend_ops
        if listing is None:
            raise QueryError(
                f"{path.name} lists no ops by backend: it holds {trace.info.format}."
            )
        if arguments.json:
            return GOOD, {"path": str(path), **backends_json(trace, listing)}
        _print(path, trace, listing, arguments)
        return GOOD, None

    return answer_each(arguments, work)


def _print(path: Path, trace: Trace, listing: BackendOps, arguments: Namespace) -> None:
    print_heading(path, arguments)
    output.emit(listing_text(listing))
    tables = arguments.by or ("ops", "splits", "cpu")
    limit = arguments.limit or _MAX_SHOWN
    if "ops" in tables:
        rows = [op_cells(group) for group in op_groups(listing)]
        _table("Ops by backend", OP_COLUMNS, rows, _LEFT_OPS, limit)
    if "splits" in tables and len(listing.splits):
        rows = [split_cells(group) for group in split_groups(listing)]
        _table("Splits", SPLIT_COLUMNS, rows, _LEFT_SPLITS, limit)
    if "cpu" in tables and listing.has_splits:
        rows = [cpu_cells(group) for group in cpu_groups(listing)]
        if rows:
            _table("On the CPU", CPU_COLUMNS, rows, _LEFT_CPU, limit)
        else:
            output.emit("\nNo op ran on the CPU beside another backend.")
    if trace.graphs:
        nodes = joined_nodes(trace, listing)
        output.emit(
            f"\n{format_count(nodes.n_found)} of {format_count(len(listing.ops))} "
            "listed ops are nodes of the graphs."
        )
    if len(trace.spans) and (text := join_text(joined_spans(trace, listing))):
        output.emit(f"\nOf the listed ops {text}.")


def _table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: tuple[int, ...],
    limit: int,
) -> None:
    # Columns of which the file states nothing are left out.
    filled = [i for i in range(len(head)) if any(row[i] for row in rows)]
    output.emit(f"\n{title}")
    output.emit(
        output.table(
            [head[i] for i in filled],
            [[row[i] for i in filled] for row in rows[:limit]],
            left=tuple(place for place, i in enumerate(filled) if i in left),
        )
    )
    output.emit_more(len(rows) - limit)
