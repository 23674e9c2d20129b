"""Facts about one span, marker or access, as texts.

Tooltips, Details and the copy commands show the same texts. Unknown values read
"N/A"; sentinels of the formats (65535, 0xFFFFFFFF, NaN) never reach a text.
"""

from dataclasses import dataclass, replace

import numpy as np

from ggscope.analysis.reads.file_ranges import RangePart, parts_of_range
from ggscope.analysis.reads.op_io import (
    AccessTable,
    Direction,
    Knowledge,
    account_of,
    directions_of,
)
from ggscope.analysis.reads.shared import spans_of_op
from ggscope.descriptions.residency import origin_text
from ggscope.model.tables import (
    NO_WAIT,
    AccessColumns,
    Phase,
    Quality,
    Space,
    SpanFlag,
    Spans,
    quality_of,
    schema_of,
)
from ggscope.model.tensors import BufferUsage
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    Clock,
    TimeForm,
    Unit,
    column_form,
    format_absolute,
    format_byte_rate,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_exact_time,
    format_offset,
    format_share,
    listed_form,
)
from ggscope.sanitize import one_line

PENDING = "still being read"
_MOVED = {"bytes read": "read", "bytes written": "written"}
"""Facts of bytes -> what a tooltip calls them."""
BADGES = {space: space.word for space in Space} | {
    Space.BUFFER: "BUF",
    Space.UNKNOWN: "?",
}
_ODDITIES = (
    (SpanFlag.OVERLAPS_PARENT, "overlaps the span around it"),
    (SpanFlag.OUT_OF_ORDER, "out of order in the file"),
    (SpanFlag.TRUNCATED_NAME, "name truncated in the file"),
    (SpanFlag.REPEATED, "same op as on another thread, counted there"),
    (SpanFlag.FUSED, "fused with the next node: includes its time"),
    (SpanFlag.ASYNC, "asynchronous: returns before the work is done"),
)

_MAX_PARTS = 12
"""Tensors of a range that are listed."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of a list of facts.

    Attributes
    ----------
    label : what it is, lower case.
    value : as people read it, abbreviated.
    exact : every digit; "" where `value` says it all.
    caution : whether the value is less than measured and should stand out.
    qualifier : trailing words of `value` that say how far to trust it.
    """

    label: str
    value: str
    exact: str = ""
    caution: bool = False
    qualifier: str = ""


@dataclass(frozen=True, slots=True)
class AccessFact:
    """One access of a span: a source or a destination.

    Attributes
    ----------
    badge : letters of the memory it lies in: DISK, BUF, DRAM, SPM or "?".
    space : `Space`, for the badge's colour.
    is_write : whether it is a destination.
    name : tensor, "N/A" where the file does not say.
    size, exact_size : "24.8 MiB" and "26,004,480 bytes", or "N/A".
    place : "offset 0x0C4A_8800", "compute buffer 2", "address 0x…",
        "offset N/A", "buffer N/A" or "N/A".
    layer, expert, address : texts; "N/A" where there is none.
    bytes : size as a number, -1 unknown.
    tensor : row of ``Trace.tensors``, -1 unknown or several.
    of_range : tensors that its bytes lie in, with how many, where it names none.
    origin, origin_text : whether it came from disk, shortly and with what that rests
        on; "" where nobody looked at the page cache.
    """

    badge: str
    space: Space
    is_write: bool
    name: str
    size: str
    exact_size: str
    place: str
    layer: str
    expert: str
    address: str
    bytes: int
    tensor: int = -1
    of_range: tuple[str, ...] = ()
    origin: str = ""
    origin_text: str = ""


def time_form(trace: Trace, *, absolute: bool = False) -> TimeForm:
    """Return the form in which the times of `trace` are listed and described."""
    return listed_form(trace.extent, trace.clock, absolute=absolute)


