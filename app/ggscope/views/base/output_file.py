"""Content that another program reads, on its way from a view to a file."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, eq=False)
class OutputFile:
    """A file in a form that another program prescribes.

    Attributes
    ----------
    title : of the dialog that asks for its name.
    suffix : what the proposed name adds to that of the trace: ``.experts.csv``.
    kind : what such files are called in the dialog.
    lines : makes the content, on a worker.
    what : what is in it, for the message: "64 choices".
    on_saved : called with the path, on the main thread, once the file is there.
    """

    title: str
    suffix: str
    kind: str
    lines: Callable[[], Iterable[bytes]]
    what: str
    on_saved: Callable[[Path], None]
