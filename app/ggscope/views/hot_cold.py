"""Hot and cold: which tensors a run reads most, and which it never touches."""

from dataclasses import replace
from functools import partial
from typing import ClassVar, cast

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QMenu, QWidget

from ggscope.analysis.reads.hot_cold import HotCold, hot_cold
from ggscope.analysis.reads.hotness import GROUP_BY, GroupBy, Ranking
from ggscope.descriptions.counting import READ_UNRECORDED, known_bytes, moved_text
from ggscope.descriptions.reads import (
    HotFact,
    hot_facts,
    names_tensors,
    no_accesses_text,
)
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_both_bytes,
    format_count,
    format_duration,
    format_offset,
)
from ggscope.render.batch import DisplayList
from ggscope.render.charts import BAR_HEIGHT, ChartGeometry, bar_at
from ggscope.render.export import ExportCommand
from ggscope.render.grid import GridGeometry
from ggscope.render.options import export_command
from ggscope.render.reads import (
    HotOptions,
    HotPicture,
    HotScene,
    bars_of,
    chart_of,
    compose_hot,
    draw_hot,
    layers_scene,
    ranked,
)
from ggscope.render.theme import Theme, css
from ggscope.sanitize import Value, html, join_html
from ggscope.session.session import Session
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.cells import CopyForm, TableFile, to_tsv
from ggscope.views.base.copying import Copyable
from ggscope.views.base.safe_text import copy_name, copy_text
from ggscope.views.base.widgets import ControlRow, TextBeside

_KEY = "hot_cold"
_TITLES = (
    "name",
    "accesses",
    "possible further accesses",
    "bytes",
    "unknown bytes, at most",
    "size (bytes)",
    "members read by ops without a record",
)


