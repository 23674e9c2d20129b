"""How complete a trace is, as text and JSON, and the problems that report it."""

from dataclasses import replace

from ggscope.analysis.completeness.expected import COUNTED, Completeness, Gap
from ggscope.analysis.completeness.skipped import SkippedTokens
from ggscope.model.tables import Phase, SpanFlag
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import format_count

CODE = "records_missing"
TOKENS_CODE = "tokens_missing"
ALTERED_CODE = "records_altered"
LEFT_OUT_CODE = "left_out"
_CODES = frozenset({CODE, TOKENS_CODE, ALTERED_CODE, LEFT_OUT_CODE})
_WHOLE_GRAPHS = (
    " The span of a graph recorded as a whole is the call that starts it: a backend "
    "that computes asynchronously goes on after the call."
)
_INCLUDES = "Times derived for the ops before them include theirs. "


def completeness_text(result: Completeness) -> str:
    """Return "217 of 23,280 records missing (99.1 % complete, based on …)"."""
    share, n = result.share, result.n_missing
    skipped = f"; {_tokens_text(result.tokens)}" if result.tokens.gaps else ""
    if share is None:
        why = result.why or "the expected number of records is unknown"
        return f"unknown: {why}{skipped}{_lists_text(result)}"
    basis = f"based on {' and '.join(result.rests_on)}"
    if not n:
        text = f"no {'op ' if result.n_lists else ''}records missing ({basis})"
    else:
        text = (
            f"{format_count(n)} of {format_count(result.n_expected)} records missing "
            f"({format_percent(share)} complete, {basis})"
        )
        low, high = n - result.n_fewer, n + result.n_more
        if low < high:
            text += (
                f"; likely {format_count(low)} to {format_count(high)}, with those "
                "that every pass or the ends of the recording may lack"
            )
    text += skipped + _lists_text(result)
    if unseen := result.n_unseen:
        text += (
            f"; not counted: {format_count(unseen)} "
            f"op{'' if unseen == 1 else 's'} of the graph that no pass records, "
            "probably invisible to the tracer"
        )
    if n := result.n_altered:
        text += (
            f"; {format_count(n)} record{'' if n == 1 else 's'} with another op or "
            "name than in the other passes"
        )
    if varying := result.n_varying:
        text += (
            f"; not counted: {format_count(varying)} "
            f"{'op that varies' if varying == 1 else 'ops that vary'} "
            "between passes (lost records or another graph)"
        )
    return text


def _lists_text(result: Completeness) -> str:
    n = result.n_lists
    if not n:
        return ""
    # Where both lists of a token and layer are lost, nothing may show it.
    return f"; at least {format_count(n)} expert list{'' if n == 1 else 's'} missing"


def _tokens_text(tokens: SkippedTokens) -> str:
    """Return "token 10 missing" or "3 tokens missing: 10, 14–15"."""
    if tokens.n_tokens == 1:
        return f"token {tokens.numbers()} missing"
    return f"{format_count(tokens.n_tokens)} tokens missing: {tokens.numbers()}"


def format_percent(share: float) -> str:
    """Return a share below 1, which never rounds to "100 %": "99.997 %"."""
    for digits in range(1, 7):
        text = f"{100 * share:.{digits}f}"
        if not text.startswith("100"):
            return f"{text} %"
    return "99.999999 %"


def completeness_json(trace: Trace, result: Completeness) -> dict[str, object]:
    """Return how many of the expected records are there, and where some are missing.

    ``share`` is None where the expected number is unknown; ``why`` says why.
    ``missing_range`` is the likely bounds, where losses may have left no trace.
    ``missing_tokens`` lists token numbers that are skipped, first to last; ``missing``
    counts their records too. ``gaps`` lists the first missing records between the
    numbers of their neighbours, None = none; ``time`` is in ticks.
    """
    return {
        "known": result.is_known,
        "why": result.why,
        "share": result.share,
        "there": result.n_there,
        "missing": result.n_missing,
        "missing_range": [
            result.n_missing - result.n_fewer,
            result.n_missing + result.n_more,
        ],
        "expected": result.n_expected,
        "passes": result.n_passes,
        "varying_ops": result.n_varying,
        "altered": result.n_altered,
        "missing_lists": result.n_lists,
        "rests_on": list(result.rests_on),
        "missing_tokens": [
            {
                "first": gap.first,
                "last": gap.last,
                "phase": None if gap.phase < 0 else Phase(gap.phase).name.lower(),
                "time": gap.time,
            }
            for gap in result.tokens.gaps
        ],
        "words": completeness_text(result),
        "gaps": [
            {
                "name": gap.name,
                "op": gap.op,
                "after": None if gap.after < 0 else trace.record_of(gap.after),
                "before": None if gap.before < 0 else trace.record_of(gap.before),
                "time": gap.time,
            }
            for gap in result.gaps
        ],
    }


