"""What has to be so on this machine before a program is traced: four checks.

The tracer's library, the folder for rings, what the environment and the settings leave
out, and the file that is to be written.
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
"""Settings that leave something out, and what."""


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """One check.

    Attributes
    ----------
    works : None where it limits what is traced, or only a run can tell.
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
    output : file that the run is to write; None = that of the settings, if any.
    """
    settings = configuration.settings
    named = settings.output or settings.ggmlviz
    target = output or (Path(named) if named else None)
    checks = [_tracer(environment), _rings(), _environment(configuration, environment)]
    return checks if target is None else [*checks, _output(target)]


def _tracer(environment: Mapping[str, str]) -> MachineCheck:
    name, given = "tracer", environment.get("GGSCOPE_TRACER")
    path = Path(given) if given else build.FOLDER / build.NAME
    try:
        with open_for_reading(path, follows_links=True) as file:
            is_library = file.read(4) in _MAGICS
    except FileNotFoundError:
        if given:
            return MachineCheck(name, False, f"there is no {path} (GGSCOPE_TRACER)")
        compiler = environment.get("CC") or "cc"
        if shutil.which(compiler.split()[0]):
            text = "the tracer is compiled when a program is traced first"
            return MachineCheck(name, None, text)
        text = f"{path.name} is not there, and there is no C compiler to make it"
        return MachineCheck(name, False, text)
    except OSError as error:
        return MachineCheck(name, False, f"{path} cannot be read: {error.strerror}")
    if not is_library:
        return MachineCheck(name, False, f"{path} is no library")
    return MachineCheck(name, True, f"the tracer is there: {path}")


def _rings() -> MachineCheck:
    name, folder = "rings", launcher.ring_folder()
    if not folder.is_dir():
        return MachineCheck(name, False, f"there is no folder {folder} for rings")
    if not os.access(folder, os.W_OK | os.X_OK):
        return MachineCheck(name, False, f"{folder} may not be written to")
    free = shutil.disk_usage(folder).free
    text = f"{folder} may be written to, {free >> 20:,} MiB free"
    if free < launcher.LEAST_BYTES:
        advice = "make some, or name another folder in GGSCOPE_RINGS"
        return MachineCheck(name, False, f"{text}: no room for a ring; {advice}")
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
        return MachineCheck(name, None, f"leaves out some {', '.join(left_out)}")
    if environment.get(BACKEND_PATH):
        text = (
            f"{BACKEND_PATH} is set and stays: a program that loads its backends "
            "while it runs will not load the tracer"
        )
        return MachineCheck(name, None, text)
    return MachineCheck(
        name, True, "nothing in the environment or the settings limits tracing"
    )


def _output(target: Path) -> MachineCheck:
    name = "output"
    try:
        launcher.check_target(target)
    except launcher.NoTraceError as error:
        return MachineCheck(name, False, str(error))
    folder = target.absolute().parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{target} can be written, {free >> 20:,} MiB free"
    if target.exists():
        return MachineCheck(name, None, f"{target} is there, and will be replaced")
    return MachineCheck(name, bool(free) or None, text)
