"""Put the parts of a tensor trace together, early without names or complete."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.lanes import LaneKind
from ggscope.model.strings import StringTable
from ggscope.model.tables import (
    Accesses,
    Array,
    Phase,
    SpanFlag,
    narrow,
    no_flat_accesses,
)
from ggscope.model.time import Clock
from ggscope.model.trace import OpTable, Trace, TraceInfo
from ggscope.readers import tensor_notes as notes
from ggscope.readers.records import Layout
from ggscope.readers.source import Source
from ggscope.readers.tensor_passes import Bands, Rows
from ggscope.readers.tensor_records import TensorRecords
from ggscope.readers.tensor_scan import Columns, Tally
from ggscope.readers.tensor_sources import Patterns

TOKENS, PHASES, FIRST_THREAD = 0, 1, 2
"""Lane ids; the threads follow in order of appearance."""

_PHASE_NAMES = ("prompt", "generate", "unknown")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Job:
    """What is known once the header columns have been read.

    Attributes
    ----------
    end : offset behind the last non-zero byte.
    record : number of each op record in the file, in file order.
    spans : columns of all spans but for names; see `time_columns`.
    claims_layers : the records' layer numbers mean something.
    """

    source: Source
    options: Mapping[str, str]
    layout: Layout
    end: int
    ops: OpTable
    tally: Tally
    record: Array
    rows: Rows
    passes: Bands
    phases: Bands
    spans: dict[str, Array]
    claims_layers: bool


def time_columns(rows: Rows, passes: Bands, phases: Bands) -> dict[str, Array]:
    """Return the columns start, end and flags of all spans.

    First the records, lane by lane, then one span per pass, then one per phase.
    """
    inferred = SpanFlag.INFERRED_END
    return {
        "start": with_bands(rows.start, (passes, passes.start), (phases, phases.start)),
        "end": with_bands(rows.end, (passes, passes.end), (phases, phases.end)),
        "flags": with_bands(rows.flags, (passes, inferred), (phases, inferred)),
    }


def header_columns(
    rows: Rows, columns: Columns, passes: Bands, phases: Bands
) -> dict[str, Array]:
    """Return the columns of all spans that come from record headers."""

    def column(of_rows: Array, of_passes: Array | int, of_phases: Array | int) -> Array:
        return with_bands(of_rows, (passes, of_passes), (phases, of_phases))

    phase = rows.take(_phase_codes(columns.phase))
    return {
        "lane": column(rows.lanes(FIRST_THREAD), TOKENS, PHASES),
        "op": column(rows.take(columns.op).astype(np.int16), -1, -1),
        "token": column(narrow(rows.take(columns.token)), passes.token, -1),
        "layer": column(narrow(rows.take(columns.layer)), -1, -1),
        "phase": column(phase, _phase_codes(passes.phase), _phase_codes(phases.phase)),
        "record": column(rows.take(columns.record), -1, -1),
    }


def with_bands(of_rows: Array, *bands: tuple[Bands, Array | int]) -> Array:
    """Return a column continued over bands, in the dtype of `of_rows`."""
    parts = [
        np.broadcast_to(np.asarray(value), len(band.start)).astype(of_rows.dtype)
        for band, value in bands
    ]
    return np.concatenate([of_rows, *parts])


def make_info(source: Source, title: str, version: str) -> TraceInfo:
    """Return the info of a trace without records."""
    return TraceInfo(
        paths=(source.path,),
        reader_id="tensor-access",
        format=title,
        format_version=version,
        byte_size=source.size,
        modified_ns=source.modified_ns,
    )


def assemble(job: Job, strings: StringTable, patterns: Patterns | None) -> Trace:
    """Return the trace; without `patterns` the early one, whose names are pending."""
    builder = TraceBuilder()
    builder.strings = strings
    builder.clock = Clock("ns", job.rows.origin)
    builder.ops = job.ops
    builder.records = TensorRecords(job.source.path, job.layout, job.ops)
    _add_lanes(builder, job.tally.threads)
    if patterns is None:
        _add_spans(builder, job, job.spans, np.zeros(0, np.int8))
    else:
        _add_patterns(builder, job, patterns)
    notes.add_all(
        builder,
        job.source,
        job.layout,
        job.end,
        job.tally,
        job.rows,
        job.passes,
        job.ops,
        job.spans["op"][: len(job.rows)],
    )
    pending = frozenset(("names", "accesses")) if patterns is None else frozenset()
    return builder.snapshot(_info(job), pending)


def _info(job: Job) -> TraceInfo:
    tally = job.tally
    version = job.layout.id + (" v4" if tally.n_expert else "")
    return replace(
        make_info(job.source, job.layout.title, version),
        n_records=tally.n_records,
        n_passes=job.rows.n_passes,
        options={k: v for k, v in job.options.items() if k in ("layout", "ops")},
        summary={
            "layout": job.layout.id,
            "extension_records": tally.n_extension,
            "empty_records": tally.n_empty,
            "expert_records": tally.n_expert,
        },
    )


def _add_lanes(builder: TraceBuilder, threads: list[int]) -> None:
    builder.add_lane("tokens", LaneKind.TOKEN, ("Tokens",))
    builder.add_lane("phase", LaneKind.PHASE, ("Tokens",))
    for number, raw in enumerate(threads):
        builder.add_lane(
            f"thread {number}", LaneKind.THREAD, ("Threads",), (number,), raw=str(raw)
        )


def _add_patterns(builder: TraceBuilder, job: Job, patterns: Patterns) -> None:
    """Add the spans with their names and layers, and the accesses."""
    bands = ((job.passes, -1), (job.phases, -1))
    n = len(job.rows)
    of_span = with_bands(job.rows.take(patterns.of_record), *bands)
    of_row = of_span[:n]
    notes.cut_names(builder, int(np.count_nonzero(patterns.is_cut[of_row])))
    notes.duplicates(builder, job.rows, of_row, job.spans["token"][:n])
    spans = job.spans | {
        "layer": with_bands(patterns.layer[of_row], *bands),
        "tensor": with_bands(patterns.tensor[of_row], *bands),
    }
    if patterns.is_cut.any():
        cut = np.where(patterns.is_cut, SpanFlag.TRUNCATED_NAME, 0).astype(np.uint16)
        spans["flags"] = job.spans["flags"].copy()
        spans["flags"][:n] |= cut[of_row]
    _add_spans(builder, job, spans, patterns.name[of_row])
    builder.accesses = Accesses(
        of_span, patterns.first, patterns.columns, no_flat_accesses()
    )
    builder.tensors, builder.buffers = patterns.tensors, patterns.buffers


def _add_spans(
    builder: TraceBuilder, job: Job, spans: dict[str, Array], names: Array
) -> None:
    """Add the spans; records beyond `names` have none (yet)."""
    of_passes = _pass_names(builder, job.passes)
    words = builder.strings.intern_many(_PHASE_NAMES)
    of_phases = words[np.minimum(job.phases.phase, len(words) - 1)]
    largest = max(int(of_passes.max(initial=0)), int(words.max()))
    n = len(job.rows)
    dtype = np.promote_types(names.dtype, narrow(np.array([largest])).dtype)
    column = np.full(len(spans["start"]), -1, dtype)
    column[: len(names)] = names
    column[n:] = np.concatenate([of_passes, of_phases])
    builder.add_spans(name=column, **spans)


def _pass_names(builder: TraceBuilder, passes: Bands) -> Array:
    """Return the string ids of the passes' names.

    A pass is named after its token, unless the file gives several passes the same.
    """
    tokens = passes.token.tolist()
    if len(set(tokens)) == len(tokens) and -1 not in tokens:
        return builder.strings.intern_many([f"#{token}" for token in tokens])
    return builder.strings.intern_many([f"pass {k + 1}" for k in range(len(tokens))])


def _phase_codes(raw: Array) -> Array:
    """Return phases as int8, -1 for what is none."""
    return np.where(raw <= Phase.GENERATE, raw, 0xFF).astype(np.uint8).view(np.int8)
