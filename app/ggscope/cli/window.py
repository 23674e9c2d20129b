"""``ggscope [open] FILE…``: the window."""

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ggscope.cli import output
from ggscope.cli.output import ERROR, GOOD, USAGE

if TYPE_CHECKING:
    from ggscope.gui.single_instance.client import HandoverResult, InstanceLock


def run(arguments: Namespace) -> int:
    """Open the files in the window and run it; return the exit code."""
    if arguments.install_desktop or arguments.uninstall_desktop:
        from ggscope.cli.desktop import run as run_desktop

        return run_desktop(arguments)
    if arguments.follow and (arguments.live or len(arguments.files) != 1):
        output.complain("--follow takes one file.")
        return USAGE
    follow_where_configured(arguments)
    missing = [path for path in arguments.files if is_missing(path)]
    if missing and len(missing) == len(arguments.files):
        return ERROR
    if not has_display():
        output.complain(
            "no display to open a window on. Use ggscope info, stats, "
            "show --ascii or export, which need none; or set DISPLAY."
        )
        return ERROR
    paths = [path for path in arguments.files if path not in missing]
    result = _hand_over(paths, arguments)
    if result.is_accepted:
        output.say(_opened_there(paths))
        return GOOD
    if result.notice:
        output.say(result.notice)
    try:
        return _run(paths, arguments, result.lock)
    finally:
        if result.lock is not None:
            result.lock.release()


def is_missing(path: Path) -> bool:
    """Return whether a file cannot be looked at, and say why."""
    if os.path.exists(path):
        return False
    # Not imported where all is well: the window is to be there at once.
    from ggscope.readers.source import why_not_there

    if error := why_not_there(path):
        output.complain(output.message_of(error))
    return error is not None


def follow_where_configured(arguments: Namespace) -> None:
    """Let ``--live``, ``--follow`` or the settings' live mode be about the file named.

    ggml-viz is called ``--live [options] FILE``. Live mode of a file of settings opens
    several files as they are.
    """
    configuration = arguments.configuration
    if (
        arguments.live is None
        and configuration is not None
        and configuration.settings.live
    ):
        arguments.live = (
            "" if len(arguments.files) <= 1 and not arguments.demo else None
        )
    if arguments.follow:
        arguments.live = ""
    if arguments.live == "" and len(arguments.files) == 1:
        arguments.live = str(arguments.files.pop())


def _run(paths: list[Path], arguments: Namespace, lock: "InstanceLock | None") -> int:
    """Run a window; return the exit code."""
    try:
        from ggscope.gui.app import run as run_window
    except ImportError as error:
        if arguments.verbose:
            raise
        output.complain(f"the window cannot start: {error}. Install ggscope again.")
        return ERROR
    return int(run_window(paths, arguments, lock))


def _hand_over(paths: list[Path], arguments: Namespace) -> "HandoverResult":
    """Send the files to the running instance, or become the instance."""
    from ggscope.gui.single_instance import client

    path = client.socket_path()
    if path is None:
        return client.HandoverResult()
    request = client.make_request(paths, arguments)
    return client.hand_over(request, path)


def _opened_there(paths: list[Path]) -> str:
    hint = "use --new-window for a new one."
    if not paths:
        return f"ggscope is already open; {hint}"
    what = str(paths[0]) if len(paths) == 1 else f"{len(paths)} files"
    return f"opened {what} in the running window; {hint}"


def has_display() -> bool:
    """Return whether there is a display to open a window on."""
    # Without one Qt ends the process instead of raising.
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name)
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    )