def column_time_form(trace: Trace, *, absolute: bool = False) -> TimeForm:
    """Return the form of the times of `trace` in the columns of tables."""
    return column_form(trace.extent, trace.clock, absolute=absolute)


def time_text(trace: Trace, tick: int, *, absolute: bool = False) -> str:
    """Return a time from the start of the trace, or as the file's clock has it."""
    return time_form(trace, absolute=absolute).text(tick)


def exact_time_text(trace: Trace, tick: int) -> str:
    """Return every digit of a time, from the start and as the file's clock has it.

    And the time of day, where it is known.
    """
    clock = trace.clock
    text = f"{format_exact_time(tick, clock.unit)} from the start"
    if clock.origin and clock.epoch != 0:
        raw = format_exact(tick + clock.origin, clock.unit)
        text += f"; {raw} in the file's clock"
    if clock.wall(tick) is not None:
        text += f"; {format_absolute(tick, clock)}"
    return text


def absolute_text(clock: Clock | None) -> str:
    """Return what times are that do not count from the start of a trace."""
    if clock is None:
        return "absolute time"
    if clock.unit != "ns":
        return f"absolute {clock.unit_name}"
    return "file's clock" if clock.wall(0) is None else "time of day (UTC)"


def quality_word(trace: Trace, span: int) -> str:
    """Return "measured", "derived", "estimated" or "unfinished"."""
    return _quality(trace, span).word


def quality_text(trace: Trace, span: int) -> str:
    """Return the quality of a span's times with its reason, in words."""
    flags = SpanFlag(int(trace.spans.flags[span]))
    quality = _quality(trace, span)
    if quality is Quality.UNFINISHED:
        return "unfinished: no end recorded"
    if quality is Quality.ESTIMATED:
        return "estimated: a share of a measured whole"
    if quality is Quality.DERIVED:
        if flags & SpanFlag.INFERRED_END:
            # Tokens and phases end with what belongs to them, not where a record comes.
            kind = _lane_kind(trace, span)
            if kind == LaneKind.STACKS:
                return "derived: made of samples"
            return (
                "derived: until the next record of this thread"
                if kind == LaneKind.THREAD
                else "derived: end not recorded"
            )
        return "derived: start not recorded"
    return "measured"


def color_key(trace: Trace, span: int) -> str:
    """Return the colour key of a span: its op's, else its engine's, else ""."""
    op = trace.op_name(int(trace.spans.op[span]))
    if op:
        return f"op:{op}"
    if _lane_kind(trace, span) != LaneKind.ENGINE:
        return ""
    return f"engine:{trace.lanes.names[trace.spans.lane[span]]}"


def _lane_kind(trace: Trace, span: int) -> int:
    """Return the `LaneKind` of the lane of a span."""
    return int(trace.lanes.kinds[trace.spans.lane[span]])


def phase_word(trace: Trace, phase: int) -> str:
    """Return the phase as the trace's own people call it; "N/A" where unknown."""
    if phase < 0:
        return NOT_AVAILABLE
    if phase == Phase.MIXED:
        return "mixed"
    npu = bool(trace.lanes.is_engine.any())
    names = ("prefill", "decode") if npu else ("prompt", "generate")
    return names[Phase(phase)]


def duration_of(trace: Trace, span: int) -> int:
    """Return the ticks between a span's start and end."""
    return int(trace.spans.end[span]) - int(trace.spans.start[span])


def known_duration(trace: Trace, span: int) -> int | None:
    """Return the ticks between a span's start and end; None: no end was recorded."""
    if _quality(trace, span) is Quality.UNFINISHED:
        return None
    return duration_of(trace, span)


def access_facts(trace: Trace, span: int) -> tuple[AccessFact, ...]:
    """Return what a span accesses, in the order of the file."""
    what = trace.accesses.of_span(span)
    directions = directions_of(trace, span, what)
    facts = tuple(
        _access(trace, what, row, direction) for row, direction in enumerate(directions)
    )
    if trace.residency is None:
        return facts
    origins = (origin_text(trace, span, row) for row in range(len(facts)))
    return tuple(
        replace(fact, origin=short, origin_text=origin_text)
        for fact, (short, origin_text) in zip(facts, origins, strict=True)
    )


