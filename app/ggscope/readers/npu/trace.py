"""From columns of NPU events to the tables of a trace, its counters too."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.builder import TraceBuilder
from ggscope.model.npu import (
    DRAM_READ,
    DRAM_WRITE,
    HIGH_UTILISATION,
    KV_BYTES,
    STALL_CYCLES,
)
from ggscope.model.tables import (
    I64,
    AccessColumns,
    Accesses,
    Array,
    CounterShape,
    FlatAccesses,
    Flows,
    Space,
    SpanFlag,
    distinct,
    looked_up,
    narrow,
    no_accesses,
    places_among,
    taken,
)
from ggscope.model.trace import LaneKind, OpTable, Severity
from ggscope.model.units import TimeRange, format_share
from ggscope.readers.chunked import ChunkedTable
from ggscope.readers.common.interval_pairing import neighbours
from ggscope.readers.npu.columns import EventColumns
from ggscope.readers.npu.intervals import (
    EngineFigures,
    KeyLanes,
    PhaseBands,
    busy_cycles,
    by_lane_and_start,
    covering,
    engine_name,
    last_before,
    linked,
    most_at_once,
    phase_bands,
    split_at,
)
from ggscope.readers.npu.schema import (
    COMMAND_NAME,
    COMMANDS,
    ENGINES,
    PHASE_NAMES,
    ROLES,
)
from ggscope.readers.source import Source

F64 = npt.NDArray[np.float64]
_TAIL_BYTES = 64 * 1024
_CYCLE = re.compile(rb'"(?:start_cycle|end_cycle|cycle)"\s*:\s*(\d{1,18})(?=[\s,}])')
_TOTAL = re.compile(rb'"cycles_total"\s*:\s*(\d{1,18})(?=[\s,}])')
OP_TABLE_ID = "npu"
PREFILL_DONE = "PREFILL_DONE"
_DERIVED = int(SpanFlag.INFERRED_START | SpanFlag.INFERRED_END)
_EXACT_CYCLES = 1 << 50
"""Below it pictures, which count in floats, distinguish each cycle from the next."""
_NO_KEY = -(1 << 62)
_START, _END = COMMANDS.index("START"), COMMANDS.index("END")


def add_counters(
    builder: TraceBuilder,
    columns: EventColumns,
    origin: int,
    begin: int,
    finish: int,
    peak_bytes: float | None,
) -> dict[str, object]:
    """Add a counter for each figure that any sample states.

    Parameters
    ----------
    origin : the file's cycle that is tick 0.
    begin, finish : ticks of the first and the last event.
    peak_bytes : bytes per cycle that DRAM can move; None if not stated.

    Returns
    -------
    Totals, to hold against the file's own summary.
    """
    _add_power(builder, columns, origin)
    samples = columns.samples
    if not len(samples):
        return {}
    time = samples.column("time") - origin
    order = np.argsort(time, kind="stable")
    time, window = time[order], samples.column("window")[order]
    for column, name, unit in (
        ("read", DRAM_READ, "B"),
        ("write", DRAM_WRITE, "B"),
        ("stall", STALL_CYCLES, "cycle"),
        ("kv", KV_BYTES, "B"),
    ):
        value = samples.column(column)[order]
        if not np.isnan(value).all():
            builder.add_counter(
                name, unit, CounterShape.RATE, time, value, window=window
            )
    read, write = samples.column("read")[order], samples.column("write")[order]
    totals: dict[str, object] = {}
    if _note_overlaps(builder, time, window, origin):
        # Sums would count some bytes twice.
        totals["samples_overlap"] = True
    else:
        for key, value in (
            ("dram_bytes_read", read),
            ("dram_bytes_write", write),
            ("kv_bytes", samples.column("kv")[order]),
        ):
            if not np.isnan(value).all():
                # Figures near the end of the scale: a sum of them is infinite.
                with np.errstate(over="ignore"):
                    totals[key] = float(np.nansum(value))
        is_known = not np.isnan(read).any() and not np.isnan(write).any()
        totals["samples_cover_run"] = is_known and _covers(time, window, begin, finish)
    known = ~(np.isnan(read) & np.isnan(write))
    if peak_bytes is not None and known.any():
        # Figures near the end of the scale: a sum of them is infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.nan_to_num(read) + np.nan_to_num(write)
            share = np.where(known, moved / (window * peak_bytes), np.nan)
        held_until = time + window
        _add_utilisation(builder, time, held_until, share, finish)
        totals |= _note_utilisation(builder, time, share, origin)
    return totals


def _note_overlaps(builder: TraceBuilder, time: I64, window: I64, origin: int) -> bool:
    """Note windows that share cycles, and those that are there twice.

    Parameters
    ----------
    time, window : int64[n], in order of time.
    """
    same = np.zeros(len(time), np.bool_)
    same[1:] = (time[1:] == time[:-1]) & (window[1:] == window[:-1])
    reach = np.maximum.accumulate(time + window)
    into = np.zeros(len(time), np.bool_)
    into[1:] = (time[1:] < reach[:-1]) & ~same[1:]
    for rows, code, what in (
        (np.flatnonzero(same), "bandwidth_window_repeated", "occurs more than once"),
        (
            np.flatnonzero(into),
            "bandwidth_windows_overlap",
            "overlaps the one before it",
        ),
    ):
        if len(rows):
            first = int(rows[0])
            builder.warn(
                Severity.ERROR,
                code,
                f"the bandwidth window of {int(window[first]):,} cycles at cycle "
                f"{int(time[first]) + origin:,} {what}: sums over samples count bytes "
                "twice",
                count=len(rows),
                place="bandwidth_samples",
            )
    return bool(same.any() or into.any())


def _covers(time: I64, window: I64, begin: int, finish: int) -> bool:
    """Return whether windows in order of time leave out no tick between two."""
    end = time + window
    return bool(
        time[0] <= begin and (time[1:] <= end[:-1]).all() and int(end[-1]) >= finish
    )


def _add_power(builder: TraceBuilder, columns: EventColumns, origin: int) -> None:
    instants = columns.instants
    power, time = instants.column("power"), instants.column("time") - origin
    rows = np.flatnonzero(~np.isnan(power))
    rows = rows[np.argsort(time[rows], kind="stable")]
    if len(rows):
        builder.add_counter("Power", "mW", CounterShape.LEVEL, time[rows], power[rows])


def _add_utilisation(
    builder: TraceBuilder, time: I64, end: I64, share: F64, finish: int
) -> None:
    """Add the utilisation as a level that ends with its window.

    Where no window follows at once it is unknown (NaN) from then on.
    """
    following = np.append(time[1:], finish)
    ends = np.flatnonzero(end < following)
    builder.add_counter(
        "DRAM utilisation",
        "share",
        CounterShape.LEVEL,
        np.insert(time, ends + 1, end[ends]),
        np.insert(share, ends + 1, np.nan),
    )


def _note_utilisation(
    builder: TraceBuilder, time: I64, share: F64, origin: int
) -> dict[str, object]:
    """Warn of samples near or above the peak; return what holds of all of them."""
    high = np.flatnonzero((share > HIGH_UTILISATION) & (share <= 1 + 1e-9))
    if len(high):
        first = int(high[0])
        builder.warn(
            Severity.NOTICE,
            "bandwidth_high",
            f"sample at cycle {int(time[first]) + origin}: DRAM at "
            f"{format_share(float(share[first]))} of its peak; above "
            f"{HIGH_UTILISATION * 100:.0f} % counts as a bandwidth bottleneck",
            count=len(high),
            place="bandwidth_samples",
        )
    over = np.flatnonzero(share > 1 + 1e-9)
    if len(over):
        builder.warn(
            Severity.NOTICE,
            "bandwidth_over_peak",
            f"sample at cycle {int(time[over[0]]) + origin}: DRAM at "
            f"{share[over[0]] * 100:.0f} % of the peak in config_snapshot",
            count=len(over),
            place="bandwidth_samples",
            remedy="Check dram_peak_bw_bytes_per_cycle.",
        )
    return {
        "dram_utilisation_max": float(np.nanmax(share)),
        "dram_samples_above_80_percent": int(
            np.count_nonzero(share > HIGH_UTILISATION)
        ),
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Tokens:
    """Tokens in order of start, times from the origin."""

    start: I64
    end: I64
    index: Array
    phase: Array
    record: I64
    name: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Engines:
    """Engine spans as they stand in the trace: lane by lane, in order of start.

    `key` names the engine of each span, `lanes` the lane of each.
    """

    first_span: int
    start: I64
    end: I64
    key: I64
    cmdq: I64
    record: I64
    layer: Array
    lanes: KeyLanes


class TraceAssembly:
    """Fills a builder from columns, table by table.

    Parameters
    ----------
    builder : receives lanes, spans, markers and so on.
    columns : all events.
    inclusive : whether the file's end cycles belong to their spans.
    peak_bytes : bytes per cycle that DRAM can move; None if not stated.

    Attributes
    ----------
    origin : the file's cycle that is tick 0: its own 0, so that times are the cycles
        of the file; the first one of all where these are too large for exact pictures.
    computed : figures to hold against the file's own summary.
    """

    def __init__(
        self,
        builder: TraceBuilder,
        columns: EventColumns,
        *,
        inclusive: bool = False,
        peak_bytes: float | None = None,
    ) -> None:
        self.computed: dict[str, object] = {}
        none = np.zeros(0, np.int64)
        self._tokens = _Tokens(none, none, none, none, none, none)
        self._engines: _Engines | None = None
        self._builder = builder
        self._columns = columns
        self._extra = int(inclusive)
        self._peak_bytes = peak_bytes
        first, last = columns.extent(with_samples=True) or (0, 0)
        self.origin = 0 if last < _EXACT_CYCLES else first
        self._begin = first - self.origin
        self._finish = last + self._extra - self.origin
        # Engine and number in one: small where the numbers are, so that tables
        # indexed by it stay small.
        self._n_units = 1 + max(
            int(table.column("engine_id").max(initial=0))
            for table in (columns.engines, columns.accesses, columns.stalls)
        )

    def add_spans(self) -> None:
        """Add all lanes with spans and markers; call once, before `add_rest`."""
        columns = self._columns
        tokens = self._tokens = self._tokens_in_order()
        bands = self._bands(tokens)
        self._add_tokens(tokens)
        self._add_bands(bands)
        engines = self._engines = self._add_engines(tokens, bands)
        if len(columns.ops):
            self._builder.ops = OpTable(
                OP_TABLE_ID, tuple(columns.ops), source="spelled"
            )
        self._add_stalls(engines)
        self._add_commands()
        self._add_markers()

    def add_rest(self) -> None:
        """Add what refers to spans (flows, accesses) and counters; call once.

        The columns of spans are let go of: nobody needs them any more.
        """
        tokens, engines = self._tokens, self._engines
        columns = self._columns
        for table in (columns.engines, columns.tokens, columns.stalls):
            table.clear()
        assert engines is not None  # spans come first
        self._add_flows(engines)
        self._add_accesses(engines, tokens)
        self.computed |= add_counters(
            self._builder,
            self._columns,
            self.origin,
            self._begin,
            self._finish,
            self._peak_bytes,
        )
        self._compute(engines, tokens)

    def read_until(self) -> int:
        """Return up to which tick the spans are likely to be known, see there."""
        columns = self._columns
        table = max((columns.engines, columns.commands, columns.tokens), key=len)
        if not len(table):
            return 0
        times = table.column("time" if table is columns.commands else "start")
        return max(read_until(times) - self.origin, self._begin)

    def extent_to(self, cycle: int) -> TimeRange:
        """Return the time from the first event to a cycle of the file."""
        begin = self._begin
        return TimeRange(begin, max(cycle + self._extra - self.origin, begin))

    def _ticks(self, table: ChunkedTable, name: str) -> I64:
        return table.column(name) - self.origin

    def _ends(self, table: ChunkedTable) -> I64:
        return table.column("end") - (self.origin - self._extra)

    def _tokens_in_order(self) -> _Tokens:
        table = self._columns.tokens
        start = self._ticks(table, "start")
        order = np.argsort(start, kind="stable")
        return _Tokens(
            start[order],
            self._ends(table)[order],
            table.column("index")[order],
            table.column("phase")[order],
            table.column("record")[order],
            table.column("name")[order],
        )

    def _bands(self, tokens: _Tokens) -> PhaseBands:
        bands = phase_bands(tokens.start, tokens.end, tokens.phase)
        instants = self._columns.instants
        done = self._builder.strings.find(PREFILL_DONE)
        marks = self._ticks(instants, "time")[instants.column("name") == done]
        if done < 0 or len(marks) != 1:
            return bands
        return split_at(bands, int(marks[0]), self._begin, self._finish)

    def _add_tokens(self, tokens: _Tokens) -> None:
        if not len(tokens.start):
            return
        lane = self._builder.add_lane("tokens", LaneKind.TOKEN)
        self._builder.add_spans(
            start=tokens.start,
            end=tokens.end,
            lane=_alike(lane, tokens.start),
            name=narrow(tokens.name),
            token=narrow(tokens.index),
            phase=tokens.phase,
            record=narrow(tokens.record),
        )

    def _add_bands(self, bands: PhaseBands) -> None:
        if not len(bands.start):
            return
        lane = self._builder.add_lane("phase", LaneKind.PHASE)
        names = self._builder.strings.intern_many(
            [PHASE_NAMES[phase] for phase in bands.phase.tolist()]
        )
        self._builder.add_spans(
            start=bands.start,
            end=bands.end,
            lane=_alike(lane, bands.start),
            name=narrow(names),
            flags=_DERIVED,
            phase=bands.phase,
        )

    def _add_engines(self, tokens: _Tokens, bands: PhaseBands) -> _Engines:
        table = self._columns.engines
        start, key = self._ticks(table, "start"), self._keys(table)
        lanes = self._engine_lanes(distinct(key))
        lane = narrow(lanes.of(key))
        order = by_lane_and_start(lane, start)
        start, end = start[order], self._ends(table)[order]
        owner = covering(tokens.start, tokens.end, start)
        token, phase = narrow(taken(tokens.index, owner)), taken(tokens.phase, owner)
        by_band = taken(bands.phase, covering(bands.start, bands.end, start))
        phase = np.where(phase < 0, by_band, phase).astype(np.int8)
        color, record = table.column("color"), table.column("record")[order]
        layer = narrow(table.column("layer")[order])
        first = self._builder.n_spans
        if len(start):
            self._builder.add_spans(
                start=start,
                end=end,
                lane=lane[order],
                name=narrow(table.column("name")[order]),
                op=table.column("op")[order],
                token=narrow(token) if len(tokens.start) else None,
                phase=phase if len(bands.start) else None,
                layer=layer,
                record=narrow(record),
                color=color[order] if color.any() else None,
                **self._details(order),
            )
        return _Engines(
            first,
            start,
            end,
            key[order],
            table.column("cmdq")[order],
            record,
            layer,
            lanes,
        )

    def _details(self, order: I64) -> dict[str, Array]:
        """Return what the details of engine events state, as columns of spans."""
        table = self._columns.engines
        columns = {
            name: table.column(name)
            for name in ("moved", "bits", "bank", "bank_offset")
        }
        stated = {
            name: narrow(values[order])
            for name, values in columns.items()
            if (values >= 0).any()
        }
        role = table.column("role")[order]
        if (role >= 0).any():
            roles = [self._builder.strings.intern(word) for word in ROLES]
            stated["tensor_role"] = narrow(np.array([*roles, -1], np.int32)[role])
        return stated

    def _engine_lanes(self, keys: I64) -> KeyLanes:
        """Add a lane for each engine, best known first."""
        parts: list[tuple[I64, I64]] = []
        for rank, name, mine, its_numbers in self._ranked(keys):
            numbers = its_numbers.tolist()
            first = self._builder.add_lanes(
                [f"{name} {number}" for number in numbers],
                LaneKind.ENGINE,
                ("Engines",),
                [(rank, number) for number in numbers],
                engine=name,
            )
            parts.append((mine, first + np.arange(len(numbers))))
        return KeyLanes.joined(parts)

    def _add_stalls(self, engines: _Engines) -> None:
        table = self._columns.stalls
        if not len(table):
            return
        key = self._keys(table)
        parts: list[tuple[I64, I64]] = []
        for rank, name, mine, numbers in self._ranked(distinct(key)):
            over = engines.lanes.of(mine).tolist()
            added = [
                self._builder.add_lane(
                    f"{name} {number} stalls",
                    LaneKind.STALL,
                    ("Stalls",),
                    (rank, number),
                    engine=name,
                    **({} if lane < 0 else {"over": str(lane)}),
                )
                for number, lane in zip(numbers.tolist(), over, strict=True)
            ]
            parts.append((mine, np.array(added, np.int64)))
        lanes = KeyLanes.joined(parts)
        lane, start = narrow(lanes.of(key)), self._ticks(table, "start")
        order = by_lane_and_start(lane, start)
        self._builder.add_spans(
            start=start[order],
            end=self._ends(table)[order],
            lane=lane[order],
            name=narrow(table.column("name")[order]),
            record=narrow(table.column("record")[order]),
        )

    def _add_commands(self) -> None:
        """Pair each START with the END that follows it under the same id."""
        table = self._columns.commands
        if not len(table):
            return
        builder = self._builder
        lane = builder.add_lane("commands", LaneKind.COMMAND)
        time, record = self._ticks(table, "time"), table.column("record")
        order = np.lexsort((record, time, table.column("id")))
        number, event = table.column("id")[order], table.column("event")[order]
        time, record = time[order], record[order]
        name, detail = table.column("name")[order], table.column("detail")[order]
        starts = (event == _START) & (number >= 0)
        _, behind = neighbours(number)
        paired = starts & (behind >= 0) & (event[behind] == _END)
        ends = np.zeros(len(starts), np.bool_)
        ends[behind[paired]] = True
        begun = np.flatnonzero(starts)
        begun = begun[np.argsort(time[begun], kind="stable")]
        if len(begun):
            closed = paired[begun]
            end = np.where(closed, time[behind[begun]], self._finish)
            unnamed = builder.strings.intern(COMMAND_NAME)
            builder.add_spans(
                start=time[begun],
                end=end,
                lane=_alike(lane, begun),
                name=narrow(np.where(detail[begun] < 0, unnamed, detail[begun])),
                flags=np.where(closed, 0, int(SpanFlag.UNFINISHED)).astype(np.uint16),
                record=narrow(record[begun]),
            )
        rest = np.flatnonzero(~starts & ~ends)
        rest = rest[np.argsort(time[rest], kind="stable")]
        if len(rest):
            builder.add_markers(
                time=time[rest],
                lane=lane,
                name=name[rest],
                detail=detail[rest],
                record=record[rest],
            )

    def _add_markers(self) -> None:
        table = self._columns.instants
        if not len(table):
            return
        lane = self._builder.add_lane("markers", LaneKind.MARKER)
        time = self._ticks(table, "time")
        order = np.argsort(time, kind="stable")
        self._builder.add_markers(
            time=time[order],
            lane=lane,
            name=table.column("name")[order],
            detail=table.column("detail")[order],
            record=table.column("record")[order],
        )

    def _add_flows(self, engines: _Engines) -> None:
        table = self._columns.deps
        if not len(table):
            return
        by_record = np.argsort(engines.record)
        records = engines.record[by_record]
        target_record, dep = table.column("record"), table.column("dep")
        target = places_among(records, target_record)
        known = target >= 0
        target_record, dep, target = target_record[known], dep[known], target[known]
        source = last_before(engines.cmdq, engines.record, dep, target_record)
        by_index = np.where(dep < target_record, looked_up(records, by_record, dep), -1)
        source = np.where(source >= 0, source, by_index)
        has_source = source >= 0
        self._builder.flows = Flows(
            source[has_source] + engines.first_span,
            by_record[target[has_source]] + engines.first_span,
        )
        n_lost = len(table) - int(np.count_nonzero(has_source))
        if n_lost:
            self._builder.warn(
                Severity.NOTICE,
                "dependency_missing",
                "deps refer to commands or events that do not come before; no "
                "arrow is drawn",
                count=n_lost,
            )

    def _add_accesses(self, engines: _Engines, tokens: _Tokens) -> None:
        table = self._columns.accesses
        if not len(table):
            return
        time = self._ticks(table, "time")
        order = np.argsort(time, kind="stable")
        time, key = time[order], self._keys(table)[order]
        span = linked(engines.key, engines.cmdq, key, table.column("cmdq")[order])
        lane = engines.lanes.of(key)
        if (lane < 0).any():
            lane[lane < 0] = self._builder.add_lane("memory", LaneKind.MEMORY)
        token = narrow(taken(tokens.index, covering(tokens.start, tokens.end, time)))
        unknown = np.full(len(time), -1, np.int8)
        what = AccessColumns(
            tensor=unknown,
            kind=table.column("kind")[order],
            space=self._spaces(table.column("memory")[order]),
            offset=table.column("offset")[order],
            size=table.column("size")[order],
            buffer=unknown,
            layer=narrow(taken(engines.layer, span)),
            expert=unknown,
            address=table.column("address")[order],
        )
        none = no_accesses(self._builder.n_spans)
        self._builder.accesses = Accesses(
            none.pattern,
            none.first,
            none.patterns,
            FlatAccesses(
                time,
                narrow(lane),
                narrow(np.where(span >= 0, span + engines.first_span, -1)),
                narrow(token),
                what,
            ),
        )

    def _spaces(self, memory: Array) -> Array:
        known = {"DRAM": Space.DRAM, "SPM": Space.SPM}
        codes = [int(known.get(n, Space.UNKNOWN)) for n in self._columns.names]
        return np.array(codes, np.uint8)[memory]

    def _compute(self, engines: _Engines, tokens: _Tokens) -> None:
        first = np.flatnonzero(np.diff(engines.key, prepend=_NO_KEY))
        self.computed["cycles"] = self._finish - self._begin
        self.computed["first_cycle"] = self._begin + self.origin
        self.computed["engines"] = EngineFigures(
            engines.key[first],
            busy_cycles(engines.start, engines.end, first),
            self._finish - self._begin,
            self._n_units,
            tuple(self._columns.names),
        )
        dma = [code for code, n in enumerate(self._columns.names) if n == "DMA"]
        is_dma = np.isin(engines.key // self._n_units, dma)
        if is_dma.any():
            start, end = engines.start[is_dma], engines.end[is_dma]
            self.computed["dma_most_at_once"] = most_at_once(start, end)
        for phase, name in enumerate(PHASE_NAMES):
            chosen = tokens.phase == phase
            if chosen.any():
                length = (tokens.end - tokens.start)[chosen]
                self.computed[f"avg_{name}_latency_cycles"] = float(length.mean())
                self.computed[f"{name}_cycles"] = int(length.sum())
                self.computed[f"{name}_events"] = int(np.count_nonzero(chosen))

    def _keys(self, table: ChunkedTable) -> I64:
        """Return a number for the engine (or master) and its id, int64[n]."""
        code = table.column("engine").astype(np.int64)
        return code * self._n_units + table.column("engine_id")

    def _ranked(self, keys: I64) -> Iterator[tuple[int, str, I64, I64]]:
        """Yield (rank, name, its keys, their numbers), the best known name first.

        `keys` ascend.
        """
        codes = distinct(keys // self._n_units).tolist()
        names = [engine_name(self._columns.names, code) for code in codes]
        ranks = [
            ENGINES.index(name) if name in ENGINES else len(ENGINES) for name in names
        ]
        for rank, name, code in sorted(zip(ranks, names, codes, strict=True)):
            # The keys of a name lie side by side, in the order of their numbers.
            low, high = np.searchsorted(
                keys, np.array([code, code + 1]) * self._n_units
            )
            mine = keys[low:high]
            yield rank, name, mine, mine - code * self._n_units


def max_end(columns: EventColumns) -> int | None:
    """Return the last end cycle as the file gives it; None without spans."""
    ends = [
        table.column("end")
        for table in (columns.engines, columns.tokens, columns.stalls)
        if len(table)
    ]
    return max((int(end.max()) for end in ends), default=None)


def read_until(start: I64) -> int:
    """Return up to which time all spans are likely to be known.

    Parameters
    ----------
    start : int64[n], n >= 1, of the spans so far in the order of the file.

    Notes
    -----
    The format promises no order, so nothing is certain before the end of the file.
    Simulators write events as they finish: an event may lie some way before an
    earlier one. The furthest such step back so far is taken as what may still come.
    Files whose events are grouped (by engine, say) step back to the beginning with
    the second group, and from then on promise nothing.
    """
    latest = int(start[0])
    setback = 0
    step = 1 << 16
    for first in range(0, len(start), step):
        part = np.maximum.accumulate(start[first : first + step])
        np.maximum(part, latest, out=part)
        setback = max(setback, int((part - start[first : first + step]).max()))
        latest = int(part[-1])
    return latest - setback


def last_cycle(source: Source) -> int | None:
    """Return the last cycle that the end of the file names; None if it names none."""
    begin = max(source.size - _TAIL_BYTES, 0)
    data = source.array(begin, source.size - begin).tobytes()
    cycles = _CYCLE.findall(data) or _TOTAL.findall(data)
    return max(map(int, cycles), default=None)


def _alike(value: int, rows: Array) -> Array:
    """Return a value for every row, in the narrowest column."""
    return np.full(len(rows), value, np.min_scalar_type(-abs(value) - 1))
