"""Backend buffers: when they were allocated and released, and what they hold."""

from ggscope.readers.api import ReaderInfo

EVENTS_INFO = ReaderInfo(
    "buffer-stats",
    "Buffer events (JSON lines)",
    (".jsonl", ".json"),
    "Allocations and releases of backend buffers, one per line, as the tensor tracer "
    "prints them.",
    role="buffers",
    keys=("buffer_id",),
)
TIMELINE_INFO = ReaderInfo(
    "buffer-timeline",
    "Buffer timeline (JSON)",
    (".json",),
    "Backend buffers and their allocations over time, as the tensor tracer's tools "
    "export them.",
    role="buffers",
    keys=("buffers",),
)
