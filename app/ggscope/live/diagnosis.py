"""Why nothing comes of what is followed: library, environment, permission.

What cannot be found out is said to be unknown. Other users' processes tell nothing.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from ggscope.live.open_source import (
    RING_VARIABLE,
    is_process,
    ring_folder,
    rings,
    wanted_path,
)
from ggscope.live.processes import (
    MappedFile,
    environment,
    is_alive,
    mapped_files,
    process,
    writers_of,
)
from ggscope.live.running import (
    has_ggml,
    is_launcher,
    maps_tracer,
    may_trace,
)
from ggscope.model.units import format_bytes
from ggscope.sanitize import one_line

LEAST_ROOM = 4 << 20
"""Bytes below which a folder has no room for a ring, as the capture tool says too."""
_OFF = ("GGML_VIZ_DISABLE", "GGSCOPE_ENABLED")
_MOST_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that has to be so before records come.

    Attributes
    ----------
    is_good : None where it is not known, or not so yet without being wrong.
    text : a sentence.
    """

    name: str
    is_good: bool | None
    text: str


def diagnose(
    wanted: str | None, tool: int | None, check_cancelled: Callable[[], None]
) -> tuple[Step, ...]:
    """Return what stands between a program and its first record, in this order.

    Parameters
    ----------
    wanted : what is followed; see `follow.wanted_path`.
    tool : process of the capture tool that was started here; None = none was.
    check_cancelled : what it raises ends the looking.
    """
    if tool is not None:
        return _of_processes(_descendants(tool), check_cancelled)
    if wanted is not None and is_process(wanted):
        pid = int(wanted)
        if not is_alive(pid):
            return (Step("Program", False, f"There is no process {pid}."),)
        return _of_processes([pid, *_descendants(pid)], check_cancelled)
    if wanted is None:
        return (_room(ring_folder()), _ring_of_anyone())
    return _of_file(Path(wanted), check_cancelled)


def _of_processes(
    pids: list[int], check_cancelled: Callable[[], None]
) -> tuple[Step, ...]:
    """Return the steps of the first of some processes that may compute."""
    chosen = [pid for pid in pids if not is_launcher(pid)][:_MOST_PROCESSES]
    if not chosen:
        return (Step("Program", None, "It has not been started yet, or has ended."),)
    looks = []
    for pid in chosen:
        check_cancelled()
        looks.append((pid, mapped_files(pid), environment(pid)))
    # A shell starts what is meant: what has ggml, else the one started last.
    pid, mapped, variables = next(
        (each for each in looks if has_ggml(each[1])), looks[-1]
    )
    steps = [Step("Program", True, f"Running: {one_line(str(process(pid)))}.")]
    if not mapped:
        unknown = "The system does not tell what it has loaded."
        return (*steps, Step("Library", None, unknown), _room(ring_folder()))
    steps.append(_environment(variables))
    is_meant = may_trace(variables)
    if not has_ggml(mapped):
        loaded = Step(
            "ggml", None, "It has not loaded ggml as a library yet, or never."
        )
    else:
        loaded = Step("ggml", True, "It has loaded ggml.")
    steps.append(loaded)
    if maps_tracer(variables, mapped):
        steps.append(Step("Tracer", True, "It has loaded the tracer."))
    elif loaded.is_good:
        why = "It has not loaded the tracer"
        why += ": something keeps that out (a sandbox?)." if is_meant else "."
        steps.append(Step("Tracer", False, why))
    else:
        steps.append(Step("Tracer", None, "It has not loaded the tracer yet."))
    ring = variables.get(RING_VARIABLE)
    steps.append(_room(Path(ring).parent if ring else ring_folder()))
    path = wanted_path(str(pid))
    if path is None and not is_meant:  # it may compute: nobody sees that
        steps.append(Step("Ring", False, "It has none: it is not traced."))
    elif path is None:
        more = "It may still be loading its model."
        if "server" in process(pid).name:
            more = "A server computes when it is asked: send a request."
        steps.append(Step("Graph", None, f"None has been computed yet. {more}"))
    else:
        steps.append(Step("Ring", os.access(path, os.R_OK), _readable(path)))
    return tuple(steps)


