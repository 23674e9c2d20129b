"""Write resources/docs/trace-model.md from the schema of the columns."""

import inspect
import sys
from enum import IntEnum, IntFlag
from pathlib import Path

from ggscope.atomic_write import write_file
from ggscope.model.batches import BatchTokens, TokenSequences
from ggscope.model.graph import Graph
from ggscope.model.routing import Routing
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    Column,
    CounterSeries,
    FlatAccesses,
    Flows,
    Markers,
    Spans,
    schema_of,
)
from ggscope.model.tensors import Buffers, Tensors
from ggscope.model.trace import MODEL_VERSION, RawFileValues
from ggscope.sanitize import markdown_row

DOCUMENT = Path(__file__).resolve().parent.parent / "resources/docs/trace-model.md"
TABLES = {
    "spans": Spans,
    "markers": Markers,
    "accesses": Accesses,
    "accesses.patterns": AccessColumns,
    "accesses.loose": FlatAccesses,
    "counters": CounterSeries,
    "flows": Flows,
    "tensors": Tensors,
    "buffers": Buffers,
    "routing": Routing,
    "batch_tokens": BatchTokens,
    "token_sequences": TokenSequences,
    "graphs": Graph,
    "claims": RawFileValues,
}
INTRODUCTION = f"""# The trace model

<!-- Made by packaging/make_trace_model.py from the schema; change that, not this. -->

Every reader fills the same tables, version {MODEL_VERSION}. A table is a few equally
long columns (numpy arrays, read-only); the number of a row is its id, for ever. The
dtype is the widest one: a reader may store narrower signed integers where they fit,
unless the dtype is marked *exact*. A column marked *may be missing* is `None` where a
format cannot fill it, and never zeros; *none* is what a single row holds then. `ticks`
are nanoseconds or cycles, as `Trace.clock` says, from the start of the trace.
`Trace.check()` holds all of this against a trace; `ggscope check` prints what it finds.

Lanes (`Trace.lanes`) and texts (`Trace.strings`) are lists: columns hold the numbers of
their entries.
"""


def document() -> str:
    """Return the text of the document."""
    return "\n".join([INTRODUCTION, *map(_section, TABLES, TABLES.values()), *_codes()])


def _section(name: str, table: type) -> str:
    description = inspect.getdoc(table) or ""
    head = description.split("\n\nAttributes\n")[0].split("\n\nNotes\n")[0]
    hints = inspect.get_annotations(table)
    rows = [
        markdown_row(["column", "dtype", "none", "numbers are", "meaning"]),
        "| --- | --- | --- | --- | --- |",
    ]
    for key, column in schema_of(table).items():
        may_miss = type(None) in getattr(hints[key].__origin__, "__args__", ())
        doc = f"{column.doc}; *may be missing*" if may_miss else column.doc
        none = "" if column.null is None else _none(column.null)
        cells = [f"`{key}`", _dtype(column), none, _numbers(column), doc]
        rows.append("| " + " | ".join(cells) + " |")
    return f"## `{name}`\n\n{head.replace('``', '`')}\n\n" + "\n".join(rows) + "\n"


def _none(null: float) -> str:
    return f"{null:d}" if isinstance(null, int) else f"{null:g}"


def _dtype(column: Column) -> str:
    width = f"[{column.width}]" if column.width > 1 else ""
    per = f", per {column.per}" if column.per else ""
    return column.dtype + width + (" *exact*" if column.is_exact else "") + per


def _numbers(column: Column) -> str:
    if column.code is not None:
        return f"`{column.code.__name__}`"
    if column.of:
        return {"records": "records of the file"}.get(column.of, f"{column.of} (ids)")
    return column.unit


def _codes() -> list[str]:
    """Return the sections of the enumerations that columns are of."""
    codes = {c.code for t in TABLES.values() for c in schema_of(t).values() if c.code}
    ordered = sorted(codes, key=lambda code: code.__name__)
    return ["## Codes\n", *(_code(code) for code in ordered)]


def _code(code: type[IntEnum] | type[IntFlag]) -> str:
    values = ", ".join(f"{member.value} {member.name}" for member in code)
    return f"`{code.__name__}`: {inspect.getdoc(code)} {values}.\n"


def main() -> int:
    """Update the file; with ``--check`` only report whether it is up to date."""
    if "--check" in sys.argv:
        return int(DOCUMENT.read_text("utf-8") != document())
    write_file(DOCUMENT, document().encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
