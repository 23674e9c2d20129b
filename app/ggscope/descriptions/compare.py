"""A comparison of runs as texts: what changed most, how runs were matched."""

from collections.abc import Sequence
from fractions import Fraction

from ggscope.analysis.compare.compare import Bound, CompareRow, Comparison, Side
from ggscope.analysis.compare.matching import Absence, Hidden, ShareRow
from ggscope.analysis.compare.offset import Anchor
from ggscope.analysis.compare.waterfall import NO_OP, OVERLAP, WORK, Step, Waterfall
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.descriptions.tokens import plural
from ggscope.model.selection import By
from ggscope.model.units import (
    NOT_AVAILABLE,
    Unit,
    format_count,
    format_counted,
    format_duration,
    format_share,
)

MEASURES = {
    "latency": "latency of each token, from its begin to its end",
    "wall": "time in which any op of the group runs",
    "thread time": "sum over all spans of the group",
}
_MAX_LISTED = 5
_BOUNDS: dict[Bound, str] = {"": "", "least": "≥ ", "most": "≤ ", "open": "? "}
"""Signs before changes of what is recorded."""
_ABSENT = {
    Absence.DID_NOT_RUN: "not there",
    Absence.NOT_STATED: "not there",
    Absence.NOT_RECORDED: "not recorded",
}
ABSENCES = {
    Absence.DID_NOT_RUN: "did not run there",
    Absence.NOT_STATED: "not recorded on that side",
    Absence.NOT_RECORDED: "may have run unrecorded",
}
"""What it means that a side has no record of something."""
_ANCHORS = {
    "start": "first span",
    "phase": "first generated token",
    "token": "token",
}


def relative_text(relative: float | None, bound: Bound = "") -> str:
    """Return a relative change: ``+100.0 %``, ``≥ −3 %``, ``×12.5``; "N/A" unknown."""
    if relative is None:
        return NOT_AVAILABLE
    if relative >= 9.995:
        return f"{_BOUNDS[bound]}×{relative + 1:,.1f}"
    sign = "−" if relative < 0 else "+" if relative else ""
    return f"{_BOUNDS[bound]}{sign}{abs(relative) * 100:.1f} %"


def time_text(ticks: float | None, unit: Unit) -> str:
    """Return the time of a side; "N/A" unknown."""
    return NOT_AVAILABLE if ticks is None else format_duration(ticks, unit)


def parts_text(comparison: Comparison, unit: Unit) -> str:
    """Return how the time of a thread changed, part by part; "" where not known."""
    texts = []
    for part in comparison.parts:
        change = relative_text(part.relative)
        if part.relative is None:
            change = change_text(part.change, unit)
        a, b = time_text(part.a.value, unit), time_text(part.b.value, unit)
        texts.append(f"{part.key} {a} → {b} ({change})")
    return f"Per thread: {' · '.join(texts)}" if texts else ""


def change_text(ticks: float | None, unit: Unit, bound: Bound = "") -> str:
    """Return a change of time: ``+1.2 ms``, ``≥ −30 µs``; "N/A" unknown."""
    if ticks is None:
        return NOT_AVAILABLE
    sign = "−" if ticks < 0 else "+" if ticks else ""
    return f"{_BOUNDS[bound]}{sign}{format_duration(abs(ticks), unit)}"


def side_text(row: CompareRow, side: Side, unit: Unit) -> str:
    """Return the time of a side of a row; "not there" where it lacks the group."""
    if row.absence is not None and not side.is_there:
        return _ABSENT[row.absence]
    return time_text(side.value, unit)


def row_relative_text(row: CompareRow, bound: Bound = "") -> str:
    """Return the relative change of a row; which side has it where only one does."""
    if row.only_in and row.absence is not Absence.NOT_RECORDED:
        return f"only in {row.only_in.upper()}"
    return relative_text(row.relative, bound)


def side_spread_text(side: Side, unit: Unit) -> str:
    """Return least and most of a side that has several runs; else ""."""
    if side.spread is None:
        return ""
    low, high = (format_duration(ticks, unit) for ticks in side.spread)
    return f"{low} … {high}"


def spread_text(row: CompareRow, unit: Unit) -> str:
    """Return least and most of each side where it has several runs; else ""."""
    sides = (("A", row.a), ("B", row.b))
    return ", ".join(
        f"{name} {side_spread_text(side, unit)}"
        for name, side in sides
        if side.spread is not None
    )


