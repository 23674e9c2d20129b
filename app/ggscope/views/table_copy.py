"""Rows as text for spreadsheets, reports and programs: TSV, Markdown, JSON."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ggscope.model.tables import Array
from ggscope.session.tasks import TaskContext
from ggscope.views.table_cells import CellTexts, Column

CopyForm = Literal["tsv", "markdown", "json"]
MAX_COPIED_ROWS = 100_000
"""More than a spreadsheet's clipboard takes well; the rest is left out, and said."""
_TITLES = {"record": "record", "layer": "layer"}


def to_tsv(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return tab-separated lines under a header line."""
    lines = ["\t".join(_flat(cell) for cell in row) for row in (titles, *rows)]
    return "\n".join(lines) + "\n"


def to_markdown(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Sequence[bool] | None = None,
) -> str:
    """Return a Markdown table; `right` says which columns are right-aligned."""
    sides = right if right is not None else [False] * len(titles)
    lines = [
        _markdown_line(titles),
        "|" + "|".join(" ---: " if side else " --- " for side in sides) + "|",
        *(_markdown_line(row) for row in rows),
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, eq=False)
class CopyRequest:
    """Makes the text of some spans' rows; runs on a worker for many.

    Attributes
    ----------
    spans : ids in table order.
    columns : the columns shown, in order.

    Notes
    -----
    TSV and JSON hold plain numbers with the unit in the title, so that a sheet
    can add them up; Markdown holds the words of the table.
    """

    texts: CellTexts
    spans: Array
    columns: tuple[Column, ...]
    form: CopyForm

    def __call__(self, context: TaskContext | None = None) -> str:
        """Return the text. Raises Cancelled between rows."""
        columns = tuple(c for c in self.columns if c.key != "dot")
        if self.form == "json":
            rows = self._rows(columns, context, as_text=False)
            records = [
                dict(zip((c.key for c in columns), row, strict=True)) for row in rows
            ]
            return json.dumps(records, ensure_ascii=False, indent=1) + "\n"
        cells = self._rows(columns, context, as_text=True)
        titles = [self._title(c) for c in columns]
        texts = [[str(cell) for cell in row] for row in cells]
        if self.form == "tsv":
            return to_tsv(titles, texts)
        return to_markdown(titles, texts, [c.right for c in columns])

    def _rows(
        self, columns: tuple[Column, ...], context: TaskContext | None, as_text: bool
    ) -> list[list[object]]:
        rows: list[list[object]] = []
        for n, span in enumerate(self.spans):
            if context is not None and n % 256 == 0:
                context.progress(n, len(self.spans))
            rows.append([self._cell(int(span), c.key, as_text) for c in columns])
        return rows

    def _cell(self, span: int, key: str, as_text: bool) -> object:
        if self.form == "markdown":
            return self.texts.text(span, key)
        value = self.texts.raw(span, key)
        if not as_text:
            return value
        return "; ".join(value) if isinstance(value, list) else _plain(value)

    def _title(self, column: Column) -> str:
        title = _TITLES.get(column.key, column.title)
        title = "thread" if title == "T" else title
        if self.form == "tsv" and column.key in ("time", "duration"):
            unit = self.texts.trace.clock.unit
            return f"{title} ({'ns' if unit == 'ns' else 'cycles'})"
        return title


def _plain(value: int | str | None) -> str:
    return "" if value is None else str(value)


def _flat(cell: str) -> str:
    return cell.replace("\t", " ").replace("\n", " ")


def _markdown_line(cells: Sequence[str]) -> str:
    escaped = (_flat(cell).replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
    return "| " + " | ".join(escaped) + " |"
