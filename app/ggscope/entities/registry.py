"""The kinds of entities that can be selected; a new kind is one line here."""

from ggscope.analysis.rows.index import TraceIndex
from ggscope.entities.buffer import BufferEntity
from ggscope.entities.entity import Entity
from ggscope.entities.expert import ExpertEntity
from ggscope.entities.gap import GapEntity
from ggscope.entities.marker import MarkerEntity
from ggscope.entities.node import NodeEntity
from ggscope.entities.span import SpanEntity
from ggscope.entities.statistics_row import StatisticsRowEntity
from ggscope.entities.tensor import TensorEntity
from ggscope.entities.wait import WaitEntity
from ggscope.model.selection import Selection, TableName
from ggscope.model.trace import Trace

_ROWS: tuple[type[Entity], ...] = (
    SpanEntity,
    WaitEntity,
    MarkerEntity,
    TensorEntity,
    BufferEntity,
    NodeEntity,
    ExpertEntity,
)
ENTITIES: dict[TableName, type[Entity]] = {kind.table: kind for kind in _ROWS}
"""Kinds whose entities are rows of a table; rows of statistics and gaps are not."""


def entity_of(
    trace: Trace, index: TraceIndex | None, selection: Selection
) -> Entity | None:
    """Return the active entity of a selection; None if there is none.

    Parameters
    ----------
    index : needed for rows of statistics only.
    """
    row = selection.active
    if row is None:
        return None
    if selection.group is not None:
        return None if index is None else StatisticsRowEntity(index, selection.group)
    if selection.gap is not None:
        gap = GapEntity(trace, selection.gap)
        return gap if gap.exists else None
    kind = ENTITIES.get(selection.table) if selection.table is not None else None
    entity = None if kind is None else kind(trace, row)
    return entity if entity is not None and entity.exists else None
