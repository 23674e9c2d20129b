"""Files, folders and modules that documents and docstrings name are there."""

import ast
import re
from pathlib import Path

import pytest

from support import ROOT

APP = ROOT / "app" / "ggscope"
DOCUMENTS = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "README.md",
    *sorted((ROOT / "resources" / "docs").rglob("*.md")),
]
FOLDERS = sorted(p.name for p in APP.iterdir() if (p / "__init__.py").is_file())
BUILT = {"native/_native.so", "build/bench", "build/site", "dist/"}
PLACEHOLDERS = re.compile(r"NAME|\bname\.py|^/|ggscope\.json$|^//$")
PATH = re.compile(r"`(?:ggscope/)?((?:[A-Za-z_.][\w-]*/)+[\w.-]*|[\w-]+\.(?:py|c))`")
DOTTED = re.compile(
    rf"`(?:ggscope\.)?((?:{'|'.join(FOLDERS)})(?:\.[A-Za-z_]\w*)+)`"
)  # ``analysis.reads.account``


def is_there(path: str) -> bool:
    """Return whether a path is one of the project, from any folder that holds some."""
    expected = path.rstrip("/")
    roots = (ROOT, ROOT / "app", APP, ROOT / "resources" / "docs")
    if any((root / expected).exists() for root in roots):
        return True
    return any(
        next((ROOT / top).rglob(expected), None) is not None
        for top in ("app", "tests", "resources", "packaging", "capture")
    )


def names_in(path: Path) -> set[str]:
    """Return what a module defines at any depth."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def is_module_or_name(dotted: str) -> bool:
    """Return whether ``folder.module.name`` leads somewhere."""
    place, parts = APP, dotted.split(".")
    for i, part in enumerate(parts):
        if (place / part).is_dir():
            place /= part
            continue
        module = place / f"{part}.py"
        rest = parts[i + 1 :]
        if not module.is_file():
            module, rest = place / "__init__.py", parts[i:]
        return not rest or rest[0] in names_in(module)
    return True


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_every_path_that_a_document_names_exists(path: Path) -> None:
    text = path.read_text("utf-8")
    named = {m[1] for m in PATH.finditer(text) if not PLACEHOLDERS.search(m[1])}

    assert sorted(p for p in named - BUILT if not is_there(p)) == []


def test_every_module_that_a_text_names_exists() -> None:
    sources = [*DOCUMENTS, *sorted(APP.rglob("*.py")), *sorted(APP.rglob("*.c"))]

    lost = [
        f"{path.relative_to(ROOT)}: {match[1]}"
        for path in sources
        for match in DOTTED.finditer(path.read_text("utf-8"))
        if not is_module_or_name(match[1])
    ]

    assert lost == []
