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
from collections.abc import Sequence
from dataclasses import dataclass
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
"""What readers stay below that tell no estimate: see `readers.memory.Allowance`."""
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


@dataclass(slots=True)
class _Child:
    """A process with what its file needs; `was_beside` others at some time."""

    process: subprocess.Popen[str]
    needed_bytes: int
    was_beside: bool


class _Batch:
    """The processes that run, the files that wait, and what was found."""

    def __init__(self, arguments: Namespace, paths: Sequence[Path]) -> None:
        self._arguments, self._paths = arguments, paths
        self._n_jobs = min(arguments.jobs or _n_cores(), len(paths))
        self._room = memory_limit(0) or available_bytes()
        self._waiting = list(range(len(paths)))
        self._alone: set[int] = set()
        self._running: dict[int, _Child] = {}
        self._found: dict[Path, tuple[int, object]] = {}
        self._ended: queue.SimpleQueue[tuple[int, str, str]] = queue.SimpleQueue()
        self._is_shown = sys.stderr.isatty() and not arguments.quiet

    def run(self) -> dict[Path, tuple[int, object]]:
        """Return exit code and JSON by file."""
        while len(self._found) < len(self._paths):
            while self._waiting and len(self._running) < self._n_jobs:
                number = self._waiting[0]
                needed = self._needed_bytes(number)
                if self._running and not self._has_room(number, needed):
                    break
                self._start(self._waiting.pop(0), needed)
            self._show()
            self._take(*self._ended.get())
        return self._found

    def end(self) -> None:
        """End what still runs, so that it leaves nothing half written."""
        if self._is_shown:
            output.rewrite_line("")
        for child in self._running.values():
            with contextlib.suppress(OSError):
                child.process.terminate()
        for child in self._running.values():
            try:
                child.process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()

    def _needed_bytes(self, number: int) -> int:
        """Return about what opening a file takes, by its reader's own estimate."""
        if self._n_jobs == 1 or self._arguments.force:
            return 0
        options = reader_options(self._arguments)
        needed = _PROCESS_BYTES
        for path in (self._paths[number], *self._arguments.beside):
            try:
                estimated = estimate(path, reader_id=self._arguments.reader)
            except TraceError:  # its process tells
                estimated = None
            if estimated is not None:
                needed += judge(estimated, options).needed_bytes
            else:
                needed += _UNKNOWN_BYTES + _UNKNOWN_FACTOR * _size(path)
        return needed

    def _has_room(self, number: int, needed_bytes: int) -> bool:
        """Tell whether a file may be opened beside those that are open."""
        if number in self._alone or self._alone & self._running.keys():
            return False
        if self._arguments.force:
            return True
        promised = sum(child.needed_bytes for child in self._running.values())
        return (
            promised + needed_bytes <= self._room and needed_bytes <= available_bytes()
        )

    def _start(self, number: int, needed_bytes: int) -> None:
        process = subprocess.Popen(
            [
                *assets.program(), self._arguments.command, "--json",
                "--only", str(number), *self._arguments.words,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )  # fmt: skip
        for child in self._running.values():
            child.was_beside = True
        self._running[number] = _Child(process, needed_bytes, bool(self._running))

        def wait() -> None:
            self._ended.put((number, *process.communicate()))

        threading.Thread(target=wait, daemon=True).start()

    def _take(self, number: int, printed: str, errors: str) -> None:
        """Keep what a process has said that has ended."""
        child, path = self._running.pop(number), self._paths[number]
        code = child.process.returncode
        value = _json_of(printed)
        if child.was_beside and _is_too_large(value):
            # The others had the memory: it is read again when nothing else is.
            self._alone.add(number)
            self._waiting.append(number)
            return
        if self._is_shown:
            output.rewrite_line("")
        output.tell(errors)
        if value is None or code < 0:
            error = TraceError(f"{path}: {_why(code, errors)}")
            if code < 0 or not errors:
                output.complain(str(error))
            code, value = ERROR, failure_json(path, error)
        self._found[path] = code, value
        if not self._is_shown and not self._arguments.quiet:
            output.say(f"{len(self._found)} of {len(self._paths)} files: {path}.")

    def _show(self) -> None:
        if self._is_shown:
            names = ", ".join(self._paths[number].name for number in self._running)
            n, n_all = len(self._found), len(self._paths)
            output.rewrite_line(f"{n} of {n_all} files done; {names}")


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


def _why(code: int, errors: str) -> str:
    """Return why a process told nothing of its file."""
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
