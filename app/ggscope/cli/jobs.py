"""Files of a command in processes of their own, several at once.

A file that crashes its process, or makes the system end it, is one file that failed;
the others go on. What is printed on stdout does not depend on how many run beside
each other: results are put in the order of the files.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from ggscope import assets
from ggscope.cli import output
from ggscope.cli.output import ERROR, INTERRUPTED
from ggscope.cli.reading import Results, failure_json, reader_options
from ggscope.errors import TraceError
from ggscope.readers.memory import available_bytes, judge, memory_limit
from ggscope.readers.registry import estimate

_PROCESS_BYTES = 200 << 20
"""What a process takes with Python, Qt and a usual figure, beside its trace."""
_UNKNOWN_BYTES, _UNKNOWN_FACTOR = 280 << 20, 4
"""What readers without an estimate stay below: see `readers.memory.Allowance`."""
_PATIENCE_S = 5.0
"""So long children have to take away what they were writing."""


def run_files(arguments: Namespace, paths: Sequence[Path]) -> Results:
    """Run the command for each of `paths` in a process; return what became of them.

    Each process is this program with the same words, ``--json`` and the number of its
    file, ``--only``; what it says on stderr is passed on when it has ended.
    """
    batch = _Batch(arguments, paths)
    try:
        outcomes = batch.run()
    finally:
        batch.end()
    results = Results()
    for path in arguments.files:  # the same file may be named twice
        code, value = outcomes[path]
        results.code = max(results.code, code)
        results.objects.append(value)
    return results


class Schedule:
    """Which files may be read beside each other, by the memory that they need.

    Attributes
    ----------
    running : bytes that each file that is being read needs, by its number.
    """

    def __init__(
        self, n_files: int, n_jobs: int, memory_bytes: int, *, is_forced: bool = False
    ) -> None:
        """Let all files wait.

        Parameters
        ----------
        n_jobs : files that are read at once, at most.
        memory_bytes : of all files that are read at once.
        is_forced : whether memory is not looked at.
        """
        self.running: dict[int, int] = {}
        self._n_jobs, self._memory_bytes = n_jobs, memory_bytes
        self._is_forced = is_forced
        self._waiting = list(range(n_files))
        self._beside: set[int] = set()
        self._alone: set[int] = set()

    def start_next(self, needed_bytes: Callable[[int], int]) -> int | None:
        """Return the file to read now; None = none waits, or it has to wait longer.

        Parameters
        ----------
        needed_bytes : takes the number of a file.
        """
        if not self._waiting or len(self.running) >= self._n_jobs:
            return None
        number = self._waiting[0]
        needed = needed_bytes(number)
        if self.running:
            if not self._fits(number, needed):
                return None
            self._beside |= {number, *self.running}
        del self._waiting[0]
        self.running[number] = needed
        return number

    def end(self, number: int, *, is_too_large: bool) -> bool:
        """Take a file off; return whether it is to be read again, alone.

        That is so where it did not fit into memory, part of which others had.
        """
        del self.running[number]
        is_again = is_too_large and number in self._beside
        self._beside.discard(number)
        if is_again:
            self._alone.add(number)
            self._waiting.append(number)
        return is_again

    def _fits(self, number: int, needed_bytes: int) -> bool:
        """Whether a file may be opened beside those that are open."""
        if number in self._alone or self._alone & self.running.keys():
            return False
        if self._is_forced:
            return True
        promised = sum(self.running.values()) + needed_bytes
        return promised <= self._memory_bytes and needed_bytes <= available_bytes()


class _Batch:
    """The processes that run, and what those that ended have printed."""

    def __init__(self, arguments: Namespace, paths: Sequence[Path]) -> None:
        self._arguments, self._paths = arguments, paths
        n_jobs = min(arguments.jobs or _n_cores(), len(paths))
        self._needs_estimates = n_jobs > 1 and not arguments.force
        self._schedule = Schedule(
            len(paths),
            n_jobs,
            memory_limit(0) or available_bytes(),
            is_forced=arguments.force,
        )
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._outcomes: dict[Path, tuple[int, object]] = {}
        self._ended: queue.SimpleQueue[tuple[int, str, str]] = queue.SimpleQueue()
        self._is_shown = sys.stderr.isatty() and not arguments.quiet

    def run(self) -> dict[Path, tuple[int, object]]:
        """Return exit code and JSON by file."""
        while len(self._outcomes) < len(self._paths):
            while (number := self._schedule.start_next(self._needed_bytes)) is not None:
                self._start(number)
            self._show()
            self._take(*self._ended.get())
        return self._outcomes

    def end(self) -> None:
        """End what still runs, so that it leaves nothing half written."""
        if self._is_shown:
            output.rewrite_line("")
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _needed_bytes(self, number: int) -> int:
        if not self._needs_estimates:
            return 0
        return needed_bytes(self._arguments, self._paths[number])

    def _start(self, number: int) -> None:
        process = subprocess.Popen(
            [
                *assets.program(), self._arguments.command, "--json",
                "--only", str(number), *self._arguments.forwarded,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )  # fmt: skip
        self._processes[number] = process

        def wait() -> None:
            self._ended.put((number, *process.communicate()))

        threading.Thread(target=wait, daemon=True).start()

    def _take(self, number: int, printed: str, errors: str) -> None:
        """Store what a process has printed that has ended."""
        code, path = self._processes.pop(number).returncode, self._paths[number]
        value = _json_of(printed)
        if self._schedule.end(number, is_too_large=_is_too_large(value)):
            return
        if self._is_shown:
            output.rewrite_line("")
        output.write_stderr(errors)
        if value is None or code < 0:
            error = TraceError(f"{path}: {exit_reason(code, errors)}")
            if code < 0 or not errors:
                output.complain(str(error))
            code, value = ERROR, failure_json(path, error)
        self._outcomes[path] = code, value
        if not self._is_shown and not self._arguments.quiet:
            output.say(f"{len(self._outcomes)} of {len(self._paths)} files: {path}.")

    def _show(self) -> None:
        if self._is_shown:
            names = ", ".join(self._paths[number].name for number in self._processes)
            n, n_all = len(self._outcomes), len(self._paths)
            output.rewrite_line(f"{n} of {n_all} files done; {names}")


def needed_bytes(arguments: Namespace, path: Path) -> int:
    """Return about what opening a file takes, by its reader's own estimate."""
    options = reader_options(arguments)
    needed = _PROCESS_BYTES
    for each in (path, *arguments.beside):
        try:
            estimated = estimate(each, reader_id=arguments.reader)
        except TraceError:  # its process reports it
            estimated = None
        if estimated is not None:
            needed += judge(estimated, options).needed_bytes
        else:
            needed += _UNKNOWN_BYTES + _UNKNOWN_FACTOR * _size(each)
    return needed


def _n_cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = path.iterdir() if os.path.isdir(path) else (path,)
    try:
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0


def _json_of(output: str) -> object:
    """Return what a process printed; None where it printed no JSON."""
    try:
        value: object = json.loads(output)
    except ValueError:
        return None
    return value


def _is_too_large(value: object) -> bool:
    error = value.get("error") if isinstance(value, dict) else None
    return isinstance(error, dict) and error.get("code") == "too_large"


def exit_reason(code: int, errors: str) -> str:
    """Return why a process printed nothing about its file.

    Parameters
    ----------
    code : its exit status; below 0 = the signal that ended it.
    errors : what it has printed on stderr.
    """
    number = -code if code < 0 else code - 128
    if code < 0 or code == INTERRUPTED or number in (1, 15):
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        hint = ""
        if name == "SIGKILL":
            hint = " Linux does so where memory runs out; --jobs 1 needs the least."
        return (
            f"the process that drew its figures was ended by {name}.{hint} Figures "
            "that it had finished are whole; --resume writes the others."
        )
    last = errors.strip().rpartition("\n")[2].removeprefix("ggscope: ")
    return last or f"the process that drew its figures ended with {code}."
