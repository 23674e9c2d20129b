"""What an NPU trace says besides its events: version, run, configuration, summary."""

import math
from collections.abc import Iterator

from ggscope.errors import UnsupportedVersionError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.npu_rules import clean, text_of

HEADER_KEYS = frozenset(
    {
        "version",
        "run_metadata",
        "config_snapshot",
        "bandwidth_samples",
        "summary_metrics",
    }
)
ASSUMED_VERSION = "1.0"
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
                f"{key} occurs twice; the last one counts",
                offset,
                place=key,
            )
        self._values[key] = value

    def check_version(self, *, optional: bool) -> None:
        """Note a version that is missing (if that is not `optional`) or odd.

        Raises
        ------
        UnsupportedVersionError
            If the major version is not 1.
        """
        value = self._values.get("version")
        if value is None:
            if not optional:
                self._broken("version_missing", "version missing; taken for 1.0")
            return
        text = value if isinstance(value, str) else text_of(value)[:80]
        if not isinstance(value, str):
            self._broken("version_not_a_string", "version is not a string")
        major = text.strip().partition(".")[0]
        if not major.isdecimal():
            self._broken(
                "version_malformed", f"version {text[:80]!r} is not understood"
            )
        elif major.lstrip("0") != "1":
            raise UnsupportedVersionError(
                f"this trace has format version {text[:80]}; only version 1 is known.",
                hint="Look for a newer ggscope.",
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
            self._broken(
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
                    f"{key} is not an object; it is ignored",
                    place=key,
                )

    def _object(self, key: str) -> dict[str, object]:
        value = self._values.get(key)
        return value if isinstance(value, dict) else {}

    def _broken(self, code: str, text: str, place: str = "version") -> None:
        self._builder.warn(Severity.ERROR, code, text, place=place)


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
