"""A program that was started from the window: output, exit status, recording."""

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
"""Characters of output that are kept; older ones are dropped."""
_LOOK_MS = 100
_DEMO, _DEMO_TOKENS, _DEMO_PACE = "moe", 480, 40
"""A model with experts; tokens that fit the driver's context; tokens a second, so that
the demo takes 12 s and can be watched: without a pace it takes less than one."""
_MAX_SIDECAR = 1 << 24


class Run(QObject):
    """A program under the capture tool, from its start to its recording.

    Attributes
    ----------
    output : file of the records, complete when the tool has ended; "" = unknown.
    spec : program and arguments; None = the demo, see `spec_again`.
    shown_command : the same as a command for a terminal.
    check : result of the check before the start; None = not checked.
    began : start time, in seconds since 1970.

    Signals
    -------
    output_received(is_error, text) : output of the program or the tool.
    changed : the state.
    ended : the recording is complete.
    again_requested : run it again, perhaps with other arguments.
    open_requested(path) : open its recording.
    """

    output_received = Signal(bool, str)
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
        spec: LaunchSpec | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.name, self.output, self.shown_command = name, output, shown_command
        self.check, self.spec = check, spec
        self.began = time.time()
        self.status: int | None = None
        self.is_stopped = False
        """Whether the user has stopped it."""
        self._running = running
        self._chunks: deque[tuple[bool, str]] = deque()
        self._n_characters = 0
        self._began = time.monotonic()
        self._second = -1
        self._look = QTimer(self, interval=_LOOK_MS)
        self._look.timeout.connect(self._on_look)
        self._look.start()

    @property
    def pid(self) -> int:
        """Process id of the tool."""
        return self._running.pid

    @property
    def records_calls(self) -> bool:
        """Whether its calls of CUDA are recorded, not ops of ggml."""
        return self.spec is not None and self.spec.records_calls

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.status is None

    @property
    def has_recording(self) -> bool:
        """Whether it has ended and left a recording."""
        return not self.is_running and bool(self.output) and os.path.exists(self.output)

    def output_chunks(self) -> list[tuple[bool, str]]:
        """Return the output that is kept: whether it came on stderr, and the text."""
        return list(self._chunks)

    def state(self) -> str:
        """Return the state as text: running, stopping, or how it ended."""
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
        """Whether it ended with an error and was not stopped by the user."""
        return bool(self.status) and not self.is_stopped

    def spec_again(self) -> LaunchSpec | None:
        """Return what runs it again; None where that is unknown.

        For the demo, the command in its recording.
        """
        if self.spec is not None or not self.output:
            return self.spec
        try:
            sidecar = Path(self.output).with_suffix(".json")
            command = read_json(sidecar, _MAX_SIDECAR).get("command")
        except (OSError, ValueError):
            return None
        return _demo_spec(command, self.output)

    def stop(self) -> None:
        """Ask the program to end; it is killed where it does not within 5 s."""
        if self.is_running:
            self.is_stopped = True
            self._running.stop()
            self.changed.emit()

    def release(self, *, stops: bool = True) -> None:
        """Read no more output; stop it too, without waiting for its end."""
        self._look.stop()
        self._running.detach(stops=stops)

    def _on_look(self) -> None:
        status = self._running.status()  # first: its last output is complete then
        self._read_output()
        if self.is_stopped:
            self._running.stop()
        second = int(time.monotonic() - self._began)
        if second != self._second:
            self._second = second
            self.changed.emit()
        if status is not None:
            while self._read_output():
                pass
            self._look.stop()
            self.status = status
            self.changed.emit()
            self.ended.emit()

    def _read_output(self) -> bool:
        """Append new output; return whether there was any."""
        chunks = self._running.read_output()
        for is_error, raw in chunks:
            text = plain(raw.replace("\r\n", "\n"))
            self._chunks.append((is_error, text))
            self._n_characters += len(text)
            while self._n_characters > MAX_TEXT and len(self._chunks) > 1:
                self._n_characters -= len(self._chunks.popleft()[1])
            self.output_received.emit(is_error, text)
        return bool(chunks)


def start(spec: LaunchSpec, check: TraceabilityCheck | None) -> Run:
    """Start a program under the capture tool; raises LiveError."""
    running = Running(spec.arguments())
    output = str(Path(spec.output).absolute())
    return Run(spec.target.name, running, output, spec.shown(), check, spec)


def start_demo(settings: Settings) -> Run:
    """Start the demo of the capture tool; raises LiveError."""
    folder = settings.data_folder or Path(tempfile.gettempdir()) / "ggscope"
    target = str(folder / "demo")
    # A core is left to the window: threads that wait for each other spin.
    threads = max(1, min(2, (os.cpu_count() or 1) - 1))
    arguments = ["demo", target, "--model", _DEMO, "--tokens", str(_DEMO_TOKENS)]
    arguments += ["--threads", str(threads), "--pace", str(_DEMO_PACE)]
    output = str(folder / "demo" / f"{_DEMO}.bin")
    return Run("live demo", Running(arguments), output, shlex.join([TOOL, *arguments]))


def _demo_spec(recorded: object, output: str) -> LaunchSpec | None:
    """Return what the demo ran, by the command in its recording."""
    if not isinstance(recorded, list) or not recorded:
        return None
    command = [str(argument) for argument in recorded]
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
