"""Which op computed what an op of a recorded graph reads, against plain recursion."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders import make_info
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Accesses
from ggscope.readers.common.run_definitions import NODE, UNKNOWN, Definitions

COMPUTED, FUSED, WEIGHT, VIEW = 1, 2, 4, 16
NODES = st.lists(
    st.tuples(
        st.sampled_from((COMPUTED, COMPUTED | VIEW, FUSED, VIEW, 0)),
        st.lists(st.integers(0, 9), max_size=3),
    ),
    min_size=1,
    max_size=8,
)
N_LEAVES = 2


def tensors_of(nodes: list[tuple[int, list[int]]]) -> np.ndarray:
    """Return a build of these nodes (flags, sources) and two leaves, one a weight.

    A source is an earlier node, by its distance, or a leaf where there is none.
    """
    tensors = np.zeros(len(nodes) + N_LEAVES, NODE)
    tensors["layer"], tensors["sources"] = -1, UNKNOWN
    for i, (flags, sources) in enumerate(nodes):
        tensors["flags"][i] = flags
        for slot, back in enumerate(sources):
            source = i - 1 - back
            tensors["sources"][i, slot] = source if source >= 0 else len(nodes)
    tensors["flags"][len(nodes)] = WEIGHT
    return tensors


def accesses_of(*builds: np.ndarray) -> Accesses:
    builder = TraceBuilder(grows=True)
    definitions = Definitions(builder)
    for tensors in builds:
        n = len(tensors)
        names = [f"t{i}" for i in range(n)]
        definitions.add_build(n - N_LEAVES, tensors, names)
    definitions.put()
    trace = builder.snapshot(make_info())
    assert not trace.check()
    return trace.accesses


def writer_slow(tensors: np.ndarray, place: int) -> int:
    """Return the node in whose span a tensor is computed; -1 none."""
    flags, n_nodes = int(tensors["flags"][place]), len(tensors) - N_LEAVES
    if place >= n_nodes:
        return -1
    if flags & COMPUTED:
        return place
    if flags & FUSED:
        return writer_slow(tensors, place - 1) if place else -1
    source = int(tensors["sources"][place, 0])
    if flags & VIEW and source < place:
        return writer_slow(tensors, source)
    return -1


def expected(tensors: np.ndarray, first: int) -> list[int]:
    """Return the pattern that wrote each access, of patterns that begin with `first`.

    The weight of a node that runs within another one is read by that one.
    """
    expected = []
    n_nodes = len(tensors) - N_LEAVES
    for i in range(n_nodes):
        reads = [int(s) for s in tensors["sources"][i] if s != UNKNOWN]
        if i + 1 < n_nodes and tensors["flags"][i + 1] & FUSED:
            reads += [
                int(s)
                for s in tensors["sources"][i + 1]
                if s != UNKNOWN and tensors["flags"][s] & WEIGHT
            ]
        writers = [writer_slow(tensors, s) for s in reads]
        expected += [first + w if w >= 0 else -1 for w in writers]
    return expected


@given(NODES)
def test_writers_are_those_of_recursion(nodes) -> None:
    tensors = tensors_of(nodes)

    writer = accesses_of(tensors).writer

    assert writer is not None
    assert writer.dtype == np.int32
    assert writer.tolist() == expected(tensors, 0)


@given(NODES, NODES)
def test_writers_of_each_build_are_its_own_patterns(one, other) -> None:
    first, second = tensors_of(one), tensors_of(other)

    writer = accesses_of(first, second).writer

    assert writer is not None
    assert writer.tolist() == expected(first, 0) + expected(second, len(one))


def test_trace_of_patterns_without_writers_has_no_such_column() -> None:
    builder = TraceBuilder(grows=True)
    accesses = accesses_of(tensors_of([(COMPUTED, [0])]))
    builder.add_patterns(accesses.patterns, np.diff(accesses.first))

    assert builder.snapshot(make_info()).accesses.writer is None
