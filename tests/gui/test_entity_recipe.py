"""Template of a selectable entity: flows, which the program does not offer yet."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication

import builders
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.descriptions.selected import SelectedFacts
from ggscope.descriptions.spans import Fact
from ggscope.entities.entity import Entity, EntityStats
from ggscope.entities.registry import ENTITIES
from ggscope.model.selection import Selection
from ggscope.model.tables import Flows
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.details.view import DetailsView
from pages import DetailsPage


class FlowEntity(Entity):
    """An arrow between two spans."""

    table = "flows"  # type: ignore[assignment]  # a kind of its own is in TableName
    has_stats = False

    @property
    def exists(self) -> bool:
        """Whether the trace has such a flow."""
        return 0 <= self.row < len(self.trace.flows)

    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return the spans at its ends."""
        flows = self.trace.flows
        ends = {"from span": flows.source, "to span": flows.target}
        facts = tuple(Fact(label, f"{ids[self.row]:,}") for label, ids in ends.items())
        return SelectedFacts(f"flow {self.row}", "flow", facts)


@pytest.fixture
def session(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setitem(ENTITIES, "flows", FlowEntity)  # a line in the registry
    trace = builders.llama_like_trace(tokens=4, layers=4)
    flows = Flows.between(np.array([1, 2]), np.array([3, 5]))
    session = Session()
    session.set_trace(replace(trace, flows=flows))
    yield session
    session.close()


def test_details_shows_a_new_kind_of_entity(session: Session) -> None:
    view = DetailsView(session, theme("dark"))

    session.selection.select(Selection("flows", (1,)))  # type: ignore[arg-type]

    page = DetailsPage(view)
    assert (page.title, page.kind) == ("flow 1", "flow")
    shown = {fact.label: fact.value for fact in view.facts.facts}
    assert shown == {"from span": "2", "to span": "5"}
    session.selection.select(Selection("flows", (9,)))  # type: ignore[arg-type]
    assert page.title != "flow 1"
