"""The command line: arguments, sub-commands, exit codes.

Data goes to stdout, messages to stderr. Only ``open``, ``export``, ``bench`` and
``self-test`` import Qt; the others need no display and no toolkit.
"""

import contextlib
import logging
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence

from ggscope.cli import output
from ggscope.cli.arguments import parse
from ggscope.cli.exits import ERROR, GOOD, INTERRUPTED, code_of
from ggscope.errors import Cancelled, TraceError

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the program's); return the exit code.

    Never raises: a fault of the program itself is one line on stderr, with the
    traceback where ``-v`` asks for it.
    """
    output.prepare()
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
    except SystemExit as stop:  # argparse has printed help or a usage message
        return stop.code if isinstance(stop.code, int) else GOOD
    _set_up(arguments)
    try:
        code = _run(arguments)
        output.flush()
    except BrokenPipeError:
        # The reader of a pipe has seen enough: ``ggscope info x | head``.
        output.abandon()
        return GOOD
    except (KeyboardInterrupt, Cancelled):
        output.say("interrupted.")
        return INTERRUPTED
    except TraceError as error:
        output.complain(str(error))
        return code_of(error)
    except Exception as error:  # noqa: BLE001 - the last border before the shell
        _report_fault(error, arguments)
        return ERROR
    return code


def _run(arguments: Namespace) -> int:
    """Run the command; each imports no more than it needs."""
    # Spelled out rather than looked up, so that frozen programs contain them.
    match arguments.command:
        case "info":
            from ggscope.cli.info import run
        case "check":
            from ggscope.cli.check import run
        case "stats":
            from ggscope.cli.stats import run
        case "show":
            from ggscope.cli.show import run
        case "export":
            from ggscope.cli.export import run
        case "hot":
            from ggscope.cli.hot import run
        case "cache":
            from ggscope.cli.cache import run
        case "convert":
            from ggscope.cli.convert import run
        case "readers":
            from ggscope.cli.readers import run
        case "bench":
            from ggscope.cli.bench import run
        case "self-test":
            from ggscope.cli.self_test import run
        case _:
            from ggscope.cli.window import run
    return run(arguments)


def _set_up(arguments: Namespace) -> None:
    if arguments.safe_mode:
        # Read by the registry, and inherited by processes started from here.
        os.environ["GGSCOPE_SAFE_MODE"] = "1"
    steps = {0: logging.WARNING, 1: logging.INFO}
    level = steps.get(arguments.verbose, logging.DEBUG)
    if arguments.log_level is not None:
        level = getattr(logging, arguments.log_level.upper())
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    for option in ("port", "web", "no_hook"):
        if getattr(arguments, option):
            output.say(
                f"note: --{option.replace('_', '-')} is accepted for ggml-viz users "
                "and does nothing here."
            )


def _report_fault(error: Exception, arguments: Namespace) -> None:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    with contextlib.suppress(OSError):
        output.complain(
            f"internal error: {text}. Please report it with the command and, if you "
            "can, the file; -v shows where it happened."
        )
        if arguments.verbose:
            traceback.print_exc(file=sys.stderr)
