"""Traces in Python: ``import ggscope``, then `open` and `figure`; no window is needed.

The columns of a trace are numpy arrays that cannot be changed, described in
``resources/docs/trace-model.md``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ggscope.errors import ExportError
from ggscope.model.trace import Trace
from ggscope.opening import open_bundle
from ggscope.readers.api import ReadContext
from ggscope.readers.survey import survey
from ggscope.views.registry import BUILTIN

if TYPE_CHECKING:
    from ggscope.render.export import Figure
    from ggscope.render.look import Look


def open(  # noqa: A001 - users write ggscope.open
    path: Path | str,
    *,
    beside: Sequence[Path | str] = (),
    reader: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Trace:
    """Return the trace in a file, or in a folder that is one session.

    Parameters
    ----------
    beside : further files of the same session, as ``--with`` names them.
    reader : id of the reader; None = the one that recognises the file.
    options : of the reader, as ``--option`` gives them.

    Raises
    ------
    ReadError
        If it cannot be read.
    """
    bundle = survey((Path(path), *map(Path, beside)))
    context = ReadContext(options=dict(options or {}))
    return open_bundle(bundle, reader_id=reader, context=context)


@dataclass(frozen=True, slots=True)
class TraceFigure:
    """A figure of a trace that can be saved."""

    figure: "Figure"

    def save(
        self, path: Path | str, look: "Look | None" = None, *, overwrite: bool = True
    ) -> str:
        """Write it as PNG, SVG or PDF, by its suffix, and return its caption.

        Parameters
        ----------
        look : of `ggscope.render.look`; None = on white, as ``ggscope export``.

        Raises
        ------
        ExportError
            If there is nothing to draw, or the file cannot be written.
        """
        return self.figure.write(path, look, overwrite=overwrite)


def figure(trace: Trace, view: str = "timeline", **options: object) -> TraceFigure:
    """Return the figure of a view, called as ``ggscope export --view`` calls it.

    `options` are those that the function of the figure takes, e.g. ``visible``.

    Raises
    ------
    ExportError
        If there is no such view.
    """
    views = {entry.figure_name: entry for entry in BUILTIN if entry.figure}
    if view not in views:
        raise ExportError(f"{view!r} has no figure; {', '.join(views)} have one.")
    made = views[view].load_figure()(trace, **options)
    return TraceFigure(made)
