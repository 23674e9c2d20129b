"""What the records of a tensor trace touch, once per distinct pattern."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.claims import Claims
from ggscope.model.tables import I64, AccessColumns, Array, narrow
from ggscope.model.tensors import Buffers, Tensors
from ggscope.readers.records import Layout
from ggscope.readers.tensor_names import PatternDecoder
from ggscope.readers.tensor_order import Work
from ggscope.readers.tensor_ranges import Words

_DECODED_AT_ONCE = 2048


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Patterns:
    """What the records touch, once per distinct pattern.

    Attributes
    ----------
    first : int64[n_patterns + 1]; pattern p makes the accesses
        ``columns[first[p] : first[p + 1]]``.
    columns : the accesses.
    name : string id of the destination, -1 without name.
    tensor : row of `tensors` for the destination.
    layer : claimed by the record, else told by its name; -1 none.
    is_cut : bool, the destination's name fills its field and may go on.
    claims : what the records say word for word.

    Notes
    -----
    name, tensor, layer and is_cut have one row more than there are patterns: row -1
    is what a record without a pattern gets.
    """

    first: I64
    columns: AccessColumns
    name: Array
    tensor: Array
    layer: Array
    is_cut: npt.NDArray[np.bool_]
    tensors: Tensors
    buffers: Buffers
    claims: Claims


def decode_patterns(
    exemplars: Words, layout: Layout, decoder: PatternDecoder, work: Work
) -> Patterns:
    """Return what `decoder` makes of the first record of each pattern.

    Parameters
    ----------
    exemplars : uint64[n_patterns, record size / 8].
    """
    for at in range(0, len(exemplars), _DECODED_AT_ONCE):
        work.check()
        rows = np.ascontiguousarray(exemplars[at : at + _DECODED_AT_ONCE])
        decoder.add(rows.view(layout.dtype).reshape(-1))
    return _gathered(decoder)


def decode_records(records: Array, decoder: PatternDecoder, work: Work) -> Patterns:
    """Return what `decoder` makes of records, one per pattern.

    Parameters
    ----------
    records : structured array of the decoder's layout.
    """
    for at in range(0, len(records), _DECODED_AT_ONCE):
        work.check()
        decoder.add(records[at : at + _DECODED_AT_ONCE])
    return _gathered(decoder)


def _gathered(decoder: PatternDecoder) -> Patterns:
    columns, buffers = decoder.accesses()
    first = np.concatenate([[0], np.cumsum(decoder.counts())]).astype(np.int64)
    name, tensor, layer, is_cut = decoder.destinations()
    return Patterns(
        first=first,
        columns=columns,
        name=narrow(np.append(name, -1)),
        tensor=narrow(np.append(tensor, -1)),
        layer=narrow(np.append(layer, -1)),
        is_cut=np.append(is_cut, False),
        tensors=decoder.tensors(columns),
        buffers=buffers,
        claims=decoder.claims(),
    )
