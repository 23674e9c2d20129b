"""What ``ggscope info`` says about the files of a session and how they fit."""

from typing import Any

from ggscope.analysis.join_words import join_words
from ggscope.analysis.joining_tables import part_name
from ggscope.cli.output import styled, table
from ggscope.model.trace import Join, Part, Trace
from ggscope.model.units import format_bytes, format_count, format_exact
from ggscope.text import one_line


def parts_json(trace: Trace) -> list[dict[str, object]]:
    """Return the files of a session; empty for a file that was read alone."""
    return [_part_json(part) for part in trace.parts]


def joins_json(trace: Trace) -> list[dict[str, object]]:
    """Return how well the files fit, one object per comparison."""
    return [_join_json(join) for join in trace.joins]


def parts_text(trace: Trace) -> str:
    """Return the files and how they fit, for people; "" for a file alone."""
    if not trace.parts:
        return ""
    rows = [
        (
            part.role,
            part_name(part.info),
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
    lines += [f"  {one_line(join_words(join))}" for join in trace.joins]
    return "\n".join(lines)


def _part_json(part: Part) -> dict[str, object]:
    return {
        "path": str(part.info.paths[0]) if part.info.paths else "",
        "role": part.role,
        "reader": part.info.reader_id,
        "format": part.info.format,
        "size": part.info.byte_size,
        "shift": part.shift,
    }


def _join_json(join: Join) -> dict[str, Any]:
    return {
        "kind": join.kind,
        "part": join.part,
        "found": join.n_found,
        "all": join.n_all,
        "rules": dict(join.rules),
        "delta": join.delta,
        "agree": join.n_agree,
        "nodes": join.n_nodes,
        "nodes_not_recorded": dict(join.silent),
    }
