"""Perfetto traces: protobuf packets of rocprofv3, Chrome, Android and tracing SDKs."""

from ggscope.readers.api import GZIP, ZSTD, ReaderInfo

INFO = ReaderInfo(
    "perfetto",
    "Perfetto trace",
    (".pftrace", ".perfetto-trace", ".perfetto", ".gz"),
    "Packets of Perfetto as protobuf, plain or packed by gzip or zstd: what rocprofv3, "
    "rocprof-sys, Perfetto's SDKs, Chrome and Android write, and what ggscope exports.",
    magic=(b"\n", GZIP, ZSTD),
)
