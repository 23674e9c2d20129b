"""What ``ggscope info`` says of what only some traces have.

Files of a session, accesses, buffers, stalls, stated figures, graphs and experts. What
answers a question about them is imported where a trace has something to ask it about.
"""

from typing import Any

import numpy as np

from ggscope.analysis.rows.groups import chunks, count_values
from ggscope.cli.output import styled, table
from ggscope.model.claims import figure_text
from ggscope.model.graph import Graph, NodeCategory, NodeFlag
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import AccessColumns, Array, Space, distinct
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_share,
)
from ggscope.text import one_line

SPACE_WORDS = {
    Space.FILE: "disk",
    Space.BUFFER: "buffer",
    Space.DRAM: "dram",
    Space.SPM: "spm",
    Space.UNKNOWN: "unknown",
}
_MAX_GRAPHS = 16
_MAX_REASONS = 6


def parts_json(trace: Trace) -> list[dict[str, object]]:
    """Return the files of a session; empty for a file that was read alone."""
    return [
        {
            "path": str(part.info.paths[0]) if part.info.paths else "",
            "role": part.role,
            "reader": part.info.reader_id,
            "format": part.info.format,
            "size": part.info.byte_size,
            "shift": part.shift,
        }
        for part in trace.parts
    ]


def joins_json(trace: Trace) -> list[dict[str, object]]:
    """Return how well the files fit, one object per comparison."""
    return [
        {
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
        for join in trace.joins
    ]


def parts_text(trace: Trace) -> str:
    """Return the files and how they fit, for people; "" for a file alone."""
    if not trace.parts:
        return ""
    from ggscope.words.files import join_words

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
    lines += [f"  {one_line(join_words(join))}" for join in trace.joins]
    return "\n".join(lines)


def accesses_by_space(trace: Trace) -> dict[str, int]:
    """Return accesses by where their bytes live; spaces without any are left out.

    Each op's count once, however many threads tell of it; views are none.
    """
    total = np.zeros(len(Space), np.int64)
    if len(trace.accesses.patterns):
        from ggscope.analysis.reads.account import account

        found = account(trace)
        np.add.at(total, found.what.space, found.row_times() * found.counts)
    total += count_values(trace.accesses.loose.what.space, len(Space))
    return {SPACE_WORDS[Space(i)]: n for i, n in enumerate(total.tolist()) if n}


def buffers_json(trace: Trace) -> dict[str, object] | None:
    """Return how much memory buffers occupied; None without buffers.

    ``peak_at`` is in ticks of the clock; both are None where no allocation with a
    time and a size is recorded, as with buffers that only accesses name.
    """
    if not len(trace.buffers):
        return None
    from ggscope.analysis.buffers import never_freed, occupancy

    found = occupancy(trace)
    peak = found.peak
    sizes = trace.buffers.size
    return {
        "peak_bytes": None if peak is None else peak.bytes,
        "peak_at": None if peak is None else peak.time,
        "alive_at_peak": None if peak is None else len(peak.alive),
        "bytes": int(sizes[sizes >= 0].sum()),
        "never_freed": len(never_freed(trace.buffers)),
        "by_usage": {
            title: int(np.count_nonzero(found.group == i))
            for i, title in enumerate(found.groups)
        },
    }


def buffers_words(facts: dict[str, Any]) -> str:
    """Return "peak 3.0 GiB, 2 never freed"; "" where no peak is known."""
    buffers = facts["buffers"]
    if buffers is None or buffers["peak_bytes"] is None:
        return ""
    words = f"peak {format_bytes(buffers['peak_bytes'])}"
    if buffers["never_freed"]:
        words += f", {format_count(buffers['never_freed'])} never freed"
    return words


def sources_json(trace: Trace) -> dict[str, int]:
    """Return how many ops have 0, 1, 2, 3 … sources, as the records tell.

    Empty where records do not tell what an op reads.
    """
    claims, pattern = trace.claims, trace.accesses.pattern
    if claims is None or not claims.has_results or not len(claims):
        return {}
    uses = np.zeros(len(claims), np.int64)
    for rows in chunks(len(pattern)):
        used = pattern[rows][(pattern[rows] >= 0) & (trace.spans.op[rows] >= 0)]
        uses += np.bincount(used, minlength=len(claims))
    n = np.maximum(claims.n_sources.astype(np.int64), 0)
    total = np.bincount(n, uses).astype(np.int64)
    return {str(i): count for i, count in enumerate(total.tolist()) if count}


def stalls_json(trace: Trace) -> list[dict[str, object]]:
    """Return how long each master is stalled, each cycle counted once.

    ``share`` is of the whole extent; ``reasons`` adds up stalls by reason, which may
    overlap.
    """
    spans, length = trace.spans, trace.extent.duration
    found: list[dict[str, object]] = []
    is_stall = trace.lanes.of_kind(LaneKind.STALL)
    lanes = np.flatnonzero(is_stall)
    if not len(lanes):
        return found
    from ggscope.analysis.statistics.nesting import covered

    # All lanes at once: there may be a hundred thousand.
    rows = np.flatnonzero(is_stall[spans.lane])
    start, end = spans.start[rows], spans.end[rows]
    group = np.searchsorted(lanes, spans.lane[rows])
    count = np.bincount(group, minlength=len(lanes)).tolist()
    ticks = covered(group, start, end, len(lanes)).tolist()
    n_names = len(trace.strings) + 1
    pairs, which = np.unique(
        group * n_names + spans.name[rows] + 1, return_inverse=True
    )
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, which, end - start)
    owner, name = np.divmod(pairs, n_names)
    order = np.lexsort((name, -sums, owner))
    reasons: list[dict[str, int]] = [{} for _ in count]
    told = zip(owner[order], name[order] - 1, sums[order], strict=True)
    for lane, text, total in told:
        reasons[lane][trace.strings[int(text)]] = int(total)
    for i, lane in enumerate(lanes.tolist()):
        found.append(
            {
                "lane": trace.lanes.names[lane],
                "stalls": count[i],
                "stalled": ticks[i],
                "share": ticks[i] / length if length else None,
                "reasons": reasons[i],
            }
        )
    return found


