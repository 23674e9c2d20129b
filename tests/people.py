"""Real files of other programs in the corpus, with what others counted in them.

Tests that go through them are skipped where the corpus is not there.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support import corpus_path


@cache
def _index() -> tuple[Path, dict[str, Any]] | None:
    root = corpus_path()
    index = None if root is None else root / "people" / "index.json"
    if index is None or not index.is_file():
        return None
    return index.parent, json.loads(index.read_text())


def counts(kind: str) -> dict[str, dict[str, Any]]:
    """Return what is known of each file of a kind; empty without the corpus."""
    index = _index()
    listed = {} if index is None else index[1]
    return {k: v for k, v in sorted(listed.items()) if v["kind"] == kind}


def each(
    kind: str, where: Callable[[str, dict[str, Any]], bool] = lambda *_: True
) -> pytest.MarkDecorator:
    """Return the mark that runs a test for the "name" of each file of a kind.

    Parameters
    ----------
    where : whether a name, with what is known of it, is meant.
    """
    names = [name for name, known in counts(kind).items() if where(name, known)]
    reason = pytest.mark.skip(reason="the corpus is not there")
    return pytest.mark.parametrize("name", names or [pytest.param("", marks=reason)])


def content(name: str) -> bytes:
    """Return the bytes of a file."""
    index = _index()
    assert index is not None
    return (index[0] / name).read_bytes()
