"""The column of statistics of CONTRIBUTING's recipe, which tests add to the others."""

import pytest

from ggscope.analysis.statistics import columns
from ggscope.analysis.statistics.columns import StatColumn
from ggscope.analysis.statistics.table import StatRow


def spread(row: StatRow) -> float | None:
    """Return the difference of the longest and the shortest duration."""
    return None if row.max is None or row.min is None else row.max - row.min


SPREAD = StatColumn(
    key="spread",
    title="spread",
    tooltip="Longest minus shortest duration",
    unit="time",
    value=spread,
    place=185,
    record="spread_{ticks}",
    axis="longest minus shortest",
    has_total=False,
)


def add_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Append it to the columns for one test."""
    extended = (*columns.STAT_COLUMNS, SPREAD)
    monkeypatch.setattr(columns, "STAT_COLUMNS", extended)
