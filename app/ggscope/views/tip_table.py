"""Tooltips as small tables: a title, and labels with their values."""

from collections.abc import Iterable, Sequence

from ggscope.analysis.facts import Fact
from ggscope.text import Html, html, join_html


def tip_table(title: str, rows: Iterable[Sequence[str]]) -> Html:
    """Return rows as a small table under a title.

    Parameters
    ----------
    rows : (label, value) or (label, value, what stands below the value).
    """
    lines = join_html(_line(*row) for row in rows)
    return html("<p><b>{}</b></p><table>{}</table>", title, lines)


def fact_table(title: str, facts: Iterable[Fact]) -> Html:
    """Return facts as a small table, with all digits where fewer are shown."""
    return tip_table(
        title,
        [(f.label, f.value, f.exact if f.exact != f.value else "") for f in facts],
    )


def _line(label: str, value: str, below: str = "") -> Html:
    return html(
        "<tr><td style='padding-right:12px'>{}</td><td><b>{}</b>{}</td></tr>",
        label,
        value,
        html("<br>{}", below) if below else "",
    )


__all__ = ["fact_table", "tip_table"]
