"""Files that commands write."""

from collections.abc import Iterable
from pathlib import Path

from ggscope.errors import ExportError


def spare_inputs(target: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over a file that is read.

    Raises
    ------
    ExportError
        If `target` is one of the inputs, by this or another name.
    """
    for path in inputs:
        try:
            is_same = target.samefile(path)
        except OSError:
            continue
        if is_same:
            raise ExportError(
                f"{target} is the trace itself; writing would destroy it. Choose "
                "another name."
            )
