"""Traces of an NPU simulator: timeline events as one JSON object, or one per line."""

import math

from ggscope.readers.api import Kind, Option, ReaderInfo
from ggscope.readers.partial_reading import RANGE_OPTION

HEADER_KEYS = frozenset(
    {
        "version",
        "run_metadata",
        "config_snapshot",
        "bandwidth_samples",
        "summary_metrics",
    }
)
EXCLUSIVE, INCLUSIVE = "exclusive", "inclusive"
INFO = ReaderInfo(
    "npu-json",
    "NPU simulator trace",
    (".json", ".jsonl"),
    "Timeline events of an NPU simulator as one JSON object, or one per line.",
    (
        Option(
            name="end_cycle",
            doc="exclusive (default) or inclusive: whether a span's end_cycle belongs "
            "to it",
            choices=(EXCLUSIVE, INCLUSIVE),
            default=EXCLUSIVE,
        ),
        Option(
            name="hz",
            doc="clock frequency in cycles per second, to show times",
            kind=Kind.NUMBER,
            between=(0, math.inf),
            example="1e9",
        ),
        Option(
            name="strict",
            doc="true: reject a truncated or invalid file instead of showing the "
            "part before the error",
            kind=Kind.FLAG,
            default="false",
        ),
        Option(
            name=RANGE_OPTION,
            doc=(
                "FIRST:STOP, event numbers or percentages such as 5%: read only "
                "this range"
            ),
            kind=Kind.RANGE,
        ),
    ),
    keys=("timeline_events", *sorted(HEADER_KEYS - {"version"})),
    line=r'"type"\s*:\s*"[^"]*(_EVENT|POWER_ESTIMATE)"',
)
