"""Programs under the capture tool: what there is, what can be traced, one that runs.

The tool is a program of its own. It is asked by its command line and started as a
child, so that neither package knows the other, and each outlives the other's end.
"""

import codecs
import contextlib
import importlib.util
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ggscope.errors import LiveError, ReadError
from ggscope.model.ggml.types import file_type_name
from ggscope.model.units import format_bytes, format_count
from ggscope.readers.common.gguf_header import read_header
from ggscope.readers.source import Source

TOOL = "ggscope-capture"
_ASK_S = 60
_LOOK_S = 0.05
_PIECE, _BEHIND = 1 << 16, 1 << 20
"""Bytes of a stream that are taken at a time, and how many may wait to be taken."""
_PATIENCE_S = 5.0
"""A program that was asked to end gets so long before it is killed."""


@dataclass(frozen=True, slots=True)
class Target:
    """A program that can be run.

    Attributes
    ----------
    kind : "program", or "libraries" and "library" of llama.cpp, which the tool runs.
    origin : where it was found.
    command : how it is called, with ``{model} {prompt} {tokens} {threads}`` to be
        filled in; () where that is not known.
    """

    path: str
    kind: str = "program"
    origin: str = ""
    command: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What people call it."""
        return Path(self.path).name if self.kind == "program" else "llama.cpp"


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """One thing that has to be so before anything is traced here.

    Attributes
    ----------
    works : None where it limits what is traced, or only a run can show it.
    """

    name: str
    works: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class TraceabilityCheck:
    """Whether a program can be traced.

    Attributes
    ----------
    works : None where only a run can show.
    why : a reason per way to trace it, without repetition.
    advice : what to do next.
    machine : checks of tracer, environment and permissions.
    """

    target: Target
    linkage: str
    works: bool | None
    why: tuple[str, ...]
    advice: str
    machine: tuple[MachineCheck, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """A program to run, its arguments, and the file of its records.

    Attributes
    ----------
    records_calls : whether calls of the CUDA driver are recorded, not ops of ggml.
    """

    target: Target
    output: str
    model: str = ""
    prompt: str = ""
    tokens: int = 32
    threads: int = 1
    more: str = ""
    """Further arguments, as for a shell."""
    records_calls: bool = False

    def command(self) -> list[str]:
        """Return the program with its arguments; raises LiveError."""
        values = {
            "{model}": self.model,
            "{prompt}": self.prompt,
            "{tokens}": str(self.tokens),
            "{threads}": str(self.threads),
        }
        parts = self.target.command or (self.target.path,)
        try:
            more = shlex.split(self.more)
        except ValueError:
            raise LiveError("a quotation in the further arguments has no end") from None
        return [*(values.get(part, part) for part in parts), *more]

    def arguments(self) -> list[str]:
        """Return the arguments of the capture tool; raises LiveError."""
        what = "cuda" if self.records_calls else "run"
        return [what, "-o", self.output, "--", *self.command()]

    def shown(self) -> str:
        """Return the command for a shell; raises LiveError."""
        return shlex.join([TOOL, *self.arguments()])


def tool() -> list[str]:
    """Return the command of the capture tool; raises LiveError where there is none."""
    is_frozen = getattr(sys, "frozen", False)
    if not is_frozen and importlib.util.find_spec("ggscope_capture") is not None:
        return [sys.executable, "-m", "ggscope_capture"]
    beside = os.path.dirname(sys.executable)
    path = shutil.which(TOOL, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        raise LiveError(
            f"{TOOL} is not installed; it comes with every ggscope but the Flatpak's, "
            "whose sandbox nothing can be traced from"
        )
    return [path]


def _query(check_cancelled: Callable[[], None], *arguments: str) -> Any:
    """Return the JSON that the tool prints; raises LiveError with its error message.

    What `check_cancelled` raises ends the tool and passes.
    """
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(
            [*tool(), *arguments, "--json"],
            stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
        ) as child:  # fmt: skip
            try:
                reply, errors = _outputs(child, check_cancelled)
            except BaseException:
                child.kill()
                raise
        if child.returncode == 0:
            return json.loads(reply)
    except (OSError, ValueError) as error:
        raise LiveError(f"{TOOL} gave no answer: {error}") from error
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    message = lines[-1].removeprefix(f"{TOOL}: ") if lines else ""
    raise LiveError(message or f"{TOOL} ended with {child.returncode}")


def _outputs(
    child: subprocess.Popen[bytes], check_cancelled: Callable[[], None]
) -> tuple[bytes, bytes]:
    until = time.monotonic() + _ASK_S
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=_LOOK_S)
        check_cancelled()
        if time.monotonic() > until:
            raise LiveError(f"{TOOL} gave no answer within {_ASK_S} s")


def _target(row: Mapping[str, Any]) -> Target:
    command = tuple(map(str, row.get("command") or ()))
    return Target(str(row["path"]), str(row["kind"]), str(row["origin"]), command)


def targets(check_cancelled: Callable[[], None]) -> tuple[Target, ...]:
    """Return the llama.cpp installations, the best first; raises LiveError."""
    return tuple(_target(row) for row in _query(check_cancelled, "targets"))


def check(
    program: str,
    output: str,
    check_cancelled: Callable[[], None],
    *,
    records_calls: bool = False,
) -> TraceabilityCheck:
    """Return whether a program, or a llama.cpp library, can be traced.

    Parameters
    ----------
    output : file of the records, which is checked too; "" = none.
    records_calls : whether calls of CUDA are to be recorded, not ops.
    check_cancelled : called repeatedly; what it raises ends the check.

    Raises
    ------
    LiveError
        If there is no such program, or it cannot be read.
    """
    rows = _query(check_cancelled, "targets", "--program", program)
    target = _target(rows[0])
    more: tuple[str, ...] = ("--cuda",) if records_calls else ()
    more += ("-o", output) if output else ()
    report = _query(check_cancelled, "doctor", target.path, *more)
    verdicts = {way["works"] for way in report["doors"]}
    works = True if True in verdicts else None if None in verdicts else False
    why = dict.fromkeys(
        str(way["why"]) for way in report["doors"] if way["works"] is works
    )
    machine = tuple(
        MachineCheck(str(row["name"]), row["works"], str(row["text"]))
        for row in report.get("checks", ())
    )
    return TraceabilityCheck(
        target,
        str(report["linkage"]),
        works,
        tuple(why),
        str(report["advice"]),
        machine,
    )


def model_text(path: str) -> str:
    """Return a line about a model: architecture, size, quantisation.

    Raises
    ------
    ReadError
        If it is no GGUF file, or a damaged one.
    """
    with Source(path) as source:
        header = read_header(source)
        size = source.size
    architecture = header.text("general.architecture")
    n = sum(math.prod(tensor.shape) for tensor in header.tensors)
    layers = header.integer(f"{architecture}.block_count")
    experts = header.integer(f"{architecture}.expert_count")
    parts = header.integer("split.count")
    kind = file_type_name(header.integer("general.file_type"))
    if header.n_tensors < 0 or header.end < 0:
        raise ReadError(f"the head of {Path(path).name} is damaged", path=Path(path))
    return " · ".join(
        word
        for word in (
            architecture or "unknown architecture",
            f"{_short_count(n)} parameters",
            kind or "unknown quantisation",
            f"{layers} layers" if layers >= 0 else "unknown number of layers",
            f"{experts} experts" if experts > 0 else "",
            format_bytes(size),
            f"one of {format_count(parts)} files" if parts > 1 else "",
        )
        if word
    )


def _short_count(n: int) -> str:
    for unit, word in ((10**9, "billion"), (10**6, "million")):
        if n >= unit:
            return f"{n / unit:.4g} {word}"
    return format_count(n)


class Running:
    """A process of the capture tool, and the output of it and its program.

    The output goes into files without a name: the program never waits for the
    viewer, and neither notices when the other is killed.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        """Start it; raises LiveError."""
        self._streams = tuple(tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        self._at = [0, 0]
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = (decoder("replace"), decoder("replace"))
        self._asked_at = 0.0
        try:
            self._process = subprocess.Popen(
                [*tool(), *arguments], stdin=subprocess.DEVNULL,
                stdout=self._streams[0], stderr=self._streams[1],
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._close()
            raise LiveError(f"{TOOL} cannot be started: {error.strerror}") from error
        except LiveError:
            self._close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the tool, after which it names its rings."""
        return self._process.pid

    def status(self) -> int | None:
        """Return the exit code, minus n for signal n; None while it runs."""
        return self._process.poll()

    def read_output(self) -> list[tuple[bool, str]]:
        """Return new output: whether it came on stderr, and the text.

        Of more than a megabyte of unread output only the end is returned.
        """
        chunks = []
        for number, stream in enumerate(self._streams):
            if stream.closed:
                continue
            at, end = self._at[number], os.fstat(stream.fileno()).st_size
            text = ""
            if end - at > _BEHIND:
                text = f"\n… {format_bytes(end - at - _PIECE)} left out …\n"
                at = end - _PIECE
            data = os.pread(stream.fileno(), _PIECE, at)
            self._at[number] = at + len(data)
            text += self._decoders[number].decode(data)
            if text:
                chunks.append((number == 1, text))
        return chunks

    def stop(self) -> None:
        """Ask the program to end; kill it where it was asked five seconds ago.

        The tool goes on until all that was recorded is written.
        """
        if self.status() is not None:
            return
        if not self._asked_at:
            self._asked_at = time.monotonic()
            self._process.send_signal(signal.SIGTERM)
        elif time.monotonic() - self._asked_at >= _PATIENCE_S:
            _kill_children(self.pid)

    def detach(self, *, stops: bool = True) -> None:
        """Ask it to end, and wait for that on a thread, if it has not yet.

        Where it is not stopped the program runs on, and is recorded to its end.
        """
        self._close()
        if self.status() is not None:
            return
        if stops:
            self.stop()
        target = self._wait_or_kill if stops else self._process.wait
        threading.Thread(target=target, name="launch", daemon=True).start()

    def _wait_or_kill(self) -> None:
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            _kill_children(self.pid)
            self._process.wait()

    def _close(self) -> None:
        for stream in self._streams:
            stream.close()


def _kill_children(pid: int) -> None:
    """Kill what a process has started, but not the process."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return
    for child in children:
        try:
            child.kill()
        except psutil.Error:
            continue
