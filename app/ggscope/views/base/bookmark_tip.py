"""What is said about bookmarks under the cursor, in the timeline and the overview."""

from collections.abc import Sequence

from ggscope.model.units import format_duration, format_exact
from ggscope.session.session import Session
from ggscope.text import Html, html, join_html

_MAX_TOLD = 4
_MAX_LETTERS = 80


def bookmark_tip(session: Session, positions: Sequence[int]) -> Html:
    """Return rich text about bookmarks that are close together; "" for none."""
    trace = session.trace
    if trace is None:
        return Html()
    unit = trace.clock.unit
    shift = trace.clock.origin if session.absolute_time else 0
    lines: list[Html] = []
    for position in positions[:_MAX_TOLD]:
        mark = session.bookmarks[position]
        key = f" (Alt+{position + 1})" if position < 9 else ""
        when = format_exact(mark.time.start + shift, unit)
        if mark.time.duration:
            when += f", {format_duration(mark.time.duration, unit)} long"
        note = f" · {mark.note[:_MAX_LETTERS]}" if mark.note else ""
        name = mark.name[:_MAX_LETTERS]
        lines.append(html("<b>{}</b>{}<br>{}{}", name, key, when, note))
    if len(positions) > _MAX_TOLD:
        lines.append(html("and {} more", len(positions) - _MAX_TOLD))
    return join_html(lines, html("<br>"))
