"""``ggscope critical-path``: the longest chain of dependent ops of a token."""

from argparse import Namespace
from pathlib import Path

import numpy as np

from ggscope.analysis.graph.token_path import TokenPath, token_path
from ggscope.analysis.sessions.correlate import correlate
from ggscope.analysis.summary.bars import TokenBars, bar_text, token_bars
from ggscope.analysis.summary.latency import counted_bars
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, load, print_heading
from ggscope.descriptions.critical_path import (
    path_notes,
    path_reason,
    path_text,
    path_title,
)
from ggscope.errors import QueryError
from ggscope.model.tables import I64
from ggscope.model.trace import Trace, lane_titles
from ggscope.model.units import format_count, format_duration, format_share
from ggscope.sanitize import one_line

_MAX_NAMED = 8
"""Tokens that a message names."""


def run(arguments: Namespace) -> int:
    """Print the critical path of a token of each file; return the exit code."""

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        path_of_token = token_path(
            trace, _chosen(trace, arguments.token), correlate(trace)
        )
        if not arguments.json:
            print_heading(path, arguments)
            _print(trace, path_of_token)
        return GOOD, path_json(path, trace, path_of_token)

    return answer_each(arguments, work)


def _chosen(trace: Trace, token: str | None) -> int:
    """Return a span of the chosen token, that of the slowest one by default.

    Of a trace without tokens any op, as all of them are one pass.
    """
    bars = token_bars(trace)
    if token is not None:
        return int(bars.span[_row_of(trace, bars, token)])
    if len(bars):
        duration = np.where(counted_bars(bars), bars.duration, -1)
        return int(bars.span[int(np.argmax(duration))])
    ops = np.flatnonzero(trace.spans.op >= 0)
    return int(ops[0]) if len(ops) else -1


def _row_of(trace: Trace, bars: TokenBars, token: str) -> int:
    """Return the bar that is called so, or has this number."""
    texts = [bar_text(trace, bars, row) for row in range(len(bars))]
    rows = [i for i, text in enumerate(texts) if text == token]
    rows = rows or [
        i for i, text in enumerate(texts) if text.rpartition(" ")[2] == token
    ]
    if len(rows) == 1:
        return rows[0]
    noun, what = bars.noun, [texts[i] for i in rows or range(len(texts))]
    listed = ", ".join(what[:_MAX_NAMED]) + (" …" if len(what) > _MAX_NAMED else "")
    if rows:
        raise QueryError(f"Several {noun}s are called {token!r}: {listed}.")
    if not len(bars):
        raise QueryError("The trace shows neither tokens nor graph passes.")
    raise QueryError(f"There is no {noun} {token!r}. There are: {listed}.")


def path_json(path: Path, trace: Trace, critical: TokenPath) -> dict[str, object]:
    """Return what ``critical-path --json`` prints of one file."""
    ticks = trace.clock.unit_name
    reason, wall = path_reason(critical), None
    if critical.time is not None:
        wall = critical.time.duration
    length = None if reason else critical.length
    return {
        "path": str(path),
        "token": path_title(trace, critical) if critical.bar >= 0 else None,
        "span": critical.bar if critical.bar >= 0 else None,
        f"wall_{ticks}": wall,
        f"length_{ticks}": length,
        "share": length / wall if length is not None and wall else None,
        "is_lower_bound": None if reason else critical.is_lower_bound,
        "quality": None if reason else critical.quality.word,
        "untimed_spans": None if reason else critical.n_untimed,
        "open_reads": None if reason else critical.n_open,
        "steps": [] if reason else _span_rows(trace, critical.path, ticks),
        "slack": []
        if reason
        else [
            {"span": span, f"slack_{ticks}": slack}
            for span, slack in zip(
                critical.spans.tolist(), critical.slack.tolist(), strict=True
            )
        ],
        "unknown": {f"length_{ticks}": reason} if reason else {},
    }


def _span_rows(trace: Trace, ids: I64, ticks: str) -> list[dict[str, object]]:
    titles, spans = lane_titles(trace.lanes), trace.spans
    return [
        {
            "span": span,
            "lane": titles[int(spans.lane[span])],
            "op": trace.op_name(int(spans.op[span])),
            "name": trace.span_name(span),
            "start": int(spans.start[span]),
            f"duration_{ticks}": int(spans.end[span] - spans.start[span]),
        }
        for span in ids.tolist()
    ]


def _print(trace: Trace, critical: TokenPath) -> None:
    output.emit(one_line(path_text(trace, critical)))
    if critical.unknown is not None:
        return
    for note in path_notes(critical):
        output.emit(f"  {note}")
    spans, path, unit = trace.spans, critical.path, trace.clock.unit
    lasted = (spans.end[path] - spans.start[path]).astype(np.int64)
    titles = lane_titles(trace.lanes)
    for head, names in (
        ("op", [trace.op_name(int(op)) for op in spans.op[path]]),
        ("thread", [titles[int(lane)] for lane in spans.lane[path]]),
    ):
        total: dict[str, list[int]] = {}
        for name, ticks in zip(names, lasted.tolist(), strict=True):
            one = total.setdefault(name, [0, 0])
            one[0], one[1] = one[0] + 1, one[1] + ticks
        rows = [
            (
                f"  {name}",
                format_count(count),
                format_duration(ticks, unit),
                format_share(ticks / critical.length) if critical.length else "",
            )
            for name, (count, ticks) in sorted(
                total.items(), key=lambda item: -item[1][1]
            )
        ]
        output.emit("")
        titles_row = (f"  {head}", "spans", "on the path", "share")
        output.emit(output.table(titles_row, rows, left=(0,)))
