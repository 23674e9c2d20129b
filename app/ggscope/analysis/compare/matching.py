"""What of two sides belongs together, what recordings hide, and in what they differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ggscope.analysis.compare.alignment import Alignment
from ggscope.analysis.completeness.coverage import Cause, trace_coverage
from ggscope.analysis.statistics.table import StatRow
from ggscope.analysis.summary.partial import (
    HIDES_OPS,
    hidden_ops,
    hidden_threads,
    hidden_tokens,
)
from ggscope.model.selection import By
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Trace

_OF_OPS = ("op", "name")
"""Groupings in which a filter of ops leaves out whole groups."""
_OF_THREADS = ("thread", "lane", "core", "numa")


class Absence(StrEnum):
    """What is known of something that a side has no record of; as ``--json`` has it."""

    DID_NOT_RUN = "did_not_run"
    """All of its recordings state that they leave out nothing of the kind."""
    NOT_STATED = "not_stated"
    """They do not state what they leave out, and show no loss."""
    NOT_RECORDED = "not_recorded"
    """It may have run: a recording is known to leave things out."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """What the recordings of a side leave out: the reason, "" where none is known.

    Attributes
    ----------
    has_whole_ops : whether ops are left out by their names alone, so that those which
        are recorded are so each time.
    is_stated : whether all recordings of the side state what they leave out.
    """

    tokens: str = ""
    ops: str = ""
    threads: str = ""
    has_whole_ops: bool = False
    is_stated: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether anything is left out."""
        return bool(self.tokens or self.ops or self.threads)

    def groups(self, by: By, *, all_tokens: bool = True) -> str:
        """Return why groups that are not recorded may have run; "" where none is known.

        Parameters
        ----------
        all_tokens : whether also in tokens that are not recorded; else only in those
            of both sides.
        """
        tokens = self.tokens if all_tokens else ""
        if by in ("token", "phase"):
            return tokens
        if by in _OF_THREADS:
            return self.threads or self.ops or tokens
        return self.ops or self.threads or tokens

    def absence(self, reason: str) -> Absence:
        """Return what it means that a record is missing, which a reason may explain."""
        if reason:
            return Absence.NOT_RECORDED
        return Absence.DID_NOT_RUN if self.is_stated else Absence.NOT_STATED

    def sums(self, by: By | None = None) -> str:
        """Return why times of groups may be less than what ran; "" where they are not.

        Tokens that are not recorded take nothing from those that are compared.

        Parameters
        ----------
        by : what groups are; None = any.
        """
        if self.has_whole_ops and by in _OF_OPS:
            return self.threads
        return self.ops or self.threads


def hidden_of(traces: Sequence[Trace]) -> Hidden:
    """Return what the runs of a side leave out, any of them."""

    def first(why: Callable[[Trace], str]) -> str:
        return next((reason for trace in traces if (reason := why(trace))), "")

    ops = first(hidden_ops) or first(_has_no_op)
    coverages = [trace_coverage(trace) for trace in traces]
    causes = {one.cause for coverage in coverages for one in coverage.of(*HIDES_OPS)}
    return Hidden(
        first(hidden_tokens), ops, first(hidden_threads),
        has_whole_ops=causes == {Cause.OPS_FILTERED},
        is_stated=all(coverage.is_stated for coverage in coverages),
    )  # fmt: skip


def _has_no_op(trace: Trace) -> str:
    """Return that no op is recorded, only graphs or tokens; "" where some are."""
    op = trace.spans.op
    is_silent = len(op) > 0 and int(op.max()) < 0
    return "no op is recorded" if is_silent else ""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something in which two sides differ before any time is compared.

    Attributes
    ----------
    what : "format", "op table" or "model".
    a, b : what each side has.
    """

    what: str
    a: str
    b: str


def differences(traces: Sequence[Trace], n_a: int) -> tuple[Difference, ...]:
    """Return in what the recordings of two sides differ; only what both state."""
    facts: tuple[tuple[str, Callable[[Trace], str]], ...] = (
        ("format", lambda trace: trace.info.format),
        ("op table", lambda trace: "" if trace.ops is None else trace.ops.id),
        ("model", _models),
    )
    result = []
    for what, fact in facts:
        a, b = (
            ", ".join(sorted({fact(trace) for trace in side}))
            for side in (traces[:n_a], traces[n_a:])
        )
        if a and b and a != b:
            result.append(Difference(what, a, b))
    return tuple(result)


def _models(trace: Trace) -> str:
    return " + ".join(dict.fromkeys(model.name for model in trace.models))


@dataclass(frozen=True, slots=True)
class ShareRow:
    """A group by counts and shares, which traces of different clocks have in common.

    Attributes
    ----------
    count_a, count_b : spans, the mean over the runs of a side that have the group.
    share_a, share_b : of the time of all groups of the side; None where no time of the
        group is known.
    """

    key: str
    count_a: float
    count_b: float
    share_a: float | None
    share_b: float | None


def share_rows(
    tables: Sequence[Mapping[str, StatRow]], keys: Sequence[str], n_a: int
) -> tuple[ShareRow, ...]:
    """Return counts and shares of groups, those of largest share first."""
    rows = []
    for key in keys:
        sides = [
            [row for table in side if (row := table.get(key)) is not None]
            for side in (tables[:n_a], tables[n_a:])
        ]
        counts = [_mean([float(row.count) for row in side]) or 0.0 for side in sides]
        shares = [_mean([row.share for row in side if row.timed]) for side in sides]
        rows.append(ShareRow(key, counts[0], counts[1], shares[0], shares[1]))
    rows.sort(key=lambda row: (-max(row.share_a or 0, row.share_b or 0), row.key))
    return tuple(rows)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def names_of_first(
    tables: Sequence[dict[str, StatRow]],
    traces: Sequence[Trace],
    alignment: Alignment,
) -> list[dict[str, StatRow]]:
    """Return tables by token in which a token has the name that it has in the first.

    Runs number their tokens themselves: what is token 5 of one may be token 7 of
    another.
    """
    first = _names(traces[0], alignment, 0)
    renamed = [dict(tables[0])]
    for number in range(1, len(traces)):
        names = _names(traces[number], alignment, number)
        own = {text: key for key, text in names.items()}
        renamed.append({
            first.get(own.get(text, ""), text): row
            for text, row in tables[number].items()
        })  # fmt: skip
    return renamed


def group_names(
    key: str, by: By, traces: Sequence[Trace], alignment: Alignment
) -> list[str]:
    """Return what each run calls a group of the first one; tokens have own numbers."""
    if by != "token" or alignment.by != "token":
        return [key] * len(traces)
    named = [_names(trace, alignment, i) for i, trace in enumerate(traces)]
    match = next((one for one, text in named[0].items() if text == key), None)
    return [key if match is None else names.get(match, key) for names in named]


def _names(trace: Trace, alignment: Alignment, number: int) -> dict[str, str]:
    """Return what a run calls each token, by what identifies it in all runs."""
    run, tokens = alignment.runs[number], tokens_of(trace)
    texts = map(tokens.text, run.bars.key.tolist())
    return dict(zip(run.keys, texts, strict=True)) if run.keys else {}
