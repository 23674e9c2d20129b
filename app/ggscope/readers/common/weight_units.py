"""What the samples of a profile weigh: words of formats for the units of ticks.

Lanes of a trace share one axis. Of a profile with several units one is read, which the
option ``weights`` of a reader chooses.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING

from ggscope.readers.api import Option

if TYPE_CHECKING:
    from ggscope.model.units import Unit

WEIGHTS = "weights"
WEIGHTS_OPTION = Option(
    name=WEIGHTS,
    doc="of several units the one that is read: time, bytes or counts",
    choices=("time", "bytes", "counts"),
)
_UNITS: dict[str, tuple[str, int]] = {
    "nanosecond": ("ns", 1),
    "ns": ("ns", 1),
    "microsecond": ("ns", 1_000),
    "us": ("ns", 1_000),
    "µs": ("ns", 1_000),
    "millisecond": ("ns", 1_000_000),
    "ms": ("ns", 1_000_000),
    "second": ("ns", 1_000_000_000),
    "s": ("ns", 1_000_000_000),
    "min": ("ns", 60_000_000_000),
    "h": ("ns", 3_600_000_000_000),
    "byte": ("byte", 1),
    "b": ("byte", 1),
    "kilobyte": ("byte", 1 << 10),
    "kb": ("byte", 1 << 10),
    "kib": ("byte", 1 << 10),
    "megabyte": ("byte", 1 << 20),
    "mb": ("byte", 1 << 20),
    "mib": ("byte", 1 << 20),
    "gigabyte": ("byte", 1 << 30),
    "gb": ("byte", 1 << 30),
    "gib": ("byte", 1 << 30),
    "sample": ("sample", 1),
}
_KINDS = {"ns": "time", "byte": "bytes"}
_MAX_TIME = 1 << 61


def unit_of(word: str) -> "tuple[Unit, int]":
    """Return what a tick is, and the ticks in one of `word`; counts for other words."""
    plain = word.strip().lower()
    known = _UNITS.get(plain) or _UNITS.get(plain.removesuffix("s"))
    return known or ("count", 1)  # type: ignore[return-value]  # units, as spelled


def kind_of(unit: str) -> str:
    """Return what `WEIGHTS` calls a unit."""
    return _KINDS.get(unit, "counts")


def with_decimals(unit: "Unit", factor: int) -> "tuple[Unit, int]":
    """Return unit and factor for weights with decimals: thousandths of plain ones."""
    if unit == "sample":
        return "sample/1000", 1000 * factor
    return ("count/1000", 1000 * factor) if unit == "count" else (unit, factor)


def are_whole(values: Iterable[object]) -> bool:
    """Return whether no number has decimals."""
    decimals = (value for value in values if isinstance(value, Decimal))
    return not any(v.is_finite() and v != v.to_integral_value() for v in decimals)


def ticks_of(value: object, factor: int) -> int | None:
    """Return a number in whole ticks; None where it is none, or beyond 2^61."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    if not -_MAX_TIME < value < _MAX_TIME:
        return None
    ticks = round(value * factor)
    return ticks if -_MAX_TIME < ticks < _MAX_TIME else None