def headline(comparison: Comparison, unit: Unit) -> str:
    """Return what changed in a sentence: the elapsed time, and what explains it."""
    if not comparison.is_comparable:
        return f"Not comparable: {comparison.reason}."
    if comparison.is_equal:
        if any(row.change for row in comparison.rows):
            return f"All changes are noise{_noise_of_all(comparison, unit)}."
        is_partial = comparison.is_partial
        return "No difference in what is recorded." if is_partial else "No difference."
    row = comparison.elapsed
    if row.relative is None:
        row = comparison.whole
    if row.a.value is None or row.b.value is None or row.change is None:
        return "Times differ; see the rows."
    if not row.change:
        text = "Both take the same time in all"
        largest = next((one for one in comparison.rows if one.change), None)
        if largest is not None:
            text += f"; largest change: {_row_change(comparison, largest, unit)}"
        return f"{text}."
    return (
        f"B takes {_size_text(row.change, unit)} "
        f"({relative_text(row.relative)}, {noise_text(row)})"
        f"{_phase_text(comparison, row.change)}"
        f"{_cause_text(comparison, row.change, unit)}."
    )


def _size_text(change: float, unit: Unit) -> str:
    size = format_duration(abs(change), unit)
    return f"{size} {'longer' if change > 0 else 'less'}"


def _noise_of_all(comparison: Comparison, unit: Unit) -> str:
    """Return the change of the elapsed time where it is noise; "" where none is."""
    row = comparison.elapsed
    if not row.change:
        return ""
    size = _size_text(row.change, unit)
    return f": B takes {size} ({relative_text(row.relative)}, {noise_text(row)})"


def _phase_text(comparison: Comparison, change: float) -> str:
    """Return the phase that changed against the whole; "" where none did."""
    nouns = {"prompt": "the prompt", "generate": "generated tokens"}
    for row in comparison.phases:
        if (row.change or 0) * change < 0 and row.is_noise is not True:
            return f", but {nouns[row.key]} {relative_text(row.relative)}"
    return ""


def _cause_text(comparison: Comparison, change: float, unit: Unit) -> str:
    """Return what makes the most of a change; "" where nothing shows."""
    if any(side.sums() for side in comparison.hidden):
        return "; cause unknown: not all ops are recorded"
    # What became less explains nothing of what became more.
    parts = [part for part in comparison.parts if (part.change or 0) * change > 0]
    main = max(parts, key=lambda part: abs(part.change or 0), default=None)
    first = _first_same(comparison, change)
    if main is not None and (main.key != WORK or first is None):
        return f"; mostly {main.key} ({change_text(main.change, unit)} per thread)"
    if first is None:
        return ""
    start = "; most of it" if main is None else "; mostly work"
    return f"{start}: {_row_change(comparison, first, unit)}"


def _row_change(comparison: Comparison, row: CompareRow, unit: Unit) -> str:
    """Return the group and change of a row: ``op MUL −3.1 ms, only in A``."""
    group = group_text(comparison.by, row.key)
    text = f"{group} {change_text(row.change, unit)}"
    return f"{text}, only in {row.only_in.upper()}" if row.only_in else text


def group_text(by: By, key: str) -> str:
    """Return what a group is called in a sentence: ``op MUL``, ``thread 0``."""
    noun = GROUPINGS[by]
    return key if key.startswith(f"{noun} ") else f"{noun} {key}"


def noise_text(row: CompareRow) -> str:
    """Return whether a change is more than noise, and by what that is judged."""
    if row.is_noise is None:
        is_pair = len(row.a.ticks) == len(row.b.ticks) == 1
        return f"noise unknown: one run {'per' if is_pair else 'of a'} side"
    has_ranges = row.a.spread is not None and row.b.spread is not None
    measure = "the runs vary" if has_ranges else "the tolerance"
    return f"{'no ' if row.is_noise else ''}more than {measure}"


def _first_same(comparison: Comparison, change: float) -> CompareRow | None:
    """Return the row of the largest change in the direction of a change."""
    rows = (row for row in comparison.rows if (row.change or 0) * change > 0)
    return next(rows, None)


