"""The summary of a run as texts: a sentence on what limits it, and sections of lines.

Window, command line and report show the same lines; each may lead to what it is of.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ggscope.analysis.model_tensors import is_model_alone
from ggscope.analysis.requests import RequestShares
from ggscope.analysis.summary.bars import GRAPH_PASS, bar_text
from ggscope.analysis.summary.bottleneck import Cause, DeviceUse, SlowBars
from ggscope.analysis.summary.devices import StreamTimes
from ggscope.analysis.summary.frames import FrameShare
from ggscope.analysis.summary.host_waits import (
    HostWaits,
    host_waits_by_lane,
    is_host_wait,
)
from ggscope.analysis.summary.summary import Summary
from ggscope.analysis.summary.thread_estimate import ThreadEstimate
from ggscope.descriptions.short_names import name_in_sentence
from ggscope.descriptions.tensors import (
    UNKNOWN_TYPE,
    ModelShare,
    bits_text,
    element_text,
    header_facts,
    model_shares,
    model_total,
)
from ggscope.descriptions.threads import other_count_text, sharing_text
from ggscope.model.selection import By
from ggscope.model.tables import Phase, Quality
from ggscope.model.trace import Trace, problem_count_text
from ggscope.model.units import (
    NOT_AVAILABLE,
    TimeRange,
    format_byte_rate,
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_number,
    format_share,
)

TOKENS, PASSES = "Tokens", "Graph passes"
"""Titles of the section of bars."""
N_OPS, N_LANES = 3, 16
"""Lines of ops and threads, before "and so many more"."""

_FIRST_TO_LAST = "the time from its first to its last kernel or copy"
_MODEL_PARTS: tuple[tuple[str, Literal["type", "component"]], ...] = (
    ("Types", "type"),
    ("Components", "component"),
)
_MOST_SHARE, _NAMED_KERNEL = 0.5, 0.2
"""Share from which one of several is named; of the kernels of a busy device."""
_OF_DEVICES = (Cause.DEVICE, Cause.HOST, Cause.DEVICE_IDLE)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a line of the summary leads: one of these.

    Attributes
    ----------
    time : a range of the timeline.
    span : a span.
    group : a row of the statistics: by what, and its key.
    view : id of a view.
    """

    time: TimeRange | None = None
    span: int | None = None
    group: tuple[By, str] | None = None
    view: str = ""


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """One line: ``median token  7.1 ms  (14 tokens)``.

    Attributes
    ----------
    remark : smaller print behind the value.
    reason : why there is no value; "" where there is.
    share : 0..1 for a bar behind the value; None = no bar.
    """

    title: str
    value: str
    remark: str = ""
    reason: str = ""
    share: float | None = None
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class SummarySection:
    """Lines under a heading; the first line is the big figure of the section."""

    title: str
    lines: tuple[SummaryLine, ...]


def bottleneck_name(facts: Summary) -> str | None:
    """Return what limits the run: an op, an engine, or a cause; None = not known."""
    seen = facts.evidence
    if facts.cause is Cause.OP and seen.op is not None:
        return seen.op[0]
    if facts.cause is Cause.ENGINE and seen.engine is not None:
        return seen.engine[0]
    if facts.cause is Cause.DEVICE and seen.device is not None:
        return seen.device.name
    if facts.cause is Cause.TOKEN_PART:
        return seen.parts[0][0]
    return None if facts.cause is None else facts.cause.value


def bottleneck_text(facts: Summary, *, under_name: bool = False) -> str:
    """Return the evidence of what limits the run, in a sentence.

    Parameters
    ----------
    under_name : whether `bottleneck_name` stands right above: a sentence that would
        begin with it goes on from there.
    """
    text, name = _evidence_text(facts), bottleneck_name(facts)
    if not under_name or name is None or not text.startswith(f"{name} "):
        return text
    rest = text.removeprefix(f"{name} ").removeprefix("is ")
    return f"{rest[:1].upper()}{rest[1:]}"


