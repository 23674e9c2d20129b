"""Finds the ring or file to follow, and opens it by its first bytes."""

import contextlib
import os
import stat
import tempfile
from itertools import chain
from pathlib import Path

from ggscope.errors import LiveError
from ggscope.live.files import GgmlvizSource, GrowingFile, RecordsSource
from ggscope.live.hook_files import file_for_output, file_of_process
from ggscope.live.options import OPTIONS
from ggscope.live.processes import is_alive
from ggscope.live.program import ProgramSource
from ggscope.live.regular_file import is_own_file, open_for_reading
from ggscope.live.ring import writer_of
from ggscope.live.source import LiveSource
from ggscope.readers.ggmlviz.layouts import MAGIC as STREAM_MAGIC
from ggscope_capture.ring_format import RING_MAGIC

RING_VARIABLE = "GGSCOPE_RING"
"""Environment variable with the path of the ring that a program will make."""
FOLDER_VARIABLE = "GGSCOPE_RINGS"
"""Environment variable with the folder in which `ggscope-capture` makes rings."""
_PREFIX, _DEFS = "ggscope-", ".defs"
SHARED_MEMORY = Path("/dev/shm")
_HEAD_BYTES = 1 << 16
_OF_SEVERAL = {".jsonl"}
"""Suffixes of files that are a log, or calls of CUDA, which only their lines state."""


def follow(
    path: Path, *, keeps_spans: bool = True, keeps_records: bool = True
) -> LiveSource:
    """Return the source that follows `path`, which need not exist yet.

    Its kind is that of its first bytes, else of its name: ``.ggmlviz``, records in
    ``.bin``, the log of a server in ``.log``, ``.txt`` or ``.jsonl``, or a ring.

    Raises
    ------
    LiveError
        If it is a pipe, socket or device: opening one may wait for ever.
    """
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise LiveError(f"{path}: not a ring of ggscope-capture.")
    try:
        with open_for_reading(path, follows_links=True) as file:
            head = file.read(len(RING_MAGIC))
    except OSError:
        head = b""
    kinds: dict[bytes, type[ProgramSource | GrowingFile]] = {
        RING_MAGIC: ProgramSource,
        STREAM_MAGIC: GgmlvizSource,
    }
    named: dict[str, type[ProgramSource | GrowingFile]] = {
        ".ggmlviz": GgmlvizSource,
        ".bin": RecordsSource,
    }
    if head not in kinds and path.suffix not in named:
        source = _followed_text(path)
        if source is not None:
            return source
    kind = kinds[head] if head in kinds else named.get(path.suffix, ProgramSource)
    if kind is ProgramSource:
        return kind(path, keeps_spans=keeps_spans, keeps_records=keeps_records)
    return kind(path, keeps_spans=keeps_spans)


def _followed_text(path: Path) -> GrowingFile | None:
    """Return what follows a text by its lines, or by its name; None: it is none.

    Raises
    ------
    LiveError
        If it has calls of CUDA that another program than the hook writes.
    """
    from ggscope.live.calls_file import CallsSource, is_from_hook
    from ggscope.live.log_file import LogSource
    from ggscope.readers.api import Head
    from ggscope.readers.cuda.reader import CudaReader
    from ggscope.readers.logs import INFO
    from ggscope.readers.logs.reader import LogReader

    try:
        with open_for_reading(path, follows_links=True) as file:
            data = file.read(_HEAD_BYTES)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        data, size = b"", 0
    if not data:
        return LogSource(path) if path.suffix in INFO.suffixes else None
    head = Head(path.name, size, data)
    as_log = LogReader().sniff(head).confidence
    if is_from_hook(data[: data.rfind(b"\n") + 1]):
        return CallsSource(path)
    if CudaReader().sniff(head).confidence > as_log:
        raise LiveError(
            f"{path}: CUDA calls of this form are not followed; open the file when "
            "the program has ended."
        )
    is_text = b"\0" not in data and path.suffix == ".log"
    return LogSource(path) if as_log > 0 or is_text else None


def ring_folder() -> Path:
    """Return the folder of rings: that of the environment, else shared memory."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        return Path(folder).absolute()
    return (
        SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else Path(tempfile.gettempdir())
    )


def rings() -> list[Path]:
    """Return the rings of this user that are ready, the newest first.

    They may lie in any of three folders: a program that loads the library by itself
    knows only the usual one, and the launcher passes that by where it has no room.
    """
    by_time: list[tuple[int, Path]] = []
    folders = dict.fromkeys((ring_folder(), SHARED_MEMORY, Path(tempfile.gettempdir())))
    for path in chain.from_iterable(f.glob(_PREFIX + "*") for f in folders):
        if path.name.endswith(_DEFS) or not is_own_file(path):
            continue
        try:
            with open_for_reading(path) as file:
                if file.read(len(RING_MAGIC)) == RING_MAGIC:
                    by_time.append((path.stat().st_mtime_ns, path))
        except OSError:  # gone meanwhile
            continue
    return [path for _, path in sorted(by_time, reverse=True)]


def is_process(text: str) -> bool:
    """Return whether the target is a process id, not a file."""
    return text.isdecimal() and not os.path.exists(text)


def waiting_message(text: str | None) -> str:
    """Return what is waited for while `path_to_follow` returns None.

    Raises
    ------
    LiveError
        If there is no such process.
    """
    if text is not None and not is_process(text):
        return f"the file {text} {_absence(Path(text))}"
    if text is not None:
        if not is_alive(int(text)):
            raise LiveError(f"no process {text}, and no ring of it")
        return f"process {text} is not traced yet"
    message = "waiting for a traced program to start computing"
    if OPTIONS.output:
        message += f", or for {OPTIONS.output} ({OPTIONS.output_source})"
    return message


def path_to_follow(text: str | None) -> Path | None:
    """Return the path of the file or ring to follow; None where there is none yet.

    `text` is a path or a process id, the program's or its launcher's. Of a file whose
    kind only its lines state, the path comes once there are some; of an output of
    ``ggscope-capture cuda`` it is that of the file that is being written. None: the
    ring that the environment names, else the newest of a running program, else the
    event stream that the settings name, if it exists. Rings of ended programs are not
    followed.
    """
    if text is None:
        named = os.environ.get(RING_VARIABLE)
        if named:
            return Path(named)
        running = next((path for path in rings() if writer_of(path)[1]), None)
        stream = Path(OPTIONS.output) if OPTIONS.output else None
        # A traced program writes its stream when it ends; its ring states all before.
        return running or (stream if stream and os.path.exists(stream) else None)
    if is_process(text):
        paths = rings()
        mine = [path for path in paths if path.name.startswith(f"{_PREFIX}{text}-")]
        mine += [path for path in paths if writer_of(path)[0] == int(text)]
        return next(iter(mine), None) or file_of_process(int(text))
    path = Path(text)
    if path.suffix not in _OF_SEVERAL:
        return path
    if _absence(path):
        return file_for_output(path)
    # An output of an earlier run is there until this one ends.
    return file_for_output(path, _changed_ns(path)) or path


def _changed_ns(path: Path) -> int:
    """Return when a file was written to, in ns since 1970; 0 where unknown."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _absence(path: Path) -> str:
    """Return what a file lacks to be followed: "is not there yet"; "" nothing."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return "is not there yet"
    except OSError:  # reported by whoever opens it
        return ""
    is_empty = stat.S_ISREG(status.st_mode) and not status.st_size
    return "has no lines yet" if is_empty else ""
