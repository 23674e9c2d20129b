"""The summary of a trace: how fast, what takes the time, and what limits it.

Nothing is made up: what the trace does not state is None, with a reason in
`Summary.unknown`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.completeness.coverage import shown_coverage
from ggscope.analysis.model_tensors import is_model_alone
from ggscope.analysis.reads.hotness import cold, unit_heat
from ggscope.analysis.requests import request_shares
from ggscope.analysis.rows.tracks import lanes_where
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.statistics.table import StatTable, stat_table
from ggscope.analysis.summary.bars import GRAPH_PASS, TokenBars, token_bars
from ggscope.analysis.summary.bottleneck import (
    Cause,
    DeviceUse,
    Evidence,
    SlowBars,
    cause_of,
)
from ggscope.analysis.summary.frames import FrameShare, frame_shares
from ggscope.analysis.summary.host_waits import host_waits
from ggscope.analysis.summary.latency import SLOW, counted_bars
from ggscope.analysis.summary.partial import hidden_graphs, hidden_ops, hidden_tokens
from ggscope.analysis.summary.threads import ThreadTimes, thread_times
from ggscope.analysis.summary.token_parts import token_parts
from ggscope.analysis.summary.weight_traffic import WeightTraffic, weight_traffic
from ggscope.analysis.workers import Watcher, chunks
from ggscope.model.tables import I64, Phase, Quality, quality_of
from ggscope.model.trace import LaneKind, Severity, Trace, problem_counts

Bools = npt.NDArray[np.bool_]
UNKNOWN_FIELDS = (
    "tokens.prompt",
    "tokens.generated",
    "tokens.prompt_per_s",
    "tokens.generated_per_s",
    "tokens.first_token_ms",
    "tokens.median_ms",
    "tokens.slowest",
    "ops",
    "threads",
    "imbalance",
    "weights.bytes_per_token",
    "weights.gib_per_s",
    "weights.peak_gib_per_s",
    "never_touched_bytes",
    "bottleneck",
)
"""What a trace may not state, by the names of ``ggscope summary --json``."""
_MODEL_ALONE = "the file lists the tensors of a model and records no run"


@dataclass(frozen=True, slots=True, eq=False)
class TokenSummary:
    """How fast tokens are computed; times in ticks.

    Attributes
    ----------
    bars : one per token, ubatch or graph pass.
    prompt, generated : tokens of each phase; None where the trace does not number
        them.
    prompt_per_tick, generated_per_tick : tokens per tick in which any of them is
        computed, as llama.cpp counts its "eval time"; sampling is left out.
    first_token : from the begin of the first bar to the end of the prompt, from which
        the first token is sampled.
    median : of the generated tokens; of all bars where no phase is known.
    slowest : row in `bars` of the slowest of these; None without any.
    outliers : rows of those that take more than twice the median, slowest first.
    between : share of the time from the first to the last bar in which none lasts.
    """

    bars: TokenBars
    prompt: int | None = None
    generated: int | None = None
    prompt_per_tick: float | None = None
    generated_per_tick: float | None = None
    first_token: int | None = None
    median: float | None = None
    slowest: int | None = None
    outliers: tuple[int, ...] = ()
    between: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DataQuality:
    """How far the trace can be trusted.

    Attributes
    ----------
    spans : number of spans by `Quality`, int64[4].
    problems : number of kinds of problems by `Severity`, as `problem_counts`.
    occurrences : how often they occur, all of `problems` together.
    """

    spans: I64
    problems: Mapping[Severity, int]
    occurrences: int


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What a run did.

    Attributes
    ----------
    ops : by op, see `StatTable`; longest first, by self time where spans of programs
        nest, whose shares then are of the self time of all.
    weights : None where the trace does not record what is read.
    peak : bytes per tick that the machine's memory delivers; None = not known.
    never_touched : bytes of the model file that are never read; None = not known.
    cause : what limits the run; None where the trace does not state it.
    unknown : reasons by the names of `UNKNOWN_FIELDS`.
    frames : of a profile, the heaviest first; None for other traces.
    """

    tokens: TokenSummary
    ops: StatTable
    threads: ThreadTimes
    weights: WeightTraffic | None
    peak: float | None
    never_touched: int | None
    quality: DataQuality
    evidence: Evidence
    cause: Cause | None
    unknown: Mapping[str, str] = field(default_factory=dict)
    frames: tuple[FrameShare, ...] | None = None


