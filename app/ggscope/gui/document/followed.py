"""The program that a tab follows: how it ended, following again, and its recording."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from ggscope.gui.messages import Action
from ggscope.gui.open_file import show_in_folder
from ggscope.session.settings import Settings

if TYPE_CHECKING:
    from ggscope.gui.document.document import Document
    from ggscope.live.recording_store import Saved
    from ggscope.session.live import LiveSession
    from ggscope.session.run import Run

_LIVE = "live"
"""Key of messages."""


class FollowedProgram(QObject):
    """Shows messages about the followed program of a tab, and saves its recording.

    Parameters
    ----------
    run : the program, where the tab has started it.
    """

    def __init__(
        self,
        document: "Document",
        live: "LiveSession",
        run: "Run | None",
        settings: Settings,
    ) -> None:
        super().__init__(document)
        self._document = document
        self._live = live
        self._run = run
        self._settings = settings
        if run is not None:
            run.ended.connect(self._on_run_ended)
        live.limit_bytes = settings.memory.limit_bytes
        live.ended.connect(self._on_ended)
        live.mode_changed.connect(self._on_mode_changed)
        document.session.reload_requested.connect(self._on_reload_requested)

    @property
    def has_recording(self) -> bool:
        """Whether there is a recording that can be saved."""
        is_complete = self._run is not None and self._run.has_recording
        return is_complete or self._live.recording.place is not None

    def report_saved(self, saved: "Saved") -> None:
        """Report a saved recording, and offer to open it."""
        document = self._document
        self._settings.add_recent(saved.path)
        text = saved.text()
        document.messages.say(
            f"{text[:1].upper()}{text[1:]}.",
            Action("Open", partial(document.open_requested.emit, str(saved.path))),
            Action("Show in folder", partial(show_in_folder, saved.path, document)),
        )

    def _on_reload_requested(self, _: object) -> None:
        """Follow again; not while it is followed."""
        if self._live.is_on:
            text = "Cannot reload while following a program."
            self._document.session.status_message.emit(text)
        else:
            self._live.follow_again()

    def _on_mode_changed(self) -> None:
        document = self._document
        if self._live.is_on:
            document.messages.dismiss(_LIVE)  # no longer true
        document.status.set_phase(self._live.metrics.phase.value)
        document.title_changed.emit()

    def _on_run_ended(self) -> None:
        """Stop following with the program, and open a run that was too short."""
        document, run, live = self._document, self._run, self._live
        if run is None:
            return
        if run.has_recording:
            self._settings.add_recent(Path(run.output))
        if live.is_on and not live.metrics.status.records:
            live.finish()
            if run.has_recording:
                document.recording_requested.emit(run.output)
        elif run.has_failed:
            text = f"{run.name} {run.state()}."
            console = Action("Console", self._show_console)
            document.messages.say(text, console, level="caution", key=_LIVE, stays=True)

    def _show_console(self) -> None:
        self._document.workspace.show_drawer("console")

    def _on_ended(self) -> None:
        """Show why following ended, unless the program just ended."""
        trace = self._document.session.trace
        if trace is None:
            return
        from ggscope.session.live import FollowState

        metrics, reason = self._live.metrics, ""
        if metrics.phase is FollowState.FULL:
            messages = {w.code: w.message for w in trace.warnings}
            reason = messages.get("live_full", "")
        elif metrics.phase in (FollowState.KILLED, FollowState.FAILED):
            reason = metrics.status.message
        if reason:
            from ggscope.gui.live import sentence

            again = Action("Follow again", self._live.follow_again)
            actions = [again] if self._live.can_follow_again else []
            # The live strip shows it permanently.
            self._document.messages.say(
                sentence(reason), *actions, level="caution", key=_LIVE
            )
