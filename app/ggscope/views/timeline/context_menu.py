"""The context menu of the timeline."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QMenu

from ggscope.analysis.rows.lanes import LaneBox, LaneState, group_key
from ggscope.descriptions.ruler import ruler_text
from ggscope.descriptions.spans import Fact, absolute_text, span_facts, time_text
from ggscope.model.selection import MarkedRange
from ggscope.model.tokens import numbers_per_phase, token_text
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_absolute, format_exact
from ggscope.render.timeline.hit_test import Hit
from ggscope.sanitize import markdown_row, tsv_text
from ggscope.session.bookmarks.bookmarks import Subject, subject_of_range
from ggscope.session.session import Session
from ggscope.views.base.note_colors import add_note_colors
from ggscope.views.base.safe_text import add_action, add_menu, copy_name, copy_text

if TYPE_CHECKING:
    from ggscope.views.timeline.view import TimelineView

_MAX_PINNED = 24
"""Larger groups cannot be pinned: they would fill the view."""
_MAX_BOOKMARKS = 5
"""Bookmarks that share a label and have commands in the menu."""
_MAX_LISTED = 50
"""Hidden lanes listed one by one; "All" shows the others too."""


def build_menu(view: "TimelineView", x: float, y: float) -> QMenu:
    """Return the context menu of a position in the timeline."""
    menu = QMenu(view)
    menu.setObjectName("timeline-menu")
    session = view.session
    hit = view.hit(x, y)
    if hit.span >= 0 and hit.is_wait:
        select = partial(session.selection.select_wait, hit.span)
        _pause_entries(menu, session, "wait", select)
    elif hit.gap is not None:
        select = partial(session.selection.select_gap, hit.gap)
        _pause_entries(menu, session, "idle time", select)
    if hit.span >= 0:
        _span_entries(view, menu, session, hit)
        menu.addSeparator()
    for position in view.bookmarks_at(QPointF(x, y))[:_MAX_BOOKMARKS]:
        _bookmark_entries(view, menu, position)
        menu.addSeparator()
    if not hit.in_header and session.trace is not None:
        _time_entries(view, menu, session, hit)
        menu.addSeparator()
    if hit.box is not None:
        _lane_entries(view, menu, session, hit)
        menu.addSeparator()
    _general_entries(view, menu, session)
    return menu


def _bookmark_entries(view: "TimelineView", menu: QMenu, position: int) -> None:
    """Add the commands of a bookmark."""
    bookmarks = view.session.bookmarks
    mark = bookmarks.items[position]
    edit = partial(bookmarks.edit_requested.emit, position)
    add_action(menu, f"Edit “{mark.name}”…", edit)
    add_action(menu, f"Delete “{mark.name}”", partial(bookmarks.remove, position))
    colors = add_menu(menu, "Colour")

    def set_color(color: str) -> None:
        bookmarks.set_color(color, position)

    add_note_colors(colors, view.theme, (mark.color,), set_color)


def _time_entries(
    view: "TimelineView", menu: QMenu, session: Session, hit: Hit
) -> None:
    """Add the commands of a point in time; on the axis also the time format."""
    trace = session.trace
    if trace is None:
        return
    here = TimeRange(hit.tick, hit.tick)
    absolute = session.display.absolute_time
    text = time_text(trace, hit.tick, absolute=absolute)
    exact = format_exact(hit.tick, trace.clock.unit)
    if absolute:
        exact = format_absolute(hit.tick, trace.clock)
    add_action(menu, "Bookmark here", lambda: session.bookmarks.add("", here))
    subject = Subject(here)
    marked = session.ranges.marked
    if marked is not None and marked.time.contains(hit.tick):
        subject = subject_of_range(session.index, marked)
    note = partial(session.bookmarks.edit_requested.emit, subject)
    text_of_range = "Bookmark range with note…" if subject.is_range else ""
    add_action(menu, text_of_range or "Bookmark here with note…", note)
    if session.ruler.current is not None:
        _ruler_entries(menu, session, trace)
    add_action(menu, f"Copy time ({text})", lambda: copy_text(exact))
    if not hit.on_axis:
        return
    formats = add_menu(menu, "Time format")
    clock = absolute_text(trace.clock)
    clock = clock[:1].upper() + clock[1:]
    for title, is_absolute in (("From start", False), (clock, True)):
        action = add_action(
            formats, title, partial(session.display.set_absolute_time, is_absolute)
        )
        action.setCheckable(True)
        action.setChecked(session.display.absolute_time is is_absolute)


def _pause_entries(
    menu: QMenu, session: Session, noun: str, select: Callable[[], None]
) -> None:
    """Add the commands of a wait or of idle time."""

    def zoom() -> None:
        select()
        session.navigator.fit_selection()

    def mark() -> None:
        select()
        session.navigator.mark_selection()

    add_action(menu, f"Select {noun}", select)
    add_action(menu, f"Zoom to {noun}", zoom)
    add_action(menu, f"Mark {noun}", mark)
    menu.addSeparator()


def _ruler_entries(menu: QMenu, session: Session, trace: Trace) -> None:
    """Add the commands of the ruler."""
    ruler = session.ruler.current
    if ruler is None:
        return
    text = ruler_text(trace, ruler.time, session.ruler.facts)
    add_action(menu, "Copy ruler", lambda: copy_text(text))
    marked = MarkedRange(ruler.time)
    add_action(menu, "Mark ruler range", lambda: session.ranges.set_marked(marked))
    add_action(menu, "Remove ruler", session.ruler.clear)


def _span_entries(
    view: "TimelineView", menu: QMenu, session: Session, hit: Hit
) -> None:
    add = partial(add_action, menu)
    trace = session.trace
    if trace is None:
        return
    span = hit.span
    spans = trace.spans
    time = TimeRange(int(spans.start[span]), int(spans.end[span]))
    name = trace.span_name(span)
    op = trace.op_name(int(spans.op[span]))
    facts = span_facts(trace, span, absolute=session.display.absolute_time)

    def zoom() -> None:
        session.selection.select_span(span, reveal=False)
        session.navigator.fit_selection()

    add(f"Select “{name}”", lambda: session.selection.select_span(span))
    add("Zoom to span", zoom)
    add("Mark its time range", lambda: session.ranges.set_marked(MarkedRange(time)))
    menu.addSeparator()
    if op:
        add(
            f"Show only {op}",
            lambda: session.queries.set_filter(
                replace(session.queries.filter, ops=frozenset({op}))
            ),
        )
    if spans.layer is not None and (layer := int(spans.layer[span])) >= 0:
        add(
            f"Show only layer {layer}",
            lambda: session.queries.set_filter(
                replace(session.queries.filter, layers=frozenset({layer}))
            ),
        )
    if spans.token is not None and (token := int(spans.token[span])) >= 0:
        phases = session.queries.filter.phases
        if spans.phase is not None and numbers_per_phase(trace):
            phases = frozenset({int(spans.phase[span])})
        add(
            f"Show only token {token_text(trace, span)}",
            lambda: session.queries.set_filter(
                replace(
                    session.queries.filter, tokens=frozenset({token}), phases=phases
                )
            ),
        )
    add(f"Find “{name}”", lambda: session.queries.search(name))
    menu.addSeparator()
    add("Copy name", lambda: copy_name(name))
    add("Copy details", lambda: copy_text(_tsv(facts)))
    add("Copy details as Markdown", lambda: copy_text(_markdown(facts)))


def _lane_entries(
    view: "TimelineView", menu: QMenu, session: Session, hit: Hit
) -> None:
    add = partial(add_action, menu)
    box, state = hit.box, session.lanes.state
    if box is None:
        return
    if box.lane is None:
        _group_entries(view, menu, session, box)
        return
    key, title = box.lane.key, box.title

    def pin() -> None:
        pinned = tuple(k for k in state.pinned if k != key)
        if key not in state.pinned:
            pinned = (*pinned, key)
        session.lanes.set_state(replace(state, pinned=pinned))

    verb = "Unpin" if key in state.pinned else "Pin"
    add(f"{verb} “{title}”", pin)
    add(
        f"Hide “{title}”",
        lambda: session.lanes.set_state(replace(state, hidden=state.hidden | {key})),
    )
    _rename_entries(view, menu, session, key)
    for text, factor in (("Larger lane", 1.5), ("Smaller lane", 1 / 1.5)):
        heights = dict(state.heights)
        heights[key] = round(min(6.0, max(0.6, heights.get(key, 1.0) * factor)), 2)
        resized = replace(state, heights=tuple(sorted(heights.items())))
        add(text, partial(session.lanes.set_state, resized))


def _rename_entries(
    view: "TimelineView", menu: QMenu, session: Session, key: str
) -> None:
    """Add the commands that rename a lane or group and reset its name."""
    rename = add_action(
        menu, "Rename…", partial(session.lanes.name_requested.emit, key)
    )
    rename.setShortcut(QKeySequence(Qt.Key.Key_F2))
    # Only displayed: the window's command has this shortcut already.
    rename.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
    if key in dict(session.lanes.state.names):
        add_action(menu, "Reset name", partial(session.lanes.set_title, key, ""))


def _group_entries(
    view: "TimelineView", menu: QMenu, session: Session, box: LaneBox
) -> None:
    """Add the commands of a group: expand, pin, hide, rename."""
    add, state = partial(add_action, menu), session.lanes.state
    verb = "Expand" if box.collapsed else "Collapse"
    add(f"{verb} “{box.title}”", lambda: view.toggle_group(box.group))
    if box.pinned:
        add(
            "Unpin all",
            lambda: session.lanes.set_state(replace(state, pinned=())),
        )
        return
    keys = view.lanes_of_group(box.group)
    pinned = (*state.pinned, *keys)
    add(
        f"Pin “{box.title}”",
        lambda: session.lanes.set_state(replace(state, pinned=pinned)),
        enabled=0 < len(keys) <= _MAX_PINNED,
    )
    hidden = state.hidden | frozenset(keys)
    add(
        f"Hide “{box.title}”",
        lambda: session.lanes.set_state(replace(state, hidden=hidden)),
    )
    _rename_entries(view, menu, session, group_key(box.group))


def _general_entries(view: "TimelineView", menu: QMenu, session: Session) -> None:
    add = partial(add_action, menu)
    state = session.lanes.state
    if state.hidden:
        hidden = menu.addMenu("Show hidden lanes")
        for key in sorted(state.hidden)[:_MAX_LISTED]:
            add_action(
                hidden,
                _title_of(session, key),
                partial(
                    session.lanes.set_state, replace(state, hidden=state.hidden - {key})
                ),
            )
        hidden.addSeparator()
        add_action(
            hidden,
            "All",
            lambda: session.lanes.set_state(replace(state, hidden=frozenset())),
        )
    if session.index is not None:
        groups = frozenset(session.index.lanes.groups)
        add(
            "Expand all groups",
            lambda: session.lanes.set_state(replace(state, collapsed=frozenset())),
        )
        add(
            "Collapse all groups",
            lambda: session.lanes.set_state(replace(state, collapsed=groups)),
        )
    plain = LaneState(names=state.names)
    add("Reset lanes", lambda: session.lanes.set_state(plain))
    menu.addSeparator()
    add("Fit all", session.viewport.fit)
    if session.ranges.marked is not None:
        marked = session.ranges.marked
        add("Zoom to marked range", lambda: session.viewport.set_visible(marked.time))
        add("Clear marked range", lambda: session.ranges.set_marked(None))


def _title_of(session: Session, key: str) -> str:
    names = dict(session.lanes.state.names)
    if key in names:
        return names[key]
    lanes = None if session.index is None else session.index.lanes
    at = -1 if lanes is None else lanes.position(key)
    return key if lanes is None or at < 0 else lanes.titles[at]


def _tsv(facts: tuple[Fact, ...]) -> str:
    return tsv_text([(f.label, f.exact or f.value) for f in facts])


def _markdown(facts: tuple[Fact, ...]) -> str:
    rows = [markdown_row((f.label, f.exact or f.value)) for f in facts]
    return "\n".join(["| field | value |", "| --- | --- |", *rows])