class HotColdView(Copyable, PaintedView):
    """A ranking or a chart, with a list of facts beside it."""

    draw_scene = staticmethod(compose_hot)
    needs_whole_trace = True
    draw_figure = staticmethod(draw_hot)
    passing: ClassVar = {"hover": -1, "hover_at": None}

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Hot and cold tensors", session, theme, parent)
        self.result: HotCold | None = None
        self._of: Trace | None = None
        self._groups: Ranking | None = None
        self._time: TimeRange | None = None
        self._scroll = 0
        self._hover = -1
        self._hover_at: tuple[float, float] | None = None
        self._rest = 0
        self.setObjectName("hot")
        self.controls = ControlRow(self)
        self._make_controls()
        self.beside = TextBeside(self.canvas, "Facts", self)
        self.facts = self.beside.message
        self.box.insertWidget(0, self.beside, 1)
        self.box.insertWidget(0, self.controls)
        self.set_theme(theme)
        self.connect_until_release(
            (session.selection.changed, self.repaint_picture),
            (session.linking.linked_changed, self.repaint_picture),
            (session.ranges.marked_changed, self._on_marked),
        )

    def _make_controls(self) -> None:
        row, changed = self.controls, self._on_choice
        pictures = (
            ("hottest", "ranking"),
            ("never accessed", "cold"),
            ("coverage", "coverage"),
            ("share by file offset", "place"),
            ("jumps", "jumps"),
            ("layers by tokens", "layers"),
            ("KV cache per token", "kv"),
        )
        self.picture_box = row.add_choice("show", pictures, "Chart", changed)
        names = {
            "tensor": "tensor",
            "layer": "layer",
            "component": "component",
            "expert": "expert slice",
        }
        self.by_box = row.add_choice(
            "by",
            [(names[by], by) for by in GROUP_BY],
            "Rows of the ranking",
            changed,
        )
        measures = (
            ("bytes", "bytes"),
            ("accesses", "accesses"),
            ("time (layers by tokens)", "time"),
        )
        self.measure_box = row.add_choice("", measures, "Measure of heat", changed)
        self.all_box = row.add_switch(
            "include runtime tensors",
            "Activations and the KV cache as well as the model file",
            changed,
        )
        self.range_box = row.add_switch(
            "marked range only",
            "Only ops that start in the marked range",
            self.invalidate,
        )
        row.add_button("Copy", "Copy ranking and facts as text", self.copy_tsv)

    # -- session ---------------------------------------------------------------

    def forget(self) -> None:
        """Show no counts."""
        self._show(None, None)

    def compute(self, trace: Trace) -> None:
        """Count on a worker."""
        if not self.is_of(self._of):
            self.forget()
        marked = self.session.ranges.marked
        wants_range = self.range_box.isChecked() and marked is not None
        self._time = marked.time if wants_range and marked is not None else None
        self.run(
            _KEY,
            partial(hot_cold, trace, self._time),
            partial(self._show, trace),
            "Counting tensor accesses",
        )

    def _show(self, trace: Trace | None, result: HotCold | None) -> None:
        self.result, self._of = result, trace
        self._groups = None
        self._scroll = 0
        self._say()
        self.repaint_picture()

    def _on_marked(self, _: object) -> None:
        if self.range_box.isChecked():
            self.invalidate()

    def _on_choice(self) -> None:
        is_ranking = self._picture() == "ranking"
        self.by_box.setEnabled(is_ranking or self._picture() == "cold")
        self.all_box.setEnabled(is_ranking)
        measured = ("ranking", "coverage", "place", "layers")
        self.measure_box.setEnabled(self._picture() in measured)
        self._groups, self._scroll, self._hover = None, 0, -1
        self._hover_at = None
        self.repaint_picture()

    def _picture(self) -> HotPicture:
        return cast("HotPicture", self.picture_box.currentData())

    # -- text -----------------------------------------------------------------

    def current_facts(self) -> tuple[HotFact, ...]:
        """Return the facts of the shown chart."""
        trace = self.session.trace
        if trace is None or self.result is None or not self.is_of(self._of):
            return ()
        return hot_facts(trace, self.result)

    def _say(self) -> None:
        dim, faint = css(self.theme.dim), css(self.theme.faint)
        lines = [
            html(
                "<p style='margin:0 0 6px 0'><span style='color:{}'>{}</span>"
                "<br>{}{}</p>",
                dim,
                fact.title,
                fact.text,
                html("<br><span style='color:{}'>{}</span>", faint, fact.remark)
                if fact.remark
                else "",
            )
            for fact in self.current_facts()
        ]
        self.beside.say(join_html(lines))
        scope = ""
        if self._time is not None:
            scope = "marked range"
        self.controls.message.setText(scope)

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no chart: a title and a hint."""
        if trace.is_unread or self.is_computing(_KEY):
            return "Counting accesses…", ""
        if names_tensors(trace):
            return (
                "Nothing to show",
                "The recorded accesses have no data for this chart.",
            )
        return no_accesses_text(trace)

    def copy_rows(self, form: CopyForm) -> None:
        """Copy the ranking, for a spreadsheet with the facts; else these alone."""
        rows = self._rows()
        if rows and form == "markdown":
            super().copy_rows(form)
            return
        lines = [
            f"{f.title}: {f.text}" + (f" ({f.remark})" if f.remark else "")
            for f in self.current_facts()
        ]
        if rows:
            lines += ["", to_tsv(_TITLES, rows).rstrip("\n")]
        copy_text("\n".join(lines))

    def table_file(self) -> TableFile | None:
        """Return the ranking for a file; None of another picture."""
        return TableFile.of("ranking", _TITLES, self._rows())

    def _rows(self) -> list[tuple[Value, ...]]:
        """Return the rows of the ranking as numbers, with unknown amounts."""
        scene = self.scene(800, 600, 1)
        if scene is None or not self._is_list(scene):
            return []
        g = self._ranked(scene)
        n_bytes = map(known_bytes, g.bytes.tolist(), g.unsized.tolist())
        before, behind = (g.accesses, g.maybe), (g.unknown, g.size, g.unrecorded)
        columns = (
            *(c.tolist() for c in before), n_bytes, *(c.tolist() for c in behind)
        )  # fmt: skip
        return list(zip(g.keys, *columns, strict=True))

    def _save(self) -> None:
        self.table_requested.emit(self.table_file())

    # -- picture ---------------------------------------------------------------

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.controls.set_theme(theme)
        self.beside.set_theme(theme)
        self._say()

    def scene(self, width: float, height: float, scale: float) -> HotScene | None:
        """Return the scene of the chart; None until accesses are counted."""
        session, result = self.session, self.result
        if session.trace is None or result is None or not self.is_of(self._of):
            return None
        selection = session.selection.current
        highlighted = selection.ids if selection.table == "tensors" else ()
        if not highlighted and selection:
            highlighted = tuple(session.linking.linked.tensors.tolist())
        return HotScene(
            session.trace, result, width, height, self.theme, scale, self._picture(),
            cast("GroupBy", self.by_box.currentData()),
            self.measure_box.currentData(), not self.all_box.isChecked(),
            frozenset(highlighted), self._scroll, self._hover, self._hover_at,
        )  # fmt: skip

    def recipe(self, trace: Trace, scene: HotScene) -> ExportCommand:
        """Return the command line that makes the figure of a scene."""
        lacks = () if not scene.scroll else ("The command starts with the first row.",)
        options = HotOptions(
            picture=scene.picture, by=scene.by, measure=scene.measure,
            only_file=scene.only_file, scale=scene.scale_kind, visible=self._time,
        )  # fmt: skip
        return export_command("hot", trace, options, lacks)

    @staticmethod
    def _is_list(scene: HotScene) -> bool:
        return scene.picture in ("ranking", "cold")

    def _ranked(self, scene: HotScene) -> Ranking:
        if self._groups is None:
            self._groups = ranked(scene)
        return self._groups

    def compose(self, width: float, height: float, scale: float) -> DisplayList | None:
        """Return the ranking or the chart."""
        scene = self.scene(width, height, scale)
        if scene is None or not self._has_anything(scene):
            return None
        return compose_hot(scene, self._ranked(scene) if self._is_list(scene) else None)

    def _has_anything(self, scene: HotScene) -> bool:
        if scene.picture == "layers":
            return bool(scene.hot_cold.layers.ops.size)
        if scene.picture == "kv":
            return len(scene.hot_cold.kv.tokens) > 0
        if self._is_list(scene):  # without accesses 0 bytes would be a claim
            return names_tensors(scene.trace) and len(self._ranked(scene)) > 0
        return bool(scene.hot_cold.heat.unit_accesses.any())

    # -- input -----------------------------------------------------------------

    def _bar_at(self, y: float) -> int:
        scene = self.scene_now()
        if scene is None or not self._is_list(scene):
            return -1
        return bar_at(bars_of(scene, self._ranked(scene)), y)

    def pointer_event(self, event: QEvent) -> bool:
        """Hover, select and scroll."""
        if event.type() == QEvent.Type.Leave:
            self._hover, self._hover_at = -1, None
            self.repaint_picture()
            return True
        if isinstance(event, QWheelEvent):
            self._rest += event.angleDelta().y()
            steps, self._rest = -(self._rest // 40), self._rest % 40
            self._scroll_by(steps)
            return True
        if not isinstance(event, QMouseEvent):
            return False
        at = self.position_of(event)
        if event.type() == QEvent.Type.MouseMove:
            self._hover = self._bar_at(at.y())
            self._hover_at = self._value_at(at.x(), at.y())
            self.repaint_picture()
        elif (
            event.type() == QEvent.Type.MouseButtonPress
            and event.button() == Qt.MouseButton.LeftButton
        ):
            self._select(self._bar_at(at.y()))
        return True

    def _value_at(self, x: float, y: float) -> tuple[float, float] | None:
        scene = self.scene_now()
        if scene is None or self._is_list(scene) or scene.picture == "layers":
            return None
        return ChartGeometry(chart_of(scene)).value_at(x, y)

    def _scroll_by(self, steps: int) -> None:
        scene = self.scene_now()
        if scene is None or not self._is_list(scene):
            return
        fits = max(int(self.canvas_size().height() / BAR_HEIGHT) - 1, 1)
        last = max(len(self._ranked(scene)) - fits, 0)
        self._scroll = min(max(self._scroll + steps, 0), last)
        self.repaint_picture()

    def _select(self, bar: int) -> None:
        scene = self.scene_now()
        if scene is None or bar < 0:
            return
        tensor = int(self._ranked(scene).tensor[bar])
        if tensor >= 0:
            self.session.selection.select(Selection("tensors", (tensor,)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Scroll by arrows and pages; copy."""
        page = max(int(self.canvas_size().height() / BAR_HEIGHT) - 1, 1)
        steps = {
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_PageDown: page,
            Qt.Key.Key_PageUp: -page,
            Qt.Key.Key_Home: -(1 << 30),
            Qt.Key.Key_End: 1 << 30,
        }.get(Qt.Key(event.key()))
        if steps is None:
            super().keyPressEvent(event)
            return
        self._scroll_by(steps)

    def tooltip_at(self, x: float, y: float) -> str:
        """Return the exact numbers of a row, or of a point of the chart."""
        scene = self.scene_now()
        if scene is None:
            return ""
        if scene.picture == "layers":
            return self._cell_tooltip(scene, x, y)
        if not self._is_list(scene):
            at = self._value_at(x, y)
            if at is None:
                return ""
            chart = chart_of(replace(scene, hover_at=None))
            return (
                f"{chart.x.label}: {chart.x.format_value(at[0])}\n"
                f"{chart.y.label}: {chart.y.format_value(at[1])}"
            )
        bar = self._bar_at(y)
        return self._bar_tooltip(scene, bar) if bar >= 0 else ""

    def _cell_tooltip(self, scene: HotScene, x: float, y: float) -> str:
        layers = scene.hot_cold.layers
        cell = GridGeometry(layers_scene(scene)).cell_at(x, y)
        if cell is None:
            return ""
        layer, has_token = int(layers.layers[cell[0]]), layers.tokens[cell[1]] >= 0
        unit = scene.trace.clock.unit
        lines = [
            f"layer {layer}" if layer >= 0 else "no layer",
            f"{layers.by} {layers.names[cell[1]]}" if has_token else "no token",
            f"{format_count(int(layers.ops[cell]))} ops",
            _accessed(int(layers.bytes[cell]), int(layers.unsized[cell])),
            f"{format_duration(int(layers.ticks[cell]), unit)}, measured or derived",
        ]
        return "\n".join(lines)

    def _bar_tooltip(self, scene: HotScene, bar: int) -> str:
        groups, trace = self._ranked(scene), scene.trace
        lines = [
            groups.keys[bar],
            f"{format_count(int(groups.accesses[bar]))} accesses",
            _accessed(int(groups.bytes[bar]), int(groups.unsized[bar])),
            f"{format_both_bytes(int(groups.size[bar]))} size",
        ]
        if groups.unknown[bar]:
            text = "unknown: up to {0} more"
            lines.insert(3, text.format(format_both_bytes(int(groups.unknown[bar]))))
        if groups.maybe[bar]:
            text = "possibly {0} more, by experts that are not listed"
            lines.insert(2, text.format(format_count(int(groups.maybe[bar]))))
        if groups.unrecorded[bar]:
            lines.append(READ_UNRECORDED)
        if groups.cut[bar]:
            lines.append("possibly read as a source missing from the op's record")
        tensor = int(groups.tensor[bar])
        if tensor >= 0:
            heat = scene.hot_cold.heat
            offset = int(trace.tensors.offset[tensor])
            if offset >= 0:
                lines.append(f"at {format_offset(offset)}")
            if heat.n_tokens:
                touched = format_count(int(heat.tokens[tensor]))
                lines.append(f"in {touched} of {format_count(heat.n_tokens)} tokens")
        return "\n".join(lines)

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a row: select, filter, copy."""
        scene, bar = self.scene_now(), self._bar_at(y)
        if scene is None or bar < 0:
            return None
        name = self._ranked(scene).keys[bar]
        tensor = int(self._ranked(scene).tensor[bar])
        menu = QMenu(self)
        if tensor >= 0:
            menu.addAction("Select this tensor", partial(self._select, bar))
            menu.addAction("Show only this tensor", partial(self._filter, tensor))
        menu.addAction("Copy name", partial(copy_name, name))
        menu.addAction("Copy ranking and facts", self.copy_tsv)
        menu.addAction("Save ranking as…", self._save)
        return menu

    def _filter(self, tensor: int) -> None:
        session = self.session
        if session.trace is None:
            return
        trace = session.trace
        name = trace.strings[int(trace.tensors.name[tensor])]
        session.queries.set_filter(
            replace(session.queries.filter, tensors=frozenset({name}))
        )


def _accessed(n_bytes: int, n_unsized: int) -> str:
    """Return "3.0 MiB (3,145,728 B) accessed", or what is known of that."""
    if n_unsized:
        return f"bytes accessed: {moved_text(n_bytes, n_unsized)}"
    return f"{format_both_bytes(n_bytes)} accessed"
