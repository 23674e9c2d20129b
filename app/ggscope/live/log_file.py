"""The log of a server that grows: requests as their lines are written.

Logs are rotated: where the file becomes shorter, or another one has its name, reading
goes on with what is there then, and what was read stays.
"""

import os
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from ggscope.live.growing_text import GrowingText
from ggscope.live.source import NANO, RecordingLocation, now_ns, pending
from ggscope.model.tables import I64, Spans
from ggscope.model.trace import Severity, Trace, TraceInfo
from ggscope.model.units import format_bytes, format_counted
from ggscope.readers.logs import INFO
from ggscope.readers.logs.lines import lines_done, scan_text
from ggscope.readers.logs.trace import ClockAppeared, LogTrace

_QUIET_NS = NANO // 2
_HOLE_BYTES = 1 << 16
MAX_PIECES_BYTES = 4 << 20
"""So much of a line that Kubernetes has cut waits for its end, and is read then."""
_MARK = b"\xef\xbb\xbf"


class _Text:
    """Bytes of the file that are in memory."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data, self._offset = data, offset

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file."""
        begin = offset - self._offset
        return self._data[begin : begin + length]


class LogSource(GrowingText):
    """The log of a server or of a program that runs.

    Lines count once they have their end. A request is drawn when its timings are there,
    and until then as one that lasts.
    """

    format = "growing log"
    reader_id = INFO.id

    def _forget(self) -> None:
        super()._forget()
        self._begin_log(LogTrace(grows=True))
        self._n_files = 1
        self._n_dropped = 0

    def _begin_log(self, log: LogTrace) -> None:
        self._log, self._builder = log, log.builder
        self._at = self._looked = self._n_records = 0
        self._tail = b""
        self._n_earlier = 0
        self._is_behind = self._has_settled = False
        self._waits_for_pieces = True

    @property
    def unfinished_requests(self) -> I64:
        """Rows of requests of which lines to come may say more, int64[k]."""
        return self._log.unfinished

    @property
    def n_dropped_requests(self) -> int:
        """Number of requests that were in the trace before its row 0.

        A trace that begins again, by a clock that comes late, has only those of the
        file that has the name now.
        """
        return self._n_dropped

    def snapshot(self) -> Trace:
        """Return the trace as it stands."""
        log, builder = self._log, self._builder
        builder.set_open(log.open_spans(log.until))
        builder.log = log.log()
        builder.records = log.records(self.path, self._inode)
        info = TraceInfo(
            (self.path,), self.reader_id, self.format, "1", self._at, log.n_lines,
            producer=dict(log.facts.facts), summary={"events": log.events()},
        )  # fmt: skip
        return builder.snapshot(info, pending(self._status), read_until=log.until)

    def _read(self, file: BinaryIO, now: int) -> None:
        try:
            if not self._read_new(file):
                self._settle(now)
        except ClockAppeared as appeared:
            self._status = replace(self._status, restarts=self._status.restarts + 1)
            self._n_dropped += self._n_earlier
            self._begin_log(LogTrace(grows=True, start=appeared.start))
            self._is_behind = True

    def _on_rewritten(self, file: BinaryIO) -> None:
        self._note_rotation()
        self._at = self._looked = _first_written(file)

    def _add(self, data: bytes, begin: int) -> None:
        end = begin + len(data)
        if self._waits_for_pieces and len(data) < MAX_PIECES_BYTES:
            data = data[: lines_done(np.frombuffer(data, np.uint8), True)]
        if data:
            self._add_lines(data, begin)
        self._looked = end

    def _add_lines(self, data: bytes, begin: int) -> None:
        n_skipped = len(_MARK) if not begin and data.startswith(_MARK) else 0
        lines = scan_text(
            np.frombuffer(data, np.uint8)[n_skipped:],
            line=self._log.n_lines,
            offset=begin + n_skipped,
        )
        self._log.add(_Text(data, begin), lines)
        self._note_read(data, begin)
        self._n_records = self._log.n_lines
        self._has_settled = False

    def _settle(self, now: int) -> None:
        """Draw what is done by all appearances, once nothing has come for a while."""
        if self._has_settled or now - self._changed <= _QUIET_NS:
            return
        self._has_settled = self._is_changed = True
        self._log.add(_Text(b"", 0), scan_text(np.empty(0, np.uint8)), is_quiet=True)

    def _begin_anew(self) -> None:
        """Go on with the file that has the name now."""
        if self._file is not None:  # what was written to it before it was renamed
            before, self._looked, self._waits_for_pieces = -1, self._at, False
            while self._at != before:
                before = self._at
                self._read(self._file, now_ns())
        self._close_file()
        self.writers.forget()
        self._note_rotation()

    def _note_rotation(self) -> None:
        self._n_files += 1
        self._n_earlier = len(self._log)
        self._at = self._looked = 0
        self._tail = b""
        self._waits_for_pieces = True
        self._log.begin_file()
        self._builder.warn(
            Severity.INFO,
            "log_rotated",
            "the log was replaced or cut while it was followed; reading went on with "
            "the new one. Lines that were written and cut between two looks are not "
            "in this trace.",
        )

    def _open_spans(self, until: int) -> Spans:
        return self._log.open_spans(until)

    def _lag_now(self) -> tuple[int, bool]:
        moment = self._log.newest
        return (-1, False) if moment is None else self._lag.of(moment)

    def _by_kind(self) -> dict[str, int]:
        return {"requests": len(self._log), "lines": self._before + self._n_records}

    def _recording(self) -> RecordingLocation:
        if self._n_files > 1:
            why = f"the log {self.path} was rotated: its first lines are elsewhere"
            return RecordingLocation(why=why)
        return super()._recording()

    def _message(self, now: int) -> str:
        if self._is_removed or not self._n_records:
            return super()._message(now)
        return "; ".join(filter(None, (self._progress(now), super()._message(now))))

    def _progress(self, now: int) -> str:
        """Return what the log has not stated yet."""
        log = self._log
        if n := self._looked - self._at:
            is_cut = now - self._changed > _QUIET_NS
            return f"the last line has no end yet ({format_bytes(n)})" * is_cut
        if not log.n_known:
            return "no line of llama.cpp or ollama yet"
        if not len(log):
            return "no request yet"
        n_open = log.n_open
        return f"{format_counted(n_open, 'request')} running" if n_open else ""


def _first_written(file: BinaryIO) -> int:
    """Return where the content of a file begins.

    A log that is cut while its writer goes on where it was begins with a hole.
    """
    descriptor = file.fileno()
    try:
        at = os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError:
        return 0
    while data := os.pread(descriptor, _HOLE_BYTES, at):
        rest = data.lstrip(b"\0")
        if rest:
            return at + len(data) - len(rest)
        at += len(data)
    return at