def bottleneck_line(facts: Summary) -> str:
    """Return what limits the run and the evidence as one line, each said once.

    "Idle threads. In 67.2 % of the time …", "MUL_MAT takes 69.3 % of …".
    """
    text, name = _evidence_text(facts), bottleneck_name(facts)
    if name is None or name in text:
        return text
    return f"{name[:1].upper()}{name[1:]}. {text}"


def headline(sections: tuple[SummarySection, ...]) -> str:
    """Return the big figure of tokens, "140.9 tokens/s generated"; "" without any."""
    for section in sections:
        if section.title in (TOKENS, PASSES):
            line = next(line for line in section.lines if line.value)
            return f"{line.value} {line.title}"
    return ""


def _evidence_text(facts: Summary) -> str:
    seen, cause = facts.evidence, facts.cause
    if cause is None:
        return f"Not known: {facts.unknown['bottleneck']}."
    if cause is Cause.BETWEEN_TOKENS:
        between = format_share(seen.between or 0)
        noun = facts.tokens.bars.noun
        return (
            f"Between the first and the last {noun}, none runs {between} of the time."
        )
    if cause is Cause.SLOW_TOKENS and seen.slow is not None:
        return f"{_slow_text(facts, seen.slow)}."
    if cause is Cause.SLOW_PASSES and seen.passes is not None:
        return (
            f"{_slow_text(facts, seen.passes)}; ops are not recorded, and a pass may "
            "be of a prompt."
        )
    if cause in (Cause.WAITING, Cause.SHARED_CORES):
        waiting = format_share(seen.waiting or 0)
        threads = format_counted(seen.n_threads, "thread")
        verb = "spends" if seen.n_threads == 1 else "spend"
        text = f"{waiting} of what {threads} {verb} on work and waits is waiting"
        if cause is Cause.SHARED_CORES:
            cores = format_counted(seen.n_cores, "core")
            if seen.n_cores < seen.n_threads or seen.sharing is None:
                return f"{text}; they were seen on {cores} only."
            return f"{text}; they were seen on {cores}, {sharing_text(seen.sharing)}."
        if seen.waited_for is not None:
            name, part = seen.waited_for
            text += f", {format_share(part)} of it for {name}"
            op, share = seen.waited_op or ("", 0.0)
            if share >= _MOST_SHARE:
                text += f" ({format_share(share)} of that at {op})"
        return f"{text}."
    if cause is Cause.IDLE_THREADS:
        idle = format_share(seen.idle or 0)
        noun = facts.tokens.bars.noun
        return (
            f"Threads neither work nor wait in {idle} of the time of {_plural(noun)}."
        )
    if cause is Cause.BANDWIDTH:
        of_peak = format_share(seen.of_peak or 0)
        return f"Weights are read at {of_peak} of the peak memory bandwidth."
    if cause in _OF_DEVICES and seen.device is not None:
        return _device_text(seen.device, cause)
    if cause is Cause.HOST_WAITS and seen.host_waits is not None:
        return _host_waits_text(seen.host_waits, seen.device)
    if seen.engine is not None:
        name, busy = seen.engine
        return f"{name} is busy {format_share(busy)} of the time, most of all engines."
    if seen.op is None and seen.parts:
        (name, share), *others = seen.parts
        rest = "".join(f", {part} {format_share(n)}" for part, n in others)
        noun = _plural(facts.tokens.bars.noun)
        return f"{name} takes {format_share(share)} of the time of {noun}{rest}."
    if seen.op is None:
        assert seen.requests is not None
        return _requests_text(seen.requests, cause)
    name, share = seen.op
    text = f"{name} takes {format_share(share)} of the time of recorded ops"
    if facts.frames is not None:
        text = f"{name} takes {format_share(share)} of the profile (self)"
    elif facts.ops.all.quality == Quality.DERIVED.word:
        text += " (by derived times)"
    if cause is Cause.OP:
        return f"{text}."
    return f"{text}, more than any other {'op' if facts.frames is None else 'frame'}."