def _environment(variables: Mapping[str, str]) -> Step:
    """Tell whether a program was started with what brings the tracer into it."""
    name = "Environment"
    if not may_trace(variables):
        why = "It was started without the tracer, or has cleared its environment"
        return Step(name, False, f"{why}: {RING_VARIABLE} is not set in it.")
    off = [key for key in _OFF if _is_off(key, variables.get(key))]
    if off:
        return Step(name, False, f"{off[0]} switches tracing off in it.")
    return Step(name, True, f"{RING_VARIABLE} is set in it.")


def _is_off(name: str, value: str | None) -> bool:
    if value is None:
        return False
    is_set = value.strip().lower() in {"1", "true", "yes", "on"}
    return is_set if name == "GGML_VIZ_DISABLE" else not is_set


def _room(folder: Path) -> Step:
    """Tell whether a ring may be made in a folder, and fits."""
    name, place = "Permission", one_line(str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        return Step(name, False, f"{place} may not be written to.")
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Step(name, None, f"{place}: {error.strerror}.")
    text = f"{place} may be written to, and has {format_bytes(free)} free"
    if free < LEAST_ROOM:
        return Step(name, False, f"{text}: too little for a ring.")
    return Step(name, True, f"{text}.")


def _ring_of_anyone() -> Step:
    n = len(rings())
    if not n:
        return Step("Ring", None, "No traced program runs.")
    return Step("Ring", None, f"Those that are there ({n}) are of programs that ended.")


def _readable(path: Path) -> str:
    may = "can" if os.access(path, os.R_OK) else "may not"
    return f"{one_line(str(path))} is there and {may} be read."


def _of_file(path: Path, check_cancelled: Callable[[], None]) -> tuple[Step, ...]:
    place = one_line(str(path))
    if not os.path.exists(path):
        folder = path.absolute().parent
        if not os.path.isdir(folder):
            return (
                Step("File", False, f"There is no folder {one_line(str(folder))}."),
            )
        return (Step("File", None, f"Not there yet: {place}"), _room(folder))
    may_read = os.access(path, os.R_OK)
    size = path.stat().st_size
    steps = [
        Step("File", bool(size) or None, f"{format_bytes(size)} so far: {place}"),
        Step("Permission", may_read, f"It {'can' if may_read else 'may not'} be read."),
    ]
    check_cancelled()
    writers = writers_of(path)
    if not writers:
        text = "No program of yours has it open for writing."
        return (*steps, Step("Writer", False, text))
    writer = writers[-1]
    steps.append(Step("Writer", True, f"Running: {one_line(str(writer))}."))
    variables = environment(writer.pid)
    off = [key for key in _OFF if _is_off(key, variables.get(key))]
    if off:
        steps.append(
            Step("Environment", False, f"{off[0]} switches tracing off in it.")
        )
    steps += _libraries(variables.get("LD_PRELOAD", ""), mapped_files(writer.pid))
    return tuple(steps)


def _libraries(preload: str, mapped: tuple[MappedFile, ...]) -> list[Step]:
    """Tell which libraries a writer was started with, and has."""
    name, steps = "Preload", []
    wanted = [path for path in preload.replace(":", " ").split() if "/" in path]
    missing = [path for path in wanted if not os.path.exists(path)]
    if missing:
        text = f"LD_PRELOAD of the writer names what is not there: {missing[0]}"
        steps.append(Step(name, False, one_line(text)))
    elif preload:
        text = f"The writer was started with LD_PRELOAD={one_line(preload)}"
        steps.append(Step(name, True, text))
    if mapped and not has_ggml(mapped):
        text = "The writer has not loaded ggml as a library."
        steps.append(Step("Library", None, text))
    return steps


def _descendants(pid: int) -> list[int]:
    try:
        return [each.pid for each in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []
