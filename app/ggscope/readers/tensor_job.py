"""What is known of a tensor trace while it is put together."""

from collections.abc import Mapping
from dataclasses import dataclass

from ggscope.model.tables import Array
from ggscope.model.trace import OpTable
from ggscope.readers.source import Source
from ggscope.readers.tensor_bands import Bands
from ggscope.readers.tensor_columns import Tally
from ggscope.readers.tensor_options import Choice
from ggscope.readers.tensor_passes import Rows


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class File:
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
class Job:
    """What is known once header columns have been read and arranged.

    Attributes
    ----------
    threads : raw thread ids in lane order.
    spans : columns of all spans but for names; see `make_job`.
    band_names : string ids of the spans of passes and phases, which come last.
    ended_at : number of the first record that the file no longer had; -1 none.
    """

    file: File
    tally: Tally
    threads: list[int]
    rows: Rows
    passes: Bands
    phases: Bands
    spans: dict[str, Array]
    band_names: Array
    ended_at: int = -1
