"""Four checks of this machine before a run.

The tracer's library, the folder for rings, filters in environment and settings, and the
output file.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ggscope_capture import launcher
from ggscope_capture.config import Configuration, Source
from ggscope_capture.doctor import BACKEND_PATH
from ggscope_capture.native import build
from ggscope_capture.regular_file import open_for_reading

_MAGICS = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")
_FILTERS = {
    "ops": "ops",
    "layers": "layers",
    "threads": "threads",
    "sample_every": "graphs",
    "op_timing": "times of ops",
    "thread_tracking": "threads",
    "max_records": "records beyond a limit",
}
"""Settings that filter, and what they filter."""


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """One check.

    Attributes
    ----------
    works : None: tracing is limited, or only a run can show.
    """

    name: str
    works: bool | None
    text: str


def machine_checks(
    configuration: Configuration, environment: Mapping[str, str], output: Path | None
) -> list[MachineCheck]:
    """Return the checks for a run with these settings.

    Parameters
    ----------
    output : the run's output file; None = that of the settings, if any.
    """
    settings = configuration.settings
    named = settings.output or settings.ggmlviz
    target = output or (Path(named) if named else None)
    checks = [_tracer(environment), _rings(), _environment(configuration, environment)]
    return checks if target is None else [*checks, output_check(target)]


def _tracer(environment: Mapping[str, str]) -> MachineCheck:
    name, given = "tracer", environment.get("GGSCOPE_TRACER")
    path = Path(given) if given else build.FOLDER / build.NAME
    try:
        with open_for_reading(path, follows_links=True) as file:
            is_library = file.read(4) in _MAGICS
    except FileNotFoundError:
        if given:
            return MachineCheck(name, False, f"{path} not found (GGSCOPE_TRACER)")
        compiler = environment.get("CC") or "cc"
        if shutil.which(compiler.split()[0]):
            text = "not compiled yet; this happens at the first run"
            return MachineCheck(name, None, text)
        text = f"{path.name} not found, and no C compiler to build it"
        return MachineCheck(name, False, text)
    except OSError as error:
        return MachineCheck(name, False, f"{path} cannot be read: {error.strerror}")
    if not is_library:
        return MachineCheck(name, False, f"{path} is not a library")
    return MachineCheck(name, True, f"found: {path}")


def _rings() -> MachineCheck:
    name, folder = "rings", launcher.ring_folder()
    if not folder.is_dir():
        return MachineCheck(name, False, f"folder {folder} not found")
    if not os.access(folder, os.W_OK | os.X_OK):
        return MachineCheck(name, False, f"{folder} is not writable")
    free = shutil.disk_usage(folder).free
    text = f"{folder} is writable, {free >> 20:,} MiB free"
    if free < launcher.MIN_BYTES:
        advice = "free some, or set GGSCOPE_RINGS to another folder"
        return MachineCheck(name, False, f"{text}: too little for a ring; {advice}")
    return MachineCheck(name, True, text)


def _environment(
    configuration: Configuration, environment: Mapping[str, str]
) -> MachineCheck:
    name = "environment"
    if configuration.problems:
        return MachineCheck(name, None, configuration.problems[0])
    if not configuration.settings.enabled:
        source = configuration.origin("enabled").source
        return MachineCheck(name, False, f"tracing is switched off by {source}")
    left_out = [
        f"{what} ({origin.source})"
        for setting, what in _FILTERS.items()
        if (origin := configuration.origin(setting)).kind is not Source.DEFAULT
        and origin.value != origin.setting.default
    ]
    if left_out:
        return MachineCheck(name, None, f"filtered: {', '.join(left_out)}")
    if environment.get(BACKEND_PATH):
        text = (
            f"{BACKEND_PATH} is already set and left unchanged: a program that loads "
            "its backends at run time will not load the tracer that way"
        )
        return MachineCheck(name, None, text)
    return MachineCheck(name, True, "no filters in environment or settings")


def output_check(target: Path) -> MachineCheck:
    """Return whether an output can be written."""
    name = "output"
    try:
        launcher.check_target(target)
    except launcher.NoTraceError as error:
        return MachineCheck(name, False, str(error))
    folder = target.absolute().parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{target} is writable, {free >> 20:,} MiB free"
    if target.exists():
        return MachineCheck(name, None, f"{target} exists and will be overwritten")
    return MachineCheck(name, bool(free) or None, text)
