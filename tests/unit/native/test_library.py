"""The compiled library: what it is made from, and what is not taken for it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ggscope.errors import NativeError
from ggscope.native import library as module
from ggscope.native.declared import FOLDER, NAME, SOURCES, In, Out, Row
from ggscope.native.library import library

CHECK = """
import sys
from pathlib import Path
from ggscope.native.build import BuildError, compile_library
try:
    compile_library(Path("unused.so"), ["-fsyntax-only"])
except BuildError as error:
    print(error)
"""


def test_every_exported_function_is_declared_where_it_stands() -> None:
    for name, functions in SOURCES.items():
        text = (FOLDER / f"{name}.c").read_text()
        assert set(re.findall(r"^EXPORT .*?(ggscope_\w+)\(", text, re.M)) == set(
            functions
        )
    assert {path.stem for path in FOLDER.glob("*.c")} == set(SOURCES)


def build_of_a_copy(folder: Path, old: str, new: str) -> str:
    """Return what the compiler says where declared.py reads differently."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("there is no C compiler here")
    shutil.copytree(FOLDER, folder / "ggscope" / "native")
    (folder / "ggscope" / "__init__.py").write_text("")
    declared = folder / "ggscope" / "native" / "declared.py"
    text = declared.read_text()
    assert text.count(old) == 1
    declared.write_text(text.replace(old, new))
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", CHECK],
        cwd=folder, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('("number", In.u16), ("names"', '("number", In.i32), ("names"', "Row.number"),
        ('("ids", In.void), ("category"', '("category"', "Row.category"),
        (
            'Out.i32, "begin", "finish"',
            'Out.i32, "finish", "begin"',
            "EventRows.begin",
        ),
        ('_names(i64, "span", "end", "own")', '_names(i64, "span", "own")', "Open"),
        (
            '"number", In.u16',
            '"numbers", In.u16',
            "no member named .numbers",
        ),
        ("(i32, In.i64, In.i64, i64)", "(i32, In.i64, i64)", "ggscope_rows_are_sorted"),
        ('json_repeats": (i64,', 'json_repeats": (i32,', "ggscope_json_repeats"),
    ],
)
def test_what_is_declared_otherwise_does_not_build(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    text = build_of_a_copy(tmp_path, old, new)

    assert re.search(f"error: .*{message}", text)


def loaded_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what is said of a library in another folder."""
    monkeypatch.setenv("GGSCOPE_NATIVE", str(folder))
    with pytest.raises(NativeError) as failed:
        library.__wrapped__()
    return str(failed.value)


def test_missing_library_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = loaded_from(tmp_path, monkeypatch)

    assert "is missing" in message
    assert "`make run` or `pip install -e .`" in message


def test_file_that_is_no_library_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / NAME).write_bytes(b"not a library")

    assert "cannot be loaded" in loaded_from(tmp_path, monkeypatch)


def test_library_of_other_declarations_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "fingerprint", lambda: "0" * 16)

    assert "older or newer" in loaded_from(FOLDER, monkeypatch)


def test_library_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sources_digest", lambda _: ["0" * 16])

    assert "older or newer" in loaded_from(FOLDER, monkeypatch)


def test_library_without_sources_beside_it_goes_by_declarations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "sources_digest", lambda _: [])

    assert library.__wrapped__().ggscope_json_repeats(None, 0, None) == 0


def test_pointers_refuse_what_c_would_misread() -> None:
    values = np.arange(8)
    fixed = values.copy()
    fixed.flags.writeable = False

    assert In.i64.address(fixed) == fixed.ctypes.data
    with pytest.raises(TypeError, match="type int32, not int64_t"):
        In.i64.address(values.astype(np.int32))
    with pytest.raises(TypeError, match="next to each other"):
        In.i64.address(values[::2])
    with pytest.raises(TypeError, match="must not be written"):
        Out.i64.address(fixed)


def test_structure_keeps_the_arrays_that_it_points_to() -> None:
    start = np.arange(3)
    row = Row(start=start, n=3)
    n_before = sys.getrefcount(start)

    row.start = None

    assert row.n == 3
    assert sys.getrefcount(start) == n_before - 1
