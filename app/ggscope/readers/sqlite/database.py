"""An SQLite database from an untrusted file, opened so that nothing in it runs.

Read-only and immutable: neither journals nor locks are touched. The schema is not
trusted (``PRAGMA trusted_schema=OFF``), an authorizer allows SELECT alone, and of the
schema only ordinary tables are read: no views, triggers or virtual tables. See
https://www.sqlite.org/security.html.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import numpy as np

from ggscope.errors import Cancelled, CorruptError, ReadError
from ggscope.model.tables import I64
from ggscope.readers.common.gathered import NONE

Row = tuple[Any, ...]
BLOCK_ROWS = 1 << 16
ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError, MemoryError)
"""The second where SQLite's own message quotes bytes of a damaged schema, the third
where a damaged row says that it is larger than memory."""
_STEPS = 20_000
"""Instructions of SQLite's virtual machine between two checks for cancellation."""
_TEXT_CHARS = 4096
_FUNCTIONS = frozenset({"coalesce", "count", "substr", "typeof"})
_PRAGMAS = (
    "trusted_schema=OFF",
    "query_only=ON",
    "cell_size_check=ON",
    "mmap_size=0",
    "temp_store=MEMORY",
)
_MAX_TABLES = 10_000
_LONGEST_BYTES = 256 << 20
"""Of a text or blob; a row of more is damage."""
_ORDINARY = 0
"""What table_xinfo calls a column that is neither generated nor hidden; generated ones
run expressions of the file."""
_CIRCLE = "its pages lead in a circle"
_NO_INTEGER = f"{NONE + 1} - 1"
"""`NONE` as SQLite reads it: it knows no literal for it."""