def _requests_text(shares: RequestShares, cause: Cause) -> str:
    parts = {
        Cause.GENERATION: ("generation", shares.generated),
        Cause.PROMPT: ("prompt processing", shares.prompt),
        Cause.QUEUE: ("waiting for the prompt to start", shares.queued),
    }
    known = [(name, part) for name, part in parts.values() if part is not None]
    known.sort(key=lambda part: -part[1])
    listed = ", ".join(f"{name} {format_share(part)}" for name, part in known)
    text = f"Time of {format_counted(shares.n, 'request')}: {listed}"
    if shares.reprocessed:
        text += (
            f"; {format_share(shares.reprocessed)} of the computed prompt tokens had "
            "been in the cache"
        )
    return f"{text}."


def _device_text(device: DeviceUse, cause: Cause) -> str:
    kernel, share = device.kernel or ("", 0.0)
    kernel = name_in_sentence(kernel)
    most = f"{kernel} takes {format_share(share)} of the time of its kernels"
    if cause is Cause.DEVICE:
        text = f"{device.name} is busy {format_share(device.busy)} of {_FIRST_TO_LAST}"
        return f"{text}; {most}." if share >= _NAMED_KERNEL else f"{text}."
    idle = format_share(1 - device.busy)
    text = f"{device.name} is idle {idle} of {_FIRST_TO_LAST}"
    if cause is Cause.HOST:
        host = format_share(device.host or 0)
        return (
            f"{text}; {host} of the gaps of its busiest stream passed before the next "
            "launch."
        )
    if device.host is None:
        text += "; what it waits for is not recorded"
    return f"{text}. {most}." if share >= _MOST_SHARE else f"{text}."


def _host_waits_text(waits: HostWaits, device: DeviceUse | None) -> str:
    name, share = waits.longest
    text = f"{name} takes {format_share(share)} of the time of recorded ops"
    if waits.n_names > 1:
        text = (
            f"Such calls take {format_share(waits.share)} of the time of recorded "
            f"ops, {name} {format_share(share)}"
        )
    if device is None:
        return f"{text}; what the GPU does meanwhile is not recorded."
    busy = format_share(device.busy)
    return f"{text}; {device.name} is busy {busy} of {_FIRST_TO_LAST}."


def _slow_text(facts: Summary, slow: SlowBars) -> str:
    noun = facts.tokens.bars.noun
    verb = "takes" if slow.n == 1 else "take"
    some = f"{format_count(slow.n)} of {format_count(slow.of)} {_plural(noun)}"
    excess = format_share(slow.excess)
    return f"{some} {verb} over twice the median; the time beyond it is {excess} of all"


def _plural(noun: str) -> str:
    return f"{noun}{'es' if noun.endswith(('s', 'h')) else 's'}"


def summary_sections(trace: Trace, facts: Summary) -> tuple[SummarySection, ...]:
    """Return the sections of the summary, those without any value left out."""
    if is_model_alone(trace):
        return (
            *_model_sections(trace),
            SummarySection("Data", (*_checks(trace, facts),)),
        )
    sections = (
        SummarySection(
            PASSES if facts.tokens.bars.noun == GRAPH_PASS else TOKENS,
            tuple(_tokens(trace, facts)),
        ),
        SummarySection("Ops", tuple(_ops(trace, facts)))
        if facts.frames is None
        else SummarySection("Frames", tuple(_frames(trace, facts.frames))),
        SummarySection(
            "Threads" if facts.evidence.engine is None else "Engines",
            tuple(_threads(trace, facts)),
        ),
        SummarySection("Devices", tuple(_devices(trace))),
        SummarySection("Weights", tuple(_weights(trace, facts))),
        SummarySection("Requests", tuple(_requests(trace))),
        SummarySection("Data", tuple(_data(trace, facts))),
    )
    return tuple(part for part in sections if any(line.value for line in part.lines))


