"""Where the bundle begins: one program, called by the name of either command.

``ggscope-capture`` is a link to ``ggscope``. What both start again by
``sys.executable -m module`` works as with an interpreter, for their own modules.
"""

import os
import runpy
import sys
from pathlib import Path

_OWN = ("ggscope", "ggscope_capture")


def _restore_environment() -> None:
    """Give children the libraries of the system, not those of the bundle.

    PyInstaller's loader puts the bundle first in the search path. It is read when a
    process starts, so this one keeps it; a traced llama.cpp must not get it.
    """
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        before = os.environ.pop(f"{name}_ORIG", None)
        if before is not None:
            os.environ[name] = before
        elif name == "LD_LIBRARY_PATH":
            os.environ.pop(name, None)


def main() -> int:
    """Run what is asked for; return the exit code."""
    _restore_environment()
    arguments = sys.argv[1:]
    if arguments[:1] == ["-m"] and len(arguments) > 1:
        module = arguments[1]
        if module.partition(".")[0] not in _OWN:
            sys.stderr.write(
                f"ggscope: {module} is no part of this program. "
                "Install Python for it.\n"
            )
            return 2
        sys.argv = [module, *arguments[2:]]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0
    if Path(sys.argv[0]).name.startswith("ggscope-capture"):
        from ggscope_capture.__main__ import main as capture

        return int(capture() or 0)
    from ggscope.cli import main as viewer

    return int(viewer() or 0)


if __name__ == "__main__":
    raise SystemExit(main())
