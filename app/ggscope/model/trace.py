"""The trace: every table of one session, immutable once published.

Also what spans and markers lie on (`Lanes`), and the values of the file as written
(`RawFileValues`): its names with suffixes and layers, once per access pattern, to write
the file again or to show a name as it was printed. `DeclaredMetric` holds a metric that
the file states beside what follows from its content.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import IntEnum
from functools import wraps
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from ggscope.model.backend_ops import BackendOps
from ggscope.model.batches import BatchTokens, TokenSequences
from ggscope.model.bench import BenchRuns
from ggscope.model.expert_counts import ExpertCounts
from ggscope.model.graph import Graph
from ggscope.model.importance import Importance
from ggscope.model.requests import ServerLog
from ggscope.model.residency import Residency
from ggscope.model.routing import Routing
from ggscope.model.run import RecordCount, RecordingInfo, Run
from ggscope.model.storage import Storage
from ggscope.model.tables import (
    I64,
    Accesses,
    Array,
    Column,
    CounterSeries,
    Flows,
    Markers,
    Quality,
    Space,
    Spans,
    StringTable,
    broken_columns,
    freeze,
    quality_of,
)
from ggscope.model.tensors import Buffers, ModelFile, Tensors
from ggscope.model.units import (
    Clock,
    TimeRange,
    format_bytes,
    format_count,
    format_duration,
    format_share,
)
from ggscope.sanitize import one_line


class LaneKind(IntEnum):
    """What a lane stands for; decides its group, order and drawing."""

    TOKEN = 0
    """Tokens, ubatches or passes; one span each."""
    PHASE = 1
    """Prompt / generate (prefill / decode) bands."""
    THREAD = 2
    """Ops (and graphs around them) of one thread."""
    ENGINE = 3
    """Work of one NPU engine."""
    GRAPH = 4
    """Whole graph computations."""
    STALL = 5
    """Stalls, drawn hatched over the lane named by attribute ``over``."""
    COMMAND = 6
    """Commands from queueing to their end."""
    MEMORY = 7
    COUNTER = 8
    MARKER = 9
    SEQUENCE = 10
    """What a sequence (a request of a server) computes; one span per ubatch."""
    IO = 11
    """Requests to storage, or reads of a program; no two at once."""
    STACKS = 12
    """Frames of a profile, nested: of a thread and event, or of all samples."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a trace.

    Attributes
    ----------
    id : index in ``Trace.lanes``.
    name : what people read, e.g. "thread 0".
    group : names of the enclosing groups, outermost first.
    sort_key : order among lanes of the same group.
    attributes : e.g. ``{"raw": "24832"}`` for a truncated thread id,
        ``{"over": "3"}`` for the lane id that a stall lane belongs to.
    """

    id: int
    name: str
    kind: LaneKind
    group: tuple[str, ...] = ()
    sort_key: tuple[int, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


def lane_titles(lanes: "Lanes") -> list[str]:
    """Return a name for each lane that no other one has.

    The lane's own name where that is enough; else with its groups in front, as in
    ``Backend 1 / thread 0``, and where that is still not enough with its id.
    """
    titles = list(lanes.names)
    for i in _repeated(titles):
        titles[i] = " / ".join((*lanes.groups[lanes.group[i]], titles[i]))
    for i in _repeated(titles):
        titles[i] += f" (lane {i})"
    return titles


def _repeated(titles: Sequence[str]) -> list[int]:
    """Return the places of texts that occur several times."""
    if len(set(titles)) == len(titles):
        return []
    counts = Counter(titles)
    return [i for i, title in enumerate(titles) if counts[title] > 1]


class Lanes(Sequence[Lane]):
    """Lanes as columns; each becomes a `Lane` when it is asked for.

    A simulator may have a hundred thousand engines, and a `Lane` each would cost more
    than their spans: what looks at all lanes looks at the columns.

    Attributes
    ----------
    names : of each lane.
    kinds : int8[n], `LaneKind`.
    groups : the different groups in the order of their first lanes; `group` has the row
        of each lane's, int32[n].
    sort_keys, attributes : as in `Lane`, of each lane.
    """

    __slots__ = ("attributes", "group", "groups", "kinds", "names", "sort_keys")

    def __init__(
        self,
        names: tuple[str, ...],
        kinds: npt.NDArray[np.int8],
        groups: tuple[tuple[str, ...], ...],
        group: npt.NDArray[np.int32],
        sort_keys: tuple[tuple[int, ...], ...],
        attributes: tuple[Mapping[str, str], ...],
    ) -> None:
        self.names = names
        self.kinds = kinds
        self.groups = groups
        self.group = group
        self.sort_keys = sort_keys
        self.attributes = attributes

    @classmethod
    def of(cls, lanes: Iterable[Lane]) -> "Lanes":
        """Return `lanes` as columns. Raises ValueError where an id is not its place."""
        columns = LaneColumns()
        for i, lane in enumerate(lanes):
            if lane.id != i:
                raise ValueError(f"lane {i} has id {lane.id}")
            columns.add(
                (lane.name,), lane.kind, lane.group, (lane.sort_key,), lane.attributes
            )
        return columns.lanes()

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, at: int) -> Lane: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Lane, ...]: ...
    def __getitem__(self, at: int | slice) -> Lane | tuple[Lane, ...]:
        """Return a lane, or several. Raises IndexError for one that is not there."""
        if isinstance(at, slice):
            return tuple(self._lane(i) for i in range(len(self))[at])
        return self._lane(range(len(self))[at])

    def __iter__(self) -> Iterator[Lane]:
        return map(self._lane, range(len(self.names)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return tuple(self) == other
        if not isinstance(other, Lanes):
            return NotImplemented
        return len(self) == len(other) and self.begins_with(other)

    __hash__ = None  # type: ignore[assignment]  # nobody looks lanes up

    def begins_with(self, others: "Lanes") -> bool:
        """Return whether the first lanes are these others."""
        n = len(others)

        def alike(mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
            return mine is theirs or mine[:n] == theirs

        return (
            alike(self.names, others.names)
            and np.array_equal(self.kinds[:n], others.kinds)
            # Groups are numbered in the order of their first lanes.
            and self.groups[: len(others.groups)] == others.groups
            and np.array_equal(self.group[:n], others.group)
            and alike(self.sort_keys, others.sort_keys)
            and alike(self.attributes, others.attributes)
        )

    def group_titles(self) -> list[tuple[str, ...]]:
        """Return the group of each lane."""
        return [self.groups[i] for i in self.group.tolist()]

    def of_kind(self, *kinds: LaneKind) -> npt.NDArray[np.bool_]:
        """Return whether each lane is of one of these kinds, bool[n]."""
        is_kind = np.zeros(1 << 7, np.bool_)
        is_kind[list(kinds)] = True
        return is_kind[self.kinds]

    @property
    def is_token(self) -> npt.NDArray[np.bool_]:
        """Which lanes have a span per token, ubatch or pass, bool[n]."""
        return self.of_kind(LaneKind.TOKEN)

    @property
    def is_phase(self) -> npt.NDArray[np.bool_]:
        """Which lanes have a span per phase, bool[n]."""
        return self.of_kind(LaneKind.PHASE)

    @property
    def is_thread(self) -> npt.NDArray[np.bool_]:
        """Which lanes are threads, bool[n]."""
        return self.of_kind(LaneKind.THREAD)

    @property
    def is_engine(self) -> npt.NDArray[np.bool_]:
        """Which lanes are engines of an NPU, bool[n]."""
        return self.of_kind(LaneKind.ENGINE)

    @property
    def is_graph(self) -> npt.NDArray[np.bool_]:
        """Which lanes have a span per computation of a graph, bool[n]."""
        return self.of_kind(LaneKind.GRAPH)

    @property
    def is_stall(self) -> npt.NDArray[np.bool_]:
        """Which lanes hold stalls, bool[n]."""
        return self.of_kind(LaneKind.STALL)

    @property
    def is_command(self) -> npt.NDArray[np.bool_]:
        """Which lanes hold commands or calls of the program, bool[n]."""
        return self.of_kind(LaneKind.COMMAND)

    @property
    def is_stacks(self) -> npt.NDArray[np.bool_]:
        """Which lanes hold stacks of a profile, bool[n]."""
        return self.of_kind(LaneKind.STACKS)

    def names_of(self, is_named: npt.NDArray[np.bool_]) -> list[str]:
        """Return the names of the marked lanes; `is_named` is bool[n]."""
        return list(compress(self.names, is_named.tobytes()))

    def _lane(self, i: int) -> Lane:
        return Lane(
            i,
            self.names[i],
            LaneKind(int(self.kinds[i])),
            self.groups[self.group[i]],
            self.sort_keys[i],
            self.attributes[i],
        )


class LaneColumns:
    """Lanes that come one after the other, for `Lanes`."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._kinds = bytearray()
        self._groups: dict[tuple[str, ...], int] = {}
        self._group: list[int] = []
        self._sort_keys: list[tuple[int, ...]] = []
        self._attributes: list[Mapping[str, str]] = []

    def __len__(self) -> int:
        return len(self._names)

    def add(
        self,
        names: Sequence[str],
        kind: LaneKind,
        group: tuple[str, ...],
        sort_keys: Sequence[tuple[int, ...]],
        attributes: Mapping[str, str],
    ) -> int:
        """Add lanes that differ in name and order; return the id of the first."""
        first, n = len(self._names), len(names)
        self._names.extend(names)
        self._kinds.extend(bytes((kind,)) * n)
        self._group.extend([self._groups.setdefault(group, len(self._groups))] * n)
        self._sort_keys.extend(sort_keys)
        self._attributes.extend([attributes] * n)
        return first

    def lanes(self) -> Lanes:
        """Return the lanes so far; those that come later do not change them."""
        return Lanes(
            tuple(self._names),
            np.frombuffer(bytes(self._kinds), np.int8),
            tuple(self._groups),
            np.array(self._group, np.int32),
            tuple(self._sort_keys),
            tuple(self._attributes),
        )


