"""Context menus of the timeline: on a span, on a lane header, on nothing."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMenu

from ggscope.analysis.rows.lanes import LaneState
from ggscope.model.selection import MarkedRange
from ggscope.model.time import TimeRange
from ggscope.model.tokens import numbers_per_phase, token_text
from ggscope.session.session import Session
from ggscope.text import markdown_row, tsv_text
from ggscope.views.base.plain import add_action
from ggscope.views.base.widgets import copy_name, copy_text
from ggscope.words.spans import Fact, span_facts

if TYPE_CHECKING:
    from ggscope.views.timeline.hit import Hit
    from ggscope.views.timeline.view import TimelineView

_MOST_HIDDEN = 50
"""Of more hidden lanes the menu lists the first; "All" shows the others too."""


def build_menu(view: "TimelineView", x: float, y: float) -> QMenu:
    """Return the menu for a position of the picture."""
    menu = QMenu(view)
    menu.setObjectName("timeline-menu")
    session = view.session
    hit = view.hit(x, y)
    if hit.span >= 0:
        _span_entries(view, menu, session, hit)
        menu.addSeparator()
    if hit.box is not None:
        _lane_entries(view, menu, session, hit)
        menu.addSeparator()
    _general_entries(view, menu, session)
    return menu


def _add(menu: QMenu, text: str, action: Callable[[], object]) -> None:
    entry = add_action(menu, text)
    entry.triggered.connect(lambda _checked=False, run=action: run())


def _span_entries(
    view: "TimelineView", menu: QMenu, session: Session, hit: "Hit"
) -> None:
    trace = session.trace
    if trace is None:
        return
    span, tr = hit.span, view.tr
    spans = trace.spans
    time = TimeRange(int(spans.start[span]), int(spans.end[span]))
    name = trace.span_name(span)
    op = trace.op_name(int(spans.op[span]))
    facts = span_facts(trace, span, absolute=session.absolute_time)

    def zoom() -> None:
        session.select_span(span, reveal=False)
        session.fit_selection()

    _add(menu, tr("Select “{0}”").format(name), lambda: session.select_span(span))
    _add(menu, tr("Zoom to it"), zoom)
    _add(menu, tr("Mark its time"), lambda: session.set_marked(MarkedRange(time)))
    menu.addSeparator()
    if op:
        _add(
            menu,
            tr("Show only {0}").format(op),
            lambda: session.set_filter(replace(session.filter, ops=frozenset({op}))),
        )
    if spans.layer is not None and (layer := int(spans.layer[span])) >= 0:
        _add(
            menu,
            tr("Show only layer {0}").format(layer),
            lambda: session.set_filter(
                replace(session.filter, layers=frozenset({layer}))
            ),
        )
    if spans.token is not None and (token := int(spans.token[span])) >= 0:
        phases = session.filter.phases
        if spans.phase is not None and numbers_per_phase(trace):
            phases = frozenset({int(spans.phase[span])})
        _add(
            menu,
            tr("Show only token {0}").format(token_text(trace, span)),
            lambda: session.set_filter(
                replace(session.filter, tokens=frozenset({token}), phases=phases)
            ),
        )
    _add(menu, tr("Find “{0}”").format(name), lambda: session.search(name))
    menu.addSeparator()
    _add(menu, tr("Copy name"), lambda: copy_name(name))
    _add(menu, tr("Copy details"), lambda: copy_text(_tsv(facts)))
    _add(menu, tr("Copy details as Markdown"), lambda: copy_text(_markdown(facts)))


def _lane_entries(
    view: "TimelineView", menu: QMenu, session: Session, hit: "Hit"
) -> None:
    box, tr, state = hit.box, view.tr, session.lane_state
    if box is None:
        return
    if box.lane is None:
        word = tr("Open") if box.collapsed else tr("Close")
        _add(menu, f"{word} “{box.group}”", lambda: view.toggle_group(box.group))
        return
    key, title = box.lane.key, box.lane.title

    def pin() -> None:
        pinned = tuple(k for k in state.pinned if k != key)
        if key not in state.pinned:
            pinned = (*pinned, key)
        session.set_lane_state(replace(state, pinned=pinned))

    word = tr("Unpin") if key in state.pinned else tr("Pin")
    _add(menu, f"{word} “{title}”", pin)
    _add(
        menu,
        tr("Hide “{0}”").format(title),
        lambda: session.set_lane_state(replace(state, hidden=state.hidden | {key})),
    )
    for text, factor in ((tr("Taller lane"), 1.5), (tr("Lower lane"), 1 / 1.5)):
        heights = dict(state.heights)
        heights[key] = round(min(6.0, max(0.6, heights.get(key, 1.0) * factor)), 2)
        wanted = replace(state, heights=tuple(sorted(heights.items())))
        _add(menu, text, partial(session.set_lane_state, wanted))


def _general_entries(view: "TimelineView", menu: QMenu, session: Session) -> None:
    tr, state = view.tr, session.lane_state
    if state.hidden:
        hidden = menu.addMenu(tr("Show hidden lanes"))
        for key in sorted(state.hidden)[:_MOST_HIDDEN]:
            _add(
                hidden,
                _title_of(session, key),
                partial(
                    session.set_lane_state, replace(state, hidden=state.hidden - {key})
                ),
            )
        hidden.addSeparator()
        _add(
            hidden,
            tr("All"),
            lambda: session.set_lane_state(replace(state, hidden=frozenset())),
        )
    if session.index is not None:
        groups = frozenset(session.index.lanes.groups)
        _add(
            menu,
            tr("Open all groups"),
            lambda: session.set_lane_state(replace(state, collapsed=frozenset())),
        )
        _add(
            menu,
            tr("Close all groups"),
            lambda: session.set_lane_state(replace(state, collapsed=groups)),
        )
    _add(menu, tr("Reset lanes"), lambda: session.set_lane_state(LaneState()))
    menu.addSeparator()
    _add(menu, tr("Fit all"), session.fit)
    if session.marked_range is not None:
        marked = session.marked_range
        _add(menu, tr("Zoom to marked range"), lambda: session.set_visible(marked.time))
        _add(menu, tr("Clear marked range"), lambda: session.set_marked(None))


def _title_of(session: Session, key: str) -> str:
    lanes = None if session.index is None else session.index.lanes
    at = -1 if lanes is None else lanes.position(key)
    return key if lanes is None or at < 0 else lanes.titles[at]


def _tsv(facts: tuple[Fact, ...]) -> str:
    return tsv_text([(f.label, f.exact or f.value) for f in facts])


def _markdown(facts: tuple[Fact, ...]) -> str:
    rows = [markdown_row((f.label, f.exact or f.value)) for f in facts]
    return "\n".join(["| field | value |", "| --- | --- |", *rows])
