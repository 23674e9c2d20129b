"""The one table of commands: it feeds menus, palette, keys sheet and README."""

from collections.abc import Callable

from ggscope.gui.command import Command, Needs
from ggscope.gui.desk import Desk
from ggscope.model.selection import ColorBy, Filter
from ggscope.session.session import Session


def _with_session(call: Callable[[Session], object]) -> Callable[[Desk], object]:
    """Return a handler that does nothing where no file is open."""

    def run(desk: Desk) -> object:
        return None if desk.session is None else call(desk.session)

    return run


def _color(by: ColorBy, text: str) -> Command:
    return Command(
        id=f"color.{by}",
        text=text,
        menu="View/Colour by",
        needs=Needs.DOCUMENT,
        run=_with_session(lambda s: s.set_color_by(by)),
        is_on=lambda d: d.session is not None and d.session.color_by == by,
    )


def _layout(name: str, text: str, *keys: str) -> Command:
    def run(desk: Desk) -> None:
        if desk.document is None:
            return
        if name == "grid":
            desk.document.workspace.toggle_grid()
        elif name == "dual":
            desk.document.workspace.set_layout_name("dual")
        else:
            desk.document.workspace.set_layout_name("single")

    return Command(
        id=f"layout.{name}",
        text=text,
        menu="View/Layout",
        keys=keys,
        needs=Needs.DOCUMENT,
        run=run,
        is_on=lambda d: d.settings.layout.name == name,
    )


def _theme(name: str, text: str) -> Command:
    return Command(
        id=f"theme.{name}",
        text=text,
        menu="View/Theme",
        run=lambda d: d.settings.change("appearance", theme=name),
        is_on=lambda d: d.settings.appearance.theme == name,
    )


def _renderer(name: str, text: str) -> Command:
    return Command(
        id=f"renderer.{name}",
        text=text,
        menu="View/Renderer",
        run=lambda d: d.settings.change("drawing", renderer=name),
        is_on=lambda d: d.settings.drawing.renderer == name,
    )


def _drawer(view_id: str, text: str) -> Command:
    def run(desk: Desk) -> None:
        if desk.document is not None:
            desk.document.workspace.show_drawer(view_id)

    return Command(
        id=f"show.{view_id}", text=text, menu="Analyse", needs=Needs.DOCUMENT, run=run
    )


def _float(view_id: str, text: str) -> Command:
    def run(desk: Desk) -> None:
        if desk.document is not None:
            desk.document.workspace.toggle_float(view_id)

    return Command(
        id=f"float.{view_id}",
        text=text,
        menu="View/Float",
        needs=Needs.DOCUMENT,
        run=run,
        is_on=lambda d: view_id in d.settings.layout.floating,
    )


def _bookmark(number: int) -> Command:
    return Command(
        id=f"go.bookmark_{number}",
        text=f"Bookmark {number}",
        menu="Go/Bookmarks",
        keys=(f"Alt+{number}",),
        needs=Needs.BOOKMARK,
        run=_with_session(lambda s: s.go_to_bookmark(number - 1)),
    )


def _of_workspace(name: str) -> Callable[[Desk], object]:
    def run(desk: Desk) -> object:
        if desk.document is None:
            return None
        return getattr(desk.document.workspace, name)()

    return run


def _find(desk: Desk) -> None:
    if desk.document is not None:
        field = desk.document.toolbar.search.edit
        field.setFocus()
        field.selectAll()


def _add_filter(desk: Desk) -> None:
    if desk.document is not None:
        desk.document.show_filter_popup()


def _pan(share: float) -> Callable[[Desk], object]:
    return _with_session(lambda s: s.pan(share))


_ZOOM = 1.5
_T = Needs.TRACE

