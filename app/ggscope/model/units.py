"""Times in ticks, and numbers as people read and write them.

All times are int64 ticks since the clock's origin (`TimeRange`, `Clock`). Here become
text, and are read from it: times, durations, bytes, counts, shares.

The rules are those of the interface reference: four significant digits, exact
form on demand, KiB/MiB/GiB, shares with one decimal and "<0.1 %", "N/A" for
what is not known.

A *duration* has four significant digits (`format_duration`). A *time* has the digits
that the range it stands in needs (`TimeForm`): axis, cursor, status, table, details
and tooltips all write it with one of three forms, `shown_form` for what stands on
an axis, `column_form` in the columns of tables and `listed_form` in words. Whatever
is printed here, `parse_duration` and `parse_time` read.
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Literal

Unit = Literal["ns", "cycle", "sample", "sample/1000", "count", "count/1000", "byte"]
"""What a tick is. Those behind "cycle" are weights of sampled profiles, without time;
a thousandth where a file has decimals."""
TimeStyle = Literal["length", "clock", "day", "date"]
"""How a time is written: as a length of time (``2:03.4``), as what a clock of an
unknown zero shows (``48,120.5 s``), as the time of day (``13:22:00.5``) or with the
date (``11-26 13:22:00.5``), both of UTC."""


@dataclass(frozen=True, slots=True)
class UnitNames:
    """How people name a unit.

    Attributes
    ----------
    plural : of ticks as plain numbers, in names of columns and above them.
    one, many : behind a number; "" = the number says it.
    short : behind a number where there is little room.
    axis : what stands at an axis; "" = its labels have a unit.
    per : ticks that are one of it.
    """

    plural: str
    one: str
    many: str
    short: str = ""
    axis: str = ""
    per: int = 1


UNITS: dict[Unit, UnitNames] = {
    "ns": UnitNames("ns", "nanosecond", "nanoseconds"),
    "cycle": UnitNames("cycles", "cycle", "cycles", "cyc", "cycles"),
    "sample": UnitNames("samples", "sample", "samples", axis="samples"),
    "sample/1000": UnitNames(
        "millisamples", "sample", "samples", axis="samples", per=1000
    ),
    "count": UnitNames("counts", "", "", axis="counts"),
    "count/1000": UnitNames("millicounts", "", "", axis="counts", per=1000),
    "byte": UnitNames("bytes", "byte", "bytes", axis="bytes"),
}


@dataclass(frozen=True, slots=True, order=True)
class TimeRange:
    """Half-open interval ``[start, end)`` in ticks; `start` <= `end`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"time range ends before it starts: {self}")

    @property
    def duration(self) -> int:
        """Length in ticks, >= 0."""
        return self.end - self.start

    def contains(self, tick: int) -> bool:
        """Return whether `tick` lies inside."""
        return self.start <= tick < self.end

    def intersect(self, other: "TimeRange") -> "TimeRange | None":
        """Return the common part, or None where the two do not touch."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return TimeRange(start, end) if start <= end else None

    def padded(self, ticks: int) -> "TimeRange":
        """Return the range grown by `ticks` on both sides."""
        return TimeRange(self.start - ticks, self.end + ticks)

    def shifted(self, ticks: int) -> "TimeRange":
        """Return the range moved by `ticks`."""
        return TimeRange(self.start + ticks, self.end + ticks)


@dataclass(frozen=True, slots=True)
class Clock:
    """What one tick is, and where times count from.

    Tick 0 is the zero of every time that is shown, in all parts of a session; what was
    before it (buffers allocated before the first op) is negative.

    Attributes
    ----------
    unit : of a tick, one of `UNITS`.
    origin : raw value of tick 0 in the file's own clock; raw = tick + origin.
    hz : ticks per second where known (1e9 for "ns" is implied).
    epoch : nanoseconds from 1970, UTC, to the zero of the file's own clock; None =
        not known, as with most clocks, which count from the start of the machine.
    is_weight : whether ticks add up what samples weigh, the heaviest first: lengths
        mean something, and places do not. Such a trace has no time axis, even where
        the unit is "ns".
    """

    unit: Unit = "ns"
    origin: int = 0
    hz: float | None = None
    epoch: int | None = None
    is_weight: bool = False

    @property
    def unit_name(self) -> str:
        """The unit of ticks as plain numbers: "ns", "cycles" or "samples"."""
        return UNITS[self.unit].plural

    @property
    def per_s(self) -> float | None:
        """Ticks per second; None where ticks are no time or of an unknown length."""
        if self.unit == "ns":
            return None if self.is_weight else 1e9
        return self.hz if self.unit == "cycle" else None

    @property
    def axis_word(self) -> str:
        """What stands at an axis without the unit in its labels; else ""."""
        if self.is_weight and self.unit == "ns":
            return "weight"
        return UNITS[self.unit].axis

    def column_unit(self, absolute: bool) -> str:
        """Return what stands above times as plain numbers: "ns, file's clock"."""
        return f"{self.unit_name}, file's clock" if absolute else self.unit_name

    @classmethod
    def of_stamps(cls, origin: int) -> "Clock":
        """Return the clock of stamps in nanoseconds of which nothing else is known.

        Those of this century are times since 1970: no machine runs for 30 years.
        """
        is_date = _FIRST_DATE <= origin < _LAST_DATE
        return cls("ns", origin, epoch=0 if is_date else None)

    def shift(self, absolute: bool) -> int:
        """Return what is added to a tick for the file's own clock; else 0."""
        return self.origin if absolute else 0

    def wall(self, tick: int) -> int | None:
        """Return the nanoseconds from 1970, UTC, to `tick`; None = not known."""
        if self.epoch is None or self.unit != "ns" or self.is_weight:
            return None
        value = tick + self.origin + self.epoch
        return value if 0 <= value < _END_OF_DATES else None

    def form(self, extent: TimeRange, absolute: bool) -> tuple[TimeStyle, int]:
        """Return how times within `extent` are written, and what is added to each."""
        if not absolute or self.is_weight:
            return "length", 0
        begin, end = self.wall(extent.start), self.wall(extent.end)
        if begin is None or end is None:
            return "clock", self.origin
        is_long = extent.duration >= _DAY
        return "date" if is_long else "day", self.origin + (self.epoch or 0)


