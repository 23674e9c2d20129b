"""Where the time of a server's requests goes."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import log_files
from ggscope.analysis.requests import RequestShares, request_shares
from ggscope.analysis.sorting import sorted_rows
from ggscope.analysis.summary.bottleneck import Cause, Evidence, cause_of
from ggscope.analysis.summary.summary import summary
from ggscope.descriptions.requests import (
    REQUEST_COLUMNS,
    RequestRows,
    request_cells,
)
from ggscope.readers.registry import open_trace


@pytest.mark.parametrize("seed", range(4))
def test_shares_are_those_of_the_rows(tmp_path, seed):
    path = tmp_path / "server.log"
    path.write_bytes(log_files.log(log_files.random_requests(seed, 20)))
    requests = open_trace(path).log.requests

    shares = request_shares(requests)

    rows = [
        row
        for row in zip(
            requests.queued.tolist(), requests.prompt_time.tolist(),
            requests.generated_time.tolist(), requests.n_prompt.tolist(),
            requests.n_reprocessed.tolist(), strict=True,
        )
        if row[1] >= 0 and row[2] >= 0
    ]  # fmt: skip
    knows_wait = all(row[0] >= 0 for row in rows)
    whole = sum(row[1] + row[2] + (row[0] if knows_wait else 0) for row in rows)
    assert shares.n == len(rows) > 0
    assert shares.prompt == pytest.approx(
        float(Fraction(sum(row[1] for row in rows), whole))
    )
    assert shares.generated == pytest.approx(
        float(Fraction(sum(row[2] for row in rows), whole))
    )
    assert (shares.queued is not None) == knows_wait
    assert shares.prompt + shares.generated + (shares.queued or 0) == pytest.approx(1)
    knows_again = all(row[3] >= 0 and row[4] >= 0 for row in rows)
    assert (shares.reprocessed is not None) == knows_again
    if knows_again:
        again, computed = sum(row[4] for row in rows), sum(row[3] for row in rows)
        assert shares.reprocessed == pytest.approx(again / computed)


def test_requests_without_times_have_no_shares(tmp_path):
    path = tmp_path / "server.log"
    path.write_bytes(log_files.log(log_files.random_requests(1, 3)))
    trace = open_trace(path)
    requests = trace.log.requests
    unknown = np.full(len(requests), -1)

    assert request_shares(replace(requests, prompt_time=unknown)) is None


@pytest.mark.parametrize(
    ("shares", "cause"),
    [
        (RequestShares(3, None, 0.1, 0.9, None), Cause.GENERATION),
        (RequestShares(3, 0.0, 0.8, 0.2, 0.1), Cause.PROMPT),
        (RequestShares(3, 0.0, 0.8, 0.2, 0.4), Cause.REPROCESSING),
        (RequestShares(3, 0.6, 0.2, 0.2, 0.9), Cause.QUEUE),
        (RequestShares(3, 0.3, 0.3, 0.4, None), Cause.SPREAD),
    ],
)
def test_the_largest_part_limits(shares, cause):
    assert cause_of(Evidence(requests=shares)) is cause


def test_summary_of_a_log_names_what_takes_the_time(tmp_path):
    path = tmp_path / "server.log"
    path.write_bytes(log_files.log(log_files.random_requests(2, 20)))
    trace = open_trace(path)

    facts = summary(trace)

    assert facts.evidence.requests == request_shares(trace.log.requests)
    assert facts.cause is cause_of(Evidence(requests=facts.evidence.requests))
    assert "bottleneck" not in facts.unknown


@pytest.mark.parametrize("seed", range(4))
def test_columns_are_sorted_by_what_stands_in_them(tmp_path, seed):
    path = tmp_path / "server.log"
    path.write_bytes(log_files.log(log_files.random_requests(seed, 60)))
    trace = open_trace(path)
    every = np.arange(len(trace.log.requests))
    cells = request_cells(trace, every)
    assert [request_cells(trace, every[i : i + 1])[0] for i in every] == cells

    for place, column in enumerate(REQUEST_COLUMNS):
        values = column.values(RequestRows(trace))
        texts = [row[place] for row in cells]
        if column.title == "drafts":  # "12 of 30 (40 %)" is sorted by the share
            keys = [
                float(Fraction(*map(int, text.replace(",", "").split()[0:3:2])))
                if text
                else None
                for text in texts
            ]
        elif column.is_text:
            keys = [text or None for text in texts]
        else:
            keys = [float(text.replace(",", "")) if text else None for text in texts]
        for is_down in (False, True):
            order = sorted_rows(values, is_down=is_down).tolist()
            assert sorted(order) == every.tolist()
            n_known = sum(key is not None for key in keys)
            by_order = [keys[i] for i in order]
            assert by_order[n_known:] == [None] * (len(keys) - n_known)
            assert by_order[:n_known] == sorted(by_order[:n_known], reverse=is_down)


def test_equal_and_unknown_values_stay_in_their_order():
    big = 1 << 60  # these are equal as doubles
    whole = np.array([big + 1, -1, big, 5, 5, -1])
    assert sorted_rows(whole).tolist() == [3, 4, 2, 0, 1, 5]
    assert sorted_rows(whole, is_down=True).tolist() == [0, 2, 3, 4, 1, 5]
    parts = np.array([np.nan, -0.5, 2.0, -0.5])
    assert sorted_rows(parts).tolist() == [1, 3, 2, 0]
    assert sorted_rows(parts, is_down=True).tolist() == [2, 1, 3, 0]
