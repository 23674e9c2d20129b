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
        comparison = _Comparison(self._object("summary_metrics"), computed)
        config = self._object("config_snapshot").get("npu")
        run = self._object("run_metadata").get("tokens")
        return tuple(
            figure
            for figure in (
                *comparison.totals(),
                *comparison.engines(),
                *comparison.latencies(),
                *comparison.configured(config if isinstance(config, dict) else {}),
                *comparison.counted(run if isinstance(run, dict) else {}),
            )
            if figure is not None
        )

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
    """Compares the figures of a summary with computed ones."""

    def __init__(
        self, summary: Mapping[str, object], computed: Mapping[str, object]
    ) -> None:
        self._summary = summary
        self._computed = computed
        cycles = self._computed_number("cycles") or 0.0
        self._last = cycles + (self._computed_number("first_cycle") or 0.0)
        total = _number(summary.get("cycles_total"))
        # The program shows shares of the duration of the trace.
        self._duration = cycles
        self._other_durations = {self._last}
        if total is not None and total >= self._last:
            self._other_durations.add(float(total))
        engines = computed.get("engines")
        self._engines = engines if isinstance(engines, Mapping) else {}

    def totals(self) -> Iterator[DeclaredMetric | None]:
        """Compare cycles and bytes."""
        summary = self._summary
        yield stated_figure(
            CYCLES_TOTAL,
            summary.get("cycles_total"),
            self._last,
            unit="cycle",
            basis="the last event",
            place="summary_metrics.cycles_total",
            at_least=True,
        )
        for key in ("dram_bytes_read", "dram_bytes_write"):
            yield self._sampled(key, summary.get(key), f"summary_metrics.{key}")
        cache = summary.get("kv_cache")
        if isinstance(cache, dict):
            parts = [_number(cache.get(k)) for k in ("bytes_read", "bytes_written")]
            known = [part for part in parts if part is not None]
            if known:
                yield self._sampled("kv_bytes", sum(known), "summary_metrics.kv_cache")

    def engines(self) -> Iterator[DeclaredMetric | None]:
        """Compare figures of each engine, and of all engines of a kind."""
        for key in ("dma", "te", "ve"):
            part, place = self._summary.get(key), f"summary_metrics.{key}"
            if not isinstance(part, dict):
                continue
            kind = key.upper()
            own = [f for n, f in self._engines.items() if n.split(" ")[0] == kind]
            yield from self._engine(kind, part, own, place)
            if key == "dma":
                yield stated_figure(
                    "DMA transfers at once",
                    part.get("max_concurrent_transfers"),
                    self._computed_number("dma_most_at_once"),
                    basis="its spans",
                    place=f"{place}.max_concurrent_transfers",
                )
            entries = part.get("per_engine")
            for i, entry in enumerate(entries if isinstance(entries, list) else ()):
                if isinstance(entry, dict):
                    name = f"{kind} {entry.get('id', i)}"
                    one = [self._engines[name]] if name in self._engines else []
                    yield from self._engine(
                        name, entry, one, f"{place}.per_engine[{i}]"
                    )

    def _engine(
        self,
        name: str,
        part: Mapping[str, object],
        own: list[dict[str, float]],
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
            n = max(len(own), 1)
            share = share / 100 if share > 1 else share
            basis = "its spans" if len(own) < 2 else f"the spans of {len(own)}"
            computed = busy / n / self._duration if self._duration > 0 else None
            if computed is not None and not is_equal(share, computed, "share"):
                for duration in sorted(self._other_durations):
                    if is_equal(share, busy / n / duration, "share"):
                        computed = busy / n / duration
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

    def latencies(self) -> Iterator[DeclaredMetric | None]:
        """Compare what tokens take; of several prefills it may be the sum."""
        tokens = self._summary.get("tokens")
        if not isinstance(tokens, dict):
            return
        for key, computed in (
            (
                "prefill_latency_cycles",
                ("prefill_cycles", "avg_prefill_latency_cycles"),
            ),
            ("avg_decode_latency_cycles", ("avg_decode_latency_cycles",)),
        ):
            stated = _number(tokens.get(key))
            values = [v for v in map(self._computed_number, computed) if v is not None]
            match = [v for v in values if stated is not None and is_equal(stated, v)]
            yield stated_figure(
                key.replace("_", " ").removesuffix(" cycles"),
                stated,
                next(iter(match or values), None),
                unit="cycle",
                basis="its token events",
                place=f"summary_metrics.tokens.{key}",
            )

    def configured(self, npu: Mapping[str, object]) -> Iterator[DeclaredMetric | None]:
        """Compare the number of engines with how many have a span."""
        for key in ("num_dma", "num_te", "num_ve"):
            kind = key.removeprefix("num_").upper()
            if npu.get(key) is None:
                continue
            engines = self._engines
            if isinstance(engines, EngineFigures):
                n = engines.n_of_kind(kind)
            else:
                n = sum(name.split(" ")[0] == kind for name in engines)
            yield stated_figure(
                f"{kind} engines",
                npu.get(key),
                n,
                basis="engines with a span",
                place=f"config_snapshot.npu.{key}",
                at_least=True,
            )

    def counted(self, tokens: Mapping[str, object]) -> Iterator[DeclaredMetric | None]:
        """Compare how many tokens are generated."""
        yield stated_figure(
            "decode tokens",
            tokens.get("decode_tokens"),
            self._computed_number("decode_events"),
            basis="its token events",
            place="run_metadata.tokens.decode_tokens",
            at_least=True,
        )

    def _sampled(self, key: str, stated: object, place: str) -> DeclaredMetric | None:
        """Compare bytes with the sum over samples, which may not cover the run."""
        figure = stated_figure(
            {"kv_bytes": "KV cache bytes"}.get(key, key.replace("_", " ")),
            stated,
            self._computed_number(key),
            unit="B",
            basis="its bandwidth samples",
            place=place,
        )
        is_whole = bool(self._computed.get("samples_cover_run"))
        if figure is None or figure.computed is None or is_whole:
            return figure
        if figure.agrees or figure.stated < figure.computed:
            return figure
        basis = "its bandwidth samples, which leave out part of the run"
        return replace(figure, agrees=None, basis=basis)

    def _computed_number(self, key: str) -> float | None:
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
