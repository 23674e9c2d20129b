"""Traces in Python: ``import ggscope``, `open`, then `summary`, `stats`, `figure` ….

No window is needed. The columns of a trace are read-only numpy arrays, described in
``resources/docs/trace-model.md``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from ggscope.analysis.compare.compare import CompareRow, Comparison, Tolerance
from ggscope.analysis.compare.compare import compare as compare_traces
from ggscope.analysis.filters.masks import filter_mask, read_filter
from ggscope.analysis.statistics.columns import (
    StatFacts,
    record_names,
    records,
    stat_facts,
)
from ggscope.analysis.statistics.table import StatTable, stat_table
from ggscope.analysis.summary.machine import peak_of
from ggscope.analysis.summary.summary import summary as trace_summary
from ggscope.atomic_write import write_file
from ggscope.errors import ExportError, QueryError
from ggscope.exporters import forms
from ggscope.exporters.accesses import access_columns
from ggscope.exporters.columns import ExportColumn, Values, arrow_table
from ggscope.exporters.diff_json import diff_json
from ggscope.exporters.events import Events
from ggscope.exporters.summary_json import summary_json
from ggscope.model.selection import BY, AlignBy, By
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, parse_duration
from ggscope.readers.api import ReadContext
from ggscope.readers.memory import MemoryGuard
from ggscope.render.figures import FIGURES, figure_of
from ggscope.sanitize import xml
from ggscope.session_loading import named_bundle, open_bundle

if TYPE_CHECKING:
    from ggscope.render.export import Figure
    from ggscope.render.figure_style import FigureStyle

_MAX_HTML_ROWS = 20
_HOW_TO_FORCE = "Read a part by options, or all the same with force=True."
"""Rows of a table that a notebook shows."""


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
    file, given = Path(path), dict(options or {})
    context = ReadContext(options=given)
    guard = MemoryGuard(file, given, hint=lambda _: _HOW_TO_FORCE)
    admit = None if force else guard
    bundle = named_bundle(
        file, [*map(Path, beside)], reader_id=reader, context=context, admit=admit
    )
    return open_bundle(
        bundle, reader_id=reader, context=context, admit=admit, required=file
    )


Time = tuple[int | str, int | str] | TimeRange
"""Begin and end of a range, in ticks or as texts such as "1.5 ms"."""


def _time_range(trace: Trace, time: Time | None) -> TimeRange | None:
    """Return a range in ticks. Raises QueryError where it is not understood."""
    if time is None or isinstance(time, TimeRange):
        return time
    begin, end = (_ticks(value, trace) for value in time)
    if end < begin:
        raise QueryError(f"time={time!r}: the end lies before the begin.")
    return TimeRange(begin, end)


def _ticks(value: int | str, trace: Trace) -> int:
    if not isinstance(value, str):
        return int(value)
    try:
        return parse_duration(value, trace.clock.unit)
    except (ValueError, OverflowError) as error:
        raise QueryError(f"time {value!r} is not understood: {error}") from error


@dataclass(frozen=True, slots=True)
class TraceFigure:
    """A figure of a trace, which notebooks show and `save` writes.

    Attributes
    ----------
    look : size, letters and colours; None = on white, as ``ggscope export``.
    """

    figure: "Figure"
    look: "FigureStyle | None" = None

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
        look : of `ggscope.render.figure_style`; None = that of the figure.

        Raises
        ------
        ExportError
            If there is nothing to draw, or the file cannot be written.
        """
        return self.figure.write(path, look or self.look, overwrite=overwrite)

    def _repr_png_(self) -> bytes:
        png, _ = self.figure.png(self.look or self.figure.style)
        return png

    def _repr_svg_(self) -> str:
        with TemporaryDirectory(prefix="ggscope-") as folder:
            path = Path(folder) / "figure.svg"
            self.save(path)
            return path.read_text(encoding="utf-8")


