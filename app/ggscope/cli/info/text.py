"""What ``info`` prints of a trace for people, from the values of ``info --json``."""

from collections.abc import Mapping, Sequence
from typing import Any

from ggscope.cli.info.times import (
    calls_text,
    engines_text,
    latency_text,
    stalls_text,
)
from ggscope.cli.output import styled, table
from ggscope.descriptions.short_names import short_name
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    UNITS,
    format_absolute,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_offset,
    format_share,
)
from ggscope.sanitize import one_line

_MAX_LANES = 40
_MAX_CORES = 8
_MAX_WORDS = 40
_MAX_OPS = 16
_MAX_GRAPHS = 16
_STYLES = {"error": "red", "data_loss": "yellow"}
"""Colours by severity; others are dim."""
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
        _head_text(trace, facts),
        parts_text(trace),
        _counts_text(facts, _left_out(trace)),
        _producer_text(facts),
        stated_text(trace) if facts["stated"] else "",
        latency_text(trace, facts) if facts["latency"] else "",
        engines_text(trace, facts) if facts["engines"] else "",
        stalls_text(trace, facts) if facts["stalls"] else "",
        calls_text(trace, facts) if facts["calls"] else "",
        _model_text(facts),
        graphs_text(facts),
        _lanes_text(facts),
        _ops_text(facts),
        problems_text(facts["warnings"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def problems_text(warnings: Sequence[Mapping[str, Any]]) -> str:
    """Return the warnings of a trace, worst first; a line where there are none.

    Parameters
    ----------
    warnings : as ``--json`` prints them.
    """
    if not warnings:
        return "No problems found."
    lines = [styled("Problems", "bold")]
    for warning in warnings:
        severity, n, offset = warning["severity"], warning["count"], warning["offset"]
        times = f" ({format_count(n)} times)" if n > 1 else ""
        word = styled(severity.replace("_", " "), _STYLES.get(severity, "dim"))
        lines.append(f"  {word}  {one_line(warning['code'])}{times}")
        where = [warning["place"]] if warning["place"] else []
        if offset is not None:
            where.append(f"byte {offset:,} ({format_offset(offset)})")
        lines.append(f"    {one_line(warning['message'])}")
        if where:
            lines.append(f"    at {one_line(', '.join(where))}")
        if warning["remedy"]:
            lines.append(f"    {one_line(warning['remedy'])}")
    return "\n".join(lines)


def parts_text(trace: Trace) -> str:
    """Return the files and how they fit, for people; "" for a file alone."""
    if not trace.parts:
        return ""
    from ggscope.descriptions.files import join_text

    rows = [
        (
            part.role,
            part.info.name,
            part.info.reader_id,
            format_bytes(part.info.byte_size),
            format_exact(part.shift, trace.clock.unit) if part.shift else "",
        )
        for part in trace.parts
    ]
    head = ("part", "file", "reader", "size", "shift")
    columns = 5 if any(row[-1] for row in rows) else 4
    shown = table(head[:columns], [row[:columns] for row in rows], left=(0, 1, 2))
    title = f"{format_count(len(rows))} files in one session"
    lines = [styled(title, "bold"), shown]
    lines += [f"  {one_line(join_text(join))}" for join in trace.joins]
    return "\n".join(lines)


def stated_text(trace: Trace) -> str:
    """Return the section for people: what files state of themselves."""
    rows = [
        (
            f"{file}: {figure.name}" if file else figure.name,
            figure.stated_text,
            figure.computed_text,
            figure.verdict,
            figure.basis,
        )
        for file, figure in trace.stated_figures()
    ]
    head = ("stated figure", "stated", "computed", "verdict", "by")
    return table(head, rows, left=(0, 3, 4))


def graphs_text(facts: dict[str, Any]) -> str:
    """Return the section for people; "" without graphs."""
    graphs = facts["graphs"]
    if not graphs:
        return ""
    dangles = any(graph["dangling"] for graph in graphs)
    keys = ("nodes", "leaves", *(("dangling",) if dangles else ()), "edges", "layers")
    rows = [
        (
            graph["title"] or NOT_AVAILABLE,
            NOT_AVAILABLE if graph["token"] is None else str(graph["token"]),
            *(format_count(graph[key]) for key in keys),
        )
        for graph in graphs[:_MAX_GRAPHS]
    ]
    labels = {"leaves": "of them leaves", "dangling": "dangling ends"}
    head = ("graph", "token", *(labels.get(key, key) for key in keys))
    more = len(graphs) - _MAX_GRAPHS
    text = f"{styled('Graphs', 'bold')}\n{table(head, rows)}"
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")


def buffers_text(facts: dict[str, Any]) -> str:
    """Return "peak 3.0 GiB, 2 never freed"; "" where no peak is known."""
    buffers = facts["buffers"]
    if buffers is None or buffers["peak_bytes"] is None:
        return ""
    text = f"peak {format_bytes(buffers['peak_bytes'])}"
    if buffers["never_freed"]:
        text += f", {format_count(buffers['never_freed'])} never freed"
    return text


def experts_text(facts: dict[str, Any]) -> str:
    """Return "32 in 24 layers, 288 choices"; "" without experts."""
    experts = facts["experts"]
    if experts is None:
        return ""
    n = (
        NOT_AVAILABLE
        if experts["experts"] is None
        else format_count(experts["experts"])
    )
    plural = "" if experts["layers"] == 1 else "s"
    text = f"{n} in {format_count(experts['layers'])} layer{plural}"
    if experts["choices"]:
        text += f", {format_count(experts['choices'])} choices listed"
    if experts["ranked"] > experts["choices"]:
        text += f" of {format_count(experts['ranked'])} ranked"
    if experts["implied"]:
        text += f", {format_count(experts['implied'])} more implied by sizes"
    return text


def _head_text(trace: Trace, facts: dict[str, Any]) -> str:
    unit = trace.clock.unit
    clock = UNITS[unit].many or UNITS[unit].plural
    if trace.clock.is_weight:
        clock += ", no times" if unit == "sample" else " that samples weigh, no times"
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
            ("clock", f"{clock}; {_origin_text(trace)}"),
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


def _origin_text(trace: Trace) -> str:
    """Return where time 0 lies, and where the first event if that is elsewhere.

    In a session of several files time 0 is that of one of them.
    """
    origin, start = trace.clock.origin, trace.extent.start
    if trace.clock.is_weight:
        return "the heaviest stacks come first"
    if trace.clock.unit == "cycle" and not origin:
        return f"as in the file; the first event is at {start:,}"
    is_day = trace.clock.wall(start) is not None
    day = f" ({format_absolute(start, trace.clock)})" if is_day else ""
    if not start:
        return f"the first event is at {origin:,}{day}"
    length = format_duration(abs(start), trace.clock.unit)
    side = "before" if start < 0 else "after"
    return (
        f"time 0 is at {origin:,}; the first event is {length} {side} it, at "
        f"{origin + start:,}{day}"
    )


def _has_times(facts: dict[str, Any]) -> bool:
    """Return whether anything has a time.

    Model files, graphs and lists of chosen experts alone have none.
    """
    counts = facts["counts"]
    what = ("spans", "markers", "accesses", "counters", "buffers")
    is_untimed = facts["model"] is not None or counts["graphs"] > 0
    is_untimed |= facts["experts"] is not None
    return not is_untimed or any(counts[name] for name in what)


def _producer_text(facts: dict[str, Any]) -> str:
    if not facts["producer"]:
        return ""
    rows = [(f"  {key.replace('_', ' ')}", v) for key, v in facts["producer"].items()]
    return f"{styled('Metadata of the file', 'bold')}\n{_pairs(rows)}"


def _counts_text(facts: dict[str, Any], left_out: str) -> str:
    counts = facts["counts"]
    rows = [(name, format_count(counts[name])) for name in _COUNTS if counts[name]]
    if counts["graph_records"]:
        n_records = counts["records"] - counts["graph_records"]
        rows[0] = ("records", format_count(n_records) if n_records else "none")
    if not rows and facts["model"] is not None:
        return ""
    if not rows:
        return "No records: nothing was traced."
    more = {
        "records": _events_text(facts["events"]) or _record_text(counts),
        "spans": _by_word(facts["spans_by_quality"]),
        "accesses": _by_word(
            {word.upper(): n for word, n in facts["accesses_by_space"].items()}
        ),
        "buffers": buffers_text(facts),
        "tokens": _token_text(counts),
        "passes": _pass_text(counts),
    }
    shown = [(n, f"{text} ({more[n]})" if more.get(n) else text) for n, text in rows]
    if counts["spans"]:
        shown.append(("complete", facts["completeness"]["words"]))
    if left_out:
        shown.append(("left out", left_out))
    if facts["sources"]:
        parts = (
            f"{format_count(n)} with {'none' if k == '0' else k}"
            for k, n in facts["sources"].items()
        )
        shown.append(("sources of ops", ", ".join(parts)))
    experts = experts_text(facts)
    shown += [("experts", experts)] if experts else []
    return _pairs([*shown, *_memory_text(facts)])


def _left_out(trace: Trace) -> str:
    """Return what a recording leaves out; "" for nothing, and of other traces."""
    if not trace.recordings:
        return ""
    from ggscope.analysis.completeness.coverage import trace_coverage
    from ggscope.descriptions.coverage import left_out_text

    return left_out_text(trace_coverage(trace))


def _events_text(events: dict[str, Any]) -> str:
    """Return "395 events, 62 requests": tables within the counts are left to JSON."""
    return _by_word({w: n for w, n in events.items() if not isinstance(n, dict)})


def _record_text(counts: dict[str, int]) -> str:
    """Return what records are of, where not all are of one kind; else ""."""
    n_ops, n_graphs = counts["op_records"], counts["graph_records"]
    n_lists = counts["records"] - n_ops - n_graphs
    parts = _by_word({"ops": n_ops, "lists of experts": n_lists}) if n_lists else ""
    # A sidecar lists graphs, which are no records of the file.
    noun = "graph" if n_graphs == 1 else "graphs"
    of_graphs = f"sidecar: {format_count(n_graphs)} {noun}"
    return "; ".join(filter(None, (parts, of_graphs if n_graphs else "")))


def _token_text(counts: dict[str, int | None]) -> str:
    """Return "21 prompt, 7 generated, 2 sequences"."""
    if counts["prompt_tokens"] is None:
        # Of a pass over several tokens a trace may have one number.
        return "numbered by the file"
    parts = _by_word(
        {
            "prompt": counts["prompt_tokens"],
            "generated": counts["generated_tokens"] or 0,
        }
    )
    n = counts["sequences"] or 0
    return parts + (f", {format_count(n)} sequences" if n > 1 else "")


def _pass_text(counts: dict[str, int | None]) -> str:
    """Return "ubatches of 7 decodes"; "" where these are not known."""
    if counts["prompt_tokens"] is None:
        return ""
    n = counts["decodes"]
    calls = "" if n is None else f" of {format_count(n)} decode{'s' * (n != 1)}"
    return f"ubatches{calls}"


def _by_word(counts: dict[str, int]) -> str:
    """Return "583 derived, 2 unfinished"; names such as OP_BEGIN stay as they are."""
    parts = (w if w.isupper() else w.replace("_", " ") for w in counts)
    pairs = zip(parts, counts.values(), strict=True)
    texts = [f"{format_count(n)} {word}" for word, n in pairs if n]
    if more := len(texts) - _MAX_WORDS:
        texts[_MAX_WORDS:] = [f"and {format_count(more)} more kinds"] * (more > 0)
    return ", ".join(texts)


def _memory_text(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (kind of memory, "peak 3.0 GiB in 5, 2 never freed") for each kind."""
    rows = []
    for title, usage in (facts["memory"] or {}).items():
        amount = f"peak {format_bytes(usage['peak_bytes'])}"
        n = usage["alive_at_peak"]
        amount += f" in {format_count(n)} allocation" + ("" if n == 1 else "s")
        for key, text in (
            ("leaked", "never freed"),
            ("double_freed", "freed twice"),
            ("stray_freed", "freed without an allocation"),
            ("reused", "at a pointer that was used before"),
        ):
            n = usage[key]
            amount += f", {format_count(n)} {text}" if n else ""
        rows.append((title.lower(), amount))
    return rows


def _lanes_text(facts: dict[str, Any]) -> str:
    lanes = facts["lanes"]
    if not lanes:
        return ""
    has_cores = any("cores" in lane for lane in lanes)
    head: tuple[str, ...] = ("lane", "kind", "spans")
    rows: list[tuple[str, ...]] = []
    for lane in lanes[:_MAX_LANES]:
        name = " / ".join([*lane["group"], lane["name"]])
        rows.append((name, lane["kind"], format_count(lane["spans"])))
        if has_cores:
            rows[-1] += _cores_cells(lane)
    if has_cores:
        head += ("cores", "migrations")
    more = len(lanes) - _MAX_LANES
    text = table(head, rows, left=(0, 1))
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")


def _cores_cells(lane: dict[str, Any]) -> tuple[str, str]:
    """Return "0, 1" and "23": cores of a thread, and how often it moved."""
    if "cores" not in lane:
        return NOT_AVAILABLE, NOT_AVAILABLE
    cores = lane["cores"]
    shown = ", ".join(map(str, cores[:_MAX_CORES]))
    more = len(cores) - _MAX_CORES
    text = shown + (f" and {format_count(more)} more" if more > 0 else "")
    return text, format_count(lane["migrations"])


def _ops_text(facts: dict[str, Any]) -> str:
    ops = facts["ops"]
    if not ops:
        return ""
    total = sum(ops.values())
    rows = [
        (short_name(name or NOT_AVAILABLE), format_count(n), format_share(n / total))
        for name, n in list(ops.items())[:_MAX_OPS]
    ]
    more = len(ops) - _MAX_OPS
    text = table(("op", "spans", "share"), rows)
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")


def _model_text(facts: dict[str, Any]) -> str:
    if facts["model"] is None:
        return ""
    from ggscope.cli.info.model import model_text

    return model_text(facts)


def _pairs(rows: list[tuple[str, Any]]) -> str:
    shown = [(one_line(name), one_line(str(value))) for name, value in rows]
    width = max(len(name) for name, _ in shown)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in shown)
