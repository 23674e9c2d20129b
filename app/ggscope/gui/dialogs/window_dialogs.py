"""Dialogs and lists that the commands of the window open, files to be asked for too."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import shiboken6
from PySide6.QtCore import QCoreApplication, QObject, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QDialog, QFileDialog, QWidget

from ggscope.analysis.rows.lanes import TimelineLanes, group_key
from ggscope.atomic_write import refuse_inputs
from ggscope.errors import ExportError
from ggscope.gui.commands.go_to import FEW, GoToRequest, GoToTargets
from ggscope.gui.commands.panes import pane_entries
from ggscope.gui.context import WindowContext
from ggscope.gui.dialogs.filters import ask_and_save
from ggscope.gui.document import Document
from ggscope.gui.widgets import CHANGES_NOTHING
from ggscope.model.notes import NOTE_COLORS
from ggscope.model.selection import Selection
from ggscope.model.units import format_count
from ggscope.render.export import SUFFIXES, Figure
from ggscope.render.figure_style import FigureStyle, css_px
from ggscope.sanitize import file_name, one_line
from ggscope.session.bookmarks.bookmarks import Subject
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.tasks import TaskContext, TaskFailure
from ggscope.views.base.cells import TableFile
from ggscope.views.base.output_file import OutputFile
from ggscope.views.base.safe_text import ask_choice, ask_yes, copy_image, copy_text
from ggscope.views.registry import BUILTIN, ViewEntry, entry

if TYPE_CHECKING:
    from ggscope.gui.dialogs.data import DataDialog
    from ggscope.gui.dialogs.figure import FigureDialog
    from ggscope.live.launcher import LaunchSpec


@dataclass(frozen=True, slots=True, eq=False)
class ExportRequest:
    """Draw and write a figure, on a worker."""

    figure: Figure
    path: Path
    style: FigureStyle | None = None

    def __call__(self, context: TaskContext) -> str:
        """Return the path written; raises ExportError."""
        context.check_cancelled()
        self.figure.write(self.path, self.style)
        return str(self.path)


@dataclass(frozen=True, slots=True, eq=False)
class PictureRequest:
    """Draw a figure, on a worker."""

    figure: Figure

    def __call__(self, context: TaskContext) -> QImage:
        """Return it as pixels; raises ExportError."""
        context.check_cancelled()
        return self.figure.image()


def _is_known(color: str) -> bool:
    return any(known.key == color for known in NOTE_COLORS)


def _own_title(lanes: TimelineLanes, key: str) -> str:
    """Return what the file calls a lane or group; "" where there is none."""
    for group in lanes.groups:
        if key == group_key(group):
            return group
    at = lanes.position(key)
    return lanes.titles[at] if at >= 0 else ""


def _figure_titles(document: Document) -> dict[str, str]:
    """Return the titles of the views that give figures, by id: the timeline first."""
    titles = {"timeline": entry("timeline").title}
    for host in document.workspace.hosts():
        if host.view is not None and host.view.figure() is not None:
            titles.setdefault(host.entry.id, host.entry.title)
    return titles


def _entry_of(name: str) -> ViewEntry:
    """Return the view with this id, or with a figure of this name."""
    return next(known for known in BUILTIN if name in (known.id, known.figure))


def _tr(text: str) -> str:
    return QCoreApplication.translate("Export", text)


def ask_path(
    figure: Figure, document: Document, settings: Settings, parent: QWidget
) -> Path | None:
    """Ask where a figure goes; None if cancelled."""
    folder = settings.files.folder or str(document.path.parent)
    default = Path(folder) / file_name(document.path.stem, f".{figure.name}.png")
    titles = {
        ".png": _tr("PNG picture"),
        ".svg": _tr("SVG drawing"),
        ".pdf": _tr("PDF document"),
        ".dot": _tr("DOT graph"),
    }
    filters = {f"{titles[s]} (*{s})": s for s in (*SUFFIXES, *figure.texts)}
    return ask_target(parent, _tr("Export figure"), default, filters)


def ask_target(
    parent: QWidget, title: str, default: Path, filters: Mapping[str, str]
) -> Path | None:
    """Ask where a file goes; None if cancelled. `filters`: suffixes by title."""
    name, chosen = QFileDialog.getSaveFileName(
        parent, title, str(default), ";;".join(filters), "", CHANGES_NOTHING
    )
    if not name:
        return None
    path, known = Path(name), tuple(filters.values())
    if not path.name.lower().endswith(known):
        path = path.with_name(path.name + filters.get(chosen, known[0]))
        # The dialog has asked about the name that was typed, not about this one.
        question = _tr("{0} already exists. Replace it?").format(path.name)
        if os.path.lexists(path) and not ask_yes(parent, question):
            return None
    return path


def write_figure(
    session: Session,
    figure: Figure,
    path: Path,
    on_done: Callable[[str], None],
    on_failed: Callable[[str], None],
    style: FigureStyle | None = None,
) -> None:
    """Write a figure on a worker; `style` : None = as it stands where it comes from."""

    def on_error(failure: TaskFailure) -> None:
        on_failed(failure.message)

    session.tasks.run(
        "export",
        ExportRequest(figure, path, style),
        on_done,
        on_error=on_error,
        even_if_held=True,  # the user asked for just what is shown
        title=_tr("Writing {0}").format(path.name),
    )


def name_filters() -> str:
    """Return the filters as QFileDialog wants them; all files where none is known."""
    every = QCoreApplication.translate("OpenFilters", "All files (*)")
    try:
        from ggscope.readers.registry import infos

        known = infos(waits=False)
    except Exception:  # noqa: BLE001 - a reader's fault must not stop the dialog
        return every
    suffixes = sorted({s for info in known for s in info.suffixes})
    if not suffixes:
        return every
    everything = " ".join(f"*{s}" for s in suffixes)
    traces = QCoreApplication.translate("OpenFilters", "Traces")
    single = [
        f"{info.title} ({' '.join('*' + s for s in info.suffixes)})"
        for info in known
        if info.suffixes
    ]
    return ";;".join([f"{traces} ({everything})", *single, every])


class WindowDialogs(QObject):
    """Opens dialogs over `window`, for the tab in front of `context`.

    Most dialogs are imported when they are asked for, not before the window.
    """

    def __init__(self, context: WindowContext, window: QWidget) -> None:
        super().__init__(window)
        self._context, self._window = context, window
        self._last_export: tuple[Path, str, FigureStyle] | None = None

    def export(self, what: object) -> None:
        """Ask for a name and write a figure, rows or a file; None = the view in use."""
        if isinstance(what, TableFile):
            self.save_table(what)
        elif isinstance(what, OutputFile):
            self.save_file(what)
        else:
            self.export_figure(what if isinstance(what, Figure) else None)

    def export_figure(self, figure: "Figure | None" = None) -> None:
        """Open the figure studio, on a view's figure; None = of the view used last."""
        document = self._context.document
        if document is None or document.session.trace is None:
            return
        from ggscope.gui.dialogs.figure import FigureDialog

        host = document.workspace.used_host
        if figure is None and host is not None and host.view is not None:
            figure = host.view.figure()
        sources = self._sources(document)
        first = next(iter(sources), "")
        if figure is not None:
            title = _entry_of(figure.name).title
            first = title if title in sources else first

        def made() -> QDialog:
            dialog = FigureDialog(sources, first, self._context.settings, self._window)
            dialog.export_requested.connect(
                lambda figure, style: self._on_export_requested(
                    document, dialog, figure, style
                )
            )
            document.destroyed.connect(dialog.close)
            document.session.trace_changed.connect(dialog.refresh)
            return dialog

        for one in self._window.findChildren(QDialog, "figure"):
            one.close()  # of another view, or another file
        self.show("figure", made)

    def _sources(self, document: Document) -> "dict[str, Callable[[], Figure | None]]":
        """Return what makes the figures of the views that are there, by title."""
        sources: dict[str, Callable[[], Figure | None]] = {}
        for name, title in _figure_titles(document).items():
            sources[title] = partial(self._figure_of, document, name)
        return sources

    def _figure_of(self, document: Document, name: str) -> "Figure | None":
        if name == "timeline":
            return self._timeline_figure(document)
        views = document.workspace.views(_entry_of(name).id)
        return next(
            (f for f in (view.figure() for view in views) if f is not None), None
        )

    def _on_export_requested(
        self,
        document: Document,
        dialog: "FigureDialog",
        figure: Figure,
        style: FigureStyle,
    ) -> None:
        path = ask_path(figure, document, self._context.settings, dialog)
        if path is None:
            return
        self._last_export = path, figure.name, style

        def on_done(text: str) -> None:
            if shiboken6.isValid(dialog):
                dialog.say_written(Path(text))
            document.messages.say_saved(Path(text))

        def on_failed(message: str) -> None:
            if shiboken6.isValid(dialog):
                dialog.say_failed(message)
            else:
                document.messages.fail(message)

        write_figure(document.session, figure, path, on_done, on_failed, style)

    def export_data(self) -> None:
        """Ask which spans are to be written, in which form and where."""
        document = self._context.document
        if document is None or document.session.trace is None:
            return
        from ggscope.gui.dialogs.data import DataDialog

        def made() -> QDialog:
            dialog = DataDialog(document.session, self._window)
            dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            dialog.save_requested.connect(
                partial(self._on_save_requested, document, dialog)
            )
            document.destroyed.connect(dialog.close)
            return dialog

        for one in self._window.findChildren(QDialog, "data"):
            one.close()  # of another file, perhaps
        self.show("data", made)

    def _on_save_requested(
        self, document: Document, dialog: "DataDialog", name: str, *_: object
    ) -> None:
        from ggscope.exporters.forms import FORMS, PACKED
        from ggscope.gui.dialogs.data import DataRequest

        session, form = document.session, FORMS[name]
        if session.trace is None:
            return
        path = self._ask_target(
            document,
            "Export data",
            form.suffix,
            {
                f"{title} (*{suffix})": suffix
                for title, suffix in (
                    (form.title, form.suffix),
                    (f"{form.title}, packed", form.suffix + PACKED),
                )
                if form.is_packed or suffix == form.suffix
            },
            dialog,
        )
        if path is None:
            return

        def on_done(text: str) -> None:
            document.messages.say_saved(path, text)
            if shiboken6.isValid(dialog):
                dialog.say(text, "good")

        def on_error(failure: TaskFailure) -> None:
            document.messages.fail(failure.message)
            if shiboken6.isValid(dialog):
                dialog.say(failure.message, "error")

        session.tasks.run(
            "export-data",
            DataRequest(session.trace, name, path, dialog.keep(), dialog.time()),
            on_done,
            on_error=on_error,
            title=f"Writing {path.name}",
            unit="B",
        )

    def save_table(self, table: TableFile | None = None) -> None:
        """Ask for a name and write rows of a table; None = of the view in use."""
        document, context = self._context.document, self._context
        if document is None:
            return
        if table is None:
            table = next((t for s in context.copying() if (t := s.table_file())), None)
        if table is None:
            document.messages.say("Click the table to save first.")
            return
        if not table.n:
            document.messages.say("The table is empty.")
            return
        meant = self._rows_meant(table)
        if meant is None:
            return
        table = meant
        from ggscope.gui.dialogs.data import TABLE_FORMS, TableRequest

        path = self._ask_target(
            document,
            "Save table",
            f".{table.name}.csv",
            {
                f"{title} (*{suffix})": suffix
                for suffix, (title, _) in TABLE_FORMS.items()
            },
        )
        if path is None:
            return
        document.session.tasks.run(
            "save-table",
            TableRequest(table, path),
            partial(document.messages.say_saved, path),
            on_error=lambda failure: document.messages.fail(failure.message),
            title=f"Writing {path.name}",
        )

    def save_file(self, file: OutputFile) -> None:
        """Ask for a name and write a file for another program."""
        document = self._context.document
        if document is None:
            return
        from ggscope.gui.dialogs.data import FileRequest

        last = Path(file.suffix).suffix
        filters = {f"{file.kind} (*{last})": last}
        path = self._ask_target(document, file.title, file.suffix, filters)
        if path is None:
            return

        def on_done(text: str) -> None:
            document.messages.say_saved(path, text)
            file.on_saved(path)

        document.session.tasks.run(
            "save-file",
            FileRequest(file, path),
            on_done,
            on_error=lambda failure: document.messages.fail(failure.message),
            title=f"Writing {path.name}",
        )

    def _ask_target(
        self,
        document: Document,
        title: str,
        suffix: str,
        filters: Mapping[str, str],
        parent: QWidget | None = None,
    ) -> Path | None:
        """Ask where a file goes; None if cancelled, or if it would replace the trace.

        Parameters
        ----------
        suffix : what the proposed name adds to that of the trace.
        """
        folder = self._context.settings.files.folder or str(document.path.parent)
        default = Path(folder) / file_name(document.path.stem, suffix)
        path = ask_target(parent or self._window, title, default, filters)
        try:
            if path is not None:
                refuse_inputs(path, document.parts.inputs)
        except ExportError as error:
            document.messages.fail(one_line(str(error)))
            return None
        return path

    def _rows_meant(self, table: TableFile) -> TableFile | None:
        """Return all rows, or the selected ones if the user wants those alone."""
        if table.selected is None:
            return table
        n, n_selected = format_count(table.n), format_count(table.selected.n)
        text = f"{n} rows · {n_selected} selected"
        choices = (
            f"Save all {n} rows",
            f"Save {n_selected} selected",
        )
        title = "Save table"
        choice = ask_choice(self._window, title, text, choices, table.what)
        return None if choice is None else (table, table.selected)[choice]

    def save_report(self) -> None:
        """Ask for a name and write a page about the files that are open."""
        document = self._context.document
        trace = None if document is None else document.session.trace
        if document is None or trace is None:
            return
        if document.live is not None and document.live.is_on:
            document.messages.say(
                "Save the recording first: a report is made from a file."
            )
            return
        from ggscope.gui.dialogs.data import ReportRequest

        target = self._ask_target(
            document, "Save report", ".html", {"Report (*.html)": ".html"}
        )
        if target is None:
            return
        loader = document.loader
        document.session.tasks.run(
            "report",
            ReportRequest(
                document.parts.opened_as, target, loader.reader_id, loader.options
            ),
            partial(document.messages.say_saved, target),
            on_error=lambda failure: document.messages.fail(failure.message),
            title=f"Writing {target.name}",
        )

    def repeat_export(self) -> None:
        """Write the last figure once more: as it stands now, to the same name."""
        document = self._context.document
        if self._last_export is None or document is None:
            self.export_figure()
            return
        path, name, style = self._last_export
        figure = self._figure_of(document, name)
        if figure is None:
            document.messages.say(f"{name}: this view has nothing to draw.")
        else:
            write_figure(
                document.session,
                figure,
                path,
                lambda text: document.messages.say_saved(Path(text)),
                document.messages.fail,
                style,
            )

    def _timeline_figure(self, document: Document) -> "Figure | None":
        """Return the figure of the timeline, also where no pane shows it."""
        for view in document.workspace.views("timeline"):
            return view.figure()
        from ggscope.views.timeline.view import session_figure

        style = FigureStyle(
            width=css_px(1600),
            height=css_px(900),
            theme=self._context.themes.current.name,
            seen=True,
        )
        return session_figure(document.session, style)

    def copy_picture(self) -> None:
        """Put the picture of the view used last on the clipboard.

        Of a view that shows no picture it is that of the timeline.
        """
        document = self._context.document
        if document is None:
            return
        host = document.workspace.used_host
        figure = None if host is None or host.view is None else host.view.figure()
        figure = figure or self._timeline_figure(document)
        if figure is None:
            return
        document.session.tasks.run(
            "copy-picture",
            PictureRequest(figure),
            partial(self._on_picture, document),
            on_error=lambda failure: document.messages.fail(failure.message),
            even_if_held=True,  # the user asked for just what is shown
            title="Drawing the picture",
        )

    def _on_picture(self, document: Document, image: QImage) -> None:
        copy_image(image)
        size = f"{image.width():,} × {image.height():,}"
        text = "Copied the picture ({0} px)."
        document.messages.say(text.format(size))

    def show_palette(self) -> None:
        """Open the command palette."""
        entries = self._context.actions_.entries()
        document = self._context.document
        if document is not None and document.session.trace is not None:
            hosts = document.workspace.hosts()
            panes = [
                (host.entry.title, host.view)
                for host in hosts
                if host.view is not None and host.view.isVisible()
            ]
            entries += pane_entries(panes)
        self._context.palette_.offer(entries, "Type a command")

    def show_go_to(self) -> None:
        """Open the list of lanes, tensors and tokens."""
        session = self._context.session
        if session is None or session.trace is None or session.index is None:
            return
        request = GoToRequest(
            session.index,
            session.lanes.reveal_requested.emit,
            self._find_tensor,
            session.navigator.go_to_token,
            session.lanes.state.names,
        )
        if request.is_small:
            self._offer_targets(request())
            return
        session.tasks.run(
            "go-to",
            request,
            self._offer_targets,
            title="Listing lanes, tensors and tokens",
            is_urgent=True,
        )

    def _offer_targets(self, targets: GoToTargets) -> None:
        session = self._context.session
        if session is None or session.index is not targets.index:
            return  # the user has gone to another trace meanwhile
        hint = "Go to lane, tensor or token (token 5)"
        if len(targets) > FEW:
            hint += " – type to find one of {}".format(f"{len(targets):,}")
        self._context.palette_.offer(targets, hint)

    def show(self, name: str, make: Callable[[], QDialog]) -> None:
        """Bring the dialog to the front that is open; else show what `make` returns."""
        dialogs = self._window.findChildren(QDialog, name)
        dialog = next((one for one in dialogs if one.isVisible()), None) or make()
        dialog.setObjectName(name)
        dialog.show()
        dialog.activateWindow()

    def show_settings(self) -> None:
        """Show the settings."""
        from ggscope.gui.dialogs.dialogs import SettingsDialog

        settings = self._context.settings
        self.show("settings", lambda: SettingsDialog(settings, self._window))

    def show_readers(self) -> None:
        """List the readers."""
        from ggscope.gui.dialogs.dialogs import readers_dialog

        self.show("readers", lambda: readers_dialog(self._window))

    def show_op_tables(self) -> None:
        """Let the user choose the op table, and read the file again with it."""
        from ggscope.gui.dialogs.dialogs import AUTO_OPS, choose_ops

        session = self._context.session
        if session is None or session.trace is None:
            return
        chosen = choose_ops(session.trace, self._window)
        if chosen is not None:
            session.reload({"ops": "" if chosen == AUTO_OPS else chosen})

    def show_record(self, spec: "LaunchSpec | None" = None) -> None:
        """Open the recording dialog, filled with `spec` where there is one."""
        from ggscope.gui.dialogs.record import RecordDialog

        if spec is not None:
            for old in self._window.findChildren(RecordDialog):
                old.close()

        def made() -> RecordDialog:
            dialog = RecordDialog(self._context.settings, self._window, spec)
            dialog.start_requested.connect(self._context.record)
            return dialog

        self.show("record", made)

    def show_follow(self) -> None:
        """List running programs, to follow one of them."""
        from ggscope.gui.dialogs.follow import FollowDialog

        def made() -> FollowDialog:
            dialog = FollowDialog(self._window)
            dialog.follow_requested.connect(self._context.follow)
            dialog.record_requested.connect(self.show_record)
            return dialog

        self.show("follow", made)

    def start_demo(self) -> None:
        """Run the demo, once the user knows what that brings."""
        text = (
            "The live demo generates a small model with random weights and traces "
            "llama.cpp running it. If llama.cpp is not found, it is downloaded from "
            "npm or PyPI (11 or 34 MB) into a separate folder."
        )
        title, start = "Live demo", "Start demo"
        if ask_choice(self._window, title, text, [start]) is not None:
            self._context.live_demo()

    def show_parts(self) -> None:
        """List the files of the session in front."""
        from ggscope.gui.dialogs.session_files import SessionFilesDialog

        document = self._context.document
        if document is not None:
            self.show(
                f"parts-{id(document):x}",
                lambda: SessionFilesDialog(
                    document, self._context.add_dialog, self._window
                ),
            )

    def show_guide(self) -> None:
        """Show the user guide."""
        from ggscope.gui.dialogs.dialogs import guide_text, text_dialog

        text = guide_text(self._context.actions_.keys_markdown())
        self.show("guide", lambda: text_dialog("User guide", text, self._window))

    def show_about(self) -> None:
        """Show version and licences."""
        from ggscope.gui.dialogs.dialogs import about_dialog

        self.show("about", lambda: about_dialog(self._window))

    def copy_system_report(self) -> None:
        """Copy versions of everything, for bug reports."""
        from ggscope.gui.dialogs.dialogs import system_report

        text = system_report()
        if self._context.document is not None:
            text += f"\nRenderer: {self._context.document.status.renderer.text()}"
        copy_text(text)
        self._context.messages.say("Copied the system report.")

    def show_messages(self) -> None:
        """List the messages of all tabs."""
        from ggscope.gui.dialogs.dialogs import messages_dialog

        entries = self._context.log.entries
        self.show("messages", lambda: messages_dialog(entries, self._window))

    def name_bookmark(self, subject: Subject | None = None) -> None:
        """Ask for name, note and colour of a new bookmark, of the selection if None."""
        session = self._context.session
        if session is None or session.trace is None:
            return
        from ggscope.gui.dialogs.dialogs import BookmarkDialog

        # Now: the mouse leaves the timeline for the dialog.
        subject = subject or session.navigator.bookmark_subject()
        dialog = BookmarkDialog(self._window, self._context.themes.current)

        def make() -> None:
            if session.trace is not None:
                name, note = dialog.name.text(), dialog.note.text()
                color = str(dialog.color.currentData())
                session.bookmarks.add(name, subject, note=note, color=color)

        dialog.accepted.connect(make)
        dialog.open()

    def edit_bookmark(self, position: int | None = None) -> None:
        """Ask for another name, note and colour; None = of the bookmark in use."""
        from ggscope.gui.dialogs.dialogs import BookmarkDialog

        session = self._context.session
        position = self._bookmark_in_use() if position is None else position
        if session is None or position is None:
            return
        current = session.bookmarks.items[position]
        dialog = BookmarkDialog(self._window, self._context.themes.current, current)

        def change() -> None:
            color = str(dialog.color.currentData())
            if not dialog.color.currentIndex() and not _is_known(current.color):
                color = current.color  # of a newer version, and not changed
            session.bookmarks.edit(
                current.id, dialog.name.text(), dialog.note.text(), color
            )

        def delete() -> None:
            ids = [bookmark.id for bookmark in session.bookmarks.items]
            if current.id in ids:
                session.bookmarks.remove(ids.index(current.id))

        dialog.accepted.connect(change)
        dialog.delete_requested.connect(delete)
        dialog.open()

    def delete_bookmark(self) -> None:
        """Delete the bookmark in use; it can be undone."""
        session, position = self._context.session, self._bookmark_in_use()
        if session is not None and position is not None:
            session.bookmarks.remove(position)

    def _bookmark_in_use(self) -> int | None:
        """Return the bookmark under the pointer, else the nearest one in view.

        Nearest to what a new one would be set on. Says so where none is in view.
        """
        from ggscope.session.bookmarks.bookmarks import nearest
        from ggscope.views.timeline.view import TimelineView

        document = self._context.document
        if document is None or document.session.trace is None:
            return None
        session = document.session
        for view in document.workspace.views("timeline"):
            if isinstance(view, TimelineView) and (pointed := view.pointed_bookmarks()):
                return pointed[0]
        time = session.navigator.bookmark_subject().time
        position = nearest(session.bookmarks.items, time, session.viewport.visible)
        if position is None:
            document.messages.say("No bookmark is in view.")
        return position

    def rename_lane(self, key: str = "") -> None:
        """Ask for the name of a lane or group; "" = of the one that is in use."""
        from ggscope.gui.dialogs.dialogs import NameDialog
        from ggscope.views.timeline.view import TimelineView

        document = self._context.document
        index = None if document is None else document.session.index
        if document is None or index is None:
            return
        session = document.session
        for view in document.workspace.views("timeline"):
            if isinstance(view, TimelineView):
                key = key or view.lane_in_use()
        own = _own_title(index.lanes, key)
        if not own:
            text = "Select a span or point at a lane to rename it."
            document.messages.say(text)
            return
        now = dict(session.lanes.state.names).get(key, own)
        dialog = NameDialog(self._window, f"Rename “{own}”")
        dialog.name.setPlaceholderText(own)
        dialog.name.setText(now)
        dialog.name.selectAll()

        def rename() -> None:
            name = dialog.name.text()
            session.lanes.set_title(key, "" if name.strip() == own else name)

        dialog.accepted.connect(rename)
        dialog.open()

    def save_filter(self) -> None:
        """Ask for a name and keep the present filter."""
        if self._context.session is not None:
            ask_and_save(self._context.settings, self._context.session, self._window)

    def _find_tensor(self, name: str) -> None:
        document = self._context.document
        trace = None if document is None else document.session.trace
        if document is None or trace is None:
            return
        if len(trace.spans):
            document.toolbar.search.edit.setText(name)
            document.session.queries.search(name)
            document.session.navigator.step_hit(1)
            return
        names = (trace.strings[i] for i in trace.tensors.name.tolist())
        row = next((i for i, known in enumerate(names) if known == name), -1)
        if row >= 0:  # of a model alone: no span has anything of it
            document.session.selection.select(Selection("tensors", (row,)))
            document.workspace.show_view("tensors")
