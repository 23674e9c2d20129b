"""Records are counted under the name of what they are of."""

import pytest

from ggscope.model.record_kinds import counted_text, record_unit


@pytest.mark.parametrize(
    ("n", "by_kind", "text", "unit"),
    [
        (5_000, {}, "5,000 records", "records"),
        (1, {}, "1 record", "records"),
        (7, {"ops": 7, "graphs": 0}, "7 ops", "ops"),
        (4, {"ops": 0, "graphs": 4}, "4 graphs", "graphs"),
        (3, {"ops": 1, "graphs": 1, "lists of experts": 1},
         "1 op, 1 graph, 1 list of experts", "ops and graphs and lists of experts"),
        (2_712, {"ops": 2_616, "graphs": 0, "lists of experts": 96},
         "2,616 ops, 96 lists of experts", "ops and lists of experts"),
        (0, {"ops": 0, "graphs": 0}, "0 ops", "ops"),
    ],
)  # fmt: skip
def test_records_are_counted_by_kind(n, by_kind, text, unit):
    assert counted_text(n, by_kind) == text
    assert record_unit(by_kind) == unit
