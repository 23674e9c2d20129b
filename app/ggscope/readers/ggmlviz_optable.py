"""Which op table a ``.ggmlviz`` file was written with."""

from dataclasses import replace

import numpy as np

from ggscope.model import ggml
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml_rules import expected_ops
from ggscope.model.tables import Array
from ggscope.model.trace import OpTable
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_blocks import blocks
from ggscope.readers.ggmlviz_codes import encode
from ggscope.readers.ggmlviz_events import Events
from ggscope.readers.ggmlviz_layouts import EventType
from ggscope.readers.ggmlviz_spans import MAX_OP

_MAX_SAMPLES = 1 << 14
MAX_OPS = 1 << 18
"""So many ops tell the table: more of them are the same graphs again."""

_FIRST_ERA, _LAST_ERA = "ggml-2025-06-18", "ggml-2025-08-18"
"""Tables in force while the writers of this format were written."""

_USUAL = "ggml-2025-06-30-86"
"""In force for most of that time, and the table of the real files there are."""


def choose_ops(
    builder: TraceBuilder, events: Events, wanted: str, context: ReadContext
) -> OpTable | None:
    """Return the table that names the op numbers; None where there are no ops.

    Parameters
    ----------
    wanted : "auto", or the id of a table.

    Raises
    ------
    KeyError
        If there is no table of that id.
    """
    if wanted != "auto":
        return replace(ggml.table(wanted), source="override", margin=None)
    rows = _some_ops(events, context)
    if not len(rows):
        return None
    pairs = events.number[rows].astype(np.int64) << 32
    pairs += events.string_of[events.label[rows]].astype(np.int64) + 1
    codes, distinct, _ = encode(pairs)
    counts = np.bincount(codes)[:_MAX_SAMPLES].tolist()
    strings = builder.strings
    samples = [
        ggml.OpSample(pair >> 32, strings[(pair & 0xFFFF_FFFF) - 1], (), None, n)
        for pair, n in zip(distinct[:_MAX_SAMPLES].tolist(), counts, strict=True)
    ]
    everything = ggml.tables()
    era = [t for t in everything if _FIRST_ERA <= t.id <= _LAST_ERA]
    era.sort(key=lambda t: t.id != _USUAL)
    if not any(expected_ops(s.dst, (), None) for s in samples):
        return replace(ggml.infer(samples, candidates=era), margin=0.0)
    known = {t.id for t in era}
    others = [t for t in everything if t.id not in known]
    return ggml.infer(samples, candidates=era + others)


def _some_ops(events: Events, context: ReadContext) -> Array:
    """Return the rows of the first `MAX_OPS` begins of ops."""
    parts: list[Array] = [np.empty(0, np.int64)]
    n = 0
    for block in blocks(len(events), context):
        is_op = events.kind[block] == EventType.OP_BEGIN
        rows = np.flatnonzero(is_op & (events.number[block] <= MAX_OP))
        parts.append(rows[: MAX_OPS - n] + block.start)
        n += len(parts[-1])
        if n == MAX_OPS:
            break
    return np.concatenate(parts)
