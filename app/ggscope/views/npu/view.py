"""NPU: engines, bandwidth, banks, stalls and bits; claims beside what is computed."""

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import ClassVar

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QMenu, QVBoxLayout, QWidget

from ggscope.analysis.npu.facts import NpuFacts, npu_facts
from ggscope.analysis.npu.quantisation import OpBits, op_bits
from ggscope.analysis.npu.traffic import traffic_spans
from ggscope.descriptions.npu import (
    TABLES,
    about_text,
    banks_table,
    bits_lines,
    cell_text,
    column_lines,
    engine_lines,
    stall_lines,
    traffic_lines,
    window_lines,
    window_problems,
)
from ggscope.descriptions.spans import exact_time_text
from ggscope.model.selection import MarkedRange, Selection, SpanGroup
from ggscope.model.tables import I64
from ggscope.model.trace import Trace, lane_titles
from ggscope.model.units import TimeRange, format_offset
from ggscope.render.batch import DisplayList
from ggscope.render.colors import ScaleKind
from ggscope.render.export import NOT_MARKED, ExportCommand
from ggscope.render.npu.addresses import access_at, size_text, transfer_at
from ggscope.render.npu.figure import (
    OTHER_RUN,
    NpuOptions,
    compose_npu,
    compose_still,
    draw_npu,
    why_nothing,
)
from ggscope.render.npu.scene import (
    TIMED,
    NpuChart,
    NpuGeometry,
    NpuScene,
    Row,
    RowKind,
)
from ggscope.render.npu.stalls_and_bits import bits_at, stall_at
from ggscope.render.npu.traffic import traffic_at
from ggscope.render.options import export_command
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.canvas import ENTER_KEYS, STEP_KEYS, PaintedView
from ggscope.views.base.safe_text import add_action, set_tip
from ggscope.views.base.text_table import Heading, TextTable, TextTableModel
from ggscope.views.base.widgets import ControlRow, combo_box, lay_out
from ggscope.views.npu.gestures import NpuGestures
from ggscope.views.npu.other_run import OtherRun
from ggscope.views.npu.tables import headings, table_cell

