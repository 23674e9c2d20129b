"""A plug-in that hangs takes neither the picture nor the window."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from ggscope.gui.main_window import MainWindow
from ggscope.readers import plugins
from ggscope.readers.plugins import PATH_VARIABLE, SECONDS_VARIABLE
from ggscope.session.loader import LoadState
from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "llama.ggmlviz"


@pytest.fixture(autouse=True)
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a plug-in that hangs at import; it is the only one."""
    path = tmp_path / "hangs.py"
    path.write_text("import time\ntime.sleep(1e6)\n")
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path))
    monkeypatch.setenv(SECONDS_VARIABLE, "1")
    plugins.reload()
    yield path
    plugins.reload()


def test_file_is_shown_while_a_plugin_hangs_and_problems_name_it(
    window: MainWindow, qtbot: QtBot, hanging: Path
) -> None:
    document = window.open_path(SAMPLE)

    # The picture is there while the plug-in is still waited for.
    qtbot.waitUntil(lambda: document.session.trace is not None, timeout=10_000)
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY, timeout=20_000)

    trace = document.session.trace
    assert len(trace.spans) > 0
    assert not trace.pending
    (trouble,) = (w for w in trace.warnings if w.code == "plugin_off")
    assert trouble.place == str(hanging)
    assert "longer than 1 seconds" in trouble.message
