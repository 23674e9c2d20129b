"""JSON of rocprofv3: records of rocprofiler-sdk.

Source: ``generateJSON.cpp`` and ``serialization.hpp`` of ROCm's rocprofiler-sdk. One
object for each process, with agents, names, and lists of records; a record names its
kind and operation by their places in ``strings``, its kernel by the id of a symbol.
Times are nanoseconds of the machine's clock.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I32, I64, ranked
from ggscope.readers.api import ReadContext
from ggscope.readers.common.block_steps import BlockSteps
from ggscope.readers.common.gathered import NONE, Gathered
from ggscope.readers.common.objects import Fields, ListFaults, ObjectTable
from ggscope.readers.common.packed_text import TextBlocks, TraceText
from ggscope.readers.common.rocm import (
    AGENT_KINDS,
    COPY,
    KERNEL,
    MAX_NAME,
    MEMORY,
    RocmEvents,
    RocmNames,
    Rows,
    agent_title,
    counter_series,
)
from ggscope.readers.common.text_cursor import TextCursor

ROOT = "rocprofiler-sdk-tool"
_MAX_PROCESSES = 256
_FACT_BYTES = 4 << 20
_NAMES_BYTES = 32 << 20
_KERNELS, _COUNTERS = "kernel_dispatch", "counter_collection"
_WORK = {
    "memory_copy": COPY,
    "memory_allocation": MEMORY,
    "scratch_memory": MEMORY,
}
"""Lists of what a device does, beside kernels, and their categories."""
_DISPATCH = {
    "agent_id": "dispatch_info.agent_id.handle",
    "queue_id": "dispatch_info.queue_id.handle",
    "kernel": "dispatch_info.kernel_id",
    "dispatch": "dispatch_info.dispatch_id",
}
_ANY = {
    "kind": "kind",
    "operation": "operation",
    "tid": "thread_id",
    "correlation": "correlation_id.internal",
    "external": "correlation_id.external",
    "start": "start_timestamp",
    "end": "end_timestamp",
    "stream_id": "stream_id.handle",
}
_FIELDS = {
    _KERNELS: Fields({**_ANY, **_DISPATCH}),
    **dict.fromkeys(
        _WORK,
        Fields(
            {
                **_ANY,
                "agent_id": "agent_id.handle",
                "queue_id": "queue_id.handle",
                "src_agent_id": "src_agent_id.handle",
                "dst_agent_id": "dst_agent_id.handle",
                "size": "bytes",
            }
        ),
    ),
}
_CALLS = Fields(_ANY)
_COUNTED = Fields(
    {
        "tid": "thread_id",
        "correlation": "dispatch_data.correlation_id.internal",
        "external": "dispatch_data.correlation_id.external",
        "start": "dispatch_data.start_timestamp",
        "end": "dispatch_data.end_timestamp",
        **{name: f"dispatch_data.{path}" for name, path in _DISPATCH.items()},
    },
    within="records",
    inner=Fields({"counter": "counter_id.handle"}, real="value"),
)
_AGENTS = Fields(
    {"id": "id.handle", "type": "type", "number": "logical_node_type_id",
     "node": "node_id"},
    {"product": "product_name", "name": "name"},
)  # fmt: skip
_SYMBOLS = Fields(
    {"id": "kernel_id"}, {"name": "formatted_kernel_name", "mangled": "kernel_name"}
)
_PAIRS = Fields({"id": "key"}, {"text": "value"})
_COUNTER_NAMES = Fields({"id": "id.handle"}, {"name": "name"})


@dataclass(slots=True)
class _Process:
    """What the file holds of one process."""

    metadata: dict[str, object] = field(default_factory=dict)
    kinds: list[tuple[str, list[str]]] = field(default_factory=list)
    """Name and operations of each kind."""
    agents: ObjectTable = field(default_factory=lambda: ObjectTable(_AGENTS))
    symbols: ObjectTable = field(default_factory=lambda: ObjectTable(_SYMBOLS))
    markers: ObjectTable = field(default_factory=lambda: ObjectTable(_PAIRS))
    renamed: ObjectTable = field(default_factory=lambda: ObjectTable(_PAIRS))
    counters: ObjectTable = field(default_factory=lambda: ObjectTable(_COUNTER_NAMES))
    counted: ObjectTable = field(default_factory=lambda: ObjectTable(_COUNTED))
    lists: dict[str, ObjectTable] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        """The number of the process; `NONE` where it is not stated."""
        pid = self.metadata.get("pid")
        if isinstance(pid, int) and 0 <= pid < 1 << 32:
            return int(pid)
        return NONE

    @property
    def command(self) -> list[str]:
        """The command and its arguments."""
        command = self.metadata.get("command")
        return [str(w) for w in command] if isinstance(command, list) else []


class JsonRecords:
    """Reads the records of a file.

    Parameters
    ----------
    publish : called with the records so far, for an early picture; None = do not.

    Attributes
    ----------
    faults, is_cut, ended : what was no record, whether the text ends too soon, and why
        unpacking did.
    hidden : lists whose records have no times.
    """

    def __init__(
        self,
        text: TraceText,
        context: ReadContext,
        size: int,
        publish: Callable[["JsonRecords"], None] | None = None,
    ) -> None:
        early = None if publish is None else partial(publish, self)
        self._text = text
        self._steps = BlockSteps(text, context, size, early, is_first_shown=False)
        self._processes: list[_Process] = []
        self.faults = ListFaults()
        self.is_cut = False
        self.ended = ""
        self.hidden: list[str] = []

    # -- reading -----------------------------------------------------------------

    def read(self) -> None:
        """Read all of the file."""
        with TextBlocks(self._text) as blocks:
            cursor = TextCursor(blocks, self._steps.begin)
            for key in cursor.members():
                if key == ROOT:
                    self._take_root(cursor)
                else:
                    cursor.value(0)
            self.is_cut, self.ended = cursor.is_cut, blocks.ended

    def _take_root(self, cursor: TextCursor) -> None:
        if cursor.byte() == ord("{"):
            self._take_process(cursor)
        elif cursor.byte() == ord("["):
            for _ in cursor.elements():
                self._take_process(cursor)
        else:
            cursor.value(0)

    def _take_process(self, cursor: TextCursor) -> None:
        if cursor.byte() != ord("{") or len(self._processes) == _MAX_PROCESSES:
            cursor.value(0)
            return
        process = _Process()
        self._processes.append(process)
        tables = {
            "agents": process.agents,
            "kernel_symbols": process.symbols,
            "counters": process.counters,
        }
        for key in cursor.members():
            if key == "metadata":
                value = cursor.parsed(_FACT_BYTES)
                process.metadata = value if isinstance(value, dict) else {}
            elif key in tables:
                tables[key].take(cursor, self.faults)
            elif key == "strings":
                self._take_strings(cursor, process)
            elif key in ("buffer_records", "callback_records"):
                self._take_lists(cursor, process)
            else:
                cursor.value(0)

    def _take_strings(self, cursor: TextCursor, process: _Process) -> None:
        if cursor.byte() != ord("{"):
            cursor.value(0)
            return
        for key in cursor.members():
            if key == "buffer_records":
                process.kinds = _kinds(cursor.parsed(_NAMES_BYTES))
            elif key == "marker_api":
                process.markers.take(cursor, self.faults)
            elif key == "correlation_id" and cursor.byte() == ord("{"):
                for inner in cursor.members():
                    if inner == "external":
                        process.renamed.take(cursor, self.faults)
                    else:
                        cursor.value(0)
            else:
                cursor.value(0)

    def _take_lists(self, cursor: TextCursor, process: _Process) -> None:
        if cursor.byte() != ord("{"):
            cursor.value(0)
            return
        for key in cursor.members():
            if key == _COUNTERS:
                table = process.counted
            else:
                fields = _FIELDS.get(key, _CALLS)
                table = process.lists.setdefault(key[:MAX_NAME], ObjectTable(fields))
            table.take(cursor, self.faults, self._steps.end)

    # -- what is known -------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Return the number of records of each list that has some."""
        counts: dict[str, int] = {}
        for process in self._processes:
            for name, table in (*process.lists.items(), (_COUNTERS, process.counted)):
                if table.n_objects:
                    counts[name] = counts.get(name, 0) + table.n_objects
        return counts

    def producer(self) -> dict[str, str]:
        """Return what the file says of the machine and program."""
        facts: dict[str, str] = {}
        for process in self._processes:
            if process.command:
                facts.setdefault("command", " ".join(process.command)[:MAX_NAME])
            agents = process.agents
            for kind, number, product in zip(
                agents.column("type").tolist(),
                agents.column("number").tolist(),
                _either(agents.texts("product"), agents.texts("name")),
                strict=True,
            ):
                if _kind_of(kind) == "GPU" and product and len(facts) < 64:
                    facts.setdefault(f"GPU {number}", product[:MAX_NAME])
        return facts

    # -- events ----------------------------------------------------------------------

    def gathered(self) -> tuple[Gathered, I64]:
        """Return the events, and where each record begins in the text."""
        into = Gathered(TraceBuilder(), "rocm")
        pids = {
            process.pid: (process.pid, _program(process.command))
            for process in self._processes
            if process.pid != NONE
        }
        self.hidden = []
        offsets: list[I64] = []
        for number, process in enumerate(self._processes):
            names = RocmNames(_agents(process.agents), pids)
            events = _ProcessEvents(into, process, RocmEvents(into, names, number))
            events.add(offsets, self.hidden)
        return into, np.concatenate([np.zeros(0, np.int64), *offsets])


