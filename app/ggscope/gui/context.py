"""What dialogs and commands may ask of the window, which imports both."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ggscope.gui.commands.palette import Entry, Palette
    from ggscope.gui.document import Document
    from ggscope.gui.messages import MessageLog, Messages
    from ggscope.gui.theme import ThemeManager
    from ggscope.live.launcher import LaunchSpec, TraceabilityCheck
    from ggscope.session.session import Session
    from ggscope.session.settings import Settings
    from ggscope.views.base.copying import Copyable


class CommandList(Protocol):
    """The commands, as lists of them show them."""

    def entries(self) -> "list[Entry]":
        """Return what the palette offers now."""

    def keys_markdown(self) -> str:
        """Return the table of keys."""


class WindowContext(Protocol):
    """The tab in front, what all tabs share, and ways to open another tab."""

    settings: "Settings"
    themes: "ThemeManager"
    log: "MessageLog"

    @property
    def actions_(self) -> CommandList:
        """The commands of the window."""

    @property
    def document(self) -> "Document | None":
        """The tab in front, None on the start page."""

    @property
    def session(self) -> "Session | None":
        """The session of the tab in front."""

    @property
    def messages(self) -> "Messages":
        """The messages of the tab in front, or of the start page."""

    @property
    def palette_(self) -> "Palette":
        """The line to type in, with a list of what fits."""

    def copying(self) -> "list[Copyable]":
        """Return what has rows to copy: the view with the focus, else those in view."""

    def add_dialog(self) -> None:
        """Ask for files and add them to the session in front."""

    def follow(self, target: str = "") -> "Document":
        """Follow a program that runs in a new tab."""

    def record(
        self, spec: "LaunchSpec", check: "TraceabilityCheck | None" = None
    ) -> None:
        """Run a program under the capture tool and follow it in a new tab."""

    def live_demo(self) -> None:
        """Trace a llama.cpp on a made model."""