_MS_SLACK = 0.001
"""Times in ms are made of stamps that are rounded to a microsecond, or of floats."""
_SHARE_SLACK = 0.005
"""Shares count as equal up to half a percent: what is busy at the edges of a span
differs between programs."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RawFileValues:
    """The file's own words, for each pattern of ``Trace.accesses`` and its rows.

    Attributes
    ----------
    has_results : whether records state what an op computes and where its sources
        lie; else each record is one access.
    """

    name: Annotated[
        Array,
        Column(
            "int32",
            "the result's name with its suffixes and blanks; where a record describes "
            "one access it is the name of that",
            -1,
            of="strings",
        ),
    ]
    layer: Annotated[
        npt.NDArray[np.int32],
        Column("int32", "as the record says, not as names say", -1),
    ]
    n_sources: Annotated[
        npt.NDArray[np.int16],
        Column("int16", "may be more than the pattern has accesses"),
    ]
    lists_experts: Annotated[
        npt.NDArray[np.bool_],
        Column("bool", "whether records of it list the router's choice"),
    ]
    source_name: Annotated[
        Array, Column("int32", "as `name`", -1, of="strings", per="pattern rows")
    ]
    source_layer: Annotated[
        npt.NDArray[np.int32],
        Column("int32", "as `layer`", -1, per="pattern rows"),
    ]
    source_index: Annotated[
        I64,
        Column("int64", "number in the tensor registry", -1, per="pattern rows"),
    ]
    source_is_zero: Annotated[
        npt.NDArray[np.bool_],
        Column(
            "bool", "whether its place in the file is given as 0", per="pattern rows"
        ),
    ]
    has_results: bool

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredMetric:
    """One figure that a file states of itself, and what its content makes of it.

    Attributes
    ----------
    name : what it is about, e.g. ``TE 0 utilization``.
    stated : the file's figure.
    computed : what follows from the content; None where that does not state it.
    unit : "" for counts, "share" (0..1), "B", "cycle", "ns", "ms" or "MiB".
    basis : what `computed` was made of, e.g. ``its spans over cycles_total``.
    place : where in the file it stands, e.g. ``summary_metrics.te.per_engine[0]``.
    agrees : whether both are equal but for rounding; None where it cannot be
        determined.
    is_least : whether the content shows that at least, and the file may state more.
    """

    name: str
    stated: float
    computed: float | None = None
    unit: str = ""
    basis: str = ""
    place: str = ""
    agrees: bool | None = None
    is_least: bool = False

    @property
    def verdict(self) -> str:
        """What `agrees` means: "agrees", "contradicts", or "unknown"."""
        if self.agrees is None:
            return "unknown"
        if not self.agrees:
            return "contradicts"
        if self.unit == "share" and not is_rounded(self.stated, self.computed or 0.0):
            return f"agrees within {format_share(_SHARE_SLACK)}"
        return "agrees"

    @property
    def stated_text(self) -> str:
        """The stated figure as people read it, with the digits of the file."""
        return figure_text(self.stated, self.unit, self._digits)

    @property
    def computed_text(self) -> str:
        """The computed figure, as precise; "at least 9" where it may be more."""
        text = figure_text(self.computed, self.unit, self._digits)
        return f"at least {text}" if self.is_least and self.agrees is None else text

    @property
    def _digits(self) -> int:
        """Digits behind the point of a share in per cent."""
        return min(max(-_exponent(self.stated) - 2, 1), 4)


def stated_figure(
    name: str,
    stated: object,
    computed: float | None,
    *,
    unit: str = "",
    basis: str = "",
    place: str = "",
    at_least: bool = False,
) -> DeclaredMetric | None:
    """Return a figure with its verdict; None where the file states no number.

    Parameters
    ----------
    at_least : the stated figure may be larger, as that of a whole run or a capacity:
        then nothing can be determined of it.
    """
    number = float(stated) if isinstance(stated, Decimal) else stated
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if not math.isfinite(number):
        return None
    agrees: bool | None = None
    if computed is not None and math.isfinite(computed):
        agrees = is_equal(number, computed, unit)
        if at_least and not agrees and number > computed:
            agrees = None
        if unit != "share" and float(computed).is_integer():
            computed = int(computed)
    else:
        computed = None
    return DeclaredMetric(
        name=name,
        stated=number,
        computed=computed,
        unit=unit,
        basis=basis,
        place=place,
        agrees=agrees,
        is_least=at_least and computed is not None,
    )


def is_equal(stated: float, computed: float, unit: str = "") -> bool:
    """Return whether a figure is what was computed, but for the rounding of its digits.

    Whole numbers of whole things must be equal. Anything else may be rounded to the
    last digit that the file prints, or cut off behind it.
    """
    slack = {"share": _SHARE_SLACK, "ms": _MS_SLACK}.get(unit, -1.0)
    if abs(computed - stated) <= slack:
        return True
    if float(stated).is_integer() and float(computed).is_integer():
        return stated == computed
    if unit == "share" and _exponent(stated) >= 0:
        return False  # no share is rounded to 0 or 1
    return is_rounded(stated, computed)


def is_rounded(stated: float, computed: float) -> bool:
    """Return whether a figure was computed, and rounded or cut at its last digit."""
    digit = 10.0 ** _exponent(stated)
    more = computed - stated
    noise = 1e-9 * abs(computed)
    return -digit / 2 - noise <= more <= digit / 2 + noise or 0 <= more < digit - noise


def _exponent(stated: float) -> int:
    """Return the power of ten of the last digit that a file prints, such as -2."""
    exponent = Decimal(repr(stated)).as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def without_verdict(figure: DeclaredMetric) -> DeclaredMetric:
    """Return a figure that is not held against content of which parts were lost."""
    if figure.agrees is not False:
        return figure
    basis = f"{figure.basis}, of which parts were lost".removeprefix(", ")
    return replace(figure, agrees=None, basis=basis)


def contradiction(figure: DeclaredMetric) -> str:
    """Return "TE 0 utilization: 72.0 % stated, 30.5 % by its spans"."""
    by = f"by {figure.basis}" if figure.basis else "computed"
    return f"{figure.name}: {figure.stated_text} stated, {figure.computed_text} {by}"


def figure_text(value: float | None, unit: str, digits: int = 1) -> str:
    """Return a figure as people read it, exactly where it is a whole number.

    Parameters
    ----------
    digits : of a share, behind the point of its per cent.
    """
    if value is None:
        return "not known"
    if unit == "share":
        smallest = 10.0**-digits
        if digits == 1 or 0 < 100 * value < smallest:
            return format_share(value) if digits == 1 else f"<{smallest:.{digits}f} %"
        return f"{100 * value:.{digits}f} %"
    is_whole = float(value).is_integer()
    if unit == "B" and is_whole and value >= 1024:
        return f"{format_count(int(value))} bytes ({format_bytes(int(value))})"
    text = format_count(int(value)) if is_whole else f"{value:,.6g}"
    names = {"cycle": "cycles", "B": "bytes"}.get(unit, unit)
    return f"{text} {names}".rstrip()


ROLES_OF_TENSORS = ("model", "map", "registry")
"""Roles of files that list the tensors of a model file, for traces that access it."""
_UNKNOWN_OP = re.compile(r"OP_(\d{1,9})\?")
MODEL_VERSION = 2
_PIECE_ROWS = 1 << 20
_MAX_NAMES = 3
INVALID_TRACE = "INVALID_TRACE"
"""Name of the markers by which a writer takes back what it wrote."""
RANGE_CODES = frozenset({"range", "range_read"})
"""Problems that say that only a part of the records was requested."""
INVALID_CODE = "invalid_trace"
"""Code of the problem that lists such markers."""
VERSION_CODES = frozenset({"unknown_version", "gguf_new_version"})
"""Problems that report a version that the reader does not know."""
OTHER_FILES = "other files"
"""What is pending while further files of a session are still to be joined."""
RUNNING = "running"
"""What is pending while the traced program runs: spans come behind those there are."""


class Severity(IntEnum):
    """How bad a problem of the data is."""

    INFO = 0
    NOTICE = 1
    DATA_LOSS = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """The word of the command line's JSON."""
        return self.name.lower()

    def counted(self, n: int) -> str:
        """Return ``2 data losses``."""
        one, many = {
            Severity.INFO: ("note", "notes"),
            Severity.NOTICE: ("notice", "notices"),
            Severity.DATA_LOSS: ("data loss", "data losses"),
            Severity.ERROR: ("error", "errors"),
        }[self]
        return f"{n} {one if n == 1 else many}"


