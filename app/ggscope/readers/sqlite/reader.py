"""Reader of SQLite traces: Nsight Systems exports and rocpd databases."""

from pathlib import Path

from ggscope.errors import CorruptError, ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import RecordView, Severity, Trace, TraceInfo
from ggscope.readers.api import NOT_MINE, Estimate, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import note_change, trace_info
from ggscope.readers.common.gathered import Gathered, Numbering
from ggscope.readers.source import Source
from ggscope.readers.sqlite import INFO
from ggscope.readers.sqlite.database import Database
from ggscope.readers.sqlite.nsys import NsysExport
from ggscope.readers.sqlite.rocpd import RocpdDatabase

_MAGIC = b"SQLite format 3\0"
_LARGE = 48 << 20
"""From this size on a part is shown before the rest is read."""
_ROW_BYTES = 110
"""Bytes of a row in such files, about."""
_READ_SHARE = 0.7
"""Of the time for a file; the rest goes to its spans, measured with 10 M rows."""
_ENUM = "ENUM_"
_INTERNAL = "sqlite_"
_LISTED = 8
_WRITE_BACK = 'Write it back with: sqlite3 FILE "pragma wal_checkpoint".'

_Form = NsysExport | RocpdDatabase
_TITLES: dict[type[_Form], str] = {
    NsysExport: "Nsight Systems export",
    RocpdDatabase: "rocpd database",
}

_RECORDING: dict[type[_Form], str] = {
    NsysExport: "nsys profile --trace cuda,nvtx PROGRAM",
    RocpdDatabase: "rocprofv3 --sys-trace --output-format rocpd -- PROGRAM",
}


