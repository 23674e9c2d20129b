"""The header of an NPU trace: version, run, configuration, summary."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ggscope.errors import UnsupportedVersionError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import DeclaredMetric, Severity, is_equal, stated_figure
from ggscope.readers.npu.intervals import EngineFigures
from ggscope.readers.npu.schema import clean, text_of

ASSUMED_VERSION = "1.0"
CYCLES_TOTAL = "cycles total"
"""Name of the figure that `Header.check_total` judges."""
_MAX_FACTS = 1000
_FACT_CHARS = 1000
_DEPTH = 6
_KV_WAYS = ("read", "written")


class Header:
    """The root's values other than the long arrays.

    Parameters
    ----------
    builder : takes the warnings.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._values: dict[str, object] = {}

    def set(self, key: str, value: object, offset: int) -> None:
        """Take a value; the last one of a key counts."""
        if key in self._values:
            self._builder.warn(
                Severity.NOTICE,
                "duplicate_key",
                f"duplicate {key}; the last one counts",
                offset,
                place=key,
            )
        self._values[key] = value

    def check_version(self, *, optional: bool) -> None:
        """Note a version that is missing (if that is not `optional`) or malformed.

        Raises
        ------
        UnsupportedVersionError
            If the major version is not 1.
        """
        value = self._values.get("version")
        if value is None:
            if not optional:
                self._error("version_missing", "version missing; assuming 1.0")
            return
        text = value if isinstance(value, str) else text_of(value)[:80]
        if not isinstance(value, str):
            self._error("version_not_a_string", "version is not a string")
        major = text.strip().partition(".")[0]
        if not major.isdecimal():
            self._error("version_malformed", f"invalid version {text[:80]!r}")
        elif major.lstrip("0") != "1":
            raise UnsupportedVersionError(
                f"unsupported format version {text[:80]} (supported: 1).",
                hint="Update ggscope.",
            )

    def version(self) -> str:
        """Return the format version as far as it is known, "1.0" where it is not."""
        value = self._values.get("version")
        if value is None:
            return ASSUMED_VERSION
        return clean(value if isinstance(value, str) else text_of(value)[:80])[:80]

    def producer(self) -> dict[str, str]:
        """Return run_metadata and config_snapshot as dotted names and texts."""
        facts: dict[str, str] = {}
        for key, prefix in (("run_metadata", ""), ("config_snapshot", "config.")):
            for name, text in _flat(self._object(key), prefix, _DEPTH):
                if len(facts) >= _MAX_FACTS:
                    break
                facts[name] = text
        return facts

    def summary(self) -> dict[str, object]:
        """Return a copy of summary_metrics."""
        return dict(self._object("summary_metrics"))

    def stated(self, computed: Mapping[str, object]) -> tuple[DeclaredMetric, ...]:
        """Return what the summary and the configuration state, beside the events.

        Parameters
        ----------
        computed : ``TraceAssembly.computed``.

        Notes
        -----
        Shares of busy time are of the time from the first to the last event, as
        everywhere in the program. Where a value of the file
        matches another duration (cycles_total, which may count idle cycles after the
        last event, or the last cycle), that counts as agreement and is noted.
        """
        figures = _Comparison(self._values, computed).figures()
        return tuple(figure for figure in figures if figure is not None)

    def peak_bytes(self) -> float | None:
        """Return the stated peak of DRAM in bytes per cycle, or None."""
        memory = self._object("config_snapshot").get("memory")
        if not isinstance(memory, dict):
            return None
        peak = _number(memory.get("dram_peak_bw_bytes_per_cycle"))
        # As a float: numpy takes no integer of more than 64 bits.
        return float(peak) if peak is not None and peak > 0 else None

    def check_total(self, last_end: int | None) -> None:
        """Note, as an error, a cycles_total that is smaller than the last end cycle."""
        claimed = self._object("summary_metrics").get("cycles_total")
        total = _number(claimed)
        if total is not None and last_end is not None and total < last_end:
            self._error(
                "cycles_total_too_small",
                f"cycles_total {claimed} < {last_end}, the last end cycle",
                "summary_metrics.cycles_total",
            )

    def check_types(self) -> None:
        """Note values that are not objects where the format has objects."""
        for key in ("run_metadata", "config_snapshot", "summary_metrics"):
            value = self._values.get(key)
            if value is not None and not isinstance(value, dict):
                self._builder.warn(
                    Severity.NOTICE,
                    "wrong_type",
                    f"{key} is not an object; ignored",
                    place=key,
                )

    def _object(self, key: str) -> dict[str, object]:
        value = self._values.get(key)
        return value if isinstance(value, dict) else {}

    def _error(self, code: str, text: str, place: str = "version") -> None:
        self._builder.warn(Severity.ERROR, code, text, place=place)


