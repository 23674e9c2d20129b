"""Builds llama.cpp as the tests want it: ``make llama``, once, in the cache folder.

Programs with libraries (``shared``), the same with everything in it (``static``), and
one of the latter from sources that ``ggscope-capture codemod`` changed (``changed``).
"""

import shutil
import sys

from ggscope_capture import codemod, targets


def main() -> int:
    """Build what is missing or old; return the exit code."""
    program = "llama-completion"
    try:
        tree = targets.source()
        codemod.undo(tree)  # what an interrupted build left
        print(targets.build("shared", targets.BUILT))
        codemod.apply(tree)
        try:
            built = targets.build("static", [program]) / program
            changed = targets.cache() / "changed"
            changed.mkdir(exist_ok=True)
            print(shutil.copy2(built, changed / program))
        finally:
            codemod.undo(tree)
        print(targets.build("static", [program]))
    except (targets.InstallError, codemod.CodemodError) as error:
        print(f"make llama: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