class _ProcessEvents:
    """Adds the events of a process to what is gathered."""

    def __init__(self, into: Gathered, process: _Process, rocm: RocmEvents) -> None:
        self._into, self._process, self._rocm = into, process, rocm

    def add(self, offsets: list[I64], hidden: list[str]) -> None:
        """Add all events.

        Parameters
        ----------
        offsets : gets where the records begin.
        hidden : gets the lists whose records have no times.
        """
        for name, table in self._process.lists.items():
            if not len(table):
                continue
            rows = self._rows(table, offsets)
            if (rows["start"] == NONE).all() and name != _KERNELS:
                hidden.append(name)
                continue
            good = self._good(name, rows)
            if name == _KERNELS:
                self._rocm.add_work(good, self._kernel_names(good), KERNEL)
            elif name in _WORK:
                titles = self._operations(good, _WORK[name])
                self._rocm.add_work(good, titles, _WORK[name])
            else:
                self._rocm.add_calls(good, *self._calls(good, name))
        if len(self._process.counted):
            self._add_counters(offsets)

    def _rows(self, table: ObjectTable, offsets: list[I64]) -> Rows:
        """Return the columns of a table, its records numbered behind earlier ones."""
        rows = {
            name: table.column(name)
            for name in (*_ANY, *_DISPATCH, "src_agent_id", "dst_agent_id", "size",
                         "counter")
            if name in table
        }  # fmt: skip
        offset = table.column("offset")
        rows["record"] = np.arange(len(offset)) + sum(map(len, offsets))
        rows["pid"] = np.full(len(offset), self._process.pid)
        offsets.append(offset)
        return rows

    def _good(self, place: str, rows: Rows) -> Rows:
        good = self._into.usable(place, rows["start"], rows["end"])
        return {name: values[good] for name, values in rows.items()}

    def _kernel_names(self, rows: Rows) -> I32:
        """Return the name of each kernel; ranges may have renamed some."""
        process, rocm = self._process, self._rocm
        symbols = process.symbols
        texts = _either(symbols.texts("name"), symbols.texts("mangled"))
        names = _named(symbols.column("id"), texts)
        name = rocm.strings_of(rows["kernel"], names, KERNEL)
        renamed = process.renamed
        known = _named(renamed.column("id"), renamed.texts("text"))
        if known:
            other = rocm.strings_of(rows["external"], known, "")
            is_renamed = np.isin(rows["external"], list(known))
            name = np.where(is_renamed, other, name)
        return name

    def _operations(self, rows: Rows, fallback: str) -> I32:
        """Return what each record did, by its kind and operation."""
        code = _code(rows)
        texts = {
            kind << 32 | number: text
            for kind, (_, names) in enumerate(self._process.kinds)
            for number, text in enumerate(names)
        }
        return self._rocm.strings_of(code, texts, fallback)

    def _calls(self, rows: Rows, fallback: str) -> tuple[I32, I32]:
        """Return name and category of calls; ranges have the name of their message."""
        rocm, markers = self._rocm, self._process.markers
        kinds = dict(enumerate(kind.lower() for kind, _ in self._process.kinds))
        category = rocm.strings_of(rows["kind"], kinds, fallback)
        name = self._operations(rows, fallback)
        if len(markers) and fallback.startswith("marker"):
            messages = _named(markers.column("id"), markers.texts("text"))
            is_named = np.isin(rows["correlation"], list(messages))
            message = rocm.strings_of(rows["correlation"], messages, fallback)
            name = np.where(is_named, message, name)
        return name, category

    def _add_counters(self, offsets: list[I64]) -> None:
        """Add counters at the begin of the kernel that they count.

        A counter has several instances, of parts of the device: they are added up.
        Kernels are spans where the file has no list of them.
        """
        table = self._process.counted
        value = table.reals()
        rows = self._rows(table, offsets)
        is_good = self._into.usable(_COUNTERS, rows["start"], rows["end"])
        rows = {name: values[is_good] for name, values in rows.items()}
        value = value[is_good]
        _, first, dispatch = ranked(rows["dispatch"])
        if not len(first):
            return
        if _KERNELS not in self._process.lists:
            kernels = {name: values[first] for name, values in rows.items()}
            self._rocm.add_work(kernels, self._kernel_names(kernels), KERNEL)
        counters = self._process.counters
        names = _named(counters.column("id"), counters.texts("name"))
        self._into.counters += counter_series(
            rows["start"][first], dispatch, rows["counter"], value,
            lambda number: names.get(number) or f"counter {number}",
        )  # fmt: skip


