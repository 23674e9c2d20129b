"""How often the experts of each layer were chosen, counted without tokens."""

from dataclasses import dataclass

from ggscope.model.tables import I64


@dataclass(frozen=True, slots=True, eq=False)
class ExpertCounts:
    """Choices of a run, summed over its launches.

    Attributes
    ----------
    layer, expert, count : int64[n], a row for each expert of each layer, those that
        were never chosen too.
    n_launches : launches that were counted.
    """

    layer: I64
    expert: I64
    count: I64
    n_launches: int
