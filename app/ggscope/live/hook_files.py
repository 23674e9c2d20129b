"""Finds the file that the hook of ``ggscope-capture cuda`` is writing.

While the program runs it lies in a folder beside the output: ``calls.jsonl`` is written
in ``calls.jsonl.partial-…`` and moved to its place at the end.
"""

import contextlib
import glob
from collections.abc import Iterable
from pathlib import Path

from ggscope.live.processes import descendants, written_files
from ggscope.live.regular_file import is_own_file, open_for_reading

_SUFFIX = ".jsonl"
_NAME_LETTERS = 200
"""Of the name of the output in that of the folder."""
_HEAD_BYTES = 1 << 16


def file_for_output(output: Path, since_ns: int = 0) -> Path | None:
    """Return the file that is being written for an output; None: there is none.

    `since_ns` : it was written to after that time, in ns since 1970.
    """
    name = glob.escape(output.name[:_NAME_LETTERS])
    return _newest(output.parent.glob(f"{name}.partial-*/*{_SUFFIX}"), since_ns)


def file_of_process(pid: int) -> Path | None:
    """Return the file that a process or one of those that it started writes."""
    paths = {
        Path(path)
        for each in (pid, *descendants(pid))
        for path in written_files(each)
        if path.endswith(_SUFFIX)
    }
    return _newest(path for path in paths if _is_from_hook(path))


def _newest(paths: Iterable[Path], since_ns: int = 0) -> Path | None:
    times = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat()
            if is_own_file(path) and status.st_size and status.st_mtime_ns > since_ns:
                times.append((status.st_mtime_ns, path))
    return max(times)[1] if times else None


def _is_from_hook(path: Path) -> bool:
    from ggscope.live.calls_file import is_from_hook

    try:
        with open_for_reading(path) as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return is_from_hook(head[: head.rfind(b"\n") + 1])
