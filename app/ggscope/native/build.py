"""Compiles the C files beside this one: ``python -m ggscope.native.build``.

The build hook of the package does so, too, so only the standard library is needed here.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ggscope.native.declared import (
    FOLDER,
    NAME,
    SOURCES,
    checks,
    fingerprint,
    sources_digest,
)

_OPTIMISED = ("-O3",)
_VERSION = """
__attribute__((visibility("default"))) const char *ggscope_native_version(void)
{
    return "%s";
}
"""


class BuildError(Exception):
    """The library cannot be built; says why in plain words."""


def compile_library(
    target: Path, flags: Sequence[str] = _OPTIMISED, *, compiler: str | None = None
) -> None:
    """Compile the C files into one library; it appears whole or not at all.

    Behind each source stands what is declared of it, so that the compiler compares
    the two.

    Parameters
    ----------
    flags : of the compiler, beside those that every build needs.
    compiler : its command; that of the variable CC, or the usual one, where None.

    Raises
    ------
    BuildError
        If there is no compiler, or the sources do not compile.
    """
    texts = {name: f'#include "{FOLDER / name}.c"\n{checks(name)}' for name in SOURCES}
    texts["version"] = _VERSION % " ".join([fingerprint(), *sources_digest(FOLDER)])
    fresh = target.with_suffix(".new")
    with tempfile.TemporaryDirectory() as scratch:
        checked = [Path(scratch) / f"{name}.c" for name in texts]
        for path, text in zip(checked, texts.values(), strict=True):
            path.write_text(text)
        done = subprocess.run(
            [*_compiler(compiler), *flags, "-std=c11", "-Wall", "-Wextra", "-fPIC",
             "-fvisibility=hidden", "-pthread",
             "-dynamiclib" if sys.platform == "darwin" else "-shared",
             *map(str, checked), "-o", str(fresh)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise BuildError(f"the C files do not compile:\n{done.stderr}")
    fresh.replace(target)


def _compiler(named: str | None) -> list[str]:
    """Return the command of a C compiler. Raises BuildError where there is none."""
    named = named or os.environ.get("CC")
    usual = sysconfig.get_config_var("CC") or "cc"
    for command in [named] if named else [usual, "cc"]:
        if shutil.which(command.split()[0]) is not None:
            return command.split()
    raise BuildError(
        f"building from source needs a C compiler, and there is no '{named or 'cc'}' "
        "here. Install gcc or clang, or name a compiler in the variable CC."
    )


if __name__ == "__main__":
    try:
        compile_library(FOLDER / NAME)
    except BuildError as failure:
        raise SystemExit(f"ggscope: {failure}") from None
