"""Tests of the window use page objects; few reach for private attributes."""

import ast
from collections import Counter
from pathlib import Path

from support import ROOT

MAX_ACCESSES = 59
"""Lower it with the count: it may only fall."""


def private_accesses(path: Path) -> int:
    """Return how often a module reads or sets a private attribute of another object."""
    return sum(
        node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
    )


def test_private_attributes_are_used_no_more_than_before() -> None:
    folder = ROOT / "tests" / "gui"
    counts = Counter(
        {path.name: private_accesses(path) for path in sorted(folder.rglob("*.py"))}
    )

    assert sum(counts.values()) <= MAX_ACCESSES, counts.most_common(10)
