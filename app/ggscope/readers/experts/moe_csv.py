"""Reader of routing tables: which expert of which layer was chosen, a row each.

Source of the format: ``examples/moe-trace`` of llama.cpp (pull request 28544), rows of
``layer,expert`` in the order of evaluation. Tables with more columns are read by the
names in their first line: token or step, rank or slot, score or weight. The
``route_trace`` of BigMoeOnEdge (docs/telemetry.md there) also says whether an expert
was in memory when it was chosen, what was read for it, and whether it was dropped.
"""

import re
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.tables import Array, Bools
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import format_bytes, format_count
from ggscope.readers.api import (
    BOM,
    HEAD_BYTES,
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.chunked import ChunkedTable
from ggscope.readers.common.csv_rows import (
    BLOCK_BYTES,
    CsvBlocks,
    CsvRows,
    comment_facts,
    table_estimate,
    warn_of_open_end,
)
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.experts import INFO
from ggscope.readers.source import Source

_COLUMNS = {
    "layer": ("layer", "layer_id", "il"),
    "expert": ("expert", "expert_id", "expert_idx"),
    "token": ("token", "token_id", "token_idx", "step"),
    "turn": ("turn",),
    "rank": ("rank", "slot", "expert_rank"),
    "score": ("score", "weight", "prob", "routing_score"),
    "dropped": ("dropped",),
    "phase": ("phase",),
    "residency": ("residency",),
}
_DTYPES: dict[str, npt.DTypeLike] = {
    "token": np.int32,
    "turn": np.int32,
    **dict.fromkeys(("layer", "expert", "rank", "dropped"), np.int16),
    "score": np.float32,
    "phase": np.int8,
    "residency": np.int8,
}
_LIMITS = {
    "layer": 1 << 15,
    "expert": 1 << 15,
    "token": 1 << 31,
    "turn": 1 << 31,
    "rank": 1 << 15,
    "dropped": 1 << 15,
    "phase": 2,
    "residency": 3,
}
_RESIDENCY = ("phase", "residency", "expert_bytes")
_MAX_BYTES = 1 << 36
_HEADER = re.compile(rb"^[ \t]*([A-Za-z_]\w*(?:[ \t]*,[ \t]*[A-Za-z_]\w*)+)[ \t]*\r?$")
_PAIR = re.compile(rb"[ \t]*\d{1,5}[ \t]*,[ \t]*\d{1,5}[ \t]*\r?")
_FITTING_NAME = re.compile(r"moe|expert|rout", re.IGNORECASE)
_LAYER = re.compile(
    rb"^# layer=(\d{1,9}) expert_bytes=(\d{1,18}) dense_bytes=(\d{1,18})\r?$",
    re.MULTILINE,
)
_ROW_BYTES = 35


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Where the columns are.

    Attributes
    ----------
    position : of each known column.
    n_columns : of all, known or not.
    names : as the first line has them; () without one.
    start : where the rows begin.
    n_before : lines before the one with the names, that and comments aside.
    """

    position: dict[str, int]
    n_columns: int
    names: tuple[str, ...] = ()
    start: int = 0
    n_before: int = 0


class MoeCsvReader:
    """Reads routing tables."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the names of its columns, or by rows of two numbers."""
        if b"\0" in head.data:
            return NOT_MINE
        if _layout_with_names(head.data) is not None:
            return Sniff(90, "columns layer and expert of a routing table")
        lines = [
            line
            for line in head.data.removeprefix(BOM).split(b"\n")[:-1]
            if line.strip() and not line.startswith(b"#")
        ]
        fitting = sum(_PAIR.fullmatch(line) is not None for line in lines)
        if not lines or fitting * 10 < len(lines) * 9:
            return NOT_MINE
        is_named = _FITTING_NAME.search(head.name) is not None
        reason = "rows of two numbers, as layer and expert of a routing table"
        return Sniff(60 if is_named else 25, reason)

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by the length of its rows."""
        return table_estimate(head, _ROW_BYTES, 2, 16 * BLOCK_BYTES)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of no spans with the choices of the routers.

        Raises
        ------
        CorruptError
            If there is no row.
        """
        context.progress(0, source.size)
        layout = _layout(source)
        table = _RoutingTable(layout)
        _read_rows(source, context, layout, table)
        if not table.n_rows:
            raise CorruptError(
                "no line has a layer and an expert.",
                offset=0,
                hint="Is this a routing table?",
            )
        builder = TraceBuilder()
        builder.routing = replace(
            table.routing(), expert_bytes=_expert_bytes(source, layout)
        )
        table.note(builder)
        return file_trace(
            builder, INFO, source, table.n_rows, {"rows": table.n_rows},
            producer=_facts(source, layout) | table.facts(),
        )  # fmt: skip


def _facts(source: Source, layout: TableColumns) -> dict[str, str]:
    head = source.head(min(layout.start, HEAD_BYTES))
    facts = comment_facts(head) | _layer_facts(head)
    return facts | ({"columns": ", ".join(layout.names)} if layout.names else {})


def _layer_facts(head: bytes) -> dict[str, str]:
    """Return the bytes of weights that the lines of layers state, over all layers."""
    layers = _LAYER.findall(head)
    if not layers:
        return {}
    _, expert, dense = ([int(n) for n in sizes] for sizes in zip(*layers, strict=True))
    smallest, largest = format_bytes(min(expert)), format_bytes(max(expert))
    return {
        "bytes_of_an_expert": smallest
        if smallest == largest
        else f"{smallest} to {largest}",
        "dense_bytes": f"{format_bytes(sum(dense))} in {format_count(len(dense))} "
        "layers",
    }


def _expert_bytes(source: Source, layout: TableColumns) -> tuple[tuple[int, int], ...]:
    """Return layers and the bytes of one of their experts, as comments state them."""
    head = source.head(min(layout.start, HEAD_BYTES))
    stated = {int(layer): int(size) for layer, size, _ in _LAYER.findall(head)}
    return tuple(
        (layer, size)
        for layer, size in sorted(stated.items())
        if layer < _LIMITS["layer"] and 0 < size < _MAX_BYTES
    )


@dataclass(slots=True)
class _Residency:
    """Counts whether chosen experts were in memory, as the table says.

    Attributes
    ----------
    position : of those of its columns that the table has.
    counts : int64[phase, residency], choices.
    n_bytes : int64[phase], read for them.
    """

    position: dict[str, int]
    counts: Array = field(default_factory=lambda: np.zeros((2, 3), np.int64))
    n_bytes: Array = field(default_factory=lambda: np.zeros(2, np.int64))

    @classmethod
    def of(cls, names: tuple[str, ...]) -> "_Residency":
        """Return one for a table of these columns."""
        known = [name for name in _RESIDENCY if name in names]
        has_both = set(known) >= {"phase", "residency"}
        return cls({name: names.index(name) for name in known if has_both})

    def take(self, rows: CsvRows) -> None:
        """Count the rows of a block whose numbers are known ones."""
        if not self.position:
            return
        (phase, has_phase), (state, has_state) = (
            rows.integers(self.position[name]) for name in ("phase", "residency")
        )
        good = has_phase & has_state & (phase < 2) & (state < 3)
        np.add.at(self.counts, (phase[good], state[good]), 1)
        if "expert_bytes" in self.position:
            size, has_size = rows.integers(self.position["expert_bytes"])
            good &= has_size & (size < _MAX_BYTES)
            np.add.at(self.n_bytes, phase[good], size[good])

    def facts(self) -> dict[str, str]:
        """Return what was counted, "23,040 chosen: 18,872 hit, …", by phase."""
        facts = {}
        for name, counts, n_bytes in zip(
            ("prompt", "generation"), self.counts, self.n_bytes, strict=True
        ):
            if n := int(counts.sum()):
                missed, hit, fetched = counts.tolist()
                facts[f"{name}_experts"] = (
                    f"{format_count(n)} chosen: {format_count(hit)} hit, "
                    f"{format_count(fetched)} prefetch hit, {format_count(missed)} miss"
                )
                if "expert_bytes" in self.position:
                    facts[f"{name}_experts_read"] = format_bytes(int(n_bytes))
        return facts


@dataclass(slots=True)
class _RoutingTable:
    """Takes rows block by block."""

    layout: TableColumns
    n_rows: int = 0
    n_lines: int = 0
    n_strays: int = 0
    first_stray: int = -1
    n_dropped: int = 0
    n_bad_scores: int = 0
    first_bad_score: int = -1
    has_open_end: bool = False
    unread: set[str] = field(default_factory=set)
    residency: _Residency = field(init=False)
    _columns: ChunkedTable = field(init=False)

    def __post_init__(self) -> None:
        self.residency = _Residency.of(self.layout.names)
        dtypes = {name: _DTYPES[name] for name in self.layout.position}
        self._columns = ChunkedTable(**dtypes)

    def take(self, rows: CsvRows) -> None:
        """Take the rows of a block; lines that are none are counted."""
        values, good = self._values(rows)
        self.residency.take(rows)
        strays = np.union1d(rows.strays, rows.line[~good])
        if len(strays):
            self.n_strays += len(strays)
            if self.first_stray < 0:
                self.first_stray = self.n_lines + int(strays[0])
        if "dropped" in values:
            self.n_dropped += int(np.count_nonzero(values["dropped"][good] > 0))
        self._columns.append(**{name: column[good] for name, column in values.items()})
        self.n_rows += int(np.count_nonzero(good))
        self.n_lines += rows.n_lines

    def routing(self) -> Routing:
        """Return the choices, in file order."""
        n = self.n_rows

        def column(name: str, missing: float = -1) -> Array:
            if name in self.layout.position:
                return self._columns.pop(name)
            return np.full(n, missing, _DTYPES[name])

        def coded(name: str) -> Array | None:
            values = column(name) if name in self.layout.position else None
            if values is None or (values >= 0).any():
                return values
            self.unread.add(name)  # words or codes of another program
            return None

        return Routing(
            time=np.full(n, -1, np.int64),
            span=np.full(n, -1, np.int64),
            token=self._tokens(column("token"), column("turn")),
            layer=column("layer"),
            expert=column("expert"),
            rank=column("rank"),
            score=column("score", np.nan),
            is_used=column("dropped", 0) <= 0,
            phase=coded("phase"),
            residency=coded("residency"),
        )

    def _tokens(self, token: Array, turn: Array) -> Array:
        """Return the numbers of tokens; those of later turns follow on."""
        if turn.max(initial=0) <= 0:
            return token
        pairs = turn.astype(np.int64) << 32 | (token.astype(np.int64) + 1)
        number = np.unique(pairs, return_inverse=True)[1].reshape(-1)
        return np.where(token < 0, -1, number).astype(np.int32)

    def facts(self) -> dict[str, str]:
        """Return what the columns beside the choices say."""
        facts = self.residency.facts()
        if "dropped" in self.layout.position:
            facts["dropped_experts"] = format_count(self.n_dropped)
        return facts

    def note(self, builder: TraceBuilder) -> None:
        """Say what was skipped and what the table does not have."""
        builder.warn(
            Severity.DATA_LOSS,
            "stray_line",
            "lines without layer and expert were skipped.",
            count=self.n_strays,
            place=f"line {self.first_stray + 1:,}",
        )
        builder.warn(
            Severity.NOTICE,
            "bad_score",
            "scores are infinite or out of range; they are treated as unknown.",
            count=self.n_bad_scores,
            place=f"line {self.first_bad_score + 1:,}",
        )
        if self.has_open_end:
            warn_of_open_end(builder, f"line {self.n_lines + 1:,}")
        builder.warn(
            Severity.INFO,
            "lines_before_table",
            "lines before the column header were skipped.",
            count=self.layout.n_before,
            place="line 1",
        )
        known = {p for n, p in self.layout.position.items() if n not in self.unread}
        if self.residency.counts.any():
            known.update(self.residency.position.values())
        ignored = [n for i, n in enumerate(self.layout.names) if i not in known]
        if ignored:
            builder.warn(
                Severity.INFO,
                "unknown_column",
                f"unsupported columns: {', '.join(ignored)}.",
                count=len(ignored),
            )
        if "token" not in self.layout.position:
            builder.warn(
                Severity.INFO,
                "tokens_not_recorded",
                "the table has no token column; per-token statistics are not "
                "available.",
            )

    def _values(self, rows: CsvRows) -> tuple[dict[str, Array], Bools]:
        good = np.ones(len(rows.line), np.bool_)
        values: dict[str, Array] = {}
        for name, position in self.layout.position.items():
            if name == "score":
                values[name] = self._scores(rows, position)
                continue
            value, is_number = rows.integers(position)
            is_number &= value < _LIMITS[name]
            values[name] = np.where(is_number, value, -1).astype(_DTYPES[name])
            if name in ("layer", "expert"):
                good &= is_number
        return values, good

    def _scores(self, rows: CsvRows, position: int) -> Array:
        """Return scores; NaN for those that are none, or beyond all scores."""
        with np.errstate(over="ignore"):
            scores = rows.decimals(position).astype(np.float32)
        wrong = np.flatnonzero(np.isinf(scores))
        if len(wrong):
            self.n_bad_scores += len(wrong)
            if self.first_bad_score < 0:
                self.first_bad_score = self.n_lines + int(rows.line[wrong[0]])
            scores[wrong] = np.nan
        return scores


def _layout(source: Source) -> TableColumns:
    head = source.head(HEAD_BYTES)
    table_columns = _layout_with_names(head)
    if table_columns is not None:
        return table_columns
    start = len(BOM) if head.startswith(BOM) else 0
    return TableColumns({"layer": 0, "expert": 1}, 2, start=start)


def _layout_with_names(head: bytes) -> TableColumns | None:
    """Return the layout that a line of column names shows; None if there is none."""
    start, n_before = len(BOM) if head.startswith(BOM) else 0, 0
    for line in head[start:].splitlines(keepends=True):
        match = _HEADER.match(line.rstrip(b"\n"))
        start += len(line)
        if match is not None:
            names = tuple(n.strip().decode().lower() for n in match[1].split(b","))
            position = {
                column: names.index(name)
                for column, spellings in _COLUMNS.items()
                for name in spellings[::-1]
                if name in names
            }
            if {"layer", "expert"} <= position.keys():
                return TableColumns(position, len(names), names, start, n_before)
        n_before += bool(line.strip()) and not line.startswith(b"#")
    return None


def _read_rows(
    source: Source, context: ReadContext, layout: TableColumns, table: _RoutingTable
) -> None:
    table.n_lines = source.head(layout.start).count(b"\n")
    blocks = CsvBlocks(source, context, layout.start, layout.n_columns)
    for rows in blocks:
        table.take(rows)
    table.has_open_end = blocks.has_open_end
