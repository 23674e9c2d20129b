"""Options of the NPU reader, and what reading a file would cost."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ggscope.errors import ReadError
from ggscope.readers.api import (
    HEAD_BYTES,
    RANGE_OPTION,
    Estimate,
    Head,
    ReadContext,
    parse_range,
)
from ggscope.readers.json_text import JsonText
from ggscope.readers.npu_sniff import KNOWN_TYPE

OPTIONS = {
    "end_cycle": "exclusive (default) or inclusive: whether a span's end_cycle "
    "belongs to it",
    "hz": "clock frequency in cycles per second, to show times",
    "strict": "true: refuse a cut or broken file, of which otherwise all that stands "
    "before the fault is shown",
    RANGE_OPTION: "FIRST:STOP, numbers of events or shares such as 5%: read only these",
}
TOO_LARGE_HINT = f"Read a part of the file with option {RANGE_OPTION}=FIRST:STOP."
_ENDLESS = 1 << 62
_SAMPLES = 16
"""Places of a file where events are counted for the sake of shares."""

_FINAL_BYTES, _PEAK_BYTES = 64, 150
"""Memory per event: when all is read, and at the worst moment, measured."""
_FIXED_BYTES = 32 << 20
"""Blocks and the tables of the scanner."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Reader options.

    Attributes
    ----------
    inclusive : end cycles belong to their spans.
    hz : cycles per second; None if not known.
    strict : refuse a file with a syntax error; else what stands before it is kept.
    first, stop : numbers of the events to read, half-open; None = to the end.
    """

    inclusive: bool = False
    hz: float | None = None
    strict: bool = False
    first: int = 0
    stop: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether some events are left out."""
        return self.first > 0 or self.stop is not None

    def texts(self) -> dict[str, str]:
        """Return the options that shape the trace, as `TraceInfo` holds them."""
        options = {"end_cycle": "inclusive" if self.inclusive else "exclusive"}
        if self.hz is not None:
            options["hz"] = f"{self.hz:g}"
        if self.strict:
            options["strict"] = "true"
        if self.is_part:
            stop = "" if self.stop is None else self.stop
            options[RANGE_OPTION] = f"{self.first}:{stop}"
        return options


def settings_of(context: ReadContext, text: JsonText) -> Settings:
    """Return what the options ask for.

    Raises
    ------
    ReadError
        If one of them has a value that does not exist.

    Notes
    -----
    Nobody knows how many events a file holds before it is read: shares in a range
    are of an estimate, from a look at some places of the file.
    """
    end = context.options.get("end_cycle", "exclusive")
    if end not in ("exclusive", "inclusive"):
        raise ReadError(
            f"option end_cycle is {end!r}.", hint="Give exclusive or inclusive."
        )
    hz_text = context.options.get("hz", "")
    try:
        hz = float(hz_text) if hz_text else None
    except ValueError:
        hz = math.nan
    if hz is not None and not 0 < hz < math.inf:
        raise ReadError(
            f"option hz is {hz_text!r}.", hint="Give cycles per second, e.g. 1e9."
        )
    strict = _is_strict(context.options)
    first, stop = _range(context.options.get(RANGE_OPTION, ""), text)
    return Settings(end == "inclusive", hz, strict, first, stop)


def estimate(head: Head) -> Estimate | None:
    """Return what reading a whole file would cost; None where that is unknown."""
    per_byte = _density(head.data)
    if not per_byte:
        return None
    records = max(round(per_byte * head.size), 1)
    return Estimate(
        records=records,
        final_bytes=records * _FINAL_BYTES,
        peak_bytes=records * _PEAK_BYTES + _FIXED_BYTES,
        can_range=True,
    )


def _is_strict(options: Mapping[str, str]) -> bool:
    strict = options.get("strict", "").lower() in ("true", "1", "yes")
    # What files were once opened with; they are opened without it now.
    return strict or options.get("salvage", "").lower() in ("false", "0", "no")


def _range(wanted: str, text: JsonText) -> tuple[int, int | None]:
    """Return the numbers of the events to read; None = to the end."""
    if not wanted:
        return 0, None
    n_events = _counted(text) if "%" in wanted else _ENDLESS
    try:
        first, stop = parse_range(wanted, n_events)
    except ValueError as error:
        raise ReadError(
            f"option {RANGE_OPTION} is {wanted!r}.",
            hint="Give FIRST:STOP, numbers of events or shares, e.g. 0:500000 or "
            "50%:60%.",
        ) from error
    return first, None if stop == n_events else stop


def _counted(text: JsonText) -> int:
    """Return about how many events a text holds."""
    step = max(text.size // _SAMPLES, HEAD_BYTES)
    buffer = np.empty(min(HEAD_BYTES, text.size), np.uint8)
    densities = []
    for offset in range(0, text.size, step):
        data = buffer[: text.read_into(offset, buffer)].tobytes()
        densities.append(len(KNOWN_TYPE.findall(data)) / max(len(data), 1))
    return max(round(sum(densities) / len(densities) * text.size), 1)


def _density(data: bytes) -> float:
    """Return the number of events per byte, as the head of a file shows it."""
    starts = [found.start() for found in KNOWN_TYPE.finditer(data)]
    if len(starts) < 2:
        return len(starts) / max(len(data), 1)
    return (len(starts) - 1) / (starts[-1] - starts[0])
