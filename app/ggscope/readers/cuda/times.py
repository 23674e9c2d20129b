"""When the events of a trace of CUDA calls happened, in ns from the first of them."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, Bools
from ggscope.readers.common.line_clock import epoch_of, n_backwards, settled
from ggscope.readers.cuda.lines import CallLines, Form

_SCALES = {"s": 1_000_000_000, "ms": 1_000_000}
_USUAL = (((Form.HOOK, Form.NUMBERED), "s"), ((Form.PROBE, Form.ENTRY), "ms"))
"""What the programs write whose files do not state the unit."""
_BETWEEN_NS = 3e7
"""Between a millisecond and a second."""
_FURTHEST_NS = 1 << 61
_MAX_LOOKED_AT = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Ticks of the events.

    Attributes
    ----------
    tick : int64[n] in ns from the first one; 0 where there is none.
    is_placed : bool[n], whether the event has a time.
    unit : of the times in lines of JSON, "s" or "ms"; of several, that of probes.
    is_guessed : whether `unit` follows from who writes such lines, not from durations.
    origin : ns of tick 0 in the clock of the file.
    epoch : ns from 1970, UTC, to the zero of that clock; None where unknown.
    n_back : new events that are earlier than the one of the same clock before them.
    newest : ns of the last event that has a time, in the clock of the file; None: none.
    """

    tick: I64
    is_placed: Bools
    unit: str
    is_guessed: bool
    origin: int
    epoch: int | None
    n_back: int
    newest: int | None


def times_of(
    lines: CallLines,
    requested_unit: str,
    ends: tuple[I64, I64],
    *,
    n_held: int = 0,
    origin: int | None = None,
    newest: int | None = None,
) -> Times:
    """Return when the events happened.

    Parameters
    ----------
    requested_unit : "s", "ms" or "auto".
    ends : int64[m], begin and end of calls, where both are there.
    n_held, origin, newest : so many events were there before, of a file of one clock;
        tick 0 and the last time by then.
    """
    unit, is_guessed = requested_unit, False
    scale = np.full(len(lines), _SCALES["s"], np.int64)
    for forms, usual in _USUAL:
        mine = np.isin(lines.form, forms)
        if not mine.any():
            continue
        chosen_unit = requested_unit
        if requested_unit == "auto":
            stated = _unit_by_durations(lines, ends, mine)
            chosen_unit = stated or usual
            is_guessed |= not stated and usual == "ms"
        unit = chosen_unit
        scale[mine] = _SCALES[chosen_unit]
    scale[lines.form == Form.PROBE_TEXT] = _SCALES["ms"]
    is_placed = np.abs(lines.whole) < _FURTHEST_NS // scale
    whole = np.where(is_placed, lines.whole, 0)
    time = whole * scale + lines.nano // (_SCALES["s"] // scale)
    settled(lines.clock, time, is_placed)
    if not is_placed.any():
        none = np.zeros(len(lines), np.int64)
        return Times(none, is_placed, unit, False, origin or 0, None, 0, newest)
    if origin is None:
        origin = int(time[is_placed].min())
    tick = np.where(is_placed, time - origin, 0)
    is_new = is_placed[n_held:]
    new = time[n_held:][is_new]
    n_back = n_backwards(lines.clock[n_held:][is_new], new)
    if len(new):
        n_back += newest is not None and int(new[0]) < newest
        newest = int(new[-1])
    epoch = lines.notes.epoch if epoch_of(origin) is None else 0
    return Times(tick, is_placed, unit, is_guessed, origin, epoch, n_back, newest)


def _unit_by_durations(lines: CallLines, ends: tuple[I64, I64], mine: Bools) -> str:
    """Return the unit in which times differ by the durations that ends state.

    "" where no end of the events `mine` states one.
    """
    begin, end = (rows[:_MAX_LOOKED_AT] for rows in ends)
    chosen = mine[end] & (lines.duration[end] > 0)
    begin, end = begin[chosen], end[chosen]
    passed = (lines.whole[end] - lines.whole[begin]).astype(np.float64)
    passed += (lines.nano[end] - lines.nano[begin]) * 1e-9
    lasts = passed > 0
    if not lasts.any():
        return ""
    ratio = float(np.median(lines.duration[end][lasts] / passed[lasts]))
    return "s" if ratio > _BETWEEN_NS else "ms"
