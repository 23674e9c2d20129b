"""What goes into the bundle of PyInstaller, and what the system must have.

Lists of what is kept, not of what is dropped: a Qt that brings more does not make the
bundle grow. tests/packaging holds them against what the program imports, and
`packaging/package.py` holds the finished bundle against them.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

Entry = tuple[str, str, str]
"""What PyInstaller knows of a file: name in the bundle, place here, kind."""

QT_MODULES = {
    "QtCore": "everything",
    "QtGui": "pictures",
    "QtWidgets": "the window",
    "QtSvg": "figures as SVG; icons",
    "QtOpenGL": "the 3D view on a graphics card",
    "QtOpenGLWidgets": "the timeline on a graphics card",
}
"""Modules of PySide6 -> what they are for."""

QT_LIBRARIES = {
    "Core", "Gui", "Widgets", "Svg", "OpenGL", "OpenGLWidgets",
    "DBus", "XcbQpa", "WaylandClient", "WlShellIntegration",
}  # fmt: skip
"""Libraries of Qt: those of the modules, and what these and the plugins link to."""

PLUGINS = {
    "platforms": {"qxcb", "qwayland", "qoffscreen", "qcocoa"},
    "styles": {"qmacstyle"},
    "iconengines": {"qsvgicon"},
    "imageformats": {"qsvg"},
    "platforminputcontexts": {
        "composeplatforminputcontextplugin", "ibusplatforminputcontextplugin"
    },
    "platformthemes": {"qxdgdesktopportal"},
    "xcbglintegrations": {"qxcb-egl-integration", "qxcb-glx-integration"},
    "wayland-decoration-client": {"adwaita", "bradient"},
    "wayland-graphics-integration-client": {"qt-plugin-wayland-egl", "dmabuf-server"},
    "wayland-shell-integration": {"xdg-shell", "wl-shell-plugin", "qt-shell"},
}  # fmt: skip
"""Plugins of Qt, by folder."""

UNUSED_MODULES = (
    "tkinter", "lib2to3", "idlelib", "ensurepip", "pydoc_data", "test",
    "readline", "curses", "_curses",
    "IPython", "matplotlib", "pandas", "scipy", "pyarrow", "PIL", "setuptools", "pip",
    "pytest", "_pytest", "mypy", "hypothesis", "requests", "urllib3", "certifi",
    "charset_normalizer", "yaml.cyaml", "yaml._yaml", "_yaml", "tqdm.notebook", "cffi",
    "pycparser", "asyncio", "_asyncio", "_posixshmem", "numpy.testing",
    "numpy._core._multiarray_tests", "PySide6.support", "PySide6.QtTest",
    "numpy.f2py", "numpy.distutils", "numpy.testing.tests", "OpenGL.Tk", "OpenGL.GLE",
    "OpenGL_accelerate", "pyqtgraph.examples", "PyQt5", "PyQt6", "PySide2",
    "duckdb.experimental", "adbc_driver_duckdb",
    # No program of the bundle opens a connection that is encrypted.
    "_ssl", "ssl", "_hashlib",
)  # fmt: skip
"""Modules that libraries import where they are there, and the program never uses."""

SYSTEM_LIBRARIES = {
    "libc.so.6": ("libc6", "glibc"),
    "libm.so.6": ("libc6", "glibc"),
    "libdl.so.2": ("libc6", "glibc"),
    "libpthread.so.0": ("libc6", "glibc"),
    "librt.so.1": ("libc6", "glibc"),
    "libutil.so.1": ("libc6", "glibc"),
    "ld-linux-x86-64.so.2": ("libc6", "glibc"),
    "ld-linux-aarch64.so.1": ("libc6", "glibc"),
    "libgcc_s.so.1": ("libgcc-s1", "libgcc"),
    "libstdc++.so.6": ("libstdc++6", "libstdc++"),
    "libz.so.1": ("zlib1g", "zlib"),
    "libzstd.so.1": ("libzstd1", "libzstd"),
    "libglib-2.0.so.0": ("libglib2.0-0t64 | libglib2.0-0", "glib2"),
    "libgthread-2.0.so.0": ("libglib2.0-0t64 | libglib2.0-0", "glib2"),
    "libdbus-1.so.3": ("libdbus-1-3", "dbus-libs"),
    "libfontconfig.so.1": ("libfontconfig1", "fontconfig"),
    "libfreetype.so.6": ("libfreetype6", "freetype"),
    "libEGL.so.1": ("libegl1", "libglvnd-egl"),
    "libGL.so.1": ("libgl1", "libglvnd-glx"),
    "libX11.so.6": ("libx11-6", "libX11"),
    "libX11-xcb.so.1": ("libx11-xcb1", "libX11-xcb"),
    "libxcb.so.1": ("libxcb1", "libxcb"),
    "libxcb-glx.so.0": ("libxcb-glx0", "libxcb"),
    "libxcb-randr.so.0": ("libxcb-randr0", "libxcb"),
    "libxcb-render.so.0": ("libxcb-render0", "libxcb"),
    "libxcb-shape.so.0": ("libxcb-shape0", "libxcb"),
    "libxcb-shm.so.0": ("libxcb-shm0", "libxcb"),
    "libxcb-sync.so.1": ("libxcb-sync1", "libxcb"),
    "libxcb-xfixes.so.0": ("libxcb-xfixes0", "libxcb"),
    "libxcb-xkb.so.1": ("libxcb-xkb1", "libxcb"),
    "libwayland-client.so.0": ("libwayland-client0", "libwayland-client"),
    "libwayland-cursor.so.0": ("libwayland-cursor0", "libwayland-cursor"),
    "libwayland-egl.so.1": ("libwayland-egl1", "libwayland-egl"),
}
"""Libraries that the bundle takes from the system -> packages (Debian, Fedora).

