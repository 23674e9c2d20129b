"""Files of trace-metadata."""

import json

from reader_files import ReaderFiles


def _valid() -> bytes:
    facts = {f"key {i}": {"value": i, "text": f"of {i}"} for i in range(40)}
    return json.dumps({"model": "tiny.gguf", "total_entries": 7, **facts}).encode()


FILES = (
    ReaderFiles(
        "trace-metadata",
        valid=("trace_metadata.json", _valid),
    ),
)
