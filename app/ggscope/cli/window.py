"""``ggscope [open] FILE…``: the window."""

import os
import sys
from argparse import Namespace

from ggscope.cli import output
from ggscope.cli.exits import ERROR


def run(arguments: Namespace) -> int:
    """Open the files in the window and run it; return the exit code."""
    missing = [path for path in arguments.files if not path.exists()]
    for path in missing:
        output.complain(f"{path}: the file does not exist. Check the path.")
    if missing and len(missing) == len(arguments.files):
        return ERROR
    if not has_display():
        output.complain(
            "there is no display to open a window on. Use ggscope info, stats, "
            "show --ascii or export, which need none; or set DISPLAY."
        )
        return ERROR
    try:
        from ggscope.gui.app import run as run_window
    except ImportError as error:
        if arguments.verbose:
            raise
        output.complain(f"the window cannot start: {error}. Install ggscope again.")
        return ERROR
    paths = [path for path in arguments.files if path not in missing]
    return int(run_window(paths, arguments))


def has_display() -> bool:
    """Tell whether there is a display to open a window on."""
    # Without one Qt ends the process instead of raising.
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name)
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    )
