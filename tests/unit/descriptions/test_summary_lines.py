"""What the lines of a summary show of prompts, problems, devices and claims."""

from dataclasses import replace

import numpy as np
import pytest

from builders import finished, token_trace
from ggscope.analysis.summary.bottleneck import Cause
from ggscope.analysis.summary.summary import summary
from ggscope.descriptions.summary import (
    SummaryLine,
    Target,
    bottleneck_line,
    bottleneck_name,
    bottleneck_text,
    summary_sections,
)
from ggscope.exporters.summary_json import summary_json
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Phase
from ggscope.model.trace import (
    LaneKind,
    OpTable,
    ReadWarning,
    Severity,
    Trace,
    problem_count_text,
    problem_counts,
)


def lines_of(trace: Trace, title: str) -> list[SummaryLine]:
    sections = {s.title: s for s in summary_sections(trace, summary(trace))}
    return [line for line in sections[title].lines if line.value]


def of_phase(trace: Trace, phase: Phase) -> Trace:
    phases = np.full(len(trace.spans), phase, np.int8)
    return replace(trace, spans=replace(trace.spans, phase=phases))


def test_prompts_alone_lead_with_the_prompt_and_never_with_0_tokens() -> None:
    trace = of_phase(token_trace([(0, 10, 5), (10, 25, 5)]), Phase.PROMPT)

    first, second, *others = lines_of(trace, "Tokens")

    assert (first.title, first.value) == ("prompt", "25 ns")
    assert (second.title, second.value) == ("generated", "none")
    assert {"median prompt pass", "slowest prompt pass"} <= {x.title for x in others}


def test_generated_tokens_lead_where_there_are_any() -> None:
    trace = of_phase(token_trace([(0, 10, 5), (10, 25, 5)]), Phase.GENERATE)

    first, *others = lines_of(trace, "Tokens")

    assert first.title == "generated"
    assert first.value.endswith("tokens/s")
    assert "median token" in {line.title for line in others}


PROBLEMS = {
    "none": ((), {}),
    "one kind, often": (((Severity.NOTICE, 7),), {Severity.NOTICE: 1}),
    "notes and worse": (
        ((Severity.INFO, 3), (Severity.NOTICE, 1), (Severity.ERROR, 2)),
        {Severity.ERROR: 1, Severity.NOTICE: 1},
    ),
    "notes alone": (((Severity.INFO, 3), (Severity.INFO, 1)), {Severity.INFO: 2}),
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_problems_are_counted_by_kind_as_everywhere(name: str) -> None:
    problems, expected = PROBLEMS[name]
    warnings = tuple(
        ReadWarning(severity, f"code_{i}", "text", n)
        for i, (severity, n) in enumerate(problems)
    )
    trace = replace(token_trace([(0, 10, 5)]), warnings=warnings)

    (line,) = (x for x in lines_of(trace, "Data") if x.title == "problems")

    assert problem_counts(trace) == expected
    assert line.value == (problem_count_text(expected) or "none")
    shown = sum(n for severity, n in problems if severity in expected)
    assert (f"{shown} occurrences" in line.remark) is (shown > sum(expected.values()))
    assert line.target == (Target(view="problems") if problems else None)
    quality = summary_json(trace, summary(trace))["quality"]["problems"]
    assert quality == {
        one.word: sum(severity is one for severity, _ in problems) for one in Severity
    }


def test_a_cause_is_said_once() -> None:
    """No single cause: the sentence names what takes most, and not the cause again."""
    builder = TraceBuilder()
    builder.ops = OpTable("t", ("A", "B", "C", "D"), "spelled")
    builder.add_lane("thread", LaneKind.THREAD)
    start = np.arange(4, dtype=np.int64) * 10
    builder.add_spans(
        start=start, end=start + 5, lane=np.zeros(4, np.int32),
        op=np.arange(4, dtype=np.int16),
    )  # fmt: skip

    facts = summary(finished(builder))

    assert facts.cause is Cause.SPREAD
    line, name = bottleneck_line(facts), bottleneck_name(facts)
    assert name is not None
    assert line.lower().count(name) == 1
    assert line.endswith(bottleneck_text(facts))


def device_trace() -> Trace:
    """Return a stream of kernels a, a, b with pauses, and no calls."""
    builder = TraceBuilder()
    builder.ops = OpTable("t", ("a", "b"), "spelled")
    builder.add_lane("stream 7", LaneKind.ENGINE, ("GPU 0",))
    (kernel,) = builder.strings.intern_many(["kernel"]).tolist()
    start = np.array([0, 100, 200], np.int64)
    builder.add_spans(
        start=start, end=start + np.array([10, 10, 5]), lane=np.zeros(3, np.int32),
        op=np.array([0, 0, 1], np.int16), category=np.full(3, kernel, np.int32),
    )  # fmt: skip
    return finished(builder)


def test_idle_time_of_a_stream_without_recorded_launches_has_no_causes() -> None:
    trace = device_trace()

    facts = summary(trace)

    (line,) = (x for x in lines_of(trace, "Devices") if x.title.endswith("idle"))
    assert "%" not in line.remark
    device = facts.evidence.device
    assert device is not None
    assert device.host is None
    assert device.kernel == ("a", pytest.approx(20 / 25))
    assert facts.cause is Cause.DEVICE_IDLE
    assert bottleneck_line(facts).count("GPU 0") == 1
    (stream,) = summary_json(trace, facts)["devices"][0]["streams"]
    assert (stream["host_ns"], stream["launch_ns"]) == (None, None)
    assert stream["unknown_ns"] == stream["idle_ns"] == 180


def test_a_kernel_that_takes_most_is_named_in_the_sentence() -> None:
    trace = device_trace()
    spans = trace.spans
    busy = replace(
        trace, spans=replace(spans, end=spans.start + np.array([100, 90, 50]))
    )

    facts = summary(busy)

    assert facts.cause is Cause.DEVICE
    assert "; a takes 79.2 %" in bottleneck_line(facts)
