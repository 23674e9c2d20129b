"""Rules of the source layout that no import contract can express."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support import ROOT

APP = ROOT / "app" / "ggscope"

QT_MODULES = {
    "session": {"QtCore"},
    "render": {"QtCore", "QtGui", "QtSvg", "QtOpenGL"},
    "views": {"QtCore", "QtGui", "QtWidgets", "QtOpenGLWidgets", "QtOpenGL"},
    "gui": {"QtCore", "QtGui", "QtWidgets", "QtSvg", "QtSvgWidgets", "QtOpenGL",
            "QtOpenGLWidgets", "QtNetwork"},
    "bench": {"QtCore", "QtWidgets"},
    "cli": set(),
}  # fmt: skip


def imports_of(path: Path) -> set[str]:
    imports: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports.add(node.module)
            imports |= {f"{node.module}.{alias.name}" for alias in node.names}
    return imports


def qt_modules_of(path: Path) -> set[str]:
    return {
        name.split(".")[1] for name in imports_of(path)
        if name.startswith("PySide6.") and name.split(".")[1].startswith("Qt")
    }  # fmt: skip


@pytest.mark.parametrize("folder", sorted(p.name for p in APP.iterdir() if p.is_dir()))
def test_each_folder_uses_only_its_qt_modules(folder: str) -> None:
    allowed = QT_MODULES.get(folder, set())

    for path in (APP / folder).rglob("*.py"):
        assert qt_modules_of(path) <= allowed, path.relative_to(ROOT)


def test_every_painter_is_ended_whatever_fails() -> None:
    """One that lives on in a traceback is active when Qt ends the picture."""
    for folder in ("gui", "views", "render"):
        for path in (APP / folder).rglob("*.py"):
            for function in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(function, ast.FunctionDef):
                    text = ast.unparse(function)
                    made = text.count("= QPainter(")
                    assert made == text.count("painter.end()"), (path, function.name)


def test_nothing_is_shot_past_its_receiver() -> None:
    """PySide keeps the method where the receiver goes first; `later` does not."""
    for path in APP.rglob("*.py"):
        assert ".singleShot(" not in path.read_text("utf-8"), path.relative_to(ROOT)


def test_only_whole_numbers_are_multiplied_as_matrices() -> None:
    """OpenBLAS multiplies floats, and ends the process where it gets no buffer.

    Each product that is named here is one of integers, which numpy multiplies itself.
    """
    names = set()
    for path in APP.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        if any(isinstance(node, ast.MatMult) for node in ast.walk(tree)):
            names.add(path.relative_to(APP).as_posix())
        called = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        assert not called & {"dot", "matmul", "tensordot", "linalg"}, path

    assert names == {
        "analysis/completeness/altered.py",
        "analysis/completeness/expected.py",
        "analysis/sessions/correlate.py",
        "live/files.py",
        "readers/tensor/scan.py",
        "readers/tensor/token_json/reader.py",
    }


PATHS_OF_THE_PROGRAM = {
    "assets.py", "native/library.py", "render/colors.py", "cli/desktop.py",
    "cli/self_test.py", "cli/convert.py", "live/recording_store.py",
}  # fmt: skip
"""Modules that ask only of paths that the program made or has opened before."""


def test_no_path_of_a_person_is_asked_for_by_what_raises() -> None:
    """Such as ``Path.exists``, where a name is too long or a folder is closed.

    ``os.path.exists`` and the like answer; what opens the file then says why not.
    """
    raising = {"exists", "is_dir", "is_file", "is_symlink"}
    for path in APP.rglob("*.py"):
        if path.relative_to(APP).as_posix() in PATHS_OF_THE_PROGRAM:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = ast.unparse(node.func.value)
                if of not in ("os.path", "entry"):  # an entry is of a folder's list
                    assert node.func.attr not in raising, (path, of)


def test_every_folder_and_module_of_a_view_is_registered() -> None:
    from ggscope.views.registry import BUILTIN

    registered = {entry.module.split(".")[2] for entry in BUILTIN}

    there = {p.stem for p in (APP / "views").iterdir() if p.stem[0] != "_"}
    assert registered == there - {"base", "registry"}


def test_reader_contract_shares_no_folder_of_a_format() -> None:
    """What its wildcard leaves out is shared by readers: a format is never in there."""
    from ggscope.readers import registry

    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = (
        c
        for c in config["tool"]["importlinter"]["contracts"]
        if c.get("modules") == ["ggscope.readers.*"]
    )
    shared = {
        line.partition(" -> ")[2].split(".")[2]
        for line in contract["ignore_imports"]
        if line.startswith("ggscope.readers.** -> ")
    }

    formats = {target.split(".")[2] for target in registry.BUILTIN}
    assert shared
    assert not shared & formats


def test_importing_readers_and_analysis_leaves_qt_out() -> None:
    code = (
        "import sys, ggscope.readers.registry as r, ggscope.analysis.rows.index, "
        "ggscope.analysis.statistics.table; r.readers(); "
        "bad = {'PySide6', 'pyqtgraph', 'OpenGL'} & set(sys.modules); "
        "sys.exit(', '.join(sorted(bad)) or 0)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


ROOTS = ["app", "capture", "packaging", "tests", "resources"]


@pytest.mark.parametrize("folder", ROOTS)
def test_source_roots_are_no_packages(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists()


def test_samples_are_what_their_generator_writes() -> None:
    folder = ROOT / "resources" / "samples"
    done = subprocess.run(
        [
            sys.executable, "-c",
            "import sys; sys.path.insert(0, 'packaging'); "
            "import make_samples, hashlib; "
            "print('\\n'.join(f'{n} {hashlib.sha256(d).hexdigest()}' "
            "for n, d in sorted(make_samples.samples().items())))",
        ],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    import hashlib

    files = [p for p in folder.rglob("*") if p.is_file()]
    values = {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in files
    }

    assert dict(line.split() for line in done.stdout.splitlines()) == values
    assert all(p.stat().st_size < 1_000_000 for p in files)
