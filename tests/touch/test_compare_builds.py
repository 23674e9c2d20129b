"""Two builds of a program are compared by mouse and keys: which page says what."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QComboBox
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.render.compare.charts import waterfall_rows
from ggscope.render.compare.rows_chart import RowsGeometry
from ggscope.render.compare.timelines import side_places
from ggscope.session.loader import LoadState
from ggscope.views.base.safe_text import Label
from ggscope.views.compare.charts import StepsPane
from ggscope.views.compare.timelines import TimelinesPane
from ggscope.views.compare.view import CompareView
from pages import Page, drawer_tabs
from tensor_files import Rec, encode, weight
from touching import PATIENCE_MS, Hand, answer_file_dialog

Opened = Callable[[Path], Document]
NODES = {
    "MUL_MAT": (29, "Kcur-0"), "ADD": (2, "ffn_inp-0"), "MUL": (7, "attn_norm-0"),
    "GLU": (94, "ffn_swiglu-0"), "FLASH_ATTN_EXT": (73, "__fattn__-0"),
}  # fmt: skip
"""Number and result of each op, by which the reader knows the table of ops."""
N_TOKENS = 4
BEFORE = {"MUL_MAT": 40_000, "ADD": 5_000, "MUL": 20_000, "GLU": 7_000}
AFTER = {"MUL_MAT": 70_000, "ADD": 5_000, "FLASH_ATTN_EXT": 9_000, "GLU": 7_000}
"""Nanoseconds of each op per token: one is slower, one went, one came."""


def build(path: Path, ops: Mapping[str, int]) -> Path:
    """Write a run of a build: tokens that run these ops one after the other."""
    records, at = list[Rec](), 10**12
    for token in range(N_TOKENS):
        for name, ticks in ops.items():
            number, result = NODES[name]
            records.append(
                Rec(
                    at, result, op=number, token=token, layer=0, phase=1,
                    duration=ticks, sources=(weight("blk.0.attn_q.weight", 0),),
                )
            )  # fmt: skip
            at += ticks
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(encode(records, "256"))
    return path


def choose(hand: Hand, box: QComboBox, place: int, qtbot: QtBot) -> None:
    """Choose an entry of a list by a click and arrows."""
    steps = place - box.currentIndex()
    hand.click(box)
    qtbot.waitUntil(lambda: box.view().isVisible(), timeout=PATIENCE_MS)
    hand.press(*["Down" if steps > 0 else "Up"] * abs(steps), "Return")
    hand.settle()


def show(hand: Hand, view: CompareView, page: str, qtbot: QtBot) -> None:
    box = view.page_box
    choose(hand, box, box.findData(page), qtbot)
    qtbot.waitUntil(lambda: view.session.tasks.is_idle, timeout=PATIENCE_MS)
    hand.settle()


def compare_view(
    document: Document, hand: Hand, qtbot: QtBot, n_runs: int = 2
) -> CompareView:
    """Click the tab of the comparison, and wait for what it has to compare."""
    document.workspace.show_view("summary")
    bar = drawer_tabs(document.workspace.drawer)
    place = next(i for i in range(bar.count()) if bar.tabText(i) == "Compare")
    qtbot.waitUntil(lambda: bar.rect().contains(bar.tabRect(place).center()))
    hand.click(bar, bar.tabRect(place).center())
    (view,) = document.workspace.views("compare")
    assert isinstance(view, CompareView)
    wait_compared(view, qtbot, n_runs)
    return view


def wait_compared(view: CompareView, qtbot: QtBot, n_runs: int) -> None:
    def is_compared() -> bool:
        result = view.result
        n = 0 if result is None else len(result.alignment.runs)
        return n == n_runs and view.session.tasks.is_idle

    qtbot.waitUntil(is_compared, timeout=PATIENCE_MS)
    Hand.settle()


@pytest.fixture
def both(opened: Opened, tmp_path: Path) -> tuple[Document, Document]:
    """Return the tabs of both builds, that of A in front."""
    b = opened(build(tmp_path / "after.bin", AFTER))
    return opened(build(tmp_path / "before.bin", BEFORE)), b


def test_rows_say_what_is_slower_what_went_and_what_came(
    both: tuple[Document, Document], hand: Hand, qtbot: QtBot
) -> None:
    a, b = both
    view = compare_view(a, hand, qtbot)

    model, table = view.model, view.table
    rows = [model.row(row) for row in range(model.rowCount() - 1)]
    values = {row[0].text: [cell.raw for cell in row[1:4]] for row in rows}
    n = N_TOKENS
    assert list(values) == ["MUL_MAT", "MUL", "FLASH_ATTN_EXT", "ADD", "GLU"]
    assert values["MUL_MAT"] == [40_000 * n, 70_000 * n, 30_000 * n]
    assert values["MUL"] == [20_000 * n, "", -20_000 * n]
    assert values["FLASH_ATTN_EXT"] == ["", 9_000 * n, 9_000 * n]
    # The largest changes are in sight with the sentence above them.
    second = table.visualRect(model.index(1, 0))
    assert table.viewport().rect().contains(second)
    headline = Page(view).child(Label, "compare_headline")
    assert headline.isVisible()
    assert "noise" in headline.text()

    hand.click(table.viewport(), table.visualRect(model.index(2, 0)).center())
    group = b.session.selection.current.group
    assert group is not None
    assert group.key == "FLASH_ATTN_EXT"


def test_steps_show_both_totals_and_light_a_step(
    both: tuple[Document, Document], hand: Hand, qtbot: QtBot
) -> None:
    a, _ = both
    view = compare_view(a, hand, qtbot)
    show(hand, view, "steps", qtbot)
    page = view.page("steps")
    assert isinstance(page, StepsPane)
    choose(hand, page.by, page.by.findData("op"), qtbot)
    qtbot.waitUntil(
        lambda: page.waterfall is not None and page.waterfall.by == "op",
        timeout=PATIENCE_MS,
    )
    hand.settle()

    waterfall, scene = page.waterfall, page.scene_now()
    assert waterfall is not None
    assert waterfall.total is not None
    assert sum(step.change for step in waterfall.steps) == waterfall.total.change
    assert {"MUL", "FLASH_ATTN_EXT"} < {step.key for step in waterfall.steps}
    geometry = RowsGeometry(waterfall_rows(scene))
    assert {0, len(waterfall.steps) + 1} < set(geometry.shown)

    row = next(i for i, step in enumerate(waterfall.steps, 1) if step.key == "MUL")
    hand.click(page.canvas, QPointF(geometry.left + 20, geometry.y(row) + 6))
    group = a.session.selection.current.group
    assert group is not None
    assert (group.by, group.key) == ("op", "MUL")
    assert page.tooltip_at(geometry.left + 20, geometry.y(row) + 6)


def test_timelines_have_lanes_of_work_and_move_by_mouse_and_keys(
    both: tuple[Document, Document], hand: Hand, qtbot: QtBot
) -> None:
    view = compare_view(both[0], hand, qtbot)
    show(hand, view, "timelines", qtbot)
    page = view.page("timelines")
    assert isinstance(page, TimelinesPane)
    qtbot.waitUntil(lambda: page.scene_now() is not None, timeout=PATIENCE_MS)
    hand.settle()

    scene = page.scene_now()
    for side, place in zip((scene.a, scene.b), side_places(scene), strict=True):
        layout, top = side.layout, side.scroll_y
        boxes = layout.boxes_between(
            top + layout.fixed_height, top + place.content_height
        )
        work = [b for b in boxes if b.lane is not None and b.lane.track.is_work]
        assert any(
            top + layout.fixed_height <= b.y
            and b.y + b.height <= top + place.content_height + 1
            for b in work
        )

    hand.click(page.canvas, QPointF(500, 8))  # the axis: nothing is selected
    before = page.visible
    hand.wheel(page.canvas, "up", 3, QPointF(500, 40), held="ctrl")
    assert page.visible.duration < before.duration
    hand.press("f")
    assert page.visible == before
    y = side_places(page.scene_now())[1].axis + 10
    hand.drag(page.canvas, QPointF(400, y), QPointF(500, y))
    assert page.anchor == "offset"
    assert page.offset < 0
    hand.press("bracketright")
    assert page.anchor == "token"


def test_another_run_is_read_from_a_file(
    opened: Opened, hand: Hand, qtbot: QtBot, tmp_path: Path
) -> None:
    other = build(tmp_path / "after.bin", AFTER)
    document = opened(build(tmp_path / "before.bin", BEFORE))
    document.workspace.show_view("compare")
    (view,) = document.workspace.views("compare")
    assert isinstance(view, CompareView)
    hand.settle()
    answer_file_dialog(hand, other, qtbot)
    choose(hand, view.run_box, view.run_box.count() - 1, qtbot)
    wait_compared(view, qtbot, 2)

    assert view.run_box.currentText() == other.name
    assert view.model.row(0)[0].text == "MUL_MAT"


def test_folders_of_runs_show_noise(
    opened: Opened, hand: Hand, qtbot: QtBot, tmp_path: Path
) -> None:
    ticks = {"a": (40_000, 41_000), "b": (40_500, 42_000)}
    for side, values in ticks.items():
        for number, value in enumerate(values):
            run = {**BEFORE, "MUL_MAT": value}
            build(tmp_path / side / f"run{number}.bin", run)
    document = opened(tmp_path / "a" / "run0.bin")
    document.workspace.show_view("compare")
    (view,) = document.workspace.views("compare")
    assert isinstance(view, CompareView)
    hand.settle()
    answer_file_dialog(hand, tmp_path / "b", qtbot)
    choose(hand, view.run_box, view.run_box.count() - 2, qtbot)
    wait_compared(view, qtbot, 3)
    answer_file_dialog(hand, tmp_path / "a", qtbot)
    choose(hand, view.own_box, view.own_box.count() - 1, qtbot)
    wait_compared(view, qtbot, 4)

    assert view.result is not None
    assert view.result.is_equal
    first = view.model.row(0)
    assert first[0].text == "MUL_MAT"
    assert first[0].is_dim
    show(hand, view, "timelines", qtbot)
    page = view.page("timelines")
    assert isinstance(page, TimelinesPane)
    qtbot.waitUntil(lambda: "of 2" in page.controls.message.full_text)


def test_two_rows_of_a_table_of_runs_are_compared(
    window: MainWindow, hand: Hand, qtbot: QtBot, tmp_path: Path
) -> None:
    build(tmp_path / "after.bin", AFTER)
    build(tmp_path / "before.bin", BEFORE)
    runs = window.open_path(tmp_path)
    qtbot.waitUntil(
        lambda: (
            runs.loader.state is LoadState.SEVERAL_RUNS and runs.session.tasks.is_idle
        ),
        timeout=PATIENCE_MS,
    )
    hand.settle()
    page = runs.runs_page
    for row in range(2):
        place = page.table.visualRect(page.model.index(row, 0)).center()
        hand.click(page.table.viewport(), place, held="ctrl" if row else None)
    hand.click(page.compare_button)
    qtbot.waitUntil(lambda: window.n_documents == 3, timeout=PATIENCE_MS)

    def views() -> list[CompareView]:
        return [
            view
            for document in window.documents[1:]
            for view in document.workspace.views("compare")
            if isinstance(view, CompareView) and view.result is not None
        ]

    qtbot.waitUntil(lambda: bool(views()), timeout=PATIENCE_MS)
    (view,) = views()
    wait_compared(view, qtbot, 2)
    keys = {view.model.row(row)[0].text for row in range(view.model.rowCount())}
    assert {"MUL", "FLASH_ATTN_EXT"} < keys
