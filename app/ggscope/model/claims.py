"""What a file says word for word, where the tables hold what was made of it.

The tables of a trace hold names without suffixes and layers told by names. To write
the file again, or to show a name as it was printed, the file's own words are kept
here, once per access pattern.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Claims:
    """The file's own words, for each pattern of ``Trace.accesses`` and its rows.

    Attributes
    ----------
    name : string id of the result's name with its suffixes and blanks, per pattern;
        -1 blank. Where a record describes one access it is the name of that.
    layer : int32 per pattern, as the record says (not as names tell); -1 none.
    n_sources : int16 per pattern; may be more than the pattern has accesses.
    lists_experts : bool per pattern, records of it list the router's choice.
    source_name, source_layer : likewise, for each row of ``accesses.patterns``.
    source_index : int64 per row, number in the tensor registry; -1 none.
    has_results : whether records tell what an op computes and where its sources
        lie; else each record is one access.
    """

    name: Array
    layer: npt.NDArray[np.int32]
    n_sources: npt.NDArray[np.int16]
    lists_experts: npt.NDArray[np.bool_]
    source_name: Array
    source_layer: npt.NDArray[np.int32]
    source_index: I64
    has_results: bool

    def __len__(self) -> int:
        return len(self.name)


__all__ = ["Claims"]
