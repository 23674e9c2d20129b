"""Time ranges, and numbers as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggscope.model.time import TimeRange
from ggscope.model.units import (
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_offset,
    format_rate,
    format_share,
    parse_duration,
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
