"""Pictures of llama-bench's tests: where points lie, what is found under the mouse."""

from pathlib import Path

import numpy as np
import pytest

import bench_files
import ggscope
from ggscope.analysis.bench.table import bench_table
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.readers.registry import open_trace
from ggscope.render.bench import (
    CHANGES,
    MAX_CURVES,
    REPETITIONS,
    BenchScene,
    bench_chart,
    charts_of,
    compose_bench,
    place_at,
    places,
)
from ggscope.render.figures import FIGURES
from ggscope.render.theme import theme
from ggscope.session_loading import open_parts
from scenes import texts_of

DEPTHS = (0, 1024, 4096)


def write(path: Path, **more: object) -> Path:
    tests = [
        test | {"n_depth": depth, "n_prompt": 0, "n_gen": 128}
        for depth in DEPTHS
        for test in bench_files.rows(depth + 1, 2, **more)
    ]
    for test in tests:
        test["samples_ts"] = [128e9 / ns for ns in test["samples_ns"]]
    for i, test in enumerate(tests):
        test["n_ubatch"] = 256 << (i % 2)
    path.write_bytes(bench_files.written(tests, "jsonl"))
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return open_trace(write(tmp_path / "a.jsonl"))


@pytest.fixture
def both(tmp_path: Path) -> Trace:
    paths = [write(tmp_path / "a.jsonl"), write(tmp_path / "b.jsonl", n_threads=8)]
    return open_parts(survey(paths)).trace


def scene_of(trace: Trace, chart: str, theme_name: str = "dark") -> BenchScene:
    assert trace.bench is not None
    table = bench_table(trace.bench)
    result = bench_chart(table, np.arange(len(table)), chart, "all")
    return BenchScene(900.0, 400.0, theme(theme_name), result)


@pytest.mark.parametrize("chart", ["n_depth", "n_ubatch", REPETITIONS])
def test_each_point_is_found_where_it_is_drawn(trace: Trace, chart: str) -> None:
    scene = scene_of(trace, chart)

    x, y, which = places(scene)

    assert len(which) == 6
    for px, py, place in zip(x, y, which, strict=True):
        at = place_at(scene, float(px), float(py))
        assert at is not None
        away = np.hypot(x - px, y - py)
        near = [which[i] for i in np.flatnonzero(away <= 1e-6)]
        assert at in near
        assert place in near
    assert place_at(scene, 2.0, -5.0) is None


def test_charts_are_those_with_lines_then_rows(trace: Trace, both: Trace) -> None:
    for one, expected in ((trace, ()), (both, (CHANGES,))):
        assert one.bench is not None
        table = bench_table(one.bench)
        charts = charts_of(table, np.arange(len(table)))
        assert charts[: len(expected)] == expected
        assert charts[-1] == REPETITIONS
        assert {"n_depth", "n_ubatch"} <= set(charts)


def test_two_files_are_drawn_test_by_test(both: Trace) -> None:
    scene = scene_of(both, CHANGES)

    texts = texts_of(compose_bench(scene))

    assert scene.n_rows == 6
    assert "change from A to B (95 % intervals)" in texts
    assert any("tg128 @ d4096" in text for text in texts)


def test_figure_of_two_files_names_both(both: Trace, tmp_path: Path) -> None:
    caption = ggscope.figure(both, "bench").save(tmp_path / "x.svg")

    assert "a.jsonl → b.jsonl" in caption
    assert "a.jsonl → b.jsonl" in (tmp_path / "x.svg").read_text("utf-8")


def test_many_lines_are_cut_and_counted(tmp_path: Path) -> None:
    tests = [
        test | {"n_threads": i, "n_depth": depth}
        for i in range(1, MAX_CURVES + 6)
        for depth in (0, 512)
        for test in bench_files.rows(1, 1)
    ]
    path = tmp_path / "x.jsonl"
    path.write_bytes(bench_files.written(tests, "jsonl"))
    scene = scene_of(open_trace(path), "n_depth")

    assert len(scene.curves) == MAX_CURVES
    assert scene.bench.n_curves == MAX_CURVES + 5
    figure = ggscope.figure(open_trace(path), "bench", chart="n_depth")
    caption = figure.save(tmp_path / "x.svg")
    assert f"the first {MAX_CURVES} are drawn" in caption


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
@pytest.mark.parametrize("chart", ["", "n_depth", "repetitions"])
def test_figure_is_written(
    trace: Trace, tmp_path: Path, suffix: str, chart: str
) -> None:
    target = tmp_path / f"x.{suffix}"

    caption = ggscope.figure(trace, "bench", chart=chart).save(target)

    assert target.stat().st_size > 2_000
    assert "llama-bench" in caption


def test_figure_refuses_what_there_is_not(trace: Trace) -> None:
    spec = FIGURES["bench"]
    for options in ({"kind": "x"}, {"speeds": "fast"}):
        with pytest.raises(ExportError):
            spec.figure(trace, **options)
    unknown = spec.figure(trace, chart="n_nothing")
    with pytest.raises(ExportError):
        unknown.draw(unknown.style)
    empty = spec.figure(trace, filter="n_depth>9999999")
    with pytest.raises(NothingToDrawError):
        empty.draw(empty.style)
