import threading

import numpy as np
import pytest

import builders
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import FEW_LANES, LaneState
from ggscope.errors import Cancelled
from ggscope.model.trace import Trace
from ggscope.render.theme import theme
from ggscope.render.timeline import prepare as prepare_module
from ggscope.render.timeline.prepare import PrepareRequest
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.timeline.view import TimelineView
from scenes import texts_of


def context(cancel: threading.Event) -> TaskContext:
    return TaskContext(cancel, lambda done, total: None, lambda _: None)


def request(mask: np.ndarray | None = None) -> PrepareRequest:
    trace = builders.llama_like_trace()
    state = LaneState(collapsed=frozenset())
    return PrepareRequest(TraceIndex(trace), state, "family", mask, "mask")


@pytest.mark.parametrize("with_mask", [False, True])
def test_prepare_on_a_worker_equals_that_at_once(with_mask):
    n = len(builders.llama_like_trace().spans)
    mask = np.arange(n) % 2 == 0 if with_mask else None

    result = request(mask)(context(threading.Event()))

    expected = request(mask)()
    assert result.layout == expected.layout
    assert [box.lane.key for box in result.layout.boxes if box.lane is not None]


@pytest.mark.parametrize("after", [0, 1, 3])
def test_prepare_stops_where_it_is_cancelled(after, monkeypatch):
    cancel = threading.Event()
    prepared: list[str] = []
    prepare_lane = PrepareRequest.prepare_lane

    def prepare(self: PrepareRequest, key: str) -> int:
        n_rows = prepare_lane(self, key)
        prepared.append(key)
        if len(prepared) >= after:
            cancel.set()  # on whichever thread took this lane
        return n_rows

    monkeypatch.setattr(PrepareRequest, "prepare_lane", prepare)
    if not after:
        cancel.set()

    with pytest.raises(Cancelled):
        request()(context(cancel))
    assert len(prepared) >= after
    if not after:
        assert not prepared


def test_trace_of_many_lanes_is_never_prepared_by_the_window(qtbot, monkeypatch):
    lane = np.arange(2 * FEW_LANES)
    trace = builders.spans_trace(lane, lane + 5, lane, op=3)
    threads: list[str] = []
    call = PrepareRequest.__call__

    def called(self, context=None):
        threads.append(threading.current_thread().name)
        return call(self, context)

    monkeypatch.setattr(PrepareRequest, "__call__", called)
    session = Session()
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)

    session.set_trace(trace)
    qtbot.waitUntil(lambda: view.prepared() is not None)

    assert threads
    assert threading.main_thread().name not in threads
    view.release()
    session.close()


def lanes_of_many_spans(n_lanes: int, each: int) -> Trace:
    """Return threads with so many spans that each is prepared by a worker."""
    lane = np.repeat(np.arange(n_lanes), each)
    start = np.tile(np.arange(each) * 10, n_lanes)
    return builders.spans_trace(start, start + 7, lane, op=3)


def test_of_many_lanes_only_those_in_view_are_prepared(qtbot, monkeypatch):
    monkeypatch.setattr(prepare_module, "FEW_SPANS", 40)
    prepared: list[str] = []
    prepare_lane = PrepareRequest.prepare_lane

    def prepare(self: PrepareRequest, key: str) -> int:
        prepared.append(key)
        return prepare_lane(self, key)

    monkeypatch.setattr(PrepareRequest, "prepare_lane", prepare)
    session = Session()
    session.lanes.set_state(LaneState(collapsed=frozenset()))
    view = TimelineView(session, theme("dark"))
    view.resize(800, 400)
    qtbot.addWidget(view)
    view.show()

    session.set_trace(lanes_of_many_spans(2 * FEW_LANES, 50))
    qtbot.waitUntil(lambda: view.prepared() is not None)
    first = view.prepared()

    assert 5 < len(prepared) < 100
    assert 400 < len(first.waiting) < 2 * FEW_LANES
    assert "preparing …" not in texts_of(view.picture(800, 400, 1.0))

    view.scroll_to(6_000)
    assert "preparing …" in texts_of(view.picture(800, 400, 1.0))
    assert view.hit(400, 200).span == -1
    qtbot.waitUntil(lambda: view.prepared() is not first)
    assert "preparing …" not in texts_of(view.picture(800, 400, 1.0))
    assert len(prepared) < 200

    second = view.prepared()
    view.scroll_to(0)  # what was prepared once stays so
    assert "preparing …" not in texts_of(view.picture(800, 400, 1.0))
    qtbot.wait(50)
    assert view.prepared() is second
    view.release()
    session.close()
