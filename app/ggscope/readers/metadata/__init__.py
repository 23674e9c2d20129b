"""What a tracer says of a run beside its records: ``trace_metadata.json``."""

from ggscope.readers.api import METADATA, ReaderInfo

INFO = ReaderInfo(
    "trace-metadata",
    "Metadata of a trace",
    (".json",),
    "Metadata of a run, written by the tracer as JSON with any keys.",
    role=METADATA,
    names=("trace_metadata.json",),
)
