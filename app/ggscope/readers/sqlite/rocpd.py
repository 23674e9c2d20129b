"""Databases of AMD's rocprofv3: rocpd, schema 3.

Source: ``source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql`` of ROCm's
rocprofiler-sdk. Every table's name ends in the id of its process; a merged file holds
several sets of tables. Begin and end are columns, or in other builds rows of
``rocpd_timestamp``, and where something ran is in columns or a row of ``rocpd_track``:
both are read. Calls and the work that they launched have one ``stack_id``.
"""

import numpy as np

from ggscope.model.tables import I64, looked_up
from ggscope.model.units import Clock
from ggscope.readers.common.gathered import NONE, Series
from ggscope.readers.common.rocm import (
    COPY,
    KERNEL,
    MAX_NAME,
    MEMORY,
    PLACES,
    RocmEvents,
    RocmNames,
    agent_title,
)
from ggscope.readers.sqlite.database import Database
from ggscope.readers.sqlite.export import DatabaseExport

_STRING = "rocpd_string"
_MAX_SETS = 256


class RocpdDatabase(DatabaseExport):
    """Fills a builder from a database of rocprofv3."""

    @staticmethod
    def is_one(database: Database) -> bool:
        """Return whether a database is one of rocpd."""
        return any(
            name.startswith(_STRING) and "string" in columns
            for name, columns in database.tables.items()
        )

    def read(self) -> None:
        """Read the tables of all processes."""
        for number, suffix in enumerate(self._suffixes()):
            _TableSet(self, suffix, number).read()

    def producer(self) -> dict[str, str]:
        """Return what the file says of the machine and program."""
        facts: dict[str, str] = {}
        for suffix in self._suffixes():
            for (command,) in self._db.rows(
                "rocpd_info_process" + suffix, ("command",)
            ):
                if isinstance(command, str) and command:
                    facts.setdefault("command", command[:MAX_NAME])
            columns = ("type", "type_index", "product_name", "name")
            for row in self._db.rows("rocpd_info_agent" + suffix, columns):
                kind, number, product, name = row
                if kind == "GPU":
                    facts[f"GPU {number}"] = str(product or name)[:MAX_NAME]
        return facts

    def version(self) -> str:
        """Return the version of the schema; "" where it is not stated."""
        for suffix in self._suffixes():
            for tag, value in self._db.rows(
                "rocpd_metadata" + suffix, ("tag", "value")
            ):
                if tag == "schema_version":
                    return str(value)[:64]
        return ""

    def clock(self, origin: int) -> Clock:
        """Return the clock: that of the machine, which counts from its start."""
        return Clock.of_stamps(origin)

    def warn(self) -> None:
        """Add nothing: rocpd notes no problems of its own."""

    def _suffixes(self) -> list[str]:
        suffixes = [
            name.removeprefix(_STRING)
            for name in self._tables
            if name.startswith(_STRING)
        ]
        return suffixes[:_MAX_SETS]

    # -- what a set of tables uses --------------------------------------------

    @property
    def database(self) -> Database:
        """The database."""
        return self._db


