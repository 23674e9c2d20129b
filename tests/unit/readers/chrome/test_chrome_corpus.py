"""Real Chrome traces: the counts that others took of them, by content alone."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import people
from ggscope.errors import ReadError
from ggscope.readers.registry import open_trace

_KIND = "chrome-json"


@people.each(_KIND, lambda _, known: bool(known["by_ph"]))
def test_counts_of_real_traces(name, tmp_path):
    counts = people.counts(_KIND)[name]
    path = tmp_path / "x.txt"
    path.write_bytes(people.content(name))

    trace = open_trace(path)

    assert trace.check() == []
    assert trace.info.reader_id == "chrome-json"
    assert trace.info.summary["events"] == counts["by_ph"]
    assert trace.info.n_records == counts["events"]
    if set(counts["by_ph"]) <= set("XMisf"):
        # Sampled stacks beside the events are no events.
        is_stack = trace.lanes.is_stacks[trace.spans.lane]
        spans = trace.spans.take(np.flatnonzero(~is_stack))
        assert len(spans) == counts["complete"]
        assert len(np.unique(spans.lane)) == counts["lanes_of_complete"]
        total = int((spans.end - spans.start).sum())
        exact = Decimal(counts["total_dur_us"]) * 1000
        # Some writers have more digits than ns.
        is_whole = exact == exact.to_integral_value()
        assert abs(total - exact) <= (0 if is_whole else counts["complete"] / 2)
        by_category: dict[str, int] = {}
        for category in [-1] * len(spans) if spans.category is None else spans.category:
            key = trace.strings[int(category)] if category >= 0 else "None"
            by_category[key] = by_category.get(key, 0) + 1
        assert by_category == counts["cats"]


@people.each(_KIND, lambda _, known: not known["by_ph"])
def test_lists_that_are_no_traces_are_refused_in_words(name, tmp_path):
    path = tmp_path / Path(name).name
    path.write_bytes(people.content(name))

    with pytest.raises(ReadError) as caught:
        open_trace(path)

    assert "trace events" in str(caught.value)
