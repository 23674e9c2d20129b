"""Builds llama.cpp as the tests want it: ``make llama``, once, in the cache folder.

Programs with libraries (``shared``) and a backend of another process beside the CPU's
(`REMOTE`), the same with everything in it (``static``), and one of the latter from
sources that ``ggscope-capture codemod`` changed (``changed``).
"""

import hashlib
import shutil
import sys
from pathlib import Path

from ggscope_capture import codemod, targets

PROGRAM = "llama-completion"
REMOTE = "ggml-rpc-server"
"""Computes for others: with it there are two backends where there is no GPU."""


def main() -> int:
    """Build what is missing, or was changed by another codemod; return the code."""
    changed = targets.cache() / "changed"
    by = hashlib.sha256(Path(codemod.__file__).read_bytes()).hexdigest()
    try:
        shared = [*targets.BUILT, REMOTE]
        if not all((targets.cache() / "shared/bin" / it).is_file() for it in shared):
            targets.build("shared", shared, "-DGGML_RPC=ON")
        print(targets.install("source").path)
        if _text(changed / "codemod") == by:
            return 0
        tree = targets.source()
        codemod.undo(tree)  # what an interrupted build left
        codemod.apply(tree)
        try:
            built = targets.build("static", [PROGRAM]) / PROGRAM
            changed.mkdir(exist_ok=True)
            print(shutil.copy2(built, changed / PROGRAM))
        finally:
            codemod.undo(tree)
        print(targets.build("static", [PROGRAM]) / PROGRAM)
        (changed / "codemod").write_text(by)
    except (targets.InstallError, codemod.CodemodError, OSError) as error:
        print(f"make llama: {error}", file=sys.stderr)
        return 1
    return 0


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


if __name__ == "__main__":
    raise SystemExit(main())