def figure(
    trace: Trace,
    view: str = "timeline",
    *,
    preset: str = "",
    time: Time | None = None,
    **options: object,
) -> TraceFigure:
    """Return the figure of a view, called as ``ggscope export --view`` calls it.

    Parameters
    ----------
    preset : its size and letters: "single" or "double" (column of a journal), "slide",
        "readme"; "" = none.
    time : range of time to draw, for views that have one.
    options : those of the figure in `ggscope.render.figures`, e.g. ``color_by``. The
        other side of "compare" is ``b``, a tuple of traces.

    Raises
    ------
    ExportError
        If there is no such view or preset.
    QueryError
        If `time` is not understood.
    """
    from ggscope.render.figure_style import preset as preset_style

    if view not in (*FIGURES, "compare"):
        listed = ", ".join((*FIGURES, "compare"))
        raise ExportError(f"{view!r} has no figure; {listed} have one.")
    if time is not None:
        options["visible"] = _time_range(trace, time)
    look = preset_style(preset) if preset else None
    return TraceFigure(figure_of(view).figure(trace, **options), look)


class Table:
    """Rows with named columns, for pandas, polars, Arrow and notebooks."""

    def __init__(
        self, make_columns: Callable[[], Mapping[str, ExportColumn]], n_rows: int
    ) -> None:
        self._make_columns, self._n_rows = make_columns, n_rows

    @cached_property
    def _columns(self) -> Mapping[str, ExportColumn]:
        return self._make_columns()

    def __len__(self) -> int:
        return self._n_rows

    def __repr__(self) -> str:
        names = ", ".join(self._columns)
        return f"<{type(self).__name__}: {len(self):,} rows of {names}>"

    def columns(self) -> dict[str, list[Any]]:
        """Return the values by the name of the column; None where one is unknown."""
        return {name: column.to_list() for name, column in self._columns.items()}

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``; texts are dictionary-encoded.

        Raises ExportError where pyarrow is missing.
        """
        return arrow_table(self._columns)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``; numbers stay whole where some are unknown.

        Raises ExportError where pandas is missing.
        """
        try:
            import pandas
        except ImportError:
            raise ExportError(
                "pandas is not installed. Install it with: pip install pandas"
            ) from None
        return pandas.DataFrame(self.columns()).convert_dtypes()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as an Arrow C stream, e.g. for polars."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{xml(name)}</th>" for name in self._columns)
        shown = [c.head(_MAX_HTML_ROWS).to_list() for c in self._columns.values()]
        lines = (
            "".join(f"<td>{'' if v is None else xml(str(v))}</td>" for v in row)
            for row in zip(*shown, strict=True)
        )
        rows = "".join(f"<tr>{line}</tr>" for line in lines)
        more = len(self) - _MAX_HTML_ROWS
        note = f"<p>… and {more:,} more rows</p>" if more > 0 else ""
        head = f"<thead><tr>{head}</tr></thead>"
        return f"<table>{head}<tbody>{rows}</tbody></table>{note}"


class SpanTable(Table):
    """The spans of a trace, or some of them, as a table for other libraries."""

    def __init__(self, events: Events) -> None:
        from ggscope.exporters.spans import SpanTable as SpanColumns

        self._events = events
        super().__init__(lambda: SpanColumns(events).encoded(), len(events.spans))

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


def table(trace: Trace, where: str = "", time: Time | None = None) -> SpanTable:
    """Return the spans as a table.

    Parameters
    ----------
    where : a filter, as in the window; "" = all.
    time : begin and end, in ticks or as texts such as "1.5 ms"; spans that reach into
        the range are there as wholes.

    Raises
    ------
    QueryError
        If the filter or the range is not understood.
    """
    keep = filter_mask(trace, read_filter(where, trace))
    return SpanTable(Events(trace, keep, _time_range(trace, time)))


class StatsTable(Table):
    """Statistics by group, with the columns of ``ggscope stats --format csv``.

    Attributes
    ----------
    rows : one `StatRow` per group, the longest total first.
    all : the row of all groups together, without percentiles.
    """

    def __init__(self, stat_table: StatTable, facts: StatFacts) -> None:
        self.rows, self.all = stat_table.rows, stat_table.all
        rows = records(self.rows, facts)
        names = record_names([facts])
        super().__init__(
            lambda: {name: Values([row[name] for row in rows]) for name in names},
            len(rows),
        )


