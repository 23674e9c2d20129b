"""Find the files of ``resources/`` in a checkout, an installed wheel or a bundle.

And the program itself, for those that start it again.
"""

import os
import sys
from functools import cache
from pathlib import Path

APPLICATION_ID = "org.ggscope.ggscope"
"""The program's name to desktops, stores and bundles: what is installed for one of them
is named after it (``resources/desktop``), and its windows carry that name."""

PACKAGES = (
    "PySide6-Essentials",
    "numpy",
    "pyqtgraph",
    "PyOpenGL",
    "gguf",
    "msgspec",
    "platformdirs",
    "psutil",
    "pyelftools",
    "shtab",
    "duckdb",
)
"""What it stands on, whose versions reports of bugs need."""


@cache
def root() -> Path:
    """Return the folder that holds the resources.

    Raises
    ------
    FileNotFoundError
        If the installation has lost them.
    """
    here = Path(__file__).resolve().parent
    bundle = getattr(sys, "_MEIPASS", None)
    candidates = [here / "resources", here.parent.parent / "resources"]
    if bundle:
        candidates[:0] = [
            Path(bundle) / "ggscope" / "resources",
            Path(bundle) / "resources",
        ]
    for folder in candidates:
        if (folder / "ggml").is_dir():
            return folder
    raise FileNotFoundError(
        "ggscope's resources are missing; install the program again "
        f"(looked in {', '.join(map(str, candidates))})"
    )


def path(name: str) -> Path:
    """Return the path of resource `name`, e.g. ``shaders/rect.vert``."""
    return root() / name


def licenses() -> Path | None:
    """Return the folder of a bundle's licence texts and SBOM; None outside of one."""
    bundle = getattr(sys, "_MEIPASS", None)
    folder = Path(bundle) / "licenses" if bundle else None
    return folder if folder is not None and folder.is_dir() else None


def program() -> tuple[str, ...]:
    """Return the words that start this program, whatever folder that is done in."""
    if getattr(sys, "frozen", False):
        # An AppImage is mounted elsewhere at each start.
        return (os.environ.get("APPIMAGE") or os.path.abspath(sys.executable),)
    script = sys.argv[0]
    if Path(script).name == "ggscope" and os.access(script, os.X_OK):
        return (os.path.abspath(script),)
    return (os.path.abspath(sys.executable), "-m", "ggscope")
