"""What the databases of all profilers are read by: whole tables, as numbered rows."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from ggscope.model.tables import I64
from ggscope.readers.common.gathered import Gathered
from ggscope.readers.sqlite.database import Database, last_known_start


class DatabaseExport:
    """Reads tables of a database into a builder.

    Parameters
    ----------
    max_blocks : of each table; for an early look at a large file.

    Attributes
    ----------
    read_until : time up to which such a look shows all; None = all of it.
    into : what the tables fill.
    counts : rows read of each table.
    """

    def __init__(
        self, database: Database, gathered: Gathered, max_blocks: int | None = None
    ) -> None:
        self._db, self.into = database, gathered
        self._max_blocks = max_blocks
        self.read_until: int | None = None
        self._tables = sorted(database.tables)
        self.counts: dict[str, int] = {}

    def blocks(self, table: str, columns: tuple[str, ...]) -> Iterator[I64]:
        """Yield rowid and columns of a table, int64[n, 1 + columns]."""
        return islice(self._db.integers(table, columns), self._max_blocks)

    def whole(self, table: str, columns: tuple[str, ...]) -> dict[str, I64]:
        """Return columns of a table and "record"; count its rows."""
        blocks = list(self.blocks(table, columns))
        data = np.concatenate([np.empty((0, 1 + len(columns)), np.int64), *blocks])
        self.counts[table] = len(data)
        if self._max_blocks is not None:
            last = last_known_start(data, columns, self._max_blocks)
            if last is not None:
                self.read_until = min(last, self.read_until or last)
        rows = {name: data[:, i + 1] for i, name in enumerate(columns)}
        rows["record"] = self.into.numbering.of(table, data[:, 0])
        return rows