class Database:
    """The ordinary tables of one database.

    Parameters
    ----------
    check_cancelled : raises Cancelled where reading shall stop.
    progress : called with the rows read so far.

    Attributes
    ----------
    tables : names of the columns of each table.
    damaged : tables of which some rows cannot be read, and SQLite's message.
    is_cut : whether the file is shorter than its header says.

    Raises
    ------
    CorruptError
        If there is no readable schema.
    ReadError
        If the file is gone.
    """

    def __init__(
        self,
        path: Path,
        check_cancelled: Callable[[], None] = lambda: None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._check, self._progress = check_cancelled, progress
        self._n_rows = 0
        self._stop: Cancelled | None = None
        self.damaged: dict[str, str] = {}
        self.is_cut = False
        self._connection = _connected(path)
        self._connection.set_progress_handler(self._is_cancelled, _STEPS)
        try:
            self.tables = self._schema()
        except ERRORS:
            self._raise_stop()
            # Without this SQLite reads nothing of a file that was cut.
            self._connection.execute("PRAGMA writable_schema=ON")
            self.is_cut = True
            try:
                self.tables = self._schema()
            except ERRORS as error:
                self._connection.close()
                self._raise_stop()
                raise CorruptError(
                    f"the SQLite database cannot be read: {_reason(error)}.",
                    path=path,
                    hint="Copy or export it again.",
                ) from error
        self._connection.set_authorizer(_authorize)

    def __enter__(self) -> "Database":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def has(self, table: str, *columns: str) -> bool:
        """Return whether there is a table with these columns."""
        return table in self.tables and set(columns) <= set(self.tables[table])

    def count(self, table: str) -> int:
        """Return the number of rows; those that are readable where it is damaged."""
        try:
            row = self._connection.execute(
                f"SELECT count(*) FROM {_quoted(table)}"
            ).fetchone()
        except ERRORS as error:
            self._note(table, error)
            return sum(len(block) for block in self.integers(table, ()))
        return int(row[0])

    def max_rows(self) -> int:
        """Return an upper bound of the rows: the largest rowid of each table, summed.

        Reads no table.
        """
        n = 0
        for table in self.tables:
            sql = f"SELECT rowid FROM {_quoted(table)} ORDER BY rowid DESC LIMIT 1"
            try:
                row = self._connection.execute(sql).fetchone()
            except ERRORS:
                self._raise_stop()
                continue
            n += max(int(row[0]), 0) if row else 0
        return n

    def integers(self, table: str, columns: Sequence[str]) -> Iterator[I64]:
        """Yield the rowid and `columns` of all rows as blocks, int64[n, 1 + m].

        Columns that the table lacks, and values that are no integers, are `NONE`. Rows
        around damaged pages are read as far as they are there; see `damaged`.
        """
        chosen = ["rowid", *(self._integer(table, column) for column in columns)]
        width = len(chosen)
        last = NONE
        for rows in self._blocks(table, ", ".join(chosen)):
            block = _as_integers(rows, width)
            last = int(block[-1, 0])
            yield block
        if table in self.damaged:
            for rows in self._behind_damage(table, ", ".join(chosen), last):
                yield _as_integers(rows, width)

    def _integer(self, table: str, column: str) -> str:
        if column not in self.tables.get(table, ()):
            return _NO_INTEGER
        return f"coalesce({_quoted(column)}, {_NO_INTEGER})"

    def texts(self, table: str, columns: Sequence[str]) -> Iterator[list[Row]]:
        """Yield the rowid and `columns` of all rows as lists of tuples.

        Texts have at most 4,096 characters; columns that the table lacks are None.
        """
        there = self.tables.get(table, ())
        chosen = ", ".join(
            f"CASE typeof({_quoted(c)}) WHEN 'text' "
            f"THEN substr({_quoted(c)}, 1, {_TEXT_CHARS}) "
            f"WHEN 'blob' THEN NULL ELSE {_quoted(c)} END"
            if c in there
            else "NULL"
            for c in columns
        )
        chosen = f"rowid, {chosen}" if chosen else "rowid"
        last = NONE
        for rows in self._blocks(table, chosen):
            last = rows[-1][0]
            yield rows
        if table in self.damaged:
            yield from self._behind_damage(table, chosen, last)

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """Yield `columns` of all rows one by one: of small tables."""
        for block in self.texts(table, columns):
            for row in block:
                yield row[1:]

    def row(self, table: str, rowid: int) -> dict[str, object] | None:
        """Return all columns of one row; None where it is not there."""
        columns = self.tables.get(table, ())
        chosen = ", ".join(
            f"CASE typeof({_quoted(c)}) WHEN 'text' THEN "
            f"substr({_quoted(c)}, 1, {_TEXT_CHARS}) WHEN 'blob' THEN NULL "
            f"ELSE {_quoted(c)} END"
            for c in columns
        )
        try:
            values = self._connection.execute(
                f"SELECT {chosen} FROM {_quoted(table)} WHERE rowid=?", (rowid,)
            ).fetchone()
        except ERRORS as error:
            self._note(table, error)
            return None
        return None if values is None else dict(zip(columns, values, strict=True))

    def _schema(self) -> dict[str, tuple[str, ...]]:
        listed = self._connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type='table'"
        ).fetchmany(_MAX_TABLES)
        tables: dict[str, tuple[str, ...]] = {}
        for name, sql in listed:
            if not isinstance(name, str) or not isinstance(sql, str):
                continue
            keywords = sql.upper().split(None, 3)
            if keywords[:2] != ["CREATE", "TABLE"] or "WITHOUT ROWID" in sql.upper():
                continue
            try:
                self._connection.execute(f"SELECT * FROM {_quoted(name)} LIMIT 0")
                columns = self._connection.execute(
                    f"PRAGMA table_xinfo({_quoted(name)})"
                ).fetchall()
            except ERRORS as error:
                self._note(name, error)
                continue
            tables[name] = tuple(c[1] for c in columns if c[-1] == _ORDINARY)
        return tables

    def _blocks(self, table: str, chosen: str) -> Iterator[list[Row]]:
        """Yield the rows up to the first damaged page in blocks."""
        if table not in self.tables:
            return
        sql = f"SELECT {chosen} FROM {_quoted(table)} WHERE rowid > ? ORDER BY rowid"
        last = NONE
        try:
            cursor = self._connection.execute(sql, (last,))
            while True:
                block = list(islice(cursor, BLOCK_ROWS))
                if not block:
                    return
                if not _ascends(block, last):
                    raise sqlite3.DatabaseError(_CIRCLE)
                last = block[-1][0]
                self._n_rows += len(block)
                self._progress(self._n_rows)
                yield block
        except ERRORS as error:
            self._raise_stop()
            self._note(table, error)
        yield from self._until_damage(sql, last)

    def _until_damage(self, sql: str, start: int) -> Iterator[list[Row]]:
        """Yield the rows from `start` up to the damage, or back to it."""
        rows: list[Row] = []
        before, is_back = None, sql.endswith("DESC")
        try:
            for row in self._connection.execute(sql, (start,)):
                if before is not None and (row[0] < before) != is_back:
                    break  # pages that lead in a circle
                before = row[0]
                rows.append(row)
                if len(rows) == BLOCK_ROWS:
                    yield rows
                    rows = []
        except ERRORS:
            self._raise_stop()
        if rows:
            yield rows

    def _behind_damage(self, table: str, chosen: str, last: int) -> Iterator[list[Row]]:
        """Yield the rows behind the last damaged page, in order."""
        sql = (
            f"SELECT {chosen} FROM {_quoted(table)} WHERE rowid > ? ORDER BY rowid DESC"
        )
        blocks = list(self._until_damage(sql, last))
        for block in reversed(blocks):
            yield block[::-1]

    def _note(self, table: str, error: Exception) -> None:
        self._raise_stop()
        self.damaged.setdefault(table, _reason(error))

    def _is_cancelled(self) -> bool:
        try:
            self._check()
        except Cancelled as error:
            # Passed on behind SQLite, which knows "interrupted" alone.
            self._stop = error
            return True
        return False

    def _raise_stop(self) -> None:
        if self._stop is not None:
            raise self._stop


