"""Profiles in the format of pprof."""

from ggscope.readers.api import ReaderInfo
from ggscope.readers.common.weight_units import WEIGHTS_OPTION

GZIP = b"\x1f\x8b"
SAMPLE_TYPE = b"\n"
"""Tag of a profile's first field; protobuf's libraries write fields in order."""
OTHER_FIELDS = (b"\x12", b"\x1a", b"2\0")
"""What profiles begin with whose writer has another order: tags of a sample and of a
mapping, and the table of texts, whose first one is empty. Tags of the other fields are
letters and digits, with which any text may begin."""
INFO = ReaderInfo(
    "pprof",
    "pprof profile",
    (".pprof", ".prof", ".pb", ".gz"),
    "Profiles in pprof's protobuf format, plain or packed by gzip: what Go, "
    "gperftools, Parca, Pyroscope and JAX's memory profiler write.",
    (WEIGHTS_OPTION,),
    magic=(GZIP, SAMPLE_TYPE, *OTHER_FIELDS),
)