def destination_of(trace: Trace, span: int) -> Fact | None:
    """Return name and size of the tensor an op writes; None of what is no op of ggml.

    Spans of programs, which have categories, bear names of their own.
    """
    if trace.spans.category is not None:
        return None
    if int(trace.spans.op[span]) < 0 or _lane_kind(trace, span) == LaneKind.STACKS:
        return None
    name = trace.strings[int(trace.spans.name[span])] or NOT_AVAILABLE
    size, tensor = -1, trace.spans.tensor
    result = trace.accesses.result_bytes(span)
    if result is not None:  # of a tensor of that name others may be larger
        size = result
    elif tensor is not None and int(tensor[span]) >= 0:
        size = int(trace.tensors.size[int(tensor[span])])
    if size < 0:
        return Fact(name, NOT_AVAILABLE)
    return Fact(name, format_bytes(size), format_exact_bytes(size))


def span_facts(
    trace: Trace, span: int, *, absolute: bool = False, record_offset: int | None = None
) -> tuple[Fact, ...]:
    """Return everything known of span `span` but its accesses, in reading order.

    Parameters
    ----------
    absolute : give the start as the file's own clock has it.
    record_offset : byte offset of the span's record, where it was looked up.

    Raises
    ------
    IndexError
        If the span does not exist.
    """
    spans = trace.spans
    start, end = int(spans.start[span]), int(spans.end[span])
    op = int(spans.op[span])
    facts = [Fact("name", trace.span_name(span))]

    def when(label: str, tick: int) -> list[Fact]:
        if trace.clock.is_weight:  # where a frame lies says nothing
            return []
        exact = exact_time_text(trace, tick)
        return [Fact(label, time_text(trace, tick, absolute=absolute), exact)]

    if op >= 0:
        facts.append(Fact("op", trace.op_name(op), _op_source(trace, op)))
    facts += [
        _lane_fact(trace, int(spans.lane[span])),
        *when("start", start),
        _duration_fact(trace, span),
        *_wait_facts(trace, span),
        *when("end", end),
        *(
            Fact(column.label, column_text(trace, name, span))
            for name, column in schema_of(Spans).items()
            if column.label
            and name != "wait"  # beside the duration
            and not (column.is_rare and getattr(spans, name) is None)
        ),
        *_launch_facts(trace, span),
        *_byte_facts(trace, span),
        record_fact(trace.record_of(span), record_offset),
    ]
    odd = [text for bit, text in _ODDITIES if int(spans.flags[span]) & bit]
    if odd:
        facts.append(Fact("note", "; ".join(odd), caution=True))
    return tuple(facts)


def marker_facts(
    trace: Trace,
    marker: int,
    *,
    absolute: bool = False,
    record_offset: int | None = None,
) -> tuple[Fact, ...]:
    """Return everything known of an instant. Raises IndexError as `span_facts`."""
    markers = trace.markers
    tick = int(markers.time[marker])
    record = -1 if markers.record is None else int(markers.record[marker])
    facts = [
        Fact("name", trace.strings[int(markers.name[marker])] or NOT_AVAILABLE),
        _lane_fact(trace, int(markers.lane[marker])),
        Fact(
            "time",
            time_text(trace, tick, absolute=absolute),
            exact_time_text(trace, tick),
        ),
        record_fact(record, record_offset),
    ]
    detail = trace.strings[int(markers.detail[marker])]
    if detail:
        facts.insert(3, Fact("detail", detail))
    return tuple(facts)


