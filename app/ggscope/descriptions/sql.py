"""What rows of a query are of, as text: recordings are rarely all of a run."""

from ggscope.analysis.completeness.coverage import trace_coverage
from ggscope.descriptions.coverage import left_out_text
from ggscope.model.trace import (
    Severity,
    Trace,
    problem_count_text,
    problem_counts,
)


def trace_limits(trace: Trace) -> list[str]:
    """Return what a trace leaves out and how it is damaged; [] for nothing.

    What tables lack is not seen in their rows: "left out of the trace: only 1 of 5
    graphs", "2 data losses, 1 notice (table problems)".
    """
    lines = []
    if left_out := left_out_text(trace_coverage(trace)):
        lines.append(f"left out of the trace: {left_out}")
    counts = problem_counts(trace)
    problems = problem_count_text(
        {severity: n for severity, n in counts.items() if severity > Severity.INFO}
    )
    if problems:
        lines.append(f"{problems} (table problems)")
    return lines
