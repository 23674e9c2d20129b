"""A program that was started from the window: what it says, how it ends, its record."""

import os
import shlex
import signal
import tempfile
import time
from collections import deque
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from ggscope.live.launcher import TOOL, LaunchSpec, Running, Target, TraceabilityCheck
from ggscope.live.regular_file import read_json
from ggscope.sanitize import plain
from ggscope.session.settings import Settings

MAX_TEXT = 1 << 19
"""So much of what a program says is kept; what is older goes."""
_LOOK_MS = 100
_DEMO, _DEMO_TOKENS, _DEMO_PACE = "moe", 480, 40
"""With experts; so many tokens fit the driver's context, and at so many a second they
take 12 s, in which a person sees them come: by themselves they take less than one."""
_MAX_SIDECAR = 1 << 24


class Run(QObject):
    """A program under the capture tool, from its start to its recording.

    Attributes
    ----------
    output : file of the records, which is there when the tool has ended; "" = nowhere
        that is known beforehand.
    wish : what a person asked for; None = the demo, see `wish_again`.
    shown_command : what does the same in a terminal.
    check : what was found out beforehand, None = nothing.
    began : when it was started, in seconds since 1970.

    Signals
    -------
    said(is_error, text) : what the program, or the tool, says.
    changed : the state in words.
    ended : all that was recorded is written.
    again_requested : a person wants to run it again, perhaps otherwise.
    open_requested(path) : its recording is to be opened.
    """

    said = Signal(bool, str)
    changed = Signal()
    ended = Signal()
    again_requested = Signal()
    open_requested = Signal(str)

    def __init__(
        self,
        name: str,
        running: Running,
        output: str,
        shown_command: str,
        check: TraceabilityCheck | None = None,
        wish: LaunchSpec | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.name, self.output, self.shown_command = name, output, shown_command
        self.check, self.wish = check, wish
        self.began = time.time()
        self.status: int | None = None
        self.is_stopped = False
        """Whether a person has stopped it."""
        self._running = running
        self._said: deque[tuple[bool, str]] = deque()
        self._n_letters = 0
        self._began = time.monotonic()
        self._second = -1
        self._look = QTimer(self, interval=_LOOK_MS)
        self._look.timeout.connect(self._on_look)
        self._look.start()

    @property
    def pid(self) -> int:
        """Number of the tool's process."""
        return self._running.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.status is None

    @property
    def has_recording(self) -> bool:
        """Whether it has ended and left a recording."""
        return not self.is_running and bool(self.output) and os.path.exists(self.output)

    def all_said(self) -> list[tuple[bool, str]]:
        """Return what has been said, as far as it is kept."""
        return list(self._said)

    def state(self) -> str:
        """Return how it stands, in words."""
        if self.status is None:
            seconds = int(time.monotonic() - self._began)
            if self.is_stopped:
                return "stopping"
            return "running for {} s".format(f"{seconds:,}")
        if self.status < 0:
            return f"terminated by {_signal_name(-self.status)}"
        return f"exited with code {self.status}"

    @property
    def has_failed(self) -> bool:
        """Whether it ended with an error that nobody asked for."""
        return bool(self.status) and not self.is_stopped

    def wish_again(self) -> LaunchSpec | None:
        """Return what would run it again; None where that is not known.

        What the demo found or installed is told by its recording.
        """
        if self.wish is not None or not self.output:
            return self.wish
        try:
            sidecar = Path(self.output).with_suffix(".json")
            words = read_json(sidecar, _MAX_SIDECAR).get("command")
        except (OSError, ValueError):
            return None
        return _demo_wish(words, self.output)

    def stop(self) -> None:
        """Ask the program to end; it is killed where it does not within 5 s."""
        if self.is_running:
            self.is_stopped = True
            self._running.stop()
            self.changed.emit()

    def release(self, *, stops: bool = True) -> None:
        """Hear it no more; stop it too, without waiting for its end."""
        self._look.stop()
        self._running.let_go(stops=stops)

    def _on_look(self) -> None:
        status = self._running.status()  # first: what it said last is there then
        self._take()
        if self.is_stopped:
            self._running.stop()
        second = int(time.monotonic() - self._began)
        if second != self._second:
            self._second = second
            self.changed.emit()
        if status is not None:
            while self._take():
                pass
            self._look.stop()
            self.status = status
            self.changed.emit()
            self.ended.emit()

    def _take(self) -> bool:
        """Keep and tell what is new; tell whether there was anything."""
        found = self._running.said()
        for is_error, raw in found:
            text = plain(raw.replace("\r\n", "\n"))
            self._said.append((is_error, text))
            self._n_letters += len(text)
            while self._n_letters > MAX_TEXT and len(self._said) > 1:
                self._n_letters -= len(self._said.popleft()[1])
            self.said.emit(is_error, text)
        return bool(found)


def start(wish: LaunchSpec, check: TraceabilityCheck | None) -> Run:
    """Start what a person wants to be run; raises LiveError."""
    running = Running(wish.arguments())
    output = str(Path(wish.output).absolute())
    return Run(wish.target.name, running, output, wish.shown(), check, wish)


def start_demo(settings: Settings) -> Run:
    """Start the demo of the capture tool; raises LiveError."""
    folder = settings.data_folder or Path(tempfile.gettempdir()) / "ggscope"
    place = str(folder / "demo")
    # A core is left to the window: threads that wait for each other spin.
    threads = max(1, min(2, (os.cpu_count() or 1) - 1))
    arguments = ["demo", place, "--model", _DEMO, "--tokens", str(_DEMO_TOKENS)]
    arguments += ["--threads", str(threads), "--pace", str(_DEMO_PACE)]
    output = str(folder / "demo" / f"{_DEMO}.bin")
    return Run("live demo", Running(arguments), output, shlex.join([TOOL, *arguments]))


def _demo_wish(words: object, output: str) -> LaunchSpec | None:
    """Return what the demo ran, by the command in its recording."""
    if not isinstance(words, list) or not words:
        return None
    command = [str(word) for word in words]
    option = {
        name: command[at + 1] for at, name in enumerate(command[:-1]) if name[:1] == "-"
    }
    # Libraries are run by the tool's own driver.
    libraries = option.get("--libs")
    tokens, threads = option.get("-n", ""), option.get("-t", "")
    return LaunchSpec(
        target=Target(libraries or command[0]),
        output="",
        model=option.get("-m", str(Path(output).with_suffix(".gguf"))),
        prompt=option.get("-p", ""),
        tokens=int(tokens) if tokens.isdecimal() else _DEMO_TOKENS,
        threads=int(threads) if threads.isdecimal() else 1,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
