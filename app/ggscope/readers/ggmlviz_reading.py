"""One reading of a ``.ggmlviz`` file, from its first byte to the finished trace."""

from dataclasses import replace

import numpy as np

from ggscope.errors import ReadError
from ggscope.model import ggml
from ggscope.model.builder import TraceBuilder
from ggscope.model.claims import Stated, stated_figure, without_verdict
from ggscope.model.time import Clock
from ggscope.model.trace import OpTable, Trace, TraceInfo
from ggscope.readers.api import NAMES_OPTION, RANGE_OPTION, ReadContext
from ggscope.readers.ggmlviz_allocs import add_memory
from ggscope.readers.ggmlviz_blocks import blocks, counts
from ggscope.readers.ggmlviz_events import Events, gather
from ggscope.readers.ggmlviz_intake import Intake
from ggscope.readers.ggmlviz_kernel import make_intake
from ggscope.readers.ggmlviz_layouts import HEADER_BYTES, EventType
from ggscope.readers.ggmlviz_notes import (
    note_changed,
    note_damage,
    note_end,
    note_failure,
    note_gaps,
    note_ops,
    note_pairing,
    note_parts,
    note_version,
)
from ggscope.readers.ggmlviz_optable import choose_ops
from ggscope.readers.ggmlviz_options import Choice
from ggscope.readers.ggmlviz_pairing import pair_events
from ggscope.readers.ggmlviz_records import GgmlvizRecords
from ggscope.readers.ggmlviz_scan import Scan
from ggscope.readers.ggmlviz_spans import add_intervals, type_name
from ggscope.readers.ggmlviz_stages import PENDING, Stages, known_part, last_time
from ggscope.readers.ggmlviz_threads import renumber
from ggscope.readers.ggmlviz_walk import Walk
from ggscope.readers.ggmlviz_window import Window
from ggscope.readers.source import Source

_SPARE_ROWS = 64
_MOST_ROWS_AT_FIRST = 1 << 26
"""Room for more events than this is made when they turn up."""


