"""Time ranges, and numbers as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggscope.model.units import (
    UNITS,
    Clock,
    TimeForm,
    TimeRange,
    format_absolute,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_exact_time,
    format_number,
    format_offset,
    format_rate,
    format_share,
    listed_form,
    parse_duration,
    parse_time,
    shown_form,
)


@pytest.mark.parametrize(
    ("ticks", "text"),
    [
        (0, "0 ns"), (1, "1 ns"), (999, "999 ns"), (0.5, "0.5 ns"),
        (1_000, "1.000 µs"), (12_340, "12.34 µs"), (999_949, "999.9 µs"),
        (999_950, "1.000 ms"), (5_678_000, "5.678 ms"), (123_456_789, "123.5 ms"),
        (1_234_000_000, "1.234 s"), (59_999_000_000, "60.00 s"),
        (123_400_000_000, "2:03.4"), (3_723_400_000_000, "1:02:03.4"),
        (-12_340, "-12.34 µs"), (-123_400_000_000, "-2:03.4"),
    ],
)  # fmt: skip
def test_duration_has_four_significant_digits(ticks: float, text: str) -> None:
    assert format_duration(ticks) == text


def test_cycles_are_counted_not_scaled() -> None:
    assert format_duration(12_345, "cycle") == "12,345 cyc"
    assert format_exact(12_345, "cycle") == "12,345 cycles"
    assert format_exact(1, "cycle") == "1 cycle"


def test_exact_form_shows_every_nanosecond() -> None:
    plain = format_exact(1_234_567_890).replace("\u202f", " ")

    assert plain == "1.234 567 890 s"
    assert format_exact(-1).replace("\u202f", " ") == "-0.000 000 001 s"


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (26_004_480, "24.8 MiB"),
        (654_311_424, "624.0 MiB"), (1 << 30, "1.0 GiB"), (1 << 70, "1024.0 EiB"),
        (1_048_575, "1.0 MiB"),
    ],
)  # fmt: skip
def test_bytes_use_binary_units(n: int, text: str) -> None:
    assert format_bytes(n) == text


def test_small_forms() -> None:
    assert format_exact_bytes(26_004_480) == "26,004,480 bytes"
    assert format_exact_bytes(1) == "1 byte"
    assert format_offset(0x0C4A8800) == "0x0C4A_8800"
    assert format_offset(0) == "0x0000"
    assert format_offset(-1) == "N/A"
    assert format_count(1_048_576) == "1,048,576"
    assert format_rate(1 << 30) == "1.0 GiB/s"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.0 %"), (0.0001, "<0.1 %"), (0.972, "97.2 %"), (1.0, "100.0 %"),
        (0.99999, ">99.9 %"), (float("nan"), "N/A"),
    ],
)  # fmt: skip
def test_share_never_rounds_to_nothing_or_all(share: float, text: str) -> None:
    assert format_share(share) == text


@pytest.mark.parametrize(
    ("text", "ticks"),
    [
        ("100", 100), ("100ns", 100), ("3us", 3_000), ("3 µs", 3_000),
        ("12.5ms", 12_500_000), ("2s", 2_000_000_000), ("1_000", 1_000),
        ("9007199254740993ns", 9_007_199_254_740_993),
    ],
)  # fmt: skip
def test_durations_are_parsed_exactly(text: str, ticks: int) -> None:
    assert parse_duration(text) == ticks


def test_durations_of_cycles_refuse_seconds() -> None:
    assert parse_duration("50cyc", "cycle") == 50
    with pytest.raises(ValueError, match="cycles"):
        parse_duration("3ms", "cycle")
    with pytest.raises(ValueError, match="abc"):
        parse_duration("abc")


MS, S = 10**6, 10**9


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (809_100, 1_150_100, "0.8091 ms – 1.1501 ms (341.0 µs)"),
        (3_370_009, 3_370_089, "3.370009 ms – 3.370089 ms (80 ns)"),
        (661_436_898_410, 661_584_898_410, "11:01.4368 – 11:01.5848 (148.0 ms)"),
        (0, 414_244_000, "0.0 ms – 414.2 ms (414.2 ms)"),
        (-900_000, 100_000, "-900 µs – 100 µs (1.000 ms)"),
    ],
)
def test_both_ends_of_a_range_share_unit_and_digits(
    start: int, end: int, text: str
) -> None:
    shown = TimeRange(start, end)

    assert shown_form(shown, Clock()).range_text(shown) == text


def test_times_of_the_files_clock_count_from_its_zero() -> None:
    clock, shown = Clock(origin=3600 * S), TimeRange(0, 2 * S)

    # No time of day: most clocks count from the start of the machine.
    assert shown_form(shown, clock, absolute=True).text(S) == "3,601.000 s"
    assert listed_form(shown, clock, absolute=True).text(1) == "3,600.000000 s"
    assert format_absolute(S, clock).replace("\u202f", " ") == "3,601.000 000 000 s"
    assert parse_time("3,601 s", clock, absolute=True) == S


NOON = 1_700_049_600 * S
"""2023-11-15 12:00:00 UTC"""


def test_time_of_day_is_shown_where_it_is_known() -> None:
    clock = Clock(origin=48_120 * S, epoch=NOON - 48_120 * S)
    shown = TimeRange(0, 2 * S)

    form = shown_form(shown, clock, absolute=True)

    assert form.text(1_500 * MS) == "12:00:01.500"
    assert form.range_text(shown) == "12:00:00.000 – 12:00:02.000 UTC (2.000 s)"
    assert shown_form(shown, clock).text(1_500 * MS) == "1.500 s"
    exact = format_absolute(-1, clock).replace("\u202f", " ")
    assert exact == "2023-11-15 11:59:59.999 999 999 UTC"


def test_date_is_shown_where_a_trace_is_longer_than_a_day() -> None:
    clock, shown = Clock(epoch=NOON), TimeRange(0, 25 * 3600 * S)

    form = shown_form(shown, clock, absolute=True)

    assert form.text(0) == "11-15 12:00:00"
    assert form.text(13 * 3600 * S) == "11-16 01:00:00"


def test_stamps_of_this_century_are_dates() -> None:
    assert Clock.of_stamps(NOON).wall(5) == NOON + 5
    assert Clock.of_stamps(48_120 * S).wall(0) is None
    assert Clock.of_stamps(2**62).wall(0) is None


@pytest.mark.parametrize(
    ("text", "tick"),
    [
        ("12:00:01.5", 1_500 * MS), ("12:00", 0), ("11:59:59", -S),
        ("01:00:00 UTC", 13 * 3600 * S), ("11-16 12:00:00", 24 * 3600 * S),
        ("2023-11-15 12:00:00.000 000 007 UTC", 7), ("1.5 s", 1_500 * MS - NOON),
    ],
)  # fmt: skip
def test_time_of_day_is_read(text: str, tick: int) -> None:
    assert parse_time(text, Clock(origin=NOON, epoch=0), absolute=True) == tick


@pytest.mark.parametrize("text", ["24:00:00", "12:60:00", "13-01 12:00", "02-30 12:00"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"day|time|month"):
        parse_time(text, Clock(epoch=NOON), absolute=True)


def test_exact_time_has_minutes_where_the_short_one_has() -> None:
    assert format_exact_time(3_370_009) == format_exact(3_370_009)
    exact = format_exact_time(661_516_898_410).replace("\u202f", " ")
    assert exact == "11:01.516 898 410"
    assert format_exact_time(-61 * S).startswith("-1:01.000")
    assert format_exact_time(12_345, "cycle") == "12,345 cycles"


@pytest.mark.parametrize(
    ("text", "ticks"),
    [
        ("1:30", 90 * S), ("-1:30.5", -90_500 * MS), ("1:02:03.4", 3_723_400 * MS),
        ("0:00.000000001", 1), ("90:00", 5400 * S), ("+1.5 ms", 1_500_000),
        ("661.516\u202f898\u202f410\u202fs", 661_516_898_410), (".5us", 500),
        ("\u22123 \u03bcs", -3_000), ("2.5e3us", 2_500_000),
    ],
)  # fmt: skip
def test_printed_times_can_be_typed(text: str, ticks: int) -> None:
    assert parse_duration(text) == ticks


@pytest.mark.parametrize(
    "text",
    [
        "1:60",
        "1:75:00",
        "1:",
        ":30",
        "1:2:3:4",
        "nan",
        "inf",
        "s",
        "",
        "1e999s",
        "--1s",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        parse_duration(text)


def test_minutes_are_refused_where_cycles_count() -> None:
    with pytest.raises(ValueError, match="cycles"):
        parse_duration("1:30", "cycle")


ticks_of_time = st.one_of(
    st.integers(-(10**12), 10**12), st.integers(-(2**62), 2**62), st.integers(-99, 99)
)
clocks = st.builds(
    Clock, st.sampled_from(["ns", "cycle"]), st.sampled_from([0, 77, 10**12, 2**60])
)


@given(ticks_of_time, st.integers(0, 10**13), st.data(), clocks, st.booleans())
def test_every_printed_time_is_read_again(
    start: int, length: int, data: st.DataObject, clock: Clock, absolute: bool
) -> None:
    shown = TimeRange(start, start + length)
    tick = data.draw(st.integers(shown.start, shown.end))

    for form in (
        shown_form(shown, clock, absolute=absolute),
        listed_form(shown, clock, absolute=absolute),
    ):
        read = parse_time(form.text(tick), clock, absolute=absolute)
        assert 0 <= tick - read < form.step
    exact = format_exact_time(tick + clock.shift(absolute), clock.unit)
    assert parse_time(exact, clock, absolute=absolute) == tick


@given(st.integers(-(10**12), 5 * 10**13), st.integers(0, 10**14), st.data())
def test_every_printed_time_of_day_is_read_again(
    start: int, length: int, data: st.DataObject
) -> None:
    clock = Clock(origin=10**13, epoch=data.draw(st.integers(NOON, NOON + 10**14)))
    shown = TimeRange(start, start + length)
    tick = data.draw(st.integers(start, min(shown.end, 80_000 * S)))

    for form in (
        shown_form(shown, clock, absolute=True),
        listed_form(shown, clock, absolute=True),
    ):
        assert form.zone
        read = parse_time(form.text(tick), clock, absolute=True)
        assert 0 <= tick - read < form.step
    assert parse_time(format_absolute(tick, clock), clock, absolute=True) == tick


@given(st.integers(-(10**15), 10**15))
def test_every_printed_duration_is_read_again(ticks: int) -> None:
    read = parse_duration(format_duration(ticks))

    # Four digits; from a minute on, tenths of a second.
    step = 10**8 if abs(ticks) >= 59_999_500_000 else abs(ticks) * 12e-4
    assert abs(read - ticks) <= step / 2
    assert parse_duration(format_exact(ticks)) == ticks


def test_form_of_one_tick_has_every_digit() -> None:
    assert TimeForm().text(999) == "999 ns"
    assert TimeForm(step=1000).text(999) == "0 ns"


def test_range_refuses_to_run_backwards() -> None:
    with pytest.raises(ValueError, match="ends before"):
        TimeRange(2, 1)


ranges = st.tuples(st.integers(-1000, 1000), st.integers(0, 1000)).map(
    lambda p: TimeRange(p[0], p[0] + p[1])
)


@given(ranges, ranges)
def test_intersection_holds_what_both_contain(a: TimeRange, b: TimeRange) -> None:
    common = a.intersect(b)

    both = {t for t in range(a.start, a.end) if b.contains(t)}
    assert both == (set() if common is None else set(range(common.start, common.end)))
    assert a.intersect(b) == b.intersect(a)


def test_padded_and_shifted_ranges_keep_their_length() -> None:
    time = TimeRange(10, 20)

    assert time.padded(5) == TimeRange(5, 25)
    assert time.shifted(-10) == TimeRange(0, 10)
    assert time.duration == 10


@pytest.mark.parametrize(
    ("ticks", "unit", "text", "exact"),
    [
        (1, "sample", "1 sample", "1 sample"),
        (12_345, "sample", "12,345 samples", "12,345 samples"),
        (2.5, "sample", "2.5 samples", None),
        (1_000, "sample/1000", "1 sample", "1 sample"),
        (12_345, "sample/1000", "12.345 samples", "12.345 samples"),
        (1_500, "count/1000", "1.5", "1.5"),
        (7, "count", "7", "7"),
        (2_048, "byte", "2.0 KiB", "2,048 bytes"),
        (1, "byte", "1 B", "1 byte"),
        (-3, "sample", "-3 samples", "-3 samples"),
        (9, "cycle", "9 cyc", "9 cycles"),
    ],
)
def test_weights_have_the_unit_of_their_ticks(ticks, unit, text, exact):
    assert format_duration(ticks, unit) == text
    if exact is not None:
        assert format_exact(ticks, unit) == exact


@given(
    ticks=st.integers(-(1 << 61), 1 << 61),
    unit=st.sampled_from([unit for unit in UNITS if unit != "ns"]),
)
def test_exact_weights_are_read_as_they_are_written(ticks, unit):
    assert parse_duration(format_exact(ticks, unit), unit) == ticks


@pytest.mark.parametrize(
    ("text", "unit", "ticks"),
    [
        ("3samples", "sample", 3), ("1 sample", "sample", 1),
        ("2.5", "count/1000", 2500),
        ("2.5 samples", "sample/1000", 2500), ("4KiB", "byte", 4096), ("9", "byte", 9),
        ("12cyc", "cycle", 12),
    ],
)  # fmt: skip
def test_weights_are_read(text, unit, ticks):
    assert parse_duration(text, unit) == ticks


@pytest.mark.parametrize(
    ("text", "unit"),
    [("3ms", "sample"), ("3s", "count"), ("1:30", "byte"), ("3samples", "byte")],
)
def test_other_units_are_refused(text, unit):
    with pytest.raises(ValueError, match=r"no time|this trace counts"):
        parse_duration(text, unit)


def test_weights_are_no_times():
    clock = Clock("ns", 5, epoch=10**18, is_weight=True)

    assert clock.wall(0) is None
    assert clock.per_s is None
    assert clock.form(TimeRange(0, 9), absolute=True) == ("length", 0)
    assert (clock.axis_word, clock.unit_name) == ("weight", "ns")
    assert Clock().per_s == 1e9
    assert Clock("cycle", hz=5.0).per_s == 5.0
    assert Clock("sample", is_weight=True).per_s is None
    assert Clock("sample", is_weight=True).axis_word == "samples"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.1235"), (12.345, "12.35"), (999.4, "999.4"), (3485.2, "3,485"),
        (12_345.6, "12,346"), (277_777.8, "277,778"), (-12_345.6, "-12,346"),
    ],
)  # fmt: skip
def test_large_numbers_have_no_exponent(value, text):
    assert format_number(value) == text
