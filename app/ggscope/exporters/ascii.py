"""A timeline made of letters, for terminals and logs."""

import re
import string
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ggscope.analysis.rows.categories import Categories
from ggscope.analysis.rows.columns import Columns, RowColumns, column_edges
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import TimelineLane, TimelineLanes
from ggscope.model.selection import ColorBy
from ggscope.model.tables import I64, Phase
from ggscope.model.trace import Trace
from ggscope.model.units import (
    Clock,
    TimeRange,
    format_count,
    format_duration,
    format_share,
    shown_form,
)
from ggscope.sanitize import one_line

IDLE = "."
STALLED = "!"
OTHER = "#"
"""Stands for all categories for which no letter is left."""
UNNAMED = "="
"""Stands for spans that have no category: a graph has no op."""

_MIN_COLUMNS = 20
_MAX_TITLE = 22
_MAX_ROWS = 6
_MAX_LANES, _MAX_OF_GROUP = 400, 64
"""Of more lanes than the first number, the second one of each group are drawn."""
_SHARE_WIDTH = 8
_TICK_COLUMNS = 16
_DIGITS = dict(enumerate(string.digits + string.ascii_uppercase))
_NUMBERED = re.compile(r"(?:layer|token|thread):(\d+)")


def ascii_timeline(
    source: Trace | TraceIndex,
    *,
    width: int = 100,
    visible: TimeRange | None = None,
    by: ColorBy = "family",
) -> str:
    """Return the timeline as lines of at most `width` ASCII characters.

    Each column shows the letter of the category that covers most of it: a capital
    where the lane is busy for at least half of the column, a small letter where it
    is less, a dot where it is idle. Token lanes show the last digit of the token,
    phase lanes P or G. At the right stands the lane's busy share of the visible
    time.

    Parameters
    ----------
    width : at least about 50; less is treated as that.
    visible : the whole trace where None.
    """
    index = source if isinstance(source, TraceIndex) else TraceIndex(source)
    trace = index.trace
    visible_range = trace.extent if visible is None else visible
    if visible_range.duration == 0:
        visible_range = TimeRange(visible_range.start, visible_range.start + 1)
    lanes, left_out = _fitting(index.lanes)
    titles = [_ascii(lane.title) for lane in lanes]
    indent = min(max(map(len, titles), default=0), _MAX_TITLE) + 4
    px = max(width - indent - _SHARE_WIDTH, _MIN_COLUMNS)
    if not lanes:
        return f"{_name(trace)}: there are no spans to show.\n"
    lines = [
        _head(trace, visible_range, px),
        *_scale(visible_range, px, indent, trace.clock),
    ]
    edges = column_edges(visible_range, px)
    pictures = [
        [row.query(edges) for row in index.row_columns(lane.key, by)[:_MAX_ROWS]]
        for lane in lanes
    ]
    categories = index.categories(by)
    symbols = _symbols(categories, _shown(lanes, pictures))
    phases = _phase_symbols(index, lanes, symbols)
    letters = {phase: letter for phase, (letter, _) in phases.items()}
    group = ""
    for lane, title, rows in zip(lanes, titles, pictures, strict=True):
        if lane.group != group:
            lines += _more_lanes(left_out.pop(group, 0), group)
            group = lane.group
            lines.append(_ascii(group))
        texts = [_row_text(trace, lane, row, symbols, letters) for row in rows]
        lines += _lane_lines(title, texts, [_share(c, edges) for c in rows], indent)
        n_hidden = sum(row.levels for row in index.rows(lane.key)) - len(rows)
        if n_hidden:
            lines.append(" " * indent + f"({n_hidden:,} more rows)")
        if lane.overlay:
            line = _stall_line(index, lane, edges)
            lines.append("    stalls".ljust(indent) + line)
    lines += _more_lanes(left_out.pop(group, 0), group)
    lines += _more_lanes(sum(left_out.values()), "other groups")
    lines += ["", *_legend(categories, symbols, phases, lines, width, lanes)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _fitting(lanes: TimelineLanes) -> tuple[list[TimelineLane], dict[str, int]]:
    """Return the lanes that are drawn, and how many are not, by group.

    All with spans where they are few, else the first of each group.
    """
    # Lanes of a column, such as those of layers, repeat the spans of the others.
    repeats = lanes.of_track(lambda spec: bool(spec.column))
    chosen = np.flatnonzero((lanes.n_spans > 0) & lanes.has_rows & ~repeats)
    if len(chosen) <= _MAX_LANES:
        return [lanes[i] for i in chosen.tolist()], {}
    # The place of each lane in its group; the lanes of a group need not lie together.
    group = lanes.group[chosen]
    by_group = np.argsort(group, kind="stable")
    ranked = group[by_group]
    place = np.empty(len(group), np.int64)
    place[by_group] = np.arange(len(group)) - np.searchsorted(ranked, ranked)
    drawn = chosen[place < _MAX_OF_GROUP][:_MAX_LANES]
    n = len(lanes.groups)
    missing = np.bincount(group, minlength=n) - np.bincount(
        lanes.group[drawn], minlength=n
    )
    present = dict.fromkeys(group.tolist())
    left_out = {lanes.groups[i]: int(missing[i]) for i in present}
    return [lanes[i] for i in drawn.tolist()], left_out


def _more_lanes(n: int, group: str) -> list[str]:
    return [f"  ({n:,} more lanes of {_ascii(group)})"] if n else []


def _name(trace: Trace) -> str:
    return _ascii(trace.info.paths[0].name if trace.info.paths else "trace")


def _head(trace: Trace, visible: TimeRange, px: int) -> str:
    times = shown_form(visible, trace.clock)
    begin, end = times.text(visible.start), times.text(visible.end)
    return _ascii(
        f"{_name(trace)}: {begin} to {end}, "
        f"one column = {format_duration(visible.duration / px, trace.clock.unit)}, "
        f"{format_count(len(trace.spans))} spans"
    )


def _scale(visible_range: TimeRange, px: int, indent: int, clock: Clock) -> list[str]:
    """Return a line of times and one of ticks below it."""
    form, times, ticks = shown_form(visible_range, clock), "", ""
    for column in range(0, px, _TICK_COLUMNS):
        text = _ascii(
            form.text(visible_range.start + column * visible_range.duration // px)
        )
        width = min(_TICK_COLUMNS, px - column)
        times += text[:width].ljust(width) if len(text) <= width else " " * width
        ticks += "|" + "-" * (width - 1)
    return [" " * indent + times, " " * indent + ticks]


def _lane_lines(
    title: str, texts: Sequence[str], shares: Sequence[float], indent: int
) -> list[str]:
    name = title if len(title) <= indent - 4 else title[: indent - 5] + "~"
    lines: list[str] = []
    for text, share in zip(texts, shares, strict=True):
        head = "" if lines else f"  {name}"
        lines.append(f"{head.ljust(indent)}{text} {format_share(share).rjust(7)}")
    return lines


def _row_text(
    trace: Trace,
    lane: TimelineLane,
    columns: Columns,
    symbols: Sequence[str],
    phases: Mapping[int, str],
) -> str:
    """Return one character per column."""
    letters = _own_letters(trace, lane, columns, phases)
    return "".join(
        IDLE
        if category < 0 or busy <= 0
        else letter or (symbols[category] if busy >= 0.5 else symbols[category].lower())
        for category, busy, letter in zip(
            columns.category.tolist(), columns.busy.tolist(), letters, strict=True
        )
    )


def _own_letters(
    trace: Trace, lane: TimelineLane, columns: Columns, letters: Mapping[int, str]
) -> list[str]:
    """Return what tokens and phases show instead of a category; "" elsewhere.

    Tokens show the last digit of their number, phases their letter.
    """
    s = trace.spans
    if lane.track.band == "token" and s.token is not None:
        tokens = [int(s.token[i]) if i >= 0 else -1 for i in columns.longest.tolist()]
        return [str(token % 10) if token >= 0 else "" for token in tokens]
    if lane.track.band == "phase" and s.phase is not None:
        phases = [int(s.phase[i]) if i >= 0 else -1 for i in columns.longest.tolist()]
        return [letters.get(phase, "") for phase in phases]
    return [""] * len(columns.busy)


def _share(columns: Columns, edges: I64) -> float:
    """Return the busy share of the visible time, for any number of columns."""
    widths = np.diff(edges)
    if not widths.all():
        # Columns narrower than a tick are busy or not, each counting the same.
        return float(columns.busy.mean())
    return float((columns.busy * widths).sum() / widths.sum())


def _stall_line(index: TraceIndex, lane: TimelineLane, edges: I64) -> str:
    busy = np.zeros(len(edges) - 1)
    for row in index.overlay_rows(lane.key):
        busy = np.maximum(busy, RowColumns(row).query(edges).busy)
    return "".join(STALLED if share > 0 else " " for share in busy.tolist())


def _shown(
    lanes: Iterable[TimelineLane], pictures: Iterable[Iterable[Columns]]
) -> set[int]:
    """Return the categories that occur in any column of a lane that shows them."""
    category_ids: set[int] = set()
    for lane, rows in zip(lanes, pictures, strict=True):
        if lane.track.band:
            continue
        for columns in rows:
            category_ids.update(np.unique(columns.category[columns.busy > 0]).tolist())
    return category_ids - {-1}


def _symbols(categories: Categories, shown: set[int]) -> list[str]:
    """Return one capital or digit per category; `OTHER` where none is left.

    Numbers below 36 show as themselves ("layer 3" as 3, "layer 10" as A); names
    take the first free letter of their own, so that most read well.
    """
    symbols, free = [OTHER] * len(categories.labels), list(string.ascii_uppercase)
    late: list[int] = []
    for category in sorted(shown):
        label = categories.labels[category].upper()
        number = _NUMBERED.fullmatch(categories.keys[category])
        letters = [c for c in label if c in free]
        if categories.keys[category] == "none":
            symbols[category] = UNNAMED
        elif number:
            symbols[category] = _DIGITS.get(int(number[1]), OTHER)
        elif letters:
            symbols[category] = letters[0]
            free.remove(letters[0])
        else:
            late.append(category)
    for category, symbol in zip(late, [*free, *string.digits], strict=False):
        symbols[category] = symbol
    return symbols


def _phase_symbols(
    index: TraceIndex, lanes: Sequence[TimelineLane], symbols: Sequence[str]
) -> dict[int, tuple[str, str]]:
    """Return (letter, name) of each phase, by the first free letter of its name.

    Names are those of the trace, such as prefill and decode.
    """
    if all(lane.track.band != "phase" for lane in lanes):
        return {}
    bands, taken = index.phase_bands(), set(symbols)
    names = dict(zip(bands.phase.tolist(), bands.names, strict=True))
    symbol_of = {}
    for phase in (Phase.PROMPT, Phase.GENERATE):  # no lane of these is mixed
        name = names.get(int(phase), phase.name.lower())
        letters = [*_ascii(name).upper(), *string.ascii_uppercase]
        letter = next((c for c in letters if c.isalpha() and c not in taken), OTHER)
        taken.add(letter)
        symbol_of[int(phase)] = (letter, name)
    return symbol_of


def _legend(
    categories: Categories,
    symbols: Sequence[str],
    phases: Mapping[int, tuple[str, str]],
    lines: Sequence[str],
    width: int,
    lanes: Sequence[TimelineLane],
) -> list[str]:
    """Return the meaning of the letters, wrapped to `width`."""
    parts = [
        f"{symbol} {_ascii(label)}"
        for label, symbol in zip(categories.labels, symbols, strict=True)
        if symbol != OTHER
    ]
    if any(OTHER in line for line in lines[1:]):
        parts.append(f"{OTHER} others")
    parts += [f"{letter} {_ascii(name)}" for letter, name in phases.values()]
    if any(lane.track.band == "token" for lane in lanes):
        parts.append("0-9 last digit of the token")
    # A stack that ends early is no idle thread.
    is_work = any(lane.track.is_work for lane in lanes)
    is_profile = not is_work and any(lane.track.id == "stacks" for lane in lanes)
    parts.append(f"{IDLE} {'nothing' if is_profile else 'idle'}")
    if any(lane.overlay for lane in lanes):
        parts.append(f"{STALLED} stalled")
    wrapped = [""]
    for part in parts:
        if wrapped[-1] and len(wrapped[-1]) + 2 + len(part) > max(width, 40):
            wrapped.append("")
        wrapped[-1] += ("  " if wrapped[-1] else "") + part
    return [*wrapped, "Capital letters: busy for half of the column or more."]


def _ascii(text: str) -> str:
    """Return `text` in ASCII, with control characters as their escapes."""
    for character, simple in (("µ", "u"), ("–", "-"), ("…", "~"), ("·", "-")):
        text = text.replace(character, simple)
    return one_line(text).encode("ascii", "replace").decode("ascii")
