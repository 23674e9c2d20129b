"""Table and curves of llama-bench's tests against a look at each row."""

from itertools import groupby

import numpy as np
import pytest

import bench_files
from bench_files import Row
from ggscope.analysis.bench.comparison import compare_tests
from ggscope.analysis.bench.curves import (
    KINDS,
    axes,
    curves,
    has_lines,
    kind_of_tests,
    repetitions,
)
from ggscope.analysis.bench.table import BenchTable, bench_table
from ggscope.errors import QueryError
from ggscope.model.bench import RESULTS, BenchRuns, together


def runs_of(tests: list[Row]) -> BenchRuns:
    keys = dict.fromkeys(key for test in tests for key in test)

    def plain(value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    columns = {key: tuple(plain(test.get(key)) for test in tests) for key in keys}
    return BenchRuns(columns, len(tests), "jsonl")


def some(seed: int, n: int = 60) -> list[Row]:
    """Return tests of which every key of interest has several values, some lacking."""
    rng = np.random.default_rng(seed)
    tests = bench_files.rows(seed, n)
    for test in tests:
        is_prompt = rng.random() < 0.5
        size = int(rng.choice([128, 512]))
        test |= {
            "n_prompt": size if is_prompt else 0, "n_gen": 0 if is_prompt else size,
            "n_depth": int(rng.choice([0, 1024, 4096])),
            "n_ubatch": int(rng.choice([256, 512])),
            "n_threads": int(rng.choice([1, 2, 10])),
            "type_k": str(rng.choice(["f16", "q8_0"])),
            "build_number": int(rng.choice([100, 200])),
        }  # fmt: skip
        test["build_commit"] = f"c{test['build_number']}"
        test["samples_ts"] = [round(size * 1e9 / ns, 2) for ns in test["samples_ns"]]
        if rng.random() < 0.2:
            del test["n_threads"]
    return tests


def table_of(seed: int) -> tuple[BenchTable, list[Row]]:
    tests = some(seed)
    return bench_table(runs_of(tests)), tests


ALL = np.arange(60)


@pytest.mark.parametrize("seed", range(4))
def test_speeds_are_those_of_the_times_exactly(seed: int) -> None:
    table, tests = table_of(seed)

    for i, test in enumerate(tests):
        n = test["n_prompt"] + test["n_gen"]
        expected = [n * 1e9 / ns for ns in test["samples_ns"]]
        assert table.samples(i).tolist() == expected
        assert (table.extremes[0][i], table.extremes[1][i]) == (
            min(expected), max(expected),
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("key", ["n_threads", "n_depth", "type_k", "build_commit"])
@pytest.mark.parametrize("is_down", [False, True])
def test_order_is_that_of_sorted_values(seed: int, key: str, is_down: bool) -> None:
    table, tests = table_of(seed)

    order = table.order(key, is_down=is_down).tolist()

    known = [i for i in range(60) if key in tests[i]]
    known.sort(key=lambda i: tests[i][key], reverse=is_down)
    assert order == [*known, *(i for i in range(60) if key not in tests[i])]


def test_order_of_tests_is_by_their_sizes() -> None:
    table, _ = table_of(1)

    names = [table.columns["test"].text(i) for i in table.order("test").tolist()]

    distinct = [name for name, _ in groupby(names)]
    assert distinct[:3] == ["pp128", "pp128 @ d1024", "pp128 @ d4096"]
    assert distinct[-1] == "tg512 @ d4096"
    speeds = table.mean[table.order("t/s", is_down=True)]
    assert (np.diff(speeds) <= 0).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", lambda t: True),
        ("n_depth>=1024", lambda t: t["n_depth"] >= 1024),
        ("n_threads < 10", lambda t: t.get("n_threads", 99) < 10),
        ("n_threads!=1", lambda t: t.get("n_threads") != 1),
        ("type_k=Q8_0", lambda t: t["type_k"] == "q8_0"),
        ("q8 n_ubatch=256", lambda t: t["type_k"] == "q8_0" and t["n_ubatch"] == 256),
        ("tg", lambda t: t["n_gen"] > 0),
        ('"llama 1B"', lambda t: True),
        ('"llama  1B"', lambda t: False),
        ("t/s>40000", lambda t: np.mean(t["samples_ts"]) > 40_000),
    ],
)
def test_filter_lets_through_what_a_look_at_each_row_does(
    seed: int, text: str, passes: object
) -> None:
    tests = some(seed)
    for test in tests:
        test["avg_ts"] = float(np.mean(test["samples_ts"]))
    table = bench_table(runs_of(tests))

    matches = table.matches(text)

    assert matches.tolist() == [passes(test) for test in tests]  # type: ignore[operator]


@pytest.mark.parametrize("text", ["n_nothing=3", "type_k>f16", "t/s>fast"])
def test_filter_that_compares_nothing_is_an_error(text: str) -> None:
    table, _ = table_of(1)

    with pytest.raises(QueryError):
        table.matches(text)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("axis", ["n_depth", "n_ubatch", "n_threads", "n_prompt"])