COMMANDS: tuple[Command, ...] = (
    # File
    Command(
        id="file.open",
        text="Open…",
        menu="File",
        keys=("Ctrl+O",),
        run=lambda d: d.open_dialog(),
    ),
    Command(
        id="file.open_with",
        text="Open with another reader…",
        menu="File",
        needs=Needs.DOCUMENT,
        run=lambda d: d.open_with_dialog(),
    ),
    Command(
        id="file.reload",
        text="Reload",
        menu="File",
        keys=("F5", "Ctrl+R"),
        needs=Needs.DOCUMENT,
        run=_with_session(lambda s: s.reload()),
    ),
    Command(
        id="file.close",
        text="Close tab",
        menu="File",
        keys=("Ctrl+W",),
        needs=Needs.DOCUMENT,
        run=lambda d: d.close_current(),
    ),
    Command(
        id="file.export",
        text="Export figure…",
        menu="File",
        keys=("Ctrl+E",),
        needs=_T,
        run=lambda d: d.export_figure(),
        separated=True,
    ),
    Command(
        id="file.export_again",
        text="Repeat last export",
        menu="File",
        keys=("Ctrl+Shift+E",),
        needs=_T,
        run=lambda d: d.repeat_export(),
    ),
    Command(
        id="file.quit",
        text="Quit",
        menu="File",
        keys=("Ctrl+Q",),
        run=lambda d: d.close(),
        separated=True,
    ),
    # Edit
    Command(
        id="edit.copy",
        text="Copy",
        menu="Edit",
        keys=("Ctrl+C",),
        needs=_T,
        run=lambda d: d.copy("tsv"),
    ),
    Command(
        id="edit.copy_markdown",
        text="Copy as Markdown",
        menu="Edit",
        keys=("Ctrl+Shift+C",),
        needs=_T,
        run=lambda d: d.copy("markdown"),
    ),
    Command(
        id="edit.find",
        text="Find",
        menu="Edit",
        keys=("Ctrl+F", "/"),
        needs=Needs.DOCUMENT,
        run=_find,
        separated=True,
    ),
    Command(
        id="edit.next_hit",
        text="Next hit",
        menu="Edit",
        keys=("Return", "F3", "Enter"),
        needs=Needs.HITS,
        run=_with_session(lambda s: s.step_hit(1)),
    ),
    Command(
        id="edit.previous_hit",
        text="Previous hit",
        menu="Edit",
        keys=("Shift+Return", "Shift+F3", "Shift+Enter"),
        needs=Needs.HITS,
        run=_with_session(lambda s: s.step_hit(-1)),
    ),
    Command(
        id="edit.add_filter",
        text="Add to filter…",
        menu="Edit",
        keys=("Ctrl+Shift+F",),
        needs=_T,
        run=_add_filter,
        separated=True,
    ),
    Command(
        id="edit.clear_filter",
        text="Clear filter",
        menu="Edit",
        needs=Needs.FILTER,
        run=_with_session(lambda s: s.set_filter(Filter())),
    ),
    Command(
        id="edit.clear_selection",
        text="Clear selection",
        menu="Edit",
        needs=Needs.TARGET,
        run=_with_session(lambda s: s.clear_selection()),
    ),
    Command(
        id="edit.escape",
        text="Back out",
        menu="Edit",
        keys=("Esc",),
        run=lambda d: d.escape(),
    ),
    Command(
        id="edit.settings",
        text="Settings…",
        menu="Edit",
        keys=("Ctrl+,",),
        run=lambda d: d.show_settings(),
        separated=True,
    ),
    # View
    _layout("dual", "Dual view"),
    _layout("grid", "2×2 grid", "G"),
    _layout("single", "Single view"),
    Command(
        id="layout.reset",
        text="Reset layout",
        menu="View/Layout",
        needs=Needs.DOCUMENT,
        run=_of_workspace("reset_layout"),
        separated=True,
    ),
    _float("details", "Details"),
    _float("statistics", "Selection statistics"),
    _float("problems", "Problems"),
    _float("table", "Trace table"),
    Command(
        id="view.full",
        text="Full-screen view",
        menu="View",
        keys=("F11",),
        needs=Needs.DOCUMENT,
        run=lambda d: d.toggle_full_screen(),
    ),
    Command(
        id="view.details",
        text="Details",
        menu="View",
        keys=("Q",),
        needs=Needs.DOCUMENT,
        run=_of_workspace("toggle_details"),
        is_on=lambda d: d.settings.layout.shows_details,
    ),
    Command(
        id="view.drawer",
        text="Drawer",
        menu="View",
        keys=("Shift+Q",),
        needs=Needs.DOCUMENT,
        run=_of_workspace("toggle_drawer"),
        is_on=lambda d: d.settings.layout.shows_drawer,
    ),
    Command(
        id="view.detailed",
        text="Detailed rows",
        menu="View",
        keys=("T",),
        needs=_T,
        run=lambda d: d.toggle_detailed(),
    ),
    Command(
        id="view.stalls",
        text="Stalls over lanes",
        menu="View",
        needs=Needs.DOCUMENT,
        run=lambda d: d.settings.change(
            "drawing", shows_stalls=not d.settings.drawing.shows_stalls
        ),
        is_on=lambda d: d.settings.drawing.shows_stalls,
    ),
    Command(
        id="zoom.in",
        text="Zoom in",
        menu="View/Zoom",
        keys=("W", "+", "="),
        needs=_T,
        run=_with_session(lambda s: s.zoom(1 / _ZOOM)),
    ),
    Command(
        id="zoom.out",
        text="Zoom out",
        menu="View/Zoom",
        keys=("S", "-"),
        needs=_T,
        run=_with_session(lambda s: s.zoom(_ZOOM)),
    ),
    Command(
        id="zoom.fit",
        text="Fit all",
        menu="View/Zoom",
        keys=("0", "Home"),
        needs=_T,
        run=_with_session(lambda s: s.fit()),
    ),
    Command(
        id="zoom.selection",
        text="Centre selection, then fit it",
        menu="View/Zoom",
        keys=("F",),
        needs=Needs.TARGET,
        run=_with_session(lambda s: s.focus_selection()),
    ),
    _color("family", "Op family"),
    _color("op", "Op"),
    _color("layer", "Layer"),
    _color("token", "Token"),
    _color("thread", "Thread"),
    _color("phase", "Phase"),
    _color("source", "Memory source"),
    _color("quality", "Quality"),
    Command(
        id="time.start",
        text="From start",
        menu="View/Time format",
        needs=Needs.DOCUMENT,
        run=_with_session(lambda s: s.set_absolute_time(False)),
        is_on=lambda d: d.session is not None and not d.session.absolute_time,
    ),
    Command(
        id="time.absolute",
        text="Absolute",
        menu="View/Time format",
        needs=Needs.DOCUMENT,
        run=_with_session(lambda s: s.set_absolute_time(True)),
        is_on=lambda d: d.session is not None and d.session.absolute_time,
    ),
    _theme("system", "Like the system"),
    _theme("dark", "Dark"),
    _theme("light", "Light"),
    _renderer("auto", "Whichever is faster"),
    _renderer("raster", "Raster"),
    _renderer("opengl", "OpenGL"),
    Command(
        id="view.next_tab",
        text="Next tab",
        menu="View",
        keys=("Ctrl+Tab", "Ctrl+PgDown"),
        needs=Needs.DOCUMENT,
        run=lambda d: d.step_tab(1),
        separated=True,
    ),
    Command(
        id="view.previous_tab",
        text="Previous tab",
        menu="View",
        keys=("Ctrl+Shift+Tab", "Ctrl+PgUp"),
        needs=Needs.DOCUMENT,
        run=lambda d: d.step_tab(-1),
    ),
    # Go
    Command(
        id="go.back",
        text="Back",
        menu="Go",
        keys=("Alt+Left", "Ctrl+Z"),
        needs=Needs.BACK,
        run=_with_session(lambda s: s.back()),
    ),
    Command(
        id="go.forward",
        text="Forward",
        menu="Go",
        keys=("Alt+Right", "Ctrl+Shift+Z"),
        needs=Needs.FORWARD,
        run=_with_session(lambda s: s.forward()),
    ),
    Command(
        id="go.lane",
        text="Go to lane or tensor…",
        menu="Go",
        keys=("Ctrl+P",),
        needs=_T,
        run=lambda d: d.show_go_to(),
        separated=True,
    ),
    Command(
        id="go.palette",
        text="Command palette…",
        menu="Go",
        keys=("Ctrl+Shift+P",),
        run=lambda d: d.show_palette(),
    ),
    Command(
        id="go.next_span",
        text="Next span on the lane",
        menu="Go",
        keys=(".",),
        needs=Needs.SELECTION,
        run=_with_session(lambda s: s.step_span(1)),
        separated=True,
    ),
    Command(
        id="go.previous_span",
        text="Previous span on the lane",
        menu="Go",
        keys=(",",),
        needs=Needs.SELECTION,
        run=_with_session(lambda s: s.step_span(-1)),
    ),
    Command(
        id="go.next_token",
        text="Next token",
        menu="Go",
        keys=("]",),
        needs=_T,
        run=_with_session(lambda s: s.step_token(1)),
    ),
    Command(
        id="go.previous_token",
        text="Previous token",
        menu="Go",
        keys=("[",),
        needs=_T,
        run=_with_session(lambda s: s.step_token(-1)),
    ),
    Command(
        id="go.left",
        text="Pan left",
        menu="Go/Pan",
        keys=("A", "Left"),
        needs=_T,
        run=_pan(-0.25),
    ),
    Command(
        id="go.right",
        text="Pan right",
        menu="Go/Pan",
        keys=("D", "Right"),
        needs=_T,
        run=_pan(0.25),
    ),
    Command(
        id="go.left_little",
        text="Pan left a little",
        menu="Go/Pan",
        keys=("Shift+A", "Shift+Left"),
        needs=_T,
        run=_pan(-0.05),
    ),
    Command(
        id="go.right_little",
        text="Pan right a little",
        menu="Go/Pan",
        keys=("Shift+D", "Shift+Right"),
        needs=_T,
        run=_pan(0.05),
    ),
    Command(
        id="go.left_page",
        text="Pan left by a page",
        menu="Go/Pan",
        keys=("Ctrl+Left",),
        needs=_T,
        run=_pan(-1.0),
    ),
    Command(
        id="go.right_page",
        text="Pan right by a page",
        menu="Go/Pan",
        keys=("Ctrl+Right",),
        needs=_T,
        run=_pan(1.0),
    ),
    Command(
        id="go.end",
        text="End of the trace",
        menu="Go/Pan",
        keys=("End",),
        needs=_T,
        run=_with_session(lambda s: s.show_end()),
    ),
    Command(
        id="mark.range",
        text="Turn selection into a range",
        menu="Go/Bookmarks",
        keys=("R",),
        needs=Needs.SELECTION,
        run=_with_session(lambda s: s.mark_selection()),
    ),
    Command(
        id="mark.temporary",
        text="Mark for now",
        menu="Go/Bookmarks",
        keys=("M",),
        needs=_T,
        run=_with_session(lambda s: s.add_bookmark("mark", permanent=False)),
    ),
    Command(
        id="mark.named",
        text="Mark with a name…",
        menu="Go/Bookmarks",
        keys=("Shift+M",),
        needs=_T,
        run=lambda d: d.name_bookmark(),
    ),
    Command(
        id="mark.here",
        text="Bookmark here",
        menu="Go/Bookmarks",
        keys=("Ctrl+D",),
        needs=_T,
        run=_with_session(lambda s: s.add_bookmark()),
    ),
    *(_bookmark(number) for number in range(1, 10)),
    # Analyse
    _drawer("statistics", "Selection statistics"),
    _drawer("problems", "Problems"),
    Command(
        id="analyse.save_filter",
        text="Save filter…",
        menu="Analyse",
        needs=Needs.FILTER,
        run=lambda d: d.save_filter(),
        separated=True,
    ),
    Command(
        id="analyse.ops",
        text="Op table…",
        menu="Analyse",
        needs=_T,
        run=lambda d: d.show_op_tables(),
        separated=True,
    ),
    # Help
    Command(
        id="help.guide", text="User guide", menu="Help", run=lambda d: d.show_guide()
    ),
    Command(
        id="help.keys",
        text="Keys",
        menu="Help",
        keys=("?", "F1"),
        run=lambda d: d.show_keys(),
    ),
    Command(
        id="help.readers", text="Readers", menu="Help", run=lambda d: d.show_readers()
    ),
    Command(
        id="help.report",
        text="Copy system report",
        menu="Help",
        run=lambda d: d.copy_system_report(),
    ),
    Command(
        id="help.about",
        text="About ggscope",
        menu="Help",
        run=lambda d: d.show_about(),
        separated=True,
    ),
)