def stalls_text(trace: Trace, facts: dict[str, Any]) -> str:
    """Return the section for people; "" without stalls."""
    if not facts["stalls"]:
        return ""
    unit = trace.clock.unit
    rows = [
        (
            stall["lane"],
            format_count(stall["stalls"]),
            format_duration(stall["stalled"], unit),
            NOT_AVAILABLE if stall["share"] is None else format_share(stall["share"]),
            ", ".join(
                f"{name} {format_duration(ticks, unit)}"
                for name, ticks in list(stall["reasons"].items())[:_MAX_REASONS]
            ),
        )
        for stall in facts["stalls"][:_MAX_GRAPHS]
    ]
    head = ("stalled", "stalls", "time", "share", "reasons")
    return table(head, rows, left=(0, 4))


def stated_json(trace: Trace) -> list[dict[str, object]]:
    """Return what the files say of themselves, beside what they hold.

    ``computed`` is None where the content does not tell, ``agrees`` where nothing can
    be said; ``file`` is "" for a file that was read alone.
    """
    return [
        {
            "file": file,
            "name": figure.name,
            "stated": figure.stated,
            "computed": figure.computed,
            "unit": figure.unit,
            "agrees": figure.agrees,
            "basis": figure.basis,
            "place": figure.place,
        }
        for file, figure in trace.stated_figures()
    ]


def stated_text(trace: Trace) -> str:
    """Return the section for people; "" where no file states a figure."""
    rows = [
        (
            f"{file}: {figure.name}" if file else figure.name,
            figure_text(figure.stated, figure.unit),
            figure_text(figure.computed, figure.unit),
            figure.verdict,
            figure.basis,
        )
        for file, figure in trace.stated_figures()
    ]
    head = ("stated figure", "stated", "computed", "verdict", "by")
    return table(head, rows, left=(0, 3, 4)) if rows else ""


def graphs_json(trace: Trace) -> list[dict[str, object]]:
    """Return what each graph holds.

    ``nodes`` counts what the file declares, ``leaves`` are those that nothing computes,
    ``dangling`` (and ``undeclared``, its older name) ends of edges that it does not
    declare; these are in no other count.
    ``operations`` and ``types`` count nodes by the words of the file, "" where it
    gives none; ``edges_by_slot`` counts edges by which source of their target they
    are. ``layers`` counts distinct layers, by the names of nodes.
    """
    return [_graph_json(trace, graph) for graph in trace.graphs]


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
    words = {"leaves": "of them leaves", "dangling": "dangling ends"}
    head = ("graph", "token", *(words.get(key, key) for key in keys))
    more = len(graphs) - _MAX_GRAPHS
    text = f"{styled('Graphs', 'bold')}\n{table(head, rows)}"
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")