def _model_sections(trace: Trace) -> Iterator[SummarySection]:
    """Yield what a model is made of, where no run of it is recorded."""
    total = model_total(trace)
    bits = float(total.bits[0])
    remarks = [f"{format_counted(int(total.n[0]), 'tensor')}"]
    if n := int(total.elements[0]):
        remarks.append(f"{element_text(n)} elements")
    if not math.isnan(bits):
        remarks.append(f"{bits_text(bits)} bits each")
    size = format_bytes(int(total.size[0]))
    lines = [SummaryLine("size of tensors", size, ", ".join(remarks))]
    if unsized := int(total.n_unsized[0]):
        lines.append(SummaryLine("unknown size", format_counted(unsized, "tensor")))
    lines += [SummaryLine(fact.label, fact.value) for fact in header_facts(trace)]
    yield SummarySection("Model", tuple(lines))
    for title, by in _MODEL_PARTS:
        parts = model_shares(trace, by)
        if any(part.name != UNKNOWN_TYPE for part in parts):
            yield SummarySection(title, tuple(map(_model_part, parts[:N_LANES])))


def _model_part(part: ModelShare) -> SummaryLine:
    remark = f"{format_bytes(part.size)}, {format_counted(part.n, 'tensor')}"
    share = NOT_AVAILABLE if part.share is None else format_share(part.share)
    return SummaryLine(part.name, share, remark, share=part.share)


def _devices(trace: Trace) -> Iterator[SummaryLine]:
    """Yield what the streams of devices do, and what they wait for."""
    if trace.spans.category is None or trace.is_partial:
        return
    from ggscope.analysis.summary.devices import device_times  # of few traces

    unit = trace.clock.unit
    for device in device_times(trace)[:N_LANES]:
        parts = [
            f"of {format_duration(device.time, unit)} from first to last",
            f"kernels {format_duration(device.kernels, unit)}",
        ]
        if device.n_copies:
            hidden = device.overlap / device.copies if device.copies else 0.0
            parts.append(
                f"copies {format_duration(device.copies, unit)}, "
                f"{format_share(hidden)} of it under kernels"
            )
        busy = format_share(device.busy / device.time if device.time else 1.0)
        yield SummaryLine(device.name or "device", f"{busy} busy", "; ".join(parts))
        if device.launch_delay is not None:
            yield SummaryLine(
                "launch delay",
                format_duration(round(device.launch_delay), unit),
                "median, from a call to its kernel",
            )
        for stream in device.streams[:N_LANES]:
            if stream.idle:
                idle = format_duration(stream.idle, unit)
                yield SummaryLine(f"{stream.name} idle", idle, _idle_remark(stream))


def _idle_remark(stream: StreamTimes) -> str:
    """Return what a stream waited for while it was idle, as far as that is recorded."""
    if not stream.has_calls:
        return "launches are not recorded"
    shares = (
        ("host", stream.host),
        ("launch", stream.launch),
        ("other", stream.other - stream.unknown),
        ("launch not recorded", stream.unknown),
    )
    return ", ".join(
        f"{word} {format_share(part / stream.idle)}"
        for word, part in shares
        if part or word != "launch not recorded"
    )


def _requests(trace: Trace) -> Iterator[SummaryLine]:
    """Yield the requests in the log of a server."""
    if trace.log is None or not len(trace.log.requests):
        return
    from ggscope.analysis.requests import percentiles, request_times  # of logs alone

    requests = trace.log.requests
    times = request_times(requests)
    yield SummaryLine("requests", format_count(len(requests)))
    for title, values, unit in (
        ("tokens/s of a request", times.generated_per_s, ""),
        ("to the first token", times.first_token_ms, " ms"),
        ("wait in the slot", times.queued_ms, " ms"),
    ):
        if latencies := percentiles(values):
            remark = f"p99 {latencies[99]:,.1f}{unit}"
            yield SummaryLine(title, f"{latencies[50]:,.1f}{unit}", f"median; {remark}")
    again = requests.n_reprocessed
    if (n := int(again[again > 0].sum())) or requests.is_forced.any():
        forced = format_count(int(requests.is_forced.sum()))
        yield SummaryLine(
            "computed again",
            f"{format_count(n)} tokens",
            f"the whole prompt {forced}×" if requests.is_forced.any() else "",
        )


