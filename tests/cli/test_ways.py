"""What commands import and pass on their way to an answer."""

import importlib.util
import subprocess
import sys

import pytest

from support import ROOT

SAMPLES = ROOT / "resources" / "samples"


def ways():
    path = ROOT / "packaging" / "ways.py"
    spec = importlib.util.spec_from_file_location("ways", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ways"] = module
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
    found = imported_by(argument)

    assert "ggscope.cli" in found
    assert "numpy" not in found


def test_info_imports_what_this_file_needs_and_nothing_else():
    found = imported_by("info", str(SAMPLES / "llama.ggmlviz"))

    for name in (
        "ggscope.analysis.heat",
        "ggscope.analysis.filters",
        "ggscope.analysis.statistics",
        "ggscope.analysis.reads",
        "ggscope.readers.tensor.reader",
        "ggscope.readers.npu.reader",
        "ggscope.readers.discovery",
        "ggscope.cli.info.model",
        "ggscope.readers.plugins",
        "concurrent.futures",
        "importlib.metadata",
        "numpy.ma",
        "shutil",
        "PySide6",
    ):
        assert name not in found


def test_neighbours_that_are_no_model_and_no_map_are_not_read_into():
    found = imported_by("info", str(SAMPLES / "tinyllama-256.bin"))

    assert "ggscope.readers.discovery" in found
    assert "ggscope.readers.npu.reader" not in found


# More than today's figures, less than what a detour costs: see `make ways`.
@pytest.mark.parametrize(
    ("sample", "most"), [("llama.ggmlviz", 42), ("tinyllama-256.bin", 48)]
)
def test_way_of_info_is_short(sample, most):
    way = ways().counted("info", SAMPLES / sample)

    assert len(way.files) <= most, dict(way.files)


def test_ways_are_counted_by_functions_files_and_changes(capsys):
    module = ways()

    code = module.main(["readers", "--safe-mode"])

    assert code == 0
    first, *files = capsys.readouterr().out.splitlines()
    assert "functions" in first
    assert any(line.endswith("readers/registry.py") for line in files)
