"""What of a tensor trace is to be read, what that costs, and what is known of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from ggscope.model.tables import Array
from ggscope.model.trace import OpTable
from ggscope.readers.api import NAMES_OPTION, Estimate, Head, asked_range
from ggscope.readers.source import Source
from ggscope.readers.tensor import INFO
from ggscope.readers.tensor.columns import Tally, TensorOptions
from ggscope.readers.tensor.layouts import BUFFER_128, RecordLayout, detect_head
from ggscope.readers.tensor.passes import Bands, Records
from ggscope.readers.tensor.scan import PEAK_BYTES

FINAL_BYTES = 35
"""What a record costs in memory once it has been read, about."""

_FIXED_BYTES = 32 << 20


def choose(
    layout: RecordLayout, n_file: int, options: Mapping[str, str]
) -> TensorOptions:
    """Return what the options ``range`` and ``names`` ask for.

    Raises ReadError where they are not understood.
    """
    first, stop = asked_range(options, n_file)
    names = INFO.chosen(options)[NAMES_OPTION]
    return TensorOptions(layout, names, first, stop, n_file)


def estimate(head: Head) -> Estimate | None:
    """Return what reading a file with this head would cost at most.

    A preallocated file may hold less than its size promises.
    """
    match = detect_head(head.data, head.size)
    if match is None or match.layout is BUFFER_128:
        return None
    records = head.size // match.layout.size
    return Estimate(
        records=records,
        final_bytes=_FIXED_BYTES + FINAL_BYTES * records,
        peak_bytes=_FIXED_BYTES + PEAK_BYTES * records,
        can_range=True,
        can_sample_names=True,
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TensorFile:
    """What is known of a file before its records are read.

    Attributes
    ----------
    given : reader options as they were given.
    end : offset behind the last non-zero byte.
    """

    source: Source
    given: Mapping[str, str]
    options: TensorOptions
    end: int
    ops: OpTable


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Draft:
    """What is known once header columns have been read and arranged.

    Attributes
    ----------
    threads : raw thread ids in lane order.
    spans : columns of all spans but for names; see `make_draft`.
    band_names : string ids of the spans of passes and phases, which come last.
    ended_at : number of the first record that the file no longer had; -1 none.
    """

    file: TensorFile
    tally: Tally
    threads: list[int]
    rows: Records
    passes: Bands
    phases: Bands
    spans: dict[str, Array]
    band_names: Array
    ended_at: int = -1