def unknown_lines(facts: Summary) -> list[str]:
    """Return what the trace does not state: reason first, then what it concerns."""
    by_reason: dict[str, list[str]] = {}
    if len(facts.unknown) > 1 and len({*facts.unknown.values()}) == 1:
        return [f"Speed, ops and threads: {facts.unknown['bottleneck']}"]
    for name, reason in facts.unknown.items():
        by_reason.setdefault(reason, []).append(_TITLES[name])
    return [f"{', '.join(names)}: {reason}" for reason, names in by_reason.items()]


_TITLES = {
    "tokens.prompt": "prompt tokens",
    "tokens.generated": "generated tokens",
    "tokens.prompt_per_s": "prompt tokens/s",
    "tokens.generated_per_s": "generated tokens/s",
    "tokens.first_token_ms": "time to first token",
    "tokens.median_ms": "median token",
    "tokens.slowest": "slowest token",
    "ops": "times of ops",
    "threads": "thread times",
    "threads.idle": "idle time",
    "imbalance": "imbalance",
    "weights.bytes_per_token": "weights per token",
    "weights.gib_per_s": "weight bandwidth",
    "weights.peak_gib_per_s": "peak bandwidth",
    "never_touched_bytes": "never read",
    "bottleneck": "bottleneck",
}


def _unknown(facts: Summary, name: str) -> SummaryLine:
    reason = facts.unknown.get(name, "not recorded")
    return SummaryLine(_TITLES[name], "", reason=reason)


def _per_second(trace: Trace, per_tick: float) -> str:
    hz = trace.clock.per_s
    if not hz:
        return f"{format_number(1e6 * per_tick)} tokens/Mcyc"
    return f"{format_number(per_tick * hz)} tokens/s"


def _tokens(trace: Trace, facts: Summary) -> Iterator[SummaryLine]:
    tokens, unit = facts.tokens, trace.clock.unit
    bars = tokens.bars
    yield from _speeds(trace, facts)
    if tokens.first_token is not None:
        time = TimeRange(
            int(bars.start[0]), int(bars.start[0]) + max(tokens.first_token, 1)
        )
        yield SummaryLine(
            "time to first token",
            format_duration(tokens.first_token, unit),
            target=Target(time=time),
        )
    noun = _bar_noun(facts)
    if tokens.median is not None:
        yield SummaryLine(f"median {noun}", format_duration(tokens.median, unit))
    if tokens.slowest is not None:
        row = tokens.slowest
        slow = len(tokens.outliers)
        yield SummaryLine(
            f"slowest {noun}",
            format_duration(int(bars.duration[row]), unit),
            bar_text(trace, bars, row)
            + (f"; {format_count(slow)} over twice the median" if slow else ""),
            target=Target(span=int(bars.span[row]), time=bars.time(row)),
        )
    if tokens.between is not None:
        yield SummaryLine(
            f"between {_plural(noun)}",
            format_share(tokens.between),
            "of the time",
        )


def _speeds(trace: Trace, facts: Summary) -> Iterator[SummaryLine]:
    """Yield tokens/s of generated tokens and prompts; the known one leads."""
    tokens, bars = facts.tokens, facts.tokens.bars
    generated = _speed(trace, facts, "generated")
    prompt = _speed(trace, facts, "prompt")
    time = bars.covered(bars.of_phase(Phase.PROMPT))
    if time and not tokens.prompt_per_tick and tokens.first_token is None:
        n = int(np.count_nonzero(bars.phase == Phase.PROMPT))
        prompt = SummaryLine(
            "prompt",
            format_duration(time, trace.clock.unit),
            f"{format_count(n)} pass{'' if n == 1 else 'es'}, "
            "number of tokens not recorded",
        )
    if tokens.generated == 0:
        yield prompt
        yield SummaryLine("generated", "none", "in this trace")
    else:
        yield generated
        yield prompt