def _graph_json(trace: Trace, graph: Graph) -> dict[str, object]:
    slots = np.bincount(graph.slot) if graph.n_edges else np.zeros(0, np.int64)
    declared = (graph.flags & np.uint8(NodeFlag.UNDECLARED)) == 0
    categories = np.bincount(graph.category[declared], minlength=len(NodeCategory))
    return {
        "title": graph.title,
        "token": None if graph.token < 0 else graph.token,
        "nodes": graph.n_declared,
        "leaves": graph.n_leaves,
        "dangling": graph.n_dangling,
        "shared": int(np.count_nonzero(graph.flags & np.uint8(NodeFlag.SHARED))),
        "undeclared": graph.n_dangling,
        "edges": graph.n_edges,
        "layers": len(distinct(graph.layer[graph.layer >= 0])),
        "operations": _by_word(trace, graph.operation[declared]),
        "types": _by_word(trace, graph.dtype[declared]),
        "categories": {
            category.name.lower(): int(categories[category])
            for category in NodeCategory
            if categories[category]
        },
        "edges_by_slot": {str(i): n for i, n in enumerate(slots.tolist()) if n},
    }


def _by_word(trace: Trace, ids: Array) -> dict[str, int]:
    """Return how often each word occurs, the commonest first; "" = none."""
    words, counts = np.unique(ids, return_counts=True)
    order = np.argsort(-counts, kind="stable").tolist()
    found: dict[str, int] = {}
    for i in order:
        text = trace.strings[int(words[i])] if words[i] >= 0 else ""
        found[text] = found.get(text, 0) + int(counts[i])
    return found


def experts_json(trace: Trace) -> dict[str, object] | None:
    """Return layers with experts, experts, accesses to them and choices; or None.

    None where nothing names an expert. ``choices`` counts rows of the router's lists.

    Tensors of experts are those that name one (``blk.0.ffn_up.3.weight``) or hold
    all of a layer (``_exps``). The number of experts is None where only the latter
    occur and no model file tells how many they stack: such names do not.
    """
    is_expert = _expert_tensors(trace)
    may_have = is_expert.any() or len(trace.routing) or len(trace.accesses.patterns)
    if not (may_have or len(trace.accesses.loose)):
        return None
    from ggscope.analysis.reads.account import account

    found = account(trace)
    patterns, loose = found.what, trace.accesses.loose.what
    in_pattern, in_loose = _touches(patterns, is_expert), _touches(loose, is_expert)
    has_any = is_expert.any() or in_pattern.any() or in_loose.any()
    if not (has_any or len(trace.routing)):
        return None
    per_row = found.row_times() * found.counts
    layers = _known(
        trace.tensors.layer[is_expert[:-1]],
        patterns.layer[in_pattern],
        loose.layer[in_loose],
        trace.routing.layer,
    )
    return {
        "layers": len(layers),
        "experts": _n_experts(trace, patterns.expert, loose.expert) or None,
        "accesses": int(per_row[in_pattern].sum()) + int(in_loose.sum()),
        "choices": len(trace.routing.listed()),
    }


def experts_words(facts: dict[str, Any]) -> str:
    """Return "32 in 24 layers, 288 choices"; "" without experts."""
    found = facts["experts"]
    if found is None:
        return ""
    n = NOT_AVAILABLE if found["experts"] is None else format_count(found["experts"])
    plural = "" if found["layers"] == 1 else "s"
    words = f"{n} in {format_count(found['layers'])} layer{plural}"
    if found["choices"]:
        words += f", {format_count(found['choices'])} choices listed"
    return words


def _n_experts(trace: Trace, *numbers: Array) -> int:
    """Return how many experts a layer has: as stacked, else how many are named."""
    tensors = trace.tensors
    stacked = 0 if tensors.n_experts is None else int(tensors.n_experts.max(initial=0))
    if stacked:
        return stacked
    return len(_known(tensors.expert, *numbers, trace.routing.expert))


def _expert_tensors(trace: Trace) -> Array:
    """Tell which tensors belong to experts, bool[n + 1]; the last one is none."""
    tensors = trace.tensors
    names = (trace.strings[i] for i in tensors.name.tolist())
    packed = np.fromiter(("_exps" in name for name in names), np.bool_, len(tensors))
    return np.append(packed | (tensors.expert >= 0), False)


def _touches(accesses: AccessColumns, is_expert: Array) -> Array:
    return (accesses.expert >= 0) | is_expert[accesses.tensor]


def _known(*columns: Array) -> Array:
    """Return the distinct values that are not -1."""
    values = distinct(np.concatenate([c.astype(np.int64) for c in columns]))
    return values[values >= 0]
