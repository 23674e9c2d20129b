"""What a tracer says of a run beside its records: ``trace_metadata.json``."""

from ggscope.readers.api import METADATA, ReaderInfo

INFO = ReaderInfo(
    "trace-metadata",
    "Metadata of a trace",
    (".json",),
    "What a tracer says of a run beside its records, in JSON of any keys.",
    role=METADATA,
    names=("trace_metadata.json",),
)
