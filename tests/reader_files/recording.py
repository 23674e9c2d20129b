"""Files of capture-sidecar."""

import json

import recordings
from reader_files import ReaderFiles

FILES = (
    ReaderFiles(
        "capture-sidecar",
        valid=(
            "run.json",
            lambda: json.dumps(recordings.packed_sidecar()).encode(),
        ),
    ),
)