_KEY, _OTHER_KEY = "npu", "npu other"
_MAX_HIGHLIGHTED = 100_000
"""Spans of a window or stall that are highlighted; of more the first ones."""
_MAX_ROWS = 2000
_CHARTS: tuple[tuple[str, NpuChart], ...] = (
    ("over time", "time"),
    ("addresses", "addresses"),
    ("stalls", "stalls"),
    ("quantisation", "bits"),
    ("traffic per token", "traffic"),
)
_STEPS = {**STEP_KEYS, Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the pane has selected, and the selection that it made of it.

    Attributes
    ----------
    kind : "row", "window", "stall" or "bits".
    number : of it.
    """

    kind: str
    number: int
    selection: Selection


class NpuView(PaintedView):
    """Pictures of an NPU over the timeline's time, and tables beside them.

    Attributes
    ----------
    facts : what is shown; None before it is computed.
    """

    draw_scene = staticmethod(compose_npu)
    draw_figure = staticmethod(draw_npu)
    needs_whole_trace = True
    no_trace_text = ("No trace is open.", "")
    passing: ClassVar = {"hover": -1, "cursor_tick": None}
    keys = (*_STEPS, *ENTER_KEYS)

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("NPU", session, theme, parent)
        self.setObjectName("npu")
        self.facts: NpuFacts | None = None
        self._of: Trace | None = None
        self._hover = -1
        self._scroll = 0.0
        self._chosen: Chosen | None = None
        self._still: tuple[tuple[object, ...], DisplayList] | None = None
        self._gestures = NpuGestures(self)
        self.controls = ControlRow(self)
        self.chart_box = self.controls.add_choice(
            "show", _CHARTS, "Which picture", self._on_chart
        )
        rates = (("linear", ScaleKind.LINEAR), ("log", ScaleKind.LOG))
        self.rates_box = self.controls.add_choice(
            "rates", rates, "Scale of bandwidth", self.repaint_picture
        )
        self.other_box = self.controls.add_choice(
            "against",
            (("no other run", None),),
            "Another open run, as rings beside the points of this one",
            lambda: None,
        )
        self._other = OtherRun(session, self.other_box, self._on_other)
        self._other_bits: tuple[OpBits, ...] = ()
        self.model = TextTableModel((), self)
        self.table = TextTable(self.model, self, "npu", keeps_first=True)
        self.table.setAccessibleName("Tables of the NPU")
        self.table.clicked.connect(self._on_row)
        self.table.selectionModel().selectionChanged.connect(self._on_row)
        self.table.row_opened.connect(self._on_row_opened)
        side = QWidget(self)
        names = [(name, name) for name in TABLES]
        self.table_box = combo_box(side, "Table", names, tip="Which table")
        self.table_box.currentIndexChanged.connect(self._show_rows)
        lay_out(QVBoxLayout(side), self.table_box, self.table, wide=self.table)
        self._side = side
        split = self.split_with(side)
        split.setSizes([600, 400])
        self.box.addWidget(self.controls)
        self.box.addWidget(split, 1)
        self.set_theme(theme)
        self.connect_until_release(
            (session.selection.changed, self._on_selection),
            (session.viewport.changed, self.repaint_picture),
            (session.viewport.cursor_changed, self.repaint_picture),
            (session.ranges.marked_changed, self.repaint_picture),
            (session.display.absolute_time_changed, self.repaint_picture),
            (self._other.tabs.changed, self._other.list_tabs),
        )
        self._on_chart()

    # -- session -------------------------------------------------------------------

    def forget(self) -> None:
        """Show nothing."""
        self._show(None, None)

    def compute(self, trace: Trace) -> None:
        """Measure on a worker."""
        if trace is not self._of and not trace.is_running:
            self.forget()
        self.run(
            _KEY, partial(_facts_of, trace), partial(self._show, trace),
            "Measuring engines, bandwidth and banks",
        )  # fmt: skip

    def _show(self, trace: Trace | None, facts: NpuFacts | None) -> None:
        if facts is not None and not facts.has_any:
            facts = None
        self._of, self.facts = trace, facts
        self._hover, self._chosen, self._scroll = -1, None, 0.0
        self._still = None
        text = about_text(trace, facts) if trace is not None and facts else ""
        self.controls.message.setText(text)
        problems = [] if trace is None else window_problems(trace)
        set_tip(self.controls.message, "\n".join([text, *problems]))
        self._side.setVisible(facts is not None)
        self._show_rows()
        self.repaint_picture()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.controls.set_theme(theme)
        self.table.set_theme(theme)
        self._show_rows()

    def _on_selection(self, selection: Selection) -> None:
        if self._chosen is not None and selection != self._chosen.selection:
            self._chosen = None
        self.repaint_picture()

    def _on_chart(self) -> None:
        self._hover, self._scroll = -1, 0.0
        tables: dict[NpuChart, str] = {
            "stalls": "stalls", "bits": "bits", "traffic": "traffic",
        }  # fmt: skip
        self.rates_box.setEnabled(self.chart == "time")
        self._other.list_tabs()
        self.other_box.setEnabled(self.chart == "bits")
        if name := tables.get(self.chart):
            self.table_box.setCurrentText(name)
        self.repaint_picture()

    def _on_other(self) -> None:
        """Measure the run that is drawn beside this one, on a worker."""
        trace = self._other.trace
        self._show_other(())
        if trace is not None:
            self.run(
                _OTHER_KEY, partial(_bits_of, trace), self._show_other,
                "Measuring ops by bits of the other run",
            )  # fmt: skip
        else:
            self.cancel(_OTHER_KEY)

    def _show_other(self, bits: tuple[OpBits, ...]) -> None:
        self._other_bits = bits
        self.repaint_picture()

    @property
    def chart(self) -> NpuChart:
        """Which picture is shown."""
        chart: NpuChart = self.chart_box.currentData()
        return chart

    # -- picture -------------------------------------------------------------------

    def scene(self, width: float, height: float, scale: float) -> NpuScene | None:
        """Return everything that the picture depends on; None without any."""
        session, facts, trace = self.session, self.facts, self._of
        if facts is None or trace is None:
            return None
        marked = session.ranges.marked
        scene = NpuScene(
            trace=trace,
            facts=facts,
            visible=session.viewport.visible,
            width=width,
            height=height,
            theme=self.theme,
            chart=self.chart,
            scale_kind=self.rates_box.currentData(),
            scale=scale,
            scroll=self._scroll,
            cursor_tick=session.viewport.cursor_tick,
            marked=None if marked is None else marked.time,
            hover=self._hover,
            selected=self._highlighted(),
            others=self._other_bits,
            other_title=self._other.title,
            absolute=session.display.absolute_time,
        )
        return None if why_nothing(scene) else scene

    def compose(self, width: float, height: float, scale: float) -> DisplayList | None:
        """Return the picture; while only mouse and selection change rows are reused."""
        scene = self.scene(width, height, scale)
        if scene is None or scene.chart not in TIMED:
            return None if scene is None else compose_npu(scene)
        key = replace(scene, hover=-1, cursor_tick=None, marked=None, selected=-1)
        values = tuple(getattr(key, f.name) for f in fields(key))
        if self._still is None or self._still[0] != values:
            self._still = values, compose_still(key)
        return compose_npu(scene, self._still[1])

    def _highlighted(self) -> int:
        """Return what is selected of the things in the picture; -1 = none."""
        kinds = {
            "time": "row", "stalls": "stall", "bits": "bits", "traffic": "token",
        }  # fmt: skip
        chosen = self._chosen
        is_here = chosen is not None and chosen.kind == kinds.get(self.chart)
        return chosen.number if chosen is not None and is_here else -1

    def recipe(self, trace: Trace, scene: NpuScene) -> ExportCommand:
        """Return the command line that makes the figure of a scene."""
        whole = scene.visible == trace.extent or scene.chart not in TIMED
        options = NpuOptions(
            chart=scene.chart,
            rates=scene.scale_kind.value,
            visible=None if whole else scene.visible,
            absolute=scene.absolute,
        )
        is_marked = scene.selected >= 0 or scene.marked is not None
        lacks = [NOT_MARKED] if is_marked else []
        if scene.others and scene.chart == "bits":
            lacks.append(OTHER_RUN)
        return export_command("npu", trace, options, lacks)

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no picture."""
        if trace.is_unread or self.is_computing(_KEY):
            return "Measuring…", ""
        if self.facts is None:
            return (
                "No NPU in this trace",
                "Traces of NPU simulators (JSON) record engines, bandwidth and memory.",
            )
        facts, time = self.facts, self.session.viewport.visible
        scene = NpuScene(
            trace, facts, time, 600, 300, self.theme, self.chart
        )  # fmt: skip
        return why_nothing(scene).rstrip("."), ""

    def geometry_now(self) -> NpuGeometry | None:
        """Return where things lie; None without a picture with a time axis."""
        scene = self.scene_now()
        if scene is None or scene.chart not in TIMED:
            return None
        return NpuGeometry(scene)

    def scroll_by(self, by: float) -> None:
        """Scroll rows by pixels, or bars by one."""
        scene = self.scene_now()
        if scene is None:
            return
        max_scroll = 0.0
        if scene.chart == "time":
            max_scroll = NpuGeometry(scene).max_scroll
        elif scene.chart == "stalls":
            max_scroll, by = (
                max(len(scene.facts.stalls) - 1, 0),
                1.0 if by > 0 else -1.0,
            )
        self._scroll = min(max(self._scroll + by, 0.0), max_scroll)
        self.repaint_picture()

    # -- things ----------------------------------------------------------------------

    def thing_at(self, x: float, y: float) -> int:
        """Return the row, stall or point at a position; -1 = none."""
        scene = self.scene_now()
        if scene is None:
            return -1
        if scene.chart == "time":
            return NpuGeometry(scene).row_at(x, y)
        if scene.chart == "stalls":
            return stall_at(scene, y)
        if scene.chart == "traffic":
            return traffic_at(scene, x, y)
        return bits_at(scene, x, y) if scene.chart == "bits" else -1

    def point_to(self, thing: int) -> None:
        """Light what is under the mouse, -1 for nothing."""
        if thing != self._hover:
            self._hover = thing
            self.repaint_picture()

    def click(self, x: float, y: float) -> None:
        """Select what lies at a position: highlights its spans, moves the timeline."""
        scene = self.scene_now()
        if scene is None:
            return
        thing = self.thing_at(x, y)
        if scene.chart == "stalls":
            self.select_stall(thing)
        elif scene.chart == "bits":
            self.select_bits(thing)
        elif scene.chart == "traffic":
            self.select_token(thing)
        elif scene.chart == "addresses":
            self._select_access(scene, x, y)
        elif thing >= 0:
            self.select_row(thing, NpuGeometry(scene).tick_at(x))

    def select_row(self, number: int, tick: int | None = None) -> None:
        """Select what a row shows at a tick, or all of it without one.

        Of an engine that is the span, else the stall, that lasts then; of a channel the
        window, of a bank the transfer.
        """
        geometry = self.geometry_now()
        if geometry is None or not 0 <= number < len(geometry.rows):
            return
        row = geometry.rows[number]
        if row.kind in (RowKind.CHANNEL, RowKind.PROFILE):
            self._select_channel(number, tick)
            return
        span = -1 if tick is None else self._span_at(row, tick)
        if span >= 0:
            self.session.selection.select_span(span)
            self._remember("row", number)
            return
        group = self._group_of(row)
        if group is not None:
            self.session.selection.select_group(group)
        elif row.kind is RowKind.ENGINE:
            self._select_spans(self._spans_of(row))
        self._remember("row", number)
        self._describe(self._row_lines(row))

    def select_window(self, number: int) -> None:
        """Select the spans of engines in a window, mark it, and bring it into view."""
        facts, trace = self.facts, self._of
        if facts is None or trace is None or not 0 <= number < len(facts.bandwidth):
            return
        time = facts.bandwidth.range_of(number)
        spans = trace.spans
        is_engine = trace.lanes.is_engine[spans.lane.astype(np.int64)]
        inside = (spans.end > time.start) & (spans.start < time.end)
        self._select_spans(np.flatnonzero(is_engine & inside))
        self.session.ranges.set_marked(MarkedRange(time))
        self.session.viewport.bring_into_view(time)
        self._remember("window", number)
        self._describe(window_lines(trace, facts.bandwidth, number))

    def select_stall(self, number: int) -> None:
        """Select the stalls of an engine for one reason, and show the longest."""
        facts, trace = self.facts, self._of
        if facts is None or trace is None or not 0 <= number < len(facts.stalls):
            return
        stall = facts.stalls[number]
        self._select_spans(stall.spans)
        spans = trace.spans
        longest = stall.spans[
            np.argmax(spans.end[stall.spans] - spans.start[stall.spans])
        ]
        self._bring(int(longest))
        self._remember("stall", number)
        self._describe(stall_lines(trace, facts, stall))

    def select_bits(self, number: int) -> None:
        """Select the spans of an op with values of so many bits."""
        facts, trace = self.facts, self._of
        if facts is None or trace is None or not 0 <= number < len(facts.bits):
            return
        point = facts.bits[number]
        ids = tuple(point.spans[:_MAX_HIGHLIGHTED].tolist())
        self.session.selection.select_group(SpanGroup("op", point.op, ids=ids))
        self._bring(int(point.spans[0]))
        self._remember("bits", number)
        self._describe(bits_lines(trace, point))

    def select_token(self, number: int) -> None:
        """Select the spans that move something for a token."""
        facts, trace = self.facts, self._of
        if facts is None or trace is None or not 0 <= number < len(facts.traffic):
            return
        spans = traffic_spans(trace, int(facts.traffic.tokens[number]))
        self._select_spans(spans)
        if len(spans):
            self._bring(int(spans[0]))
        self._remember("token", number)
        self._describe(traffic_lines(facts, number))

    def show_chosen(self) -> None:
        """Fit the timeline to what is selected: a window, else the longest span."""
        chosen, facts = self._chosen, self.facts
        if chosen is not None and chosen.kind == "window" and facts is not None:
            time = facts.bandwidth.range_of(chosen.number)
            self.session.viewport.set_visible(time.padded(max(time.duration // 4, 8)))
        elif self.session.selection.current.table == "groups":
            self.session.linking.show_longest()
        elif self.session.selection.current:
            self.session.navigator.fit_selection()

    def _select_channel(self, number: int, tick: int | None) -> None:
        facts = self.facts
        assert facts is not None  # there is a row
        if tick is not None:
            at = facts.bandwidth.at(tick)
            if len(at):
                self.select_window(int(at[-1]))
        else:
            high = facts.bandwidth.high()
            self.select_window(int(high[0]) if len(high) else 0)

    def _select_access(self, scene: NpuScene, x: float, y: float) -> None:
        span = transfer_at(scene, x, y)
        access = access_at(scene, x, y)
        if access is not None and access[1] >= 0:
            plot, number = access
            of = scene.facts.memory
            accesses = of.spm if plot.memory == "SPM" else of.dram
            row = int(accesses.row[number])
            span = int(scene.trace.accesses.loose.span[row])
            tick = int(accesses.time[number])
            self.session.viewport.bring_into_view(TimeRange(tick, tick + 1))
        if span >= 0:
            self.session.selection.select_span(span)

    def _span_at(self, row: Row, tick: int) -> int:
        """Return the span of a row that lasts at a tick, the shortest; -1 = none."""
        trace = self._of
        assert trace is not None  # there is a row
        spans, ids = trace.spans, self._spans_of(row)
        here = ids[(spans.start[ids] <= tick) & (tick < spans.end[ids])]
        if not len(here):
            return -1
        return int(here[np.argmin(spans.end[here] - spans.start[here])])

    def _spans_of(self, row: Row) -> I64:
        """Return the spans, and stalls, that a row shows."""
        facts, trace = self.facts, self._of
        assert facts is not None  # there is a row
        assert trace is not None
        if row.kind is RowKind.BANK:
            transfers = facts.memory.transfers
            of_bank: I64 = transfers.span[transfers.bank == row.number]
            return of_bank
        lanes = (facts.engines.lane[row.number], facts.engines.stall_lane[row.number])
        lanes_there = [lane for lane in lanes if lane >= 0]
        ids: I64 = np.flatnonzero(np.isin(trace.spans.lane, lanes_there))
        return ids

    def _group_of(self, row: Row) -> SpanGroup | None:
        """Return the spans of a row as a group of statistics; None where it is none."""
        facts, trace = self.facts, self._of
        assert facts is not None  # there is a row
        assert trace is not None
        if row.kind is RowKind.BANK:
            return SpanGroup("bank", str(row.number))
        lane = int(facts.engines.lane[row.number])
        if lane < 0:
            return None
        return SpanGroup("engine", lane_titles(trace.lanes)[lane])

    def _select_spans(self, ids: I64) -> None:
        chosen = tuple(ids[:_MAX_HIGHLIGHTED].tolist())
        self.session.selection.select(
            Selection("spans", chosen) if chosen else Selection()
        )

    def _bring(self, span: int) -> None:
        """Move the timeline to a span."""
        trace = self._of
        assert trace is not None  # it has the span
        start, end = int(trace.spans.start[span]), int(trace.spans.end[span])
        self.session.viewport.bring_into_view(TimeRange(start, end))

    def _remember(self, kind: str, number: int) -> None:
        self._chosen = Chosen(kind, number, self.session.selection.current)
        self.repaint_picture()

    def _describe(self, lines: list[str]) -> None:
        self.setAccessibleDescription(". ".join(lines))

    # -- table -----------------------------------------------------------------------

    def _show_rows(self, _: object = None) -> None:
        facts, trace = self.facts, self._of
        if facts is None or trace is None:
            self.model.set_rows(())
            return
        listed = TABLES[self.table_box.currentData()](trace, facts)
        if not listed.rows:
            self.model.set_headings((Heading("not recorded", stretch=True),))
            self.model.set_rows(())
            return
        self.model.set_headings(headings(trace, listed))
        rows = [
            tuple(
                table_cell(trace, facts, listed, (i, title), value, self.theme)
                for (title, _), value in zip(listed.head, row, strict=True)
            )
            for i, row in enumerate(listed.rows[:_MAX_ROWS])
        ]
        n_more = len(listed.rows) - len(rows)
        self.model.set_rows(rows, payloads=range(len(rows)), n_left_out=n_more)
        self.table.fit_columns()

    def _on_row(self, *_: object) -> None:
        rows = self.table.selected_rows()
        number = self.model.payload(rows[0]) if len(rows) == 1 else -1
        if not isinstance(number, int) or number < 0:
            return
        name = self.table_box.currentData()
        if name == "stalls":
            self.select_stall(number)
        elif name == "windows":
            self.select_window(number)
        elif name == "bits":
            self.select_bits(number)
        elif name == "traffic":
            self.select_token(number)
        elif name in ("engines", "banks"):
            self._select_listed(
                RowKind.ENGINE if name == "engines" else RowKind.BANK, number
            )

    def _select_listed(self, kind: RowKind, number: int) -> None:
        """Select an engine or a bank of the table."""
        row = Row(kind, "", number)
        group = self._group_of(row)
        if group is not None:
            self.session.selection.select_group(group)
        else:
            self._select_spans(self._spans_of(row))
        geometry = self.geometry_now()
        if geometry is not None and self.chart == "time":
            matches = [
                i
                for i, other in enumerate(geometry.rows)
                if (other.kind, other.number) == (kind, number)
            ]
            if matches:
                self._remember("row", matches[0])

    def _on_row_opened(self, _: int) -> None:
        self._on_row()
        self.show_chosen()

    # -- input -------------------------------------------------------------------------

    def press_key(self, event: QKeyEvent) -> None:
        """Step through rows and windows, stalls or points; show what is selected."""
        key = Qt.Key(event.key())
        if key in ENTER_KEYS:
            self.show_chosen()
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right) and self.chart == "time":
            self.step_window(STEP_KEYS[key])
        else:
            self.step(_STEPS[key])

    def step(self, by: int) -> None:
        """Select the row, stall or point that many further."""
        scene = self.scene_now()
        if scene is None:
            return
        things, now = self._things(scene), self._highlighted()
        if not things:
            return
        outside = -1 if by > 0 else len(things)
        at = (things.index(now) if now in things else outside) + by
        at = min(max(at, 0), len(things) - 1)
        select = {
            "stalls": self.select_stall,
            "bits": self.select_bits,
            "traffic": self.select_token,
        }
        select.get(scene.chart, self.select_row)(things[at])

    def _things(self, scene: NpuScene) -> list[int]:
        if scene.chart == "stalls":
            return list(range(len(scene.facts.stalls)))
        if scene.chart == "bits":
            return list(range(len(scene.facts.bits)))
        if scene.chart == "traffic":
            return list(range(len(scene.facts.traffic)))
        if scene.chart != "time":
            return []
        kinds = (RowKind.ENGINE, RowKind.BANK)
        rows = NpuGeometry(scene).rows
        return [i for i, row in enumerate(rows) if row.kind in kinds]

    def step_window(self, by: int) -> None:
        """Select the next or previous bandwidth window."""
        facts = self.facts
        if facts is None or not len(facts.bandwidth):
            return
        chosen = self._chosen
        if chosen is not None and chosen.kind == "window":
            at = chosen.number + by
        else:
            start = self.session.viewport.visible.start
            at = int(np.searchsorted(facts.bandwidth.time, start))
        self.select_window(min(max(at, 0), len(facts.bandwidth) - 1))

    # -- words -------------------------------------------------------------------------

    def _row_lines(self, row: Row) -> list[str]:
        facts, trace = self.facts, self._of
        assert facts is not None  # there is a row
        assert trace is not None
        if row.kind is RowKind.ENGINE:
            return engine_lines(trace, facts, row.number)
        listed = banks_table(facts)
        cells = zip(listed.head, listed.rows[row.number], strict=True)
        return [f"{title}: {cell_text(trace, title, v)}" for (title, _), v in cells]

    def tooltip_at(self, x: float, y: float) -> str:
        """Return what is known of what lies at a position."""
        scene, trace, facts = self.scene_now(), self._of, self.facts
        if scene is None or trace is None or facts is None:
            return ""
        thing = self.thing_at(x, y)
        if scene.chart == "addresses":
            return "\n".join(self._access_lines(scene, x, y))
        if thing < 0:
            return ""
        if scene.chart == "stalls":
            return "\n".join(stall_lines(trace, facts, facts.stalls[thing]))
        if scene.chart == "bits":
            return "\n".join(bits_lines(trace, facts.bits[thing]))
        if scene.chart == "traffic":
            return "\n".join(traffic_lines(facts, thing))
        geometry = NpuGeometry(scene)
        row, tick = geometry.rows[thing], geometry.tick_at(x)
        if row.kind in (RowKind.CHANNEL, RowKind.PROFILE):
            at = [] if tick is None else facts.bandwidth.at(tick).tolist()
            lines = [window_lines(trace, facts.bandwidth, i) for i in at[:3]]
            return "\n".join("\n".join(part) for part in lines) or "no window here"
        lines_of_row = self._row_lines(row)
        if row.kind is RowKind.ENGINE and tick is not None:
            column = int(np.searchsorted(geometry.begin, tick, "right")) - 1
            begin, stop = int(geometry.begin[column]), int(geometry.stop[column])
            lines_of_row += column_lines(trace, facts, row.number, begin, stop)
        return "\n".join(lines_of_row)

    def _access_lines(self, scene: NpuScene, x: float, y: float) -> list[str]:
        access = access_at(scene, x, y)
        if access is None:
            return []
        plot, number = access
        if number < 0:
            span = transfer_at(scene, x, y)
            if span < 0:
                return []
            transfers = scene.facts.memory.transfers
            i = int(np.flatnonzero(transfers.span == span)[0])
            name = int(scene.trace.spans.name[span])
            offset = int(transfers.offset[i])
            place = format_offset(offset) if offset >= 0 else "not stated"
            return [
                scene.trace.strings[name] if name >= 0 else "transfer",
                f"bank {int(transfers.bank[i])}, offset {place}",
                size_text(int(transfers.size[i])),
            ]
        memory = scene.facts.memory
        of = memory.spm if plot.memory == "SPM" else memory.dram
        direction = "write" if of.is_write[number] else "read"
        lines = [
            f"{direction} of {plot.memory} at {format_offset(int(of.address[number]))}",
            size_text(int(of.size[number])),
            exact_time_text(scene.trace, int(of.time[number])),
        ]
        bank = int(memory.bank_of(of.address[number : number + 1])[0])
        return [*lines, f"bank {bank}"] if plot.memory == "SPM" and bank >= 0 else lines

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a position."""
        scene = self.scene_now()
        if scene is None or (self.thing_at(x, y) < 0 and scene.chart != "addresses"):
            return None
        menu = QMenu(self)
        add_action(menu, "Select its spans", partial(self.click, x, y))

        def show() -> None:
            self.click(x, y)
            self.show_chosen()

        add_action(menu, "Show in the timeline", show)
        return menu


def _bits_of(trace: Trace, context: TaskContext) -> tuple[OpBits, ...]:
    context.check_cancelled()
    return op_bits(trace)


def _facts_of(trace: Trace, context: TaskContext) -> NpuFacts:
    context.check_cancelled()
    return npu_facts(trace)
