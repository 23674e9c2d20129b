"""Launcher: runs an unmodified program with the tracer loaded, and writes its trace.

The program has its own stdin, stdout, stderr, process group and exit status, and gets
all signals that the launcher gets. Two variables name the tracer: ggml loads the
library of ``GGML_BACKEND_PATH`` together with its backends, the system's loader that of
``LD_PRELOAD`` (on macOS ``DYLD_INSERT_LIBRARIES``); both load it once only. Whatever
goes wrong with the tracing, the program runs.
"""

import contextlib
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ggscope_capture import doctor, files, recording
from ggscope_capture.child import (
    FAILED,
    NOT_EXECUTABLE,
    NOT_FOUND,
    Child,
    LaunchError,
    spawned,
)
from ggscope_capture.config import Configuration, Settings
from ggscope_capture.native import build
from ggscope_capture.recording import Recorder
from ggscope_capture.recording_folder import NOTE_SUFFIX, partial_of
from ggscope_capture.regular_file import is_own_file
from ggscope_capture.ring import RECORD, NotReadyError
from ggscope_capture.ring_format import DEFS_SUFFIX, RING_PAGE, RingError

_SCAN_INTERVAL_S = 0.2
"""Between looks for new rings and a changed settings file."""
_SILENCE_S = 5.0
MIN_BYTES = 4 << 20
"""A ring of a megabyte, its definitions, and some room for others."""
Say = Callable[[str, str], None]
"""Takes a level (DEBUG, INFO, WARN, ERROR) and a line."""


class NoTraceError(Exception):
    """Tracing cannot begin; the text says why and what to do."""


def ring_folder() -> Path:
    """Return the folder for rings: /dev/shm on Linux, if it has space.

    Otherwise the temporary folder. ``GGSCOPE_RINGS`` overrides both.
    """
    given = os.environ.get("GGSCOPE_RINGS")
    if given:
        return Path(given).absolute()
    memory = Path("/dev/shm")
    if (
        sys.platform.startswith("linux")
        and os.access(memory, os.W_OK)
        and shutil.disk_usage(memory).free >= MIN_BYTES
    ):
        return memory
    return Path(tempfile.gettempdir())


