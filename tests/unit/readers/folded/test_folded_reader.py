"""Folded stacks: spans as wide as stacks weigh, against a plain twin."""

from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import people
import stack_files
from flame import own_of, problems, weights_of
from ggscope.errors import CorruptError, ReadError
from ggscope.exporters import folded
from ggscope.exporters.events import Events
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace
from oracles.stack_spans import by_weight

_REAL = "speedscope/perf-vertx-stacks-01-collapsed-all.txt"


def read(tmp_path, data: bytes, **options: str):
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    trace = open_trace(path, context=ReadContext(options=options))
    assert trace.check() == []
    assert trace.info.reader_id == "folded"
    return trace


def counted(data: bytes) -> Counter[tuple[str, ...]]:
    counts: Counter[tuple[str, ...]] = Counter()
    for line in data.decode().splitlines():
        stack, _, weight = line.rpartition(" ")
        counts[tuple(stack.split(";"))] += int(weight)
    return counts


@people.each("speedscope", lambda name, _: name == _REAL)
def test_stacks_of_a_real_file_are_all_there(name, tmp_path):
    data = people.content(name)

    trace = read(tmp_path, data)

    assert trace.info.n_records == len(data.decode().splitlines()) == 199
    assert own_of(trace, 0) == counted(data)
    assert trace.clock.unit == "sample"
    assert trace.clock.is_weight
    assert trace.extent.duration == sum(counted(data).values())


@given(seed=st.integers(0, 10**6), n=st.integers(1, 60))
def test_spans_are_those_of_the_plain_twin(seed, n, tmp_path_factory):
    data = stack_files.folded(stack_files.stacks(seed, n))

    trace = read(tmp_path_factory.mktemp("folded"), data)

    assert weights_of(trace, 0) == by_weight(counted(data))
    assert own_of(trace, 0) == counted(data)
    assert (
        trace.spans.samples.tolist() == (trace.spans.end - trace.spans.start).tolist()
    )


def test_heaviest_child_comes_first_and_own_weight_last(tmp_path):
    trace = read(tmp_path, b"a;x 1\na;y 5\na 2\nb 9\n")

    places = {
        trace.span_name(i): (int(trace.spans.start[i]), int(trace.spans.end[i]))
        for i in range(len(trace.spans))
    }
    assert places == {"b": (0, 9), "a": (9, 17), "y": (9, 14), "x": (14, 15)}


def test_decimals_become_thousandths(tmp_path):
    trace = read(tmp_path, b"a;b 1.5\na;c 0.25\n")

    assert trace.clock.unit == "sample/1000"
    assert own_of(trace, 0) == {("a", "b"): 1500, ("a", "c"): 250}
    assert trace.spans.samples is None


@pytest.mark.parametrize(
    ("unit", "ticks", "factor"),
    [("ns", "ns", 1), ("us", "ns", 1000), ("bytes", "byte", 1), ("counts", "count", 1)],
)
def test_unit_is_what_the_option_says(unit, ticks, factor, tmp_path):
    trace = read(tmp_path, b"a;b 3\n", unit=unit)

    assert (trace.clock.unit, trace.extent.duration) == (ticks, 3 * factor)
    assert trace.clock.is_weight
    assert problems(trace) == {}


def test_what_is_left_out_is_reported(tmp_path):
    deep = ";".join(["f"] * 100_000)

    trace = read(tmp_path, b"a;b 3\na;b -3\n# note\n" + deep.encode() + b" 1\nx\n")

    assert problems(trace) == {
        "weights_without_unit": 1, "bad_weight": 1, "deep_stacks": 1, "other_lines": 1,
    }  # fmt: skip
    assert len(trace.spans) == 2048 + 2


def test_annotations_are_categories(tmp_path):
    trace = read(tmp_path, b"main;read_[k];x_[j];y_[i] 3\n")

    values = [trace.strings[int(i)] if i >= 0 else "" for i in trace.spans.category]
    assert values == ["", "kernel", "JIT", "inlined"]


@pytest.mark.parametrize(
    "text",
    [
        b"key; value 5\nother line without a weight\nthird; one\n",
        b"name,offset 12\nb,3 4\n",
        b"12 34\n56 78\n",
        b"hello;world\n",
        b"int main() { return 0; }\n",
    ],
)
def test_other_texts_are_not_taken(text, tmp_path):
    path = tmp_path / "x.folded"
    path.write_bytes(text)

    with pytest.raises(ReadError) as caught:
        open_trace(path)

    assert "no line has a stack" not in str(caught.value)


def test_text_without_stacks_is_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"nothing here\n")

    with pytest.raises(CorruptError, match="no line has a stack"):
        open_trace(path, reader_id="folded")


def test_weights_beyond_all_bounds_are_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"a;b 999999999999999999\n" * 9)

    with pytest.raises(CorruptError, match="2\\^61"):
        open_trace(path)


def exported(trace) -> Counter[tuple[str, ...]]:
    lines = b"".join(folded.chunks(Events(trace))).decode().splitlines()
    counts: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        stack, _, weight = line.rpartition(" ")
        counts[tuple(stack.split(";"))] += Decimal(weight)
    return counts


@people.each("speedscope", lambda name, _: name == _REAL)
def test_stacks_of_a_real_file_are_written_as_they_were_read(name, tmp_path):
    data = people.content(name)

    assert exported(read(tmp_path, data)) == counted(data)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 60))
def test_stacks_are_written_as_they_were_read(seed, n, tmp_path_factory):
    data = stack_files.folded(stack_files.stacks(seed, n))

    trace = read(tmp_path_factory.mktemp("folded"), data)

    assert exported(trace) == counted(data)


def test_decimals_and_blank_frames_are_written_as_they_were_read(tmp_path):
    trace = read(tmp_path, b"a;b 1.5\na; ;c 0.25\na 7\n")

    assert exported(trace) == {
        ("a", "b"): Decimal("1.5"),
        ("a", " ", "c"): Decimal("0.25"),
        ("a",): 7,
    }


def test_names_beyond_the_numbers_of_ops_are_kept(tmp_path):
    data = "".join(f"main;f{i} 1\n" for i in range(32_010)).encode()

    trace = read(tmp_path, data)

    assert problems(trace)["too_many_ops"] == 11
    assert exported(trace) == counted(data)
