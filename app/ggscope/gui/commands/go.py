"""Commands of the Go menu: history, places, panning and bookmarks."""

from collections.abc import Callable

from ggscope.gui.commands.command import Command, Desk, Needs, with_session
from ggscope.session.bookmarks.bookmarks import TEMPORARY


def _bookmark(number: int) -> Command:
    def title(desk: Desk) -> str:
        marks = () if desk.session is None else desk.session.bookmarks
        return marks[number - 1].name if number <= len(marks) else ""

    return Command(
        id=f"go.bookmark_{number}",
        text=f"Bookmark {number}",
        menu="Go/Bookmarks",
        keys=(f"Alt+{number}",),
        needs=Needs.BOOKMARK,
        run=with_session(lambda s: s.go_to_bookmark(number - 1)),
        title=title,
        separated=number == 1,
    )


def _pan(share: float) -> Callable[[Desk], object]:
    return with_session(lambda s: s.pan(share))


GO: tuple[Command, ...] = (
    Command(
        id="go.back",
        text="Back",
        menu="Go",
        keys=("Alt+Left", "Ctrl+Z"),
        needs=Needs.BACK,
        run=with_session(lambda s: s.back()),
    ),
    Command(
        id="go.forward",
        text="Forward",
        menu="Go",
        keys=("Alt+Right", "Ctrl+Shift+Z"),
        needs=Needs.FORWARD,
        run=with_session(lambda s: s.forward()),
    ),
    Command(
        id="go.lane",
        text="Go to lane or tensor…",
        menu="Go",
        keys=("Ctrl+P",),
        needs=Needs.TRACE,
        run=lambda d: d.dialogs.show_go_to(),
        separated=True,
    ),
    Command(
        id="go.palette",
        text="Command palette…",
        menu="Go",
        keys=("Ctrl+Shift+P",),
        run=lambda d: d.dialogs.show_palette(),
    ),
    Command(
        id="go.next_span",
        text="Next span on the lane",
        menu="Go",
        keys=(".",),
        needs=Needs.SELECTION,
        run=with_session(lambda s: s.step_span(1)),
        separated=True,
    ),
    Command(
        id="go.previous_span",
        text="Previous span on the lane",
        menu="Go",
        keys=(",",),
        needs=Needs.SELECTION,
        run=with_session(lambda s: s.step_span(-1)),
    ),
    Command(
        id="go.next_token",
        text="Next token",
        menu="Go",
        keys=("]",),
        needs=Needs.TRACE,
        run=with_session(lambda s: s.step_token(1)),
    ),
    Command(
        id="go.previous_token",
        text="Previous token",
        menu="Go",
        keys=("[",),
        needs=Needs.TRACE,
        run=with_session(lambda s: s.step_token(-1)),
    ),
    Command(
        id="go.left",
        text="Pan left",
        menu="Go/Pan",
        keys=("A", "Left"),
        needs=Needs.TRACE,
        run=_pan(-0.25),
    ),
    Command(
        id="go.right",
        text="Pan right",
        menu="Go/Pan",
        keys=("D", "Right"),
        needs=Needs.TRACE,
        run=_pan(0.25),
    ),
    Command(
        id="go.left_little",
        text="Pan left a little",
        menu="Go/Pan",
        keys=("Shift+A", "Shift+Left"),
        needs=Needs.TRACE,
        run=_pan(-0.05),
    ),
    Command(
        id="go.right_little",
        text="Pan right a little",
        menu="Go/Pan",
        keys=("Shift+D", "Shift+Right"),
        needs=Needs.TRACE,
        run=_pan(0.05),
    ),
    Command(
        id="go.left_page",
        text="Pan left by a page",
        menu="Go/Pan",
        keys=("Ctrl+Left",),
        needs=Needs.TRACE,
        run=_pan(-1.0),
    ),
    Command(
        id="go.right_page",
        text="Pan right by a page",
        menu="Go/Pan",
        keys=("Ctrl+Right",),
        needs=Needs.TRACE,
        run=_pan(1.0),
    ),
    Command(
        id="go.end",
        text="End of the trace",
        menu="Go/Pan",
        keys=("End",),
        needs=Needs.TRACE,
        run=with_session(lambda s: s.show_end()),
    ),
    Command(
        id="mark.range",
        text="Turn selection into a range",
        menu="Go/Bookmarks",
        keys=("R",),
        needs=Needs.SELECTION,
        run=with_session(lambda s: s.mark_selection()),
    ),
    Command(
        id="mark.temporary",
        text="Mark for now",
        menu="Go/Bookmarks",
        keys=("M",),
        needs=Needs.TRACE,
        run=with_session(lambda s: s.add_bookmark(TEMPORARY, permanent=False)),
    ),
    Command(
        id="mark.named",
        text="Mark with a name…",
        menu="Go/Bookmarks",
        keys=("Shift+M",),
        needs=Needs.TRACE,
        run=lambda d: d.dialogs.name_bookmark(),
    ),
    Command(
        id="mark.here",
        text="Bookmark here",
        menu="Go/Bookmarks",
        keys=("Ctrl+D",),
        needs=Needs.TRACE,
        run=with_session(lambda s: s.add_bookmark()),
    ),
    Command(
        id="mark.undo",
        text="Undo change of bookmarks",
        menu="Go/Bookmarks",
        needs=Needs.BOOKMARK_UNDO,
        run=with_session(lambda s: s.undo_bookmarks()),
        separated=True,
    ),
    Command(
        id="mark.redo",
        text="Redo change of bookmarks",
        menu="Go/Bookmarks",
        needs=Needs.BOOKMARK_REDO,
        run=with_session(lambda s: s.redo_bookmarks()),
    ),
    *(_bookmark(number) for number in range(1, 10)),
)