@dataclass(frozen=True, slots=True)
class ReadWarning:
    """One kind of problem, aggregated over all its occurrences.

    Attributes
    ----------
    code : stable identifier, e.g. ``truncated_event``.
    message : what and effect, as people read it (of the first occurrence).
    count : number of occurrences.
    offset : byte offset of the first one; None where it has none.
    place : where in the file's own terms (record 17, ``timeline_events[3]``).
    remedy : what the user can do; "" where nothing needs doing.
    file : name of the file that `offset` and `place` count in; "" = the trace itself.
    """

    severity: Severity
    code: str
    message: str
    count: int = 1
    offset: int | None = None
    place: str = ""
    remedy: str = ""
    file: str = ""


def problem_counts(trace: "Trace | None") -> dict[Severity, int]:
    """Return the number of kinds of problems by severity, the worst first.

    Notes are counted only where there is nothing worse. This is how problems are
    counted wherever a trace is summed up.
    """
    if trace is None:
        return {}
    counts = Counter(warning.severity for warning in trace.warnings)
    worse = {s: n for s, n in counts.items() if s > Severity.INFO}
    return dict(sorted((worse or counts).items(), reverse=True))


def problem_count_text(counts: Mapping[Severity, int]) -> str:
    """Return ``1 error, 2 notices``; "" for none."""
    return ", ".join(severity.counted(n) for severity, n in counts.items())


