"""The figures of ``make bench`` as tables."""

import pytest
from bench_figures import Figure, figures, limit_text, millions
from bench_report import markdown, met, number, plain, table


def test_figures_have_keys_of_their_own_and_the_aims_of_their_size():
    result = figures(["1", "10", "33"], ["query_1m"])
    aims = {figure.key: figure.aim for figure in result}

    assert len(aims) == len(result)
    assert [aims[f"bin{size}.first_s"] for size in ("1", "10", "33")] == [0.3, 0.8, 2.0]
    assert [aims[f"bin{size}.open_s"] for size in ("1", "10", "33")] == [1, 6, 20]
    assert aims["npu.first_s"] == 2.5
    assert aims["columns.query_1m"] is None


def test_size_that_is_no_number_is_refused():
    assert millions("33") == pytest.approx(33.554432)
    assert millions("0.5") == 0.5
    with pytest.raises(ValueError, match="big"):
        millions("big")


@pytest.mark.parametrize(
    ("key", "rates", "text"),
    [
        ("bin10.first_s", {"field_m_s": 100.0}, "0.100 s: one field of every record"),
        ("bin10.open_s", {"page_cache_gb_s": 10}, "0.256 s: reading the file once"),
        ("ggmlviz.first_s", {"viz_walk_m_s": 200}, "0.010 s: walking its events in C"),
        ("npu.first_s", {"msgspec_mb_s": 342}, "1.000 s: msgspec's typed decoding"),
        ("bin1.fps", {"blit_fps": 656.4}, "656 /s: one picture copied"),
        ("bin10.first_s", {}, ""),
        ("bin10.peak_mb", {"field_m_s": 100.0}, ""),
    ],
)
def test_limit_is_reported_in_the_unit_of_the_figure(key, rates, text):
    assert limit_text(key, rates) == text


@pytest.mark.parametrize(
    ("aim", "more_is_better", "value", "text"),
    [
        (0.5, False, 0.5, "yes"),
        (0.5, False, 0.75, "no, 1.5x"),
        (60, True, 61, "yes"),
        (60, True, 40, "no, 1.5x"),
        (60, True, 0, "no"),
        (None, False, 7, ""),
    ],
)
def test_met_says_how_far_off_a_figure_is(aim, more_is_better, value, text):
    figure = Figure(
        key="a.b", label="", unit="s", aim=aim, more_is_better=more_is_better
    )

    assert met(figure, value) == text


def test_number_has_three_digits():
    assert [number(x) for x in (0.01234, 9.876, 1234.5)] == ["0.0123", "9.88", "1,234"]


def test_table_leaves_out_what_was_not_measured_and_keeps_the_order():
    rows = table(figures(["1"], []), {"npu.first_s": 3.0, "bin1.first_s": 0.25}, {})

    assert rows[1:] == [
        ("1,000,000 records: first picture", "0.3 s", "0.25 s", "yes", ""),
        ("NPU JSON, 1.5 M events: first picture", "2.5 s", "3 s", "no, 1.2x", ""),
    ]


def test_plain_table_is_aligned_and_markdown_has_a_rule():
    rows = [("what", "aim", "measured"), ("a", "0.3 s", "12 s")]

    assert plain(rows) == "what    aim  measured\na     0.3 s      12 s"
    assert markdown(rows).splitlines()[1] == "|---|---|---|"