class _TableSet:
    """The tables of one process."""

    def __init__(self, owner: RocpdDatabase, suffix: str, number: int) -> None:
        self._owner, self._suffix, self._set = owner, suffix, number
        self._db, self._into = owner.database, owner.into
        self._strings = owner.into.builder.strings
        self._texts = self._named("rocpd_string", "string")
        self._tracks: dict[str, I64] = {}
        self._events: dict[str, I64] = {}
        self._times: tuple[I64, I64] | None = None

    def read(self) -> None:
        """Read all events."""
        name = "rocpd_track" + self._suffix
        if self._db.has(name, "id"):
            self._tracks = self._indexed(name, PLACES)
        name = "rocpd_event" + self._suffix
        if self._db.has(name, "id"):
            self._events = self._indexed(name, ("stack_id", "category_id"))
        names = RocmNames(
            self._agent_names(),
            self._pairs("rocpd_info_process", "pid"),
            self._pairs("rocpd_info_thread", "tid"),
            self._named("rocpd_info_queue", "name"),
            self._named("rocpd_info_stream", "name"),
        )
        self._events_of = RocmEvents(self._into, names, self._set)
        kernels = self._named("rocpd_info_kernel_symbol", "display_name")
        mangled = self._named("rocpd_info_kernel_symbol", "kernel_name")
        kernels = {**mangled, **{k: v for k, v in kernels.items() if v}}
        self._work("rocpd_kernel_dispatch", KERNEL, "kernel_id", kernels)
        self._work("rocpd_memory_copy", COPY, "name_id", self._texts)
        self._work("rocpd_memory_allocate", MEMORY, "", {})
        self._regions()
        self._samples()
        self._performance_counters()

    # -- tables of names -------------------------------------------------------

    def _named(self, table: str, column: str) -> dict[int, str]:
        """Return a column of texts by "id"."""
        name = table + self._suffix
        return (
            {
                number: text
                for block in self._db.texts(name, ("id", column))
                for _, number, text in block
                if isinstance(number, int) and isinstance(text, str)
            }
            if self._db.has(name, "id", column)
            else {}
        )

    def _pairs(self, table: str, column: str) -> dict[int, tuple[int, str]]:
        """Return a number of the system and a name by "id"."""
        name = table + self._suffix
        if not self._db.has(name, "id", column):
            return {}
        return {
            number: (value, text[:MAX_NAME] if isinstance(text, str) else "")
            for number, value, text in self._db.rows(name, ("id", column, "name"))
            if isinstance(number, int) and isinstance(value, int)
        }

    def _agent_names(self) -> dict[int, str]:
        columns = ("id", "type", "type_index", "product_name", "name")
        name = "rocpd_info_agent" + self._suffix
        if not self._db.has(name, "id"):
            return {}
        return {
            number: agent_title(kind, index, product or text)
            for number, kind, index, product, text in self._db.rows(name, columns)
            if isinstance(number, int)
        }

    def _indexed(self, name: str, columns: tuple[str, ...]) -> dict[str, I64]:
        """Return columns in the order of "id", which is the first of them."""
        rows = self._owner.whole(name, ("id", *columns))
        order = np.argsort(rows["id"], kind="stable")
        return {column: values[order] for column, values in rows.items()}

    # -- rows of events --------------------------------------------------------

    def _rows(self, name: str, *more: str) -> dict[str, I64]:
        """Return a table of events with start, end, place and link of each row."""
        columns = (
            "start", "end", "start_id", "end_id", "track_id", "event_id", *PLACES,
            *more,
        )  # fmt: skip
        rows = self._owner.whole(name, columns)
        there = self._db.tables[name]
        for column in ("start", "end"):
            if column not in there:
                rows[column] = self._stamps(rows[f"{column}_id"])
        if self._tracks and "track_id" in there:
            for column in PLACES:
                if column not in there:
                    keys, values = self._tracks["id"], self._tracks[column]
                    rows[column] = looked_up(keys, values, rows["track_id"], NONE)
        for column in ("stack_id", "category_id"):
            rows[column] = (
                looked_up(
                    self._events["id"], self._events[column], rows["event_id"], NONE
                )
                if self._events
                else np.full(len(rows["record"]), NONE)
            )
        rows["correlation"] = rows["stack_id"]
        return rows

    def _stamps(self, ids: I64) -> I64:
        """Return the times that rows of ``rocpd_timestamp`` are."""
        if self._times is None:
            name = "rocpd_timestamp" + self._suffix
            if self._db.has(name, "id", "value"):
                rows = self._indexed(name, ("value",))
                self._times = rows["id"], rows["value"]
            else:
                self._times = np.zeros(0, np.int64), np.zeros(0, np.int64)
        return looked_up(*self._times, ids, NONE)

    def _good(self, name: str, rows: dict[str, I64]) -> dict[str, I64]:
        good = self._into.usable(name, rows["start"], rows["end"])
        return {column: values[good] for column, values in rows.items()}

    def _work(
        self, table: str, category: str, name_column: str, names: dict[int, str]
    ) -> None:
        """Read work of a device: kernels, copies, allocations."""
        name = table + self._suffix
        if not self._db.has(name):
            return
        named = (name_column,) if name_column else ()
        rows = self._rows(name, *named, "dst_agent_id", "src_agent_id", "size")
        rows = self._good(name, rows)
        if not len(rows["start"]):
            return
        strings = (
            self._events_of.strings_of(rows[name_column], names, category)
            if name_column
            else np.full(len(rows["start"]), self._strings.intern("allocate"), np.int32)
        )
        self._events_of.add_work(rows, strings, category)

    def _regions(self) -> None:
        """Read calls of the runtime, and ranges of the program."""
        name = "rocpd_region" + self._suffix
        if not self._db.has(name):
            return
        rows = self._good(name, self._rows(name, "name_id"))
        if not len(rows["start"]):
            return
        texts = {k: v.lower() for k, v in self._texts.items()}
        self._events_of.add_calls(
            rows,
            self._events_of.strings_of(rows["name_id"], self._texts, "region"),
            self._events_of.strings_of(rows["category_id"], texts, "region"),
        )

    def _samples(self) -> None:
        """Read events without duration."""
        name = "rocpd_sample" + self._suffix
        if not self._db.has(name):
            return
        rows = self._rows(name, "name_id", "timestamp", "timestamp_id")
        stamp = rows["timestamp"]
        if "timestamp" not in self._db.tables[name]:
            stamp = self._stamps(rows["timestamp_id"])
        rows["start"] = rows["end"] = stamp
        rows = self._good(name, rows)
        if not len(rows["start"]):
            return
        self._events_of.add_samples(
            rows, self._events_of.strings_of(rows["name_id"], self._texts, "sample")
        )

    def _performance_counters(self) -> None:
        """Read counters of kernels: at the begin of the kernel that they count."""
        name = "rocpd_pmc_event" + self._suffix
        kernel = "rocpd_kernel_dispatch" + self._suffix
        if not self._db.has(name, "event_id", "pmc_id") or not self._db.has(kernel):
            return
        titles = self._named("rocpd_info_pmc", "name")
        dispatched = self._rows(kernel)
        order = np.argsort(dispatched["event_id"], kind="stable")
        event, start = dispatched["event_id"][order], dispatched["start"][order]
        values: dict[int, list[tuple[int, float]]] = {}
        n = 0
        columns = ("event_id", "pmc_id", "value")
        for block in self._db.texts(name, columns):
            n += len(block)
            ids = np.array(
                [row[1] if isinstance(row[1], int) else NONE for row in block], np.int64
            )
            times = looked_up(event, start, ids, NONE)
            for row, time in zip(block, times.tolist(), strict=True):
                if time != NONE and isinstance(row[3], int | float):
                    values.setdefault(row[2], []).append((time, float(row[3])))
        self._owner.counts[name] = n
        for number, samples in values.items():
            samples.sort()
            self._into.counters.append(
                Series(
                    titles.get(number, f"counter {number}")[:MAX_NAME],
                    "",
                    np.array([time for time, _ in samples], np.int64),
                    np.array([value for _, value in samples], np.float64),
                )
            )