def unknown_op(number: int) -> str:
    """Return ``OP_83?``, what an op number is called that no table names."""
    return f"OP_{number}?"


def unknown_op_number(name: str) -> int | None:
    """Return the number in ``OP_83?``; None where this is a name."""
    match = _UNKNOWN_OP.fullmatch(name)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class OpTable:
    """Names of op numbers.

    Attributes
    ----------
    id : e.g. ``ggml-2025-11-25-95``.
    names : names[number]; a number beyond prints as ``OP_83?``.
    source : "declared" by the file, "inferred" from its content, "override", "format"
        where the format has one numbering only, or "spelled" where the file has the
        names themselves and numbers only stand for them here.
    margin : log-likelihood lead over the best table that decodes differently;
        None where nothing was inferred.
    """

    id: str
    names: tuple[str, ...]
    source: str = "declared"
    margin: float | None = None

    def name(self, op: int) -> str:
        """Return the name of `op`; "" for -1, ``OP_83?`` for an unknown number."""
        if op < 0:
            return ""
        if op < len(self.names) and self.names[op]:
            return self.names[op]
        return unknown_op(op)


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record of the file, decoded for people.

    Attributes
    ----------
    offset : byte offset in the file.
    data : its raw bytes (cut at 4 KiB).
    fields : (name, value as text, byte offset in the record or -1, byte length).
    """

    offset: int
    data: bytes
    fields: tuple[tuple[str, str, int, int], ...]


class RecordAccess(Protocol):
    """Gives back single records of the file, for tooltips and the hex pane.

    Reads the file with ordinary reads when asked, so that a file that changed
    meanwhile gives an error and never a crash.
    """

    def view(self, record: int) -> RecordView:
        """Return record `record`. Raises ReadError where it is gone."""
        ...


GRAPH_RECORDS = "graph_records"
LIST_RECORDS = "extension_records"
"""In `TraceInfo.summary`: how many records are of whole graphs, or list choices of
experts; all others are of ops."""


@dataclass(frozen=True, slots=True, eq=False)
class TraceInfo:
    """Where a trace came from.

    Attributes
    ----------
    n_records : what the file holds in its own terms (events, records, lines).
    n_passes : passes over the graph, where the format shows them.
    producer : facts the file states of itself (model, run id …).
    options : reader options that shaped the trace (op table, inclusive end …).
    summary : figures that the file claims of itself, for cross-checks; how many of
        the records are `GRAPH_RECORDS` and `LIST_RECORDS`.
    stated : those that its content can be held against, in the order of the file.
    folder : the folder that was opened as one session; None = files were named.
    """

    paths: tuple[Path, ...]
    reader_id: str
    format: str
    format_version: str
    byte_size: int
    n_records: int = 0
    n_passes: int = 0
    producer: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    summary: Mapping[str, object] = field(default_factory=dict)
    stated: tuple[DeclaredMetric, ...] = ()
    modified_ns: int = 0
    folder: Path | None = None

    @property
    def opened(self) -> tuple[Path, ...]:
        """What a command line names to open the same: the folder, or all files."""
        return self.paths if self.folder is None else (self.folder,)

    @property
    def n_op_records(self) -> int:
        """Records less graphs as wholes and those that list choices of experts."""
        lists, graphs = self._claimed(LIST_RECORDS), self._claimed(GRAPH_RECORDS)
        return self.n_records - lists - graphs

    @property
    def records_by_kind(self) -> dict[str, int]:
        """How many records are "ops", "graphs", "lists of experts".

        Empty where all are of one kind, in the file's own terms.
        """
        lists, graphs = self._claimed(LIST_RECORDS), self._claimed(GRAPH_RECORDS)
        if not lists and GRAPH_RECORDS not in self.summary:
            return {}
        n_ops = self.n_records - lists - graphs
        return {"ops": n_ops, "graphs": graphs, "lists of experts": lists}

    def _claimed(self, key: str) -> int:
        n = self.summary.get(key, 0)
        return n if isinstance(n, int) else 0

    @property
    def name(self) -> str:
        """The file's name, with its folder where that distinguishes twins.

        Traces and graphs of an experiment are all called ``token-00000.json``.
        """
        if not self.paths:
            return self.format
        path = self.paths[0]
        inner = path.parent.name in ("traces", "graphs")
        return f"{path.parent.name}/{path.name}" if inner else path.name


@dataclass(frozen=True, slots=True, eq=False)
class JoinedFile:
    """One of the files that a trace was joined from.

    Attributes
    ----------
    role : "trace", "model", "map", "registry", "buffers", "graph", "experts",
        "recording", "extents".
    shift : ticks added to the file's own times so that all parts share one zero.
    """

    info: TraceInfo
    role: str
    shift: int = 0


@dataclass(frozen=True, slots=True)
class MatchReport:
    """How well one part fitted the rest, for people and for ``ggscope info``.

    Attributes
    ----------
    kind : "map" (accesses to tensors of a model or map), "graph" (spans to graph
        nodes), "registry" (accesses to a registry), "names" (truncated names) or
        "recording" (ops to the nodes that a sidecar lists).
    part : name of the file that was joined.
    n_found, n_all : how many of all accesses, spans or names found their partner.
    rules : how many by which rule: "name", "name without suffix", "unique prefix",
        "offset", "pointer", "order" …; in the order in which the rules are tried.
    delta : bytes added to the map's offsets; None where that means nothing.
    n_agree : how many offsets agree with `delta`.
    n_nodes : nodes of graphs that compute something.
    unrecorded : how many of these have no record, by op.
    unrecorded_nodes : their ids.
    truncated_nodes : ids of nodes whose record does not list all their sources.
    """

    kind: str
    part: str
    n_found: int
    n_all: int
    rules: Mapping[str, int] = field(default_factory=dict)
    delta: int | None = None
    n_agree: int = 0
    n_nodes: int = 0
    unrecorded: Mapping[str, int] = field(default_factory=dict)
    unrecorded_nodes: tuple[int, ...] = ()
    truncated_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class Trace:
    """All tables of one trace. Arrays are read-only.

    Attributes
    ----------
    extent : from the first to the last tick of any span, marker or counter.
    ops : names for the op numbers, or None where the format has no ops.
    records : access to single records, or None.
    pending : parts that are still being read: "spans" (more of them follow, and
        their ids may change until all are there), "names", "accesses",
        `OTHER_FILES`, `RUNNING`.
    read_until : while "spans" are pending, the tick up to which all spans are
        known; the extent already reaches to the end of the file where the reader
        could look there. Of a running program, the tick up to which records were
        received. None once every span is known.
    generation : grows with every snapshot of the same file.
    models : model files that ``tensors.file`` refers to.
    routing : choices of experts, where recorded.
    parts : the files that were joined into this trace; empty for a single file.
    joins : how well they fitted.
    claims : the file's own words for each access pattern, or None.
    batch_tokens : what each ubatch of a recording computes; without rows elsewhere.
        Where it has some, `token` of spans is the number of a ubatch.
    token_sequences : of which sequences these tokens are.
    residency : what of the model files was in the page cache meanwhile, or None.
    run : of a sidecar alone: what the records of its recording are understood by.
    recordings : settings, end and losses of each recording in it, where it states them.
    record_count : records of ops that are there and that were lost, where the tracer
        itself counts them; None elsewhere.
    log : requests, memory and facts, where it is the log of a server; else None.
    bench : tests, where it is what llama-bench printed; else None.
    importance : how strongly calibration data used tensors and experts; or None.
    expert_counts : how often experts were chosen, where launches count it; or None.
    backend_ops : which backend ran which op, as ggml lists it itself; or None.
    storage : requests to storage and the files they are of, or None.
    open_spans : spans of a running program that have begun and not ended; they have
        no id yet, and their end is the tick up to which records were received.
    """

    info: TraceInfo
    clock: Clock
    extent: TimeRange
    strings: StringTable
    lanes: Lanes
    spans: Spans
    markers: Markers
    accesses: Accesses
    counters: tuple[CounterSeries, ...]
    flows: Flows
    tensors: Tensors
    buffers: Buffers
    graphs: tuple[Graph, ...]
    warnings: tuple[ReadWarning, ...]
    ops: OpTable | None = None
    records: RecordAccess | None = None
    pending: frozenset[str] = frozenset()
    generation: int = 0
    read_until: int | None = None
    models: tuple[ModelFile, ...] = ()
    routing: Routing = field(default_factory=Routing.blank)
    parts: tuple[JoinedFile, ...] = ()
    joins: tuple[MatchReport, ...] = ()
    claims: RawFileValues | None = None
    residency: Residency | None = None
    open_spans: Spans = field(default_factory=Spans.blank)
    run: Run | None = None
    recordings: tuple[RecordingInfo, ...] = ()
    record_count: RecordCount | None = None
    log: ServerLog | None = None
    bench: BenchRuns | None = None
    importance: Importance | None = None
    expert_counts: ExpertCounts | None = None
    backend_ops: BackendOps | None = None
    storage: Storage | None = None
    batch_tokens: BatchTokens = field(default_factory=BatchTokens.blank)
    token_sequences: TokenSequences = field(default_factory=TokenSequences.blank)

    def __post_init__(self) -> None:
        if not isinstance(self.lanes, Lanes):  # a plug-in's own tuple
            object.__setattr__(self, "lanes", Lanes.of(self.lanes))

    def __repr__(self) -> str:
        """Return what it is in one line: its tables fill pages."""
        names = ", ".join(path.name for path in self.info.paths[:_MAX_NAMES])
        if len(self.info.paths) > _MAX_NAMES:
            names += ", …"
        counts = (
            (self.info.n_records, "record"),
            (len(self.spans), "span"),
            (len(self.lanes), "lane"),
            (len(self.warnings), "warning"),
        )
        counted = ", ".join(f"{n:,} {what}{'s' * (n != 1)}" for n, what in counts)
        took = format_duration(self.extent.duration, self.clock.unit)
        return one_line(f"<Trace {self.info.format} {names!r}: {counted}, {took}>")

    @property
    def stories(self) -> tuple[RecordingInfo, ...]:
        """Return `recordings`: its name in 0.1.0, for plug-ins until 0.3.0."""
        return self.recordings

    @property
    def is_partial(self) -> bool:
        """Whether more spans follow: analyses of this trace are not worth doing."""
        return "spans" in self.pending

    @property
    def is_unread(self) -> bool:
        """Whether more of its files will be read: what it lacks may still come."""
        return bool(self.pending - {RUNNING})

    @property
    def is_running(self) -> bool:
        """Whether more spans will come behind these, which keep their ids."""
        return RUNNING in self.pending

    @property
    def awaits_files(self) -> bool:
        """Whether more files follow: what a model says of tensors is missing."""
        return OTHER_FILES in self.pending

    @property
    def awaits_accesses(self) -> bool:
        """Whether spans, their accesses or the model that these are to follow."""
        return self.is_partial or self.awaits_files or "accesses" in self.pending

    @property
    def may_read_model(self) -> bool:
        """Whether an access may be to a model file: then a model or map adds facts.

        One that names no tensor and no file, such as a copy by CUDA, is to none.
        """
        space, tensor = self.accesses.patterns.space, self.accesses.patterns.tensor
        may_be = (space == Space.UNKNOWN) & (tensor >= 0)
        return bool(((space == Space.FILE) | may_be).any())

    def may_gain_from(self, role: str) -> bool:
        """Return whether a file of a role may add facts to this trace."""
        if role in ROLES_OF_TENSORS:
            return self.may_read_model or self.storage is not None
        if role == "extents":
            return self.storage is not None
        if role in ("importance", "experts"):
            return len(self.tensors) > 0
        return True

    def op_name(self, op: int) -> str:
        """Return the name of op number `op` under the trace's table."""
        if op < 0:
            return ""
        return self.ops.name(op) if self.ops is not None else unknown_op(op)

    def span_name(self, span: int) -> str:
        """Return the name of a span; its op's name, then a dash, if it has none."""
        text = self.strings[int(self.spans.name[span])]
        return text or self.op_name(int(self.spans.op[span])) or "–"

    def record_of(self, span: int) -> int:
        """Return the record number of a span in the file's own terms; -1 unknown."""
        record = self.spans.record
        return span if record is None else int(record[span])

    def span_of(self, record: int) -> int:
        """Return the first span made of a record, by its number; -1 for none."""
        column = self.spans.record
        if column is None:
            return record if 0 <= record < len(self.spans) else -1
        # A piece at a time, so that the first hit is soon there.
        for begin in range(0, len(column) if record >= 0 else 0, _PIECE_ROWS):
            hits = np.flatnonzero(column[begin : begin + _PIECE_ROWS] == record)
            if len(hits):
                return begin + int(hits[0])
        return -1

    def quality_counts(self) -> dict[str, int]:
        """Return the number of spans of each quality, by lower-case name."""
        counts = np.bincount(quality_of(self.spans.flags), minlength=len(Quality))
        return {q.word: int(counts[q]) for q in Quality}

    def stated_figures(self) -> tuple[tuple[str, DeclaredMetric], ...]:
        """Return each stated figure with the name of its file; "" for a file alone."""
        if not self.parts:
            return tuple(("", figure) for figure in self.info.stated)
        infos = [part.info for part in self.parts]
        return tuple((info.name, figure) for info in infos for figure in info.stated)

    def freeze(self) -> None:
        """Mark every array read-only."""
        tables: tuple[Any, ...] = (self.spans, self.open_spans, self.markers)
        tables += (self.accesses, self.flows, self.tensors)
        may_lack = (self.claims, self.residency, self.run)
        there = tuple(table for table in may_lack if table is not None)
        tokens = (self.batch_tokens, self.token_sequences)
        others = (self.buffers, self.routing, *self.counters, *self.graphs, *there)
        listing = () if self.backend_ops is None else (self.backend_ops,)
        requests: tuple[Any, ...] = () if self.log is None else (self.log.requests,)
        if self.storage is not None:
            extents = (file.extents for file in self.storage.files)
            requests = (*requests, self.storage.requests, *extents)
        for table in (*tables, *tokens, *others, *requests, *listing):
            freeze(table)

    def check(self) -> list[str]:
        """Return every broken invariant as a sentence; empty if all hold."""
        return _check(self)


