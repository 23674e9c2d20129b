"""How complete a trace is, in words, and the problem that tells of it."""

from dataclasses import replace

from ggscope.analysis.completeness.expected import COUNTED, Completeness, Gap
from ggscope.analysis.completeness.skipped import SkippedTokens
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import format_count

CODE = "records_missing"
TOKENS_CODE = "tokens_missing"
ALTERED_CODE = "records_altered"
LEFT_OUT_CODE = "left_out"
_CODES = frozenset({CODE, TOKENS_CODE, ALTERED_CODE, LEFT_OUT_CODE})
_SINGULAR = (("the graph",), ("what later records read",), (COUNTED,))
_WHOLE_GRAPHS = (
    " The span of a graph recorded as a whole is the call that starts it: a backend "
    "that computes asynchronously goes on after the call."
)
_HOLDS = "The times derived for the ops before them hold theirs. "


def completeness_words(found: Completeness) -> str:
    """Return "99.1 % of what was expected: 217 of 23,280 records are missing …"."""
    share, n = found.share, found.n_missing
    skipped = f"; {_tokens_words(found.tokens)}" if found.tokens.gaps else ""
    if share is None:
        why = found.why or "nothing tells what was to be expected"
        return f"not known: {why}{skipped}{_lists_words(found)}"
    is_one = found.rests_on in _SINGULAR
    rests = f"{' and '.join(found.rests_on)} tell{'s' if is_one else ''}"
    if not n:
        what = "no record of an op" if found.n_lists else "nothing"
        text = f"{what} that was to be expected is missing, as far as {rests}"
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
    text += skipped + _lists_words(found)
    if unseen := found.n_unseen:
        text += (
            f"; {format_count(unseen)} op{'' if unseen == 1 else 's'} of the graph "
            "that no pass records, as if unseen by the tracer, "
            f"{'is' if unseen == 1 else 'are'} not counted"
        )
    if n := found.n_altered:
        text += (
            f"; {format_count(n)} record{' has' if n == 1 else 's have'} another op or "
            "name than in the other passes"
        )
    if varying := found.n_varying:
        text += (
            f"; {format_count(varying)} op{'' if varying == 1 else 's'} that "
            f"{'varies is' if varying == 1 else 'vary are'} left out: lost records or "
            "another graph"
        )
    return text


def _lists_words(found: Completeness) -> str:
    n = found.n_lists
    if not n:
        return ""
    words = "list of experts is" if n == 1 else "lists of experts are"
    # What both lists of a token and layer have lost may leave no trace.
    return f"; at least {format_count(n)} {words} missing"


def _tokens_words(tokens: SkippedTokens) -> str:
    """Return "token 10 is missing" or "3 tokens are missing: 10, 14–15"."""
    if tokens.n_tokens == 1:
        return f"token {tokens.numbers()} is missing"
    return f"{format_count(tokens.n_tokens)} tokens are missing: {tokens.numbers()}"


def format_percent(share: float) -> str:
    """Return a share that is no whole so that it never reads as one: "99.997 %"."""
    for digits in range(1, 7):
        text = f"{100 * share:.{digits}f}"
        if not text.startswith("100"):
            return f"{text} %"
    return "99.999999 %"


def with_completeness(trace: Trace, found: Completeness) -> Trace:
    """Return the trace with a problem where anything is missing or left out.

    What the tracer counted as lost is a problem already.
    """
    kept = tuple(w for w in trace.warnings if w.code not in _CODES)
    if found.n_missing > found.n_token_records and found.rests_on != (COUNTED,):
        kept = (*kept, _records_problem(trace, found))
    if found.tokens.gaps:
        kept = (*kept, _tokens_problem(found.tokens))
    if found.n_altered:
        kept = (*kept, _altered_problem(trace, found))
    if trace.stories:
        kept = (*kept, *_left_out(trace))
    if kept == trace.warnings:
        return trace
    return replace(trace, warnings=tuple(sorted(kept, key=lambda w: -w.severity)))


def is_told(trace: Trace, found: Completeness) -> bool:
    """Tell whether the problems of a trace say all of what is missing."""
    codes = {warning.code for warning in trace.warnings}
    has_records = CODE in codes or found.n_missing <= found.n_token_records
    has_records = has_records or found.rests_on == (COUNTED,)
    has_altered = ALTERED_CODE in codes or not found.n_altered
    has_tokens = TOKENS_CODE in codes or not found.tokens.gaps
    return has_records and has_altered and has_tokens


def _records_problem(trace: Trace, found: Completeness) -> ReadWarning:
    is_derived = bool((trace.spans.flags & int(SpanFlag.INFERRED_END)).any())
    return ReadWarning(
        Severity.DATA_LOSS,
        CODE,
        f"{completeness_words(found)}.",
        found.n_missing - found.n_token_records,
        place=gap_words(trace, found.gaps[0]) if found.gaps else "",
        remedy=(_HOLDS if is_derived else "") + "Record again if they matter.",
    )


def _tokens_problem(tokens: SkippedTokens) -> ReadWarning:
    first = tokens.gaps[0]
    before, after = format_count(first.first - 1), format_count(first.last + 1)
    text = _tokens_words(tokens)
    return ReadWarning(
        Severity.DATA_LOSS,
        TOKENS_CODE,
        f"{text[0].upper()}{text[1:]}: the token numbers in the file skip.",
        tokens.n_tokens,
        place=f"tokens {before} to {after}",
        remedy="Record again if they matter; figures per token count those that are "
        "there.",
    )


def _left_out(trace: Trace) -> tuple[ReadWarning, ...]:
    """Return the problem that a recording states that it leaves something out."""
    # Imported for recordings alone: it looks at all that records may lack.
    from ggscope.analysis.completeness.coverage import Cause, trace_coverage
    from ggscope.descriptions.coverage import stated_words

    coverage = trace_coverage(trace)
    words = stated_words(coverage)
    if not words:
        return ()
    note = _WHOLE_GRAPHS if coverage.of(Cause.GRAPHS_WHOLE) else ""
    return (
        ReadWarning(
            Severity.NOTICE,
            LEFT_OUT_CODE,
            f"The recording is not all that the program did: {words}.",
            remedy="Sums and shares are of what is recorded; what has no record may "
            f"have run all the same.{note}",
        ),
    )


def _altered_problem(trace: Trace, found: Completeness) -> ReadWarning:
    n, place = found.n_altered, ""
    for first in found.altered[:1]:
        op = trace.op_name(int(trace.spans.op[first]))
        name = trace.span_name(first)
        what = f"{name} ({op})" if op and op != name else name
        place = f"record {format_count(trace.record_of(first))}: {what}"
    return ReadWarning(
        Severity.NOTICE,
        ALTERED_CODE,
        f"{format_count(n)} record{' has' if n == 1 else 's have'} another op number "
        "or name than the same op in other passes: damaged bytes, or another graph. "
        "No record is missing for that.",
        n,
        place=place,
        remedy="Their sources and times are shown; their op or name may be wrong.",
    )


def gap_words(trace: Trace, gap: Gap) -> str:
    """Return "Qcur-3 (MUL_MAT) after record 41 (attn_norm-3)"."""
    what = f"{gap.name} ({gap.op})" if gap.op and gap.op != gap.name else gap.name
    side, span = ("after", gap.after) if gap.after >= 0 else ("before", gap.before)
    if span < 0:
        return f"{what} in every pass"
    number = format_count(trace.record_of(span))
    return f"{what} {side} record {number} ({trace.span_name(span)})"
