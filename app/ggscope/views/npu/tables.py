"""The tables beside the pictures of an NPU: headings and cells."""

from ggscope.analysis.npu.facts import NpuFacts
from ggscope.descriptions.npu import ListedTable, cell_text, unit_of
from ggscope.model.npu import HIGH_UTILISATION
from ggscope.model.trace import Trace
from ggscope.render.npu.over_time import engine_color
from ggscope.render.theme import Theme
from ggscope.views.base.text_table import Cell, Heading

_WORDS = (
    "claim",
    "verdict",
    "by",
    "place",
    "engine",
    "reason",
    "op",
    "value",
    "name",
    "token",
)
_FIGURES = ("stated", "computed", "difference")
_WIDE = ("claim", "name", "op")


def table_cell(
    trace: Trace,
    facts: NpuFacts,
    listed: ListedTable,
    at: tuple[int, str],
    value: object,
    theme: Theme,
) -> Cell:
    """Return the cell of a value.

    Parameters
    ----------
    at : its row and the title of its column.
    """
    row, title = at
    text = cell_text(trace, title, value)
    number = value if isinstance(value, int | float) else None
    is_wrong = listed.name == "claims" and trace.info.stated[row].agrees is False
    is_high = title == "of peak" and (number or 0) > HIGH_UTILISATION
    color = 0
    if listed.name == "engines" and title == "engine":
        color = engine_color(facts.engines.kinds[row], theme)
    return Cell(
        text,
        text if number is None else number,
        "" if value is None else number,
        color=color,
        caution=is_wrong or is_high,
        is_dim=value is None,
    )


def headings(trace: Trace, listed: ListedTable) -> tuple[Heading, ...]:
    """Return the columns; the last one of words takes what the others leave."""
    columns = []
    first = listed.rows[0]
    for i, (title, tip) in enumerate(listed.head):
        is_text = title in _WORDS or isinstance(first[i], str)
        unit = unit_of(trace, title)
        is_last = i == len(listed.head) - 1
        columns.append(
            Heading(
                title, tip, 150 if title in _WIDE else 84,
                right=not is_text or title in _FIGURES,
                is_text=is_text, stretch=is_last and is_text,
                copied=f"{title} ({unit})" if unit else "", largest_first=not is_text,
            )
        )  # fmt: skip
    return tuple(columns)