_make_trace = Trace.__init__


@wraps(_make_trace)
def _make_trace_by_old_names(self: Trace, *values: Any, **named: Any) -> None:
    """Make a trace, also by keywords of 0.1.0, for plug-ins until 0.3.0."""
    if "stories" in named:
        named["recordings"] = named.pop("stories")
    _make_trace(self, *values, **named)


Trace.__init__ = _make_trace_by_old_names  # type: ignore[method-assign]


def _listing_faults(listing: BackendOps) -> list[str]:
    known = {
        "texts": len(listing.texts),
        "listed ops": len(listing.ops),
        "splits": len(listing.splits),
    }
    broken: list[str] = []
    for name in ("ops", "sources", "splits", "inputs"):
        table = getattr(listing, name)
        broken += broken_columns(f"listed {name}", table, {"": len(table)}, known)
    return broken


def _check(trace: Trace) -> list[str]:
    spans, markers, accesses = trace.spans, trace.markers, trace.accesses
    n_patterns, n_rows = len(accesses.first) - 1, len(accesses.patterns)
    known = {
        "strings": len(trace.strings),
        "lanes": max(len(trace.lanes), 1),
        "tensors": len(trace.tensors),
        "buffers": len(trace.buffers),
        "models": len(trace.models),
        "spans": len(spans),
        "patterns": n_patterns,
        "batch_tokens": len(trace.batch_tokens),
    }
    rows = {
        "spans": len(spans),
        "patterns": n_patterns,
        "patterns and one more": n_patterns + 1,
        "rows of patterns": n_rows,
    }
    broken: list[str] = []
    for name, table in (
        ("spans", spans),
        ("open_spans", trace.open_spans),
        ("markers", markers),
        ("accesses.patterns", accesses.patterns),
        ("accesses.loose", accesses.loose),
        ("accesses.loose.what", accesses.loose.what),
        ("flows", trace.flows),
        ("tensors", trace.tensors),
        ("buffers", trace.buffers),
        ("routing", trace.routing),
        ("batch_tokens", trace.batch_tokens),
        ("token_sequences", trace.token_sequences),
        *((("storage", trace.storage.requests),) if trace.storage else ()),
    ):
        broken += broken_columns(name, table, {"": len(table)}, known)
    broken += broken_columns("accesses", accesses, rows, known)
    if n_patterns < 0 or accesses.first[0] or bool((np.diff(accesses.first) < 0).any()):
        broken.append("accesses.first does not ascend from 0")
    elif int(accesses.first[-1]) != n_rows:
        broken.append("accesses.first does not end at the number of pattern rows")
    if trace.claims is not None:
        rows = {"": n_patterns, "pattern rows": n_rows}
        broken += broken_columns("claims", trace.claims, rows, known)
    for graph in trace.graphs:
        rows = {"": len(graph), "edges": graph.n_edges}
        broken += broken_columns("graph", graph, rows, known | {"nodes": len(graph)})
    broken += [] if trace.backend_ops is None else _listing_faults(trace.backend_ops)
    for i, series in enumerate(trace.counters):
        if series.id != i:
            broken.append(f"counter {i} has id {series.id}")
        name = f"counter {series.name}"
        broken += broken_columns(name, series, {"": len(series)}, known)
        if bool((np.diff(series.time) < 0).any()):
            broken.append(f"{name} is not in time order")
    if spans.end.shape == spans.start.shape and bool((spans.end < spans.start).any()):
        broken.append("a span ends before it starts")
    if broken:
        return broken
    for name, start, end in (
        ("a span", spans.start, spans.end),
        ("a marker", markers.time, markers.time),
    ):
        low, high = trace.extent.start, trace.extent.end
        if len(start) and (int(start.min()) < low or int(end.max()) > high):
            broken.append(f"{name} lies outside the extent")
    return broken
