"""Derived values: cached with their trace, counted, and made again once cleared."""

import gc

from builders import spans_trace
from ggscope.analysis.derived_cache import DerivedCache, cache_sizes, clear_caches
from ggscope.analysis.once import once
from ggscope.model.trace import Trace
from ggscope.render.timeline.marks import visible_markers
from ggscope.render.timeline.scene import TimelineGeometry
from scenes import busy_scene


def test_entry_goes_with_its_trace() -> None:
    cache: DerivedCache[Trace, int] = DerivedCache("entry that goes")
    trace = spans_trace([0], [1])
    cache[trace] = 7
    before = cache_sizes()["entry that goes"]

    del trace
    gc.collect()

    assert (before, cache_sizes()["entry that goes"]) == (1, 0)


def test_caches_of_the_same_name_are_counted_together() -> None:
    trace = spans_trace([0], [1])
    one: DerivedCache[Trace, int] = DerivedCache("shared name")
    two: DerivedCache[Trace, int] = DerivedCache("shared name")
    one[trace] = two[trace] = 1

    assert cache_sizes()["shared name"] == 2


def test_cleared_value_is_made_again() -> None:
    calls = []

    @once
    def n_spans(trace: Trace) -> int:
        calls.append(trace)
        return len(trace.spans)

    trace = spans_trace([0], [1])
    first, again = n_spans(trace), n_spans(trace)
    n_calls = len(calls)
    clear_caches()

    assert (first, again, n_calls) == (1, 1, 1)
    assert (n_spans(trace), len(calls)) == (1, 2)


def test_pictures_are_counted_and_the_same_after_clearing() -> None:
    geometry = TimelineGeometry(busy_scene())
    clear_caches()

    markers = visible_markers(geometry)

    assert cache_sizes()["order of markers"] == 1
    clear_caches()
    assert cache_sizes()["order of markers"] == 0
    assert (visible_markers(geometry) == markers).all()
