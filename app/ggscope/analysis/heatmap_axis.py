"""The x axis of a file heatmap: offsets, or every unit equally wide."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ggscope.analysis.file_map import FileMap
from ggscope.model.tables import I64

AxisKind = Literal["offset", "equal"]
AXIS_KINDS: tuple[AxisKind, ...] = ("offset", "equal")
UNIT_WIDTH = 1 << 20
"""Positions per unit on the equal axis: enough for any zoom into one."""
_LEAST_BYTES = 16
_LEAST_POSITIONS = 256


@dataclass(frozen=True, slots=True, eq=False)
class HeatAxis:
    """Maps positions along x (int64 from 0) to offsets in the file and back.

    On the "offset" axis both are the same. On the "equal" one unit u takes
    ``[u * UNIT_WIDTH, (u + 1) * UNIT_WIDTH)``; what lies between units has no width.
    """

    files: FileMap
    kind: AxisKind = "offset"

    @property
    def extent(self) -> int:
        """Positions in all, >= 1."""
        if self.kind == "equal":
            return max(len(self.files) * UNIT_WIDTH, 1)
        return max(self.files.extent, 1)

    @property
    def least(self) -> int:
        """Fewest positions that a view shows."""
        least = _LEAST_BYTES if self.kind == "offset" else _LEAST_POSITIONS
        return min(least, self.extent)

    def offsets(self, positions: I64) -> I64:
        """Return the offset at each position; monotone, from 0 to the extent.

        The last position stands for the end of the file, so that the cells of a
        whole view hold what lies behind the last unit, too.
        """
        at = np.clip(np.asarray(positions, np.int64), 0, self.extent)
        if self.kind == "offset" or not len(self.files):
            return np.minimum(at, self.files.extent)
        unit, part = np.divmod(at, UNIT_WIDTH)
        inside = np.minimum(unit, len(self.files) - 1)
        size = self.files.size[inside]
        whole, rest = np.divmod(size, UNIT_WIDTH)
        found = self.files.offset[inside] + whole * part + rest * part // UNIT_WIDTH
        found = np.where(at <= 0, 0, found)
        return np.where(at >= self.extent, self.files.extent, found)

    def positions(self, offsets: I64) -> I64:
        """Return the position of each offset; of one between units the next unit's."""
        at = np.clip(np.asarray(offsets, np.int64), 0, self.files.extent)
        if self.kind == "offset" or not len(self.files):
            return at
        unit = np.searchsorted(self.files.offset, at, "right") - 1
        inside = np.maximum(unit, 0)
        size = self.files.size[inside]
        away = at - self.files.offset[inside]
        share = np.minimum(away, size).astype(np.float64) / size
        part = np.rint(share * UNIT_WIDTH).astype(np.int64)
        return np.where(unit < 0, 0, inside * UNIT_WIDTH + part)

    def offset(self, position: int) -> int:
        """Return the offset at one position."""
        return int(self.offsets(np.array([position], np.int64))[0])

    def position(self, offset: int) -> int:
        """Return the position of one offset."""
        return int(self.positions(np.array([offset], np.int64))[0])

    def unit_at(self, position: int) -> int:
        """Return the unit at a position; -1 for none."""
        if not 0 <= position < self.extent:
            return -1
        if self.kind == "equal":
            return position // UNIT_WIDTH if len(self.files) else -1
        return self.files.unit_at(position)

    def unit_positions(self) -> tuple[I64, I64]:
        """Return where each unit begins and ends along x, int64[n_units]."""
        if self.kind == "equal":
            begin = np.arange(len(self.files), dtype=np.int64) * UNIT_WIDTH
            return begin, begin + UNIT_WIDTH
        return self.files.offset, self.files.offset + self.files.size

    def clamped(self, begin: int, stop: int) -> tuple[int, int]:
        """Return a view of the same width, or as wide as there is, inside the file."""
        width = min(max(stop - begin, self.least), self.extent)
        begin = min(max(begin, 0), self.extent - width)
        return begin, begin + width

    def zoomed(self, begin: int, stop: int, factor: float, at: int) -> tuple[int, int]:
        """Return the view `factor` times as wide, with `at` where it was."""
        width = max(stop - begin, 1)
        new = min(max(round(width * factor), self.least), self.extent)
        left = at - (at - begin) * new // width
        return self.clamped(left, left + new)


__all__ = ["AXIS_KINDS", "UNIT_WIDTH", "AxisKind", "HeatAxis"]
