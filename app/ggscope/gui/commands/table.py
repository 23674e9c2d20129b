"""The one table of commands: it feeds menus, palette, keys sheet and README."""

from ggscope.gui.commands.command import Command, Desk, Needs, with_session
from ggscope.gui.commands.go import GO
from ggscope.gui.commands.view import VIEW
from ggscope.model.selection import Filter


def _find(desk: Desk) -> None:
    if desk.document is not None:
        field = desk.document.toolbar.search.edit
        field.setFocus()
        field.selectAll()


def _add_filter(desk: Desk) -> None:
    if desk.document is not None:
        desk.document.show_filter_popup()


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
        id="file.open_folder",
        text="Open folder…",
        menu="File",
        keys=("Ctrl+Shift+O",),
        run=lambda d: d.open_folder_dialog(),
    ),
    Command(
        id="file.add",
        text="Add to session…",
        menu="File",
        needs=Needs.DOCUMENT,
        run=lambda d: d.add_dialog(),
    ),
    Command(
        id="file.parts",
        text="Files of this session…",
        menu="File",
        needs=Needs.DOCUMENT,
        run=lambda d: d.dialogs.show_parts(),
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
        run=with_session(lambda s: s.reload()),
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
        needs=Needs.TRACE,
        run=lambda d: d.dialogs.export_figure(),
        separated=True,
    ),
    Command(
        id="file.export_again",
        text="Repeat last export",
        menu="File",
        keys=("Ctrl+Shift+E",),
        needs=Needs.TRACE,
        run=lambda d: d.dialogs.repeat_export(),
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
        needs=Needs.TRACE,
        run=lambda d: d.copy("tsv"),
    ),
    Command(
        id="edit.copy_markdown",
        text="Copy as Markdown",
        menu="Edit",
        keys=("Ctrl+Shift+C",),
        needs=Needs.TRACE,
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
        run=with_session(lambda s: s.step_hit(1)),
    ),
    Command(
        id="edit.previous_hit",
        text="Previous hit",
        menu="Edit",
        keys=("Shift+Return", "Shift+F3", "Shift+Enter"),
        needs=Needs.HITS,
        run=with_session(lambda s: s.step_hit(-1)),
    ),
    Command(
        id="edit.add_filter",
        text="Add to filter…",
        menu="Edit",
        keys=("Ctrl+Shift+F",),
        needs=Needs.TRACE,
        run=_add_filter,
        separated=True,
    ),
    Command(
        id="edit.clear_filter",
        text="Clear filter",
        menu="Edit",
        needs=Needs.FILTER,
        run=with_session(lambda s: s.set_filter(Filter())),
    ),
    Command(
        id="edit.clear_selection",
        text="Clear selection",
        menu="Edit",
        needs=Needs.TARGET,
        run=with_session(lambda s: s.clear_selection()),
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
        run=lambda d: d.dialogs.show_settings(),
        separated=True,
    ),
    *VIEW,
    *GO,
    # Analyse
    Command(
        id="analyse.save_filter",
        text="Save filter…",
        menu="Analyse",
        needs=Needs.FILTER,
        run=lambda d: d.dialogs.save_filter(),
        separated=True,
    ),
    Command(
        id="analyse.ops",
        text="Op table…",
        menu="Analyse",
        needs=Needs.TRACE,
        run=lambda d: d.dialogs.show_op_tables(),
        separated=True,
    ),
    # Help
    Command(
        id="help.guide",
        text="User guide",
        menu="Help",
        run=lambda d: d.dialogs.show_guide(),
    ),
    Command(
        id="help.keys",
        text="Keys",
        menu="Help",
        keys=("?", "F1"),
        run=lambda d: d.dialogs.show_keys(),
    ),
    Command(
        id="help.readers",
        text="Readers",
        menu="Help",
        run=lambda d: d.dialogs.show_readers(),
    ),
    Command(
        id="help.report",
        text="Copy system report",
        menu="Help",
        run=lambda d: d.dialogs.copy_system_report(),
    ),
    Command(
        id="help.about",
        text="About ggscope",
        menu="Help",
        run=lambda d: d.dialogs.show_about(),
        separated=True,
    ),
)

PASSIVE_KEYS: tuple[tuple[str, str], ...] = (
    ("Up / Down, PgUp / PgDown", "Scroll lanes or rows"),
    ("Ctrl+G in the table", "Go to a row, record or time"),
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
