"""Rates of what is followed, and the time between two polls."""

import pytest

from ggscope.live.source import SourceStatus, State
from ggscope.session.live_pace import MANY_RECORDS, PollPace, RateWindow


def test_rates_are_those_of_the_last_second():
    window = RateWindow()
    for i in range(9):
        status = SourceStatus(
            State.RUNNING, records=100 * i, tokens=2 * i, lag_ns=i % 3
        )
        rates = window.add(10 + i / 4, status)

    assert rates.records_per_s == pytest.approx(400)
    assert rates.tokens_per_s == pytest.approx(8)
    assert rates.lag_ns == 2


def test_there_are_no_rates_before_half_a_second_and_of_another_program():
    window = RateWindow()
    statuses = [SourceStatus(State.RUNNING, records=n) for n in (100, 200, 300, 5)]
    rates = [window.add(i * 0.4, status) for i, status in enumerate(statuses)]

    assert [r.records_per_s for r in rates] == [-1, -1, pytest.approx(250), -1]
    assert all(r.tokens_per_s == -1 for r in rates), "it counts none"


def test_much_news_is_polled_less_often_where_there_is_room_for_it():
    pace = PollPace(received_at=100.0)
    many = MANY_RECORDS

    def until_next(records, fill, now=100.1, state=State.RUNNING):
        return pace.until_next(now, SourceStatus(state, records, fill=fill))

    assert until_next(10, 0.01) == 1 / 60
    assert until_next(10 + many, 0.01) == 1 / 30
    assert until_next(10 + 2 * many, 0.3) == 1 / 60
    assert until_next(10 + 2 * many, 0.01) == 1 / 60
    assert until_next(10 + 4 * many, -1) == 1 / 30  # a file: it has all the room
    assert until_next(10 + 8 * many, 0.01, now=101) == 1 / 10
    assert until_next(0, -1, state=State.WAITING) == 0.25
