"""Files of buffer-stats, buffer-timeline."""

import json

import side_files
from reader_files import Names, ReaderFiles


def _hostile_buffer_stats(names: Names) -> bytes:
    return b"".join(
        json.dumps(
            {
                "timestamp_ms": i + 0.25,
                "event": "alloc",
                "buffer_id": i,
                "buffer_ptr": 4096 * i,
                "size": 1 << i,
                "name": next(names),
                "backend": next(names),
                "usage": 2,
                "layer": i % 3,
            }
        ).encode()
        + b"\n"
        for i in range(1, 20)
    )


def _hostile_buffer_timeline(names: Names) -> bytes:
    events = [
        {"timestamp_ms": i, "event": "alloc", "buffer_id": i,
         "buffer_name": next(names), "backend": next(names), "size": 8,
         "cumulative_size": 8 * i}
        for i in range(1, 20)
    ]  # fmt: skip
    return json.dumps({"metadata": {}, "buffers": [], "timeline": events}).encode()


FILES = (
    ReaderFiles(
        "buffer-stats",
        valid=("b.jsonl", lambda: side_files.sound_buffer_lines().encode()),
        hostile=(".jsonl", _hostile_buffer_stats),
        session="folder",
    ),
    ReaderFiles(
        "buffer-timeline",
        valid=("b.json", lambda: side_files.sound_timeline().encode()),
        hostile=(".json", _hostile_buffer_timeline),
        session="tokens",
    ),
)
