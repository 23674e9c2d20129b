"""CSV of rocprofv3: one table for each kind of records, and tables of totals.

Source: ``generateCSV.cpp`` of ROCm's rocprofiler-sdk, whose columns differ by version:
they are found by name, in any case. Agents are numbers, or ``Agent 7`` and ``GPU 0``.
What ``rocpd2csv`` writes has the same columns.
"""

from enum import Enum

import numpy as np

from ggscope.model.backend_ops import BackendOps
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I32, I64, Bools, ranked
from ggscope.readers.common.delimited import DelimitedTable, Header
from ggscope.readers.common.gathered import NONE, Gathered, combined
from ggscope.readers.common.objects import Kind
from ggscope.readers.common.op_totals import OpTotals, listed_totals
from ggscope.readers.common.rocm import (
    COPY,
    KERNEL,
    MAX_NAME,
    MEMORY,
    RocmEvents,
    RocmNames,
    Rows,
    counter_series,
)

_TO_HOST = "DEVICE_TO_HOST"
_BACKEND = "ROCm"
_TIMES = {"start_timestamp", "end_timestamp"}


class Form(Enum):
    """What a table lists; the columns that it has for that."""

    COUNTERS = frozenset({"counter_name", "counter_value", "dispatch_id"})
    KERNELS = frozenset({"kernel_name", *_TIMES})
    CALLS = frozenset({"domain", "function", *_TIMES})
    COPIES = frozenset({"direction", *_TIMES})
    MEMORY = frozenset({"operation", "agent_id", *_TIMES})
    TOTALS = frozenset({"name", "calls", "totaldurationns"})


_NUMBERS = {
    "start_timestamp": "start",
    "end_timestamp": "end",
    "process_id": "pid",
    "thread_id": "tid",
    "queue_id": "queue_id",
    "stream_id": "stream_id",
    "correlation_id": "correlation",
    "dispatch_id": "dispatch",
}
_AGENTS = {
    "agent_id": "agent_id",
    "source_agent_id": "src_agent_id",
    "destination_agent_id": "dst_agent_id",
}
_NAMES = ("kernel_name", "function", "direction", "operation")
KINDS = {
    **dict.fromkeys((*_NUMBERS, "calls", "totaldurationns"), Kind.INTEGER),
    **dict.fromkeys(
        (*_AGENTS, *_NAMES, "kind", "domain", "name", "counter_name"), Kind.TEXT
    ),
    "counter_value": Kind.REAL,
}
"""What each column holds that is read."""


def form_of(header: Header) -> Form | None:
    """Return what a table lists by its columns; None where it is none of these."""
    keys = frozenset(header.keys)
    return next((form for form in Form if form.value <= keys), None)


class CsvRecords:
    """Makes events of a table.

    Attributes
    ----------
    has_times : whether the rows have times; else nothing can be drawn.
    """

    def __init__(self, form: Form, table: DelimitedTable) -> None:
        self.form, self._table = form, table
        self.has_times = set(table.header.keys) >= _TIMES

    def counts(self) -> dict[str, int]:
        """Return the number of rows by kind."""
        table = self._table
        key = "domain" if self.form is Form.CALLS else "kind"
        labels = [*table.texts, ""]
        if self.form is Form.TOTALS or key not in table:
            return {self.form.name.lower(): len(table)} if len(table) else {}
        different, count = np.unique(table.numbers_of_texts(key), return_counts=True)
        return {
            labels[number].lower()[:MAX_NAME] or "rows": n
            for number, n in zip(different.tolist(), count.tolist(), strict=True)
        }

    def totals(self) -> BackendOps:
        """Return the rows of a table of totals."""
        table = self._table
        labels = list(table.texts)
        name = table.numbers_of_texts("name")
        none = np.full(len(name), -1, np.int64)
        return listed_totals(
            [*labels, _BACKEND],
            OpTotals(
                op=name,
                name=none,
                backend=np.full(len(name), len(labels), np.int64),
                count=table.integers("calls"),
                time=table.integers("totaldurationns"),
            ),
        )

    def gathered(self) -> Gathered:
        """Return the events; their records are the rows."""
        into = Gathered(TraceBuilder(), "rocm")
        table, form = self._table, self.form
        labels = [word[:MAX_NAME] for word in table.texts]
        rows: Rows = {to: table.integers(key) for key, to in _NUMBERS.items()}
        for key, to in _AGENTS.items():
            number = table.numbers_of_texts(key)
            rows[to] = np.where(number >= 0, number, NONE)
        rows["record"] = np.arange(len(table))
        place = form.name.lower()
        good = into.usable(place, rows["start"], rows["end"])
        rows = {to: values[good] for to, values in rows.items()}
        names = RocmNames(_agent_titles(rows, labels), _processes(rows))
        rocm = RocmEvents(into, names)
        string = np.append(into.builder.strings.intern_many(labels), 0)
        key = next((key for key in _NAMES if key in table), "")
        name = table.numbers_of_texts(key)[good]
        title = self._titles(into, string, name, place)
        if form is Form.COUNTERS:
            self._add_counters(into, rocm, rows, title, good)
        elif form is Form.CALLS:
            domain = table.numbers_of_texts("domain")[good]
            lower = into.builder.strings.intern_many(
                [w.lower() for w in labels] or [""]
            )
            rocm.add_calls(rows, title, np.append(lower, 0)[domain].astype(np.int32))
        elif form is Form.COPIES:
            to_host = [i for i, word in enumerate(labels) if word.endswith(_TO_HOST)]
            rocm.add_work(rows, title, COPY, np.isin(name, to_host))
        else:
            category = KERNEL if form is Form.KERNELS else MEMORY
            rocm.add_work(rows, title, category)
        return into

    def _titles(self, into: Gathered, string: I64, name: I64, fallback: str) -> I32:
        other = into.builder.strings.intern(fallback)
        return np.where(name >= 0, string[name], other).astype(np.int32)

    def _add_counters(
        self,
        into: Gathered,
        rocm: RocmEvents,
        rows: Rows,
        title: I32,
        good: Bools,
    ) -> None:
        """Add the kernels, each once, and their counters."""
        table = self._table
        keys = [rows[name] for name in ("pid", "agent_id", "dispatch", "start")]
        if not len(title):
            return
        _, dispatch = combined(keys)
        _, first, dispatch = ranked(dispatch)
        kernels = {name: values[first] for name, values in rows.items()}
        rocm.add_work(kernels, title[first], KERNEL)
        labels = [*table.texts, "counter"]
        into.counters += counter_series(
            rows["start"][first],
            dispatch,
            table.numbers_of_texts("counter_name")[good],
            table.reals("counter_value")[good],
            lambda number: labels[number],
        )


def _agent_titles(rows: Rows, labels: list[str]) -> dict[int, str]:
    """Return the title of each agent by the number of its text."""
    used = np.unique(np.concatenate([rows[name] for name in _AGENTS.values()]))
    return {
        number: f"agent {labels[number]}"
        if labels[number].isdigit()
        else labels[number]
        for number in used.tolist()
        if number != NONE
    }


def _processes(rows: Rows) -> dict[int, tuple[int, str]]:
    return {pid: (pid, "") for pid in np.unique(rows["pid"]).tolist() if pid != NONE}