NOT_AVAILABLE = "N/A"
THIN = "\u202f"
_MINUTE = 60 * 10**9
_DAY = 1_440 * _MINUTE
_FIRST_DATE, _LAST_DATE = 946_684_800 * 10**9, 4_102_444_800 * 10**9
"""The years 2000 and 2100."""
_END_OF_DATES = 1 << 63
_CLOCK_END = 60_000 * _MINUTE
"""From a thousand hours on a time is a date in disguise: the seconds say more."""
_EXPONENTS = ((9, "s"), (6, "ms"), (3, "µs"), (0, "ns"))
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d{1,2}(?:\.\d*)?)(?:s)?")
_WALL = re.compile(r"(?:(?:(\d{4})-)?(\d\d)-(\d\d)t?)?(\d\d?:\d\d(?::[\d.]+)?)(?:utc)?")
_FACTORS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign, as printed
    "\u03bcs": 10**3,  # Greek mu, as some keyboards have it
    "ms": 10**6,
    "s": 10**9,
    "cyc": 1,
    "cycles": 1,
    "cycle": 1,
}
_BARE_FACTORS = dict.fromkeys(("ns", "us", "µs", "\u03bcs", "ms", "s"), 1)
"""Units of time, which other traces than those of nanoseconds refuse."""
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def _significant(value: float) -> str:
    """Return `value` with four significant digits and no exponent."""
    magnitude = abs(value)
    decimals = 3 if magnitude < 9.9995 else 2 if magnitude < 99.995 else 1
    if magnitude >= 999.95:
        decimals = 0
    return f"{value:.{decimals}f}"


