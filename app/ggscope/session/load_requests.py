"""What a worker is asked to do with files: read them, add some, look beside them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ggscope.model.trace import Trace
from ggscope.session.tasks import TaskContext

if TYPE_CHECKING:
    from ggscope.readers.api import Estimate, ReadContext
    from ggscope.readers.bundle import Bundle
    from ggscope.session.opening import Opened

WINDOW_BYTES = 32
"""What the panes keep of each record, beside the trace itself."""


@dataclass(slots=True)
class Outlook:
    """What is known of a file before it is read; filled in on the worker.

    Attributes
    ----------
    estimate : what reading would cost, None where the reader cannot tell.
    opened : the parts that were read, once they are.
    """

    estimate: "Estimate | None" = None
    opened: "Opened | None" = None

    @property
    def n_records(self) -> int:
        """How many records the file holds, about; 0 = not known."""
        return 0 if self.estimate is None else self.estimate.records


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Read a file with the reader that fits, or with a named one; or several as one.

    Attributes
    ----------
    path : the file, or a folder, whose files are then found on the worker.
    more : further files of the same session.
    left_out : files of a folder that the person took out of the session.
    limit_bytes : memory that reading may use; 0 = what the system has to give.
    is_forced : read it whether it fits into memory or not.
    outlook : where to put the estimate.
    shifts : what is added to the times of files; see `opening.open_parts`.
    """

    path: Path
    reader_id: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    limit_bytes: int = 0
    is_forced: bool = False
    outlook: Outlook = field(default_factory=Outlook)
    more: tuple[Path, ...] = ()
    left_out: frozenset[Path] = frozenset()
    shifts: Mapping[Path, str] = field(default_factory=dict)

    def __call__(self, context: TaskContext) -> Trace:
        """Return the whole trace; early ones are published on the way."""
        # Readers are imported here, on the worker, not before the first window.
        from ggscope.readers.api import ReadContext

        reading = ReadContext(
            progress=context.progress,
            cancel=context.cancel,
            publish=context.publish,
            options=self.options,
        )
        if self.more or self.path.is_dir():
            return self._read_parts(reading)
        return self._read_alone(reading)

    def _read_alone(self, reading: "ReadContext") -> Trace:
        """Return what one file holds."""
        from ggscope.readers.registry import open_trace
        from ggscope.session.opening import alone, with_troubles

        trace = open_trace(
            self.path,
            reader_id=self.reader_id,
            context=reading,
            admit=self._admit,
        )
        trace = with_troubles(trace, reading)
        self.outlook.opened = alone(trace, self.path)
        return trace

    def _read_parts(self, reading: "ReadContext") -> Trace:
        """Return what all files hold together."""
        from ggscope.readers.bundle import survey
        from ggscope.session.opening import open_parts

        bundle = survey((self.path, *self.more), reading.check_cancelled)
        opened = open_parts(
            bundle.without(self.left_out),
            reader_id=self.reader_id,
            context=reading,
            admit=self._admit,
            shifts=self.shifts,
        )
        self.outlook.opened = opened
        return opened.trace

    def _admit(self, estimate: "Estimate") -> None:
        """Refuse a file that would not fit, unless the person wants it all the same."""
        from ggscope.readers.room import judge, too_large

        self.outlook.estimate = estimate
        if self.is_forced:
            return
        fit = judge(
            estimate,
            self.options,
            limit_bytes=self.limit_bytes,
            extra_per_record=WINDOW_BYTES,
        )
        if not fit.fits:
            raise too_large(fit, self.path)


@dataclass(frozen=True, slots=True)
class PartsRequest:
    """Add files to a session that has been read, or take some out; the rest stays.

    Attributes
    ----------
    opened : the session as it is.
    added : files to add.
    removed : files to take out.
    shifts : files whose times to move, and by what; "" = as their clocks tell.
    """

    opened: "Opened"
    added: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    shifts: Mapping[Path, str] = field(default_factory=dict)

    def __call__(self, context: TaskContext) -> "Opened":
        """Return the session as it should be."""
        from ggscope.readers.api import ReadContext
        from ggscope.readers.bundle import survey
        from ggscope.session.opening import shifted, with_more, without

        if not (self.added or self.removed):
            return shifted(self.opened, self.shifts)
        if self.removed:
            return without(self.opened, self.removed)
        reading = ReadContext(progress=context.progress, cancel=context.cancel)
        bundle = survey(self.added, reading.check_cancelled)
        return with_more(self.opened, bundle, reading)


@dataclass(frozen=True, slots=True)
class BesideRequest:
    """Look for files beside a trace that may belong to it."""

    path: Path

    def __call__(self, context: TaskContext) -> "Bundle":
        """Return what lies there."""
        from ggscope.readers.bundle import beside

        return beside(self.path, context.check_cancelled)


__all__ = [
    "WINDOW_BYTES",
    "BesideRequest",
    "LoadRequest",
    "Outlook",
    "PartsRequest",
]
