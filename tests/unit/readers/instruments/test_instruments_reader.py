"""Call trees of Instruments: own weights of indented rows."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import people
import stack_files
from flame import own_of, problems, weights_of
from ggscope.errors import CorruptError
from ggscope.readers.registry import open_trace
from oracles.stack_spans import by_weight

_HEAD = b"Weight\tSelf Weight\tSymbol Names\n"


def read(tmp_path, data: bytes):
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "instruments-deep-copy"
    return trace


@people.each("instruments")
def test_real_tree_has_its_rows(name, tmp_path):
    data = people.content(name)

    trace = read(tmp_path, data)

    assert trace.info.n_records == len(data.decode().splitlines()) - 1 == 94
    # The first row states 4.93 s, rounded to 10 ms.
    assert abs(trace.extent.duration - 4.93e9) < 5e6
    assert (trace.clock.unit, trace.clock.is_weight) == ("ns", True)
    assert trace.span_name(0) == "start"


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40))
def test_spans_are_those_of_the_plain_twin(seed, n, tmp_path_factory):
    own = Counter(stack_files.stacks(seed, n))

    trace = read(tmp_path_factory.mktemp("tree"), stack_files.instruments(seed, n))

    whole = {stack: weight * 10**6 for stack, weight in own.items()}
    assert own_of(trace, 0) == whole
    assert weights_of(trace, 0) == by_weight(whole)


def test_rows_of_another_unit_are_left_out_and_reported(tmp_path):
    rows = b"3 ms 1%\t3 ms\t  a\n1 GB\t1 GB\t  b\nx\n9 ms\t1.5 s\t   c\n"

    trace = read(tmp_path, _HEAD + rows)

    assert own_of(trace, 0) == {("a",): 3_000_000, ("a", "c"): 1_500_000_000}
    assert problems(trace) == {"other_lines": 2}


def test_hostile_depth_is_cut(tmp_path):
    rows = b"".join(b"1 ms\t1 ms\t%sf\n" % (b" " * i) for i in range(3000))

    trace = read(tmp_path, _HEAD + rows)

    assert problems(trace) == {"deep_stacks": 3000 - 2048}


def test_tree_without_rows_is_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(_HEAD + b"nothing\n")

    with pytest.raises(CorruptError, match="no row"):
        open_trace(path)
