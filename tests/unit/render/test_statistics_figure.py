"""Bars of statistics: as long as what they measure, and open about what they lack."""

from dataclasses import replace

import numpy as np
import pytest

from builders import nested_trace, spans_trace
from ggscope.analysis.statistics.columns import measures
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.tables import Quality, SpanFlag, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.discovery import survey
from ggscope.render.batch import RectBatch
from ggscope.render.export import Figure, ensure_gui_application
from ggscope.render.figure_style import PRESETS, Length
from ggscope.render.statistics import StatisticsOptions, statistics_figure
from ggscope.session_loading import open_bundle
from scenes import texts_of
from statements import new_statement, new_statements
from support import ROOT
from unrecorded_ops_traces import joined
from wait_traces import with_waits

DOUBLE = PRESETS["double"]


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    ensure_gui_application()


@pytest.fixture(scope="module")
def trace() -> Trace:
    return open_bundle(survey([ROOT / "resources" / "samples" / "tinyllama-256.bin"]))


def caption(figure: Figure, style=DOUBLE) -> str:
    return figure.draw(style).caption


def refusal(figure: Figure) -> str:
    with pytest.raises(ExportError) as caught:
        figure.draw(DOUBLE)
    return str(caught.value)


def lengths(figure: Figure) -> list[float]:
    picture = figure.draw(DOUBLE).picture
    (bars,) = [b for b in picture.batches if isinstance(b, RectBatch) and len(b.x0)]
    return [float(x1 - x0) for x0, x1 in zip(bars.x0, bars.x1, strict=True)]


def test_bars_are_as_long_as_the_times_of_the_file(trace: Trace) -> None:
    spans = trace.spans
    used = (spans.op >= 0) & (quality_of(spans.flags) <= Quality.DERIVED)
    layers = np.unique(spans.layer[used])
    of = [(spans.end - spans.start)[used & (spans.layer == k)].sum() for k in layers]
    sums = sorted(map(int, of), reverse=True)

    array = np.array(lengths(statistics_figure(trace, StatisticsOptions(by="layer"))))

    assert array / array[0] == pytest.approx(np.array(sums) / sums[0], abs=1e-4)


@pytest.mark.parametrize("measure", sorted(set(measures()) - {"latency", "idle"}))
def test_bars_of_each_measure_begin_with_the_longest(
    trace: Trace, measure: str
) -> None:
    if measure == "wait":
        trace = with_waits(trace, trace.spans.end - trace.spans.start)

    result = lengths(statistics_figure(trace, StatisticsOptions(measure=measure)))

    assert result == sorted(result, reverse=True)
    assert len(result) == 9
    assert result[0] > 50


def test_bars_of_waits_of_a_trace_without_any_are_refused(trace: Trace) -> None:
    with pytest.raises(NothingToDrawError):
        lengths(statistics_figure(trace, StatisticsOptions(measure="wait")))


def test_only_the_range_and_the_spans_asked_for_count(trace: Trace) -> None:
    mask = np.zeros(len(trace.spans), np.bool_)
    (ids,) = np.nonzero(trace.spans.op == trace.spans.op.max())
    mask[ids] = True
    chosen = statistics_figure(trace, StatisticsOptions(ids=tuple(ids.tolist())))
    filtered = statistics_figure(trace, StatisticsOptions(mask=mask, where="op=GLU"))
    part = statistics_figure(trace, StatisticsOptions(visible=TimeRange(0, 1_000_000)))

    assert [len(lengths(f)) for f in (chosen, filtered, part)] == [1, 1, 4]
    assert "that touch 0.000 ms – 1.000 ms (1.000 ms)" in caption(part)
    assert "that pass op=GLU" in caption(filtered)
    assert filtered.recipe is not None
    assert filtered.recipe.flags == ("--where=op=GLU",)


def test_caption_says_what_was_counted_and_what_was_not(trace: Trace) -> None:
    time, number = (
        statistics_figure(trace),
        statistics_figure(trace, StatisticsOptions(measure="count")),
    )
    every = statistics_figure(trace, StatisticsOptions(include_estimated=True))

    assert new_statement(caption(time), caption(every))
    assert new_statements(caption(time), caption(number))
    assert new_statement(
        caption(
            statistics_figure(trace, StatisticsOptions(visible=TimeRange(0, 1000)))
        ),
        caption(time),
    )
    short = replace(DOUBLE, height=Length(25, "mm"))
    assert new_statement(caption(time, short), caption(time))


def test_caption_names_groups_and_ops_that_no_bar_has(trace: Trace) -> None:
    unfinished = [0, int(SpanFlag.UNFINISHED)]
    half = spans_trace([0, 10], [5, 20], op=[1, 2], flags=unfinished)
    whole = spans_trace([0, 10], [5, 20], op=[1, 2])

    assert new_statements(
        caption(statistics_figure(half)), caption(statistics_figure(whole))
    )
    assert new_statements(
        caption(statistics_figure(joined())), caption(statistics_figure(whole))
    )


def test_command_of_many_spans_says_what_it_leaves_out(trace: Trace) -> None:
    def lacks(n: int) -> str:
        return " ".join(
            statistics_figure(trace, StatisticsOptions(ids=tuple(range(n))))
            .command("x.png")
            .lacks
        )

    assert new_statement(lacks(1001), lacks(3))


def test_texts_show_shares_bytes_and_numbers(trace: Trace) -> None:
    total = texts_of(statistics_figure(trace).draw(DOUBLE).picture)
    counted = texts_of(
        statistics_figure(trace, StatisticsOptions(measure="count"))
        .draw(DOUBLE)
        .picture
    )

    assert "265.8 ms · 69.3 %" in total
    assert "1,065" in counted


def test_what_cannot_be_drawn_is_refused_with_the_reason(trace: Trace) -> None:
    with pytest.raises(ExportError, match="op, family"):
        statistics_figure(trace, StatisticsOptions(by="taste"))
    with pytest.raises(ExportError, match="total, self"):
        statistics_figure(trace, StatisticsOptions(measure="taste"))
    nothing = refusal(
        statistics_figure(trace, StatisticsOptions(visible=TimeRange(-9, -8)))
    )
    assert new_statement(nothing, refusal(statistics_figure(spans_trace([], []))))
    assert new_statement(refusal(statistics_figure(spans_trace([], []))), nothing)
    guessed = statistics_figure(
        spans_trace([0], [5], op=[1], flags=[int(SpanFlag.ESTIMATED)])
    )
    assert new_statements(refusal(guessed), nothing)
    silent = statistics_figure(nested_trace(), StatisticsOptions(measure="bytes"))
    assert new_statement(refusal(silent), nothing)
    with pytest.raises(ExportError, match="known bytes"):
        silent.draw(DOUBLE)
