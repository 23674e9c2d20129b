"""Take the pictures of README.md from the real program on a bundled sample.

    xvfb-run -a python packaging/make_picture.py

Opens the real window, does what a person would do, and saves what is shown.
"""

import sys
import time
from pathlib import Path

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication

from ggscope import assets
from ggscope.gui.app import create_app, create_window
from ggscope.model.selection import MarkedRange
from ggscope.model.units import TimeRange
from ggscope.readers.tensor.reader import TensorAccessReader
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore

FOLDER = Path(__file__).resolve().parent.parent / "resources/docs/pictures"


def settle(app: QApplication, seconds: float = 0.6) -> None:
    """Let timers, workers and paints do their work."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        app.processEvents()
        time.sleep(0.01)


def take(app: QApplication, theme: str) -> Path:
    """Save one picture; return its path."""
    settings = Settings(MemoryStore())
    settings.change("files", trusted=(TensorAccessReader.info.id,))
    window = create_window(settings, theme)
    window.resize(1600, 1000)
    window.show()
    settle(app, 0.3)
    window.open_path(assets.path("samples/tinyllama-256.bin"))
    settle(app, 1.5)
    session = window.session
    if session is None or session.trace is None:
        raise SystemExit("the sample did not open")
    extent = session.trace.extent
    session.viewport.set_visible(
        TimeRange(
            extent.start + int(extent.duration * 0.455),
            extent.start + int(extent.duration * 0.545),
        )
    )
    session.queries.search("/attn|kq/")
    settle(app, 0.4)
    spans = session.trace.spans
    middle = extent.start + int(extent.duration * 0.49)
    names = [session.trace.span_name(i) for i in range(len(spans))]
    chosen = next(
        i
        for i in range(len(spans))
        if names[i].startswith("ffn_gate") and int(spans.start[i]) > middle
    )
    session.selection.select_span(chosen)
    start = int(spans.start[chosen]) + extent.duration // 60
    session.ranges.set_marked(
        MarkedRange(TimeRange(start, start + extent.duration // 120))
    )
    window.cursor().setPos(QPoint(0, 0))
    settle(app, 1.0)
    path = FOLDER / f"window-{theme}.png"
    window.grab().save(str(path))
    window.close()
    settle(app, 0.2)
    return path


def main() -> int:
    """Take the dark and the light picture."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    app = create_app(["ggscope"])
    for theme in ("dark", "light"):
        sys.stdout.write(f"{take(app, theme)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
