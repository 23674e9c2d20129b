"""What lies on lanes of stacks, as plain values."""

from ggscope.model.trace import Trace

Frames = tuple[str, ...]


def frames_of(trace: Trace, lane: int) -> list[tuple[int, int, Frames]]:
    """Return begin, end and frames from the root of each span of a lane, sorted."""
    spans, opened, items = trace.spans, list[tuple[int, Frames]](), []
    for i in range(len(spans)):
        if spans.lane[i] != lane:
            continue
        start, end = int(spans.start[i]), int(spans.end[i])
        while opened and opened[-1][0] <= start and opened[-1][0] < max(end, start + 1):
            opened.pop()
        around = opened[-1][1] if opened else ()
        frames = (*around, trace.op_name(int(spans.op[i])))
        opened.append((end, frames))
        items.append((start, end, frames))
    return sorted(items)


def weights_of(trace: Trace, lane: int) -> dict[Frames, int]:
    """Return how long the span of each stack is; no stack has two."""
    result = frames_of(trace, lane)
    weights = {frames: end - start for start, end, frames in result}
    assert len(weights) == len(result)
    return weights


def own_of(trace: Trace, lane: int) -> dict[Frames, int]:
    """Return what each stack weighs without what lies within."""
    whole = weights_of(trace, lane)
    own = dict(whole)
    for frames, weight in whole.items():
        if frames[:-1]:
            own[frames[:-1]] -= weight
    return {frames: weight for frames, weight in own.items() if weight}


def problems(trace: Trace) -> dict[str, int]:
    """Return how often each problem of a trace is, by code."""
    return {warning.code: warning.count for warning in trace.warnings}
