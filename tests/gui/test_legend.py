"""The legend: what is present, what fits, what a click isolates."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

import builders
import ggmlviz_files as gv
from ggscope.analysis.rows.colorings import PLAIN_COLORINGS
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.selection import Filter
from ggscope.readers.registry import open_trace
from ggscope.render.colors import category_color
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.timeline import legend as timeline_legend
from ggscope.views.timeline.legend import (
    Legend,
    LegendList,
    LegendRequest,
    short_labels,
)
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
LEFT = Qt.MouseButton.LeftButton
CTRL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def session(qtbot: QtBot) -> Iterator[Session]:
    made = Session()
    made.set_trace(builders.llama_like_trace(tokens=4, layers=4))
    yield made
    made.close()


@pytest.fixture
def legend(qtbot: QtBot, session: Session) -> Legend:
    made = Legend(session, theme("dark"))
    qtbot.addWidget(made)
    made.resize(1400, 24)
    made.show()
    qtbot.waitExposed(made)
    return made


def labels(legend: Legend) -> list[str]:
    return [entry.label for entry in legend.entries]


def button_of(legend: Legend, label: str) -> QToolButton:
    return legend.buttons[labels(legend).index(label)]


def test_legend_names_every_family_that_occurs(
    legend: Legend, session: Session
) -> None:
    assert session.index is not None
    present = session.index.categories("family")

    assert labels(legend) == list(present.labels)
    assert all(b.isVisible() for b in legend.buttons)
    assert sum(e.n_spans for e in legend.entries) == len(session.trace.spans)
    shares = [e.share for e in legend.entries if e.share is not None]
    assert sum(shares) == pytest.approx(1.0)


def test_labels_that_differ_at_their_end_stay_different() -> None:
    folder = "/usr/local/go/src/runtime/"
    paths = [f"{folder}{name}.go" for name in ("proc", "chan", "malloc", "select")]
    labels = [*paths, "kernel", "void cutlass::Kernel<cutlass_80_tensorop>"]

    short = short_labels(labels)

    assert len(set(short)) == len(labels)
    assert max(map(len, short)) <= 22
    assert all(a.endswith(b[-10:]) for a, b in zip(short[:4], paths, strict=True))
    assert short[4] == "kernel"
    assert short[5].startswith("void cutlass::Kernel")


def test_legend_follows_the_colouring(legend: Legend, session: Session) -> None:
    session.display.set_color_by("layer")

    assert "layer 3" in labels(legend)
    assert "matmul" not in labels(legend)


def test_click_isolates_and_second_click_shows_all(
    legend: Legend, session: Session
) -> None:
    button = button_of(legend, "matmul")

    QTest.mouseClick(button, LEFT)
    assert session.queries.filter == Filter(families=frozenset({"matmul"}))
    assert button.isChecked()

    QTest.mouseClick(button, LEFT)
    assert session.queries.filter == Filter()
    assert not button.isChecked()


def test_click_on_another_category_replaces_the_first(
    legend: Legend, session: Session
) -> None:
    QTest.mouseClick(button_of(legend, "matmul"), LEFT)
    QTest.mouseClick(button_of(legend, "norm"), LEFT)

    assert session.queries.filter == Filter(families=frozenset({"norm"}))
    assert not button_of(legend, "matmul").isChecked()


def test_filter_from_elsewhere_is_shown(legend: Legend, session: Session) -> None:
    session.queries.set_filter(Filter(families=frozenset({"norm"})))

    assert button_of(legend, "norm").isChecked()


@pytest.mark.parametrize("by", PLAIN_COLORINGS)
def test_every_entry_isolates_its_own_spans(by: str, session: Session) -> None:
    assert session.index is not None
    categories = session.index.categories(by)
    legend = Legend(session, theme("dark"))
    session.display.set_color_by(by)

    for number, entry in enumerate(legend.entries):
        if not entry.part:
            continue
        legend.isolate(entry)
        assert session.queries.mask is not None
        if by == "source":  # spans that also access something else match as well
            assert session.queries.mask[categories.index == number].all()
        else:
            assert (session.queries.mask == (categories.index == number)).all()
        session.queries.set_filter(Filter())


def test_engines_are_isolated_by_their_lanes(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(builders.npu_like_trace())
    legend = Legend(session, theme("dark"))
    qtbot.addWidget(legend)
    engine = next(e for e in legend.entries if e.key == "engine:TE")

    legend.isolate(engine)

    assert session.queries.mask is not None
    assert int(session.queries.mask.sum()) == engine.n_spans
    legend.release()
    session.close()


def test_backends_are_isolated_by_their_lanes(qtbot: QtBot, tmp_path: Path) -> None:
    events = [
        *gv.graph(gv.T0, 2, backend=0),
        *gv.graph(gv.T0 + 5000, 3, backend=0xAB00, thread=2),
        *gv.graph(gv.T0 + 9000, 1, backend=0xAB00),
    ]
    session = Session()
    session.set_trace(open_trace(gv.write(tmp_path / "two.ggmlviz", events)))
    session.display.set_color_by("backend")
    legend = Legend(session, theme("dark"))
    qtbot.addWidget(legend)
    assert session.index is not None
    index = session.index.categories("backend").index

    assert labels(legend) == ["CPU backend", "Backend 1"]
    for number, button in enumerate(legend.buttons):
        QTest.mouseClick(button, LEFT)
        assert session.queries.mask is not None
        assert (session.queries.mask == (index == number)).all()
        QTest.mouseClick(button, LEFT)
        assert not session.queries.filter
    legend.release()
    session.close()


def test_cores_are_isolated(qtbot: QtBot) -> None:
    trace = builders.llama_like_trace()
    core = np.where(trace.spans.op >= 0, trace.spans.lane % 4, -1).astype(np.int16)
    session = Session()
    session.set_trace(replace(trace, spans=replace(trace.spans, core=core)))
    session.display.set_color_by("core")
    legend = Legend(session, theme("dark"))
    qtbot.addWidget(legend)
    shown = [button for button in legend.buttons if button.text().startswith("core")]

    assert len(shown) == len({c for c in core.tolist() if c >= 0}) == 2
    for button in shown:
        QTest.mouseClick(button, LEFT)
        assert session.queries.mask is not None
        number = int(button.text().removeprefix("core "))
        assert (session.queries.mask == (core == number)).all()
        QTest.mouseClick(button, LEFT)
        assert not session.queries.filter
    legend.release()
    session.close()


def test_experts_are_isolated_and_what_is_not_known_is_not(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(open_trace(SAMPLES / "moe-experiment" / "trace-1024.bin"))
    session.display.set_color_by("expert")
    legend = Legend(session, theme("dark"))
    qtbot.addWidget(legend)
    qtbot.waitUntil(lambda: bool(legend.entries))
    assert session.index is not None
    index = session.index.categories("expert").index
    known = [(i, e) for i, e in enumerate(legend.entries) if e.part]

    for number, entry in known:
        legend.isolate(entry)
        assert session.queries.filter.experts == frozenset(
            {int(entry.key.partition(":")[2])}
        )
        assert session.queries.mask is not None
        # Spans that read several experts match as well.
        keys = session.index.categories("expert").keys
        others = {keys[i] for i in index[session.queries.mask].tolist()} - {entry.key}
        assert session.queries.mask[index == number].all()
        assert others <= {"expert:several", "expert:unknown"}
        session.queries.set_filter(Filter())
    unknown = {e.key for e in legend.entries if not e.part}
    assert unknown <= {"expert:several", "expert:unknown", "none"}
    legend.release()
    session.close()


def test_narrow_legend_keeps_the_rest_behind_a_sign(legend: Legend) -> None:
    legend.resize(260, 24)

    hidden = [b for b in legend.buttons if not b.isVisible()]
    assert hidden
    assert legend.more.isVisible()
    assert legend.more.text() == f"+{len(hidden)}"
    right = max(b.geometry().right() for b in legend.buttons if b.isVisible())
    assert right < legend.more.geometry().left()


def test_list_of_all_shows_shares_and_isolates(
    legend: Legend, session: Session
) -> None:
    legend.resize(120, 24)
    QTest.mouseClick(legend.more, LEFT)
    popup = legend.findChild(LegendList)
    assert popup is not None
    assert popup.tree.topLevelItemCount() == len(legend.entries)
    item = popup.tree.topLevelItem(labels(legend).index("matmul"))
    assert item.text(1).endswith("%")

    QTest.mouseClick(
        popup.tree.viewport(), LEFT, pos=popup.tree.visualItemRect(item).center()
    )

    assert session.queries.filter.families == frozenset({"matmul"})
    popup.close()


def test_swatches_have_the_colours_of_the_theme(legend: Legend) -> None:
    for name in ("dark", "light"):
        legend.set_theme(theme(name))
        for button, entry in zip(legend.buttons, legend.entries, strict=True):
            image = button.icon().pixmap(10, 10).toImage()
            middle = image.pixelColor(image.width() // 2, image.height() // 2)
            assert middle.rgba() == category_color(entry.key, theme(name))


def test_large_trace_is_counted_on_a_worker(
    qtbot: QtBot, legend: Legend, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_legend, "SYNC_SPANS", 10)

    session.display.set_color_by("op")
    assert session.index is not None
    expected = LegendRequest(session.index, "op")()

    qtbot.waitUntil(lambda: legend.entries == expected)


def test_legend_without_trace_is_empty(qtbot: QtBot) -> None:
    session = Session()
    legend = Legend(session, theme("dark"))
    qtbot.addWidget(legend)

    assert legend.entries == ()
    assert legend.minimumSizeHint().width() == 0
    session.close()


def test_legend_of_a_trace_without_ops_is_empty(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(open_trace(SAMPLES / "whisper.ggmlviz"))
    legend = Legend(session, theme("dark"))
    qtbot.addWidget(legend)

    assert len(session.trace.spans) > 100
    assert legend.entries == ()
    assert legend.buttons == []
    session.close()


def test_backends_are_offered_where_there_are_some_and_read_nothing_again(
    window: MainWindow, opened: Callable[[Path], Document], tmp_path: Path
) -> None:
    events = [*gv.graph(gv.T0, 2), *gv.graph(gv.T0 + 5000, 3, backend=0xAB00)]
    plain = opened(gv.write(tmp_path / "one.ggmlviz", gv.run(2)))
    assert not window.actions_["color.backend"].isVisible()
    assert plain.toolbar.color.findData("backend") == -1

    document = opened(gv.write(tmp_path / "two.ggmlviz", events))
    trace = document.session.trace
    assert window.actions_["color.backend"].isVisible()
    assert not window.actions_["color.expert"].isVisible()

    combo = document.toolbar.color
    combo.setCurrentIndex(combo.findData("backend"))
    combo.activated.emit(combo.currentIndex())

    assert document.session.display.color_by == "backend"
    assert document.session.trace is trace
    legend = document.workspace.views("timeline")[0].legend
    assert [entry.label for entry in legend.entries] == ["CPU backend", "Backend 1"]