def stats(
    trace: Trace,
    by: By = "op",
    *,
    where: str = "",
    time: Time | None = None,
    include_estimated: bool = False,
) -> StatsTable:
    """Return totals, means, percentiles and bytes by group, as ``ggscope stats`` does.

    Parameters
    ----------
    by : what a group is: "op", "family", "layer", "token", "thread", "phase",
        "engine", "backend", "lane", "name", "tensor", "type", "shape", "source",
        "expert", "core", "numa", "category" (of calls and events), "launcher" (the
        op that launched a kernel), "bits" or "bank" (of an NPU).
    where : a filter, as in the window; "" = all spans.
    time : only spans that touch this range, with their whole durations.
    include_estimated : use the times of estimated and unfinished spans too.

    Raises
    ------
    QueryError
        If there is no such grouping, or the filter or range is not understood.
    """
    if by not in BY:
        raise QueryError(f"There is no grouping {by!r}. Groupings: {', '.join(BY)}.")
    visible = _time_range(trace, time)
    mask = filter_mask(trace, read_filter(where, trace))
    groups = stat_table(
        trace, by, mask=mask, time=visible, include_estimated=include_estimated
    )
    return StatsTable(groups, stat_facts(trace, by, groups, visible))


def accesses(trace: Trace, where: str = "", time: Time | None = None) -> Table:
    """Return what spans read and write, one access per row.

    Columns: time (start of the span), span, lane, op, token, kind ("read", "write"),
    space, tensor, layer, expert, offset and size in bytes. Accesses that belong to no
    span follow at the end; with a filter or a range they are left out.

    Parameters
    ----------
    where, time : restrict the spans, as in `table`.

    Raises
    ------
    QueryError
        If the filter or the range is not understood.
    """
    mask, ids = filter_mask(trace, read_filter(where, trace)), None
    visible = _time_range(trace, time)
    if mask is not None or visible is not None:
        ids = np.sort(Events(trace, mask, visible).spans)
    flat = trace.accesses.flat(trace.spans, ids)
    return Table(partial(access_columns, trace, flat), len(flat))


def summary(trace: Trace, *, peak: float | None = None) -> dict[str, Any]:
    """Return tokens/s, what took the time and what limits the run.

    The keys are those of ``ggscope summary --json``; what the trace does not state is
    None, with the reason under "unknown".

    Parameters
    ----------
    peak : memory bandwidth of the machine in bytes per second; None = what ``ggscope
        machine`` measured, where the trace is of a processor of the same name.
    """
    return summary_json(trace, trace_summary(trace, peak=peak_of(trace, peak)))


class CompareTable(Table):
    """What B takes more or less than A: a row per group that both have.

    Columns: key, a and b (time in ticks), change, relative, within_noise.

    Attributes
    ----------
    comparison : all of it: alignment, parts, groups of one side only.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        columns: dict[str, Callable[[CompareRow], object]] = {
            "key": lambda row: row.key,
            "a": lambda row: row.a.value,
            "b": lambda row: row.b.value,
            "change": lambda row: row.change,
            "relative": lambda row: row.relative,
            "within_noise": lambda row: row.is_noise,
        }
        rows = comparison.rows
        super().__init__(
            lambda: {
                name: Values([value(row) for row in rows])
                for name, value in columns.items()
            },
            len(rows),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``ggscope diff --json`` prints, without paths."""
        return diff_json(self.comparison)


def compare(
    a: Trace | Sequence[Trace],
    b: Trace | Sequence[Trace],
    by: By = "op",
    *,
    align_by: AlignBy | None = None,
    tolerance: float = 0.0,
) -> CompareTable:
    """Return what B takes more or less than A, the largest change first.

    Parameters
    ----------
    a, b : a trace, or several runs of the same; then changes within the range of the
        runs are noise.
    by : what a group is, as in `stats`.
    align_by : how tokens are matched; None = by what both have.
    tolerance : changes up to this share of A are noise, e.g. 0.01.

    Raises
    ------
    QueryError
        If there is no such grouping, a side has no trace, or they cannot be compared.
    """
    if by not in BY:
        raise QueryError(f"There is no grouping {by!r}. Groupings: {', '.join(BY)}.")
    runs = [[side] if isinstance(side, Trace) else [*side] for side in (a, b)]
    if not all(runs):
        raise QueryError("Each side needs at least one trace.")
    limit = Tolerance(tolerance)
    comparison = compare_traces(
        runs[0], runs[1], by, align_by=align_by, tolerance=limit
    )
    if not comparison.is_comparable:
        raise QueryError(f"The traces cannot be compared: {comparison.reason}.")
    return CompareTable(comparison)
