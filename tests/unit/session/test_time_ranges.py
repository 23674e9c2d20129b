"""Zoom, pan and clamp keep their promises for any numbers."""

from hypothesis import given
from hypothesis import strategies as st

from ggscope.model.units import TimeRange
from ggscope.session import time_ranges

BIG = 1 << 60
ticks = st.integers(-BIG, BIG)


@st.composite
def ranges(draw: st.DrawFn) -> TimeRange:
    start, length = draw(ticks), draw(st.integers(0, BIG))
    return TimeRange(start, start + length)


@given(ranges(), ranges())
def test_clamped_lies_in_bounds_and_is_wide_enough(
    expected: TimeRange, extent: TimeRange
) -> None:
    limits = time_ranges.bounds(extent)

    got = time_ranges.clamped(expected, limits)

    assert limits.start <= got.start
    assert got.end <= limits.end
    assert got.duration >= time_ranges.MIN_TICKS


@given(ranges(), ranges())
def test_clamped_keeps_the_width_where_it_fits(
    requested: TimeRange, extent: TimeRange
) -> None:
    limits = time_ranges.bounds(extent)
    got = time_ranges.clamped(requested, limits)

    expected = max(time_ranges.MIN_TICKS, min(requested.duration, limits.duration))
    assert got.duration == expected


@given(ranges(), st.floats(0.01, 100), st.integers(0, 1000))
def test_zoom_keeps_the_point_under_the_cursor(
    extent: TimeRange, factor: float, permille: int
) -> None:
    visible = time_ranges.fitted(extent)
    limits = TimeRange(-(1 << 62), 1 << 62)
    centre = visible.start + visible.duration * permille // 1001

    got = time_ranges.zoomed(visible, factor, centre, limits)

    # Shares are compared as integers: one tick of rounding on either side.
    before = (centre - visible.start) * got.duration
    after = (centre - got.start) * visible.duration
    assert abs(before - after) <= visible.duration + got.duration


def test_zoom_ends_at_16_ticks() -> None:
    visible = TimeRange(0, 20)

    got = time_ranges.zoomed(visible, 0.1, 5, TimeRange(-100, 100))

    assert got.duration == 16
    assert time_ranges.zoomed(got, 0.5, 5, TimeRange(-100, 100)) == got


def test_fit_of_an_instant_has_it_in_the_middle() -> None:
    got = time_ranges.fitted(TimeRange(1000, 1000))

    assert got.duration == 16
    assert got.contains(1000)


def test_shows_accepts_a_span_longer_than_the_view() -> None:
    visible = TimeRange(100, 200)

    assert time_ranges.shows(visible, TimeRange(0, 1000))
    assert not time_ranges.shows(visible, TimeRange(190, 1000))
    assert time_ranges.shows(visible, TimeRange(150, 160))
    assert not time_ranges.shows(visible, TimeRange(150, 260).shifted(50))
