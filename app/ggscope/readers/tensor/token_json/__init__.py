"""The same records as JSON, one file per token: ``traces/token-NNNNN.json``."""

from ggscope.readers.api import Option, ReaderInfo

OPS_OPTION = "ops"
AS_PRINTED = "as-printed"
"""Op table of a file whose op names are taken as they stand."""
INFO = ReaderInfo(
    "trace-json",
    "Token trace",
    (".json",),
    "The ops of one token with their sources, exported as JSON from the records of "
    "the tensor tracers for llama.cpp.",
    (
        Option(
            name=OPS_OPTION,
            doc=f"{AS_PRINTED}, or id of the traced program's op table, e.g. "
            "ggml-2025-11-25-95",
        ),
    ),
    keys=("entries",),
)
