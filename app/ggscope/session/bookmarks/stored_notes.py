"""The stored bookmarks of a trace as notes, for figures made without a window."""

from pathlib import Path

from ggscope.model.notes import Note
from ggscope.model.trace import Trace
from ggscope.sanitize import one_line
from ggscope.session.bookmarks.files import BookmarkStorage, side_car


def stored_notes(trace: Trace) -> tuple[tuple[Note, ...], str]:
    """Return the notes on times of a trace, and a sentence on what is not read.

    They lie beside the file that was opened first, or in the user's data folder.
    Times are ticks of the trace; what lies outside of it is left out.
    """
    import platformdirs  # only where a figure of a timeline is made

    infos = [part.info for part in trace.parts] or [trace.info]
    path = next((path for info in infos for path in info.paths), None)
    if path is None:
        return (), ""
    folder = Path(platformdirs.user_data_dir("ggscope", appauthor=False)) / "bookmarks"
    stored = BookmarkStorage(path, trace.clock.unit, folder).find()
    notes = tuple(
        note._replace(time=time)
        for entry in stored.bookmarks.entries
        for note in (entry.bookmark.as_note(),)
        for time in (note.time.shifted(-trace.clock.origin),)
        if time.intersect(trace.extent) is not None
    )
    problem = stored.problem
    if stored.foreign is not None and (n := len(stored.foreign.bookmarks.entries)):
        name = one_line(side_car(path).name)
        problem = f"{name} belongs to other content; its bookmarks ({n}) are not drawn."
    return notes, problem
