"""The op table of an event stream, which does not name it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ggscope.model import names
from ggscope.model.ggml import ops as ggml
from ggscope.model.ggml.rules import expected_ops
from ggscope.model.trace import OpTable

_MAX_ALIKE = 16

_FIRST_ERA, _LAST_ERA = "ggml-2025-06-18", "ggml-2025-08-18"
"""Tables in force while the writers of this format were written."""

_USUAL = "ggml-2025-06-30-86"
"""In force for most of that time, and the table of the real files there are."""


def usual_table() -> OpTable:
    """Return the table of a stream of which nothing is known."""
    return replace(ggml.table(_USUAL), source="inferred", margin=0.0)


def infer_table(samples: Sequence[ggml.OpSample]) -> OpTable:
    """Return the table under which numbers and labels of ops make most sense.

    Where no label says which op it may be of, the margin is 0.
    """
    everything = ggml.tables()
    era = [t for t in everything if _FIRST_ERA <= t.id <= _LAST_ERA]
    era.sort(key=lambda t: t.id != _USUAL)
    if not _tell_ops([s.dst for s in samples]):
        numbers: Counter[int] = Counter()
        for s in samples:
            numbers[s.code] += s.count
        samples = [ggml.OpSample(code, "", (), None, n) for code, n in numbers.items()]
        return replace(ggml.infer(samples, candidates=era), margin=0.0)
    known = {t.id for t in era}
    others = [t for t in everything if t.id not in known]
    return ggml.infer(samples, candidates=era + others)


def _tell_ops(labels: list[str]) -> bool:
    """Return whether any label says which op it may be of.

    Of those that differ in digits only some are asked.
    """
    shapes, which = names.shapes_of(labels)
    asked = [0] * len(shapes)
    for label, shape in zip(labels, which.tolist(), strict=True):
        asked[shape] += 1
        if asked[shape] <= _MAX_ALIKE and expected_ops(label):
            return True
    return False
