"""How complete a trace is, in words, and the problem that tells of it."""

from dataclasses import replace

from ggscope.analysis.completeness.expected import Completeness, Gap
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import format_count

CODE = "records_missing"
_HOLDS = "The times derived for the ops before them hold theirs. "


def completeness_words(found: Completeness) -> str:
    """Return "99.1 % of what was expected: 217 of 23,280 records are missing …"."""
    share, n = found.share, found.n_missing
    if share is None:
        return f"not known: {found.why or 'nothing tells what was to be expected'}"
    is_one = found.rests_on in (("the graph",), ("what later records read",))
    rests = f"{' and '.join(found.rests_on)} tell{'s' if is_one else ''}"
    if not n:
        text = f"nothing that was to be expected is missing, as far as {rests}"
    else:
        text = (
            f"{format_percent(share)} of what was expected: {format_count(n)} of "
            f"{format_count(found.n_expected)} records {'is' if n == 1 else 'are'} "
            f"missing, as {rests}"
        )
        low, high = n - found.n_fewer, n + found.n_more
        if low < high:
            text += (
                f"; {format_count(low)} to {format_count(high)} are likely, with those "
                "that every pass or an end of the recording may lack"
            )
    if unseen := found.n_unseen:
        text += (
            f"; {format_count(unseen)} op{'' if unseen == 1 else 's'} of the graph "
            "that no pass records, as if unseen by the tracer, "
            f"{'is' if unseen == 1 else 'are'} not counted"
        )
    if varying := found.n_varying:
        text += (
            f"; {format_count(varying)} op{'' if varying == 1 else 's'} that "
            f"{'varies is' if varying == 1 else 'vary are'} left out: lost records or "
            "another graph"
        )
    return text


def format_percent(share: float) -> str:
    """Return a share that is no whole so that it never reads as one: "99.997 %"."""
    for digits in range(1, 7):
        text = f"{100 * share:.{digits}f}"
        if not text.startswith("100"):
            return f"{text} %"
    return "99.999999 %"


def with_completeness(trace: Trace, found: Completeness) -> Trace:
    """Return the trace with a problem where records are missing."""
    kept = tuple(w for w in trace.warnings if w.code != CODE)
    if found.n_missing:
        kept = (*kept, _warning(trace, found))
    if kept == trace.warnings:
        return trace
    return replace(trace, warnings=tuple(sorted(kept, key=lambda w: -w.severity)))


def _warning(trace: Trace, found: Completeness) -> ReadWarning:
    is_derived = bool((trace.spans.flags & int(SpanFlag.INFERRED_END)).any())
    return ReadWarning(
        Severity.DATA_LOSS,
        CODE,
        f"{completeness_words(found)}.",
        found.n_missing,
        place=gap_words(trace, found.gaps[0]) if found.gaps else "",
        remedy=(_HOLDS if is_derived else "") + "Record again if they matter.",
    )


def gap_words(trace: Trace, gap: Gap) -> str:
    """Return "Qcur-3 (MUL_MAT) after record 41 (attn_norm-3)"."""
    what = f"{gap.name} ({gap.op})" if gap.op and gap.op != gap.name else gap.name
    side, span = ("after", gap.after) if gap.after >= 0 else ("before", gap.before)
    if span < 0:
        return f"{what} in every pass"
    number = format_count(trace.record_of(span))
    return f"{what} {side} record {number} ({trace.span_name(span)})"
