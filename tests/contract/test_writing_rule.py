"""No file is written past the one writer, `ggscope.atomic_write`."""

import ast
import re

import pytest

from support import ROOT

APP = ROOT / "app" / "ggscope"
METHODS = {
    "write_text", "write_bytes", "tofile", "unlink", "rename", "mkdir", "rmdir",
    "touch", "symlink_to", "hardlink_to", "setFileName",
}  # fmt: skip
"""What changes files, whoever it is called on."""
FUNCTIONS = {
    "os": {"remove", "unlink", "rename", "renames", "replace", "mkdir", "makedirs",
           "rmdir", "removedirs", "link", "symlink", "truncate", "ftruncate", "mkfifo"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree"},
    "tempfile": {"mkstemp", "mkdtemp"},
    "np": {"save", "savez", "savez_compressed", "savetxt", "memmap"},
    "mmap": {"mmap"},
}  # fmt: skip
"""The same as functions of modules; other things have methods of these names."""
CLASSES = {
    "NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory",
    "QDir", "QFile", "QLockFile", "QSaveFile", "QSettings", "QTemporaryDir",
    "QTemporaryFile",
}  # fmt: skip
PASSED = {
    ("api.py", "TemporaryDirectory"): "an SVG that a notebook shows",
    ("api.py", "save"): "the same, by the one writer",
    ("readers/gguf/reader.py", "TemporaryDirectory"): "a head for a package that maps",
    ("readers/gguf/reader.py", "open"): "the same",
    ("cli/self_test.py", "TemporaryDirectory"): "figures that nobody keeps",
    ("cli/desktop.py", "unlink"): "what it wrote itself, and its list says so",
    ("cli/desktop.py", "rmdir"): "folders that it made and that are empty",
    ("cli/output.py", "open"): "the null device in the place of a closed pipe",
    ("native/build.py", "TemporaryDirectory"): "what the compiler is shown, once",
    ("native/build.py", "write_text"): "the same",
    (
        "gui/single_instance/client.py",
        "open",
    ): "a lock, which says whether its owner lives",
    (
        "gui/single_instance/client.py",
        "unlink",
    ): "the socket of this process, or of one that died",
    (
        "gui/single_instance/client.py",
        "mkdir",
    ): "the folder of both, which has no files",
    ("live/recording_store.py", "fdopen"): "what comes out of a ring, as it comes",
    ("live/recording_store.py", "mmap"): "what was kept so far, only to read",
    ("live/recording_folder.py", "fdopen"): "the same",
    ("live/recording_folder.py", "mkdtemp"): "the folder of all that",
    ("live/recording_folder.py", "replace"): "a file in it",
    ("live/recording_folder.py", "rmdir"): "that folder, once it is empty",
    ("live/recording_folder.py", "symlink"): "names of files that another process kept",
    ("live/recording_folder.py", "unlink"): "files of it, and the note that names it",
    ("live/launcher.py", "TemporaryFile"): "what a child says: it has no name",
    (
        "live/ring.py",
        "open_regular",
    ): "how far it was read, for its writer",
    ("live/ring.py", "mmap"): "the same",
    ("live/residency.py", "mmap"): "a model whose pages are asked about, only to read",
    (
        "exporters/spans.py",
        "TemporaryDirectory",
    ): "what DuckDB writes, until it is taken",
    ("session/bookmarks/files.py", "unlink"): "its content was just written elsewhere",
}


def writes_of(tree: ast.AST) -> set[str]:
    """Return the ways to write a file that a module uses."""
    writes = set()
    for node in ast.walk(tree):
        name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", "")))
        if name in CLASSES:
            writes.add(name)
        if isinstance(node, ast.Call):
            writes |= _called(node)
    return writes


def _called(node: ast.Call) -> set[str]:
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    owner = getattr(getattr(node.func, "value", None), "id", "")
    arguments = [
        ast.unparse(a) for a in (*node.args, *(k.value for k in node.keywords))
    ]
    is_writing = (
        name in FUNCTIONS.get(owner, ())
        or (name in METHODS and isinstance(node.func, ast.Attribute))
        or (name == "open" and owner == "os" and _has_flag(arguments))
        or (name == "open_regular" and _has_flag(arguments))
        or (name in ("open", "fdopen") and _has_mode(arguments))
        or (name == "save" and bool(arguments) and arguments[0] != "buffer")
        or (name == "QPdfWriter" and arguments[:1] != ["buffer"])
    )
    return {name} if is_writing else set()


def _has_flag(arguments: list[str]) -> bool:
    return bool(re.search("O_WRONLY|O_RDWR|O_CREAT", " ".join(arguments)))


def _has_mode(arguments: list[str]) -> bool:
    modes = [a.strip("'") for a in arguments if re.fullmatch(r"'[rwaxbt+]{1,3}'", a)]
    return any(set(mode) & set("wax+") for mode in modes)


def test_files_are_written_by_the_one_writer_only() -> None:
    pairs = {
        (path.relative_to(APP).as_posix(), name)
        for path in APP.rglob("*.py")
        for name in writes_of(ast.parse(path.read_text("utf-8")))
        if path != APP / "atomic_write.py"
    }

    assert pairs == set(PASSED)


@pytest.mark.parametrize("top", ["app", "capture"])
def test_no_tree_is_removed(top: str) -> None:
    """Files go one by one, each because it is known; see `recording_folder`."""
    result = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / top).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if {getattr(node, "id", ""), getattr(node, "attr", "")}
        & {"rmtree", "removedirs", "fwalk"}
    }

    assert result == set()


@pytest.mark.parametrize(
    "line",
    ["open(x, 'w')", "p.open('r+b')", "open(x, mode='ab')", "io.open(x, 'x')",
     "os.open(x, os.O_RDWR | os.O_CREAT)", "p.write_text('')", "os.replace(a, b)",
     "shutil.move(a, b)", "from tempfile import NamedTemporaryFile", "p.unlink()",
     "from PySide6.QtCore import QSaveFile", "QtCore.QSettings('x')", "np.save(x, a)",
     "a.tofile(x)", "QPdfWriter('x.pdf')", "generator.setFileName('x.svg')",
     "image.save('x.png')", "p.mkdir()", "np.memmap(x)", "os.fdopen(n, 'wb')"],
)  # fmt: skip
def test_rule_sees_every_way_to_write(line: str) -> None:
    assert writes_of(ast.parse(line))


@pytest.mark.parametrize(
    "line",
    ["open(x)", "p.open('rb')", "text.replace('a', 'b')", "replace(scene, x=1)",
     "os.open(x, os.O_RDONLY)", "QPdfWriter(buffer)", "names.remove(x)", "d.copy()",
     "image.save(buffer, 'PNG')", "write_file(x, y)", "painter.save()"],
)  # fmt: skip
def test_rule_lets_everything_else_pass(line: str) -> None:
    assert not writes_of(ast.parse(line))
