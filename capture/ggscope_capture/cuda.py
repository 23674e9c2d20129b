"""Calls of the CUDA driver: what a program is run with, and where they are written.

The hook is a library of its own (``native/cuda``). ``LD_PRELOAD`` puts it before the
driver's functions; where that does not reach them, the driver itself loads it
(``CUDA_INJECTION64_PATH``) and CUPTI reports the calls. It writes lines of JSON while
the program runs. It has been run against a stand-in for the driver, on no GPU yet.
"""

import contextlib
import ctypes.util
import json
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ggscope_capture import doctor, files, launcher
from ggscope_capture.checks import MachineCheck, output_check
from ggscope_capture.child import FAILED, LaunchError, spawned
from ggscope_capture.launcher import NoTraceError, Say
from ggscope_capture.native import build
from ggscope_capture.regular_file import open_for_reading

INJECTION, OUT, CUPTI = "CUDA_INJECTION64_PATH", "GGSCOPE_CUDA_OUT", "GGSCOPE_CUPTI"
WAYS = ("auto", "preload", "cupti")
UNTRIED = "not yet run on a GPU"
_CALLS = "calls.jsonl"
_CLOSED = {"sandbox", "setuid", "not-executable", "other-machine", "damaged", "macho"}
"""Programs that nothing is loaded into, as `doctor.Report.linkage` calls them."""
_HOMES = ("/usr/local/cuda", "/opt/cuda")
_CUPTI_FOLDERS = ("extras/CUPTI/lib64", "lib64", "lib")
_END_BYTES = 4096
_COMPLETE = "all calls recorded"


def library() -> Path:
    """Return the hook, compiled if it is missing; raises NoTraceError."""
    target = build.FOLDER / build.CUDA_NAME
    if not target.is_file():
        try:
            build.compile_cuda_hook(target)
        except (build.BuildError, OSError) as error:
            raise NoTraceError(str(error)) from error
    return target.resolve()


