"""Large traces go bit by bit, not all at once."""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from builders import llama_like_trace, spans_trace
from ggscope.analysis.rows.index import TraceIndex
from ggscope.model.trace import Trace
from ggscope.session import deferred_release
from ggscope.session.deferred_release import free_in_steps, large_arrays
from ggscope.session.session import Session

N = 300_000


@pytest.fixture(autouse=True)
def _all_count_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_release, "LARGE_SPANS", 1)


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    yield session
    session.close()


def large_trace() -> Trace:
    trace = llama_like_trace(tokens=1, layers=1)
    start = np.arange(N, dtype=np.int64)
    zeros = np.zeros(N, np.int32)
    spans = replace(
        spans_trace([0], [1]).spans,
        start=start, end=start + 1, lane=zeros, name=zeros - 1,
        op=zeros.astype(np.int16), flags=zeros.astype(np.uint16),
        tensor=None, token=None, layer=None, phase=None, record=None, color=None,
    )  # fmt: skip
    return replace(trace, spans=spans)


def test_large_columns_are_found_once_and_small_ones_not() -> None:
    trace = large_trace()

    any_arraies = large_arrays(trace, trace, [trace.spans])

    sizes = sorted(array.nbytes for array in any_arraies)
    assert sizes == [4 * N, 4 * N, 8 * N, 8 * N]


def test_columns_behind_views_and_caches_are_found() -> None:
    trace = large_trace()
    index = TraceIndex(trace)
    view = replace(trace.spans, start=trace.spans.start[5:])

    index.time_order()

    assert any(a is trace.spans.start for a in large_arrays(view))
    assert large_arrays(index)


def test_closing_frees_the_columns_in_later_turns(
    qtbot: QtBot, session: Session
) -> None:
    session.set_trace(large_trace())
    assert session.trace is not None
    columns = [
        weakref.ref(session.trace.spans.start),
        weakref.ref(session.trace.spans.end),
    ]

    session.close()
    gc.collect()
    at_once = [ref() is None for ref in columns]

    qtbot.waitUntil(lambda: all(ref() is None for ref in columns))
    assert at_once == [False, False]


def test_replaced_snapshots_are_freed_too(qtbot: QtBot, session: Session) -> None:
    session.set_trace(large_trace())
    assert session.trace is not None
    column = weakref.ref(session.trace.spans.start)

    session.set_trace(large_trace())

    # The collector holds the interpreter: in turns with it, a job that still has the
    # old trace gets so little of a busy machine that it takes ten seconds.
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)
    qtbot.waitUntil(lambda: gc.collect() >= 0 and column() is None)


def test_nothing_is_kept_of_small_things(qapp: QApplication) -> None:
    before = len(qapp.children())

    free_in_steps(llama_like_trace(tokens=1, layers=1), None, {"a": [1, 2]})

    assert len(qapp.children()) == before
