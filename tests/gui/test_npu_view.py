"""The NPU pane with real events."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.npu.addresses import address_plots
from ggscope.render.npu.scene import NpuGeometry
from ggscope.render.theme import theme
from ggscope.session.open_traces import OpenTraces
from ggscope.session.session import Session
from ggscope.views.npu.view import NpuView
from npu_files import access, document, engine, read_text, sample, stall, token
from panes import LEFT, NONE, settle_view

CONFIG = {"memory": {
    "dram_peak_bw_bytes_per_cycle": 64, "spm_banks": 4, "spm_bank_size_bytes": 16384,
}}  # fmt: skip
DMA, GEMM_4, GEMM_8, STALL_TE, STALL_BUS = range(5)


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read_text(tmp_path, json.dumps(document(
        engine(0, 500, engine="DMA", op="LOAD",
               details={"bytes": 2048, "qbits": 4, "spm_bank": 2, "spm_offset": 8192}),
        engine(500, 700, op="GEMM", details={"qbits_weight": 4}),
        engine(800, 1000, op="GEMM", details={"qbits_weight": 8}),
        stall(600, 650, reason="throttle"), stall(0, 5, master="BUS"),
        access(100, addr=4096, source_engine="DMA"),
        bandwidth_samples=[
            sample(0, window_cycles=400, dram_read_bytes=4000, dram_write_bytes=0),
            sample(400, window_cycles=400, dram_read_bytes=25000, dram_write_bytes=0),
        ],
        config_snapshot=CONFIG,
        summary_metrics={"cycles_total": 1000, "dram_bytes_read": 1},
    )))  # fmt: skip


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> NpuView:
    view = NpuView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1400, 460)
    view.show()
    qtbot.waitExposed(view)
    settle_view(qtbot, view)
    assert view.facts is not None
    return view


def place(view: NpuView, title: str, tick: int | None) -> QPoint:
    """Return where a row is at a tick; at its name without one."""
    geometry = NpuGeometry(view.scene_now())
    number = next(i for i, row in enumerate(geometry.rows) if row.title == title)
    top, bottom = geometry.span_of(number)
    x = 20.0 if tick is None else geometry.time.x(tick)
    return QPoint(round(x), round((top + bottom) / 2))


def click(view: NpuView, title: str, tick: int | None = None) -> None:
    QTest.mouseClick(view.canvas, LEFT, NONE, place(view, title, tick))


def highlighted_ops(session: Session, trace: Trace) -> set[str]:
    """Return the names of the reasons or ops of the selected spans."""
    spans = trace.spans
    return {
        trace.op_name(int(spans.op[i])) if spans.op[i] >= 0
        else trace.strings[int(spans.name[i])]
        for i in session.selection.current.ids
    }  # fmt: skip


def test_click_in_an_engine_selects_the_span_under_the_mouse(
    view: NpuView, session: Session, trace: Trace
) -> None:
    click(view, "TE 0", 850)

    (span,) = session.selection.current.ids
    assert (int(trace.spans.start[span]), int(trace.spans.end[span])) == (800, 1000)


def test_click_in_a_stall_selects_it(
    view: NpuView, session: Session, trace: Trace
) -> None:
    click(view, "TE 0", 625)

    assert highlighted_ops(session, trace) == {"throttle"}


def test_click_at_a_name_selects_all_spans_of_the_engine(
    view: NpuView, session: Session, qtbot: QtBot
) -> None:
    click(view, "TE 0")

    group = session.selection.current.group
    assert group is not None
    assert group.by == "engine"
    qtbot.waitUntil(lambda: session.linking.linked.n_spans == 2)


def test_master_without_spans_selects_its_stalls(
    view: NpuView, session: Session, trace: Trace
) -> None:
    click(view, "BUS 0")

    assert session.selection.current.table == "spans"
    (span,) = session.selection.current.ids
    assert int(trace.spans.end[span]) == 5


def test_click_in_a_channel_marks_the_window_and_lights_its_spans(
    view: NpuView, session: Session, trace: Trace
) -> None:
    click(view, "total", 500)

    marked = session.ranges.marked
    assert marked is not None
    assert marked.time == TimeRange(400, 800)
    starts = {int(trace.spans.start[i]) for i in session.selection.current.ids}
    assert starts == {0, 500}


def test_arrows_step_through_windows_and_enter_fits_them(
    view: NpuView, session: Session
) -> None:
    view.setFocus()

    QTest.keyClick(view, Qt.Key.Key_Right)
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert session.ranges.marked.time == TimeRange(400, 800)
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert session.ranges.marked.time == TimeRange(400, 800), "the last one"
    QTest.keyClick(view, Qt.Key.Key_Left)
    assert session.ranges.marked.time == TimeRange(0, 400)
    QTest.keyClick(view, Qt.Key.Key_Return)

    visible = session.viewport.visible
    assert visible.duration < 1000
    assert visible.start <= 0
    assert visible.end >= 400


def test_arrows_step_through_engines_and_banks(view: NpuView, session: Session) -> None:
    view.setFocus()
    geometry = NpuGeometry(view.scene_now())
    keys = []
    for _ in range(8):
        QTest.keyClick(view, Qt.Key.Key_Down)
        keys.append(geometry.rows[view.scene_now().selected].title)

    assert keys[:3] == ["DMA 0", "TE 0", "BUS 0"]
    assert keys[3:] == ["bank 0", "bank 1", "bank 2", "bank 3", "bank 3"]
    QTest.keyClick(view, Qt.Key.Key_Home)
    assert geometry.rows[view.scene_now().selected].title == "DMA 0"


def test_click_in_a_bank_selects_the_transfer(
    view: NpuView, session: Session, trace: Trace
) -> None:
    click(view, "bank 2", 100)

    assert highlighted_ops(session, trace) == {"LOAD"}


def test_stalls_are_selected_by_click_and_arrow(
    view: NpuView, session: Session, trace: Trace, qtbot: QtBot
) -> None:
    view.chart_box.setCurrentText("stalls")
    settle_view(qtbot, view)

    QTest.mouseClick(view.canvas, LEFT, NONE, QPoint(300, 36))
    assert highlighted_ops(session, trace) == {"throttle"}
    assert view.table_box.currentData() == "stalls"
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Down)
    (span,) = session.selection.current.ids
    assert int(trace.spans.end[span]) == 5


def test_points_of_bits_light_the_spans_of_op_and_bits(
    view: NpuView, session: Session, trace: Trace, qtbot: QtBot
) -> None:
    view.chart_box.setCurrentText("quantisation")
    settle_view(qtbot, view)
    view.setFocus()

    QTest.keyClick(view, Qt.Key.Key_End)

    group = session.selection.current.group
    assert group is not None
    assert group.key == "LOAD"
    QTest.keyClick(view, Qt.Key.Key_Up)
    group = session.selection.current.group
    assert group is not None
    starts = [int(trace.spans.start[i]) for i in group.ids]
    assert (group.key, starts) == ("GEMM", [800])


def test_other_run_of_a_tab_lies_beside_the_points(
    view: NpuView, session: Session, tmp_path: Path, qtbot: QtBot
) -> None:
    tabs, other = OpenTraces(), Session()
    other.set_trace(read_text(tmp_path, json.dumps(document(
        engine(0, 90, op="GEMM", details={"qbits_weight": 16}),
    ))))  # fmt: skip
    session.open_traces = tabs
    pane = NpuView(session, theme("light"))
    qtbot.addWidget(pane)
    pane.resize(1200, 400)
    pane.show()
    settle_view(qtbot, pane)
    tabs.set_sessions([("this", session), ("w16.json", other)])

    pane.chart_box.setCurrentText("quantisation")
    assert pane.other_box.count() == 2
    pane.other_box.setCurrentIndex(1)
    settle_view(qtbot, pane)

    scene = pane.scene_now()
    assert [(x.op, x.bits, x.mean_ticks) for x in scene.others] == [("GEMM", 16, 90)]
    assert scene.other_title == "w16.json"
    tabs.set_sessions([("this", session)])
    assert pane.other_box.count() == 1
    assert pane.scene_now().others == ()
    other.close()


def test_access_selects_its_engine_span(
    view: NpuView, session: Session, trace: Trace, qtbot: QtBot
) -> None:
    view.chart_box.setCurrentText("addresses")
    settle_view(qtbot, view)
    scene = view.scene_now()
    plot = next(p for p in address_plots(scene) if p.memory == "DRAM")
    x, y = NpuGeometry(scene).time.x(100), float(plot.y(4096))

    QTest.mouseClick(view.canvas, LEFT, NONE, QPoint(round(x), round(y)))

    assert highlighted_ops(session, trace) == {"LOAD"}
    assert "0x1000" in view.tooltip_at(x, y)


def test_wheel_and_drag_move_the_timeline(
    view: NpuView, session: Session, qtbot: QtBot
) -> None:
    session.viewport.set_visible(TimeRange(100, 500))
    settle_view(qtbot, view)
    start, end = place(view, "DMA 0", 300), place(view, "DMA 0", 200)

    QTest.mousePress(view.canvas, LEFT, NONE, start)
    QTest.mouseMove(view.canvas, (start + end) / 2)
    QTest.mouseMove(view.canvas, end)
    QTest.mouseRelease(view.canvas, LEFT, NONE, end)

    assert session.viewport.visible.start == pytest.approx(200, abs=3)
    assert not session.selection.current, "a drag selects nothing"


def test_tables_list_what_the_trace_records(view: NpuView, session: Session) -> None:
    counts = {}
    for i in range(view.table_box.count()):
        view.table_box.setCurrentIndex(i)
        counts[view.table_box.currentData()] = view.model.rowCount()

    assert counts == {
        "claims": 2, "engines": 3, "stalls": 2, "windows": 2, "banks": 4, "bits": 3,
        "traffic": 1, "configuration": 3,
    }  # fmt: skip
    view.table_box.setCurrentText("windows")
    view.table.selectRow(1)
    assert session.ranges.marked.time == TimeRange(400, 800)
    view.table_box.setCurrentText("banks")
    view.table.selectRow(2)
    group = session.selection.current.group
    assert group is not None
    assert (group.by, group.key) == ("bank", "2")


def test_claim_that_does_not_hold_is_in_the_warning_colour(view: NpuView) -> None:
    view.table_box.setCurrentText("claims")

    colors, texts = {}, {}
    for row in range(view.model.rowCount()):
        cells = [view.model.index(row, column) for column in range(4)]
        name = cells[0].data()
        colors[name] = cells[0].data(Qt.ItemDataRole.ForegroundRole)
        texts[name] = cells[3].data()
    assert colors["dram bytes read"] != colors["cycles total"]
    assert texts["dram bytes read"].startswith("−")


def test_tooltips_show_what_lies_there(view: NpuView) -> None:
    at = place(view, "TE 0", 625)
    assert "stalled 100.0 %" in view.tooltip_at(at.x(), at.y())
    at = place(view, "total", 500)
    assert "97.7 % of the peak" in view.tooltip_at(at.x(), at.y())
    at = place(view, "total", 950)
    assert "97.7" not in view.tooltip_at(at.x(), at.y())
    menu = view.menu_at(*place(view, "TE 0", 850).toTuple())
    assert menu is not None
    menu.actions()[1].trigger()
    assert view.session.selection.current


def test_other_selection_takes_the_light_from_the_row(
    view: NpuView, session: Session
) -> None:
    click(view, "DMA 0")
    assert view.scene_now().selected >= 0

    session.selection.select_span(GEMM_8)

    assert view.scene_now().selected == -1


def test_trace_without_an_npu_says_so(qtbot: QtBot, view: NpuView) -> None:
    trace = llama_like_trace()
    view.session.set_trace(trace)
    settle_view(qtbot, view)

    assert view.facts is None
    assert view.scene_now() is None
    assert view.empty_text(trace)[0]


@pytest.fixture
def moving(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> Iterator[NpuView]:
    kinds = ("weight", "kv", "weight", "activation")
    session = Session()
    session.set_trace(read_text(tmp_path, json.dumps(document(
        *(token(100 * i, 100 * i + 90, token_index=i) for i in range(5)),
        *(engine(100 * i + 10 * k, 100 * i + 10 * k + 5, engine="DMA", op="LOAD",
                 details={"tensor_role": kind, "bytes": 1000 * (i + 1)})
          for i in range(5) for k, kind in enumerate(kinds)),
    ))))  # fmt: skip
    view = NpuView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1400, 460)
    view.show()
    qtbot.waitExposed(view)
    settle_view(qtbot, view)
    view.chart_box.setCurrentIndex(view.chart_box.findData("traffic"))
    settle_view(qtbot, view)
    yield view
    session.close()


def test_bars_of_tokens_select_their_spans_by_mouse_keys_and_table(
    moving: NpuView, qtbot: QtBot
) -> None:
    session = moving.session
    scene = moving.scene_now()
    assert scene is not None
    trace = scene.trace

    def tokens() -> set[int]:
        return {int(trace.spans.token[i]) for i in session.selection.current.ids}

    xs = [x for x in range(int(scene.width)) if moving.thing_at(x, 200) == 2]
    QTest.mouseClick(moving.canvas, LEFT, NONE, QPoint(xs[len(xs) // 2], 200))
    assert tokens() == {2}
    assert len(session.selection.current.ids) == 4
    assert "KV cache: 2.9 KiB" in moving.tooltip_at(xs[len(xs) // 2], 200)
    qtbot.keyClick(moving.canvas, Qt.Key.Key_Down)
    assert tokens() == {3}
    assert moving.table_box.currentData() == "traffic"
    moving.table.selectRow(0)
    assert tokens() == {0}
    assert moving.model.rowCount() == 5
