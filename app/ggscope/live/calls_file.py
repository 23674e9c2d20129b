"""Calls of CUDA, from the file that the hook of ``ggscope-capture cuda`` writes.

The hook writes a last line when its process ends, and puts calls that return even later
in its place: it counts once nothing else comes, and is looked at again until then.
"""

from dataclasses import replace
from typing import BinaryIO

import numpy as np

from ggscope.errors import LiveError
from ggscope.live.growing_text import GrowingText
from ggscope.live.regular_file import renamed_to
from ggscope.live.source import NANO, RecordingLocation, State, pending
from ggscope.live.writers import Writing
from ggscope.model.growing import Growing
from ggscope.model.tables import Spans
from ggscope.model.trace import Trace, TraceInfo
from ggscope.readers.api import BOM
from ggscope.readers.common.line_records import LineRecords
from ggscope.readers.cuda import INFO
from ggscope.readers.cuda.lines import UNKNOWN, CallLines, CallScan, Form, scan_text
from ggscope.readers.cuda.problems import note_problems
from ggscope.readers.cuda.reader import WRITERS
from ggscope.readers.cuda.trace import CallTrace

_QUIET_NS = NANO // 2
_END_BYTES = 1024
"""No last line of the hook is longer."""


def is_from_hook(data: bytes) -> bool:
    """Return whether a file that begins so is one of ggscope's hook alone."""
    lines = scan_text(np.frombuffer(data, np.uint8))
    return lines.notes.n_begun > 0 and _first_foreign(lines) < 0


class CallsSource(GrowingText):
    """The calls that a program makes of CUDA, while it runs.

    A call is a span once it has returned, and until then one that lasts.
    """

    format = "growing CUDA call trace"
    reader_id = INFO.id

    def _forget(self) -> None:
        super()._forget()
        self._scan = CallScan()
        self._calls = CallTrace("s", grows=True)
        self._builder = self._calls.builder
        self._lines = self._scan.add(np.empty(0, np.uint8), 0)
        self._line, self._offset = Growing(np.int64), Growing(np.int64)
        self._end: tuple[bytes, CallLines] | None = None
        """The last line, which may be written over."""
        self._unsettled_since = 0

    def snapshot(self) -> Trace:
        """Return the trace as it stands."""
        calls, lines, builder = self._calls, self._lines, self._builder
        notes = lines.notes
        if self._end is not None:
            notes += self._end[1].notes
        is_over = self._status.state in (State.ENDED, State.GONE)
        note_problems(builder, lines, notes, calls.sums, is_over=is_over)
        builder.set_open(self._open_spans(calls.until))
        builder.records = LineRecords(self.path, self._line.view(), self._offset.view())
        info = TraceInfo(
            (self.path,), self.reader_id, self.format, "",
            self._n_bytes, self._n_records,
            producer={"written by": WRITERS[Form.HOOK]},
            summary={"events": calls.sums.events(lines)},
        )  # fmt: skip
        until = None if is_over else calls.until
        return builder.snapshot(info, pending(self._status), read_until=until)

    @property
    def _n_bytes(self) -> int:
        """Bytes of the file that were read, its last line as well."""
        return self._at + (0 if self._end is None else len(self._end[0]))

    def _recording(self) -> RecordingLocation:
        location = super()._recording()
        if location.place is None:
            return location
        return replace(location, n_bytes=self._n_bytes)

    def _read(self, file: BinaryIO, now: int) -> None:
        if self._end is not None and not self._is_written_over(file, now):
            return
        self._read_new(file)

    def _is_written_over(self, file: BinaryIO, now: int) -> bool:
        """Return whether other lines have come in the place of the last one.

        They are read once there is a last line behind them again: what remains of the
        one before stands behind them until then. Not where that never comes.
        """
        assert self._end is not None
        text, _ = self._end
        data = self._take(file, self._at, len(text) + 1)
        if data == text:
            self._unsettled_since = 0
            return False
        self._unsettled_since = self._unsettled_since or now
        is_settled = _end_of(self._take_rest(file)) is not None
        if not is_settled and now - self._unsettled_since <= _QUIET_NS:
            return False
        self._unsettled_since = 0
        self._n_records -= 1
        self._end, self._is_changed = None, True
        self._looked = self._at
        return True

    def _take_rest(self, file: BinaryIO) -> bytes:
        """Return the end of the file, not what was read before."""
        size = file.seek(0, 2)
        at = max(self._at, size - _END_BYTES)
        return self._take(file, at, size - at)

    def _add(self, data: bytes, begin: int) -> None:
        end = _end_of(data)
        text = data[: len(data) - len(end or b"")]
        n_skipped = len(BOM) if not begin and text.startswith(BOM) else 0
        values = np.frombuffer(text, np.uint8)[n_skipped:]
        lines = self._scan.add(values, begin + n_skipped)
        if (row := _first_foreign(lines)) >= 0:
            raise LiveError(
                f"{self.path}: line {int(lines.line[row]) + 1:,} is of another program "
                "than the hook, and is not followed; open the file when the program "
                "has ended."
            )
        self._lines = lines
        self._calls.add(lines, lambda: None)
        self._line.append(lines.line)
        self._offset.append(lines.offset)
        self._note_read(text, begin)
        self._n_records = lines.n_lines
        self._newest = self._calls.newest
        if end is not None:
            self._end = end, scan_text(np.frombuffer(end, np.uint8))
            self._looked += len(end)
            self._n_records += 1

    def _on_rewritten(self, file: BinaryIO) -> None:
        self._begin_anew()

    def _look(self) -> bool:
        is_there = super()._look()
        if self._is_removed and self._file is not None:
            # The launcher moves the file to its place when the program has ended.
            path = renamed_to(self._file)
            if path is not None:
                self._is_removed = False
                self.path = self.writers.path = path
                self._status = replace(self._status, file=str(path))
        return is_there

    def _state(self, now: int) -> State:
        state = super()._state(now)
        if (
            state is State.WAITING
            or self._is_behind
            or now - self._changed <= _QUIET_NS
        ):
            return state
        if self._end is not None and self.writers.state is not Writing.OPEN:
            return State.ENDED
        return State.GONE if state is State.NO_WRITER else state

    def _message(self, now: int) -> str:
        match self._state(now):
            case State.ENDED:
                return ""
            case State.GONE:
                return f"{self.writers.writer} has ended, and wrote no last line"
        return super()._message(now)

    def _open_spans(self, until: int) -> Spans:
        return self._calls.open_calls

    def _by_kind(self) -> dict[str, int]:
        n_lines = self._before + self._n_records
        return {"calls": self._calls.sums.n_calls, "lines": n_lines}


def _end_of(data: bytes) -> bytes | None:
    """Return the last line where it is the last one of the hook, with its line end."""
    if not data.endswith(b"\n"):
        return None
    line = data[data.rfind(b"\n", 0, len(data) - 1) + 1 :]
    if len(line) > _END_BYTES:
        return None
    lines = scan_text(np.frombuffer(line, np.uint8))
    is_end = lines.notes.n_ended == 1 and not lines.notes.n_begun and not len(lines)
    return line if is_end else None


def _first_foreign(lines: CallLines) -> int:
    """Return the first event that the hook does not write; -1 where all are its own."""
    rows = np.flatnonzero((lines.form != Form.HOOK) | (lines.pid != UNKNOWN))
    return int(rows[0]) if len(rows) else -1
