"""What BigMoeOnEdge prints at the end of a run: sums, no times.

Lines of ``key: values`` and ``key=value``; see ``docs/telemetry.md`` there.
"""

import re

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Phase, SpanFlag
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.bigmoe import INFO
from ggscope.readers.common.file_facts import file_trace, refuse_larger
from ggscope.readers.source import Source

_MAX_BYTES = 1 << 20
_MAX_VALUE = 512
_LINE = re.compile(r"^([a-z][\w-]*)(?:=|: )(\S.*)$")
_MARK = re.compile(rb"^moe-stream: read ", re.MULTILINE)
_PARTS = (
    ("model load", "prefill", re.compile(r"model load (\d+(?:\.\d+)?) s"), None),
    ("prompt", "prefill", re.compile(r"tokens, (\d+(?:\.\d+)?) s "), Phase.PROMPT),
    (
        "generation",
        "generation",
        re.compile(r"^(\d+) tokens, (\d+(?:\.\d+)?) s/token"),
        Phase.GENERATE,
    ),
)
"""Name, line and duration of what a run consists of, in order."""
_MAX_S = 1e7
_DERIVED = int(SpanFlag.INFERRED_START | SpanFlag.INFERRED_END)


def is_summary(head: bytes) -> bool:
    """Return whether a text is such a summary, by one of its lines."""
    return _MARK.search(head) is not None


def summary_trace(source: Source) -> Trace:
    """Return the run as spans one behind the other, and all lines as facts.

    Raises
    ------
    CorruptError
        If no line is one of a summary.
    """
    refuse_larger(source, _MAX_BYTES, "Is this the output of one run?")
    text = source.head(source.size).decode("utf-8-sig", "replace")
    matches = [_LINE.match(line.rstrip()) for line in text.splitlines()]
    facts = {m[1]: m[2][:_MAX_VALUE] for m in matches if m is not None}
    if not facts:
        raise CorruptError("no line is one of a summary.", offset=0)
    builder = TraceBuilder()
    names, ends, phases = [], [0], []
    for name, key, pattern, phase in _PARTS:
        match = pattern.search(facts.get(key, ""))
        if match is None:
            continue
        seconds = float(np.prod([float(part) for part in match.groups()]))
        if not 0 <= seconds < _MAX_S:
            continue
        names.append(name)
        ends.append(ends[-1] + round(seconds * 1e9))
        phases.append(-1 if phase is None else int(phase))
    if names:
        builder.add_spans(
            start=np.array(ends[:-1], np.int64),
            end=np.array(ends[1:], np.int64),
            lane=builder.add_lane("run", LaneKind.COMMAND),
            name=builder.strings.intern_many(names),
            flags=np.full(len(names), _DERIVED, np.uint16),
            phase=np.array(phases, np.int8),
        )
    n = len(facts)
    return file_trace(
        builder, INFO, source, n, {"rows": n}, version="summary", producer=facts
    )
