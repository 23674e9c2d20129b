"""What is said of an NPU file that is cut, broken, or changed while it is read."""

from dataclasses import dataclass

import numpy as np

from ggscope.errors import CorruptError, ReadError, TruncatedError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.api import RANGE_OPTION
from ggscope.readers.json_text import JsonSyntaxError, JsonText, locate
from ggscope.readers.npu_options import Settings
from ggscope.readers.source import Change

_CHANGES = {
    Change.GROWN: "the file grew while it was read; what came later is missing",
    Change.SHRUNK: "the file was cut while it was read",
    Change.REWRITTEN: "the file was written to while it was read, so that parts of it "
    "may not belong together",
    Change.REPLACED: "another file took the name of this one while it was read",
    Change.GONE: "the file was removed while it was read",
}
BREAKING = (Change.GROWN, Change.SHRUNK, Change.REWRITTEN)
"""Changes that may be why the text is no JSON."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far reading has come when something happens.

    Attributes
    ----------
    n_events : whole ones so far.
    unfinished : where the rest of the list of events begins; None outside of it.
    has_timeline : whether that list has been met.
    """

    n_events: int
    unfinished: int | None = None
    has_timeline: bool = True


def explained(fault: JsonSyntaxError, text: JsonText, progress: Progress) -> ReadError:
    """Return the error that tells a person where the text is no JSON."""
    n = progress.n_events
    hint = "Open it without option strict to see them." if n else ""
    whole = f"{n:,} whole event comes" if n == 1 else f"{n:,} whole events come"
    place = locate(text, fault.offset)
    where = (
        f"{fault.text}: line {place.line} column {place.column} (char {place.char}), "
        f"byte {fault.offset:,}"
    )
    if not fault.at_end:
        return CorruptError(
            f"{where}; {whole} before it.", offset=fault.offset, hint=hint
        )
    end = _end(text)
    return TruncatedError(
        f"{_cut(text, progress)}, at byte {end:,}; {whole} before it ({where}).",
        offset=min(fault.offset, end),
        hint=hint or "Check that the program that should write it ran to its end.",
    )


def note_fault(builder: TraceBuilder, error: ReadError, n_events: int) -> None:
    """Note that only what stands before a fault is shown."""
    is_cut = isinstance(error, TruncatedError)
    builder.warn(
        Severity.DATA_LOSS,
        "truncated_json" if is_cut else "broken_json",
        f"{error.message} What stands before it was kept.",
        error.offset,
        place=f"timeline_events[{n_events}]",
        remedy="Write the file again, or go on with what is there.",
    )


def note_failure(builder: TraceBuilder, error: ReadError, n_events: int) -> None:
    """Note that the rest of the file could not be read."""
    builder.warn(
        Severity.DATA_LOSS,
        "read_failed",
        f"{error.message} The {_events(n_events)} before that were kept.",
        error.offset,
        remedy=error.hint,
    )


def note_change(
    builder: TraceBuilder, change: Change, n_events: int, position: int
) -> None:
    """Note what happened to the file while it was read, if anything.

    Parameters
    ----------
    n_events, position : how many events were read, up to which byte.
    """
    if change is Change.NONE:
        return
    builder.warn(
        Severity.DATA_LOSS if change in BREAKING else Severity.NOTICE,
        "file_changed",
        f"{_CHANGES[change]}; the {_events(n_events)} up to byte {position:,} were "
        "kept.",
        position,
        remedy="Open it again when it is complete.",
    )


def note_part(builder: TraceBuilder, settings: Settings, n_events: int) -> None:
    """Say which events were left out because the options ask for it.

    Raises
    ------
    ReadError
        If that leaves none.
    """
    if not settings.is_part:
        return
    stop = n_events if settings.stop is None else min(settings.stop, n_events)
    if settings.first >= stop:
        raise ReadError(
            f"the range {settings.texts()[RANGE_OPTION]} holds none of its "
            f"{_events(n_events)}.",
            hint=f"Give another {RANGE_OPTION}.",
        )
    builder.warn(
        Severity.INFO,
        "range_read",
        f"only events {settings.first:,} to {stop:,} of {n_events:,} were read, as "
        "asked for; tokens, commands and dependencies outside are not known.",
        remedy=f"Leave out reader option {RANGE_OPTION} to read all.",
    )


def _cut(text: JsonText, progress: Progress) -> str:
    """Say in the middle of what a text ends."""
    n = progress.n_events
    if progress.unfinished is None:
        where = "behind" if progress.has_timeline else "before"
        return f"the file ends {where} its list of events, within its JSON object"
    buffer = np.empty(256, np.uint8)
    got = text.read_into(progress.unfinished, buffer)
    if buffer[:got].tobytes().strip(b", \t\r\n"):
        return f"the file ends in the middle of event {n:,}"
    if not n:
        return "the file ends before its first event"
    return f"the file ends behind event {n - 1:,}, within its list of events"


def _end(text: JsonText) -> int:
    """Return where a text ends now: perhaps it has been cut."""
    low, high = 0, text.size
    byte = np.empty(1, np.uint8)
    while low < high:
        middle = (low + high) // 2
        if text.read_into(middle, byte):
            low = middle + 1
        else:
            high = middle
    return low


def _events(n: int) -> str:
    return f"{n:,} event" if n == 1 else f"{n:,} events"
