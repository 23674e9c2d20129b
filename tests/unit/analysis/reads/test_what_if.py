"""The what-if cache on whole traces, against a simulation of every access."""

from collections import OrderedDict

import numpy as np
import pytest

from ggscope.analysis.reads.what_if import best_possible, cache_result, what_if
from ggscope.descriptions.reads import cache_result_text, rests_on
from ggscope.errors import Cancelled
from ggscope.model.units import TimeRange
from reads_builder import Op, Read, TensorRow, moe_reads, reads_trace
from watchers import CancelAfter


def simulated(trace, capacity: int) -> int:
    """Return the bytes that an LRU cache of slices and tensors reads from disk."""
    cache: OrderedDict[tuple[int, int], int] = OrderedDict()
    read = 0
    for span in np.argsort(trace.spans.start, kind="stable").tolist():
        if trace.op_name(int(trace.spans.op[span])) == "GET_ROWS":
            continue
        what = trace.accesses.of_span(span)
        for i in range(len(what)):
            key = (int(what.tensor[i]), int(what.expert[i]))
            if what.space[i] != 0:
                continue
            if key in cache:
                cache.move_to_end(key)
                continue
            read += int(what.size[i])
            cache[key] = int(what.size[i])
            while sum(cache.values()) > capacity:
                cache.popitem(last=False)
    return read


@pytest.mark.parametrize("capacity", [0, 900, 5_000, 12_345, 20_000, 40_000, 10**6])
def test_what_if_equals_a_simulated_cache(capacity):
    trace = moe_reads(layers=4, tokens=9)

    result = what_if(trace)

    assert result.curve.at(capacity)[0] == simulated(trace, capacity)


def test_working_set_is_what_is_read_at_least_once():
    trace = moe_reads()

    result = what_if(trace)

    # Attention, all experts and the output; neither embeddings nor norms.
    assert result.working_set == 3 * 3000 + 3 * 2 * 4000 + 5000
    assert result.curve.at(result.working_set)[0] == result.working_set
    assert result.sequence.n_row_reads == 6


def test_what_if_counts_row_look_ups_when_asked():
    result = what_if(moe_reads(), with_row_reads=True)

    assert result.working_set == 3 * 3000 + 3 * 2 * 4000 + 5000 + 8000


def test_what_if_of_a_range_begins_with_an_empty_cache():
    trace = moe_reads()

    result = what_if(trace, TimeRange(12 * 11, 12 * 22))  # the second of six tokens

    assert result.curve.n_reads == result.curve.cold_misses


def test_answer_agrees_with_its_parts():
    result = what_if(moe_reads(tokens=12))

    with_cache = cache_result(result, 20_000, k=2)

    assert with_cache.best <= with_cache.bytes_read <= result.curve.bytes_asked
    assert with_cache.pins is not None
    assert with_cache.pins.n_candidates == 24
    assert with_cache.pins.share >= 0.9
    assert with_cache.ahead is not None
    best = best_possible(result, 8)
    assert best.bytes_read[-1] == result.working_set
    assert best.bytes_read[0] == result.curve.bytes_asked


def test_answer_words_say_the_figures():
    result = what_if(moe_reads())
    with_cache = cache_result(result, 20_000, k=3)

    text = " ".join(cache_result_text(result, with_cache))

    assert "With 19.5 KiB of page cache this run reads" in text
    assert "Belady" in text
    assert "Reading 3 tensors ahead" in text
    assert "expert slices" in text
    assert "6 row look-ups" in " ".join(rests_on(result))


def test_answer_words_without_reads_say_so():
    result = what_if(reads_trace((TensorRow("a"),), [Op(0, (Read(0, 10),))]))
    with_cache = cache_result(result, 1000)

    assert cache_result_text(result, with_cache) == (
        "This trace has no reads of a model file.",
    )
    assert "Not counted: 1 accesses to weights" in " ".join(rests_on(result))


def test_answer_words_without_experts_say_so():
    tensors = (TensorRow("a", 0, 10), TensorRow("b", 10, 10))
    ops = [Op(i, (Read(i % 2, 10),)) for i in range(6)]
    result = what_if(reads_trace(tensors, ops))

    text = " ".join(cache_result_text(result, cache_result(result, 10)))

    assert "names no experts" in text


def test_what_if_stops_when_cancelled():
    with pytest.raises(Cancelled):
        what_if(moe_reads(), watcher=CancelAfter(1))
