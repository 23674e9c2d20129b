"""Measure what a person waits for: the window, the first picture, each frame.

    python packaging/bench.py [MILLIONS]

Every figure is the median of five in one run. Prints a table, then one line of
JSON. Run it under Xvfb with software OpenGL for figures "without a GPU".
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench_traces import write_bin

FOLDER = Path(os.environ.get("GGSCOPE_BENCH_DIR", "build/bench"))
ROUNDS = 5

FIRST_WINDOW = """
import sys, time, os
from ggscope.gui.app import create_app
from ggscope.gui import app as program
from PySide6.QtCore import QEvent, QObject
from ggscope.session.settings import MemoryStore, Settings
application = create_app(["ggscope"])
window = program.create_window(Settings(MemoryStore()))
window.resize(1920, 1080)
seen = []
class Watch(QObject):
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint and not seen:
            seen.append(time.time())
        return False
watch = Watch()
window.installEventFilter(watch)
window.show()
while not seen:
    application.processEvents()
application.processEvents()
print(time.time() - float(os.environ["STARTED"]), flush=True)
os._exit(0)
"""

OPEN_AND_MOVE = """
import sys, time, json, statistics, os, resource
from pathlib import Path
from ggscope.gui.app import create_app
from ggscope.gui import app as program
from ggscope.model.time import TimeRange
from ggscope.session.settings import MemoryStore, Settings
application = create_app(["ggscope"])
window = program.create_window(Settings(MemoryStore()))
window.resize(1920, 1080)
window.show()
application.processEvents()
path = Path(sys.argv[1])
start = time.perf_counter()
window.open_path(path)
from ggscope.views.timeline import TimelineView
view = window.findChild(TimelineView)
def drawn():
    v = window.findChild(TimelineView)
    return v is not None and v.prepared() is not None
while not drawn():
    time.sleep(0.001)
    application.processEvents()
view = window.findChild(TimelineView)
canvas = view._canvas
canvas.repaint()
first = time.perf_counter() - start
session = view.session
while session.trace.pending or not session.tasks.is_idle:
    application.processEvents()
    time.sleep(0.002)
whole = time.perf_counter() - start
extent = session.trace.extent
frames, moved, last = [], 0, None
until = time.perf_counter() + 5.0
position = 0.0
step = 0
while time.perf_counter() < until:
    begin = time.perf_counter()
    step += 1
    width = extent.duration * (0.9 if step % 240 < 60 else 0.2 if step % 240 < 120
                               else 0.02 if step % 240 < 180 else 0.002)
    position = (position + 0.0037) % 1.0
    left = extent.start + int(position * (extent.duration - width))
    session.set_visible(TimeRange(left, left + int(width)))
    application.processEvents()
    canvas.repaint()
    frames.append(time.perf_counter() - begin)
    moved += session.visible_range != last
    last = session.visible_range
frames.sort()
print(json.dumps({
    "first_s": round(first, 3), "open_s": round(whole, 3),
    "fps": round(moved / sum(frames), 1),
    "p99_ms": round(frames[int(len(frames) * 0.99)] * 1e3, 1),
    "max_ms": round(frames[-1] * 1e3, 1),
    "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    "renderer": view.renderer_text(), "size": [canvas.width(), canvas.height()],
}), flush=True)
os._exit(0)
"""


def child(code: str, *arguments: str) -> str:
    """Run `code` in a fresh interpreter; return what it printed last."""
    environment = {**os.environ, "STARTED": repr(time.time()), "GGSCOPE_FRESH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, check=True,
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    return done.stdout.strip().splitlines()[-1]


def main() -> int:
    """Measure and print."""
    millions = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    FOLDER.mkdir(parents=True, exist_ok=True)
    n = round(millions * 1_000_000) if millions != 33 else 33_554_432
    path = write_bin(FOLDER / f"t{n}.bin", n)
    windows = [float(child(FIRST_WINDOW)) for _ in range(ROUNDS)]
    runs = [json.loads(child(OPEN_AND_MOVE, str(path))) for _ in range(ROUNDS)]
    result = {
        "records": n,
        "first_window_s": round(statistics.median(windows), 3),
        **{
            key: statistics.median(run[key] for run in runs)
            for key in ("first_s", "open_s", "fps", "p99_ms", "max_ms", "peak_mb")
        },
        "renderer": runs[0]["renderer"],
        "size": runs[0]["size"],
    }
    print(f"{'what':<44}{'median of 5':>14}")
    for label, key, unit in (
        ("program start to first window", "first_window_s", "s"),
        (f"{n:,} records to first picture", "first_s", "s"),
        (f"{n:,} records to everything read", "open_s", "s"),
        ("pan and zoom, frames that moved", "fps", "/s"),
        ("slowest frame but 1 %", "p99_ms", "ms"),
        ("slowest frame", "max_ms", "ms"),
        ("peak memory", "peak_mb", "MB"),
    ):
        print(f"{label:<44}{result[key]:>11} {unit}")
    print(f"drawn by {result['renderer']}, timeline {result['size']}")
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
