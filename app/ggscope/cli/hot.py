"""``ggscope hot``: which tensors are read most, and which never."""

from argparse import Namespace
from pathlib import Path

from ggscope.analysis.reads.hot_cold import HotCold, KvTraffic, hot_cold
from ggscope.analysis.reads.hotness import Ranking, RowReads, ranking
from ggscope.analysis.sessions.join import refused_models
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, load, print_heading, time_range
from ggscope.descriptions.counting import known_bytes, moved_text
from ggscope.descriptions.coverage import coverage_json
from ggscope.descriptions.reads import (
    hot_facts,
    no_accesses_text,
)
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import format_bytes, format_count, format_share
from ggscope.sanitize import one_line


def run(arguments: Namespace) -> int:
    """Print facts and a ranking of each file; return the exit code."""

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        time = time_range(trace, arguments)
        ranked = hot_cold(trace, time)
        groups = ranking(trace, ranked.heat, arguments.by)
        if not arguments.json:
            _print(path, trace, ranked, groups, arguments)
        return GOOD, _json(path, trace, ranked, groups, arguments)

    return answer_each(arguments, work)


def _print(
    path: Path, trace: Trace, ranked: HotCold, groups: Ranking, arguments: Namespace
) -> None:
    print_heading(path, arguments)
    facts = hot_facts(trace, ranked)
    if not facts:
        output.emit(": ".join(no_accesses_text(trace)))
        return
    width = max(len(fact.title) for fact in facts)
    for fact in facts:
        remark = f" ({fact.remark})" if fact.remark else ""
        output.emit(one_line(f"{fact.title:<{width}}  {fact.text}{remark}"))
    n = min(arguments.limit, len(groups))
    if not n or not groups.accesses.any():
        return  # no access leads to a tensor: nothing to rank, and 0 would be a claim
    output.emit("")
    names = [one_line(key) for key in groups.keys[:n]]
    name_px = max(map(len, names))
    total = int(groups.bytes.sum()) or 1
    has_open = bool(groups.unknown[:n].any())
    head = f"{arguments.by:<{name_px}}  {'accesses':>12}  {'read':>10}   share"
    output.emit(head + (f"  {'not known':>12}" if has_open else ""))
    for i in range(n):
        n_bytes = int(groups.bytes[i])
        output.emit(
            f"{names[i]:<{name_px}}  {format_count(int(groups.accesses[i])):>12}"
            f"  {moved_text(n_bytes, int(groups.unsized[i])):>10}"
            f"  {format_share(n_bytes / total):>6}"
            + (f"  {_at_most_text(int(groups.unknown[i])):>12}" if has_open else "")
        )


def _json(
    path: Path, trace: Trace, ranked: HotCold, groups: Ranking, arguments: Namespace
) -> dict[str, object]:
    part, totals = ranked.cold, ranked.totals
    n = min(arguments.limit, len(groups))
    return {
        "path": str(path),
        "by": arguments.by,
        "coverage": coverage_json(ranked.coverage),
        "refused": [
            {"file": name, "why": why} for name, why in refused_models(trace).items()
        ],
        "never_touched": {
            "known": part.is_known,
            "untouched_units": part.n_cold if part.is_listed else None,
            "untouched_bytes": part.cold_size if part.is_listed else None,
            "units": part.n_cold if part.is_known else None,
            "bytes": part.cold_size if part.is_known else None,
            "all_units": part.n_units,
            "all_bytes": part.size,
            "unknown_units": part.n_unknown + part.n_cut if part.is_listed else None,
            "unknown_bytes": part.unknown_size + part.cut_size
            if part.is_listed
            else None,
            "not_recorded_units": part.n_unrecorded if part.is_listed else None,
            "not_recorded_bytes": part.unrecorded_size if part.is_listed else None,
        },
        "accesses": {
            name.replace(" ", "_"): {
                "count": count,
                "bytes": known_bytes(totals.bytes[name], totals.unsized[name]),
                "bytes_unknown": totals.unknown_bytes[name],
                "without_size": totals.unsized[name],
            }
            for name, count in totals.accesses.items()
        },
        "kv_cache": _kv_json(ranked.kv),
        "model_bytes": {
            "read": int(ranked.heat.unit_bytes.sum()),
            "unknown": ranked.heat.unknown_file_bytes,
            "not_chosen": ranked.heat.passed_bytes,
        },
        "embedding_rows": [_rows_json(trace, rows) for rows in ranked.rows],
        "sequential_share": ranked.seeks.share_sequential if ranked.seeks.n else None,
        "order_on_disk": ranked.order.kind,
        "facts": [
            {"title": f.title, "words": f.text, "remark": f.remark}
            for f in hot_facts(trace, ranked)
        ],
        "rows": [
            {
                "key": groups.keys[i],
                "accesses": int(groups.accesses[i]),
                "bytes": known_bytes(int(groups.bytes[i]), int(groups.unsized[i])),
                "size": int(groups.size[i]),
                "layer": int(groups.layer[i]) if int(groups.layer[i]) >= 0 else None,
                "bytes_unknown": int(groups.unknown[i]),
            }
            for i in range(n)
        ],
    }


def _rows_json(trace: Trace, rows: RowReads) -> dict[str, object]:
    """Return how rows of an embedding table are read; None = not known."""
    is_known = rows.n_placed > 0
    return {
        "tensor": trace.strings[int(trace.tensors.name[rows.tensor])],
        "ops": rows.n_ops,
        "look_ups": rows.n_reads,
        "placed": rows.n_placed,
        "rows": len(rows.row) if is_known else None,
        "bytes": len(rows.row) * rows.row_bytes if is_known else None,
        "read_again": rows.n_repeated if is_known else None,
        "all_rows": rows.n_rows or None,
        "untouched_rows": rows.n_untouched if is_known else None,
    }


def _at_most_text(n_bytes: int) -> str:
    return f"≤ {format_bytes(n_bytes)}" if n_bytes else ""


def _kv_json(kv: KvTraffic) -> dict[str, object]:
    """Return what ops do with the KV cache; None where no such access is recorded."""

    def side(
        n: I64, known: I64, unknown: I64, unsized: I64
    ) -> dict[str, int | None] | None:
        if not n.sum():
            return None
        return {
            "accesses": int(n.sum()),
            "bytes": known_bytes(int(known.sum()), int(unsized.sum())),
            "bytes_unknown": int(unknown.sum()),
            "without_size": int(unsized.sum()),
        }

    return {
        "read": side(kv.n_reads, kv.read, kv.unknown_read, kv.unsized_reads),
        "written": side(kv.n_writes, kv.written, kv.unknown_written, kv.unsized_writes),
    }
