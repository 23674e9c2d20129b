"""Rows as text for spreadsheets, reports and programs: TSV, Markdown, JSON."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from ggscope.analysis.workers import Watcher
from ggscope.model.tables import Array
from ggscope.text import Value, json_text, markdown_row, tsv_text
from ggscope.views.table_cells import CellTexts, Column

CopyForm = Literal["tsv", "markdown", "json"]
MAX_COPIED_ROWS = 100_000
"""More than a spreadsheet's clipboard takes well; the rest is left out, and said."""
_ROWS_AT_A_TIME = 8
_TITLES = {"record": "record", "layer": "layer"}


def to_tsv(titles: Sequence[str], rows: Iterable[Sequence[Value]]) -> str:
    """Return tab-separated lines under a header line."""
    return tsv_text(chain([titles], rows))


def to_markdown(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Sequence[bool] | None = None,
) -> str:
    """Return a Markdown table; `right` says which columns are right-aligned."""
    lines = [*_markdown_head(titles, right), *map(markdown_row, rows)]
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

    def __call__(self, context: Watcher | None = None) -> str:
        """Return the text. Raises Cancelled from the context, between rows."""
        columns = tuple(c for c in self.columns if c.key != "dot")
        titles = [self._title(c) for c in columns]
        # Each row becomes one string at once: a hundred thousand lists of cells
        # would keep the garbage collector busy for a second.
        if self.form == "json":
            keys = [c.key for c in columns]
            lines = [_json_line(keys, row) for row in self._rows(columns, context)]
            return "[\n" + ",\n".join(lines) + "\n]\n"
        if self.form == "tsv":
            return to_tsv(titles, self._rows(columns, context))
        return to_markdown(
            titles, self._rows(columns, context), [c.right for c in columns]
        )

    def _rows(
        self, columns: tuple[Column, ...], context: Watcher | None
    ) -> Iterator[list[Any]]:
        """Yield the cells of one row after the other: texts, for JSON values."""
        spans = self.spans.tolist()
        for n, span in enumerate(spans):
            if context is not None and n % _ROWS_AT_A_TIME == 0:
                context.progress(n, len(spans))
                # Lets the main thread paint: it asks for the interpreter hundreds
                # of times per picture, and would wait 5 ms each time.
                time.sleep(0)
            yield [self._cell(span, c.key) for c in columns]

    def _cell(self, span: int, key: str) -> object:
        if self.form == "markdown":
            return self.texts.text(span, key)
        value = self.texts.raw(span, key)
        if self.form == "json":
            return value
        return "; ".join(value) if isinstance(value, list) else value

    def _title(self, column: Column) -> str:
        title = _TITLES.get(column.key, column.title)
        title = "thread" if title == "T" else title
        if self.form == "tsv" and column.key in ("time", "duration"):
            unit = self.texts.trace.clock.unit
            return f"{title} ({'ns' if unit == 'ns' else 'cycles'})"
        return title


def _json_line(keys: Sequence[str], values: Sequence[object]) -> str:
    record = dict(zip(keys, values, strict=True))
    return " " + json_text(record)


def _markdown_head(titles: Sequence[str], right: Sequence[bool] | None) -> list[str]:
    sides = right if right is not None else [False] * len(titles)
    rule = "|".join(" ---: " if side else " --- " for side in sides)
    return [markdown_row(titles), f"|{rule}|"]
