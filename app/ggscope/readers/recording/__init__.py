"""The sidecar of a recording: what its records have no room for."""

from ggscope.readers.api import RECORDING, ReaderInfo

INFO = ReaderInfo(
    "capture-sidecar",
    "Sidecar of a recording (JSON)",
    (".json",),
    "What ggscope-capture tells of a run beside its records: graphs and their nodes, "
    "models, buffers, ubatches, calls, copies and losses.",
    role=RECORDING,
    keys=("ggscope-capture",),
)
