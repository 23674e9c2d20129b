"""Open the files of a command, one after the other, with progress on a terminal."""

import logging
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ggscope.cli import output
from ggscope.cli.output import GOOD, code_of, message_of
from ggscope.errors import QueryError, ReadError, TraceError
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_rate
from ggscope.readers.api import TRACE, Estimate, ReadContext
from ggscope.readers.memory import Fit, MemoryGuard
from ggscope.readers.partial_reading import NAMES_OPTION, RANGE_OPTION
from ggscope.readers.registry import open_trace, role_of
from ggscope.sanitize import one_line

if TYPE_CHECKING:
    from ggscope.model.selection import ColorBy

logger = logging.getLogger(__name__)

_ASK_FOR_MODELS = ("info", "check", "hot", "cache", "flags")
"""Commands that show what only a model or its map states."""
_QUIET_SECONDS = 0.5
"""Files that are read faster show no progress."""


@dataclass(slots=True)
class Results:
    """What became of the files of a command.

    Attributes
    ----------
    code : the worst exit code, which is the largest.
    objects : JSON of each file, in order.
    """

    code: int = GOOD
    objects: list[object] = field(default_factory=list)

    def emit_json(self) -> None:
        """Print one object for one file, else a list.

        Where nobody reads it, the exit code still shows what became of the files.
        """
        single = len(self.objects) == 1
        try:
            output.emit_json(self.objects[0] if single else self.objects)
        except BrokenPipeError:
            output.abandon()


def load(path: Path, arguments: Namespace, *, takes_sidecar: bool = True) -> Trace:
    """Return the trace in `path`, read as the arguments say.

    A folder is read as one session, and so is a file with others named by ``--with``,
    and a recording with its sidecar.

    Parameters
    ----------
    takes_sidecar : else a recording's records are read alone.

    Raises
    ------
    TooLargeError
        If it would not fit into memory and is not to be read all the same.
    ReadError, Cancelled
        As `open_trace` and `open_parts`.
    """
    began = time.monotonic()
    trace = _read(path, arguments, takes_sidecar=takes_sidecar)
    logger.info(
        "%s: read by %s in %.3f s: %r",
        path,
        trace.info.reader_id,
        time.monotonic() - began,
        trace,
    )
    return trace


def _read(path: Path, arguments: Namespace, *, takes_sidecar: bool) -> Trace:
    options = reader_options(arguments)
    admit = None if arguments.force else MemoryGuard(path, options, hint=ways_to_read)
    is_session = arguments.beside or arguments.shift or os.path.isdir(path)
    is_session = is_session or (takes_sidecar and _has_sidecar(path))
    with Progress(path.name, is_quiet=vars(arguments).get("quiet", False)) as progress:
        update = progress.update if progress.is_shown else None
        context = ReadContext(progress=update, options=options)
        if is_session:
            return _session(path, arguments, context, admit)
        trace = open_trace(
            path, reader_id=arguments.reader, context=context, admit=admit
        )
    if arguments.command in _ASK_FOR_MODELS:
        _say_what_lies_beside(path, trace)
    return trace


def _has_sidecar(path: Path) -> bool:
    if not os.path.exists(path.with_suffix(".json")):
        return False
    # Not imported for the many files that have none.
    from ggscope.readers.discovery import sidecar_of

    return sidecar_of(path) is not None


def _say_what_lies_beside(path: Path, trace: Trace) -> None:
    """Name the model, or else the map, that would add facts and was not given.

    It is not read unasked: it may be that of another run.
    """
    role = role_of(trace.info.reader_id)
    roles = {TRACE: ("model", "map"), "map": ("model",)}.get(role, ())
    if not roles or (role == TRACE and not trace.may_read_model):
        return
    from ggscope.readers.discovery import beside

    sides = beside(path, roles=roles).sides
    for option, kind in zip(("--gguf", "--with"), roles, strict=False):
        paths = [side.path for side in sides if side.role == kind]
        if not paths:
            continue
        import shlex  # only where there is something to say

        name = paths[0].name
        if len(paths) == 1:
            added = f"{option} {shlex.quote(str(paths[0]))} adds it"
            sentence = f"{name} lies beside it and is not read; {added}."
        else:
            sentence = (
                f"{len(paths)} files such as {name} lie beside it and are not read; "
                f"{option} FILE adds the one of this run."
            )
        output.say(f"{path}: {sentence}")
        return


def _session(
    path: Path,
    arguments: Namespace,
    context: ReadContext,
    admit: Callable[[Estimate], None] | None,
) -> Trace:
    """Return a folder, or a file with further ones, as one trace."""
    # Joining is not imported for the many commands on a single file.
    from ggscope.session_loading import named_bundle, named_shifts, open_bundle

    bundle = named_bundle(
        path, arguments.beside, reader_id=arguments.reader, context=context, admit=admit
    )
    try:
        return open_bundle(
            bundle,
            shifts=named_shifts(bundle, arguments.shift),
            reader_id=arguments.reader,
            context=context,
            admit=admit,
            required=path,
        )
    except ReadError as error:
        error.path = error.path or path
        raise