Those that belong to the graphics driver, the fonts or the desktop, and those that these
load too: one of another age in the bundle would come in their way. Everything else that
is linked to lies in the bundle, such as the small libraries around XCB, which many
desktops do not install.
"""

_DROPPED_FOLDERS = (
    "PySide6/Qt/qml", "PySide6/Qt/translations", "PySide6/Qt/libexec",
    "PySide6/Qt/resources", "PySide6/Qt/metatypes", "PySide6/include",
    "PySide6/typesystems", "PySide6/glue", "PySide6/scripts", "PySide6/doc",
    "PySide6/translations", "PySide6/support/deploy", "pyqtgraph/icons",
)  # fmt: skip


def is_kept(name: str) -> bool:
    """Return whether a file of PyInstaller's list belongs into the bundle."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.as_posix().startswith(_DROPPED_FOLDERS) or "__pycache__" in path.parts:
        return False
    if path.name in SYSTEM_LIBRARIES:
        return False
    if "plugins" in path.parts and "PySide6" in path.parts:
        folder, stem = path.parent.name, path.name.partition(".")[0]
        return stem.removeprefix("lib") in PLUGINS.get(folder, set())
    library = qt_library(path)
    if library:
        return library in QT_LIBRARIES
    module = qt_module(path)
    return not module or module in QT_MODULES


def modules_of(names: Iterable[str]) -> set[str]:
    """Return the modules that files of a bundle are, compiled ones."""
    modules = set()
    for name in names:
        path = PurePosixPath(name)
        stem, *tags = path.name.split(".")
        if tags[-1:] != ["so"] or path.name.startswith("lib"):
            continue
        folder = [] if "lib-dynload" in path.parts else list(path.parts[:-1])
        modules.add(".".join([*folder, stem]))
    return modules


def linked(entries: Sequence[Entry]) -> list[Entry]:
    """Return PyInstaller's entries without libraries that only dropped files need.

    A library for its own sake lies in the folder of its package; what stands at the
    top of the bundle was found by looking what others link to.
    """
    loose = {e[0]: e for e in entries if "/" not in e[0] and ".cpython-" not in e[0]}
    pythons = {name: entry for name, entry in loose.items() if "python" in name}
    fresh = [entry for entry in entries if entry[0] not in loose] + [*pythons.values()]
    while fresh:
        linked_to = {name for entry in fresh for name in linked_by(Path(entry[1]))}
        fresh = [e for n, e in loose.items() if n in linked_to and n not in pythons]
        pythons |= {entry[0]: entry for entry in fresh}
    return [e for e in entries if e[0] not in loose or e[0] in pythons]


def linked_by(path: Path) -> list[str]:
    """Return the names of the libraries that a library or program itself names."""
    if sys.platform == "darwin":
        from PyInstaller.depend.bindepend import get_imports

        return [Path(name).name for name, _ in get_imports(str(path))]
    return [tag.needed for tag in _dynamic_tags(path, "DT_NEEDED")]


def search_paths(path: Path) -> list[str]:
    """Return the folders in which an ELF file has its libraries looked for."""
    tags = _dynamic_tags(path, "DT_RUNPATH"), _dynamic_tags(path, "DT_RPATH")
    listed = [tag.runpath for tag in tags[0]] + [tag.rpath for tag in tags[1]]
    return [place for places in listed for place in places.split(":")]


def _dynamic_tags(path: Path, kind: str) -> list[Any]:
    """Return the dynamic tags of a kind; none where it is no such file."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        try:
            dynamic = ELFFile(file).get_section_by_name(".dynamic")
        except ELFError:
            return []
        return (
            list(dynamic.iter_tags(kind)) if isinstance(dynamic, DynamicSection) else []
        )


def qt_library(path: PurePosixPath) -> str:
    """Return which library of Qt a file is, such as ``Core``; "" where it is none."""
    for part in path.parts:
        if part.endswith(".framework") and part.startswith("Qt"):
            return part.removeprefix("Qt").removesuffix(".framework")
    if path.name.startswith("libQt6") and ".so" in path.name:
        return path.name.removeprefix("libQt6").partition(".")[0]
    return ""


def qt_module(path: PurePosixPath) -> str:
    """Return which module of PySide6 a file is, such as ``QtCore``; "" = none."""
    stem = path.name.partition(".")[0]
    is_module = path.parent.name == "PySide6" and stem.startswith("Qt")
    return stem if is_module and path.suffix in (".so", ".pyd", ".pyi") else ""


def dependencies(names: Iterable[str], column: int) -> Iterator[str]:
    """Return the packages that hold system libraries, sorted, each once.

    Parameters
    ----------
    column : 0 for Debian, 1 for Fedora.
    """
    return iter(sorted({SYSTEM_LIBRARIES[name][column] for name in names}))