PASSIVE_KEYS: tuple[tuple[str, str], ...] = (
    ("Up / Down, PgUp / PgDown", "Scroll lanes or rows"),
    ("Wheel", "Scroll lanes"),
    ("Ctrl+wheel, pinch", "Zoom time at the cursor"),
    ("Shift+wheel", "Pan time"),
    ("Left drag", "Mark a range"),
    ("Middle drag, Shift+left drag", "Pan"),
    ("Ctrl+left drag", "Zoom to a region"),
    ("Click, Ctrl+click", "Select, add to the selection"),
    ("Double click", "Fit that span"),
    ("Right click", "Menu of what is there"),
)
"""Keys and gestures that the views handle themselves."""

MENUS = ("File", "Edit", "View", "Go", "Analyse", "Help")


def keys_markdown() -> str:
    """Return the table of keys for README and manual."""
    lines = ["| Key | Action |", "| --- | --- |"]
    for command in COMMANDS:
        if command.keys and not command.id.startswith("go.bookmark_"):
            keys = " ".join(f"`{key}`" for key in command.keys)
            lines.append(f"| {keys} | {command.text.removesuffix('…')} |")
    lines.append("| `Alt+1` … `Alt+9` | Go to bookmark 1 … 9 |")
    lines += [f"| {keys} | {text} |" for keys, text in PASSIVE_KEYS]
    return "\n".join(lines) + "\n"


__all__ = ["COMMANDS", "MENUS", "PASSIVE_KEYS", "keys_markdown"]
