"""Single records of a text, read again where they begin."""

from collections.abc import Callable, Sequence

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.tables import Array, narrow
from ggscope.model.trace import RecordView

_RECORD_BYTES = 64 << 10
_SHOWN_BYTES = 4096
_MAX_FIELDS = 200
_OFFSET_STEP = 32
Field = tuple[str, str, int, int]
"""Name, text, and place and length in the record, as in `RecordView`."""


class Offsets:
    """Places in a text, one for each record, in some two bytes where they ascend.

    One in 32 is held whole, the others by how far they lie behind it.

    Parameters
    ----------
    offset : int[n], not negative.
    """

    def __init__(self, offset: Array) -> None:
        self._whole = offset[::_OFFSET_STEP].astype(np.int64)
        behind = offset.astype(np.int64)
        behind -= np.repeat(self._whole, _OFFSET_STEP)[: len(offset)]
        self._behind = narrow(behind)

    def __len__(self) -> int:
        return len(self._behind)

    def __getitem__(self, record: int) -> int:
        """Return the place of a record, 0 up to the number of them."""
        return int(self._whole[record // _OFFSET_STEP]) + int(self._behind[record])

    @property
    def nbytes(self) -> int:
        """Memory that they take, bytes."""
        return self._whole.nbytes + self._behind.nbytes


class PlacedRecords:
    """Gives back single records of a text, with all their fields.

    Parameters
    ----------
    read : returns bytes of the text by (offset, length).
    offset : where each record begins.
    noun : what a record is called.
    decode : returns of some bytes how many the record has that they begin with, and its
        fields: none where they begin with none.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        offset: Array,
        noun: str,
        decode: Callable[[bytes], tuple[int, Sequence[Field]]],
    ) -> None:
        self._read, self._offset, self._noun = read, Offsets(offset), noun
        self._decode = decode

    def view(self, record: int) -> RecordView:
        """Return a record by its number.

        Raises
        ------
        ReadError
            If it is gone.
        """
        if not 0 <= record < len(self._offset):
            raise ReadError(f"there is no {self._noun} {record:,}.")
        offset = self._offset[record]
        data = self._read(offset, _RECORD_BYTES)
        length, fields = self._decode(data)
        if not fields:
            raise ReadError(
                f"{self._noun} {record:,} is no longer at byte {offset:,}.",
                hint="Reload the file.",
            )
        shown = tuple(
            (name, text[:_SHOWN_BYTES], at, n)
            for name, text, at, n in fields[:_MAX_FIELDS]
        )
        return RecordView(offset, data[: min(length, _SHOWN_BYTES)], shown)