def _speed(
    trace: Trace, facts: Summary, name: Literal["generated", "prompt"]
) -> SummaryLine:
    tokens = facts.tokens
    n, rate = tokens.generated, tokens.generated_per_tick
    if name == "prompt":
        n, rate = tokens.prompt, tokens.prompt_per_tick
    if n is None and rate is not None:
        return SummaryLine(name, _per_second(trace, rate), "of recorded tokens")
    if n is None:
        return _unknown(facts, f"tokens.{name}")
    count = format_counted(n, "token") if n else "none"
    if rate is None:
        return SummaryLine(name, count)
    return SummaryLine(name, _per_second(trace, rate), count)


def _bar_noun(facts: Summary) -> str:
    """Return what median and slowest are of: tokens, prompt passes, graph passes."""
    bars = facts.tokens.bars
    if bars.noun == GRAPH_PASS:
        return bars.noun
    is_prompt = bars.phase[bars.is_timed] == Phase.PROMPT
    return "prompt pass" if len(is_prompt) and is_prompt.all() else "token"


def _ops(trace: Trace, facts: Summary) -> Iterator[SummaryLine]:
    if "ops" in facts.unknown:
        yield _unknown(facts, "ops")
        return
    unit, hz = trace.clock.unit, trace.clock.hz
    timed = [row for row in facts.ops.rows if row.timed]
    is_self = trace.spans.category is not None and facts.ops.counts_twice[0]
    for row in timed[:N_OPS]:
        remark = format_duration(row.total, unit)
        if is_self:
            remark = f"{format_duration(row.self_time or 0, unit)} self"
        if row.rate is not None:
            remark += f", {format_byte_rate(row.rate, unit, hz)}"
        if is_host_wait(row.key):
            remark += ", host waits"
        yield SummaryLine(
            row.key,
            format_share(row.share),
            remark,
            share=row.share,
            target=Target(group=("op", row.key)),
        )
    if more := timed[N_OPS:]:
        share = sum(row.share for row in more)
        yield SummaryLine(
            format_counted(len(more), "other op"), format_share(share), share=share
        )


def _frames(trace: Trace, frames: tuple[FrameShare, ...]) -> Iterator[SummaryLine]:
    """Yield in which frames the samples of a profile are."""
    for frame in frames[:N_OPS]:
        yield SummaryLine(
            frame.name,
            format_share(frame.share),
            f"{format_duration(frame.own, trace.clock.unit)} in itself",
            share=frame.share,
            target=Target(group=("op", frame.name)),
        )
    if more := frames[N_OPS:]:
        share = sum(frame.share for frame in more)
        yield SummaryLine(
            format_counted(len(more), "other frame"), format_share(share), share=share
        )


