"""Buckets of ids: ordered by value, stable within, the same with and without C."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.order import table_order as module
from ggscope.analysis.order.table_order import (
    OrderEncoder,
    linear_coder,
    partition,
    proportional_coder,
)
from ggscope.errors import Cancelled
from watchers import CancelAfter

MISSING = np.iinfo(np.int64).max


@pytest.fixture(params=["compiled", "numpy"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        is_sorted = request.param == "numpy"
        patch.setattr(module, "_MIN_COMPILED", 1 << 62 if is_sorted else 0)
        yield request.param


def check(
    values: np.ndarray, coder: OrderEncoder, ids: np.ndarray | None = None
) -> None:
    n = len(values) if ids is None else len(ids)
    placed, edges = partition(n, ids, lambda rows: values[rows], coder)

    listed = np.arange(n) if ids is None else ids
    assert sorted(placed.tolist()) == sorted(listed.tolist())
    assert (edges[0], edges[-1]) == (0, n)
    assert (np.diff(edges) > 0).all()
    position = np.zeros(len(values), np.int64)
    position[listed] = np.arange(n)
    highest = None
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        bucket = placed[begin:end]
        inside = values[bucket]
        assert highest is None or int(inside.min()) > highest
        highest = int(inside.max())
        # Ids keep their order where the value decides nothing.
        for value in np.unique(inside):
            assert (np.diff(position[bucket[inside == value]]) > 0).all()
        if end - begin > module.MAX_UNSORTED:
            assert inside.min() == inside.max()


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("high", [1, 9, 70_000, 1 << 40, (1 << 62) - 1])
def test_buckets_ascend_for_any_spread(
    kind: str, high: int, is_descending: bool
) -> None:
    rng = np.random.default_rng(high % 1000)
    values = (rng.random(5_000) ** 4 * high).astype(np.int64)
    values = np.where(rng.random(5_000) < 0.1, MISSING, values)
    if is_descending:
        values = np.where(values == MISSING, MISSING, -values)
        linear = linear_coder(-high, 0)
    else:
        linear = linear_coder(0, high)

    check(values, proportional_coder(is_descending))
    check(values, linear)
    check(values, linear, np.flatnonzero(rng.random(5_000) < 0.3).astype(np.int32))


@given(st.lists(st.integers(0, (1 << 62)), min_size=1, max_size=60))
@settings(max_examples=100, deadline=None)
def test_codes_ascend_with_the_values(numbers: list[int]) -> None:
    values = np.array(sorted(numbers), np.int64)

    for codes in (
        proportional_coder().encode(values),
        proportional_coder(is_descending=True).encode(-values)[::-1],
        linear_coder(0, max(numbers)).encode(values),
    ):
        assert (np.diff(codes.astype(np.int64)) >= 0).all()
        assert codes.max() < module.N_CODES - 1


def test_crowded_buckets_are_split_until_small(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_UNSORTED", 16)
    rng = np.random.default_rng(1)
    crowd = (1 << 40) + rng.integers(0, 1 << 18, 3_000)  # within one code
    values = np.concatenate([crowd, [0, 1 << 60], np.full(400, (1 << 40) + 5)])

    check(rng.permutation(values), proportional_coder())


def test_no_ids_are_no_buckets(kind: str) -> None:
    placed, edges = partition(
        0, None, lambda rows: np.zeros(0, np.int64), linear_coder(0, 5)
    )

    assert (len(placed), edges.tolist()) == (0, [0])


def test_compiled_and_numpy_place_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).integers(0, 300, 20_000)
    monkeypatch.setattr(module, "_STEP_ROWS", 1_000)
    monkeypatch.setattr(module, "_MIN_COMPILED", 0)

    def made() -> tuple[list[int], list[int]]:
        ids, edges = partition(20_000, None, values.__getitem__, linear_coder(0, 300))
        return ids.tolist(), edges.tolist()

    compiled = made()
    monkeypatch.setattr(module, "_MIN_COMPILED", 1 << 62)

    assert compiled == made()


@pytest.mark.parametrize("k", range(8))
def test_cancel_is_received_at_any_point(
    kind: str, monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    monkeypatch.setattr(module, "_PIECE_ROWS", 500)
    monkeypatch.setattr(module, "_STEP_ROWS", 500)
    values = np.arange(2_000)[::-1].copy()
    coder = linear_coder(0, 2_000)

    def work(watcher: CancelAfter | None) -> list[int]:
        return partition(2_000, None, values.__getitem__, coder, watcher)[0].tolist()

    try:
        result = work(CancelAfter(k))
    except Cancelled:
        result = work(None)

    assert result == list(range(1_999, -1, -1))