class Reading:
    """Reads one file once.

    Parameters
    ----------
    version : what the header states.
    intake : where events go; None for the fastest one there is.
    """

    def __init__(
        self,
        source: Source,
        context: ReadContext,
        choice: Choice,
        version: int,
        intake: Intake | None = None,
    ) -> None:
        self._source, self._context = source, context
        self._choice, self._version = choice, version
        wanted, layout = choice.wanted, choice.layout
        room = min(choice.n_events * 51 // 50 + _SPARE_ROWS, _MOST_ROWS_AT_FIRST)
        self._intake: Intake | None = intake or make_intake(wanted, room, layout)
        max_label = context.limits.label_bytes
        window_bytes = max(self._intake.window_bytes, 4 * max_label) + (1 << 16)
        window = Window(source, choice.end, window_bytes)
        self._walk = Walk(window, layout, max_label)
        self._scan = Scan(self._walk, self._intake, HEADER_BYTES, stop_row=wanted.stop)
        self._shown_until = -1
        self._stages = Stages(choice.n_events, enabled=context.wants_stages)

    def run(self, *, is_known: bool) -> Trace:
        """Return the whole trace.

        Parameters
        ----------
        is_known : whether the version is one that is known.
        """
        builder = TraceBuilder()
        if not is_known:
            note_version(builder, self._version)
        self._read(builder)
        return self._finished(builder)

    def _read(self, builder: TraceBuilder) -> None:
        """Take all events; warn about what cannot be read."""
        intake, size = self._intake, self._source.size
        assert intake is not None
        for _ in self._scan.stretches(self._context):
            self._context.progress(self._scan.position // 2, size)
            n = self._stages.n_due(intake.columns.n)
            if n:
                self._publish(intake, n)
        self._note_reading(builder, intake.columns.n)
        self._context.progress(size // 2, size)

    def _finished(self, builder: TraceBuilder) -> Trace:
        """Return the trace of all events."""
        context, size = self._context, self._source.size
        records = self._records()
        events = self._all_events(builder)
        note_damage(builder, events, records, context)
        n, n_of_kind = len(events), counts(events.kind, 256, context)
        is_sure = renumber(builder, events, n_of_kind, self._choice.numbering)
        n_of_kind = counts(events.kind, 256, context)
        summary: dict[str, object] = {
            "events": {
                type_name(kind, is_sure=is_sure): int(n_of_kind[kind])
                for kind in np.flatnonzero(n_of_kind).tolist()
            },
            "threads": events.n_threads,
        }
        stated = self._stated(events, int(n_of_kind[EventType.OP_BEGIN]))
        builder.ops = self._ops(builder, events)
        context.progress(size * 5 // 8, size)
        if n:
            origin, end = int(events.time.min()), int(events.time.max())
            builder.clock = Clock("ns", origin)
            summary.update(add_memory(builder, events, origin, context))
            intervals = pair_events(events, end, context)
            context.progress(size * 3 // 4, size)
            summary["graphs"] = intervals.n_graphs
            note_pairing(builder, events, intervals, records)
            add_intervals(
                builder, events, intervals, origin, context, is_numbering_sure=is_sure
            )
        builder.records = records
        note_changed(builder, self._source.change(), n, self._scan.position)
        context.progress(size, size)
        if builder.has_loss:
            stated = tuple(map(without_verdict, stated))
        builder.warn_stated(stated)
        info = self._info(builder.ops, n, summary)
        return builder.snapshot(replace(info, stated=stated))

    def _stated(self, events: Events, n_ops: int) -> tuple[Stated, ...]:
        """Return how many nodes graphs say they have, beside the ops that began.

        A full buffer drops ops, and some writers log none: fewer contradict nothing.
        """
        wanted, n_nodes, n_graphs = self._choice.wanted, 0, 0
        for block in blocks(len(events), self._context):
            is_graph = events.kind[block] == EventType.GRAPH_BEGIN
            n_nodes += int(events.number[block][is_graph].sum(dtype=np.int64))
            n_graphs += int(np.count_nonzero(is_graph))
        if not n_graphs or wanted.first or wanted.stop is not None:
            return ()
        figure = stated_figure(
            "nodes of graphs",
            n_nodes,
            n_ops or None,
            basis="ops that began",
            place="GRAPH_BEGIN",
            at_least=True,
        )
        return () if figure is None else (figure,)

    def _all_events(self, builder: TraceBuilder) -> Events:
        """Return the events; from now on nobody else holds them."""
        assert self._intake is not None
        events = gather(
            self._intake, builder.strings, self._context,
            first_record=self._choice.wanted.first,
        )  # fmt: skip
        self._intake = None
        self._scan.close()
        return events

    def _publish(self, intake: Intake, n: int) -> None:
        """Hand out the first `n` events as far as later ones cannot change them."""
        context, wanted = self._context, self._choice.wanted
        builder = TraceBuilder()
        events = gather(
            intake, builder.strings, context, n=n, first_record=wanted.first
        )
        origin, end = int(events.time.min()), int(events.time.max())
        builder.clock = Clock("ns", origin)
        intervals = pair_events(events, end, context)
        part, until = known_part(events, intervals)
        if until <= max(origin, self._shown_until):
            return
        self._shown_until = until
        builder.ops = self._ops(builder, events)
        extent = None
        if wanted.stop is None:
            extent = last_time(self._source, self._walk, events, origin)
        builder.records = self._records()
        add_intervals(builder, events, part, origin, context)
        trace = builder.snapshot(
            self._info(builder.ops, n, {}), PENDING,
            read_until=until - origin, extent=extent,
        )  # fmt: skip
        context.publish(trace)

    def _ops(self, builder: TraceBuilder, events: Events) -> OpTable | None:
        """Return the op table, after warnings about it; None where there are no ops."""
        wanted = self._choice.ops
        try:
            table = choose_ops(builder, events, wanted, self._context)
        except KeyError:
            raise ReadError(
                f"there is no op table {wanted!r}.",
                hint=f"The newest one is {ggml.tables()[0].id}.",
            ) from None
        if table is not None:
            note_ops(builder, events, table, self._context)
        return table

    def _note_reading(self, builder: TraceBuilder, n: int) -> None:
        """Warn about what could not be read, and what was not to be."""
        scan, wanted = self._scan, self._choice.wanted
        note_gaps(builder, scan)
        if not scan.is_cut_short:
            note_end(builder, scan, self._source.size, self._context)
        note_failure(builder, self._walk.window.failure, scan.position)
        if wanted.first and not n:
            raise ReadError(
                f"the range begins at event {wanted.first:,}, but the file holds "
                f"{scan.count:,} events.",
                hint="Give a range within them.",
            )
        note_parts(builder, wanted, n)

    def _records(self) -> GgmlvizRecords:
        path, layout = self._source.path, self._choice.layout
        return GgmlvizRecords(path, layout, self._scan.anchors())

    def _info(
        self, ops: OpTable | None, n: int, summary: dict[str, object]
    ) -> TraceInfo:
        source, options = self._source, dict(self._choice.options)
        if ops is not None:
            options["ops"] = ops.id
        parts: dict[str, object] = {
            name: options[name]
            for name in (RANGE_OPTION, NAMES_OPTION)
            if name in options
        }
        return TraceInfo(
            paths=(source.path,),
            reader_id="ggmlviz",
            format="ggmlviz",
            format_version=str(self._version),
            byte_size=source.size,
            n_records=n,
            options=options,
            summary={**summary, **parts},
            modified_ns=source.modified_ns,
        )