@dataclass
class Launch:
    """One traced run of a program.

    Attributes
    ----------
    reload : returns the new settings if their file has changed, else None.
    write : writes the outputs of a finished recording; returns their paths.
    """

    command: Sequence[str]
    configuration: Configuration
    say: Say
    write: Callable[[Path, Settings, int], list[Path]]
    requires: bool = False
    reload: Callable[[], Settings | None] = lambda: None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _has_failed: bool = False
    _recorders: dict[Path, Recorder] = field(default_factory=dict)
    _refused: set[Path] = field(default_factory=set)
    _damage: set[str] = field(default_factory=set)

    def run(self) -> int:
        """Run the program; return its exit code, negative where a signal ended it.

        Raises
        ------
        LaunchError
            If the program cannot be started, or not be traced and `requires`.
        """
        program = find_program(self.command[0], self.environment)
        settings = self.configuration.settings
        with contextlib.ExitStack() as stack:
            try:
                environment, ring = self._prepared(program, settings, stack)
            except NoTraceError as reason:
                if self.requires:
                    raise LaunchError(str(reason), FAILED) from reason
                self.say("WARN", f"{self.command[0]} runs untraced: {reason}")
                with spawned(program, self.command, self.environment) as child:
                    while not child.wait(1.0):
                        pass
                return os.waitstatus_to_exitcode(child.status)
            child = stack.enter_context(spawned(program, self.command, environment))
            self._follow(child, ring, settings)
            code = os.waitstatus_to_exitcode(child.status)
            n = self._finish(ring, child.pid, code)
        if n == 0:
            why = self._why_nothing(code)
            if self.requires:
                raise LaunchError(why, FAILED)
            level = "WARN" if self.configuration.settings.enabled else "INFO"
            self.say(level, why)
        return code

    def _prepared(
        self, program: Path, settings: Settings, stack: contextlib.ExitStack
    ) -> tuple[dict[str, str], Path]:
        """Return the program's environment and the ring that it will make."""
        try:
            report = doctor.examine(program)
        except doctor.DoctorError as error:
            raise NoTraceError(str(error)) from error
        if report.works is False:
            raise NoTraceError(f"{report.routes[-1].why}. {report.advice}")
        folder = ring_folder()
        for target in filter(None, (settings.output, settings.ggmlviz)):
            check_target(Path(target))
            files.remove_abandoned(Path(target).parent)
        files.remove_abandoned(folder)
        if _is_full(folder):
            raise NoTraceError(
                f"not enough space for a ring in {folder}: free some, or set "
                "GGSCOPE_RINGS to another folder"
            )
        tracer = without_spaces(tracer_library(), stack)
        ring = folder / f"ggscope-{os.getpid()}-{secrets.token_hex(4)}"
        environment = dict(self.environment)
        preload = doctor.preload()
        given = environment.get(preload)
        environment[preload] = f"{tracer}:{given}" if given else str(tracer)
        if environment.get("GGML_BACKEND_PATH"):
            self.say("INFO", "GGML_BACKEND_PATH is already set and left unchanged")
        else:
            environment["GGML_BACKEND_PATH"] = str(tracer)
        environment["GGSCOPE_RING"] = str(ring)
        if settings.ring_records:
            environment["GGSCOPE_RING_SIZE"] = str(_ring_bytes(settings.ring_records))
        if settings.overwrite:
            environment["GGSCOPE_RING_MODE"] = "overwrite"
        environment["GGSCOPE_ENABLED"] = str(int(settings.enabled))
        environment["GGSCOPE_SAMPLE"] = str(settings.sample_every)
        return environment, ring

    def _follow(self, child: Child, ring: Path, settings: Settings) -> None:
        """Drain the rings until the program ends."""
        begun = looked = time.monotonic()
        is_silent = True
        while not child.wait(settings.flush_interval_ms / 1000):
            now = time.monotonic()
            if now - looked >= _SCAN_INTERVAL_S or not self._recorders:
                looked = now
                self._open_rings(ring, settings)
                settings = self._reloaded(settings)
            self._poll()
            if self._recorders:
                is_silent = False
            elif is_silent and now - begun > _SILENCE_S:
                is_silent = False
                self._explain_silence(child.pid)

    def _open_rings(
        self, ring: Path, settings: Settings, *, is_last: bool = False
    ) -> None:
        """Open new rings: there is one for each process that computes."""
        for path in sorted(ring.parent.glob(f"{ring.name}*")):
            if path in self._recorders or path in self._refused:
                continue
            if path.suffix in {DEFS_SUFFIX, NOTE_SUFFIX, ".tmp"}:
                continue
            if not is_own_file(path):  # somebody else's, in a folder for all
                continue
            n = len(self._recorders)
            try:
                self._recorders[path] = Recorder.begin(path, self._folder(n), settings)
            except NotReadyError:
                continue  # being created; if it never is, its process ended first
            except RingError as error:
                if is_last:
                    self._refused.add(path)
                    self.say("ERROR", f"{path} ignored: {error}")
            except OSError as error:
                self._refused.add(path)
                self._has_failed = True
                place = error.filename or path
                reason = files.reason_of(error)
                self.say(
                    "ERROR",
                    f"{place}: {reason}. The ring holds the records so far; to save "
                    f"them: `ggscope-capture recover '{path}' -o OUT.bin`",
                )

    def _folder(self, number: int) -> Path:
        """Return the name of a folder beside the output."""
        target = numbered(target_of(self.configuration.settings, self.command), number)
        return partial_of(target)

    def _poll(self) -> None:
        for path, recorder in list(self._recorders.items()):
            try:
                recorder.poll()
                self._say_notes(recorder)
            except (OSError, RingError) as error:
                self._has_failed = True
                self.say(
                    "ERROR",
                    f"recording stopped: {error}. To save the records so far: "
                    f"`ggscope-capture recover '{path}' -o OUT.bin`",
                )
                self._refused.add(path)
                with contextlib.suppress(OSError, RingError):
                    recorder.finish(keeps_ring=True)
                del self._recorders[path]

    def _say_notes(self, recorder: Recorder) -> None:
        for note in recorder.new_notes():
            if note != self.environment.get("GGSCOPE_NOTE"):  # whoever set it knows it
                self.say("WARN", note)
        if recorder.ring.damage - self._damage:
            self._damage |= recorder.ring.damage
            names = ", ".join(sorted(recorder.ring.damage))
            self.say(
                "ERROR",
                f"damaged ring counters ({names}): unknown number of lost records",
            )

    def _reloaded(self, settings: Settings) -> Settings:
        """Return the current settings, reloaded if their file has changed."""
        anew = self.reload()
        if anew is None:
            return settings
        self.say("INFO", "settings reloaded")
        for recorder in self._recorders.values():
            recorder.settings = anew
        return anew

    def _finish(self, ring: Path, pid: int, code: int) -> int:
        """Drain the rings, write the outputs; return the number of graphs and records.

        The program of `pid` ended with `code`; those of other processes are unknown.
        A recording that cannot be written stays, and the message names it.
        """
        self._open_rings(ring, self.configuration.settings, is_last=True)
        total = 0
        for number, recorder in enumerate(self._recorders.values()):
            folder = recorder.folder
            try:
                is_it = recorder.ring.value("pid") == pid
                recorder.finish(
                    recording.end_of(
                        recorder.ring, code if is_it else None, has_launcher=True
                    )
                )
                self._say_notes(recorder)
                total += recorder.n_records + recorder.n_graphs
                written = self.write(folder, recorder.common_settings, number)
            except (OSError, RingError, NoTraceError) as error:
                self.say(
                    "ERROR",
                    f"{error}. The recording stays in {folder}; to save it: "
                    f"`ggscope-capture recover '{folder}' -o OUT.bin`",
                )
                continue
            if not recorder.remove():
                self.say("WARN", f"{folder} not removed: it contains other files")
            is_named = recorder.settings.output or recorder.settings.ggmlviz
            level = "INFO" if is_named else "WARN"
            self.say(level, f"wrote {' and '.join(map(str, written))}")
        self._remove_rest(ring)
        return total

    def _remove_rest(self, ring: Path) -> None:
        """Remove incomplete ring files of this run."""
        for path in ring.parent.glob(f"{ring.name}*"):
            name = path.name.removesuffix(DEFS_SUFFIX).removesuffix(NOTE_SUFFIX)
            if path.with_name(name) not in self._refused and is_own_file(path):
                path.unlink()

    def _explain_silence(self, pid: int) -> None:
        """Log why there are no records after the first seconds, if it can be known."""
        try:
            maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
        except OSError:
            return
        has_ggml = re.search(r"lib(ggml|llama)[^/\n]*\.so", maps) is not None
        if has_ggml and str(tracer_library()) not in maps:
            self.say(
                "WARN",
                "the program has loaded ggml, but not the tracer: it may have cleared "
                "its environment, or runs in a sandbox",
            )
        else:
            self.say("INFO", "no graph computed yet")

    def _why_nothing(self, code: int) -> str:
        """Return the reason why there is no trace."""
        if not self.configuration.settings.enabled:
            return "no trace: tracing was off"
        if self._has_failed:
            return "no trace: the ring could not be read"
        if _is_full(ring_folder()):
            return f"no trace: {ring_folder()} is full"
        if code != 0:
            how = (
                f"exited with code {code}" if code > 0 else f"died of {_signal(-code)}"
            )
            return f"no trace: the program {how} before it computed a traced graph"
        return (
            "no trace: no graph was computed by a ggml that can be traced. Run "
            f"`ggscope-capture doctor {self.command[0]}` for details"
        )


