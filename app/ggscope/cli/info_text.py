"""``ggscope info`` for people."""

from typing import Any

from ggscope.cli.info_experts import experts_words
from ggscope.cli.info_model import model_text
from ggscope.cli.info_parts import parts_text
from ggscope.cli.info_tables import (
    buffers_words,
    graphs_text,
    memory_words,
    stalls_text,
    stated_text,
)
from ggscope.cli.output import styled, table
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_offset,
    format_share,
)
from ggscope.text import one_line

_MAX_LANES = 40
_MAX_OPS = 16
_STYLES = {Severity.ERROR: "red", Severity.DATA_LOSS: "yellow"}
_COUNTS = (
    "records",
    "spans",
    "markers",
    "accesses",
    "counters",
    "tokens",
    "passes",
    "tensors",
    "buffers",
    "graphs",
)


def info_text(trace: Trace, facts: dict[str, Any]) -> str:
    """Return the description of a trace; `facts` is what ``--json`` prints."""
    parts = [
        _head(trace, facts),
        parts_text(trace),
        _counts(facts),
        _producer(facts),
        stated_text(trace),
        stalls_text(trace, facts),
        model_text(facts),
        graphs_text(facts),
        _lanes(facts),
        _ops(facts),
        problems_text(trace),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def problems_text(trace: Trace) -> str:
    """Return the warnings of a trace, worst first; a line where there are none."""
    if not trace.warnings:
        return "No problems found."
    lines = [styled("Problems", "bold")]
    for warning in trace.warnings:
        word = warning.severity.word.replace("_", " ")
        style = _STYLES.get(warning.severity, "dim")
        times = f" ({format_count(warning.count)} times)" if warning.count > 1 else ""
        lines.append(f"  {styled(word, style)}  {one_line(warning.code)}{times}")
        where = [warning.place] if warning.place else []
        if warning.offset is not None:
            where.append(f"byte {warning.offset:,} ({format_offset(warning.offset)})")
        lines.append(f"    {one_line(warning.message)}")
        if where:
            lines.append(f"    at {one_line(', '.join(where))}")
        if warning.remedy:
            lines.append(f"    {one_line(warning.remedy)}")
    return "\n".join(lines)


def _head(trace: Trace, facts: dict[str, Any]) -> str:
    unit = trace.clock.unit
    clock = "nanoseconds" if unit == "ns" else "cycles"
    if trace.clock.hz is not None and unit == "cycle":
        clock += f" at {trace.clock.hz / 1e6:g} MHz"
    version = trace.info.format_version
    rows = [
        ("file", facts["path"]),
        ("format", trace.info.format + (f", version {version}" if version else "")),
        ("reader", trace.info.reader_id),
        (
            "size",
            f"{format_bytes(trace.info.byte_size)}"
            f" ({format_count(trace.info.byte_size)} bytes)",
        ),
    ]
    if _has_times(facts):
        rows += [
            ("clock", f"{clock}; {_origin_words(trace)}"),
            (
                "duration",
                f"{format_duration(trace.extent.duration, unit)}"
                f" ({format_exact(trace.extent.duration, unit)})",
            ),
        ]
    op_table = facts["op_table"]
    if op_table is not None:
        margin = op_table["margin"]
        lead = "" if margin is None else f", lead {margin:.1f}"
        rows.append(("op table", f"{op_table['id']} ({op_table['source']}{lead})"))
    rows += [(f"option {key}", value) for key, value in facts["options"].items()]
    return _pairs(rows)


def _origin_words(trace: Trace) -> str:
    """Return where time 0 lies, and where the first event if that is elsewhere.

    In a session of several files time 0 is that of one of them.
    """
    origin, start = trace.clock.origin, trace.extent.start
    if not start:
        return f"the first event is at {origin:,}"
    length = format_duration(abs(start), trace.clock.unit)
    side = "before" if start < 0 else "behind"
    return (
        f"time 0 is at {origin:,}; the first event is {length} {side} it, at "
        f"{origin + start:,}"
    )


def _has_times(facts: dict[str, Any]) -> bool:
    """Tell whether anything has a time.

    Model files, graphs and lists of chosen experts alone have none.
    """
    counts = facts["counts"]
    what = ("spans", "markers", "accesses", "counters", "buffers")
    is_untimed = facts["model"] is not None or counts["graphs"] > 0
    is_untimed |= facts["experts"] is not None
    return not is_untimed or any(counts[name] for name in what)


def _producer(facts: dict[str, Any]) -> str:
    if not facts["producer"]:
        return ""
    rows = [(f"  {key.replace('_', ' ')}", v) for key, v in facts["producer"].items()]
    return f"{styled('What the file says of itself', 'bold')}\n{_pairs(rows)}"


def _counts(facts: dict[str, Any]) -> str:
    counts = facts["counts"]
    rows = [(name, format_count(counts[name])) for name in _COUNTS if counts[name]]
    if not rows and facts["model"] is not None:
        return ""
    if not rows:
        return "It holds no records: nothing was traced."
    more = {
        "records": _by_word(facts["events"]),
        "spans": _by_word(facts["spans_by_quality"]),
        "accesses": _by_word(
            {word.upper(): n for word, n in facts["accesses_by_space"].items()}
        ),
        "buffers": buffers_words(facts),
    }
    shown = [(n, f"{text} ({more[n]})" if more.get(n) else text) for n, text in rows]
    if counts["spans"]:
        shown.append(("complete", facts["completeness"]["words"]))
    if facts["sources"]:
        words = (
            f"{format_count(n)} with {'none' if k == '0' else k}"
            for k, n in facts["sources"].items()
        )
        shown.append(("sources of ops", ", ".join(words)))
    experts = experts_words(facts)
    shown += [("experts", experts)] if experts else []
    return _pairs([*shown, *memory_words(facts)])


def _by_word(counts: dict[str, int]) -> str:
    """Return "583 derived, 2 unfinished"."""
    return ", ".join(f"{format_count(n)} {word}" for word, n in counts.items() if n)


def _pairs(rows: list[tuple[str, Any]]) -> str:
    shown = [(one_line(name), one_line(str(value))) for name, value in rows]
    width = max(len(name) for name, _ in shown)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in shown)


def _lanes(facts: dict[str, Any]) -> str:
    lanes = facts["lanes"]
    if not lanes:
        return ""
    rows = [
        (
            " / ".join([*lane["group"], lane["name"]]),
            lane["kind"],
            format_count(lane["spans"]),
        )
        for lane in lanes[:_MAX_LANES]
    ]
    more = len(lanes) - _MAX_LANES
    text = table(("lane", "kind", "spans"), rows, left=(0, 1))
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")


def _ops(facts: dict[str, Any]) -> str:
    ops = facts["ops"]
    if not ops:
        return ""
    total = sum(ops.values())
    rows = [
        (name or NOT_AVAILABLE, format_count(n), format_share(n / total))
        for name, n in list(ops.items())[:_MAX_OPS]
    ]
    more = len(ops) - _MAX_OPS
    text = table(("op", "spans", "share"), rows)
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")
