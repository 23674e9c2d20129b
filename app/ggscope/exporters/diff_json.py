"""A comparison as one object of JSON, for ``ggscope diff --json`` and Python."""

from typing import Any

from ggscope.analysis.compare.compare import CompareRow, Comparison
from ggscope.analysis.compare.matching import Hidden


def diff_json(comparison: Comparison) -> dict[str, Any]:
    """Return what ``diff --json`` prints, without the paths of the sides."""
    unmatched = [run.unmatched for run in comparison.alignment.runs]
    n_a = comparison.n_a
    return {
        "by": comparison.by,
        "measure": comparison.measure,
        "comparable": comparison.is_comparable,
        "reason": comparison.reason or None,
        "equal": comparison.is_comparable and comparison.is_equal,
        "aligned_by": comparison.alignment.by,
        "matched": len(comparison.matched),
        "matched_tokens": list(comparison.tokens()),
        "unmatched_tokens": {
            "a": sorted({key for keys in unmatched[:n_a] for key in keys}),
            "b": sorted({key for keys in unmatched[n_a:] for key in keys}),
        },
        "only_a": list(comparison.only_a),
        "only_b": list(comparison.only_b),
        "untimed": list(comparison.untimed),
        "change_is": comparison.bound or "exact",
        "partial": {
            name: _hidden_json(hidden)
            for name, hidden in zip("ab", comparison.hidden, strict=True)
        },
        "tokens_matched_in_order": comparison.alignment.is_open,
        "differences": [
            {"what": one.what, "a": one.a, "b": one.b} for one in comparison.differences
        ],
        "shares": [
            {
                "key": row.key,
                "a_count": row.count_a,
                "b_count": row.count_b,
                "a_share": row.share_a,
                "b_share": row.share_b,
            }
            for row in comparison.shares
        ],
        "elapsed": _row_json(comparison.elapsed),
        "phases": [_row_json(row) for row in comparison.phases],
        "parts": [_row_json(row) for row in comparison.parts],
        "rows": [_row_json(row) for row in comparison.rows],
    }


def _row_json(row: CompareRow) -> dict[str, object]:
    return {
        "key": row.key,
        "a": row.a.value,
        "b": row.b.value,
        "change": row.change,
        "relative": row.relative,
        "within_noise": row.is_noise,
        "only_in": row.only_in or None,
        "absence": row.absence,
        "a_spread": row.a.spread,
        "b_spread": row.b.spread,
    }


def _hidden_json(hidden: Hidden) -> dict[str, str | None]:
    """Return what a side leaves out, by kind; null where nothing is known to be."""
    return {
        "tokens": hidden.tokens or None,
        "ops": hidden.ops or None,
        "threads": hidden.threads or None,
    }
