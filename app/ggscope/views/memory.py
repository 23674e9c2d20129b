"""Memory by device: what the log of a server says each device holds."""

from ggscope.analysis.workers import Watcher
from ggscope.descriptions.requests import (
    MEMORY_TIPS,
    NEGATIVE_TIP,
    memory_table,
    memory_title,
)
from ggscope.model.requests import MemoryUse
from ggscope.model.trace import Trace
from ggscope.views.base.table_pane import MAX_ROWS, TableContents, TablePane
from ggscope.views.base.text_table import Cell, Heading

_MIB = 1 << 20


class MemoryView(TablePane):
    """A row per device and start of the program, in MiB."""

    name = "Memory by device"
    nothing = "The log has no memory breakdown."
    nothing_yet = "No line about memory yet."

    def contents(self, trace: Trace, watcher: Watcher) -> TableContents | None:
        """Return the rows of a log, those of the first start first."""
        if trace.log is None or not trace.log.memory:
            return None
        uses = trace.log.memory[:MAX_ROWS]
        head, lines = memory_table(uses)
        has_starts = any(use.run for use in trace.log.memory)
        headings = [
            Heading(
                title,
                MEMORY_TIPS.get(title, ""),
                width=200 if title == "device" else 88,
                right=title != "device",
                stretch=title == "device",
                copied="" if title == "device" else f"{title} MiB",
                largest_first=title != "device",
            )
            for title in head
        ]
        rows = [_cells(use, line) for use, line in zip(uses, lines, strict=True)]
        if has_starts:
            headings.insert(0, Heading("start", "start of the program", 56, right=True))
            rows = [
                (Cell(str(use.run + 1), sort=float(use.run)), *row)
                for use, row in zip(uses, rows, strict=True)
            ]
        n = len(trace.log.memory)
        about = memory_title(trace.log.memory)
        return TableContents(tuple(headings), tuple(rows), range(len(rows)), n, about)


def _cells(use: MemoryUse, line: list[str]) -> tuple[Cell, ...]:
    numbers = (
        use.total, use.free, use.used, use.model, use.context, use.compute,
        use.unaccounted,
    )  # fmt: skip
    cells = [Cell(line[0], sort=line[0])]
    for text, number in zip(line[1:], numbers, strict=True):
        mib = None if number is None else number / _MIB
        is_negative = number is not None and number < 0
        tip = NEGATIVE_TIP if is_negative else ""
        cells.append(Cell(text, sort=mib, raw=mib, tip=tip, caution=is_negative))
    return tuple(cells)