def coloring(trace: Trace, arguments: Namespace) -> "ColorBy":
    """Return what ``--color-by`` asks for; QueryError where the trace lacks it."""
    # Not imported for the many commands that draw nothing.
    from ggscope.analysis.rows.colorings import available_colorings, default_coloring

    by: ColorBy = arguments.color_by or default_coloring(trace)
    available = available_colorings(trace)
    if by not in available:
        ids = ", ".join(available)
        raise QueryError(f"this trace names no {by}s; it can be coloured by {ids}.")
    return by


def reader_options(arguments: Namespace) -> dict[str, str]:
    """Return the reader options that the arguments stand for."""
    named = {
        "ops": arguments.ops,
        RANGE_OPTION: arguments.records,
        NAMES_OPTION: arguments.names,
    }
    given = {key: value for key, value in named.items() if value is not None}
    return {**dict(arguments.option), **given}


def reading_text(arguments: Namespace) -> list[str]:
    """Return how a file is to be read, as words of a command line."""
    command: list[str] = []
    for flag, value in (
        ("--format", arguments.reader),
        ("--ops", arguments.ops),
        ("--records", arguments.records),
        ("--names", arguments.names),
    ):
        if value is not None:
            command += [flag, str(value)]
    for flag, pairs in (("--option", arguments.option), ("--shift", arguments.shift)):
        for key, value in pairs:
            command += [flag, f"{key}={value}"]
    for path in arguments.beside:
        command += ["--with", str(path)]
    return command


def ways_to_read(fit: Fit) -> str:
    """Return which flags read a file that does not fit into memory."""
    ways = []
    if fit.estimate.can_range:
        ways.append(f"read a part with --records 0:{fit.n_fitting}")
    if fit.estimate.can_sample_names:
        ways.append("read fewer names with --names sampled or --names none")
    ways.append("or read it all the same with --force")
    hint = ", ".join(ways) + "."
    return hint[:1].upper() + hint[1:]


def for_each_file(
    arguments: Namespace,
    work: Callable[[Path], tuple[int, object]],
    on_error: Callable[[Path, TraceError], object] | None = None,
) -> Results:
    """Do `work` for every file; a failure is reported and does not stop the next.

    `work` returns an exit code and the file's JSON; `on_error` makes the JSON of a
    file that failed (default: `failure_json`).
    """
    results = Results()
    for path in arguments.files:
        try:
            code, value = work(path)
        except TraceError as error:
            output.complain(message_of(error))
            code, value = code_of(error), (on_error or failure_json)(path, error)
        results.code = max(results.code, code)
        results.objects.append(value)
    return results


def answer_each(
    arguments: Namespace, work: Callable[[Path], tuple[int, object]]
) -> int:
    """Do `work` for every file, print their JSON with ``--json``; return the code."""
    results = for_each_file(arguments, work)
    if arguments.json:
        results.emit_json()
    return results.code


def print_heading(path: Path, arguments: Namespace) -> None:
    """Print which file the next lines are about, where there are several."""
    if len(arguments.files) > 1:
        output.emit(one_line(str(path)))


def time_range(trace: Trace, arguments: Namespace) -> TimeRange | None:
    """Return the times that ``--range`` asks for; None = all."""
    # Not imported for the many commands without a range.
    from ggscope.analysis.filters.text import parse_range

    if arguments.range is None:
        return None
    return parse_range(arguments.range, trace.extent, trace.clock.unit)


def failure_json(path: Path, error: TraceError) -> dict[str, object]:
    """Return the JSON of a file that could not be read."""
    details: dict[str, object] = {
        "code": "error",
        "message": str(error),
        "offset": None,
        "reader": None,
        "hint": "",
    }
    if isinstance(error, ReadError):
        details |= {
            "code": error.code,
            "message": error.message,
            "offset": error.offset,
            "reader": error.reader_id,
            "hint": error.hint,
        }
    return {"path": str(path), "error": details}


class Progress:
    """One line on stderr that is rewritten, only where stderr is a terminal.

    Attributes
    ----------
    is_shown : whether updates may be seen at all.
    """

    def __init__(self, name: str, *, is_quiet: bool = False) -> None:
        self._name = name
        self._begin = time.monotonic()
        self._has_line = False
        self.is_shown = sys.stderr.isatty() and not is_quiet

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._has_line:
            output.rewrite_line("")

    def update(self, done: int, total: int) -> None:
        """Show how far reading has come, in bytes."""
        passed = time.monotonic() - self._begin
        if not self.is_shown or passed < _QUIET_SECONDS:
            return
        self._has_line = True
        share = 100 * done // max(total, 1)
        rate = format_rate(done / passed)
        output.rewrite_line(f"{self._name}: {share} %, {rate}")