def test_curves_are_the_groups_of_all_other_keys(seed: int, axis: str) -> None:
    table, tests = table_of(seed)

    bench_curves = curves(table, ALL, axis)

    groups: dict[object, dict[float, list[int]]] = {}
    for i, test in enumerate(tests):
        value = test.get(axis)
        if value is None or (axis == "n_prompt" and value == 0):
            continue
        rest = tuple(
            (k, str(v)) for k, v in sorted(test.items())
            if k != axis and k not in RESULTS
        )  # fmt: skip
        groups.setdefault(rest, {}).setdefault(float(value), []).append(i)
    expected = sorted(
        sorted((x, tuple(rows)) for x, rows in points.items())
        for points in groups.values()
    )
    assert expected == sorted(
        [(point.x, tuple(sorted(point.tests))) for point in curve.points]
        for curve in bench_curves
    )
    assert has_lines(table, ALL, axis) == any(len(points) > 1 for points in expected)
    assert len({curve.label for curve in bench_curves}) == len(bench_curves)
    for curve in bench_curves:
        for point in curve.points:
            pooled = np.concatenate([table.samples(i) for i in point.tests])
            assert point.mean == pytest.approx(pooled.mean())
            assert point.interval is not None
            assert point.interval.has(point.mean)


def test_axes_are_the_keys_of_numbers_with_several_values() -> None:
    table, _ = table_of(2)

    assert axes(table, ALL) == (
        "n_depth", "n_ubatch", "n_threads", "n_prompt", "n_gen", "build_number",
    )  # fmt: skip
    one_depth = np.flatnonzero(table.matches("n_depth=0"))
    assert "n_depth" not in axes(table, one_depth)


def test_curve_over_builds_goes_through_commits() -> None:
    tests = bench_files.rows(1, 1) * 2
    tests[1] = tests[1] | {"build_number": 7000, "build_commit": "abc"}
    table = bench_table(runs_of(tests))

    (curve,) = curves(table, np.arange(2), "build_number")

    assert [point.x for point in curve.points] == [6865, 7000]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("/home/me/a.gguf", "/home/me/b.gguf"), {"a.gguf", "b.gguf"}),
        (("C:\\me\\x\\a.gguf", "C:\\me\\y\\a.gguf"), {"x/a.gguf", "y/a.gguf"}),
        (("a.gguf", "x/a.gguf"), {"a.gguf", "x/a.gguf"}),
    ],
)
def test_curves_of_models_are_named_by_their_files(
    paths: tuple[str, ...], names: set[str]
) -> None:
    tests = [
        row for path in paths for row in bench_files.rows(1, 3, model_filename=path)
    ]
    table = bench_table(runs_of(tests))

    labels = {curve.label for curve in curves(table, np.arange(6), "n_prompt")}

    assert {label.rpartition(" · ")[2] for label in labels} == names


def test_kinds_and_repetitions() -> None:
    table, tests = table_of(3)

    kinds = kind_of_tests(table)
    rows = repetitions(table, ALL[:5])

    for i, test in enumerate(tests):
        assert KINDS[kinds[i]] == ("prompt" if test["n_prompt"] else "generated")
    assert [curve.points[0].tests for curve in rows] == [(i,) for i in range(5)]


def test_standard_deviation_counts_where_there_are_no_repetitions() -> None:
    tests = bench_files.rows(1, 2)
    for test in tests:
        del test["samples_ns"], test["samples_ts"]
    table = bench_table(runs_of(tests))

    point = repetitions(table, np.arange(2))[0].points[0]

    assert point.interval is None
    assert point.samples == ()
    assert point.stddev == tests[0]["stddev_ts"]
    assert np.isnan(table.intervals[0]).all()


def test_two_tests_are_compared_by_every_key() -> None:
    a, b = bench_files.rows(1, 2)
    b = a | {"n_ubatch": 1024, "samples_ns": b["samples_ns"], "flash_attn": 1}
    b |= {"samples_ts": [128e9 / ns for ns in b["samples_ns"]], "n_cpu_moe": 3}
    runs = runs_of([a, b])

    test_comparison = compare_tests(runs, 0, 1)

    assert test_comparison.differs == (
        ("n_ubatch", "512", "1024"),
        ("n_cpu_moe", "", "3"),
    )
    keys = {key for key in a if key not in RESULTS}
    assert set(test_comparison.agrees) == keys - {"n_ubatch"}
    assert test_comparison.change.difference is not None


def test_files_are_put_one_behind_the_other() -> None:
    a, b = bench_files.rows(1, 4), bench_files.rows(2, 6, n_threads=8)
    for test in b:
        test["load_mode"] = "mmap"

    runs = together([("x.jsonl", runs_of(a)), ("x.jsonl", runs_of(b))])

    assert runs.files == ("x.jsonl (1)", "x.jsonl (2)")
    assert len(runs) == 10
    assert [runs.row(i) for i in range(4)] == [runs_of(a).row(i) for i in range(4)]
    assert runs.take(range(4, 10)).columns == runs_of(b).columns
    table = bench_table(runs)
    assert table.matches('file="x.jsonl (2)"').tolist() == [False] * 4 + [True] * 6
    labels = {curve.label for curve in repetitions(table, np.arange(10))}
    assert any("x.jsonl (2)" in label for label in labels)
