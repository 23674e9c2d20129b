"""Commands of the View menu."""

from ggscope.gui.commands.command import (
    Command,
    Desk,
    Needs,
    of_workspace,
    with_session,
)
from ggscope.model.selection import ColorBy

_ZOOM = 1.5


def _color(by: ColorBy, text: str) -> Command:
    return Command(
        id=f"color.{by}",
        text=text,
        menu="View/Colour by",
        needs=Needs.DOCUMENT,
        run=with_session(lambda s: s.set_color_by(by)),
        is_on=lambda d: d.session is not None and d.session.color_by == by,
        title=lambda d: text if d.session is None or by in d.session.colorings else "",
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


def _show(view_id: str, text: str, key: str = "", menu: str = "View/Show") -> Command:
    def run(desk: Desk) -> None:
        if desk.document is not None:
            desk.document.workspace.show_view(view_id)

    return Command(
        id=f"show.{view_id}",
        text=text,
        menu=menu,
        keys=(key,) if key else (),
        needs=Needs.DOCUMENT,
        run=run,
    )


VIEW: tuple[Command, ...] = (
    _show("timeline", "Timeline", "Ctrl+1"),
    _show("table", "Trace table", "Ctrl+2"),
    _show("heatmap", "File heatmap", "Ctrl+3"),
    _show("graph", "Graph", "Ctrl+4"),
    _show("experts", "Experts", "Ctrl+5", "Analyse"),
    _show("buffers", "Buffers", "Ctrl+6", "Analyse"),
    _show("hot_cold", "Hot and cold", "Ctrl+7", "Analyse"),
    _show("cache", "What-if cache", "Ctrl+8", "Analyse"),
    _show("statistics", "Selection statistics", "Ctrl+9", "Analyse"),
    _show("problems", "Problems", menu="Analyse"),
    _show("bookmarks", "Bookmarks", "Ctrl+B", "Go"),
    _layout("dual", "Dual view"),
    _layout("grid", "2×2 grid", "G"),
    _layout("single", "Single view"),
    Command(
        id="layout.reset",
        text="Reset layout",
        menu="View/Layout",
        needs=Needs.DOCUMENT,
        run=of_workspace("reset_layout"),
        separated=True,
    ),
    _float("details", "Details"),
    _float("statistics", "Selection statistics"),
    _float("problems", "Problems"),
    _float("bookmarks", "Bookmarks"),
    _float("table", "Trace table"),
    _float("experts", "Experts"),
    _float("buffers", "Buffers"),
    _float("hot_cold", "Hot and cold"),
    _float("cache", "What-if cache"),
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
        run=of_workspace("toggle_details"),
        is_on=lambda d: d.document is not None and d.document.workspace.shows_details,
    ),
    Command(
        id="view.drawer",
        text="Drawer",
        menu="View",
        keys=("Shift+Q",),
        needs=Needs.DOCUMENT,
        run=of_workspace("toggle_drawer"),
        is_on=lambda d: d.settings.layout.shows_drawer,
    ),
    Command(
        id="view.detailed",
        text="Detailed rows",
        menu="View",
        keys=("T",),
        needs=Needs.TRACE,
        run=lambda d: d.toggle_detailed(),
    ),
    Command(
        id="view.only_range",
        text="Table and statistics of this range only",
        menu="View",
        keys=("Shift+T",),
        needs=Needs.DOCUMENT,
        run=lambda d: d.settings.change(
            "tables", only_range=not d.settings.tables.only_range
        ),
        is_on=lambda d: d.settings.tables.only_range,
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
        needs=Needs.TRACE,
        run=with_session(lambda s: s.zoom(1 / _ZOOM)),
    ),
    Command(
        id="zoom.out",
        text="Zoom out",
        menu="View/Zoom",
        keys=("S", "-"),
        needs=Needs.TRACE,
        run=with_session(lambda s: s.zoom(_ZOOM)),
    ),
    Command(
        id="zoom.fit",
        text="Fit all",
        menu="View/Zoom",
        keys=("0", "Home"),
        needs=Needs.TRACE,
        run=with_session(lambda s: s.fit()),
    ),
    Command(
        id="zoom.selection",
        text="Centre selection, then fit it",
        menu="View/Zoom",
        keys=("F",),
        needs=Needs.TARGET,
        run=with_session(lambda s: s.focus_selection()),
    ),
    _color("family", "Op family"),
    _color("op", "Op"),
    _color("layer", "Layer"),
    _color("token", "Token"),
    _color("thread", "Thread"),
    _color("phase", "Phase"),
    _color("source", "Memory source"),
    _color("quality", "Quality"),
    _color("backend", "Backend"),
    _color("expert", "Expert"),
    Command(
        id="time.start",
        text="From start",
        menu="View/Time format",
        needs=Needs.DOCUMENT,
        run=with_session(lambda s: s.set_absolute_time(False)),
        is_on=lambda d: d.session is not None and not d.session.absolute_time,
    ),
    Command(
        id="time.absolute",
        text="Absolute",
        menu="View/Time format",
        needs=Needs.DOCUMENT,
        run=with_session(lambda s: s.set_absolute_time(True)),
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
)
