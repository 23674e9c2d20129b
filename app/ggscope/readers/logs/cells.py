"""Use of the KV cache, by the lines of llama.cpp that state tokens of slots.

No line says how full the cache is. Its size is stated when it is made, and each slot
says how many tokens it holds: when its cache was cut for a prompt, while the prompt is
computed, when it is released, and when it is cleared. Between these lines a slot counts
with what its last line states. Tokens that slots share count for each of them.
"""

import re

import numpy as np

from ggscope.model.tables import F64, I64
from ggscope.readers.logs.lines import Kind, LineText, LogLines

_SIZE = re.compile(
    r"size\s*=\s*\S+ MiB \(\s*(?P<cells>\d{1,15}) cells,\s*\d+ layers"
    r"(?:,\s*\d+/\s*(?P<streams>\d{1,9}) seqs)?"
)
_MAX_SLOTS = 1 << 20
_MAX_CACHES = 20_000
_HOLDS = (Kind.CACHED, Kind.PROGRESS, Kind.RELEASE, Kind.CLEARED)


class CellUse:
    """Follows how many cells of the KV cache are used, as lines come."""

    def __init__(self) -> None:
        self._run = 0
        self._cells = 0.0
        self._tokens = np.zeros(0, np.float64)
        """Of each slot in the last start of the program."""

    def add(self, text: LineText, lines: LogLines, run: I64) -> tuple[I64, F64]:
        """Return rows of lines behind which the use is another, and percent of cells.

        Lines of a start of the program whose log does not state the size have none. The
        first size counts: caches of sliding windows and of draft models come later.

        Parameters
        ----------
        run : int64[n], start of the program of each line.
        """
        rows = lines.rows(*_HOLDS)
        slot = lines.slot[rows]
        rows = rows[(slot >= 0) & (slot < _MAX_SLOTS) & (lines.n_values[rows] > 0)]
        made, cells = self._caches(text, lines, run)
        last_run = int(run[-1]) if len(run) else self._run
        cells_of = np.full(last_run - self._run + 1, np.nan)
        made_at = np.full(len(cells_of), len(lines), np.int64)
        cells_of[run[made] - self._run] = cells
        made_at[run[made] - self._run] = made
        if self._cells:
            cells_of[0], made_at[0] = self._cells, -1
        sums = self._sums(lines, rows, run[rows], last_run)
        is_made = rows > made_at[run[rows] - self._run]
        rows, sums, base = rows[is_made], sums[is_made], self._run
        self._run = last_run
        self._cells = float(np.nan_to_num(cells_of[-1]))
        every = np.concatenate([made, rows])
        used = np.concatenate([np.zeros(len(made)), sums])
        percent = 100 * used / cells_of[run[every] - base]
        order = np.argsort(every, kind="stable")
        return every[order], percent[order]

    def _caches(self, text: LineText, lines: LogLines, run: I64) -> tuple[I64, F64]:
        """Return the row and the cells of the first cache of each start."""
        rows = lines.rows(Kind.KV_CACHE)
        if self._cells:
            rows = rows[run[rows] > self._run]
        rows = rows[np.unique(run[rows], return_index=True)[1]][:_MAX_CACHES]
        cells = np.zeros(len(rows), np.float64)
        for i, row in enumerate(rows.tolist()):
            match = _SIZE.search(lines.text(text, row))
            if match is not None:
                cells[i] = int(match["cells"]) * int(match["streams"] or 1)
        return rows[cells > 0], cells[cells > 0]

    def _sums(self, lines: LogLines, rows: I64, run: I64, last_run: int) -> F64:
        """Return the tokens of all slots behind each line; note those at the end."""
        slot = lines.slot[rows].astype(np.int64)
        is_cleared = lines.kind[rows] == Kind.CLEARED
        value = np.where(is_cleared, 0.0, np.maximum(lines.value[rows, 0], 0.0))
        n_slots = max(int(slot.max(initial=-1)) + 1, len(self._tokens))
        tokens = np.zeros(n_slots, np.float64)
        tokens[: len(self._tokens)] = self._tokens
        # A slot's lines one behind the other, each with what the slot held before.
        order = np.lexsort((np.arange(len(rows)), slot, run))
        before = np.zeros(len(rows), np.float64)
        if len(rows):
            by_slot, by_run, values = slot[order], run[order], value[order]
            is_first = np.ones(len(rows), np.bool_)
            is_first[1:] = (np.diff(by_slot) != 0) | (np.diff(by_run) != 0)
            shifted = np.append(0.0, values[:-1])
            known = np.where(by_run == self._run, tokens[by_slot], 0.0)
            before[order] = np.where(is_first, known, shifted)
        change = np.cumsum(value - before)
        starts = np.flatnonzero(np.diff(run, prepend=-1))
        of_run = np.repeat(
            np.append(0.0, change)[starts], np.diff(np.append(starts, len(rows)))
        )
        held = np.where(run == self._run, tokens.sum(), 0.0)
        sums: F64 = change - of_run + held
        if last_run != self._run:
            tokens[:] = 0.0
        is_last = run == last_run
        tokens[slot[is_last]] = value[is_last]
        self._tokens = tokens
        return sums
