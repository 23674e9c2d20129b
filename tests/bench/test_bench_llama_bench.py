"""Tests of llama-bench by the hundred thousand: sorted and filtered between keys."""

import numpy as np
import pytest

from ggscope.analysis.bench.table import BenchTable, bench_table
from ggscope.model.bench import BenchRuns

N = 100_000


@pytest.fixture(scope="module")
def table() -> BenchTable:
    rng = np.random.default_rng(1)
    columns = {
        "build_commit": tuple(f"c{i}" for i in rng.integers(0, 500, N)),
        "model_type": tuple(f"model {i}" for i in rng.integers(0, 40, N)),
        "n_ubatch": tuple(rng.integers(1, 9, N).tolist()),
        "n_threads": tuple(rng.integers(1, 129, N).tolist()),
        "n_prompt": tuple(rng.integers(0, 2048, N).tolist()),
        "n_gen": (0,) * N,
        "avg_ts": tuple(rng.random(N).tolist()),
        "samples_ts": tuple(map(tuple, rng.random((N, 3)).tolist())),
    }
    return bench_table(BenchRuns(columns, N, "jsonl"))


@pytest.mark.parametrize("key", ["t/s", "n_threads", "build_commit"])
def test_bench_sort_100k_tests(benchmark, table: BenchTable, key: str) -> None:
    result = benchmark(table.order, key, is_down=True)

    assert len(result) == N
    assert benchmark.stats.stats.median < 0.1


@pytest.mark.parametrize("text", ["model", "c17 n_threads>=64", "t/s<0.5"])
def test_bench_filter_100k_tests(benchmark, table: BenchTable, text: str) -> None:
    result = benchmark(table.matches, text)

    assert 0 < np.count_nonzero(result) <= N
    assert benchmark.stats.stats.median < 0.1
