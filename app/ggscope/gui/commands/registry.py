"""All commands of the window in one table, in the order of the menus.

Menu bar, palette, keys sheet and README read it. Adding a command is adding a row.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Flag, auto
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ggscope.analysis.rows.colorings import COLORINGS, Coloring
from ggscope.gui.context import WindowContext
from ggscope.model.selection import Filter
from ggscope.session.settings import LayoutName
from ggscope.views.registry import BUILTIN, ViewEntry

if TYPE_CHECKING:
    from ggscope.gui.dialogs.window_dialogs import WindowDialogs
    from ggscope.gui.document import Document
    from ggscope.gui.panes.workspace import Workspace
    from ggscope.session.live import LiveSession
    from ggscope.session.session import Session
    from ggscope.views.base.cells import CopyForm


class CommandContext(WindowContext, Protocol):
    """What commands ask of the window."""

    @property
    def dialogs(self) -> "WindowDialogs":
        """Dialogs and lists that commands open."""

    @property
    def can_reopen(self) -> bool:
        """Whether a tab was closed that can be opened again."""

    def open_dialog(self) -> None:
        """Ask for files and open them."""

    def open_folder_dialog(self) -> None:
        """Ask for a folder and open it."""

    def open_with_dialog(self) -> None:
        """Open the file in front with another reader."""

    def show_keys(self) -> None:
        """Show the sheet of keys."""

    def close_current(self) -> None:
        """Close the tab in front."""

    def close_others(self) -> None:
        """Close all tabs but the one in front."""

    def close_right(self) -> None:
        """Close the tabs to the right of the one in front."""

    def reopen_tab(self) -> None:
        """Open the tab that was closed last."""

    def step_tab(self, by: int) -> None:
        """Go to another tab."""

    def copy_path(self) -> None:
        """Copy the path of the file in front."""

    def show_file(self) -> None:
        """Show the file in front in its folder."""

    def copy(self, form: "CopyForm") -> None:
        """Copy rows as "tsv" or "markdown"."""

    def escape(self) -> None:
        """Cancel or clear what can be."""

    def toggle_full_screen(self) -> None:
        """Fill the screen with a view, or leave that."""

    def toggle_detailed(self) -> None:
        """Change between compact and detailed rows."""

    def quit(self) -> None:
        """Close the window."""


Run = Callable[[CommandContext], object]


class Needs(Flag):
    """What must be there for a command to make sense."""

    NOTHING = 0
    DOCUMENT = auto()
    TRACE = auto()
    SELECTION = auto()
    TARGET = auto()
    """Something selected or a marked range."""
    HITS = auto()
    FILTER = auto()
    BACK = auto()
    FORWARD = auto()
    BOOKMARK = auto()
    BOOKMARK_UNDO = auto()
    BOOKMARK_REDO = auto()
    LIVE = auto()
    """A program that is followed and may go on."""
    FOLLOWED = auto()
    """A program that is followed, or can be followed again."""
    RUN = auto()
    """A program that the tab has started, also when it has ended."""
    RECORDING = auto()
    """Something was recorded here that can be saved."""
    FILE = auto()
    """The tab shows a file that is there."""
    GROWING = auto()
    """The tab shows a log, or calls of CUDA without a last line, and does not follow
    it."""
    HIDDEN = auto()
    """A lane is hidden."""
    CLOSED = auto()
    """A tab was closed that can be opened again."""


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that the program can do.

    Attributes
    ----------
    id : stable name, used by ``keys.json``.
    text : what menus and the palette say.
    shortcuts : in Qt's portable form, with blanks between them; the first is shown.
    needs : when it is enabled.
    run : what it does.
    is_on : for commands with a tick: whether it is set now.
    title : what menus and the palette say instead of `text` now; "" = there is nothing
        of the kind, and it is left out.
    separated : whether a line stands above it in the menu.
    menu : path of the menu, parts joined by "/".
    """

    id: str
    text: str
    shortcuts: str
    needs: Needs
    run: Run
    is_on: Callable[[CommandContext], bool] | None = None
    title: Callable[[CommandContext], str] | None = None
    separated: bool = False
    menu: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The shortcuts, one by one."""
        return tuple(self.shortcuts.split())


def conditions(window: CommandContext) -> Needs:
    """Return everything that is there now."""
    session = window.session
    now = Needs.CLOSED if window.can_reopen else Needs.NOTHING
    if session is None:
        return now
    now |= Needs.DOCUMENT
    if window.document is not None and window.document.saved_files:
        now |= Needs.FILE
    if session.run is not None:
        now |= Needs.RUN
    live = None if window.document is None else window.document.live
    if live is not None and live.is_on:
        now |= Needs.LIVE | Needs.FOLLOWED
    if live is not None and live.can_follow_again:
        now |= Needs.FOLLOWED
    if window.document is not None and window.document.has_recording:
        now |= Needs.RECORDING
    if session.trace is None:
        return now
    now |= Needs.TRACE
    # The first window is shown before numpy is imported; with a trace it is there.
    from ggscope.readers.cuda import is_cut_short

    may_grow = session.trace.log is not None or is_cut_short(session.trace)
    if may_grow and live is None and Needs.FILE in now:
        now |= Needs.GROWING
    for condition, holds in (
        (Needs.SELECTION, bool(session.selection.current)),
        (
            Needs.TARGET,
            bool(session.selection.current) or session.ranges.marked is not None,
        ),
        (Needs.HITS, session.queries.n_hits > 0),
        (Needs.FILTER, bool(session.queries.filter)),
        (Needs.BACK, session.history.can_go_back),
        (Needs.FORWARD, session.history.can_go_forward),
        (Needs.HIDDEN, bool(session.lanes.state.hidden)),
        (Needs.BOOKMARK, bool(session.bookmarks.items)),
        (Needs.BOOKMARK_UNDO, bool(session.bookmarks.undo_title)),
        (Needs.BOOKMARK_REDO, bool(session.bookmarks.redo_title)),
    ):
        if holds:
            now |= condition
    return now


def of_document(work: Callable[["Document"], object]) -> Run:
    """Return what works on the tab in front, if there is one."""

    def run(window: CommandContext) -> None:
        if window.document is not None:
            work(window.document)

    return run


def of_workspace(work: Callable[["Workspace"], object]) -> Run:
    """Return what works on the panes of the tab in front."""
    return of_document(lambda document: work(document.workspace))


def of_session(work: Callable[["Session"], object]) -> Run:
    """Return what works on the session in front."""
    return of_document(lambda document: work(document.session))


NOTHING, DOCUMENT, TRACE = Needs.NOTHING, Needs.DOCUMENT, Needs.TRACE
SELECTION, TARGET, HITS = Needs.SELECTION, Needs.TARGET, Needs.HITS
FILTER, BACK, FORWARD = Needs.FILTER, Needs.BACK, Needs.FORWARD
BOOKMARK_UNDO, BOOKMARK_REDO = Needs.BOOKMARK_UNDO, Needs.BOOKMARK_REDO
LIVE = Needs.LIVE
RECORDING, FILE, CLOSED = Needs.RECORDING, Needs.FILE, Needs.CLOSED
HIDDEN = Needs.HIDDEN
_LINE = "line"
"""Stands between two commands with a line between them."""
_ZOOM = 1.5


def _shows(menu: str) -> Iterator[Command]:
    """Yield what shows the views of a menu: by their keys, those without one last."""
    views = [view for view in BUILTIN if view.menu == menu]
    for view in sorted(views, key=lambda view: view.keys or "~"):
        run = of_workspace(partial(_show, view.id))
        needs = Needs.RUN if view.of_run else DOCUMENT
        yield Command(f"show.{view.id}", view.title, view.keys, needs, run)


def _show(view_id: str, workspace: "Workspace") -> None:
    workspace.show_view(view_id)


def _float(view: ViewEntry) -> Command:
    return Command(
        f"float.{view.id}",
        view.title,
        "",
        Needs.RUN if view.of_run else DOCUMENT,
        of_workspace(lambda w: w.toggle_float(view.id)),
        is_on=lambda w: view.id in w.settings.layout.floating,
    )


def _layout(name: LayoutName, text: str, key: str = "") -> Command:
    run = of_workspace(lambda w: w.set_layout_name(name))
    if name == "grid":
        run = of_workspace(lambda w: w.toggle_grid())
    return Command(
        f"layout.{name}",
        text,
        key,
        DOCUMENT,
        run,
        is_on=lambda w: w.settings.layout.name == name,
    )


def color_command(coloring: Coloring) -> Command:
    """Return the command that colours the timeline by `coloring`."""
    by, text = coloring.id, coloring.title[:1].upper() + coloring.title[1:]
    return Command(
        f"color.{by}",
        text,
        "",
        DOCUMENT,
        of_session(lambda s: s.display.set_color_by(by)),
        is_on=lambda w: w.session is not None and w.session.display.color_by == by,
        title=lambda w: (
            text if w.session is None or by in w.session.display.colorings else ""
        ),
    )


def _time(name: str, text: str, *, is_absolute: bool) -> Command:
    return Command(
        f"time.{name}",
        text,
        "",
        DOCUMENT,
        of_session(lambda s: s.display.set_absolute_time(is_absolute)),
        is_on=lambda w: (
            w.session is not None and w.session.display.absolute_time is is_absolute
        ),
    )


def _setting(id_: str, text: str, topic: str, field: str) -> Command:
    """Return a command that sets a field to the last part of its id."""
    value = id_.rpartition(".")[2]
    return Command(
        id_,
        text,
        "",
        NOTHING,
        lambda w: w.settings.change(topic, **{field: value}),
        is_on=lambda w: getattr(getattr(w.settings, topic), field) == value,
    )


def _switch(id_: str, text: str, key: str, topic: str, field: str) -> Command:
    """Return a command that turns a setting on and off."""

    def is_on(window: CommandContext) -> bool:
        return bool(getattr(getattr(window.settings, topic), field))

    return Command(
        id_,
        text,
        key,
        DOCUMENT,
        lambda w: w.settings.change(topic, **{field: not is_on(w)}),
        is_on=is_on,
    )


def _pan(name: str, text: str, keys: str, share: float) -> Command:
    return Command(
        f"go.{name}", text, keys, TRACE, of_session(lambda s: s.viewport.pan(share))
    )


def _bookmark(number: int) -> Command:
    def title(window: CommandContext) -> str:
        marks = () if window.session is None else window.session.bookmarks.items
        return marks[number - 1].name if number <= len(marks) else ""

    return Command(
        f"go.bookmark_{number}",
        f"Bookmark {number}",
        f"Alt+{number}",
        Needs.BOOKMARK,
        of_session(lambda s: s.bookmarks.show(number - 1)),
        title=title,
    )


def _session(
    id_: str,
    text: str,
    keys: str,
    needs: Needs,
    work: Callable[["Session"], object],
) -> Command:
    """Return a command that works on the session in front."""
    return Command(id_, text, keys, needs, of_session(work))


def _is_measuring(window: CommandContext) -> bool:
    return window.session is not None and window.session.ruler.is_active


def _mark_for_now(session: "Session") -> None:
    from ggscope.session.bookmarks.bookmarks import TEMPORARY

    session.bookmarks.add(TEMPORARY, permanent=False)


def _close_groups(session: "Session") -> None:
    if session.index is not None:
        closed = frozenset(session.index.lanes.groups)
        session.lanes.set_state(replace(session.lanes.state, collapsed=closed))


def _reset_lanes(session: "Session") -> None:
    from ggscope.analysis.rows.lanes import LaneState

    session.lanes.set_state(LaneState(names=session.lanes.state.names))


def _shows_details(window: CommandContext) -> bool:
    return window.document is not None and window.document.workspace.shows_details


def _shows_drawer(window: CommandContext) -> bool:
    return window.document is not None and window.document.workspace.drawer.is_open


def _live(
    id_: str,
    text: str,
    keys: str,
    work: Callable[["LiveSession"], object],
    is_on: Callable[["LiveSession"], bool] | None = None,
) -> Command:
    """Return a command that works on what follows a program in the tab in front."""

    def run(window: CommandContext) -> None:
        live = None if window.document is None else window.document.live
        if live is not None:
            work(live)

    def holds(window: CommandContext) -> bool:
        live = None if window.document is None else window.document.live
        return live is not None and is_on is not None and is_on(live)

    return Command(id_, text, keys, LIVE, run, is_on=holds if is_on else None)


def _end_title(window: CommandContext) -> str:
    live = None if window.document is None else window.document.live
    is_on = live is not None and live.is_on
    return "Jump to live" if is_on else "End of trace"


def _follow_file(window: CommandContext) -> None:
    if window.document is not None:
        window.follow(str(window.document.path))


def _detach(window: CommandContext) -> None:
    live = None if window.document is None else window.document.live
    if live is not None and live.is_on:
        live.finish()
    elif live is not None and live.can_follow_again:
        live.follow_again()


def _detach_title(window: CommandContext) -> str:
    live = None if window.document is None else window.document.live
    again = live is not None and live.can_follow_again
    return "Follow the program again" if again else "Detach from the program"


def _menu(path: str, *commands: Command | str) -> tuple[Command, ...]:
    """Return commands that stand in a menu, one after the other."""
    return tuple(
        replace(command, menu=path, separated=before == _LINE)
        for before, command in zip(("", *commands), commands, strict=False)
        if isinstance(command, Command)
    )


# fmt: off
_FILE = _menu(
    "File",
    Command("file.open", "Open…", "Ctrl+O", NOTHING, lambda w: w.open_dialog()),
    Command("file.open_folder", "Open folder…", "Ctrl+Shift+O", NOTHING, lambda w: w.open_folder_dialog()),
    Command("file.record", "Record a program…", "", NOTHING, lambda w: w.dialogs.show_record()),
    Command("file.live", "Follow a running program…", "", NOTHING, lambda w: w.dialogs.show_follow()),
    Command("file.follow_file", "Follow this file", "", Needs.GROWING, _follow_file),
    Command("file.save_recording", "Save recording…", "Ctrl+S", RECORDING, of_document(lambda d: d.save_recording())),
    Command("file.add", "Add to session…", "", DOCUMENT, lambda w: w.add_dialog()),
    Command("file.parts", "Files of this session…", "", DOCUMENT, lambda w: w.dialogs.show_parts()),
    Command("file.open_with", "Open with another reader…", "", DOCUMENT, lambda w: w.open_with_dialog()),
    _session("file.reload", "Reload", "F5 Ctrl+R", DOCUMENT, lambda s: s.reload()),
    Command("file.close", "Close tab", "Ctrl+W", DOCUMENT, lambda w: w.close_current()),
    Command("file.reopen", "Reopen closed tab", "Ctrl+Shift+T", CLOSED, lambda w: w.reopen_tab()),
    _LINE,
    Command("file.export", "Export figure…", "Ctrl+E", TRACE, lambda w: w.dialogs.export_figure()),
    Command("file.export_data", "Export data…", "Ctrl+Alt+E", TRACE, lambda w: w.dialogs.export_data()),
    Command("file.save_table", "Save table as…", "", TRACE, lambda w: w.dialogs.save_table()),
    Command("file.report", "Save report…", "", TRACE, lambda w: w.dialogs.save_report()),
    Command("file.export_again", "Repeat last export", "Ctrl+Shift+E", TRACE, lambda w: w.dialogs.repeat_export()),
    _LINE,
    Command("file.quit", "Quit", "Ctrl+Q", NOTHING, lambda w: w.quit()),
)
_TAB = _menu(
    "File/Tab",
    Command("tab.close_others", "Close other tabs", "", DOCUMENT, lambda w: w.close_others()),
    Command("tab.close_right", "Close tabs to the right", "", DOCUMENT, lambda w: w.close_right()),
    _LINE,
    Command("tab.copy_path", "Copy path", "", FILE, lambda w: w.copy_path()),
    Command("tab.show_file", "Show in folder", "", FILE, lambda w: w.show_file()),
)
_EDIT = _menu(
    "Edit",
    Command("edit.copy", "Copy", "Ctrl+C", TRACE, lambda w: w.copy("tsv")),
    Command("edit.copy_markdown", "Copy as Markdown", "Ctrl+Shift+C", TRACE, lambda w: w.copy("markdown")),
    Command("edit.copy_picture", "Copy picture", "Ctrl+Alt+C", TRACE, lambda w: w.dialogs.copy_picture()),
    _LINE,
    Command("edit.find", "Find", "Ctrl+F /", DOCUMENT, of_document(lambda d: d.toolbar.search.start())),
    _session("edit.next_hit", "Next hit", "Return F3 Enter", HITS, lambda s: s.navigator.step_hit(1)),
    _session("edit.previous_hit", "Previous hit", "Shift+Return Shift+F3 Shift+Enter", HITS, lambda s: s.navigator.step_hit(-1)),
    _LINE,
    Command("edit.add_filter", "Add to filter…", "Ctrl+Shift+F", TRACE, of_document(lambda d: d.show_filter_popup())),
    _session("edit.clear_filter", "Clear filter", "", FILTER, lambda s: s.queries.set_filter(Filter())),
    _session("edit.clear_selection", "Clear selection", "", TARGET, lambda s: s.clear_selection()),
    Command("edit.escape", "Cancel or clear selection", "Esc", NOTHING, lambda w: w.escape()),
    _LINE,
    Command("edit.settings", "Settings…", "Ctrl+,", NOTHING, lambda w: w.dialogs.show_settings()),
)
_PANES = (
    *_menu("View/Panes", *_shows("View/Panes")),
    *_menu("Analyse", *_shows("Analyse")),
    *_menu("Go", *_shows("Go")),
    *_menu(
        "View/Layout",
        _layout("dual", "Dual view"),
        _layout("grid", "2×2 grid", "G"),
        _layout("single", "Single view"),
        _LINE,
        Command("layout.reset", "Reset layout", "", DOCUMENT, of_workspace(lambda w: w.reset_layout())),
    ),
    *_menu("View/Float", *(_float(view) for view in BUILTIN if not view.uses_gl)),
)
_VIEW = (
    *_menu(
        "View",
        Command("view.full", "Full-screen view", "F11", DOCUMENT, lambda w: w.toggle_full_screen()),
        Command("view.details", "Details", "Q", DOCUMENT, of_workspace(lambda w: w.toggle_details()), is_on=_shows_details),
        Command("view.drawer", "Bottom panel", "Shift+Q", DOCUMENT, of_workspace(lambda w: w.toggle_drawer()), is_on=_shows_drawer),
        Command("view.detailed", "Detailed rows", "T", TRACE, lambda w: w.toggle_detailed()),
        _switch("view.only_range", "Limit tables to range", "Shift+T", "tables", "only_range"),
        _switch("view.stalls", "Show stalls", "", "drawing", "shows_stalls"),
        _switch("view.waits", "Show waits", "Shift+W", "drawing", "shows_waits"),
        _switch("view.arrows", "Show arrows of the selected op", "E", "drawing", "shows_arrows"),
        _switch("view.critical_path", "Show critical path", "C", "drawing", "shows_critical_path"),
    ),
    *_menu(
        "View/Lanes",
        Command("lanes.rename", "Rename lane or group…", "F2", TRACE, lambda w: w.dialogs.rename_lane()),
        _session("lanes.show_hidden", "Show hidden lanes", "", HIDDEN, lambda s: s.lanes.set_state(replace(s.lanes.state, hidden=frozenset()))),
        _LINE,
        _session("lanes.open", "Expand all groups", "", TRACE, lambda s: s.lanes.set_state(replace(s.lanes.state, collapsed=frozenset()))),
        _session("lanes.close", "Collapse all groups", "", TRACE, _close_groups),
        _session("lanes.reset", "Reset lanes", "", TRACE, _reset_lanes),
    ),
    *_menu(
        "View/Zoom",
        _session("zoom.in", "Zoom in", "W + =", TRACE, lambda s: s.viewport.zoom(1 / _ZOOM)),
        _session("zoom.out", "Zoom out", "S -", TRACE, lambda s: s.viewport.zoom(_ZOOM)),
        _session("zoom.fit", "Fit all", "0 Home", TRACE, lambda s: s.viewport.fit()),
        _session("zoom.selection", "Centre, then fit selection", "F", TARGET, lambda s: s.navigator.focus_selection()),
    ),
    *_menu(
        "View/Colour by",
        *map(color_command, COLORINGS),
    ),
    *_menu(
        "View/Time format",
        _time("start", "From start", is_absolute=False),
        _time("absolute", "Absolute", is_absolute=True),
    ),
    *_menu(
        "View/Theme",
        _setting("theme.system", "System", "appearance", "theme"),
        _setting("theme.dark", "Dark", "appearance", "theme"),
        _setting("theme.light", "Light", "appearance", "theme"),
    ),
    *_menu(
        "View/Renderer",
        _setting("renderer.auto", "Automatic", "drawing", "renderer"),
        _setting("renderer.raster", "CPU", "drawing", "renderer"),
        _setting("renderer.opengl", "OpenGL", "drawing", "renderer"),
    ),
    *_menu(
        "View",
        _LINE,
        Command("view.next_tab", "Next tab", "Ctrl+Tab Ctrl+PgDown", DOCUMENT, lambda w: w.step_tab(1)),
        Command("view.previous_tab", "Previous tab", "Ctrl+Shift+Tab Ctrl+PgUp", DOCUMENT, lambda w: w.step_tab(-1)),
    ),
)
_GO = (
    *_menu(
        "Go",
        _session("go.back", "Back", "Alt+Left Ctrl+Z", BACK, lambda s: s.navigator.back()),
        _session("go.forward", "Forward", "Alt+Right Ctrl+Shift+Z", FORWARD, lambda s: s.navigator.forward()),
        _LINE,
        Command("go.lane", "Go to lane, tensor or token…", "Ctrl+P", TRACE, lambda w: w.dialogs.show_go_to()),
        Command("go.palette", "Command palette…", "Ctrl+Shift+P", NOTHING, lambda w: w.dialogs.show_palette()),
        _LINE,
        _session("go.next_span", "Next span on the lane", ".", SELECTION, lambda s: s.navigator.step_span(1)),
        _session("go.previous_span", "Previous span on the lane", ",", SELECTION, lambda s: s.navigator.step_span(-1)),
        _session("go.input", "Last input of the op", "<", SELECTION, lambda s: s.navigator.step_link(-1)),
        _session("go.consumer", "First reader of the op", ">", SELECTION, lambda s: s.navigator.step_link(1)),
        _session("go.next_token", "Next token", "]", TRACE, lambda s: s.navigator.step_token(1)),
        _session("go.previous_token", "Previous token", "[", TRACE, lambda s: s.navigator.step_token(-1)),
        _session("go.replay", "Play or pause replay", "", TRACE, lambda s: s.replay.toggle()),
        _session("go.replay_end", "End replay", "", TRACE, lambda s: s.replay.end()),
    ),
    *_menu(
        "Go/Pan",
        _pan("left", "Pan left", "A Left", -0.25),
        _pan("right", "Pan right", "D Right", 0.25),
        _pan("left_little", "Pan left a little", "Shift+A Shift+Left", -0.05),
        _pan("right_little", "Pan right a little", "Shift+D Shift+Right", 0.05),
        _pan("left_page", "Pan left by a page", "Ctrl+Left", -1.0),
        _pan("right_page", "Pan right by a page", "Ctrl+Right", 1.0),
        Command("go.end", "End of trace", "End", TRACE, of_document(lambda d: d.go_to_end()), title=_end_title),
    ),
    *_menu(
        "Go/Live",
        _live("live.follow", "Follow the running program", "L", lambda f: f.set_follows(not f.follows), lambda f: f.follows),
        _live("live.pause", "Pause display", "Shift+L", lambda f: f.set_paused(not f.is_paused), lambda f: f.is_paused),
        Command("live.stop", "Detach from the program", "", Needs.FOLLOWED, _detach, title=_detach_title),
    ),
    *_menu(
        "Go/Marks",
        _session("mark.range", "Mark time range of selection", "R", SELECTION, lambda s: s.navigator.mark_selection()),
        Command("mark.measure", "Measure", "U", TRACE, of_session(lambda s: s.ruler.measure()), is_on=_is_measuring),
        _session("mark.ruler_next", "Ruler to next edge of a span", "Alt+.", TRACE, lambda s: s.ruler.step(1)),
        _session("mark.ruler_previous", "Ruler to previous edge of a span", "Alt+,", TRACE, lambda s: s.ruler.step(-1)),
        _session("mark.ruler_swap", "Move other end of ruler", "Alt+U", TRACE, lambda s: s.ruler.swap()),
        _LINE,
        _session("mark.temporary", "Temporary bookmark", "M", TRACE, _mark_for_now),
        Command("mark.named", "Bookmark with name and note…", "Shift+M", TRACE, lambda w: w.dialogs.name_bookmark()),
        _session("mark.here", "Bookmark here", "Ctrl+D", TRACE, lambda s: s.bookmarks.add()),
        Command("mark.edit", "Edit bookmark…", "Ctrl+Shift+D", Needs.BOOKMARK, lambda w: w.dialogs.edit_bookmark()),
        Command("mark.delete", "Delete bookmark", "", Needs.BOOKMARK, lambda w: w.dialogs.delete_bookmark()),
        _LINE,
        _session("mark.undo", "Undo bookmark change", "", BOOKMARK_UNDO, lambda s: s.bookmarks.undo()),
        _session("mark.redo", "Redo bookmark change", "", BOOKMARK_REDO, lambda s: s.bookmarks.redo()),
        _LINE,
        _LINE,
        *(_bookmark(number) for number in range(1, 10)),
    ),
)
_ANALYSE = _menu(
    "Analyse",
    _LINE,
    Command("analyse.save_filter", "Save filter…", "", FILTER, lambda w: w.dialogs.save_filter()),
    _LINE,
    Command("analyse.ops", "Op table…", "", TRACE, lambda w: w.dialogs.show_op_tables()),
)
_HELP = _menu(
    "Help",
    Command("help.guide", "User guide", "", NOTHING, lambda w: w.dialogs.show_guide()),
    Command("help.demo", "Live demo…", "", NOTHING, lambda w: w.dialogs.start_demo()),
    Command("help.keys", "Keyboard shortcuts", "? F1", NOTHING, lambda w: w.show_keys()),
    Command("help.readers", "File formats", "", NOTHING, lambda w: w.dialogs.show_readers()),
    Command("help.messages", "Messages…", "", NOTHING, lambda w: w.dialogs.show_messages()),
    Command("help.report", "Copy system report", "", NOTHING, lambda w: w.dialogs.copy_system_report()),
    _LINE,
    Command("help.about", "About ggscope", "", NOTHING, lambda w: w.dialogs.show_about()),
)
# fmt: on

COMMANDS = (*_FILE, *_TAB, *_EDIT, *_PANES, *_VIEW, *_GO, *_ANALYSE, *_HELP)
"""All commands, in the order in which menus and the palette list them."""

MENUS = ("File", "Edit", "View", "Go", "Analyse", "Help")
"""Titles of the menu bar, in order."""
