"""What was repaired, guessed and lost of a trace of CUDA calls."""

from dataclasses import dataclass

from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.common.line_table import warn_broken, warn_stray
from ggscope.readers.cuda import CUT_SHORT
from ggscope.readers.cuda.lines import CallLines, Notes

_CODES = (
    "broken_line", "dropped_events", "functions_left_out", CUT_SHORT, "repaired_line",
    "stray_line", "calls_without_end", "ends_without_call", "clock_back",
    "bad_event_time", "unit_guessed",
)  # fmt: skip


@dataclass(slots=True)
class CallSums:
    """Sums over the events of a file.

    Attributes
    ----------
    n_calls, n_open, n_orphans : calls with both ends, begins without an end, and ends
        without a begin.
    first_open, first_orphan : lines of the first ones, -1 none.
    n_unplaced, n_back : events without a time, and earlier than the one before them.
    unit, is_guessed : see `Times`.
    """

    n_calls: int = 0
    n_open: int = 0
    n_orphans: int = 0
    first_open: int = -1
    first_orphan: int = -1
    n_unplaced: int = 0
    n_back: int = 0
    unit: str = "s"
    is_guessed: bool = False

    def events(self, lines: CallLines) -> dict[str, object]:
        """Return how many calls there are, and how much does not belong to one."""
        return {
            "calls": self.n_calls,
            "unmatched": self.n_open + self.n_orphans,
            "broken_lines": lines.n_broken + self.n_unplaced,
        }


def note_problems(
    builder: TraceBuilder,
    lines: CallLines,
    notes: Notes,
    sums: CallSums,
    *,
    is_over: bool = True,
) -> None:
    """Say what was repaired, guessed and lost, replacing earlier notes.

    `is_over` : no more lines come, so that calls without an end stay so.
    """
    for code in _CODES:
        builder.retract(code)
    warn_broken(builder, lines.n_broken, lines.first_broken)
    _warn_by_notes(builder, notes, is_over)
    if lines.n_repaired:
        builder.warn(
            Severity.NOTICE,
            "repaired_line",
            "lines are invalid JSON; what precedes the damage was read.",
            count=lines.n_repaired,
            place=f"line {lines.first_repaired + 1:,}",
        )
    warn_stray(builder, lines.n_other, lines.first_other, "banners, summaries")
    if sums.n_open and is_over:
        builder.warn(
            Severity.NOTICE,
            "calls_without_end",
            "calls have no end in the file: they are drawn up to the next event of "
            "their thread, and how long they took is unknown.",
            count=sums.n_open,
            place=f"line {sums.first_open + 1:,}",
        )
    if sums.n_orphans:
        builder.warn(
            Severity.NOTICE,
            "ends_without_call",
            "ends of calls have no begin in the file; they are markers.",
            count=sums.n_orphans,
            place=f"line {sums.first_orphan + 1:,}",
        )
    if sums.n_back:
        builder.warn(
            Severity.NOTICE,
            "clock_back",
            "events are earlier than those before them in the file: threads write in "
            "no strict order, or a clock was set back.",
            count=sums.n_back,
        )
    if sums.n_unplaced:
        builder.warn(
            Severity.DATA_LOSS,
            "bad_event_time",
            "events have no time, or one beyond all bounds; they are left out.",
            count=sums.n_unplaced,
        )
    if sums.is_guessed:
        other = "ms" if sums.unit == "s" else "s"
        builder.warn(
            Severity.NOTICE,
            "unit_guessed",
            f"the file does not state the unit of its times; {sums.unit} is what such "
            "programs write.",
            remedy=f"Read it with --option unit={other} where it is {other}.",
        )


def _warn_by_notes(builder: TraceBuilder, notes: Notes, is_over: bool) -> None:
    """Say what the writers of the file say to lack."""
    if notes.n_dropped:
        builder.warn(
            Severity.DATA_LOSS,
            "dropped_events",
            "events are not in the file: they came faster than they could be written, "
            "or the disk was full.",
            count=notes.n_dropped,
        )
    if notes.n_left_out:
        builder.warn(
            Severity.DATA_LOSS,
            "functions_left_out",
            "functions of the driver were looked up beyond those that can be recorded.",
            count=notes.n_left_out,
        )
    if notes.n_begun > notes.n_ended and is_over:
        builder.warn(
            Severity.NOTICE,
            CUT_SHORT,
            "the recording has no last line: the process was killed, or still runs; "
            "calls of its last moments may be missing.",
        )