def find_cupti(environment: Mapping[str, str]) -> Path | None:
    """Return CUPTI's library below the folders of CUDA; None: the loader looks."""
    homes = [environment.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    for home in (*filter(None, homes), *_HOMES):
        for folder in _CUPTI_FOLDERS:
            path = Path(home) / folder / "libcupti.so"
            if path.is_file():
                return path
    return None


def examine(program: str | Path) -> doctor.Report:
    """Return whether calls of a program can be recorded; raises DoctorError."""
    report = doctor.examine(program)
    if report.linkage in _CLOSED or report.linkage == "fully-static":
        if report.linkage != "fully-static":
            return report
        why = "fully static: no library can be loaded into it, nor does it load CUDA's"
        return replace(
            report,
            routes=[doctor.AttachRoute(doctor.PRELOAD, False, why)],
            advice="Use a build that is linked to libraries.",
        )
    why = f"by a library before libcuda.so.1, {UNTRIED}"
    return replace(
        report,
        routes=[
            doctor.AttachRoute(doctor.PRELOAD, None, why),
            doctor.AttachRoute(INJECTION, None, "by CUPTI where that is installed"),
        ],
        advice="Only a run can show whether it calls the driver.",
    )


def machine_checks(
    environment: Mapping[str, str], output: Path | None
) -> list[MachineCheck]:
    """Return the checks of hook, driver, CUPTI and output."""
    path = build.FOLDER / build.CUDA_NAME
    if path.is_file():
        hook = MachineCheck("hook", None, f"{UNTRIED}; found: {path}")
    elif shutil.which((environment.get("CC") or "cc").split()[0]):
        hook = MachineCheck("hook", None, "not compiled yet; this happens at first run")
    else:
        text = f"{path.name} not found, and no C compiler to build it"
        hook = MachineCheck("hook", False, text)
    driver = ctypes.util.find_library("cuda")
    cupti = find_cupti(environment) or ctypes.util.find_library("cupti")
    checks = [
        hook,
        MachineCheck("driver", True, f"found: {driver}")
        if driver
        else MachineCheck("driver", None, "no libcuda.so.1 on this machine"),
        MachineCheck("CUPTI", True, f"found: {cupti}")
        if cupti
        else MachineCheck("CUPTI", None, "not found; needed only without LD_PRELOAD"),
    ]
    return checks if output is None else [*checks, output_check(output)]


def output_for(command: Sequence[str]) -> Path:
    """Return a name for the calls of a program, after it and the time."""
    name = re.sub(r"[^\w.-]", "_", Path(command[0]).stem) or "cuda"
    return Path(f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl")


@dataclass
class CudaLaunch:
    """One run of a program whose calls are recorded.

    Attributes
    ----------
    output : file of the calls; those of a further process come into ``out-2.jsonl``.
    way : one of `WAYS`.
    requires : whether a program that cannot be recorded is an error.
    is_named : whether the user has named the output; otherwise its name is printed.
    """

    command: Sequence[str]
    output: Path
    say: Say
    way: str = "auto"
    requires: bool = False
    is_named: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def run(self) -> int:
        """Run the program; return its exit code, negative where a signal ended it.

        Raises
        ------
        LaunchError
            If it cannot be started, or not be recorded and `requires`.
        """
        program = launcher.find_program(self.command[0], self.environment)
        with contextlib.ExitStack() as stack:
            try:
                _check_program(program)
                launcher.check_target(self.output)
                hook = launcher.without_spaces(library(), stack)
                folder = self._make_folder()
            except NoTraceError as reason:
                if self.requires:
                    raise LaunchError(str(reason), FAILED) from reason
                self.say("WARN", f"{self.command[0]} runs unrecorded: {reason}")
                return self._ran(program, self.environment)
            output = shlex.quote(str(self.output))
            self.say("INFO", f"ggscope --live {output} shows the calls as they come")
            code = self._ran(program, self._prepared(hook, folder / _CALLS))
            n = self._finish(folder)
        if n == 0:
            why = "no trace: the program made no call of the CUDA driver that was seen"
            if self.requires:
                raise LaunchError(why, FAILED)
            self.say("WARN", why)
        return code

    def _ran(self, program: Path, environment: Mapping[str, str]) -> int:
        with spawned(program, self.command, environment) as child:
            while not child.wait(1.0):
                pass
        return os.waitstatus_to_exitcode(child.status)

    def _make_folder(self) -> Path:
        """Return a new folder beside the output; it stays where this is killed."""
        target = self.output.absolute()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            made = tempfile.mkdtemp(
                prefix=f"{target.name[:200]}.partial-", dir=target.parent
            )
        except OSError as error:
            reason = files.reason_of(error)
            raise NoTraceError(f"{target} cannot be written: {reason}") from error
        return Path(made)

    def _prepared(self, hook: Path, calls: Path) -> dict[str, str]:
        """Return the program's environment."""
        environment = dict(self.environment)
        environment[OUT] = str(calls)
        if self.way != "cupti":
            given = environment.get(doctor.PRELOAD)
            environment[doctor.PRELOAD] = f"{hook}:{given}" if given else str(hook)
        if self.way == "preload":
            return environment
        if environment.get(INJECTION):
            self.say("INFO", f"{INJECTION} is already set and left unchanged")
        else:
            environment[INJECTION] = str(hook)
        cupti = find_cupti(environment)
        if cupti is not None:
            environment.setdefault(CUPTI, str(cupti))
        return environment

    def _finish(self, folder: Path) -> int:
        """Put the files of calls in their places; return how many there are."""
        written = sorted(folder.iterdir(), key=_number)
        for number, path in enumerate(written):
            target = launcher.numbered(self.output, number)
            try:
                text = _summary(path)
                path.replace(target)
            except OSError as error:
                self.say("ERROR", f"{target}: {files.reason_of(error)}. The calls "
                         f"stay in {path}")  # fmt: skip
                continue
            is_quiet = self.is_named and text == _COMPLETE
            self.say("INFO" if is_quiet else "WARN", f"wrote {target}: {text}")
        with contextlib.suppress(OSError):
            folder.rmdir()
        return len(written)


def _check_program(program: Path) -> None:
    """Check that something can be loaded into a program; raises NoTraceError."""
    try:
        report = examine(program)
    except doctor.DoctorError as error:
        raise NoTraceError(str(error)) from error
    if report.works is False:
        raise NoTraceError(f"{report.routes[0].why}. {report.advice}")


def _number(path: Path) -> int:
    number = path.stem.rpartition("-")[2]
    return int(number) if number.isdigit() else 1


def _summary(path: Path) -> str:
    """Return what the last line of a file of calls says of its completeness."""
    end = _last_line(path)
    if not end.get("end"):
        return "the process was killed; its last calls may be missing"
    dropped, left_out = end.get("dropped"), end.get("functions_left_out")
    notes = []
    if dropped:
        reason = end.get("write_error") or "more calls than could be written"
        notes.append(f"{dropped} lines missing ({reason})")
    if left_out:
        notes.append(f"calls of {left_out} functions not recorded")
    return "; ".join(notes) or _COMPLETE


def _last_line(path: Path) -> dict[str, Any]:
    with open_for_reading(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END_BYTES))
        lines = file.read().splitlines()
    try:
        end = json.loads(lines[-1])
    except (IndexError, ValueError):
        return {}
    return end if isinstance(end, dict) else {}