def matching_text(comparison: Comparison) -> str:
    """Return how runs are aligned, and what only one of them has."""
    n_a, n_b = comparison.tokens()
    runs = comparison.alignment.runs
    noun = runs[0].bars.noun if len(runs[0].bars) else "span"
    nouns = plural(noun)
    if comparison.alignment.by == "start":
        text = "Whole runs are compared"
    elif n_a == n_b:
        text = (
            f"{format_count(n_a)} {nouns if n_a != 1 else noun} of each side compared"
        )
    else:
        text = (
            f"{format_count(n_a)} {nouns} of A compared with {format_count(n_b)} of B"
        )
    places = ("only in A", "only in B", "not in every run")
    for place, keys in zip(places, unmatched_tokens(comparison), strict=True):
        if keys:
            text += f"; {format_count(len(keys))} {place}, not compared"
    if comparison.alignment.is_open:
        text += "; which ones these are is not recorded, they are matched in order"
    return f"{text}."


def unmatched_tokens(comparison: Comparison) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the tokens that are not compared.

    Those of A alone, those of B alone, and those that both have, but not all runs.
    """
    runs, n_a = comparison.alignment.runs, comparison.n_a
    a, b = (
        dict.fromkeys(key for run in side for key in run.unmatched)
        for side in (runs[:n_a], runs[n_a:])
    )
    return (
        [key for key in a if key not in b],
        [key for key in b if key not in a],
        [key for key in a if key in b],
    )


def only_text(comparison: Comparison, *, with_rows: bool = True) -> list[str]:
    """Return what only one side has, or has without a known time, a line each.

    Parameters
    ----------
    with_rows : whether also groups that have a row.
    """
    lines = []
    noun = GROUPINGS[comparison.by]
    shown = set() if with_rows else {row.key for row in comparison.rows}
    *alone, some = unmatched_tokens(comparison)
    bars = comparison.alignment.runs[0].bars.noun
    sides = zip(
        "AB", "BA", alone,
        (comparison.only_a, comparison.only_b), reversed(comparison.hidden),
        strict=True,
    )  # fmt: skip
    for name, other, tokens, keys, hidden in sides:
        if tokens:
            text = (
                f"Not compared, only in {name}: {_listed(tokens, _bars(bars, tokens))}"
            )
            lines.append(f"{text}{_open_text(other, hidden.tokens)}.")
        if groups := [key for key in keys if key not in shown]:
            text = f"Only in {name}: {_listed(groups, _nouns(noun, groups))}"
            reason = comparison.absence_reason(hidden)
            lines.append(f"{text}{_open_text(other, reason)}.")
    if some:
        text = _listed(some, _bars(bars, some))
        lines.append(f"Not compared, not in every run: {text}.")
    if comparison.untimed and comparison.is_comparable:
        text = _listed(comparison.untimed, _nouns(noun, comparison.untimed))
        lines.append(f"Without a known time on a side: {text}.")
    return lines


def _open_text(side: str, reason: str) -> str:
    return f"; {side} may have run them unrecorded" if reason else ""


def _bars(noun: str, keys: Sequence[str]) -> str:
    return noun if len(keys) == 1 else plural(noun)


def _nouns(noun: str, keys: Sequence[str]) -> str:
    return format_counted(len(keys), noun).partition(" ")[2]


def _listed(keys: Sequence[str], nouns: str) -> str:
    """Return how many there are, and the first ones."""
    listed = ", ".join(keys[:_MAX_LISTED])
    more = len(keys) - _MAX_LISTED
    rest = f" and {format_count(more)} more" if more > 0 else ""
    return f"{format_count(len(keys))} {nouns} ({listed}{rest})"


def partial_text(comparison: Comparison) -> str:
    """Return which sides are partial, in a few words; "" where none is."""
    sides = [
        n for n, one in zip("AB", comparison.hidden, strict=True) if one.is_partial
    ]
    if not sides:
        return ""
    return f"{' and '.join(sides)} {'are' if len(sides) > 1 else 'is'} partial."


def limits_text(comparison: Comparison, unit: Unit, hz: float | None) -> list[str]:
    """Return what the comparison cannot show, a line each: partial sides, clocks."""
    lines = []
    for name, hidden in zip("AB", comparison.hidden, strict=True):
        if hidden.is_partial:
            lines.append(f"{name}: {_hidden_text(comparison, hidden)}.")
    if unit == "cycle" and hz is None and comparison.is_comparable:
        lines.append(
            "Both count cycles of an unknown frequency: cycles are compared, not time."
        )
    lines += [
        f"Different {one.what}: A {one.a}, B {one.b}." for one in comparison.differences
    ]
    return lines


def _hidden_text(comparison: Comparison, hidden: Hidden) -> str:
    reasons = dict.fromkeys(
        reason for reason in (hidden.tokens, hidden.ops, hidden.threads) if reason
    )
    text = ", ".join(reasons)
    if hidden.sums(comparison.by) and comparison.measure != "latency":
        text += "; times are of what is recorded, it may have taken more"
    return text


def share_text(share: float | None) -> str:
    """Return a share of the time of a side; "N/A" unknown."""
    return NOT_AVAILABLE if share is None else format_share(share)


def shares_text(rows: Sequence[ShareRow]) -> list[tuple[str, str, str, str, str]]:
    """Return key, spans of both sides and their shares of time, as cells."""
    return [
        (
            row.key,
            format_count(round(row.count_a)),
            format_count(round(row.count_b)),
            share_text(row.share_a),
            share_text(row.share_b),
        )
        for row in rows
    ]


def ticks_text(ticks: Fraction | float, unit: Unit, *, signed: bool = False) -> str:
    """Return a mean time, or its change with a sign."""
    value = float(ticks)
    return change_text(value, unit) if signed else format_duration(value, unit)


def step_times_text(step: Step, comparison: Comparison, unit: Unit) -> str:
    """Return the times of a step: ``A 1.2 ms, B not there``."""
    hidden, times = comparison.hidden, list[str]()
    for name, mean, side in zip("AB", (step.mean_a, step.mean_b), hidden, strict=True):
        text = ticks_text(mean, unit)
        if step.is_group and not mean:
            text = _ABSENT[side.absence(side.sums())]
        times.append(f"{name} {text}")
    return ", ".join(times)


def step_share_text(step: Step) -> str:
    """Return the relative change of a step, or which side alone has its group."""
    if step.is_group and not (step.mean_a and step.mean_b):
        return f"only in {'A' if step.mean_a else 'B'}"
    return relative_text(float(step.change / step.mean_a)) if step.mean_a else ""


def offset_text(offset: int, anchor: Anchor, unit: Unit) -> str:
    """Return how two timelines are aligned: ``aligned by start, B + 1.2 ms``."""
    by = "moved by hand" if anchor == "offset" else f"aligned by {_ANCHORS[anchor]}"
    moved = change_text(offset, unit) if offset else "no offset"
    return f"{by}, clock of B {moved}"


def steps_spread_text(runs: Sequence[Fraction], unit: Unit) -> str:
    """Return least and most over several runs."""
    low, high = (ticks_text(ticks, unit) for ticks in (min(runs), max(runs)))
    return f"{low} … {high} over {format_count(len(runs))} runs"


def waterfall_text(waterfall: Waterfall, unit: Unit) -> str:
    """Return the totals of a waterfall in a sentence, or why there is none."""
    if waterfall.total is None:
        return f"No steps: {waterfall.reason}."
    total = waterfall.total
    phase = {"generated": "generated ", "prompt": "prompt "}.get(waterfall.tokens, "")
    what = (
        "Whole run" if waterfall.noun == "run" else f"Time per {phase}{waterfall.noun}"
    )
    a, b = ticks_text(total.mean_a, unit), ticks_text(total.mean_b, unit)
    change = ticks_text(total.change, unit, signed=True)
    share = float(total.change / total.mean_a) if total.mean_a else None
    text = f"{what}: {a} → {b} ({change}, {relative_text(share)})"
    if max(len(total.a), len(total.b)) > 1:
        text += ", mean of the runs"
    return f"{text}."


def waterfall_notes(waterfall: Waterfall) -> list[str]:
    """Return what steps mean where their names do not show."""
    keys = {step.key for step in waterfall.steps}
    notes = []
    if OVERLAP in keys:
        notes.append(
            f"“{OVERLAP}” takes off what ops of several groups running at once count "
            "twice."
        )
    if waterfall.has_untimed:
        notes.append(f"“{NO_OP}” may hold ops whose time is not known.")
    if waterfall.hides_idle:
        notes.append(
            "Idle time is unknown here: ends are derived, or part of the "
            "run is not recorded."
        )
    return notes
