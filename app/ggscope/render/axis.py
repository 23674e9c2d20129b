"""The ticks of a time axis: round steps of 1, 2 and 5, and what they say."""

from dataclasses import dataclass

from ggscope.model.units import (
    Clock,
    TimeForm,
    TimeRange,
    Unit,
    format_absolute,
    format_exact_time,
)

LABEL_SIZE = 11.0
CHARACTER_PX = 0.602 * LABEL_SIZE
"""Width of a character of the monospaced face; the usual ones have 0.6 em."""
_GAP_PX = 26.0
_MIN_SPACING_PX = 68.0
_LONGEST_LABEL = 15
_CLOCK_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)


@dataclass(frozen=True, slots=True)
class Axis:
    """Ticks of an axis.

    Attributes
    ----------
    ticks : (tick, label) from left to right, also just outside the view.
    step : ticks between two of them.
    minor : ticks between two small marks, a divisor of `step`.
    base : what all labels are counted from, in full, where they would be too
        long to read; else the zone of times of day, or "".
    """

    ticks: tuple[tuple[int, str], ...]
    step: int
    minor: int
    base: str = ""


def axis_ticks(
    visible: TimeRange, width: float, clock: Clock, *, absolute: bool = False
) -> Axis:
    """Return the ticks for `visible` on `width` pixels.

    Parameters
    ----------
    absolute : label with the time of day, or the file's own clock; ticks then lie
        on round values of these.
    """
    style, shift = clock.form(visible, absolute)
    duration = max(visible.duration, 1)
    per_px = duration / max(width, 1.0)
    low, high = visible.start + shift, visible.start + shift + duration
    for step in _steps(clock.unit):
        if step < per_px * _MIN_SPACING_PX:
            continue
        form = TimeForm(clock.unit, step, high, style=style)
        base = _base(low, high, form)
        if base:
            form = TimeForm(clock.unit, step, high - base)
        first = (low - base) // step * step + base
        values = range(first, high + step, step)
        labels = [_label(v - base, form) for v in values]
        longest = max(len(text) for text in labels)
        if longest * CHARACTER_PX + _GAP_PX <= step / per_px:
            break
    ticks = tuple(
        (value - shift, "+" + text if base else text)
        for value, text in zip(values, labels, strict=True)
    )
    base_text = form.zone
    if base and absolute:
        base_text = format_absolute(base - shift, clock)
    elif base:
        base_text = format_exact_time(base, clock.unit)
    return Axis(ticks, step, _minor(step), base_text)


def _steps(unit: Unit) -> list[int]:
    """Return every step from one tick to far beyond int64."""
    fine = [m * 10**k for k in range(20) for m in (1, 2, 5)]
    if unit != "ns":
        return fine
    seconds = [s * 10**9 for s in _CLOCK_STEPS]
    hours = [3600 * 10**9 * m * 10**k for k in range(7) for m in (1, 2, 5)][1:]
    return [s for s in fine if s < 10**9] + seconds + hours


def _minor(step: int) -> int:
    """Return a fifth, a quarter or a half of a step where that is whole."""
    return next((step // n for n in (5, 4, 2) if step % n == 0), step)


def _base(low: int, high: int, form: TimeForm) -> int:
    """Return 0, or a round value to count from where labels would be too long."""
    if len(_label(high, form)) <= _LONGEST_LABEL:
        return 0
    round_to: int = 10 ** len(str(max(high - low, 1)))
    return low // round_to * round_to


def _label(value: int, form: TimeForm) -> str:
    """Return the label of one tick; all ticks of an axis share unit and digits."""
    if form.unit != "ns":
        return f"{value:,}"
    return form.text(value)