def _connected(path: Path) -> sqlite3.Connection:
    name = quote(os.fsencode(path.absolute()))
    try:
        connection = sqlite3.connect(
            f"file:{name}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
    except ERRORS as error:
        raise ReadError(
            f"SQLite cannot open the file: {error}.",
            path=path,
            hint="Check that it is still there.",
        ) from error
    connection.text_factory = _text
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_BYTES)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _authorize(
    action: int, first: str | None, second: str | None, _db: str | None, via: str | None
) -> int:
    """Allow reading tables, and the few functions that this module uses."""
    if via is not None:
        return sqlite3.SQLITE_DENY  # from within a view or trigger
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _ascends(block: list[Row], before: int) -> bool:
    """Return whether the numbers of rows ascend, from `before` on."""
    ids = np.fromiter((row[0] for row in block), np.int64, len(block))
    return bool(ids[0] > before) and bool((ids[1:] > ids[:-1]).all())


def _reason(error: Exception) -> str:
    """Return what is wrong with a database."""
    if isinstance(error, UnicodeDecodeError):
        return "damaged text"
    if isinstance(error, MemoryError):
        return "a row of impossible size"
    return str(error)


def _as_integers(rows: list[Row], width: int) -> I64:
    """Return rows as int64[n, width]; what is no integer becomes `NONE`."""
    try:
        flat = np.fromiter(chain.from_iterable(rows), np.int64, len(rows) * width)
    except (TypeError, ValueError, OverflowError):
        # Somebody's own file: SQLite takes any value in any column.
        values = (v if type(v) is int else NONE for v in chain.from_iterable(rows))
        flat = np.fromiter(values, np.int64, len(rows) * width)
    return flat.reshape(-1, width)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def last_known_start(block: I64, columns: Sequence[str], max_blocks: int) -> int | None:
    """Return the start of the last event of a part of a table; later ones are unread.

    None where the part is the whole table, or no events.

    Parameters
    ----------
    block : rows as `Database.integers` yields them, of so many blocks at most.
    """
    if "start" not in columns or len(block) < max_blocks * BLOCK_ROWS:
        return None
    start = block[:, 1 + columns.index("start")]
    known = start[start != NONE]
    return int(known.max()) if len(known) else None
