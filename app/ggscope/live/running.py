"""Programs of the user that run ggml now, and whether each can be followed.

Linux shows in ``/proc`` which libraries a process has mapped and what it was started
with. Elsewhere programs are determined by their names alone.
"""

import contextlib
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import psutil

from ggscope.live.launcher import TOOL
from ggscope.live.open_source import RING_VARIABLE, rings
from ggscope.live.processes import (
    MappedFile,
    environment,
    mapped_files,
    own_pids,
    process,
    start_time,
    working_folder,
    written_files,
)
from ggscope.live.ring import RingHead, ring_head

_LIBRARY = re.compile(
    r"/lib(ggml|llama|whisper|stable-diffusion)\b[^/]*$|/(xllamacpp|llama_cpp)[^/]*/"
)
_PROGRAM = re.compile(r"(llama|whisper|ggml|koboldcpp|ollama|stable-diffusion)\b", re.I)
_STREAM = re.compile(r"\.ggmlviz$|/tensor_trace[^/]*\.bin$")
_LOOK_AGAIN_S = 10.0
"""A process without ggml is looked at again after so long: libraries come late."""


class Tracing(Enum):
    """Whether a program can be followed."""

    TRACED = "traced"
    """It writes a ring."""
    PREPARED = "waiting"
    """It was started with the tracer, and has computed nothing yet."""
    STREAM = "writes a trace"
    """It writes a file that can be followed."""
    UNTRACED = "not traced"
    ENDED = "ended"
    """It has ended; the content of its ring can still be opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProgram:
    """A program that runs ggml.

    Attributes
    ----------
    command : with its arguments; () where unknown.
    began : seconds since 1970; None = not known.
    folder : that it runs in; "" = not known.
    target : what to follow, as `follow.path_to_follow` takes it; "" = it cannot be.
    why : what keeps it from being followed, or what it has not done yet; "" = nothing.
    """

    pid: int
    name: str
    command: tuple[str, ...]
    began: float | None
    tracing: Tracing
    folder: str = ""
    target: str = ""
    why: str = ""

    @property
    def command_line(self) -> str:
        """The command as for a shell."""
        return shlex.join(self.command)

    @property
    def restart_command(self) -> str:
        """The command that starts it with the tracer, as for a shell; "" = unknown."""
        if not self.command or self.tracing is not Tracing.UNTRACED:
            return ""
        name = Path(self.command[0]).name or "trace"
        run = shlex.join([TOOL, "run", "-o", f"{name}.bin", "--", *self.command])
        # Its arguments may name files by where it runs.
        return f"cd {shlex.quote(self.folder)} && {run}" if self.folder else run


class ProgramList:
    """Looks for programs again and again; what has no ggml is passed over for a while.

    Used by one thread at a time.
    """

    def __init__(self) -> None:
        self._passed: dict[tuple[int, int | None], float] = {}

    def look(self, check_cancelled: Callable[[], None]) -> tuple[RunningProgram, ...]:
        """Return the programs: those that can be followed first, the newest first.

        What `check_cancelled` raises ends the look.
        """
        programs: dict[int, RunningProgram] = {}
        heads = _rings(check_cancelled)
        pids = dict.fromkeys([*(h.pid for h, _ in heads if h.is_running), *_pids()])
        for pid in pids:
            check_cancelled()
            if (program := self._program(pid, heads)) is not None:
                programs[pid] = program
        ended = [_ended(h, path) for h, path in heads if not h.is_running]
        every = [*_without_wrappers(programs), *ended]
        order = list(Tracing)
        every.sort(key=lambda p: (order.index(p.tracing), -(p.began or 0), p.pid))
        return tuple(every)

    def _program(
        self, pid: int, heads: list[tuple[RingHead, Path]]
    ) -> RunningProgram | None:
        key, now = (pid, start_time(pid)), time.monotonic()
        if self._passed.get(key, 0.0) > now:
            return None
        mapped = mapped_files(pid)
        variables = environment(pid)
        name, command, began = _identity(pid)
        ring = next((p for h, p in heads if h.pid == pid and h.is_running), None)
        stream = _stream(pid, mapped)
        is_meant = may_trace(variables)
        runs_ggml = has_ggml(mapped) or _PROGRAM.match(name) is not None
        if not (ring or stream or is_meant or runs_ggml):
            self._passed = {k: t for k, t in self._passed.items() if t > now}
            self._passed[key] = now + _LOOK_AGAIN_S
            return None
        if is_launcher(pid):
            return None
        tracing, target, why = Tracing.UNTRACED, "", ""
        if ring is not None:
            tracing, target = Tracing.TRACED, str(pid)
        elif is_meant:
            tracing, target, why = _prepared(pid, variables, mapped)
        elif stream:
            tracing, target = Tracing.STREAM, stream
        return RunningProgram(
            pid=pid,
            name=name,
            command=command,
            began=began,
            tracing=tracing,
            folder=str(working_folder(pid) or ""),
            target=target,
            why=why,
        )


def has_ggml(mapped: tuple[MappedFile, ...]) -> bool:
    """Return whether a process has mapped ggml, or what contains it, as a library."""
    return any(_LIBRARY.search(file.path) for file in mapped)


def may_trace(variables: Mapping[str, str]) -> bool:
    """Return whether a process was started with the tracer in its environment."""
    return RING_VARIABLE in variables


def maps_tracer(variables: Mapping[str, str], mapped: tuple[MappedFile, ...]) -> bool:
    """Return whether a process has mapped what its environment brings in."""
    brought = {
        os.path.realpath(path)
        for name in ("LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "GGML_BACKEND_PATH")
        for path in variables.get(name, "").split(":")
        if path
    }
    return not brought.isdisjoint(file.path for file in mapped)


def _prepared(
    pid: int, variables: Mapping[str, str], mapped: tuple[MappedFile, ...]
) -> tuple[Tracing, str, str]:
    """Tell how it stands with a program that was started with the tracer."""
    if mapped and has_ggml(mapped) and not maps_tracer(variables, mapped):
        why = "it has loaded ggml but not the tracer: something keeps that out"
        return Tracing.UNTRACED, "", why
    if mapped and not has_ggml(mapped):
        return Tracing.PREPARED, str(pid), "it has not loaded ggml yet"
    return Tracing.PREPARED, str(pid), "it has computed nothing yet"


def _rings(check_cancelled: Callable[[], None]) -> list[tuple[RingHead, Path]]:
    traced = []
    for path in rings():
        check_cancelled()
        if (head := ring_head(path)) is not None:
            traced.append((head, path))
    return traced


def _pids() -> list[int]:
    """Return the numbers of the user's processes."""
    candidates = list(own_pids())
    if candidates or os.name != "posix":
        return candidates
    own = os.getuid()
    pids = []
    for each in psutil.process_iter():  # where there is no /proc
        with contextlib.suppress(psutil.Error):
            if each.uids().real == own and each.pid != os.getpid():
                pids.append(each.pid)
    return pids


