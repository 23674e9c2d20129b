"""The sidecar of a recording: what its records have no room for."""

from ggscope.readers.api import RECORDING, ReaderInfo

INFO = ReaderInfo(
    "capture-sidecar",
    "Sidecar of a recording (JSON)",
    (".json",),
    "Sidecar of ggscope-capture: graphs and their nodes, models, buffers, "
    "ubatches, calls, copies and losses of a run.",
    role=RECORDING,
    keys=("ggscope-capture",),
)
