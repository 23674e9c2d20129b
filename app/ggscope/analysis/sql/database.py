"""A trace as a database that can be asked and not changed.

DuckDB runs in this process, reads the columns where they are and may neither open files
nor load extensions: after the tables are there, access to the outside is off and
settings are locked. Only queries are taken.
"""

import math
import re
import threading
import time as time_of_day
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from ggscope.analysis.sql.tables import LISTS, SqlTable, sql_schema
from ggscope.errors import Cancelled, QueryError
from ggscope.model.trace import Trace
from ggscope.model.units import format_bytes

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Statement

_MEMORY_SHARE = 0.5
"""Of the memory of the machine, for sorting and grouping."""
_FETCHED = 4096
_INTERRUPT_S = 0.02
_ASK_S, _STOP_S = 0.02, 0.3
"""How often a query's asker looks whether it was cancelled, and how long it waits for
the query to stop."""
_EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*+"
    r"(?P<explain>explain(?:\s+analyze\b|\s*\([\w\s,]*\)|\b))(?P<query>.*)",
    re.IGNORECASE | re.DOTALL,
)
"""What asks for the plan of a query, behind comments."""
HINT = "pip install 'ggscope[sql]', or: pip install duckdb"


@dataclass(frozen=True, slots=True)
class SqlResult:
    """Rows that a query returned.

    Attributes
    ----------
    columns, types : name and SQL type of each column.
    rows : values as Python has them.
    is_whole : whether there are no more rows than these.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_whole: bool


class SqlDatabase:
    """The tables of a trace, for queries.

    One query at a time; `interrupt` may be called from any thread.

    Raises
    ------
    QueryError
        If DuckDB is not installed.
    """

    def __init__(self, trace: Trace, threads: int | None = None) -> None:
        try:
            import duckdb
        except ImportError:
            raise QueryError(
                f"SQL needs DuckDB, which is not installed: {HINT}."
            ) from None
        self._errors: type[Exception] = duckdb.Error
        self._interrupted: type[Exception] = duckdb.InterruptException
        self._out_of_memory = duckdb.OutOfMemoryException, MemoryError
        schema = sql_schema(trace)
        self.tables: tuple[SqlTable, ...] = tuple(schema.tables)
        config: dict[str, Any] = {
            # Names in queries are tables, never variables of this program.
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            # What does not fit into memory would go into the folder of the user.
            "temp_directory": "",
        }
        if threads is not None:
            config["threads"] = threads
        self._base: DuckDBPyConnection = duckdb.connect(":memory:", config=config)
        self._lock = threading.Lock()
        self._is_busy = self._is_closed = False
        self._n_queries = 0
        self._types = duckdb.StatementType
        numbers = np.arange(len(schema.texts), dtype=np.int32)
        for table in self.tables:
            if table.arrays:
                self._base.register(table.below, dict(table.arrays))
            for column in table.text_columns.values():
                self._base.register(column, {"id": numbers, column: schema.texts})
        self._make_lists(schema.lists)
        self._unused: frozenset[str] = frozenset()
        for table in self.tables:
            self._base.execute(table.view())
        self._memory_limit = _memory_limit()
        self._base.execute(f"SET memory_limit = '{self._memory_limit >> 20}MiB'")
        self._base.execute("SET enable_external_access = false")
        self._base.execute("SET lock_configuration = true")

    def _make_lists(self, lists: Mapping[str, Sequence[str | None]]) -> None:
        chosen = []
        for name, texts in lists.items():
            column = np.empty(len(texts), object)
            column[:] = texts
            self._base.register(name, {"text": column, "place": np.arange(len(texts))})
            chosen.append(
                "(SELECT coalesce(list(text::VARCHAR ORDER BY place), []::VARCHAR[]) "
                f"FROM {name}) AS {name}"
            )
        self._base.execute(f'CREATE TABLE "{LISTS}" AS SELECT {", ".join(chosen)}')
        for name in lists:
            self._base.unregister(name)

    def __enter__(self) -> "SqlDatabase":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget all tables, after the query that runs; the trace's columns stay."""
        with self._lock:
            self._is_closed = True
            if not self._is_busy:
                self._base.close()

    @property
    def is_closed(self) -> bool:
        """Whether it answers no more queries."""
        return self._is_closed

    def interrupt(self) -> None:
        """Stop the query that runs, which raises Cancelled.

        Within a function of one value, such as a list of millions, it runs on.
        """
        # DuckDB ignores interrupts before it has begun: repeated until it ends.
        thread = threading.Thread(
            target=self._interrupt, args=(self._n_queries,), daemon=True
        )
        thread.start()

    def _interrupt(self, query: int) -> None:
        """Stop a query, by its number: the next one may have begun meanwhile."""
        while True:
            with self._lock:
                if not self._is_busy or self._n_queries != query:
                    return
                self._base.interrupt()
            time_of_day.sleep(_INTERRUPT_S)

    @contextmanager
    def _working(self) -> Iterator[None]:
        with self._lock:
            self._is_busy = True
            self._n_queries += 1
        try:
            yield
        finally:
            with self._lock:
                self._is_busy = False
                if self._is_closed:
                    self._base.close()

    def query(
        self,
        sql: str,
        limit: int | None = None,
        check_cancelled: Callable[[], object] = lambda: None,
    ) -> SqlResult:
        """Return the rows of a query, `limit` at most.

        `check_cancelled` raises Cancelled where it was cancelled before it began;
        afterwards `interrupt` stops it.

        Raises
        ------
        QueryError
            If it is no query, or DuckDB does not understand it.
        Cancelled
            If it was interrupted.
        """
        with self._working():
            check_cancelled()
            columns, types, blocks = self.stream(sql)
            rows: list[tuple[Any, ...]] = []
            for block in blocks:
                rows += block
                if limit is not None and len(rows) > limit:
                    return SqlResult(columns, types, rows[:limit], is_whole=False)
            return SqlResult(columns, types, rows, is_whole=True)

    def stream(
        self, sql: str
    ) -> tuple[tuple[str, ...], tuple[str, ...], Iterator[list[tuple[Any, ...]]]]:
        """Return columns, types and blocks of rows of a query; raises as `query`."""
        with self._own_errors():
            explain, query = self._query_alone(sql)
            self._join_texts(query.query)
            result = self._base.execute(explain + query.query)
        described = result.description or []
        columns = tuple(str(column[0]) for column in described)
        types = tuple(str(column[1]) for column in described)
        return columns, types, self._blocks(result)

    def _join_texts(self, sql: str) -> None:
        """Make the views join the texts that a query asks for, and no others.

        Joining a text neither adds nor drops a row: what the plan of a query never
        reads of it, its rows do not depend on.
        """
        texts = {text for table in self.tables for text in table.text_columns.values()}
        if not texts:
            return
        self._make_views(frozenset())
        try:
            plan = self._base.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall()
        except self._errors:
            return  # the query itself fails in the same way, and says why
        self._make_views(frozenset(text for text in texts if text not in str(plan)))

    def _make_views(self, unused: frozenset[str]) -> None:
        changed = self._unused ^ unused
        self._unused = unused
        for table in self.tables:
            of = table.text_columns
            if not changed.isdisjoint(of.values()):
                columns = {name for name, text in of.items() if text in unused}
                self._base.execute(table.view(columns))

    def _query_alone(self, sql: str) -> "tuple[str, Statement]":
        """Return the one SELECT in `sql`, and what asks for its plan or ""."""
        statement = self._statement(sql)
        kind = statement.type
        if kind == self._types.SELECT:
            return "", statement
        if kind == self._types.EXPLAIN:
            # EXPLAIN ANALYZE runs whatever stands behind it.
            explain = _EXPLAIN.fullmatch(statement.query)
            if explain is None:
                raise QueryError("write EXPLAIN or EXPLAIN ANALYZE before a query.")
            _, inner = self._query_alone(explain["query"])
            return explain["explain"] + " ", inner
        if kind == self._types.MULTI:
            raise QueryError(
                "PIVOT needs its values: PIVOT spans ON op IN ('A', 'B') USING count(*)"
            )
        word = kind.name.replace("_", " ")
        raise QueryError(f"{word} is no query: the tables can only be read.")

    def _statement(self, sql: str) -> "Statement":
        statements = self._base.extract_statements(sql)
        if not statements:
            raise QueryError("write a query, such as: select count(*) from spans")
        if len(statements) > 1:
            raise QueryError("one query at a time, please.")
        return statements[0]

    def _blocks(self, result: "DuckDBPyConnection") -> Iterator[list[tuple[Any, ...]]]:
        with self._own_errors():
            while rows := result.fetchmany(_FETCHED):
                yield rows

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        try:
            yield
        except self._interrupted:
            raise Cancelled from None
        except self._out_of_memory:
            limit = format_bytes(self._memory_limit)
            raise QueryError(
                f"the query needs more memory than {limit}, half of this machine's."
            ) from None
        except (self._errors, RuntimeError) as error:
            raise QueryError(_error_text(error)) from None


