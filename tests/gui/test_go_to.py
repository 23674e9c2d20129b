"""Go to lane or tensor in traces that have more of them than a list can show."""

import numpy as np
import pytest

import builders
from ggscope.analysis.rows.index import TraceIndex
from ggscope.gui.commands import palette
from ggscope.gui.commands.go_to import FEW, MAX_CANDIDATES, GoToRequest, GoToTargets
from ggscope.gui.commands.palette import MAX_SHOWN, EntryModel
from ggscope.session.session import Session


@pytest.fixture(scope="module")
def targets() -> GoToTargets:
    lane = np.arange(FEW + 5_000)
    index = TraceIndex(builders.spans_trace(lane, lane + 2, lane))
    request = GoToRequest(index, lambda key: key, lambda name: name)
    assert not request.is_small
    return request()


def test_every_lane_of_very_many_is_found_by_its_name(qapp, targets):
    model = EntryModel()
    model.set_entries(targets)

    for number in (0, FEW, FEW + 4_999):
        model.set_pattern(f"thread {number}")
        assert model.entry(0).text == f"thread {number}"
        assert model.entry(0).run() == f"thread:thread {number}"


def test_typing_looks_at_few_entries_of_very_many(qapp, targets, monkeypatch):
    calls = []
    score = palette.fuzzy_score
    monkeypatch.setattr(
        palette, "fuzzy_score", lambda *texts: calls.append(texts) or score(*texts)
    )
    model = EntryModel()
    model.set_entries(targets)

    model.set_pattern("thr")

    assert model.rowCount() == MAX_SHOWN
    assert len(calls) <= 2 * MAX_CANDIDATES


def test_letters_that_stand_apart_are_found_among_very_many(qapp, targets):
    entries = targets.candidates("td 17")

    assert "thread 17" in [entry.text for entry in entries]
    assert targets.candidates("no such lane") == []


def test_number_brings_the_tokens_that_are_called_so(qapp):
    trace = builders.llama_like_trace(tokens=30, layers=1, threads=1)
    gone: list[int] = []
    request = GoToRequest(
        TraceIndex(trace), lambda key: key, lambda name: name, gone.append
    )
    model = EntryModel()
    model.set_entries(request())

    for typed, number in (("token 28", 28), ("Token #3", 3), ("tok 12", 12)):
        model.set_pattern(typed)
        assert model.entry(0).text == f"token {number}"
        model.entry(0).run()
    model.set_pattern("token 99")
    names = [model.entry(row).text for row in range(model.rowCount())]

    tokens = request().tokens
    assert [int(tokens.number[target]) for target in gone] == [28, 3, 12]
    assert "token 99" not in names


def test_token_of_the_palette_is_shown_and_selected(qtbot):
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=30, layers=1, threads=1))
    request = GoToRequest(
        session.index,
        session.lanes.reveal_requested.emit,
        lambda name: name,
        session.navigator.go_to_token,
    )

    (entry,) = request().candidates("token 28")[:1]
    entry.run()

    span = session.selection.current.active
    assert span is not None
    assert int(session.trace.spans.token[span]) == 28
    shown = session.viewport.visible
    assert shown.start <= session.trace.spans.start[span]
    assert session.trace.spans.end[span] <= shown.end
    assert shown.duration < session.trace.extent.duration / 10
    session.close()