def _threads(trace: Trace, facts: Summary) -> Iterator[SummaryLine]:
    threads = facts.threads
    if not threads.lanes or not threads.duration:
        yield _unknown(facts, "threads")
        return
    by: By = "thread" if facts.evidence.engine is None else "engine"
    # The first one is the big figure: the busiest, and so with those that are listed.
    lanes = sorted(threads.lanes, key=lambda lane: -(lane.busy or 0))[:N_LANES]
    waits = host_waits_by_lane(trace)
    for lane in lanes:
        if lane.busy is None:
            continue
        busy = lane.busy / threads.duration
        prefix = "≥ " if threads.hidden_idle else ""
        parts = []
        if lane.wait is not None:
            parts.append(f"waits {format_share(lane.wait / threads.duration)}")
        if lane.name in waits:
            share = format_share(waits[lane.name] / threads.duration)
            parts.append(f"waits for the GPU {share}")
        if lane.idle is not None and lane.is_measured:
            parts.append(f"idle {format_share(lane.idle / threads.duration)}")
        if not lane.is_measured:
            parts.append("ends are derived")
        yield SummaryLine(
            lane.name,
            f"{prefix}{format_share(busy)} busy",
            ", ".join(parts),
            share=busy,
            target=Target(group=(by, lane.name)),
        )
    if len(threads.lanes) > N_LANES:
        yield SummaryLine(
            f"{format_count(len(threads.lanes) - N_LANES)} more", "not listed"
        )
    if threads.imbalance is not None:
        yield SummaryLine(
            "imbalance", format_share(threads.imbalance), "busiest over mean"
        )
    if threads.last:
        last = threads.last[0]
        yield SummaryLine(
            "waited for most",
            last.name,
            f"last at {format_count(last.n_last)} of "
            f"{format_count(threads.n_barriers or 0)} barriers",
        )
    if isinstance(threads.estimate, ThreadEstimate):
        for other in (threads.estimate.fewer, threads.estimate.more):
            yield SummaryLine(
                f"with {format_counted(other.n_threads, 'thread')}",
                other_count_text(other),
                "of the time of ops, estimated",
            )


def _weights(trace: Trace, facts: Summary) -> Iterator[SummaryLine]:
    weights, unit, hz = facts.weights, trace.clock.unit, trace.clock.hz
    if weights is None or not weights.n_tokens or not weights.bytes:
        yield _unknown(facts, "weights.bytes_per_token")
    elif weights.per_token is None or weights.rate is None:
        weight_bytes = format_bytes(weights.bytes / weights.n_tokens)
        bytes_per_token = format_bytes(
            (weights.bytes + weights.unknown) / weights.n_tokens
        )
        yield SummaryLine(
            "read per token", f"at least {weight_bytes}", f"at most {bytes_per_token}"
        )
    else:
        rate = format_byte_rate(weights.rate, unit, hz)
        if facts.evidence.of_peak is not None:
            rate += f" ({format_share(facts.evidence.of_peak)} of peak)"
        yield SummaryLine("read per token", format_bytes(weights.per_token), rate)
    if facts.never_touched is None:
        yield _unknown(facts, "never_touched_bytes")
    else:
        yield SummaryLine("never read", format_bytes(facts.never_touched))


def _data(trace: Trace, facts: Summary) -> Iterator[SummaryLine]:
    spans = facts.quality.spans.tolist()
    counts = [
        f"{format_count(n)} {quality.word}"
        for quality, n in zip(Quality, spans, strict=True)
        if n
    ]
    yield SummaryLine("spans", ", ".join(counts) or "none")
    yield from _checks(trace, facts)


def _checks(trace: Trace, facts: Summary) -> Iterator[SummaryLine]:
    """Yield the problems of the files, and how many of their claims are true."""
    problems = facts.quality.problems
    n, occurrences = sum(problems.values()), facts.quality.occurrences
    yield SummaryLine(
        "problems",
        problem_count_text(problems) or "none",
        f"{format_count(occurrences)} occurrences" if occurrences > n else "",
        target=Target(view="problems") if n else None,
    )
    checked = [figure for _, figure in trace.stated_figures()]
    if checked:
        wrong = sum(figure.agrees is False for figure in checked)
        right = sum(figure.agrees is True for figure in checked)
        n_unknown = len(checked) - wrong - right
        parts = ((wrong, "wrong"), (n_unknown, "not checkable"))
        remark = ", ".join(f"{format_count(n)} {text}" for n, text in parts if n)
        value = f"{format_count(right)} of {format_count(right + wrong)} match"
        if not right + wrong:
            value, remark = remark, ""
        yield SummaryLine("metadata check", value, remark)
