"""What the menu of a record offers to show only."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from ggscope.analysis.facts import access_facts
from ggscope.model.selection import Filter
from ggscope.model.tokens import numbers_per_phase, token_text
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.views.plain import add_action
from ggscope.views.widgets import tr


def filters_of(trace: Trace, span: int, base: Filter) -> list[tuple[str, Filter]]:
    """Return (menu text, filter) for all that `span` can be filtered by.

    Each sets one part of `base`, as the same words do in the timeline.
    """
    spans, found = trace.spans, []
    op = trace.op_name(int(spans.op[span]))
    if op:
        wanted = replace(base, ops=frozenset({op}))
        found.append((tr("Show only {0}").format(op), wanted))
    if spans.layer is not None and int(spans.layer[span]) >= 0:
        layer = int(spans.layer[span])
        text = tr("Show only layer {0}").format(format_count(layer))
        found.append((text, replace(base, layers=frozenset({layer}))))
    if spans.token is not None and int(spans.token[span]) >= 0:
        token = int(spans.token[span])
        text = tr("Show only token {0}").format(token_text(trace, span))
        wanted = replace(base, tokens=frozenset({token}))
        if spans.phase is not None and numbers_per_phase(trace):
            wanted = replace(wanted, phases=frozenset({int(spans.phase[span])}))
        found.append((text, wanted))
    lane = trace.lanes.names[int(spans.lane[span])]
    text = tr("Show only {0}").format(lane)
    found.append((text, replace(base, threads=frozenset({lane}))))
    for access in access_facts(trace, span)[:1]:
        text = tr("Show only source {0}").format(access.badge)
        found.append((text, replace(base, spaces=frozenset({int(access.space)}))))
    return found


def add_command(
    menu: QMenu, text: str, slot: Callable[..., Any], *arguments: object
) -> QAction:
    """Add a command that calls ``slot(*arguments)``; return it."""
    action = add_action(menu, text)

    def on_triggered(_checked: bool = False) -> None:
        slot(*arguments)

    action.triggered.connect(on_triggered)
    return action
