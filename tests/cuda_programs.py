"""Programs that call the CUDA driver, with stand-ins for it and for CUPTI."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ggscope_capture.native import build as native
from support import ROOT

_SOURCES = ROOT / "tests" / "capture"


def build(folder: Path) -> Path:
    """Return a folder with the hook, both stand-ins, and what calls them.

    ``loads`` looks the driver's functions up, ``linked`` is linked to them.
    """
    if sys.platform != "linux":
        pytest.skip("calls of CUDA are recorded on Linux only")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler here")

    def compiled(source: str, name: str, *flags: str) -> None:
        command = [compiler, "-O1", "-Wall", "-Wextra", "-Werror"]
        command += [str(_SOURCES / source), "-o", str(folder / name), *flags]
        subprocess.run(command, check=True)

    library = ("-shared", "-fPIC", "-ldl")
    compiled("fake_cuda.c", "libcuda.so.1", *library, "-Wl,-soname,libcuda.so.1")
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    compiled("fake_cupti.c", "libcupti.so", *library)
    compiled("cuda_program.c", "loads", "-ldl", "-pthread")
    compiled(
        "cuda_program.c", "linked", "-DLINKED", f"-L{folder}", "-lcuda", "-ldl",
        "-pthread",
    )  # fmt: skip
    shutil.copy(_hook(), folder)
    return folder


def _hook() -> Path:
    """Return the hook, compiled where it is older than its sources."""
    path = native.FOLDER / native.CUDA_NAME
    sources = [*native.cuda_sources(), *(native.FOLDER / "cuda").glob("*.h")]
    newest = max(source.stat().st_mtime for source in sources)
    if not path.exists() or path.stat().st_mtime < newest:
        native.compile_cuda_hook(path)
    return path
