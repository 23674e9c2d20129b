"""Diagnosis of a live source without records: library, environment, permissions.

What cannot be determined is unknown. Processes of other users cannot be inspected.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ggscope.live.open_source import (
    RING_VARIABLE,
    is_process,
    path_to_follow,
    ring_folder,
    rings,
)
from ggscope.live.processes import (
    MappedFile,
    descendants,
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

MIN_FREE_BYTES = 4 << 20
"""Free bytes that a ring needs, as in the capture tool."""
_OFF = ("GGML_VIZ_DISABLE", "GGSCOPE_ENABLED")
_MAX_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class Step:
    """One condition for records to arrive.

    Attributes
    ----------
    is_good : None: unknown, or not yet fulfilled.
    text : a sentence.
    """

    name: str
    is_good: bool | None
    text: str


def diagnose(
    target: str | None, tool: int | None, check_cancelled: Callable[[], None]
) -> tuple[Step, ...]:
    """Return the conditions between a program and its first record, in order.

    Parameters
    ----------
    target : a pid or path, None = any program; see `open_source.path_to_follow`.
    tool : pid of the capture tool that was started here, if any.
    check_cancelled : called between steps; may raise.
    """
    if tool is not None:
        return _of_processes(descendants(tool), check_cancelled)
    if target is not None and is_process(target):
        pid = int(target)
        if not is_alive(pid):
            return (Step("Program", False, f"Process {pid} does not exist."),)
        return _of_processes([pid, *descendants(pid)], check_cancelled)
    if target is None:
        return (_folder_access(ring_folder()), _existing_rings())
    return _of_file(Path(target), check_cancelled)


def _of_processes(
    pids: list[int], check_cancelled: Callable[[], None]
) -> tuple[Step, ...]:
    """Return the steps of the process that computes, or the newest one."""
    chosen = [pid for pid in pids if not is_launcher(pid)][:_MAX_PROCESSES]
    if not chosen:
        return (Step("Program", None, "Not started yet, or ended."),)
    processes = []
    for pid in chosen:
        check_cancelled()
        processes.append((pid, mapped_files(pid), environment(pid)))
    # Shells start the program: prefer one with ggml, else the newest.
    pid, mapped, variables = next(
        (each for each in processes if has_ggml(each[1])), processes[-1]
    )
    steps = [Step("Program", True, f"Running: {one_line(str(process(pid)))}.")]
    if not mapped:
        unknown = "The loaded libraries are unknown (no permission)."
        return (*steps, Step("Library", None, unknown), _folder_access(ring_folder()))
    steps.append(_environment(variables))
    is_traced = may_trace(variables)
    if not has_ggml(mapped):
        loaded = Step("ggml", None, "No ggml library loaded so far.")
    else:
        loaded = Step("ggml", True, "ggml is loaded.")
    steps.append(loaded)
    if maps_tracer(variables, mapped):
        steps.append(Step("Tracer", True, "The tracer is loaded."))
    elif loaded.is_good:
        why = "The tracer is not loaded"
        why += "; a sandbox may block it." if is_traced else "."
        steps.append(Step("Tracer", False, why))
    else:
        steps.append(Step("Tracer", None, "The tracer is not loaded yet."))
    ring = variables.get(RING_VARIABLE)
    steps.append(_folder_access(Path(ring).parent if ring else ring_folder()))
    path = path_to_follow(str(pid))
    if path is None and not is_traced:  # it may compute unseen
        steps.append(Step("Ring", False, "No ring: the program is not traced."))
    elif path is None:
        hint = "The model may still be loading."
        if "server" in process(pid).name:
            hint = "A server computes on request: send one."
        steps.append(Step("Graph", None, f"No graph computed yet. {hint}"))
    else:
        steps.append(Step("Ring", os.access(path, os.R_OK), _readable(path)))
    return tuple(steps)


def _environment(variables: Mapping[str, str]) -> Step:
    """Return whether a program's environment loads the tracer."""
    name = "Environment"
    if not may_trace(variables):
        why = "Started without the tracer, or with a cleared environment"
        return Step(name, False, f"{why}: {RING_VARIABLE} is not set.")
    off = [key for key in _OFF if _is_off(key, variables.get(key))]
    if off:
        return Step(name, False, f"Tracing is switched off by {off[0]}.")
    return Step(name, True, f"{RING_VARIABLE} is set.")


def _is_off(name: str, value: str | None) -> bool:
    if value is None:
        return False
    is_set = value.strip().lower() in {"1", "true", "yes", "on"}
    return is_set if name == "GGML_VIZ_DISABLE" else not is_set


def _folder_access(folder: Path) -> Step:
    """Return whether a folder is writable and has space for a ring."""
    name, place = "Permission", one_line(str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        return Step(name, False, f"{place} is not writable.")
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Step(name, None, f"{place}: {error.strerror}.")
    text = f"{place} is writable, {format_bytes(free)} free"
    if free < MIN_FREE_BYTES:
        return Step(name, False, f"{text}: too little for a ring.")
    return Step(name, True, f"{text}.")


def _existing_rings() -> Step:
    n = len(rings())
    if not n:
        return Step("Ring", None, "No traced program is running.")
    return Step(
        "Ring",
        None,
        f"{n} leftover ring{'s' if n > 1 else ''}; the programs have ended.",
    )


def _readable(path: Path) -> str:
    state = "readable" if os.access(path, os.R_OK) else "not readable"
    return f"{one_line(str(path))} is {state}."


def _of_file(path: Path, check_cancelled: Callable[[], None]) -> tuple[Step, ...]:
    place = one_line(str(path))
    if not os.path.exists(path):
        folder = path.absolute().parent
        if not os.path.isdir(folder):
            return (Step("File", False, f"Folder not found: {one_line(str(folder))}"),)
        return (Step("File", None, f"Not there yet: {place}"), _folder_access(folder))
    may_read = os.access(path, os.R_OK)
    size = path.stat().st_size
    steps = [
        Step("File", bool(size) or None, f"{format_bytes(size)} so far: {place}"),
        Step("Permission", may_read, "Readable." if may_read else "Not readable."),
    ]
    check_cancelled()
    writers = writers_of(path)
    if not writers:
        text = "None of your programs has it open for writing."
        return (*steps, Step("Writer", False, text))
    writer = writers[-1]
    steps.append(Step("Writer", True, f"Running: {one_line(str(writer))}."))
    variables = environment(writer.pid)
    off = [key for key in _OFF if _is_off(key, variables.get(key))]
    if off:
        steps.append(
            Step("Environment", False, f"Tracing is switched off by {off[0]}.")
        )
    steps += _libraries(variables.get("LD_PRELOAD", ""), mapped_files(writer.pid))
    return tuple(steps)


def _libraries(preload: str, mapped: tuple[MappedFile, ...]) -> list[Step]:
    """Return the steps on a writer's preloaded and loaded libraries."""
    name, steps = "Preload", []
    preloaded = [path for path in preload.replace(":", " ").split() if "/" in path]
    missing = [path for path in preloaded if not os.path.exists(path)]
    if missing:
        text = f"LD_PRELOAD of the writer names a missing file: {missing[0]}"
        steps.append(Step(name, False, one_line(text)))
    elif preload:
        text = f"The writer was started with LD_PRELOAD={one_line(preload)}"
        steps.append(Step(name, True, text))
    if mapped and not has_ggml(mapped):
        text = "The writer has no ggml library loaded."
        steps.append(Step("Library", None, text))
    return steps