def find_program(name: str, environment: Mapping[str, str]) -> Path:
    """Return the path of a program to be run; raises LaunchError."""
    program = shutil.which(name, path=environment.get("PATH"))
    if program is not None:
        return Path(program).absolute()
    if os.sep in name and os.path.exists(name):  # which a long name does not raise
        raise LaunchError(f"{name} cannot be executed", NOT_EXECUTABLE)
    raise LaunchError(f"program {name} not found", NOT_FOUND)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _is_full(folder: Path) -> bool:
    """Return whether a folder lacks space for a ring, or does not exist."""
    try:
        return shutil.disk_usage(folder).free < MIN_BYTES
    except OSError:
        return True


def target_of(settings: Settings, command: Sequence[str]) -> Path:
    """Return the output file; the recording folder is created next to it."""
    for given in (settings.output, settings.ggmlviz):
        if given:
            return Path(given)
    name = re.sub(r"[^\w.-]", "_", Path(command[0]).stem) or "trace"
    return Path(f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.bin")


def numbered(path: Path, number: int) -> Path:
    """Return the path for the output of a further process: ``out-2.bin``, …."""
    if number == 0:
        return path
    return path.with_name(f"{path.stem}-{number + 1}{path.suffix}")


def tracer_library() -> Path:
    """Return the tracer's library, compiled if missing; raises NoTraceError.

    ``GGSCOPE_TRACER`` overrides it.
    """
    given = os.environ.get("GGSCOPE_TRACER")
    if given:
        if not Path(given).is_file():
            raise NoTraceError(f"tracer {given} not found (GGSCOPE_TRACER)")
        return Path(given).resolve()
    target = build.FOLDER / build.NAME
    if not target.is_file():
        try:
            build.compile_tracer(target)
        except (build.BuildError, OSError) as error:
            raise NoTraceError(str(error)) from error
    return target.resolve()


def without_spaces(library: Path, stack: contextlib.ExitStack) -> Path:
    """Return a path to a library without characters that separate preload lists."""
    if not re.search(r"[\s:;]", str(library)):
        return library
    folder = Path(tempfile.mkdtemp(prefix="ggscope-", dir=ring_folder()))
    stack.callback(folder.rmdir)
    link = folder / "tracer.so"
    link.symlink_to(library)
    stack.callback(link.unlink)
    return link


def check_target(target: Path) -> None:
    """Check before the run that an output can be written after it.

    Raises
    ------
    NoTraceError
        If it could not be written.
    """
    # Its sidecar may have the longer name.
    for path in (target, target.with_suffix(".json")):
        try:
            path.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            reason = files.reason_of(error)
            raise NoTraceError(f"{target} cannot be written: {reason}") from error
    folder = target.parent
    if target.is_dir():
        raise NoTraceError(f"{target} is a folder; give a file name")
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise NoTraceError(f"{target} cannot be written: no permission for {folder}")


def _ring_bytes(records: int) -> int:
    """Return the size of a ring for `records`; a part of it holds events."""
    return -(-records * RECORD.itemsize * 8 // 7) + 32 * RING_PAGE