def format_duration(ticks: int | float, unit: Unit = "ns") -> str:
    """Return a duration such as ``123 ns``, ``12.34 µs`` or ``2:03.4``."""
    if unit != "ns":
        is_whole = unit in ("cycle", "byte") or float(ticks).is_integer()
        return _counted(round(ticks), unit) if is_whole else _mean(ticks, unit)
    magnitude = abs(ticks)
    if magnitude < 1_000:
        return f"{ticks:.0f} ns" if float(ticks).is_integer() else f"{ticks:.1f} ns"
    if magnitude < 999_950:
        return f"{_significant(ticks / 1e3)} µs"
    if magnitude < 999_950_000:
        return f"{_significant(ticks / 1e6)} ms"
    if magnitude < 59_999_500_000:
        return f"{_significant(ticks / 1e9)} s"
    sign = "-" if ticks < 0 else ""
    tenths = round(magnitude / 1e8)
    minutes, rest = divmod(tenths, 600)
    if minutes < 60:
        return f"{sign}{minutes}:{rest // 10:02d}.{rest % 10}"
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}:{minutes:02d}:{rest // 10:02d}.{rest % 10}"


def format_exact(ticks: int, unit: Unit = "ns") -> str:
    """Return every digit: ``1.234 567 890 s`` or ``12,345 cycles``."""
    if unit != "ns":
        unit_names, number = UNITS[unit], _scaled_count(ticks, unit)
        word = unit_names.one if abs(ticks) == unit_names.per else unit_names.many
        return f"{number} {word}".rstrip()
    sign = "-" if ticks < 0 else ""
    seconds, ns = divmod(abs(ticks), 1_000_000_000)
    return f"{sign}{seconds:,}.{_grouped(ns)}{THIN}s"


def _counted(ticks: int, unit: Unit) -> str:
    """Return ticks that are no nanoseconds: ``1,234 cyc``, ``12 samples``."""
    unit_names = UNITS[unit]
    if unit == "byte":
        return format_bytes(ticks)
    word = unit_names.short or (
        unit_names.one if abs(ticks) == unit_names.per else unit_names.many
    )
    return f"{_scaled_count(ticks, unit)} {word}".rstrip()


def _mean(ticks: float, unit: Unit) -> str:
    """Return a part of a tick, as means have it: ``2.5 samples``."""
    unit_names = UNITS[unit]
    return f"{format_number(ticks / unit_names.per)} {unit_names.many}".rstrip()


def _scaled_count(ticks: int, unit: Unit) -> str:
    """Return ``1,234`` or, of thousandths, ``1.234``."""
    per = UNITS[unit].per
    if per == 1:
        return f"{ticks:,}"
    text = _decimal_text(ticks, 1, len(str(per)) - 1)
    return text.rstrip("0").rstrip(".")


def plain_number(ticks: int, unit: Unit) -> str:
    """Return ticks as programs read them: ``1234``, of thousandths ``1.234``."""
    return _scaled_count(ticks, unit).replace(",", "")


def format_exact_time(tick: int, unit: Unit = "ns") -> str:
    """Return every digit of a point in time: ``0.003 370 009 s``, ``1:01.516 898 410``.

    As `format_exact`, with minutes where `TimeForm` has them.
    """
    if unit != "ns" or not _MINUTE <= abs(tick) < _CLOCK_END:
        return format_exact(tick, unit)
    whole, ns = divmod(abs(tick), 10**9)
    sign = "-" if tick < 0 else ""
    return f"{sign}{_clock_text(whole * 10**9, 10**9)}.{_grouped(ns)}"


def format_absolute(tick: int, clock: Clock) -> str:
    """Return every digit of a point in time, with the date where it is known.

    ``2026-11-26 13:22:00.500 000 000 UTC``, else as the file's own clock has it:
    ``48,120.500 000 000 s``, ``12,345 cycles``.
    """
    wall = clock.wall(tick)
    if wall is None:
        return format_exact(tick + clock.origin, clock.unit)
    seconds, ns = divmod(wall, 10**9)
    return f"{_date(seconds):%Y-%m-%d %H:%M:%S}.{_grouped(ns)} UTC"


def _date(seconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def _grouped(ns: int) -> str:
    digits = f"{ns:09d}"
    return f"{digits[:3]}{THIN}{digits[3:6]}{THIN}{digits[6:]}"


@dataclass(frozen=True, slots=True)
class TimeForm:
    """How points in time are written: from which zero, in which unit, how finely.

    Attributes
    ----------
    unit : of the clock.
    step : ticks, a power of ten >= 1; the digits end where it does.
    largest : ticks, >= 0, whose unit all times take, so that those of one axis agree;
        None = each takes the unit of its own size.
    shift : what is added to a tick before it is written.
    style : how it is written; see `Clock.form`.
    """

    unit: Unit = "ns"
    step: int = 1
    largest: int | None = None
    shift: int = 0
    style: TimeStyle = "length"

    @property
    def zone(self) -> str:
        """What times of day are of, UTC; else ""."""
        return "UTC" if self.style in ("day", "date") else ""

    def text(self, tick: int) -> str:
        """Return ``809.1 µs``, ``3.370 ms``, ``11:01.5168`` or ``12,345 cyc``.

        What lies below the step is cut off, never rounded up: what starts at the
        time that is read lies at or behind it.
        """
        value = (tick + self.shift) // self.step * self.step
        if self.unit != "ns":
            return _counted(value, self.unit)
        if self.zone:
            return _day_text(value, self.step, with_date=self.style == "date")
        size = abs(value) if self.largest is None else self.largest
        if self.style == "length" and _MINUTE <= size < _CLOCK_END:
            return _clock_text(value, self.step)
        exponent, name = next((e, n) for e, n in _EXPONENTS if size >= 10**e or e == 0)
        return f"{_decimal_text(value, self.step, exponent)} {name}"

    def range_text(self, shown: TimeRange) -> str:
        """Return both ends and the length: ``0.809 ms – 1.150 ms (341.0 µs)``."""
        length = format_duration(shown.duration, self.unit)
        zone = f" {self.zone}" if self.zone else ""
        return f"{self.text(shown.start)} – {self.text(shown.end)}{zone} ({length})"


def shown_form(shown: TimeRange, clock: Clock, *, absolute: bool = False) -> TimeForm:
    """Return the form of times on an axis that shows `shown`.

    The step is a thousandth of the range or finer, about a pixel.
    """
    style, shift = clock.form(shown, absolute)
    largest = max(abs(shown.start + shift), abs(shown.end + shift))
    step = 10 ** (len(str(max(shown.duration // 1000, 1))) - 1)
    step = step if clock.unit == "ns" else 1
    return TimeForm(clock.unit, step, largest, shift, style)


def listed_form(extent: TimeRange, clock: Clock, *, absolute: bool = False) -> TimeForm:
    """Return the form of times in tables and words of a trace of this `extent`.

    To the nanosecond where a trace is shorter than 10 ms, else to the microsecond.
    """
    is_long = clock.unit == "ns" and extent.duration >= 10_000_000
    style, shift = clock.form(extent, absolute)
    return TimeForm(clock.unit, 1_000 if is_long else 1, None, shift, style)


def column_form(extent: TimeRange, clock: Clock, *, absolute: bool = False) -> TimeForm:
    """Return the form of times in a column of a table of a trace of this `extent`.

    As `listed_form`, all in the unit of the largest: they are compared by their look.
    """
    form = listed_form(extent, clock, absolute=absolute)
    ends = (extent.start + form.shift, extent.end + form.shift)
    return replace(form, largest=max(map(abs, ends)))


def _clock_text(value: int, step: int) -> str:
    """Return nanoseconds as ``2:03`` or ``1:02:03.5``, with the digits of `step`."""
    sign, value = ("-", -value) if value < 0 else ("", value)
    minutes, rest = divmod(value, _MINUTE)
    seconds = _decimal_text(rest, step, 9)
    if rest < 10 * 10**9:
        seconds = "0" + seconds
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{sign}{hours}:{minutes:02d}:{seconds}"
    return f"{sign}{minutes}:{seconds}"


def _day_text(value: int, step: int, *, with_date: bool) -> str:
    """Return nanoseconds since 1970 as ``13:22:00.5`` or ``11-26 13:22:00.5``."""
    seconds, ns = divmod(value, 10**9)
    fraction = _decimal_text(ns, step, 9)[1:]
    form = "%m-%d %H:%M:%S" if with_date else "%H:%M:%S"
    return f"{_date(seconds):{form}}{fraction}"


def _decimal_text(value: int, step: int, exponent: int) -> str:
    """Return ``value / 10**exponent`` with the digits that `step` needs, exactly."""
    digits = exponent
    while digits and step % 10 ** (exponent - digits + 1) == 0:
        digits -= 1
    sign, value = ("-", -value) if value < 0 else ("", value)
    whole, rest = divmod(value, 10**exponent)
    if not digits:
        return f"{sign}{whole:,}"
    return f"{sign}{whole:,}.{rest // 10 ** (exponent - digits):0{digits}d}"


def format_bytes(n: int | float) -> str:
    """Return a size such as ``24.8 MiB``; below 1 KiB the exact count."""
    if abs(n) < 1024:
        return f"{n:.0f} B"
    value, unit = float(n), 0
    while abs(value) >= 1023.95 and unit < len(_BYTE_UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{value:.1f} {_BYTE_UNITS[unit]}"


def format_exact_bytes(n: int) -> str:
    """Return ``26,004,480 bytes``."""
    return f"{n:,} byte" + ("" if abs(n) == 1 else "s")


def format_both_bytes(n: int) -> str:
    """Return ``24.8 MiB (26,004,480 bytes)``."""
    return f"{format_bytes(n)} ({format_exact_bytes(n)})"


def format_offset(offset: int) -> str:
    """Return a file offset in hex with groups of four: ``0x0C4A_8800``."""
    if offset < 0:
        return NOT_AVAILABLE
    digits = f"{offset:X}"
    digits = digits.rjust(-(-len(digits) // 4) * 4, "0")
    return "0x" + "_".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def format_count(n: int) -> str:
    """Return ``1,048,576``."""
    return f"{n:,}"


def format_counted(n: int, noun: str) -> str:
    """Return ``1 lane`` or ``1,200 lanes``."""
    return f"{format_count(n)} {noun}{'' if n == 1 else 's'}"


def format_number(value: float) -> str:
    """Return four digits, and whole numbers beyond: ``0.1234``, ``12.35``, ``12,346``.

    Never with an exponent where the number is large.
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def format_share(share: float) -> str:
    """Return a share (0..1) as per cent with one decimal: ``97.2 %``."""
    if share != share:
        return NOT_AVAILABLE
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{share * 100:.1f} %"


def format_rate(bytes_per_second: float) -> str:
    """Return ``116.0 GiB/s``."""
    return f"{format_bytes(bytes_per_second)}/s"


def format_byte_rate(
    bytes_per_tick: float, unit: Unit = "ns", hz: float | None = None
) -> str:
    """Return a rate per second, or per cycle where nobody says how long one is."""
    if unit != "ns" and not hz:
        return f"{bytes_per_tick:.4g} B/{unit}"
    return format_rate(bytes_per_tick * (hz if unit != "ns" and hz else 1e9))


def parse_duration(text: str, unit: Unit = "ns") -> int:
    """Return the ticks that `text` names: ``12.5ms``, ``3us``, ``1:30``, ``100``.

    All that this module prints is understood, thin spaces and commas included. A bare
    number is ticks; parts of a tick are rounded.

    Raises
    ------
    ValueError
        If it is not understood, or names another unit than `unit`.
    """
    plain = re.sub(r"[\s,_]", "", text).lower().replace("\u2212", "-")
    sign = -1 if plain.startswith("-") else 1
    plain = plain.removeprefix("-").removeprefix("+")
    clock = _CLOCK.fullmatch(plain)
    if clock is not None:
        if unit != "ns":
            raise ValueError(f"this trace counts {_noun(unit)}, not minutes: {text!r}")
        hours, minutes, seconds = clock.groups(default="0")
        return sign * _clock_ticks(hours, minutes, seconds, text)
    own = _own_factors(unit)
    known = own | (_FACTORS if unit == "ns" else _BARE_FACTORS)
    for suffix in sorted(known, key=len, reverse=True):
        if plain.endswith(suffix):
            if unit != "ns" and suffix not in own:
                noun = _noun(unit)
                raise ValueError(f"this trace counts {noun}, not {suffix}: {text!r}")
            return sign * _scaled(plain.removesuffix(suffix), known[suffix], text)
    return sign * _scaled(plain, UNITS[unit].per, text)


def _noun(unit: Unit) -> str:
    """Return what a trace counts, in messages: "cycles", "samples", "numbers"."""
    return UNITS[unit].many or "numbers"


def _own_factors(unit: Unit) -> dict[str, int]:
    """Return the ticks of each word that stands behind a number of a unit."""
    if unit == "byte":
        sizes = {name.lower(): 1024**k for k, name in enumerate(_BYTE_UNITS)}
        return sizes | {"byte": 1, "bytes": 1}
    unit_names = UNITS[unit]
    names = () if unit == "ns" else (unit_names.one, unit_names.many, unit_names.short)
    return {name: unit_names.per for name in names if name}


def parse_time(text: str, clock: Clock, *, absolute: bool = False) -> int:
    """Return the tick of a point in time, written as `TimeForm` writes it.

    Parameters
    ----------
    absolute : whether `text` is a time of day (UTC), with or without its date, where
        the clock knows it, else counts as the file's own clock does.

    Raises
    ------
    ValueError
        As `parse_duration`, or if there is no such day.
    """
    start = clock.wall(0) if absolute else None
    plain = re.sub(r"[\s,_]", "", text).lower()
    match = _WALL.fullmatch(plain) if start is not None else None
    if start is None or match is None:
        return parse_duration(text, clock.unit) - clock.shift(absolute)
    year, month, day, time = match.groups()
    within = parse_duration(time if time.count(":") == 2 else time + ":00")
    if within >= _DAY:
        raise ValueError(f"no day has 24 hours on its clock: {text!r}")
    begun = _date(start // 10**9)
    if month is None:
        # The day that `start` is in or the next; what is just before it is before it.
        tick = (within - start) % _DAY
        return tick - _DAY if tick > _DAY - 60 * _MINUTE else tick
    date = datetime(int(year or begun.year), int(month), int(day), tzinfo=UTC)
    return int(date.timestamp()) * 10**9 + within - start


def _clock_ticks(hours: str, minutes: str, seconds: str, text: str) -> int:
    rest = _scaled(seconds, 10**9, text)
    if rest >= _MINUTE or (int(hours) and int(minutes) >= 60):
        raise ValueError(f"no time has 60 seconds or minutes: {text!r}")
    return (int(hours) * 60 + int(minutes)) * _MINUTE + rest


def _scaled(number: str, factor: int, text: str) -> int:
    """Return an unsigned decimal times `factor`, without loss."""
    if not re.fullmatch(r"(\d+\.?\d*|\.\d+)(e\+?\d{1,2})?", number):
        raise ValueError(f"{text!r} is no time")
    try:
        return round(Decimal(number) * factor)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no time") from error
