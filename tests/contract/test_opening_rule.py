"""What others may have put in place is opened by one function in each package.

That is `regular_file.open_regular`: never waiting, regular files only, no link unasked.
"""

import ast

import pytest

from support import ROOT

FOLDERS = ("app/ggscope/live", "capture/ggscope_capture")
METHODS = {"open", "read_bytes", "read_text", "memmap", "fromfile", "copyfile"}
"""What opens a file, whoever it is called on."""
PASSED = {
    (
        "app/ggscope/live/recording_store.py",
        "place.open",
    ): "a recording folder opens safely",
    ("app/ggscope/live/processes.py", "(PROC / str(pid) / name).open"): "of the kernel",
    ("app/ggscope/live/processes.py", "(PROC / str(pid) / 'stat').read_text"): "same",
    ("app/ggscope/live/processes.py", "(folder / 'fdinfo' / number).read_text"): "same",
    ("app/ggscope/live/recording_folder.py", "os.open"): "a folder, and no link to one",
    ("app/ggscope/live/recording_folder.py", "self.open"): "a recording folder's own",
    ("app/ggscope/live/regular_file.py", "os.open"): "the function itself",
    ("app/ggscope/live/residency.py", "(folder / 'io').read_text"): "of the kernel",
    ("app/ggscope/live/residency.py", "(folder / 'stat').read_text"): "of the kernel",
    ("capture/ggscope_capture/__main__.py", "open"): "the null device",
    ("capture/ggscope_capture/config.py", "path.open"): "named by a person: settings "
    "may come through a pipe",
    ("capture/ggscope_capture/files.py", "os.open"): "a file that it makes itself",
    ("capture/ggscope_capture/files.py", "temporary.open"): "the same",
    ("capture/ggscope_capture/launcher.py", "Path(f'/proc/{pid}/maps').read_text"): ""
    "of the kernel",
    ("capture/ggscope_capture/recording.py", "Path(f'/proc/{pid}/stat').read_bytes"): ""
    "of the kernel",
    ("capture/ggscope_capture/recording.py", "os.open"): "the folder of a ring",
    ("capture/ggscope_capture/recording.py", "temporary.open"): "a file that it makes",
    ("capture/ggscope_capture/recording_folder.py", "os.open"): "a folder, no link",
    ("capture/ggscope_capture/recording_folder.py", "self.open"): "the folder's own",
    ("capture/ggscope_capture/regular_file.py", "os.open"): "the function itself",
    ("capture/ggscope_capture/targets.py", "tarfile.open"): "what it has just loaded",
}
"""Other ways, each with its reason; the whole list has to be used."""


def openings_of(tree: ast.AST) -> set[str]:
    """Return the calls in a module that open a file, as they are written."""
    openings = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in METHODS:
            openings.add(ast.unparse(function))
        elif isinstance(function, ast.Name) and function.id == "open":
            openings.add("open")
    return openings


def test_files_are_opened_by_the_one_function_only() -> None:
    pairs = {
        (path.relative_to(ROOT).as_posix(), call)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path.parent.name != "native"
        for call in openings_of(ast.parse(path.read_text("utf-8")))
    }

    assert pairs == set(PASSED)


@pytest.mark.parametrize(
    "line",
    ["open(x)", "p.open('rb')", "p.read_bytes()", "p.read_text()", "np.memmap(x)",
     "np.fromfile(x)", "os.open(x, os.O_RDONLY)", "shutil.copyfile(a, b)"],
)  # fmt: skip
def test_rule_sees_every_way_to_open(line: str) -> None:
    assert openings_of(ast.parse(line))


@pytest.mark.parametrize("line", ["open_regular(x)", "read_regular(x)", "x.opens()"])
def test_rule_lets_the_safe_function_pass(line: str) -> None:
    assert not openings_of(ast.parse(line))