def answer(
    base: SqlDatabase,
    sql: str,
    limit: int | None,
    check_cancelled: Callable[[], object],
) -> SqlResult:
    """Return the rows of a query; `check_cancelled` is asked while it runs.

    A query that does not stop soon is left to itself: `base` is closed then, and its
    memory is given back when the query ends.

    Raises
    ------
    QueryError
        If it is no query, or DuckDB does not understand it.
    Cancelled
        If `check_cancelled` raised it.
    """
    outcome: list[SqlResult | Exception] = []
    is_done = threading.Event()

    def work() -> None:
        try:
            outcome.append(base.query(sql, limit))
        except Exception as error:  # noqa: BLE001 (raised by who asked)
            outcome.append(error)
        is_done.set()

    check_cancelled()
    threading.Thread(target=work, name="SQL query", daemon=True).start()
    try:
        while not is_done.wait(_ASK_S):
            check_cancelled()
    except Cancelled:
        base.interrupt()
        if not is_done.wait(_STOP_S):
            base.close()
        raise
    (result,) = outcome
    if isinstance(result, Exception):
        raise result
    return result


def plain_value(value: Any) -> Any:
    """Return a value of a result as JSON has it: numbers, texts, lists, objects."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime | date | time | timedelta):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {str(key): plain_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(one) for one in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def _error_text(error: Exception) -> str:
    """Return what DuckDB says in one line, without the query again."""
    text = str(error).partition("\n\nStack Trace")[0].partition("\n\nLINE ")[0]
    return " ".join(text.split())


def _memory_limit() -> int:
    """Return bytes that a query may take."""
    import psutil

    total: int = psutil.virtual_memory().total
    return max(int(total * _MEMORY_SHARE), 256 << 20)
