import threading

import numpy as np
import pytest

import builders
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import FEW_LANES, LaneState
from ggscope.errors import Cancelled
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.timeline.view import PrepareRequest, TimelineView


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

    found = request(mask)(context(threading.Event()))

    expected = request(mask)()
    assert found.layout == expected.layout
    assert [box.lane.key for box in found.layout.boxes if box.lane is not None]


@pytest.mark.parametrize("after", [0, 1, 3])
def test_prepare_stops_where_it_is_cancelled(after, monkeypatch):
    cancel = threading.Event()
    prepared: list[str] = []
    prepare_lane = PrepareRequest._prepare_lane

    def prepare(self: PrepareRequest, key: str) -> int:
        n_rows = prepare_lane(self, key)
        prepared.append(key)
        if len(prepared) >= after:
            cancel.set()  # on whichever thread took this lane
        return n_rows

    monkeypatch.setattr(PrepareRequest, "_prepare_lane", prepare)
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
