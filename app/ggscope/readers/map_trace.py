"""What memory map, structure table and registry have in common: rows to a trace."""

from collections.abc import Mapping

from ggscope.model.builder import TraceBuilder
from ggscope.model.claims import Stated, stated_figure, without_verdict
from ggscope.model.tensors import Place
from ggscope.model.trace import Trace, TraceInfo
from ggscope.readers.api import ReaderInfo
from ggscope.readers.map_layout import Layout, examine
from ggscope.readers.map_notes import note_layout, note_places, totals
from ggscope.readers.model_rows import TensorRows
from ggscope.readers.source import Source


def list_tensors(builder: TraceBuilder, rows: TensorRows) -> Layout:
    """Give `builder` the tensors, repaired, and note what was wrong with them."""
    layout = examine(rows)
    builder.tensors = rows.table(
        builder.strings,
        place=Place.LISTED,
        offset=layout.offset,
        size=layout.size,
        size_source=layout.source,
    )
    note_places(builder, rows)
    note_layout(builder, rows, layout)
    return layout


def side_trace(
    builder: TraceBuilder,
    reader: ReaderInfo,
    source: Source,
    layout: Layout,
    *,
    version: str = "",
    producer: Mapping[str, str] | None = None,
    summary: Mapping[str, object] | None = None,
    stated: tuple[Stated | None, ...] = (),
) -> Trace:
    """Return the trace of a file that lists tensors and nothing else.

    Sizes are held against the room that the offsets leave; `stated` is what the file
    says besides.
    """
    figures = [figure for figure in stated if figure is not None]
    if layout.max_end >= 0 and len(builder.tensors):
        size = builder.tensors.size
        sizes = stated_figure(
            "sizes of all tensors",
            int(layout.stated_bytes),
            int(size[size >= 0].sum(dtype=float)),
            unit="B",
            basis="the room between offsets",
            place="tensors",
        )
        figures += [sizes] if sizes is not None else []
    if builder.has_loss:
        figures = [without_verdict(figure) for figure in figures]
    return builder.snapshot(
        TraceInfo(
            paths=(source.path,),
            reader_id=reader.id,
            format=reader.title,
            format_version=version,
            byte_size=source.size,
            n_records=len(builder.tensors),
            producer=dict(producer or {}),
            summary={**totals(layout, builder.tensors), **(summary or {})},
            stated=tuple(figures),
            modified_ns=source.modified_ns,
        )
    )


__all__ = ["list_tensors", "side_trace"]