class SqliteReader:
    """Reads the SQLite databases of GPU profilers."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its magic and by names of tables, where they are near."""
        if not head.data.startswith(_MAGIC):
            return NOT_MINE
        if b"CUPTI_ACTIVITY" in head.data or b"META_DATA_EXPORT" in head.data:
            return Sniff(95, "an SQLite database with tables of Nsight Systems")
        if b"rocpd_" in head.data:
            return Sniff(95, "an SQLite database with tables of rocpd")
        return Sniff(60, "an SQLite database")

    def estimate(self, head: Head) -> Estimate:
        """Return what reading a file would cost, by its size."""
        n = head.size // _ROW_BYTES
        return Estimate(n, 60 * n, 400 * n + (64 << 20))

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a database.

        Raises
        ------
        CorruptError
            If nothing in it can be read.
        ReadError
            If it is a database of another program.
        """
        context.progress(0, source.size)

        n_max = 0

        def progress(n_rows: int) -> None:
            share = _READ_SHARE * min(n_rows / max(n_max, n_rows, 1), 1)
            context.progress(int(share * source.size), source.size)

        with Database(source.path, context.check_cancelled, progress) as database:
            n_max = database.max_rows()
            kind = _kind_of(database, source.path)
            if context.wants_stages and source.size > _LARGE:
                some = _read(kind, database, max_blocks=1)
                if some is not None:
                    early, gathered, origin = some
                    gathered.add_to_builder(origin)
                    _finish(gathered, early, source, origin)
                    info = _info(source, early, database, {})
                    until = early.read_until
                    context.publish(
                        gathered.builder.snapshot(
                            info,
                            frozenset({"spans"}),
                            read_until=None if until is None else until - origin,
                        )
                    )
            read = _read(kind, database)
            if read is None:
                damaged = ", ".join(sorted(database.damaged)[:_LISTED])
                raise CorruptError(
                    f"the {_TITLES[kind]} holds no event with a time that can be read"
                    + (f"; damaged tables: {damaged}." if damaged else "."),
                    path=source.path,
                    hint="Copy or export it again."
                    if damaged
                    else f"Was anything traced? Record again: {_RECORDING[kind]}.",
                )
            form, gathered, origin = read
            gathered.add_to_builder(origin)
            counts = _all_counts(database, form.counts)
            _warn(gathered, database, source)
            form.warn()
            _finish(gathered, form, source, origin)
            gathered.builder.strings.release()
            return gathered.builder.snapshot(_info(source, form, database, counts))


def _kind_of(database: Database, path: Path) -> type[_Form]:
    for kind in _TITLES:
        if kind.is_one(database):
            return kind
    names = [n for n in sorted(database.tables) if not n.startswith(_INTERNAL)]
    shown = ", ".join(names[:_LISTED]) + (" …" if len(names) > _LISTED else "")
    if (log := _write_ahead_log(path)) is not None:
        raise ReadError(
            f"the rows of this SQLite database are in {log.name} beside it, which is "
            "not read.",
            hint=_WRITE_BACK,
        )
    raise ReadError(
        "this SQLite database is none of a profiler that ggscope knows"
        + (f"; its tables: {shown}." if names else "; it has no tables."),
        hint="Open what nsys export --type sqlite or rocprofv3 wrote.",
    )


def _read(
    kind: type[_Form], database: Database, max_blocks: int | None = None
) -> tuple[_Form, Gathered, int] | None:
    """Return what a database holds and its first time; None where that is nothing."""
    gathered = Gathered(TraceBuilder(), "sqlite")
    form = kind(database, gathered, max_blocks)
    form.read()
    origin = gathered.origin
    return None if origin is None else (form, gathered, origin)


def _finish(gathered: Gathered, form: _Form, source: Source, origin: int) -> None:
    builder = gathered.builder
    builder.clock = form.clock(origin)
    builder.records = SqliteRecords(source.path, gathered.numbering)


def _info(
    source: Source, form: _Form, database: Database, counts: dict[str, int]
) -> TraceInfo:
    n = sum(len(e) for e in (*form.into.spans, *form.into.markers))
    return trace_info(
        INFO,
        source,
        n,
        version=form.version(),
        producer={"format": _TITLES[type(form)], **form.producer()},
        summary={"events": counts},
    )


def _all_counts(database: Database, read: dict[str, int]) -> dict[str, int]:
    """Return the number of rows of each table that has some; lists of codes aside."""
    counts = {}
    for table in sorted(database.tables):
        if not table.startswith((_ENUM, _INTERNAL)):
            n = read[table] if table in read else database.count(table)
            if n:
                counts[table] = n
    return counts


def _warn(gathered: Gathered, database: Database, source: Source) -> None:
    builder = gathered.builder
    if database.is_cut:
        builder.warn(
            Severity.DATA_LOSS,
            "database_cut",
            "the database is shorter than its header states: its last rows are gone.",
            source.size,
            remedy="Copy or export it again.",
        )
    for table, word in database.damaged.items():
        builder.warn(
            Severity.DATA_LOSS,
            "damaged_table",
            f"rows of the table {table} cannot be read ({word}); those around the "
            "damaged pages were.",
            place=table,
        )
    gathered.warn_of_times()
    if (log := _write_ahead_log(source.path)) is not None:
        builder.warn(
            Severity.NOTICE,
            "write_ahead_log",
            f"the latest rows are in {log.name} beside the database, which was not "
            "read.",
            remedy=_WRITE_BACK,
        )
    note_change(builder, source.change(), f"{builder.n_spans:,} spans", source.size)


def _write_ahead_log(path: Path) -> Path | None:
    """Return the log beside a database that holds what was written last, if any."""
    log = Path(f"{path}-wal")
    try:
        return log if log.stat().st_size > 0 else None
    except OSError:
        return None


class SqliteRecords:
    """Gives back single rows of a database."""

    def __init__(self, path: Path, numbering: Numbering) -> None:
        self._path, self._numbering = path, numbering

    def view(self, record: int) -> RecordView:
        """Return a row with all its columns.

        Raises
        ------
        ReadError
            If it is gone.
        """
        table, rowid = self._numbering.row(record)
        with Database(self._path) as database:
            row = database.row(table, rowid) if database.has(table) else None
        if row is None:
            raise ReadError(f"row {rowid:,} of {table} is gone.", path=self._path)
        fields = [("table", table, -1, 0), ("row", f"{rowid:,}", -1, 0)]
        fields += [
            (name, str(value), -1, 0)
            for name, value in row.items()
            if value is not None
        ]
        return RecordView(-1, b"", tuple(fields))
