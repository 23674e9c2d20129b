"""Phases of loading a model, by the lines of a log that begin and end them."""

import re

from ggscope.model.tables import I64
from ggscope.readers.logs.lines import Kind, LineText, LogLines

Phase = tuple[str, int, int, int]
"""Name, begin and end, and the number of the line that begins it."""
_MAX_LINES = 20_000
_KINDS = (
    Kind.MODEL, Kind.METADATA, Kind.BUFFER, Kind.SPLITS, Kind.WARM_UP, Kind.LISTENING,
)  # fmt: skip
_CONTEXT = re.compile(r"(KV|RS|compute|output) buffer size")
_METADATA, _TENSORS = "read metadata", "load tensors"
_CONTEXT_PHASE, _WARM_UP = "create context", "warm up and start"


class LoadPhases:
    """Follows when phases of loading began and ended, as lines come.

    A model is loaded from the line that names it. Its metadata end with the last of
    their lines, its tensors with the first line about the context, the context with
    the run that warms up, and all with the line that the server listens. A phase whose
    end no line states is left out.
    """

    def __init__(self) -> None:
        self._phase = ""
        self._begin = self._last = self._line = 0

    def add(self, text: LineText, lines: LogLines, moment: I64) -> list[Phase]:
        """Return the phases that end in the next lines; `moment` is that of each."""
        ended: list[Phase] = []
        for row in lines.rows(*_KINDS)[:_MAX_LINES].tolist():
            kind, now = Kind(int(lines.kind[row])), int(moment[row])
            line = int(lines.line[row])
            if kind is Kind.MODEL:
                if not self._phase:
                    self._go_on(_METADATA, now, line)
                continue
            if not self._phase:
                continue
            if kind is Kind.METADATA:
                self._last = now
                continue
            if self._phase == _METADATA:
                if self._last > self._begin:
                    ended += self._end(self._last)
                self._go_on(_TENSORS, self._last, line)
            if kind is Kind.LISTENING:
                ended += self._end(now)
                self._phase = ""
            elif kind is Kind.WARM_UP and self._phase != _WARM_UP:
                ended += self._end(now)
                self._go_on(_WARM_UP, now, line)
            elif self._phase == _TENSORS and (
                kind is Kind.SPLITS
                or (kind is Kind.BUFFER and _CONTEXT.search(lines.text(text, row)))
            ):
                ended += self._end(now)
                self._go_on(_CONTEXT_PHASE, now, line)
        return ended

    def _go_on(self, phase: str, now: int, line: int) -> None:
        self._phase, self._begin, self._last, self._line = phase, now, now, line

    def _end(self, now: int) -> list[Phase]:
        return [(self._phase, self._begin, now, self._line)]