def record_fact(record: int, offset: int | None = None) -> Fact:
    """Return the fact "record": its number and, where known, its byte offset."""
    if record < 0:
        return Fact("record", NOT_AVAILABLE)
    value = format_count(record)
    if offset is None:
        return Fact("record", value)
    exact = f"record {value} at byte {format_count(offset)}"
    return Fact("record", f"{value} at {format_offset(offset)}", exact)


def tooltip_text(trace: Trace, span: int, *, absolute: bool = False) -> str:
    """Return what matters of a span in at most five lines of plain text.

    The name; op and lane; when and how long; layer, token, phase and bytes; all digits
    of a duration and of bytes that these round. What is not known is left out;
    Details says it.
    """
    known = [
        fact
        for fact in span_facts(trace, span, absolute=absolute)
        if fact.value not in (NOT_AVAILABLE, PENDING)
    ]
    facts = {fact.label: fact.value for fact in known}
    length, quality = _length(trace, span), _quality(trace, span).word
    when = f"{length} {quality}".replace(" – ", " ")
    if "start" in facts:
        when = f"at {facts['start']} · {when}"
    if wait_of(trace, span) > 0:
        when += f" · waited {column_text(trace, 'wait', span)}"
    if "note" in facts:
        when += f" · {facts['note']}"
    rest = [f"{label} {facts[label]}" for label in ("layer", "token") if label in facts]
    rest += [facts["phase"]] if "phase" in facts else []
    if "samples" in facts and trace.clock.unit != "sample":
        rest.append(f"{facts['samples']} samples")
    for label, word in _MOVED.items():
        rest += [f"{facts[label]} {word}"] if label in facts else []
    rest += [facts[label] for label in ("rate", "op of") if label in facts]
    what = [facts[label] for label in ("op", "lane") if label in facts]
    lines = [one_line(facts["name"]), " · ".join(map(one_line, what)), when]
    lines += [" · ".join(rest)] if rest else []
    full = _rounded(trace, span, known)
    return "\n".join([*lines, f"in full {full}"] if full else lines)


def _rounded(trace: Trace, span: int, known: list[Fact]) -> str:
    """Return all digits of duration and bytes, where they are shown with fewer."""
    parts, ticks = [], duration_of(trace, span)
    if trace.clock.unit == "ns" and ticks >= 10_000:  # below, four digits are all
        parts.append(f"{format_count(ticks)} ns")
    parts += [
        f"{fact.exact} {_MOVED[fact.label]}"
        for fact in known
        if fact.label in _MOVED and not fact.exact.startswith(fact.value.split()[0])
    ]
    return " · ".join(parts)


def op_text(trace: Trace, span: int) -> str:
    """Return op and name of a span, "MUL_MAT ffn_up-3"; what it lacks is left out.

    A name that begins with the op says both.
    """
    op = trace.op_name(int(trace.spans.op[span]))
    name = trace.strings[int(trace.spans.name[span])]
    parts = [name] if f"{name} ".startswith(f"{op} ") else [op, name]
    return one_line(" ".join(word for word in parts if word) or "–")


