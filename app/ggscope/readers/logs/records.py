"""Single lines of a log, read again when somebody asks for them.

Of lines only some offsets stay in memory: of the first line that states facts in
each `_STRETCH` bytes of the file. Others are counted from there and scanned again.
"""

import os
from pathlib import Path

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.growing import Growing
from ggscope.model.tables import I64
from ggscope.model.trace import RecordView
from ggscope.readers.common.line_records import line_view
from ggscope.readers.common.text_blocks import LONGEST_LINE
from ggscope.readers.logs.lines import scan_text
from ggscope.readers.source import read_at

_STRETCH = 1 << 14
_LONGEST_PREFIX = 512
"""Bytes between the begin of a line and its message."""
_RECORD_BYTES = 4096
"""Of a line, looked at before more of it."""


class LineOffsets:
    """Where some lines of a log are, as the lines come."""

    def __init__(self) -> None:
        self.begin_file()

    def begin_file(self) -> None:
        """Go on with another file: the lines of the one before are not read again."""
        self._line, self._offset = Growing(np.int64), Growing(np.int64)
        self._last_stretch = -1

    def add(self, line: I64, offset: I64) -> None:
        """Note the next lines that state facts.

        Parameters
        ----------
        line, offset : int64[n], ascending; their numbers, and where their messages
            begin in the file.
        """
        if not len(line):
            return
        stretch = offset // _STRETCH
        is_first = np.diff(stretch, prepend=self._last_stretch) != 0
        self._last_stretch = int(stretch[-1])
        self._line.append(line[is_first])
        self._offset.append(offset[is_first])

    def records(self, path: Path, inode: int = 0) -> "LogRecords":
        """Return what gives back single lines of the file so far."""
        return LogRecords(path, self._line.view(), self._offset.view(), inode)


class LogRecords:
    """Gives back single lines of a log.

    Parameters
    ----------
    line, offset : int64[n] of `LineOffsets`.
    inode : of the file they are in; 0 = whatever has its name.
    """

    def __init__(self, path: Path, line: I64, offset: I64, inode: int = 0) -> None:
        self._path, self._inode = path, inode
        self._line, self._offset = line, offset

    def view(self, record: int) -> RecordView:
        """Return a line by its number, from 0.

        Raises
        ------
        ReadError
            If it is gone, or is none that states facts.
        """
        if self._inode and _inode_of(self._path) != self._inode:
            raise ReadError("the file is another one now.", path=self._path)
        offset = self._place(record)
        if offset is None:
            raise ReadError(f"line {record + 1:,} is not kept.")
        # The prefix of the line stands before its message.
        n = min(offset, _LONGEST_PREFIX)
        before = read_at(self._path, offset - n, n)
        offset -= len(before) - (max(before.rfind(b"\n"), before.rfind(b"\r")) + 1)
        return line_view(self._path, record, offset)

    def _place(self, record: int) -> int | None:
        """Return where the message of a line begins; None where it is unknown."""
        at = int(np.searchsorted(self._line, record))
        # A line of several pieces may begin in the stretch before and go on here.
        if at and (offset := self._counted_from(at - 1, record)) is not None:
            return offset
        is_noted = at < len(self._line) and self._line[at] == record
        return int(self._offset[at]) if is_noted else None

    def _counted_from(self, at: int, record: int) -> int | None:
        """Return where a message begins in the stretch of an earlier line, or None."""
        first = int(self._offset[at])
        n_bytes = _STRETCH - first % _STRETCH
        stretch = np.frombuffer(read_at(self._path, first, n_bytes), np.uint8)
        ends = np.flatnonzero(stretch == ord("\n"))
        n_lines = record - int(self._line[at])
        if n_lines > len(ends):
            return None
        begin = first + int(ends[n_lines - 1]) + 1
        rows = scan_text(np.frombuffer(self._whole_line(begin), np.uint8))
        if not len(rows) or begin + int(rows.offset[0]) >= first + n_bytes:
            return None
        return begin + int(rows.offset[0])

    def _whole_line(self, begin: int) -> bytes:
        """Return the line that begins at an offset: its facts may stand far on."""
        n_bytes = _RECORD_BYTES
        while True:
            data = read_at(self._path, begin, n_bytes)
            line, end, _ = data.partition(b"\n")
            if end or len(data) < n_bytes or n_bytes >= LONGEST_LINE:
                return line
            n_bytes *= 4


def _inode_of(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1
