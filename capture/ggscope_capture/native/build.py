"""Compiles tracer and hook of CUDA calls: ``python -m ggscope_capture.native.build``.

The build hook of the package does so, too, so only the standard library is needed here.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NAME = "_tracer.so"
CUDA_NAME = "_cuda.so"
FLAGS = (
    "-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-pthread",
)  # fmt: skip
_WAYS = {
    # Without -Bsymbolic the slots would be given the functions that they had.
    # libdl: where the library of C does not hold dlopen itself.
    "linux": ("-fno-plt", "-shared", "-ftls-model=initial-exec", "-Wl,-Bsymbolic",
              "-Wl,--no-as-needed", "-ldl"),
    # Both machines in one file: programs for Intel run on the others, too.
    "darwin": ("-dynamiclib", "-arch", "arm64", "-arch", "x86_64",
               "-mmacosx-version-min=11.0"),
}  # fmt: skip


_CUDA_FLAGS = (
    "-fno-plt", "-shared", "-Wl,-Bsymbolic", "-Wl,-z,nodelete", "-Wl,--no-undefined",
    "-Wl,--no-as-needed", "-ldl",
)  # fmt: skip


class BuildError(Exception):
    """A library cannot be built; says why in plain words."""


def sources() -> list[Path]:
    """Return the C files of the tracer."""
    return sorted(FOLDER.glob("*.c"))


def cuda_sources() -> list[Path]:
    """Return the C files of the hook of CUDA calls."""
    return [*sorted((FOLDER / "cuda").glob("*.c")), FOLDER / "object.c"]


def compile_cuda_hook(target: Path) -> None:
    """Compile the hook of CUDA calls; as `compile_tracer`. Needs no header of CUDA."""
    if sys.platform != "linux":
        raise BuildError("calls of CUDA can be recorded on Linux only")
    _compile(target, cuda_sources(), _CUDA_FLAGS, "the hook of CUDA calls", None)


def compile_tracer(target: Path, *, compiler: str | None = None) -> None:
    """Compile the C files into one library; it appears whole or not at all.

    Parameters
    ----------
    compiler : its command; that of the variable CC, or the usual one, where None.

    Raises
    ------
    BuildError
        If there is no compiler, or the sources do not compile.
    """
    way = _WAYS.get(sys.platform)
    if way is None:
        raise BuildError("the tracer was written for Linux and macOS only so far")
    _compile(target, sources(), way, "the tracer", compiler)


def _compile(
    target: Path,
    files: Sequence[Path],
    flags: Sequence[str],
    what: str,
    compiler: str | None,
) -> None:
    fresh = target.with_suffix(f".{os.getpid()}.new")
    command = [*_compiler(compiler, what), *FLAGS, *map(str, files), *flags]
    done = subprocess.run(
        [*command, "-o", str(fresh)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{what} does not compile:\n{done.stderr}")
    fresh.replace(target)


def _compiler(named: str | None, what: str) -> list[str]:
    """Return the command of a C compiler. Raises BuildError where there is none."""
    named = named or os.environ.get("CC")
    usual = sysconfig.get_config_var("CC") or "cc"
    for command in [named] if named else [usual, "cc"]:
        if shutil.which(command.split()[0]) is not None:
            return command.split()
    raise BuildError(
        f"building {what} needs a C compiler, and there is no '{named or 'cc'}' "
        "here. Install gcc or clang, or name a compiler in the variable CC."
    )


if __name__ == "__main__":
    try:
        compile_tracer(FOLDER / NAME)
        if sys.platform == "linux":
            compile_cuda_hook(FOLDER / CUDA_NAME)
    except BuildError as failure:
        raise SystemExit(f"ggscope-capture: {failure}") from None
