"""Perfetto's own viewer opens what `convert` writes, without an error."""

import json
import re
from pathlib import Path

import pytest

import perfetto_viewer

SAMPLES = Path(__file__).parents[2] / "resources" / "samples"
NAMES = ("llama.ggmlviz", "npu-prefill-decode.json", "tinyllama-256.bin")


@pytest.mark.timeout(600)
def test_viewer_shows_every_span_to_the_nanosecond(run, tmp_path) -> None:
    perfetto_viewer.viewer()
    files = []
    for name in NAMES:
        for to in ("chrome-json", "perfetto"):
            files.append(tmp_path / f"{name}.{to}")
            assert run("convert", SAMPLES / name, "--to", to, "-o", files[-1]).code == 0

    result = perfetto_viewer.seen(files, tmp_path)

    for path, seen in zip(files, result, strict=True):
        assert seen["errors"] == []
        meant = path.with_suffix(".chrome-json").read_text()
        # An instant is a slice without a duration there, an open one has -1.
        expected = sorted(
            (int(a + b), -1 if kind == "B" else int((c + d) or 0), json.loads(name))
            for kind, name, a, b, c, d in re.findall(
                r'"ph":"([XBi])","name":("(?:[^"\\]|\\.)*"),.*?"ts":(\d+)\.(\d+)'
                r'(?:,"dur":(\d+)\.(\d+))?',
                meant.replace('"s":"t",', ""),
            )
        )
        assert sorted((int(t), int(d), n) for t, d, n, _ in seen["slices"]) == expected
        assert seen["samples"] == [[str(meant.count('"ph":"C"'))]]