def with_completeness(trace: Trace, result: Completeness) -> Trace:
    """Return the trace with problems for what is missing or left out.

    Records that the tracer counted as lost have a problem already.
    """
    problems = tuple(w for w in trace.warnings if w.code not in _CODES)
    if result.n_missing > result.n_token_records and result.rests_on != (COUNTED,):
        problems = (*problems, _records_problem(trace, result))
    if result.tokens.gaps:
        problems = (*problems, _tokens_problem(result.tokens))
    if result.n_altered:
        problems = (*problems, _altered_problem(trace, result))
    if trace.recordings:
        problems = (*problems, *_left_out(trace))
    if problems == trace.warnings:
        return trace
    return replace(trace, warnings=tuple(sorted(problems, key=lambda w: -w.severity)))


def is_reported(trace: Trace, result: Completeness) -> bool:
    """Return whether the problems of a trace report all that is missing."""
    codes = {warning.code for warning in trace.warnings}
    has_records = CODE in codes or result.n_missing <= result.n_token_records
    has_records = has_records or result.rests_on == (COUNTED,)
    has_altered = ALTERED_CODE in codes or not result.n_altered
    has_tokens = TOKENS_CODE in codes or not result.tokens.gaps
    return has_records and has_altered and has_tokens


def _records_problem(trace: Trace, result: Completeness) -> ReadWarning:
    is_derived = bool((trace.spans.flags & int(SpanFlag.INFERRED_END)).any())
    return ReadWarning(
        Severity.DATA_LOSS,
        CODE,
        f"{completeness_text(result)}.",
        result.n_missing - result.n_token_records,
        place=gap_text(trace, result.gaps[0]) if result.gaps else "",
        remedy=(_INCLUDES if is_derived else "") + "Record again if you need them.",
    )


def _tokens_problem(tokens: SkippedTokens) -> ReadWarning:
    first = tokens.gaps[0]
    before, after = format_count(first.first - 1), format_count(first.last + 1)
    text = _tokens_text(tokens)
    return ReadWarning(
        Severity.DATA_LOSS,
        TOKENS_CODE,
        f"{text[0].upper()}{text[1:]}: gaps in the token numbers of the file.",
        tokens.n_tokens,
        place=f"tokens {before} to {after}",
        remedy="Record again if you need them; values per token count only those "
        "present.",
    )


def _left_out(trace: Trace) -> tuple[ReadWarning, ...]:
    """Return the problem that a recording is partial by its settings."""
    # Imported for recordings alone: it looks at all that records may lack.
    from ggscope.analysis.completeness.coverage import Cause, trace_coverage
    from ggscope.descriptions.coverage import stated_text

    coverage = trace_coverage(trace)
    stated = stated_text(coverage)
    if not stated:
        return ()
    note = _WHOLE_GRAPHS if coverage.of(Cause.GRAPHS_WHOLE) else ""
    return (
        ReadWarning(
            Severity.NOTICE,
            LEFT_OUT_CODE,
            f"The recording is partial: {stated}.",
            remedy="Sums and shares cover what is recorded; ops without a record may "
            f"have run too.{note}",
        ),
    )


def _altered_problem(trace: Trace, result: Completeness) -> ReadWarning:
    n, place = result.n_altered, ""
    for first in result.altered[:1]:
        op = trace.op_name(int(trace.spans.op[first]))
        name = trace.span_name(first)
        what = f"{name} ({op})" if op and op != name else name
        place = f"record {format_count(trace.record_of(first))}: {what}"
    return ReadWarning(
        Severity.NOTICE,
        ALTERED_CODE,
        f"{format_count(n)} record{' has' if n == 1 else 's have'} another op number "
        "or name than the same op in other passes: damaged bytes, or another graph. "
        "They do not count as missing.",
        n,
        place=place,
        remedy="Their op or name may be wrong; sources and times are shown.",
    )


def gap_text(trace: Trace, gap: Gap) -> str:
    """Return "Qcur-3 (MUL_MAT) after record 41 (attn_norm-3)"."""
    what = f"{gap.name} ({gap.op})" if gap.op and gap.op != gap.name else gap.name
    side, span = ("after", gap.after) if gap.after >= 0 else ("before", gap.before)
    if span < 0:
        return f"{what} in every pass"
    number = format_count(trace.record_of(span))
    return f"{what} {side} record {number} ({trace.span_name(span)})"
