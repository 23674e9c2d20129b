"""Forms of msprof's tables, and their rows as events or totals.

Source: ``op_summary``, ``task_time``, ``op_statistic``, ``api_statistic`` and
``communication_statistic`` of Ascend's msprof, ``kernel_details`` and
``step_trace_time`` of torch_npu.
Times are microseconds with up to three places; what was not recorded is ``N/A``. Which
columns there are depends on the version and what was asked of the profiler: they are
found by name, all others are in Details.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ggscope.model.backend_ops import BackendOps
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I32, I64, ranked
from ggscope.model.trace import LaneKind
from ggscope.readers.common.delimited import DelimitedTable, Header
from ggscope.readers.common.gathered import NONE, Events, Gathered, Track, combined
from ggscope.readers.common.objects import Kind
from ggscope.readers.common.op_totals import OpTotals, listed_totals

_MAX_NAME = 512
_NOT_RECORDED = frozenset({"", "N/A", "NA"})
KERNEL, COPY, SYNC, TASK = "kernel", "gpu_memcpy", "sync", "task"
"""Categories: those of GPUs where they are the same, so that filters are, too."""
_CATEGORIES = (
    (("MEMCPY", "SDMA", "PCIE_DMA"), COPY),
    (("EVENT", "NOTIFY", "WAIT", "RECORD", "BARRIER"), SYNC),
    (("PROFILING", "PLACE_HOLDER", "MODEL", "STREAM", "MAINTENANCE"), TASK),
)
"""Words in the types of tasks that are no kernels."""
_PARTS = ("computing", "communication(not overlapped)", "free")
"""Columns of a step that do not overlap; the others are in these."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table mean what; "" = it has none for that.

    Attributes
    ----------
    core : what ran it: AI_CORE, AI_CPU, HCCL; for totals what it ran on.
    """

    name: str
    core: str = ""
    op: str = ""
    start: str = ""
    duration: str = ""
    count: str = ""
    total: str = ""


class Form(Enum):
    """What a table lists."""

    KERNELS = Columns(
        "name", "accelerator core", "type", "start time(us)", "duration(us)"
    )
    OPS = Columns(
        "op name", "task type", "op type", "task start time(us)", "task duration(us)"
    )
    OLD_OPS = Columns(
        "op name", "task type", "op type", "task start time", "task duration(us)"
    )
    TASKS = Columns("kernel_name", "kernel_type", "", "task_start(us)", "task_time(us)")
    OP_TOTALS = Columns("op type", "core type", count="count", total="total time(us)")
    API_TOTALS = Columns("api name", "level", count="count", total="time(us)")
    COMMUNICATION = Columns("op type", count="count", total="total time(us)")
    STEPS = Columns("step")

    @property
    def has_times(self) -> bool:
        """Whether rows say when they began."""
        return bool(self.value.start)


_STREAMS = ("stream id", "stream_id")
_DEVICE = "device_id"


def form_of(header: Header) -> Form | None:
    """Return what a table lists by its columns; None where it is none of these."""
    keys = frozenset(header.keys)
    for form in Form:
        columns = form.value
        needed = {
            columns.name, columns.core, columns.start, columns.duration,
            columns.count, columns.total,
        }  # fmt: skip
        if form is Form.STEPS:
            needed |= set(_PARTS)
        if needed - {""} <= keys:
            return form
    return None


def kinds_of(form: Form) -> dict[str, Kind]:
    """Return what the columns hold that are read of a table."""
    columns = form.value
    kinds = {
        **dict.fromkeys(
            (columns.name, columns.core, columns.op, _DEVICE, *_STREAMS), Kind.TEXT
        ),
        **dict.fromkeys(
            (columns.start, columns.duration, columns.total), Kind.MICROSECONDS
        ),
        columns.count: Kind.INTEGER,
    }
    if form is Form.STEPS:
        kinds |= dict.fromkeys(_PARTS, Kind.MICROSECONDS)
    kinds.pop("", None)
    return kinds


class MsprofTable:
    """Makes events or totals of the rows of a table."""

    def __init__(self, form: Form, table: DelimitedTable) -> None:
        self._form, self._table = form, table

    def counts(self) -> dict[str, int]:
        """Return the number of rows by what ran them; of totals by the form."""
        table, core = self._table, self._form.value.core
        if not self._form.has_times:
            return {self._form.name.lower(): len(table)} if len(table) else {}
        texts = [*table.texts, ""]
        different, count = np.unique(table.numbers_of_texts(core), return_counts=True)
        return {
            texts[number][:_MAX_NAME] or "rows": n
            for number, n in zip(different.tolist(), count.tolist(), strict=True)
        }

    # -- rows with times -------------------------------------------------------------

    def gathered(self) -> Gathered:
        """Return the events; their records are the rows."""
        into = Gathered(TraceBuilder(), "msprof")
        table, columns = self._table, self._form.value
        start, duration = (
            table.integers(columns.start),
            table.integers(columns.duration),
        )
        is_timed = (duration >= 0) & (duration < 1 << 60) & (start > NONE)
        end = np.where(is_timed, start + np.where(is_timed, duration, 0), NONE)
        good = np.flatnonzero(into.usable(self._form.name.lower(), start, end))
        texts = [word[:_MAX_NAME] for word in table.texts]
        name = table.numbers_of_texts(columns.name)[good]
        core = table.numbers_of_texts(columns.core)[good]
        op = table.numbers_of_texts(columns.op)[good] if columns.op else core
        unknown = [i for i, word in enumerate(texts) if word in _NOT_RECORDED]
        # Tasks that are no kernels have no name, communication often no type.
        name = np.where(np.isin(name, [-1, *unknown]), core, name)
        op = np.where(np.isin(op, [-1, *unknown]), name, op)
        strings = into.builder.strings
        other = strings.intern("task")
        string = np.append(strings.intern_many(texts), other).astype(np.int32)
        into.spans.append(
            Events(
                record=good.astype(np.int64),
                start=start[good],
                end=end[good],
                track=self._tracks(into, good, core, texts),
                name=string[name],
                op=string[op],
                category=self._categories(into, core, texts),
            )
        )
        return into

    def _categories(self, into: Gathered, core: I64, names: list[str]) -> I32:
        """Return the category of each row by what ran it.

        All rows of tables of kernels and ops are kernels, communication too.
        """
        strings = into.builder.strings
        is_mixed = self._form is Form.TASKS
        different, _, place = ranked(core)
        codes = [
            strings.intern(_category(names[i]) if is_mixed and i >= 0 else KERNEL)
            for i in different.tolist()
        ]
        return np.array(codes, np.int32)[place]

    def _tracks(self, into: Gathered, rows: I64, core: I64, names: list[str]) -> I64:
        """Return the track of each row: its stream, else what ran it, by device."""
        table = self._table
        key = next((key for key in _STREAMS if key in table), "")
        device = table.numbers_of_texts(_DEVICE)[rows]
        stream = table.numbers_of_texts(key)[rows]
        unknown = [-1, *(i for i, word in enumerate(names) if word in _NOT_RECORDED)]
        stream = np.where(np.isin(stream, unknown), -1, stream)
        places, at = combined([device, stream, np.where(stream >= 0, -1, core)])
        numbers = []
        for of_device, of_stream, of_core in places:
            word = names[of_device] if of_device >= 0 else ""
            is_known = word not in _NOT_RECORDED
            group = (f"NPU {word}",) if is_known else ("NPU",)
            number = names[of_stream] if of_stream >= 0 else ""
            other = names[of_core] if of_core >= 0 else "no stream"
            title = f"stream {number}" if number else other
            order = (_natural(word), int(not number), _natural(number))
            numbers.append(into.track(Track(title, LaneKind.ENGINE, group, order)))
        return np.array(numbers, np.int64)[at]

    # -- totals ----------------------------------------------------------------------

    def totals(self) -> BackendOps:
        """Return the rows of a table of totals."""
        table, columns = self._table, self._form.value
        if self._form is Form.STEPS:
            return self._steps()
        texts = [*table.texts, "NPU"]
        n = len(table)
        core = table.numbers_of_texts(columns.core) if columns.core else np.full(n, -1)
        return listed_totals(
            texts,
            OpTotals(
                op=table.numbers_of_texts(columns.name),
                name=np.full(n, -1, np.int64),
                backend=np.where(core >= 0, core, len(texts) - 1),
                count=table.integers(columns.count),
                time=table.integers(columns.total),
            ),
        )

    def _steps(self) -> BackendOps:
        """Return what each step was spent on: the parts that do not overlap."""
        table, n = self._table, len(self._table)
        steps = [f"step {word}" for word in table.texts]
        devices = [f"NPU {word}" for word in table.texts]
        titles = [table.header.names[table.header.keys.index(part)] for part in _PARTS]
        step, device = table.numbers_of_texts("step"), table.numbers_of_texts(_DEVICE)
        first_device = len(titles) + len(steps)
        last = first_device + len(devices)
        n_parts = len(_PARTS)
        return listed_totals(
            [*titles, *steps, *devices, "NPU"],
            OpTotals(
                op=np.tile(np.arange(n_parts), n),
                name=np.repeat(np.where(step >= 0, step + len(titles), -1), n_parts),
                backend=np.repeat(
                    np.where(device >= 0, device + first_device, last), n_parts
                ),
                count=np.ones(n * n_parts, np.int64),
                time=np.stack([table.integers(part) for part in _PARTS], 1).reshape(-1),
            ),
        )


def _category(core: str) -> str:
    """Return the category of a task by its type."""
    word = core.upper()
    return next(
        (name for parts, name in _CATEGORIES if any(part in word for part in parts)),
        KERNEL,
    )


def _natural(word: str) -> int:
    """Return what numbers are ordered by; other words come first."""
    return int(word) if word.isdecimal() and len(word) < 18 else -1
