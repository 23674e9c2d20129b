"""Columns of statistics: each stands where it says something, with the same values."""

from dataclasses import replace

import numpy as np
import pytest

from builders import nested_trace, spans_trace, token_trace
from ggscope.analysis.statistics.columns import stat_facts, table_columns
from ggscope.analysis.statistics.table import StatRow, stat_table
from ggscope.descriptions.statistics import (
    headed_columns,
    stat_cell,
    stat_notes,
    unit_of,
)
from ggscope.model.selection import By
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import Clock, TimeRange
from reads_builder import Op, Read, TensorRow, reads_trace
from wait_traces import with_waits

BY_KEY = table_columns()
WEIGHT = TensorRow("blk.0.attn_q.weight", 0, 8000, 0)


def names(trace: Trace, by: By = "op", time: TimeRange | None = None) -> list[str]:
    facts = stat_facts(trace, by, stat_table(trace, by, time=time), time)
    return [column.key for column in headed_columns(facts)]


def cells(trace: Trace, by: By = "op", row: int = 0) -> dict[str, str]:
    table = stat_table(trace, by)
    facts = stat_facts(trace, by, table)
    return {
        column.key: stat_cell(column, table.rows[row], facts).text
        for column in headed_columns(facts)
    }


def read(n: int = 1, *reads: Read) -> Trace:
    return reads_trace(
        [WEIGHT], [Op(20 * i, reads or (Read(0, 8000),)) for i in range(n)]
    )


def test_columns_stand_where_they_say_something() -> None:
    flat = spans_trace([0, 10], [10, 20], op=1)
    nested = spans_trace([0, 2], [10, 5], op=1)
    beside = spans_trace([0, 2], [10, 5], op=1, lane=[0, 1])
    waits = with_waits(flat, np.array([3, 4]))

    assert not {"self", "busy", "latency", "idle", "ops", "wait"} & set(names(flat))
    assert {"self", "busy"} <= set(names(nested))
    assert "busy" in names(beside)
    assert "self" not in names(beside)
    assert {"wait", "wait_mean", "waiting"} <= set(names(waits))
    assert {"latency", "busy", "idle"} <= set(names(token_trace([(0, 9, 5)]), "token"))
    assert "in_range" in names(flat, time=TimeRange(5, 20))
    assert "in_range" not in names(flat)
    # A file without accesses has no columns of them; one with some has.
    assert not {"bytes", "rate", "unknown"} & set(names(flat))
    assert {"bytes", "rate"} <= set(names(read()))


def test_share_stands_beside_the_total() -> None:
    result = names(nested_trace())

    assert result.index("share") == result.index("total") + 1


def test_names_are_distinct_and_known() -> None:
    assert len(BY_KEY) == len({column.title for column in BY_KEY.values()})
    assert {"latency", "busy", "idle", "rate", "total"} <= set(BY_KEY)


def test_unknown_bytes_and_rates_are_not_zero() -> None:
    none = cells(read(1, Read(0)))
    assert (none["bytes"], none["rate"]) == ("N/A", "N/A")

    known = cells(read())
    assert (known["bytes"], known["rate"]) == ("7.8 KiB", "745.1 GiB/s")

    part = cells(read(1, Read(0, 8000), Read(0)))
    assert part["rate"] == "≥ 745.1 GiB/s"


def test_rate_counts_seconds_where_cycles_have_a_length() -> None:
    trace = read()
    cycles = replace(trace, clock=Clock("cycle"))
    timed = replace(trace, clock=Clock("cycle", hz=1e6))
    rate = BY_KEY["rate"]

    assert cells(cycles)["rate"] == "800 B/cycle"
    assert cells(timed)["rate"] == "762.9 MiB/s"
    units = [
        unit_of(rate, stat_facts(t, "op", stat_table(t, "op")))
        for t in (trace, cycles, timed)
    ]
    assert units == ["B/s", "B/cycle", "B/s"]


def test_plain_numbers_are_in_the_unit_of_the_column() -> None:
    trace = read(3)
    table = stat_table(trace, "op")
    facts = stat_facts(trace, "op", table)
    row = table.rows[0]

    def raw(name: str) -> object:
        return stat_cell(BY_KEY[name], row, facts).raw

    assert raw("total") == 30
    assert raw("bytes") == 24000
    assert raw("rate") == 800e9
    assert raw("share") == 1.0
    # What is only known to be more than something is no number.
    part = read(1, Read(0, 8000), Read(0))
    table = stat_table(part, "op")
    facts = stat_facts(part, "op", table)
    cell = stat_cell(BY_KEY["rate"], table.rows[0], facts)
    assert (cell.raw, cell.value) == (None, 800.0)


def test_accesses_that_are_still_read_are_pending() -> None:
    trace = replace(read(), pending=frozenset({"accesses"}))

    assert {cells(trace)[name] for name in ("bytes", "rate")} == {"…"}


@pytest.mark.parametrize("name", sorted(set(BY_KEY) - {"key", "count", "quality"}))
def test_no_column_makes_a_number_of_nothing(name: str) -> None:
    flags = np.array([int(SpanFlag.UNFINISHED)], np.uint16)
    trace = spans_trace([0], [5], op=1, flags=flags)
    table = stat_table(trace, "op")
    facts = stat_facts(trace, "op", table)
    cell = stat_cell(BY_KEY[name], table.rows[0], facts)

    expected = {"ops": "1", "unknown": ""}.get(name, "N/A")
    assert cell.text == expected
    if expected == "N/A":
        assert (cell.value, cell.raw) == (None, None)


def notes(trace: Trace, by: By, *, columns: tuple[str, ...] | None = None) -> str:
    table = stat_table(trace, by)
    facts = stat_facts(trace, by, table)
    shown = headed_columns(facts)
    if columns is not None:
        shown = tuple(BY_KEY[name] for name in columns)
    return "\n".join(stat_notes(trace, table, facts, shown))


def test_notes_are_on_columns_that_are_shown() -> None:
    trace = nested_trace()
    whole = notes(trace, "op")

    assert "Self is the total" in whole
    assert "Busy is the union" in whole
    assert "Self is the total" not in notes(trace, "op", columns=("key", "total"))
    assert "Busy is the union" not in notes(trace, "op", columns=("key", "total"))
    assert notes(trace, "op", columns=("key", "mean")) == ""


def test_lanes_that_contain_each_other_are_noted() -> None:
    nested = token_trace([(0, 100, 50), (100, 200, 50)])
    threads = spans_trace([0, 0], [10, 10], op=1, lane=[0, 1])

    assert "Lanes contain each other" in notes(nested, "lane")
    assert "Lanes contain each other" not in notes(nested, "op")
    assert threads.lanes.of_kind(LaneKind.THREAD).all()
    assert "Lanes contain each other" not in notes(threads, "lane")


def test_row_without_a_time_has_no_derived_figures() -> None:
    row = StatRow(
        "a", 1, 0, 0, float("nan"), None, float("nan"), float("nan"), float("nan"),
        None, 100, 0.0, "unfinished", op_ticks=0,
    )  # fmt: skip

    assert row.rate is None
    assert row.least_rate is None
