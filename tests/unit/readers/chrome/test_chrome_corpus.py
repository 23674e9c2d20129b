"""Real Chrome traces: the counts that others took of them, by content alone."""

import json
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggscope.errors import ReadError
from ggscope.readers.registry import open_trace
from support import corpus_path

_KIND = "chrome-json"


@cache
def _root() -> Path | None:
    root = corpus_path()
    found = None if root is None else root / "people"
    return found if found is not None and (found / "index.json").is_file() else None


@cache
def _counts() -> dict[str, Any]:
    root = _root()
    if root is None:
        return {}
    entries = json.loads((root / "index.json").read_text())
    return {k: v for k, v in sorted(entries.items()) if v["kind"] == _KIND}


def _names(*, traces: bool) -> list[str]:
    return [k for k, v in _counts().items() if bool(v["by_ph"]) is traces] or [""]


needs_corpus = pytest.mark.skipif(not _counts(), reason="the corpus is not there")


@needs_corpus
@pytest.mark.parametrize("name", _names(traces=True))
def test_counts_of_real_traces(name, tmp_path):
    root, counts = _root(), _counts()[name]
    assert root is not None
    path = tmp_path / "x.txt"
    path.write_bytes((root / name).read_bytes())

    trace = open_trace(path)

    assert trace.check() == []
    assert trace.info.reader_id == "chrome-json"
    assert trace.info.summary["events"] == counts["by_ph"]
    assert trace.info.n_records == counts["events"]
    if set(counts["by_ph"]) <= set("XMisf"):
        spans = trace.spans
        assert len(spans) == counts["complete"]
        assert len(np.unique(spans.lane)) == counts["lanes_of_complete"]
        total = int((spans.end - spans.start).sum())
        exact = Decimal(counts["total_dur_us"]) * 1000
        # Some writers have more digits than ns.
        is_whole = exact == exact.to_integral_value()
        assert abs(total - exact) <= (0 if is_whole else counts["complete"] / 2)
        by_category: dict[str, int] = {}
        for category in [-1] * len(spans) if spans.category is None else spans.category:
            key = trace.strings[int(category)] if category >= 0 else "None"
            by_category[key] = by_category.get(key, 0) + 1
        assert by_category == counts["cats"]


@needs_corpus
@pytest.mark.parametrize("name", _names(traces=False))
def test_lists_that_are_no_traces_are_refused_in_words(name):
    root = _root()
    assert root is not None

    with pytest.raises(ReadError) as caught:
        open_trace(root / name)

    assert "trace events" in str(caught.value)