def _identity(pid: int) -> tuple[str, tuple[str, ...], float | None]:
    """Return name, command and start of a process."""
    name, command, began = process(pid).name, (), None
    with contextlib.suppress(psutil.Error, OSError):
        program = psutil.Process(pid)
        began = program.create_time()
        command = tuple(program.cmdline())
    if command and not Path(command[0]).name:
        command = ()
    return name, command, began


def is_launcher(pid: int) -> bool:
    """Return whether a process is the capture tool, which computes nothing itself."""
    _, command, _ = _identity(pid)
    names = [Path(word).name for word in command[:3]]
    return TOOL in names or "ggscope_capture" in command[:3]


def _stream(pid: int, mapped: tuple[MappedFile, ...]) -> str:
    """Return a trace file that a process writes; "" = none."""
    written = [file.path for file in mapped if file.is_written]
    return next((p for p in (*written, *written_files(pid)) if _STREAM.search(p)), "")


def _without_wrappers(programs: Mapping[int, RunningProgram]) -> list[RunningProgram]:
    """Leave out shells and scripts whose child is the program that is meant."""
    parents: set[int] = set()
    for pid in programs:
        with contextlib.suppress(psutil.Error):
            parents.update(p.pid for p in psutil.Process(pid).parents())
    traced = (Tracing.TRACED, Tracing.STREAM)
    return [
        program
        for pid, program in programs.items()
        if program.tracing in traced or pid not in parents
    ]


def _ended(head: RingHead, path: Path) -> RunningProgram:
    return RunningProgram(
        pid=head.pid,
        name=Path(head.program).name or "a program",
        command=(head.program,) if head.program else (),
        began=head.began or None,
        tracing=Tracing.ENDED,
        target=str(path),
        why="it has ended; what its ring still holds can be looked at",
    )
