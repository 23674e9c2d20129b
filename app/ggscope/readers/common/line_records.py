"""Single lines of a text, by their number."""

from pathlib import Path

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.tables import I64
from ggscope.model.trace import RecordView
from ggscope.readers.source import read_at

_RECORD_BYTES = 4096


def line_view(path: Path, record: int, offset: int) -> RecordView:
    """Return the line that begins at an offset, as much of it as is shown."""
    data = read_at(path, offset, _RECORD_BYTES).partition(b"\n")[0]
    text = data.decode("utf-8", "replace")
    fields = (("line", f"{record + 1:,}", -1, 0), ("text", text, 0, len(data)))
    return RecordView(offset, data, fields)


class LineRecords:
    """Reads single lines of a text trace.

    Parameters
    ----------
    line, offset : int64[n], numbers of the lines from 0, ascending, and their bytes;
        of a line that is there several times the first counts.
    """

    def __init__(self, path: Path, line: I64, offset: I64) -> None:
        self._path = path
        self._line, self._offset = line, offset

    def view(self, record: int) -> RecordView:
        """Return a line by its number, from 0.

        Raises
        ------
        ReadError
            If the file is gone, or the line is not an event.
        """
        row = int(np.searchsorted(self._line, record))
        if row >= len(self._line) or self._line[row] != record:
            raise ReadError(f"line {record + 1:,} is not an event.")
        return line_view(self._path, record, int(self._offset[row]))
