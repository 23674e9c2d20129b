"""What the bundle is made of beside ggscope itself: every library, with its licence.

A line for each. `packaging/bundle/licenses.py` makes the list of third parties, the
folder of licence texts and the SBOM of it, and ends the build where a file of the
bundle belongs to none of these.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A library by somebody else.

    Attributes
    ----------
    license : expression of SPDX.
    files : patterns of paths below _internal, and modules as ``module:NAME``; none for
        what is compiled into a file of `within`.
    distribution : name on PyPI, which gives the version and the licence texts.
    packages : packages of Debian, one of which has the licence text; the version too,
        where the file itself is taken from the system.
    texts : licences of which the common text is added, as Debian names them.
    """

    name: str
    license: str
    url: str
    files: tuple[str, ...] = ()
    distribution: str = ""
    packages: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    within: str = ""


def _qt(name: str, url: str, *files: str, distribution: str) -> Component:
    return Component(
        name=name, license="LGPL-3.0-only", url=url, files=files,
        distribution=distribution, texts=("LGPL-3", "GPL-3"),
    )  # fmt: skip


def _in_qt(name: str, terms: str, url: str, *packages: str) -> Component:
    return Component(name=name, license=terms, url=url, packages=packages, within="Qt")


def _system(name: str, terms: str, url: str, *files: str) -> Component:
    """Return a library that is copied from the system which builds."""
    return Component(name=name, license=terms, url=url, files=files)


def _wheel(name: str, terms: str, url: str, *files: str) -> Component:
    return Component(name=name, license=terms, url=url, files=files, distribution=name)


COMPONENTS = (
    Component(
        name="Python", license="PSF-2.0", url="https://www.python.org",
        files=("libpython3*", "python3*/lib-dynload/*", "lib-dynload/*",
               "base_library.zip", "Python", "Python.framework/*",
               "module:_sysconfigdata*"),
    ),
    _qt("Qt", "https://download.qt.io/official_releases/qt/", "PySide6/Qt/*",
        "libQt6*", distribution="PySide6-Essentials"),
    _qt("PySide6", "https://download.qt.io/official_releases/QtForPython/", "PySide6/*",
        "libpyside6*", "module:PySide6", distribution="PySide6-Essentials"),
    _qt("shiboken6", "https://download.qt.io/official_releases/QtForPython/",
        "shiboken6/*", "libshiboken6*", "module:shiboken6", distribution="shiboken6"),
    Component(
        name="ICU", license="Unicode-3.0", url="https://icu.unicode.org",
        files=("PySide6/Qt/lib/libicu*", "libicu*"),
        packages=("libicu72", "libicu74", "libicu76"),
    ),
    _in_qt("HarfBuzz", "MIT", "https://harfbuzz.github.io", "libharfbuzz0b"),
    _in_qt("PCRE2", "BSD-3-Clause", "https://www.pcre.org", "libpcre2-16-0"),
    _in_qt("libpng", "libpng-2.0", "http://www.libpng.org", "libpng16-16",
           "libpng16-16t64"),
    _in_qt("zlib", "Zlib", "https://zlib.net", "zlib1g"),
    _in_qt("MD4C", "MIT", "https://github.com/mity/md4c", "libmd4c0"),
    _in_qt("double-conversion", "BSD-3-Clause",
           "https://github.com/google/double-conversion", "libdouble-conversion3"),
    Component(
        name="OpenBLAS", license="BSD-3-Clause", url="https://www.openblas.net",
        files=("numpy.libs/libscipy_openblas*", "libscipy_openblas*"),
        distribution="numpy",
    ),
    Component(
        name="GCC runtime (gfortran, quadmath)",
        license="GPL-3.0-or-later WITH GCC-exception-3.1 AND LGPL-2.1-or-later",
        url="https://gcc.gnu.org", files=("numpy.libs/lib*", "libgfortran*",
                                          "libquadmath*"),
        distribution="numpy", texts=("GPL-3", "LGPL-2.1"),
    ),
    _wheel("numpy", "BSD-3-Clause", "https://numpy.org", "numpy/*", "module:numpy"),
    _wheel("pyqtgraph", "MIT", "https://www.pyqtgraph.org", "pyqtgraph/*",
           "module:pyqtgraph"),
    _wheel("colorama", "BSD-3-Clause", "https://pypi.org/project/colorama/",
           "module:colorama"),
    _wheel("PyOpenGL", "BSD-3-Clause", "https://pypi.org/project/PyOpenGL/",
           "OpenGL/*", "module:OpenGL"),
    _wheel("gguf", "MIT", "https://pypi.org/project/gguf/", "gguf/*", "module:gguf"),
    _wheel("PyYAML", "MIT", "https://pyyaml.org", "yaml/*", "module:yaml"),
    _wheel("tqdm", "MPL-2.0 AND MIT", "https://tqdm.github.io", "tqdm/*",
           "module:tqdm"),
    _wheel("msgspec", "BSD-3-Clause", "https://pypi.org/project/msgspec/", "msgspec/*",
           "module:msgspec"),
    _wheel("platformdirs", "MIT", "https://pypi.org/project/platformdirs/",
           "module:platformdirs"),
    _wheel("psutil", "BSD-3-Clause", "https://pypi.org/project/psutil/", "psutil/*",
           "module:psutil"),
    _wheel("pyelftools", "Unlicense", "https://pypi.org/project/pyelftools/",
           "module:elftools"),
    _wheel("shtab", "Apache-2.0", "https://pypi.org/project/shtab/", "module:shtab"),
    _wheel("duckdb", "MIT", "https://duckdb.org", "duckdb/*", "_duckdb*",
           "module:duckdb", "module:_duckdb"),
    Component(
        name="PyInstaller (start of the program)",
        license="GPL-2.0-or-later WITH Bootloader-exception",
        url="https://pyinstaller.org", distribution="pyinstaller",
        files=("module:pyimod*", "module:_pyi*", "module:pyi_*"),
    ),
    _system("libxkbcommon", "MIT", "https://xkbcommon.org", "libxkbcommon*"),
    _system("XCB libraries", "MIT", "https://xcb.freedesktop.org", "libxcb-*"),
    _system("libXau", "MIT", "https://www.x.org", "libXau*"),
    _system("libXdmcp", "MIT", "https://www.x.org", "libXdmcp*"),
    _system("libbsd", "BSD-3-Clause", "https://libbsd.freedesktop.org", "libbsd*"),
    _system("libmd", "BSD-3-Clause", "https://www.hadrons.org/software/libmd/",
            "libmd.*"),
    _system("libffi", "MIT", "https://sourceware.org/libffi/", "libffi*"),
    _system("bzip2", "bzip2-1.0.6", "https://sourceware.org/bzip2/", "libbz2*"),
    _system("liblzma", "0BSD", "https://tukaani.org/xz/", "liblzma*"),
    _system("libuuid", "BSD-3-Clause", "https://github.com/util-linux/util-linux",
            "libuuid*"),
    _system("libmpdec", "BSD-2-Clause", "https://www.bytereef.org/mpdecimal/",
            "libmpdec*"),
    _system("SQLite", "blessing", "https://sqlite.org", "libsqlite3*"),
    _system("Expat", "MIT", "https://libexpat.github.io", "libexpat*"),
)  # fmt: skip
"""The first that has a pattern of a file is the one that it belongs to."""

OWN = (
    "ggscope/*", "ggscope_capture/*", "ggscope-*.dist-info/*", "licenses/*",
    "module:ggscope", "module:ggscope_capture", "module:entry",
)  # fmt: skip
"""What is of ggscope itself."""
