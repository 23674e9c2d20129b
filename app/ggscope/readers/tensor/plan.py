"""Reader options of tensor traces: layout, range and names, and what they cost.

What is known of a tensor trace while it is put together.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ggscope.errors import ReadError
from ggscope.model.tables import Array
from ggscope.model.trace import OpTable
from ggscope.readers.api import (
    NAMES_CHOICES,
    NAMES_OPTION,
    RANGE_OPTION,
    SAMPLED_SHARE,
    Estimate,
    Head,
    parse_range,
)
from ggscope.readers.source import Source
from ggscope.readers.tensor.columns import Tally, Wants
from ggscope.readers.tensor.detect import detect_head
from ggscope.readers.tensor.layouts import BUFFER_128, LAYOUTS, RecordLayout
from ggscope.readers.tensor.passes import Bands, Records
from ggscope.readers.tensor.scan import PEAK_BYTES

LAYOUT_OPTION = "layout"
OPS_OPTION = "ops"

OPTIONS = {
    LAYOUT_OPTION: "record layout: " + ", ".join(LAYOUTS),
    OPS_OPTION: "id of the op table, e.g. ggml-2025-11-25-95",
    RANGE_OPTION: "FIRST:STOP, record numbers: read only these; 5% is a share",
    NAMES_OPTION: f"all, sampled (names of 1 in {SAMPLED_SHARE} blocks) or none",
}

FINAL_BYTES = 35
"""What a record costs in memory once it has been read, about."""

_FIXED_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What of a file is to be read.

    Attributes
    ----------
    first, stop : numbers of the records wanted.
    n_file : number of records in the file, up to the last one with data.
    """

    wants: Wants
    first: int
    stop: int
    n_file: int

    @property
    def n_left_out(self) -> int:
        """Number of records outside the range."""
        return self.n_file - (self.stop - self.first)

    @property
    def has_end(self) -> bool:
        """Whether the range reaches to the last record of the file."""
        return self.stop >= self.n_file

    def summary(self) -> dict[str, object]:
        """Return what was left out, for ``TraceInfo.summary``."""
        found: dict[str, object] = {}
        if self.n_left_out:
            found["records_left_out"] = self.n_left_out
        if self.wants.names != "all":
            found["names"] = self.wants.names
        return found

    def shown_options(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return the options that shaped the trace."""
        return {k: v for k, v in options.items() if k in OPTIONS and v}


def wanted_layout(source: Source, options: Mapping[str, str]) -> RecordLayout | None:
    """Return the layout that is asked for by name; None for none.

    Raises ReadError for an unknown one.
    """
    name = options.get(LAYOUT_OPTION, "")
    if name and name not in LAYOUTS:
        raise ReadError(
            f"there is no record layout {name!r}.",
            path=source.path,
            hint="Known layouts: " + ", ".join(LAYOUTS) + ".",
        )
    return LAYOUTS[name] if name else None


def choose(
    source: Source, layout: RecordLayout, n_file: int, options: Mapping[str, str]
) -> Choice:
    """Return what the options ``range`` and ``names`` ask for.

    Raises ReadError where they are not understood.
    """
    names = options.get(NAMES_OPTION) or NAMES_CHOICES[0]
    if names not in NAMES_CHOICES:
        raise ReadError(
            f"the option {NAMES_OPTION} cannot be {names!r}.",
            path=source.path,
            hint="It is one of " + ", ".join(NAMES_CHOICES) + ".",
        )
    first, stop = 0, n_file
    text = options.get(RANGE_OPTION, "")
    if text:
        try:
            first, stop = parse_range(text, n_file)
        except ValueError as error:
            raise ReadError(
                f"the option {RANGE_OPTION} is not understood: {error}.",
                path=source.path,
                hint=f"Give record numbers, as in {RANGE_OPTION}=0:1000000 or "
                f"{RANGE_OPTION}=25%:50%.",
            ) from error
    return Choice(Wants(layout, names), first, stop, n_file)


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
    end : offset behind the last non-zero byte.
    """

    source: Source
    options: Mapping[str, str]
    choice: Choice
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
