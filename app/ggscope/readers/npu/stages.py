"""The traces that are handed out of one NPU file: early ones and the last."""

from dataclasses import replace

from ggscope.model.builder import TraceBuilder
from ggscope.model.claims import Stated, without_verdict
from ggscope.model.time import Clock, TimeRange
from ggscope.model.trace import Trace, TraceInfo
from ggscope.readers.api import ReadContext
from ggscope.readers.common.json_walk import ElementPlaces
from ggscope.readers.npu.columns import EventColumns
from ggscope.readers.npu.header import CYCLES_TOTAL, Header
from ggscope.readers.npu.plan import NpuOptions
from ggscope.readers.npu.trace import Stages, TraceAssembly, last_cycle
from ggscope.readers.source import Source

_PART = frozenset({"spans", "names", "accesses"})
_NO_ACCESSES = frozenset({"accesses"})
"""Names come with the spans; only what refers to them is still missing."""


class Snapshots:
    """Makes traces of the events so far.

    Parameters
    ----------
    source : the file.
    context : whom to publish to.
    stages : when.
    header, columns, places : what has been read of the file; they grow meanwhile.

    Attributes
    ----------
    generation : number of snapshots so far.
    """

    def __init__(
        self,
        source: Source,
        context: ReadContext,
        options: NpuOptions,
        stages: Stages,
        *,
        header: Header,
        columns: EventColumns,
        places: ElementPlaces,
    ) -> None:
        self._source = source
        self._context = context
        self._options = options
        self._stages = stages
        self._header = header
        self._columns = columns
        self._places = places
        self.generation = 0

    def publish_so_far(self, builder: TraceBuilder, done: int, n_records: int) -> None:
        """Publish the spans so far, if it is time to.

        Parameters
        ----------
        builder : of the whole trace; only its strings are shared.
        done : bytes read.
        n_records : events read.
        """
        if not self._stages.is_due(done, self._source.size):
            return
        part = TraceBuilder()
        part.strings = builder.strings
        assembly = self._assembly(part)
        assembly.add_spans()
        if not part.n_spans:
            return
        last = last_cycle(self._source)
        trace = self._snapshot(
            part,
            assembly,
            n_records,
            pending=_PART,
            read_until=assembly.read_until(),
            extent=None if last is None else assembly.extent_to(last),
        )
        self._context.publish(trace)

    def finish(self, builder: TraceBuilder, n_records: int) -> Trace:
        """Return the trace of all events; the spans alone are published before."""
        assembly = self._assembly(builder)
        assembly.add_spans()
        if self._stages.is_worth_it:
            self._context.publish(
                self._snapshot(builder, assembly, n_records, pending=_NO_ACCESSES)
            )
        self._context.check_cancelled()
        assembly.add_rest()
        self._context.progress(self._source.size, self._source.size)
        stated = self._stated(builder, assembly)
        return self._snapshot(builder, assembly, n_records, stated=stated)

    def _stated(
        self, builder: TraceBuilder, assembly: TraceAssembly
    ) -> tuple[Stated, ...]:
        """Return what the file says of itself; note what its events contradict.

        Nothing contradicts it where only some events were asked for; where some were
        lost, that is said already.
        """
        if self._options.is_part:
            return ()
        figures = self._header.stated(assembly.computed)
        if builder.has_loss:
            return tuple(without_verdict(figure) for figure in figures)
        builder.warn_stated(f for f in figures if f.name != CYCLES_TOTAL)
        return figures

    def _assembly(self, builder: TraceBuilder) -> TraceAssembly:
        return TraceAssembly(
            builder,
            self._columns,
            inclusive=self._options.inclusive,
            peak_bytes=self._header.peak_bytes(),
        )

    def _snapshot(
        self,
        builder: TraceBuilder,
        assembly: TraceAssembly,
        n_records: int,
        *,
        pending: frozenset[str] = frozenset(),
        read_until: int | None = None,
        extent: TimeRange | None = None,
        stated: tuple[Stated, ...] = (),
    ) -> Trace:
        source, options = self._source, self._options
        builder.clock = Clock("cycle", assembly.origin, options.hz)
        builder.records = self._places.records(source.path, options.first)
        summary = self._header.summary()
        if not options.is_part and not pending:
            summary["computed"] = assembly.computed
        info = TraceInfo(
            paths=(source.path,),
            reader_id="npu-json",
            format="NPU simulator JSON",
            format_version=self._header.version(),
            byte_size=source.size,
            n_records=n_records,
            producer=self._header.producer(),
            options=options.texts(),
            summary=summary,
            stated=stated,
            modified_ns=source.modified_ns,
        )
        trace = builder.snapshot(info, pending, read_until=read_until, extent=extent)
        # Numbered over all snapshots, whichever builder they come from.
        self.generation += 1
        return replace(trace, generation=self.generation)
