"""Tests use public interfaces and page objects; few reach for private names."""

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from support import ROOT

MAX_ACCESSES = 32
MAX_PATCHED = 126
"""Lower them with the counts: they may only fall."""
_NAMED_TUPLE = ("_replace", "_asdict", "_fields", "_make", "_field_defaults")
"""Documented for everybody; the underscore keeps them apart from names of fields."""
_TAKE_NAMES = ("setattr", "delattr", "getattr", "hasattr", "object", "attrgetter")


def is_private(name: str) -> bool:
    private = name.startswith("_") and not name.startswith("__")
    return private and name not in _NAMED_TUPLE


def accesses(tree: ast.AST) -> Iterator[str]:
    """Yield private names of others that are read, set or imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if not (
                isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            ):
                yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from filter(is_private, (alias.name for alias in node.names))


def patched(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that are given as text: `setattr(module, "_NAME", 1)`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        name = function.id if isinstance(function, ast.Name) else name
        if name in _TAKE_NAMES:
            texts = (a.value for a in node.args[:2] if isinstance(a, ast.Constant))
            for text in texts:
                if isinstance(text, str) and any(map(is_private, text.split("."))):
                    yield text


@pytest.mark.parametrize(
    ("source", "n_accesses", "n_patched"),
    [
        ("view._list.clear(); a.b._c = 1", 2, 0),
        ("self._own = cls._own; x.__dict__; _local = 1", 0, 0),
        ("from module import _one, two, _three", 2, 0),
        ("point._replace(x=1)._x; point._asdict()", 1, 0),
        ('monkeypatch.setattr(module, "_LIMIT", 3)', 0, 1),
        ('monkeypatch.setattr("package.module._LIMIT", 3)', 0, 1),
        ('getattr(view, "_list"); getattr(view, "list"); print("x", "_y")', 0, 1),
    ],
)
def test_every_way_to_a_private_name_is_counted(
    source: str, n_accesses: int, n_patched: int
) -> None:
    tree = ast.parse(source)

    assert (len(list(accesses(tree))), len(list(patched(tree)))) == (
        n_accesses,
        n_patched,
    )


@pytest.mark.parametrize(
    ("count", "limit"), [(accesses, MAX_ACCESSES), (patched, MAX_PATCHED)]
)
def test_private_names_are_used_no_more_than_before(count, limit: int) -> None:
    folder = ROOT / "tests"
    counts = Counter(
        {
            str(path.relative_to(folder)): len(
                list(count(ast.parse(path.read_bytes())))
            )
            for path in sorted(folder.rglob("*.py"))
        }
    )

    assert counts.total() <= limit, counts.most_common(10)