def summary(
    trace: Trace,
    *,
    peak: float | None = None,
    blocks: SpanBlocks | None = None,
    watcher: Watcher | None = None,
) -> Summary:
    """Return the summary of a trace.

    Parameters
    ----------
    peak : bytes per tick that the memory of the machine delivers, where it is known.
    blocks : of this trace; kept by the caller they make it quicker.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    unknown: dict[str, str] = {}
    blocks = SpanBlocks(trace) if blocks is None else blocks
    tokens = _known_of(trace, _tokens(trace, unknown), unknown)
    ops = _ops(trace, blocks, watcher)
    if not ops.all.timed:
        unknown["ops"] = _no_times(trace)
    threads = thread_times(trace, blocks=blocks)
    _explain_threads(threads, unknown)
    weights = weight_traffic(trace, tokens.bars)
    if weights is not None and (reason := hidden_ops(trace)):
        weights = None
        unknown["weights.bytes_per_token"] = unknown["weights.gib_per_s"] = reason
    _explain_weights(trace, tokens, weights, unknown)
    if peak is None:
        unknown["weights.peak_gib_per_s"] = (
            "not measured; run ggscope machine, or give --peak"
        )
    never = _never_touched(trace, unknown)
    frames = frame_shares(trace, ops)
    evidence = _evidence(tokens, ops, threads, weights, peak, _device(trace))
    evidence = replace(evidence, parts=token_parts(trace, tokens.bars))
    if frames is not None:
        heaviest = frames[0] if frames else None
        op = None if heaviest is None else (heaviest.name, heaviest.share)
        evidence = replace(evidence, op=op)
    if trace.log is not None:
        shares = request_shares(trace.log.requests)
        evidence = replace(evidence, requests=shares)
    cause = cause_of(evidence)
    if cause is None:
        unknown["bottleneck"] = unknown.get("ops") or "no op or engine has a known time"
        if trace.log is not None:
            unknown["bottleneck"] = "no request has times of its prompt and generation"
        elif not len(trace.spans):
            unknown["bottleneck"] = "the file records no run"
        elif len(tokens.bars) and not (trace.spans.op >= 0).any():
            noun = "graph passes" if tokens.bars.noun == GRAPH_PASS else "tokens"
            unknown["bottleneck"] = f"the trace records {noun}, and no ops in them"
    if is_model_alone(trace):
        unknown = dict.fromkeys(UNKNOWN_FIELDS, _MODEL_ALONE)
    return Summary(
        tokens,
        ops,
        threads,
        weights,
        peak,
        never,
        _quality(trace),
        evidence,
        cause,
        unknown,
        frames,
    )


# -- tokens ------------------------------------------------------------------


def token_summary(trace: Trace) -> TokenSummary:
    """Return what the summary of a trace says of its tokens, and nothing else."""
    unknown: dict[str, str] = {}
    return _known_of(trace, _tokens(trace, unknown), unknown)


def _tokens(trace: Trace, unknown: dict[str, str]) -> TokenSummary:
    bars = token_bars(trace)
    if not len(bars):
        reason = "the trace records no tokens and no graphs"
        unknown.update((name, reason) for name in _of_tokens())
        return TokenSummary(bars)
    has_tokens = bars.noun != GRAPH_PASS
    if not has_tokens:
        reason = "the trace records graph passes, not tokens"
        unknown.update((name, reason) for name in _of_tokens()[:5])
    prompt = bars.of_phase(Phase.PROMPT) & has_tokens
    generated = bars.of_phase(Phase.GENERATE) & has_tokens
    n_prompt = _n_tokens(bars, prompt, Phase.PROMPT, unknown, has_tokens)
    n_generated = _n_tokens(bars, generated, Phase.GENERATE, unknown, has_tokens)
    rows = np.flatnonzero(counted_bars(bars))
    median = slowest = None
    outliers: tuple[int, ...] = ()
    if len(rows):
        duration = bars.duration[rows]
        median = float(np.median(duration))
        order = np.argsort(-duration, kind="stable")
        slowest = int(rows[order[0]])
        is_slow = duration[order] > SLOW * median
        outliers = tuple(rows[order[is_slow]].tolist())
    else:
        reason = f"no {bars.noun} has a recorded begin and end"
        unknown["tokens.median_ms"] = unknown["tokens.slowest"] = reason
    first = _first_token(bars, prompt, generated)
    if first is None:
        unknown.setdefault(
            "tokens.first_token_ms", "no prompt is recorded before a generated token"
        )
    return TokenSummary(
        bars,
        n_prompt,
        n_generated,
        _rate(bars, prompt, n_prompt),
        _rate(bars, generated, n_generated),
        first,
        median,
        slowest,
        outliers,
        _between(bars),
    )


def _known_of(
    trace: Trace, tokens: TokenSummary, unknown: dict[str, str]
) -> TokenSummary:
    """Return the summary without what the recording leaves open; rates stay."""
    if len(tokens.bars) and (reason := hidden_tokens(trace)):
        for name in ("tokens.prompt", "tokens.generated", "tokens.first_token_ms"):
            unknown.setdefault(name, reason)
        tokens = replace(tokens, prompt=None, generated=None, first_token=None)
    return replace(tokens, between=None) if hidden_graphs(trace) else tokens


def _of_tokens() -> tuple[str, ...]:
    return tuple(name for name in UNKNOWN_FIELDS if name.startswith("tokens."))


def _n_tokens(
    bars: TokenBars,
    which: Bools,
    phase: Phase,
    unknown: dict[str, str],
    has_tokens: bool,
) -> int | None:
    name = phase.name.lower()
    field_name = "prompt" if phase is Phase.PROMPT else "generated"
    if not has_tokens:
        return None
    if not which.any():
        reason = f"no {bars.noun} is recorded as {name}"
        if (bars.phase == phase).any():
            reason = f"no {bars.noun} of phase {name} has a recorded begin and end"
        unknown[f"tokens.{field_name}_per_s"] = reason
        # What is generated follows a prompt: none recorded is not none processed.
        is_recorded = (
            phase is Phase.GENERATE or not (bars.phase == Phase.GENERATE).any()
        )
        if (bars.phase < 0).any() or not bars.is_timed.all() or not is_recorded:
            unknown[f"tokens.{field_name}"] = reason
            return None
        return 0
    n = bars.n_tokens[which]
    if (n < 0).any():
        reason = "the trace does not say how many tokens the prompt has"
        unknown[f"tokens.{field_name}"] = unknown[f"tokens.{field_name}_per_s"] = reason
        return None
    return int(n.sum())


def _rate(
    bars: TokenBars,
    which: Bools,
    n: int | None,
) -> float | None:
    ticks = bars.covered(which)
    return n / ticks if n and ticks else None


def _first_token(
    bars: TokenBars,
    prompt: Bools,
    generated: Bools,
) -> int | None:
    """Return how long the first prompt takes, of a run that begins with one."""
    rows = np.flatnonzero(prompt)
    if not len(rows) or not generated.any() or rows[0] != 0:
        return None
    first = int(np.flatnonzero(generated)[0])
    before = rows[rows < first]
    return int(bars.end[before].max() - bars.start[0]) if len(before) else None


def _between(bars: TokenBars) -> float | None:
    """Return the share of the time between first and last bar that none takes."""
    timed = bars.is_timed
    if np.count_nonzero(timed) < 2:
        return None
    whole = int(bars.end[timed].max() - bars.start[timed].min())
    return 1 - bars.covered(timed) / whole if whole else None


# -- ops ---------------------------------------------------------------------


def _ops(trace: Trace, blocks: SpanBlocks, watcher: Watcher | None) -> StatTable:
    """Return the time of each op, once: of calls within calls the inner one's.

    Ranges that lie around the work of other lanes, such as those of NVTX, are left out.
    """
    mask = None
    if trace.spans.category is not None:
        is_work = lanes_where(trace.lanes, lambda spec: spec.is_work)
        mask = is_work[trace.spans.lane]
        mask = None if mask.all() or not mask.any() else mask
    table = stat_table(trace, "op", mask=mask, blocks=blocks, watcher=watcher)
    whole = table.all.self_time
    if trace.spans.category is None or not table.counts_twice[0] or not whole:
        return table
    rows = [replace(row, share=(row.self_time or 0) / whole) for row in table.rows]
    rows.sort(key=lambda row: (-(row.self_time or 0), -row.total, row.key))
    return replace(table, rows=tuple(rows))


# -- the rest ------------------------------------------------------------------


def _no_times(trace: Trace) -> str:
    if not (trace.spans.op >= 0).any():
        return "the trace records no ops"
    return "no op has a measured time; all are estimated or unfinished"


def _explain_threads(threads: ThreadTimes, unknown: dict[str, str]) -> None:
    if threads.kind is None or not threads.lanes:
        unknown["threads"] = "no thread or engine of the trace has a timed span"
    if threads.hidden_idle:
        unknown["threads.idle"] = threads.hidden_idle
    if threads.imbalance is not None:
        return
    if threads.kind is not LaneKind.THREAD or not threads.lanes:
        reason = "the trace records no threads"
    elif threads.hidden_work:
        reason = threads.hidden_work
    elif len(threads.lanes) < 2:
        reason = "one thread is recorded"
    else:
        reason = "ends are derived from the next record, so idle time cannot be seen"
    unknown["imbalance"] = reason


def _explain_weights(
    trace: Trace,
    tokens: TokenSummary,
    weights: WeightTraffic | None,
    unknown: dict[str, str],
) -> None:
    if weights is not None and weights.per_token is not None:
        return
    if "weights.bytes_per_token" in unknown:
        return
    if not len(trace.accesses.patterns) and not len(trace.accesses.loose):
        reason = "the trace does not record what ops read"
    elif weights is None:
        reason = unknown.get("tokens.generated") or "no generated token is recorded"
    elif weights.unknown:
        reason = "only some of the experts or rows that ops read are recorded"
    else:
        reason = "no read of a weight is recorded"
    unknown["weights.bytes_per_token"] = unknown["weights.gib_per_s"] = reason


def _never_touched(trace: Trace, unknown: dict[str, str]) -> int | None:
    if not len(trace.accesses.patterns) and not len(trace.accesses.loose):
        unknown["never_touched_bytes"] = "the trace does not record what ops read"
        return None
    untouched = cold(unit_heat(trace), shown_coverage(trace, None))
    if untouched.is_known:
        return untouched.cold_size
    unknown["never_touched_bytes"] = (
        "reads may be missing from the trace"
        if untouched.is_listed
        else "no model file or map lists all tensors"
    )
    return None


def _quality(trace: Trace) -> DataQuality:
    counts = np.zeros(len(Quality), np.int64)
    for piece in chunks(len(trace.spans)):
        of = quality_of(trace.spans.flags[piece])
        counts += np.bincount(of, minlength=len(Quality))
    problems = problem_counts(trace)
    shown = (one for one in trace.warnings if one.severity in problems)
    return DataQuality(counts, problems, sum(one.count for one in shown))


def _evidence(
    tokens: TokenSummary,
    ops: StatTable,
    threads: ThreadTimes,
    weights: WeightTraffic | None,
    peak: float | None,
    device: DeviceUse | None,
) -> Evidence:
    busiest = max(
        (lane for lane in threads.lanes if lane.busy is not None),
        key=lambda lane: lane.busy or 0,
        default=None,
    )
    engine = None
    if threads.kind is LaneKind.ENGINE and busiest is not None and threads.duration:
        engine = (busiest.name, (busiest.busy or 0) / threads.duration)
    waited = sum(one.waited for one in threads.last)
    first = threads.last[0] if threads.last and waited else None
    rate = None if weights is None else weights.rate
    top = ops.rows[0] if ops.rows and ops.all.timed else None
    return Evidence(
        between=tokens.between,
        slow=_slow(tokens),
        waiting=threads.waiting,
        idle=_idle(tokens, threads),
        n_threads=len(threads.lanes) if threads.kind is LaneKind.THREAD else 0,
        n_cores=threads.n_cores,
        sharing=threads.sharing,
        waited_for=None if first is None else (first.name, first.waited / waited),
        waited_op=None if first is None else first.op,
        of_peak=rate / peak if rate is not None and peak else None,
        device=device,
        host_waits=host_waits(ops),
        engine=engine,
        op=None if top is None else (top.key, top.share),
        passes=_slow(tokens, GRAPH_PASS),
    )


def _device(trace: Trace) -> DeviceUse | None:
    """Return how the busiest device is used; None where there is none."""
    if trace.spans.category is None or trace.is_partial:
        return None
    from ggscope.analysis.summary.devices import device_times  # of few traces

    devices = [one for one in device_times(trace) if one.time and one.n_kernels > 1]
    if not devices:
        return None
    busiest = max(devices, key=lambda one: one.busy)
    stream = busiest.streams[0]
    is_known = stream.idle > 2 * stream.unknown
    return DeviceUse(
        busiest.name or "device",
        busiest.busy / busiest.time,
        stream.host / stream.idle if is_known else None,
        busiest.top_kernel,
    )


def _slow(tokens: TokenSummary, noun: str = "") -> SlowBars | None:
    """Return the slow ones of generated tokens; a prompt among them would be slow.

    Parameters
    ----------
    noun : those of all bars that are this, such as graph passes without a phase.
    """
    bars = tokens.bars
    is_counted = counted_bars(bars)
    counted = bars.duration[is_counted]
    whole = int(counted.sum())
    is_generated = bars.phase[is_counted] == Phase.GENERATE
    is_asked = bars.noun == noun if noun else bool(is_generated.all())
    if tokens.median is None or not whole or not is_asked:
        return None
    duration = bars.duration[np.array(tokens.outliers, np.int64)]
    excess = float(duration.sum() - len(duration) * tokens.median)
    return SlowBars(len(duration), len(counted), excess / whole)


def _idle(tokens: TokenSummary, threads: ThreadTimes) -> float | None:
    """Return the share of the time of tokens in which threads neither work nor wait."""
    lanes, bars = threads.lanes, tokens.bars
    if threads.hidden_idle:
        return None
    if threads.kind is not LaneKind.THREAD or not lanes or not len(bars):
        return None
    if not all(lane.is_measured and lane.busy is not None for lane in lanes):
        return None
    whole = bars.covered(bars.is_timed) * len(lanes)
    used = sum((lane.busy or 0) + (lane.wait or 0) for lane in lanes)
    return max(1 - used / whole, 0.0) if whole else None
