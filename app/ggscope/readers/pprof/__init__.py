"""Profiles in the format of pprof."""

from ggscope.readers.api import ReaderInfo
from ggscope.readers.common.weight_units import WEIGHTS_OPTION

GZIP = b"\x1f\x8b"
SAMPLE_TYPE = b"\n"
"""Tag of a profile's first field; protobuf's libraries write fields in order."""
INFO = ReaderInfo(
    "pprof",
    "pprof profile",
    (".pprof", ".prof", ".pb", ".gz"),
    "Profiles in pprof's protobuf format, plain or packed by gzip: what Go, "
    "gperftools, Parca, Pyroscope and JAX's memory profiler write.",
    (WEIGHTS_OPTION,),
    magic=(GZIP, SAMPLE_TYPE),
)
