"""Profiles that ggml's scheduler writes as JSON (llama.cpp's pull request 21160)."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "ggml-profile",
    "ggml profile",
    (".json",),
    "What llama.cpp with --profile, or GGML_PROFILE=FILE.json, writes: each op and "
    "copy of each backend with begin and duration.",
    keys=("backend_id", "duration_ns"),
)
