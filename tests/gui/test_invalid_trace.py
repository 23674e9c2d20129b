"""A trace that its own writer calls invalid: shown in red until it is closed."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

import ggmlviz_files
import npu_files as npu
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.units import TimeRange
from ggscope.render.batch import LineBatch, RectBatch
from ggscope.render.theme import theme
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.scene import AXIS_HEIGHT
from ggscope.session.loader import LoadState
from messages import clear
from scenes import make_scene

WHY = "ring buffer overran <b>twice</b>"
EVENTS = (npu.engine(0, 100), npu.engine(100, 200))
MARK = npu.marker(150, "INVALID_TRACE", details={"why": WHY})


def write(folder: Path, *events: object) -> Path:
    path = folder / "run.json"
    path.write_text(json.dumps(npu.document(*events)))
    return path


def test_banner_shows_the_details_and_comes_back_on_reading_again(
    window: MainWindow,
    opened: Callable[[Path], Document],
    qtbot: QtBot,
    tmp_path: Path,
) -> None:
    document = opened(write(tmp_path, *EVENTS, MARK))

    assert document.alarm.isVisible()
    assert WHY in document.alarm.text.text()
    assert document.alarm.property("level") == "error"

    document.messages.say("Something else is said.")
    clear(document)
    assert document.alarm.isVisible(), "messages that come and go leave it alone"

    document.alarm.close_button.click()
    assert not document.alarm.isVisible()

    document.loader.reload()
    qtbot.waitUntil(document.alarm.isVisible)
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY)
    document.alarm.action_button.click()
    assert document.workspace.drawer.isVisible()


def test_a_trace_without_that_marker_sounds_no_alarm(
    opened: Callable[[Path], Document], tmp_path: Path
) -> None:
    document = opened(write(tmp_path, *EVENTS, npu.marker(150, "PREFILL_DONE")))

    assert not document.alarm.isVisible()


def test_unknown_version_is_reported_in_a_banner_above_what_is_shown(
    window: MainWindow, opened: Callable[[Path], Document], tmp_path: Path
) -> None:
    path = ggmlviz_files.write(tmp_path / "a.ggmlviz", ggmlviz_files.run())
    data = bytearray(path.read_bytes())
    data[8:12] = (2).to_bytes(4, "little")
    path.write_bytes(data)

    document = opened(path)

    assert document.alarm.isVisible()
    assert document.alarm.property("level") == "caution"
    assert "version 2" in document.alarm.text.text()
    assert document.session.trace is not None
    assert len(document.session.trace.spans)
    document.alarm.action_button.click()
    assert document.workspace.drawer.tab == "problems"
    document.alarm.close_button.click()
    assert not document.alarm.isVisible()


@pytest.mark.parametrize("theme_name", ["dark", "light", "print"])
def test_timeline_has_a_red_band_over_the_whole_trace(
    tmp_path: Path, theme_name: str
) -> None:
    trace = npu.read_events(tmp_path, *EVENTS, MARK)
    scene = make_scene(trace, theme_name=theme_name, visible=TimeRange(0, 200))
    red = theme(theme_name).error

    picture = compose_timeline(scene)

    (band,) = [
        (b.x0[b.fill == red], b.x1[b.fill == red], b.y0[b.fill == red])
        for b in picture.batches
        if isinstance(b, RectBatch) and (b.fill == red).any()
    ]
    assert (band[1] - band[0]).tolist() == [scene.width - scene.header_width]
    assert band[2][0] < AXIS_HEIGHT
    (line,) = [
        b.x0[b.color == red]
        for b in picture.batches
        if isinstance(b, LineBatch) and (b.color == red).any()
    ]
    wide = scene.width - scene.header_width
    assert np.allclose(line, scene.header_width + wide * 0.75, atol=1)

    fine = compose_timeline(
        make_scene(npu.read_events(tmp_path, *EVENTS), theme_name=theme_name)
    )
    assert not any(
        (b.fill == red).any() for b in fine.batches if isinstance(b, RectBatch)
    )