def _kinds(value: object) -> list[tuple[str, list[str]]]:
    """Return name and operations of each kind of records."""
    if not isinstance(value, list):
        return []
    kinds = []
    for one in value:
        facts = one if isinstance(one, dict) else {}
        operations = facts.get("operations")
        listed = operations if isinstance(operations, list) else []
        kinds.append((str(facts.get("kind") or ""), [str(word) for word in listed]))
    return kinds


def _code(rows: Rows) -> I64:
    """Return kind and operation as one number, -1 where one is not stated."""
    kind, operation = rows["kind"], rows["operation"]
    is_known = (kind >= 0) & (kind < 1 << 30) & (operation >= 0)
    is_known &= operation < 1 << 32
    return np.where(is_known, (np.where(is_known, kind, 0) << 32) | operation, -1)


def _agents(table: ObjectTable) -> dict[int, str]:
    """Return the title of each agent by its handle."""
    columns = [table.column(name).tolist() for name in ("id", "type", "number", "node")]
    names = _either(table.texts("product"), table.texts("name"))
    return {
        handle: agent_title(_kind_of(kind), node if number == NONE else number, name)
        for handle, kind, number, node, name in zip(*columns, names, strict=True)
    }


def _kind_of(number: int) -> str:
    return AGENT_KINDS[number] if 0 <= number < len(AGENT_KINDS) else ""


def _named(ids: I64, texts: list[str]) -> dict[int, str]:
    """Return texts by id; of an id that is there twice the first text counts."""
    pairs = zip(reversed(ids.tolist()), reversed(texts), strict=True)
    return {number: text for number, text in pairs if text}


def _either(first: list[str], second: list[str]) -> list[str]:
    return [a or b for a, b in zip(first, second, strict=True)]


def _program(command: list[str]) -> str:
    return PurePath(command[0]).name[:MAX_NAME] if command else ""