def known_facts(facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """Return the known facts, and one line that lists the unknown ones."""
    unknown = [fact.label for fact in facts if fact.value == NOT_AVAILABLE]
    if len(unknown) < 2:
        return facts
    known = tuple(fact for fact in facts if fact.value != NOT_AVAILABLE)
    return (*known, Fact("unknown", ", ".join(unknown)))


def access_line(access: AccessFact) -> str:
    """Return an access in one line: ``DISK blk.4.ffn_down.weight · 24.8 MiB · …``."""
    parts = [f"{access.badge} {'→ ' if access.is_write else ''}{access.name}"]
    parts += [p for p in (access.size, access.place) if not p.endswith(NOT_AVAILABLE)]
    parts += [access.origin_text] if access.origin_text else []
    return " · ".join(parts)


def _quality(trace: Trace, span: int) -> Quality:
    return Quality(int(quality_of(trace.spans.flags[span : span + 1])[0]))


def column_text(trace: Trace, name: str, span: int) -> str:
    """Return what a column says of a span, by its schema; "N/A" where nothing."""
    column, values = schema_of(Spans)[name], getattr(trace.spans, name)
    value = None if values is None else values[span].item()
    if value is None or value == column.null or value != value:  # NaN
        return NOT_AVAILABLE
    if column.code is Phase:
        return phase_word(trace, value)
    if column.code is not None:
        return (column.code(value).name or "").lower().replace("_", " ")
    if column.of == "strings":
        return trace.strings[value] or NOT_AVAILABLE
    if column.unit == "ticks":
        at_least = "at least " if value == column.most else ""
        return at_least + format_duration(value, trace.clock.unit)
    if column.unit == "bytes":
        return format_bytes(value)
    return column.mark + (f"{value:,}" if isinstance(value, int) else f"{value:.4g}")


def _launch_facts(trace: Trace, span: int) -> list[Fact]:
    """Return which call launched what runs on a device; the op has a column."""
    if trace.spans.category is None or not len(trace.flows):
        return []
    if _lane_kind(trace, span) != LaneKind.ENGINE:
        return []
    from ggscope.analysis.summary.devices import launching_call

    call = launching_call(trace, span)
    if call < 0:
        return []
    ago = int(trace.spans.start[span] - trace.spans.start[call])
    facts = [Fact("launched by", trace.span_name(call))]
    if ago >= 0:
        facts.append(Fact("launch delay", format_duration(ago, trace.clock.unit)))
    return facts


def _lane_fact(trace: Trace, lane: int) -> Fact:
    name = trace.lanes[lane]
    raw = name.attributes.get("raw")
    return Fact("lane", name.name, f"{name.name}, id {raw} in the file" if raw else "")


def _op_source(trace: Trace, op: int) -> str:
    if trace.ops is None:
        return f"op number {op}"
    if trace.ops.source == "spelled":
        return "named in the file"
    return f"op number {op} in table {trace.ops.id} ({trace.ops.source})"


def _length(trace: Trace, span: int) -> str:
    """Return how long a span took; "at least" so long, or a dash, without an end."""
    ticks = duration_of(trace, span)
    text = format_duration(ticks, trace.clock.unit)
    if _quality(trace, span) is not Quality.UNFINISHED:
        return text
    return f"at least {text}" if ticks else "–"


def _duration_fact(trace: Trace, span: int) -> Fact:
    ticks = duration_of(trace, span)
    quality = _quality(trace, span)
    text = quality_text(trace, span)
    exact = format_exact(ticks, trace.clock.unit)
    if quality is Quality.UNFINISHED:
        exact = f"at least {exact}" if ticks else text
    return Fact(
        "duration",
        f"{_length(trace, span)} {text}",
        exact,
        caution=quality is not Quality.MEASURED,
        qualifier=text,
    )


def wait_of(trace: Trace, span: int) -> int:
    """Return the ticks that a span's thread waited behind it; -1 = not recorded."""
    wait = trace.spans.wait
    return -1 if wait is None or wait[span] == NO_WAIT else int(wait[span])


def summed_wait_text(ticks: float, n_longest: int, unit: Unit) -> str:
    """Return a sum or mean of waits; "≥" where one was longer than is recorded."""
    return ("≥ " if n_longest else "") + format_duration(ticks, unit)


def wait_share(trace: Trace, span: int) -> float | None:
    """Return the share of a span and the wait behind it that is the wait."""
    wait = wait_of(trace, span)
    whole = duration_of(trace, span) + wait
    return wait / whole if wait >= 0 and whole > 0 else None


def _wait_facts(trace: Trace, span: int) -> list[Fact]:
    """Return the wait behind an op, where the trace records waits."""
    if trace.spans.wait is None or int(trace.spans.op[span]) < 0:
        return []
    ticks, share = wait_of(trace, span), wait_share(trace, span)
    if ticks < 0:
        return [Fact("wait", NOT_AVAILABLE)]
    exact, value_text = format_exact(ticks, trace.clock.unit), ""
    if share is not None:
        value_text = f"{format_share(share)} of op and wait"
        exact += f", {value_text}"
    text = column_text(trace, "wait", span)
    return [Fact("wait", f"{text} {value_text}".strip(), exact, qualifier=value_text)]


def _byte_facts(trace: Trace, span: int) -> list[Fact]:
    table = account_of(trace, span)
    if not len(table.known):
        missing = PENDING if "accesses" in trace.pending else NOT_AVAILABLE
        return [Fact("bytes", missing)]
    facts: list[Fact] = []
    for direction, label in (
        (Direction.READ, "bytes read"),
        (Direction.WRITE, "bytes written"),
    ):
        facts += _moved_facts(table, direction, label)
    is_known = bool((table.knowledge == Knowledge.KNOWN)[table.is_access].any())
    # What is known of an op that moves more is no measure of its rate.
    is_known &= not table.unknown[table.is_access].any()
    n_bytes = int(table.known.sum()) if is_known else None
    events = _event_facts(trace, span)
    # They may be a part of what the op moves.
    return [*facts, *events, *_rate_facts(trace, span, None if events else n_bytes)]


def _event_facts(trace: Trace, span: int) -> list[Fact]:
    """Return how many accesses of the file name their span."""
    loose = trace.accesses.loose
    counts = np.bincount(loose.what.space[loose.span == span], minlength=len(Space))
    parts = [
        f"{format_count(n)} in {Space(space).word}"
        for space, n in enumerate(counts.tolist())
        if n
    ]
    return [Fact("memory events", ", ".join(parts))] if parts else []


def _moved_facts(table: AccessTable, direction: Direction, label: str) -> list[Fact]:
    """Return the bytes that a span reads or writes, known and possible."""
    chosen = table.direction == direction
    if not chosen.any():
        return []
    open_ = int(table.unknown[chosen].sum())
    facts = []
    if (table.knowledge[chosen] == Knowledge.KNOWN).any():
        n = int(table.known[chosen].sum())
        facts.append(Fact(label, format_bytes(n), format_exact_bytes(n)))
    elif not open_:
        facts.append(Fact(label, NOT_AVAILABLE))
    if open_:
        moved = "read" if direction == Direction.READ else "written"
        title = f"possibly also {moved}" if facts else f"possibly {moved}"
        exact = f"{format_exact_bytes(open_)} recorded; the op moves part of them"
        facts.append(Fact(title, f"≤ {format_bytes(open_)}", exact))
    return facts


def _rate_facts(trace: Trace, span: int, n_bytes: int | None) -> list[Fact]:
    """Return bytes per time of the op, and how many threads compute it if several."""
    if int(trace.spans.flags[span]) & SpanFlag.ASYNC:
        return [Fact("rate", NOT_AVAILABLE)]
    ids = spans_of_op(trace, span)
    if ids is None:
        threads = "possibly several threads; bytes are of the whole op"
        return [Fact("rate", NOT_AVAILABLE), Fact("op of", threads)]
    ticks = int(trace.spans.end[ids].max() - trace.spans.start[ids].min())
    qualities = set(quality_of(trace.spans.flags[ids]).tolist())
    is_timed = qualities <= {Quality.MEASURED, Quality.DERIVED}
    rate = _rate_fact(trace, ticks if is_timed else 0, n_bytes)
    if len(ids) == 1:
        return [rate]
    text = f"{len(ids)} threads, {format_duration(ticks, trace.clock.unit)} in total"
    return [rate, Fact("op of", text, "bytes and rate are of the whole op")]


def _rate_fact(trace: Trace, ticks: int, n_bytes: int | None) -> Fact:
    """Return bytes per time; N/A where either is not known, or no time passes."""
    if n_bytes is None or ticks <= 0:
        return Fact("rate", NOT_AVAILABLE)
    exact = f"{format_count(n_bytes)} bytes in {format_exact(ticks, trace.clock.unit)}"
    clock = trace.clock
    return Fact("rate", format_byte_rate(n_bytes / ticks, clock.unit, clock.hz), exact)


def _access(
    trace: Trace, accesses: AccessColumns, row: int, direction: Direction
) -> AccessFact:
    tensor, size = int(accesses.tensor[row]), int(accesses.size[row])
    space = Space(int(accesses.space[row]))
    parts: tuple[RangePart, ...] = ()
    if tensor >= 0:
        name = trace.strings[int(trace.tensors.name[tensor])]
    elif space is Space.FILE:
        parts = parts_of_range(trace, int(accesses.offset[row]), size)
        name = _range_name(trace, parts)
        if len({part.tensor for part in parts}) == 1:
            tensor = parts[0].tensor
    else:
        name = ""
    layer, expert = int(accesses.layer[row]), int(accesses.expert[row])
    address = int(accesses.address[row])
    return AccessFact(
        badge=BADGES[space],
        space=space,
        is_write=direction == Direction.WRITE,
        name=name or NOT_AVAILABLE,
        size=format_bytes(size) if size >= 0 else NOT_AVAILABLE,
        exact_size=format_exact_bytes(size) if size >= 0 else NOT_AVAILABLE,
        place=_place(trace, accesses, row, space),
        layer=format_count(layer) if layer >= 0 else NOT_AVAILABLE,
        expert=format_count(expert) if expert >= 0 else NOT_AVAILABLE,
        address=format_offset(address) if address else NOT_AVAILABLE,
        bytes=size,
        tensor=tensor,
        of_range=tuple(_part_text(trace, part) for part in parts[:_MAX_PARTS]),
    )


def _range_name(trace: Trace, parts: tuple[RangePart, ...]) -> str:
    """Return "blk.0.ffn_up_exps.weight[5]" or "output.weight and 2 more"."""
    if not parts:
        return ""
    name = part_name(trace, parts[0])
    return name if len(parts) == 1 else f"{name} and {len(parts) - 1:,} more"


def part_name(trace: Trace, part: RangePart) -> str:
    """Return the tensor of a part of a range, with the experts whose slices it has."""
    name = trace.strings[int(trace.tensors.name[part.tensor])]
    if part.first < 0:
        return name
    last = f"–{part.last}" if part.last > part.first else ""
    return f"{name}[{part.first}{last}]"


def _part_text(trace: Trace, part: RangePart) -> str:
    size = f", {format_exact_bytes(part.n_bytes)}" if part.n_bytes else ""
    return part_name(trace, part) + size


def _place(trace: Trace, accesses: AccessColumns, row: int, space: Space) -> str:
    offset, buffer = int(accesses.offset[row]), int(accesses.buffer[row])
    parts: list[str] = []
    if buffer >= 0:
        parts.append(_buffer_text(trace, buffer))
    if offset >= 0:
        word = "address" if space in (Space.DRAM, Space.SPM) else "offset"
        parts.append(f"{word} {format_offset(offset)}")
    if parts:
        return " · ".join(parts)
    what = {Space.FILE: "offset ", Space.BUFFER: "buffer "}.get(space, "")
    return what + NOT_AVAILABLE


def _buffer_text(trace: Trace, buffer: int) -> str:
    buffers = trace.buffers
    name = trace.strings[int(buffers.name[buffer])]
    usage = int(buffers.usage[buffer])
    known = usage in (BufferUsage.WEIGHTS, BufferUsage.COMPUTE)
    kind = f"{BufferUsage(usage).name.lower()} buffer" if known else "buffer"
    address = int(buffers.address[buffer])
    text = name or f"{kind} {buffer}"
    if not address or f"{address:x}" in text.lower():
        return text
    return f"{text} ({format_offset(address)})"
