"""The command line: arguments, sub-commands, exit codes.

Data goes to stdout, messages to stderr. Only ``open``, ``export``, ``bench`` and
``self-test`` import Qt; the others need no display and no toolkit.
"""

import gc
import logging
import os
import signal
import sys
import threading
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType

from ggscope import __version__
from ggscope.cli import output
from ggscope.cli.arguments import COMMANDS, parse
from ggscope.cli.logs import LogLine, set_up
from ggscope.cli.output import (
    ERROR,
    GOOD,
    INTERRUPTED,
    SIGNALLED,
    code_of,
    message_of,
)
from ggscope.errors import Cancelled, TraceError

logger = logging.getLogger(__name__)

_OBJECTS_BETWEEN_COLLECTIONS = 200_000
_WITH_WINDOW = ("open", "bench", "self-test")
_WITHOUT_LIBRARY = ("open", "live", "readers", "config", "completion", "man", "samples")
"""Commands that read nothing; the window itself reports what is missing."""
_CONFIG_FLAGS = (
    "config",
    "log_level",
    "log_timestamp",
    "log_thread_id",
    "log_prefix",
    "poll_interval_ms",
)
_CONFIG_PREFIXES = ("GGML_VIZ_", "GGSCOPE_C", "GGSCOPE_LIVE", "GGSCOPE_POLL")
"""Flags, and beginnings of variables, that say something of settings."""
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
"""What terminals, service managers and shells send; some systems lack the last."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the program's); return the exit code.

    Never raises: a fault of the program itself is one line on stderr, with the
    traceback where ``-v`` asks for it.
    """
    with raised_signals() as signals:
        try:
            return _main(argv)
        except KeyboardInterrupt:
            if signals.number:
                output.abandon()  # what is still buffered might wait for a reader
            if signals.number in (0, INTERRUPTED - SIGNALLED):
                output.say("interrupted.")
                return INTERRUPTED
            output.say(f"ended by {signals.name}.")
            return SIGNALLED + signals.number


def _main(argv: Sequence[str] | None) -> int:
    output.prepare()
    is_verbose = False
    code = GOOD
    try:
        try:
            arguments = parse(sys.argv[1:] if argv is None else argv)
            is_verbose = bool(arguments.verbose)
            apply_options(arguments)
            with output.own_stdout(arguments.json), _few_collections(arguments):
                code = _run(arguments)
                output.flush()
        except SystemExit as stop:  # argparse has printed help or a usage message
            code = stop.code if isinstance(stop.code, int) else GOOD
            output.flush()
    except BrokenPipeError:
        # The reader of a pipe has seen enough: ``ggscope info x | head``.
        output.abandon()
    except Cancelled:
        output.say("interrupted.")
        return INTERRUPTED
    except TraceError as error:
        output.complain(message_of(error))
        return code_of(error)
    except Exception as error:  # noqa: BLE001 - the last border before the shell
        _report_fault(error, is_verbose=is_verbose)
        return ERROR
    return code


def _run(arguments: Namespace) -> int:
    """Run the command; each imports no more than it needs."""
    version = ".".join(map(str, sys.version_info[:3]))
    logger.debug("ggscope %s, Python %s, %s", __version__, version, arguments.command)
    if arguments.command not in _WITHOUT_LIBRARY:
        from ggscope.native.library import library

        library()
    # A frozen program has them all: packaging/bundle/ggscope.spec collects them.
    module = import_module(f"ggscope.cli.{COMMANDS[arguments.command].module}")
    run: Callable[[Namespace], int] = module.run
    return run(arguments)


class _Signals:
    """Which signal has come; 0 = none."""

    def __init__(self) -> None:
        self.number = 0

    @property
    def name(self) -> str:
        """Its name, e.g. ``SIGTERM``; "" = none."""
        return signal.Signals(self.number).name if self.number else ""


@contextmanager
def raised_signals() -> Iterator[_Signals]:
    """Raise KeyboardInterrupt for each signal that asks the program to end.

    Signals that are ignored, as under nohup, stay so. A second one of the same kind
    ends the program at once.
    """
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    usual = (signal.SIG_DFL, signal.default_int_handler)
    before = {}

    def end(number: int, _: FrameType | None) -> None:
        signals.number = number
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    for name in _ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) in usual:
            before[number] = signal.signal(number, end)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _few_collections(arguments: Namespace) -> Iterator[None]:
    """Collect cyclic garbage seldom, except where a window is, which sees to it.

    A command reads and ends. What it makes in number (a lane each of very many, the
    values of JSON) is no garbage, yet would be walked again and again. Collection is
    not off: readers leave cycles behind that hold columns.
    """
    thresholds = gc.get_threshold()
    if arguments.command not in _WITH_WINDOW:
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def apply_options(arguments: Namespace) -> None:
    """Do what the options of all commands ask for: safe mode, logging, settings."""
    if arguments.safe_mode:
        # Read by the registry, and inherited by processes started from here.
        os.environ["GGSCOPE_SAFE_MODE"] = "1"
    arguments.reload = arguments.configuration = None
    if _is_configured(arguments):
        _configure(arguments)
    else:
        set_up("DEBUG" if arguments.verbose > 1 else "WARN", LogLine())
    for option in ("port", "web", "no_hook"):
        if getattr(arguments, option):
            output.say(
                f"note: --{option.replace('_', '-')} is accepted for ggml-viz users "
                "and does nothing here."
            )


def _is_configured(arguments: Namespace) -> bool:
    """Return whether anything but defaults can count; most starts do without."""
    given = (getattr(arguments, name, None) is not None for name in _CONFIG_FLAGS)
    return (
        arguments.verbose == 1
        or any(given)
        or any(name.startswith(_CONFIG_PREFIXES) for name in os.environ)
    )


def _configure(arguments: Namespace) -> None:
    """Let flags, file and environment count, and the file whenever it changes."""
    from ggscope.cli import config

    reloader = config.reloader(arguments)
    config.apply(reloader.current)
    if arguments.command != "config":
        config.report(reloader.current)

    def reload() -> None:
        settings = reloader.poll()
        if settings is not None:
            config.apply(settings)
            for text in (*settings.problems, *settings.notices):
                logger.warning("%s", text)

    arguments.configuration = reloader.current
    arguments.reload = reload if reloader.current.path is not None else None


def _report_fault(error: Exception, *, is_verbose: bool) -> None:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    output.complain(
        f"internal error: {text}. Please report it with the command and, if you "
        "can, the file; -v shows where it happened."
    )
    if is_verbose:
        output.write_stderr(traceback.format_exc())