class _Comparison:
    """Compares the figures of a header with computed ones."""

    def __init__(
        self, values: Mapping[str, object], computed: Mapping[str, object]
    ) -> None:
        self._values, self._computed = values, computed
        # The program shows shares of the duration of the trace.
        self._duration = self._number("cycles") or 0.0
        self._last = self._duration + (self._number("first_cycle") or 0.0)
        self._other_durations = {self._last}
        total = _number(self._at("summary_metrics.cycles_total"))
        if total is not None and total >= self._last:
            self._other_durations.add(float(total))
        engines = computed.get("engines")
        self._engines = engines if isinstance(engines, EngineFigures) else {}

    def figures(self) -> Iterator[DeclaredMetric | None]:
        """Compare what the file states; None for figures that it does not."""
        last = self._last
        yield self._figure(
            CYCLES_TOTAL,
            "summary_metrics.cycles_total",
            last,
            "cycle",
            "the last event",
            at_least=True,
        )
        for key in ("dram_bytes_read", "dram_bytes_write"):
            place = f"summary_metrics.{key}"
            yield self._sampled(key.replace("_", " "), key, self._at(place), place)
        place = "summary_metrics.kv_cache"
        parts = [_number(self._at(f"{place}.bytes_{way}")) for way in _KV_WAYS]
        known = [part for part in parts if part is not None]
        if known:
            yield self._sampled("KV cache bytes", "kv_bytes", sum(known), place)
        for key in ("dma", "te", "ve"):
            yield from self._kind(key)
        yield self._latency(
            "prefill_latency", "prefill_cycles", "avg_prefill_latency_cycles"
        )
        yield self._latency("avg_decode_latency", "avg_decode_latency_cycles")
        basis = "engines with a span"
        for kind in ("DMA", "TE", "VE"):
            engines = self._engines
            n = engines.n_of_kind(kind) if isinstance(engines, EngineFigures) else 0
            place = f"config_snapshot.npu.num_{kind.lower()}"
            name = f"{kind} engines"
            yield self._figure(name, place, n, basis=basis, at_least=True)
        place = "run_metadata.tokens.decode_tokens"
        n_tokens = self._number("decode_events")
        basis = "its token events"
        yield self._figure("decode tokens", place, n_tokens, basis=basis, at_least=True)

    def _kind(self, key: str) -> Iterator[DeclaredMetric | None]:
        """Compare figures of all engines of a kind, and of each one."""
        place, kind = f"summary_metrics.{key}", key.upper()
        part = self._at(place)
        if not isinstance(part, dict):
            return
        own = [f for n, f in self._engines.items() if n.split(" ")[0] == kind]
        yield from self._engine(kind, part, own, place)
        if key == "dma":
            yield self._figure(
                "DMA transfers at once",
                f"{place}.max_concurrent_transfers",
                self._number("dma_most_at_once"),
                basis="its spans",
            )
        entries = part.get("per_engine")
        for i, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict):
                name = f"{kind} {entry.get('id', i)}"
                one = [self._engines[name]] if name in self._engines else []
                yield from self._engine(name, entry, one, f"{place}.per_engine[{i}]")

    def _engine(
        self,
        name: str,
        part: Mapping[str, object],
        own: list[Mapping[str, float]],
        place: str,
    ) -> Iterator[DeclaredMetric | None]:
        """Compare busy cycles and share of one engine, or the mean of several.

        An engine without a single span is busy for no cycle, unless no engine of its
        kind has one: then they were not traced.
        """
        kind = name.split(" ")[0]
        is_traced = any(known.split(" ")[0] == kind for known in self._engines)
        busy = sum(f["active_cycles"] for f in own) if is_traced else math.nan
        share = _number(part.get("utilization"))
        if share is not None:
            mean = busy / max(len(own), 1)
            share = share / 100 if share > 1 else share
            basis = "its spans" if len(own) < 2 else f"the spans of {len(own)}"
            computed = mean / self._duration if self._duration > 0 else None
            if computed is not None and not is_equal(share, computed, "share"):
                for duration in sorted(self._other_durations):
                    if is_equal(share, mean / duration, "share"):
                        computed = mean / duration
                        basis += f" in {duration:,.0f} cycles"
                        break
            yield stated_figure(
                f"{name} utilization",
                share,
                computed,
                unit="share",
                basis=basis,
                place=f"{place}.utilization",
            )
        yield stated_figure(
            f"{name} active cycles",
            part.get("active_cycles"),
            busy,
            unit="cycle",
            basis="its spans",
            place=f"{place}.active_cycles",
        )

    def _latency(self, name: str, *computed: str) -> DeclaredMetric | None:
        """Compare what tokens take; of several prefills it may be the sum."""
        place = f"summary_metrics.tokens.{name}_cycles"
        stated = _number(self._at(place))
        values = [v for v in map(self._number, computed) if v is not None]
        match = [v for v in values if stated is not None and is_equal(stated, v)]
        value = next(iter(match or values), None)
        name = name.replace("_", " ")
        return self._figure(name, place, value, "cycle", "its token events")

    def _sampled(
        self, name: str, key: str, stated: object, place: str
    ) -> DeclaredMetric | None:
        """Compare bytes with the sum over samples, which may not cover the run."""
        basis = "its bandwidth samples"
        computed = self._number(key)
        figure = stated_figure(
            name, stated, computed, unit="B", basis=basis, place=place
        )
        is_whole = bool(self._computed.get("samples_cover_run"))
        if figure is None or figure.computed is None or is_whole:
            return figure
        if figure.agrees or figure.stated < figure.computed:
            return figure
        basis = "its bandwidth samples, which leave out part of the run"
        return replace(figure, agrees=None, basis=basis)

    def _figure(
        self,
        name: str,
        place: str,
        computed: float | None,
        unit: str = "",
        basis: str = "",
        *,
        at_least: bool = False,
    ) -> DeclaredMetric | None:
        """Compare what stands in a place of the header, keys joined by points."""
        return stated_figure(
            name,
            self._at(place),
            computed,
            unit=unit,
            basis=basis,
            place=place,
            at_least=at_least,
        )

    def _at(self, place: str) -> object:
        value: object = self._values
        for key in place.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def _number(self, key: str) -> float | None:
        """Return a computed number."""
        value = self._computed.get(key)
        return None if isinstance(value, bool) else _number(value)


def _number(value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _flat(value: object, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested objects under dotted names."""
    if isinstance(value, dict) and depth and value:
        for key, part in value.items():
            end = "" if not isinstance(part, dict) else "."
            yield from _flat(part, clean(f"{name}{key}{end}"), depth - 1)
    elif isinstance(value, dict) and not value:
        return
    else:
        text = value if isinstance(value, str) else text_of(value)
        yield name.rstrip("."), clean(text)[:_FACT_CHARS]
