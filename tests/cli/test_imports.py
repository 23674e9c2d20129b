"""What commands import, and how the files that they run are counted."""

import importlib.util
import re
import subprocess
import sys

import pytest

from support import ROOT

SAMPLES = ROOT / "resources" / "samples"


def count_files():
    path = ROOT / "packaging" / "count_files.py"
    spec = importlib.util.spec_from_file_location("count_files", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["count_files"] = module
    spec.loader.exec_module(module)
    return module


def imported_by(*arguments):
    """Return the modules that are there when a command has ended."""
    code = (
        "import sys\n"
        "from ggscope.cli import main\n"
        f"main({arguments!r})\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("argument", ["--version", "--help", "man"])
def test_what_needs_no_file_imports_no_numpy(argument):
    modules = imported_by(argument)

    assert "ggscope.cli" in modules
    assert "numpy" not in modules


def test_info_imports_what_this_file_needs_and_nothing_else():
    modules = imported_by("info", str(SAMPLES / "llama.ggmlviz"))

    for name in (
        "ggscope.analysis.heat",
        "ggscope.analysis.filters",
        "ggscope.analysis.statistics",
        "ggscope.analysis.reads",
        "ggscope.readers.tensor.reader",
        "ggscope.readers.npu.reader",
        "ggscope.readers.discovery",
        "ggscope.cli.info.model",
        "ggscope.exporters.model_json",
        "ggscope.readers.plugins",
        "concurrent.futures",
        "importlib.metadata",
        "numpy.ma",
        "shutil",
        "PySide6",
    ):
        assert name not in modules


def test_neighbours_that_are_no_model_and_no_map_are_not_read_into():
    modules = imported_by("info", str(SAMPLES / "tinyllama-256.bin"))

    assert "ggscope.readers.discovery" in modules
    assert "ggscope.readers.npu.reader" not in modules


def test_functions_files_and_pairs_of_files_are_counted(capsys):
    module = count_files()

    code = module.main(["readers", "--safe-mode"])

    assert code == 0
    first, *files = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+ functions, \d+ files, \d+ pairs of files", first)
    assert any(line.endswith("readers/registry.py") for line in files)
