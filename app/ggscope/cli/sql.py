"""``ggscope sql``: ask the tables of a trace in SQL."""

from argparse import Namespace
from collections.abc import Iterator

from ggscope.analysis.sql.database import SqlDatabase, plain_value
from ggscope.cli import output
from ggscope.cli.info.facts import coverage_facts, warning_json
from ggscope.cli.output import GOOD
from ggscope.cli.reading import load
from ggscope.descriptions.sql import trace_limits
from ggscope.errors import QueryError
from ggscope.model.trace import Trace
from ggscope.model.units import NOT_AVAILABLE, format_count
from ggscope.sanitize import Value, csv_text, one_line

_SHOWN = 1000
"""Rows of a table in the terminal, unless --limit says otherwise."""


def run(arguments: Namespace) -> int:
    """Print the rows of a query, or the tables; return the exit code."""
    path = arguments.files[0]
    if arguments.query is None and not arguments.tables:
        raise QueryError(
            "write a query behind the file, such as "
            '"select op, count(*) from spans group by op". --tables lists the tables.'
        )
    trace = load(path, arguments)
    with SqlDatabase(trace) as database:
        if arguments.tables:
            _list_tables(database, arguments)
            return GOOD
        if arguments.csv:
            _print_csv(database, arguments)
            _say_limits(trace)
            return GOOD
        if arguments.json:
            _print_json(database, trace, arguments)
            _say_limits(trace)
            return GOOD
        limit = arguments.limit or _SHOWN
        result = database.query(arguments.query, limit)
    _say_limits(trace)
    is_number = [
        all(isinstance(row[i], int | float) or row[i] is None for row in result.rows)
        for i in range(len(result.columns))
    ]
    rows = [[_text(value) for value in row] for row in result.rows]
    left = tuple(i for i, number in enumerate(is_number) if not number)
    output.emit(output.table([one_line(c) for c in result.columns], rows, left=left))
    if not result.is_whole:
        output.emit(f"… more than {format_count(limit)} rows; --limit N prints more")
    return GOOD


def _say_limits(trace: Trace) -> None:
    for line in trace_limits(trace):
        output.say(line)


def _print_json(database: SqlDatabase, trace: Trace, arguments: Namespace) -> None:
    columns, types, blocks = database.stream(arguments.query)
    limit, n = arguments.limit, 0
    is_cut = False

    def rows() -> Iterator[object]:
        nonlocal n, is_cut
        for block in blocks:
            for row in block:
                if n == limit:
                    is_cut = True
                    return
                n += 1
                yield [plain_value(value) for value in row]

    output.emit_json_list(
        {
            "path": str(arguments.files[0]),
            "columns": list(columns),
            "types": list(types),
        },
        "rows",
        rows(),
        lambda: {
            "truncated": is_cut,
            "coverage": coverage_facts(trace),
            "warnings": [warning_json(warning) for warning in trace.warnings],
        },
    )


def _print_csv(database: SqlDatabase, arguments: Namespace) -> None:
    columns, _, blocks = database.stream(arguments.query)
    output.emit_csv(csv_text([columns]))
    left = arguments.limit
    for block in blocks:
        rows = block if left is None else block[:left]
        output.emit_csv(csv_text([list(map(_csv_value, row)) for row in rows]))
        if left is not None:
            left -= len(rows)
            if not left:
                return


def _csv_value(value: object) -> Value:
    plain = plain_value(value)
    is_plain = plain is None or isinstance(plain, int | float | str)
    return plain if is_plain else str(plain)


def _list_tables(database: SqlDatabase, arguments: Namespace) -> None:
    if arguments.json:
        output.emit_json(
            {
                table.name: {
                    "doc": table.doc,
                    "columns": {name: doc for name, _, doc in table.columns},
                }
                for table in database.tables
            }
        )
        return
    for table in database.tables:
        output.emit(f"{table.name}: {table.doc}")
        width = max((len(name) for name, _, _ in table.columns), default=0)
        for name, _, doc in table.columns:
            output.emit(f"  {name:<{width}}  {doc}")


def _text(value: object) -> str:
    if value is None:
        return NOT_AVAILABLE
    if isinstance(value, float):
        return f"{value:.6g}"
    return one_line(str(plain_value(value)))
