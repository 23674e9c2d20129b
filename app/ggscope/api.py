"""Traces in Python: ``import ggscope``, then `open` and `figure`; no window is needed.

The columns of a trace are numpy arrays that cannot be changed, described in
``resources/docs/trace-model.md``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggscope.analysis.filters.masks import filter_mask, read_filter
from ggscope.atomic_write import write_file
from ggscope.errors import ExportError
from ggscope.exporters import forms
from ggscope.exporters.events import Events
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.api import Estimate, ReadContext
from ggscope.readers.memory import judge, too_large
from ggscope.render.figures import FIGURES
from ggscope.session_loading import named_bundle, open_bundle

if TYPE_CHECKING:
    from ggscope.render.export import Figure
    from ggscope.render.figure_style import FigureStyle


def open(  # noqa: A001 - users write ggscope.open
    path: Path | str,
    *,
    beside: Sequence[Path | str] = (),
    reader: str | None = None,
    options: Mapping[str, str] | None = None,
    force: bool = False,
) -> Trace:
    """Return the trace in a file, or in a folder that is one session.

    Parameters
    ----------
    beside : further files of the same session, as ``--with`` names them.
    reader : id of the reader; None = the one that recognises the file.
    options : of the reader, as ``--option`` gives them.
    force : read it whether it fits into memory or not.

    Raises
    ------
    ReadError
        If it cannot be read.
    TooLargeError
        If it would not fit into memory; nothing was read.
    """
    given = dict(options or {})

    def admit(estimate: Estimate) -> None:
        fit = judge(estimate, given)
        if not fit.fits:
            hint = "Read a part by options, or all the same with force=True."
            raise too_large(fit, Path(path), hint)

    context = ReadContext(options=given)
    asked = None if force else admit
    file = Path(path)
    bundle = named_bundle(
        file, [*map(Path, beside)], reader_id=reader, context=context, admit=asked
    )
    return open_bundle(
        bundle, reader_id=reader, context=context, admit=asked, required=file
    )


@dataclass(frozen=True, slots=True)
class TraceFigure:
    """A figure of a trace that can be saved."""

    figure: "Figure"

    def save(
        self,
        path: Path | str,
        look: "FigureStyle | None" = None,
        *,
        overwrite: bool = True,
    ) -> str:
        """Write it as PNG, SVG or PDF, by its suffix, and return its caption.

        Parameters
        ----------
        look : of `ggscope.render.figure_style`; None = on white, as ``ggscope export``.

        Raises
        ------
        ExportError
            If there is nothing to draw, or the file cannot be written.
        """
        return self.figure.write(path, look, overwrite=overwrite)


def figure(trace: Trace, view: str = "timeline", **options: object) -> TraceFigure:
    """Return the figure of a view, called as ``ggscope export --view`` calls it.

    `options` are those of the figure in `ggscope.render.figures`, e.g. ``visible``.

    Raises
    ------
    ExportError
        If there is no such view.
    """
    if view not in FIGURES:
        raise ExportError(f"{view!r} has no figure; {', '.join(FIGURES)} have one.")
    return TraceFigure(FIGURES[view].figure(trace, **options))


class SpanTable:
    """The spans of a trace, or some of them, as a table for other libraries."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def __len__(self) -> int:
        return len(self._events.spans)

    def columns(self) -> dict[str, list[Any]]:
        """Return the values by the name of the column; None where one is unknown."""
        from ggscope.exporters.spans import SpanTable as Columns

        table = Columns(self._events)
        found: dict[str, list[Any]] = {name: [] for name in table.names}
        for piece in table.columns(1 << 16):
            for name, values in piece.items():
                found[name] += values
        return found

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``. Raises ExportError where pyarrow is missing."""
        from ggscope.exporters.spans import SpanTable as Columns
        from ggscope.exporters.spans import utf8

        try:
            import pyarrow
        except ImportError:
            raise ExportError("It is not installed: pip install pyarrow.") from None
        table = Columns(self._events)
        kinds = {True: pyarrow.int64(), False: pyarrow.string()}
        schema = pyarrow.schema([(name, kinds[n]) for name, n in table.numbers()])
        pieces = [
            pyarrow.table(
                {name: utf8(values) for name, values in piece.items()}, schema=schema
            )
            for piece in table.columns(1 << 16)
        ]
        return pyarrow.concat_tables(pieces) if pieces else schema.empty_table()

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``; numbers stay whole where some are unknown.

        Raises ExportError where pandas is missing.
        """
        try:
            import pandas
        except ImportError:
            raise ExportError("It is not installed: pip install pandas.") from None
        return pandas.DataFrame(self.columns()).convert_dtypes()

    def save(
        self, path: Path | str, form: str | None = None, *, overwrite: bool = True
    ) -> list[str]:
        """Write it, and return what the file does not hold, in sentences.

        Parameters
        ----------
        form : one of `ggscope.exporters.forms.FORMS`, as ``ggscope convert --to`` names
            them; None = by the suffix.

        Raises
        ------
        ExportError
            If the form is unknown, or the file cannot be written.
        """
        target = Path(path)
        if form is None:
            fits = (n for n, f in forms.FORMS.items() if target.name.endswith(f.suffix))
            # The longest: .trace.json is also .json.
            form = max(fits, key=lambda n: len(forms.FORMS[n].suffix), default="")
        if form not in forms.FORMS:
            raise ExportError(f"{target.name}: forms are {', '.join(forms.FORMS)}.")
        write_file(target, forms.chunks(self._events, form), overwrite=overwrite)
        return forms.losses(self._events, form)


def table(
    trace: Trace, where: str = "", time: tuple[int, int] | None = None
) -> SpanTable:
    """Return the spans as a table.

    Parameters
    ----------
    where : a filter, as in the window; "" = all.
    time : begin and end in ticks; spans that reach into it are there as wholes.

    Raises
    ------
    QueryError
        If the filter is not understood.
    """
    keep = filter_mask(trace, read_filter(where, trace))
    return SpanTable(Events(trace, keep, None if time is None else TimeRange(*time)))
