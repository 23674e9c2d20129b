"""``ggscope config``, and the settings of a start: flags, file, environment.

The file is that of ``ggscope-capture`` too, and its description is the one there.
"""

import os
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from ggscope.cli import output
from ggscope.cli.logs import LogLine, set_up
from ggscope.cli.output import ERROR, GOOD
from ggscope.errors import UsageError
from ggscope.live.options import OPTIONS
from ggscope.sanitize import one_line
from ggscope_capture.config import (
    TRACER,
    VIEWER,
    ConfigError,
    Configuration,
    Reloader,
    as_json,
    as_rows,
    formatted,
    resolve,
)
from ggscope_capture.table import table

if TYPE_CHECKING:
    from ggscope.session.settings import Settings

_OWN = {
    "appearance": "",
    "drawing": "",
    "tables": "",
    "layout": "name",
    "bookmarks": "",
    "memory": "",
    "figures": "",
    "plugins": "",
}
"""Topics of the window's settings that the user sets, and the only field of one."""
_NAMES = {
    "appearance.theme": "--theme",
    "layout.name": "--layout",
    "drawing.renderer": "--software-gl",
    "memory.limit_mib": "GGSCOPE_MEMORY_LIMIT",
    "plugins.folder": "GGSCOPE_PLUGIN_PATH",
}
"""Other names of these, on the command line or in the environment."""


def reloader(arguments: Namespace) -> Reloader:
    """Return the settings of a start, which follow their file.

    Raises
    ------
    UsageError
        If a flag says what cannot be.
    """
    return Reloader(lambda: _resolved(arguments, VIEWER))


def _resolved(arguments: Namespace, users: tuple[str, ...]) -> Configuration:
    try:
        return resolve(
            flags_of(arguments),
            arguments.config,
            os.environ,
            defaults={"log_prefix": ""},
            users=users,
        )
    except ConfigError as error:
        raise UsageError(f"{error}.") from error


def flags_of(arguments: Namespace) -> dict[str, object]:
    """Return what the command line says, by the names of settings."""
    names = (
        "log_level",
        "log_timestamp",
        "log_thread_id",
        "log_prefix",
        "poll_interval_ms",
    )
    flags = {name: getattr(arguments, name, None) for name in names}
    if arguments.verbose:
        flags["verbose"] = True
    if arguments.verbose > 1 and flags["log_level"] is None:
        flags["log_level"] = "DEBUG"
    if getattr(arguments, "live", None) is not None:
        flags["live"] = True
    return {name: value for name, value in flags.items() if value is not None}


def apply(configuration: Configuration) -> None:
    """Let the settings count from now on."""
    settings = configuration.settings
    line = LogLine(
        has_time=settings.log_timestamp,
        has_thread=settings.log_thread_id,
        prefix=settings.log_prefix,
    )
    set_up(configuration.least_level, line)
    OPTIONS.output = settings.ggmlviz
    OPTIONS.output_source = configuration.origin("ggmlviz").source
    OPTIONS.poll_s = settings.poll_interval_ms / 1000


def report(configuration: Configuration) -> None:
    """Say what is wrong in the file or the environment, and what is passed over."""
    for problem in configuration.problems:
        output.complain(f"{problem}; it is left out")
    for notice in configuration.notices:
        output.say(f"note: {notice}")


def run(arguments: Namespace) -> int:
    """Print every setting; return the exit code."""
    from ggscope.session.settings import Settings
    from ggscope.session.settings_store import IniStore, MemoryStore

    configuration = _resolved(arguments, (*TRACER, *VIEWER))
    report(configuration)
    settings = Settings(MemoryStore() if arguments.safe_mode else IniStore())
    own = list(_own(settings))
    code = ERROR if configuration.problems else GOOD
    if arguments.json:
        output.emit_json(
            as_json(configuration)
            | {
                name: {
                    "value": value,
                    "from": source,
                    "overruled": [],
                    "default": default,
                    "used_by": "viewer",
                    "help": _NAMES.get(name, ""),
                }
                for name, value, source, default in own
            }
        )
        return code
    rows = as_rows(configuration)
    rows += [
        (name, formatted(value), source, _NAMES.get(name, ""))
        for name, value, source, _ in own
    ]
    n = 4 if arguments.explain else 3
    head, min_widths = ("setting", "value", "from", "meaning and names"), (0, 8, 10, 26)
    if configuration.path is not None:
        output.emit(f"file: {one_line(str(configuration.path))}")
    lines = table(head[:n], [row[:n] for row in rows], output.width(), min_widths[:n])
    output.emit("\n".join([output.styled(lines[0], "bold"), *lines[1:]]))
    return code


def _own(settings: "Settings") -> Iterator[tuple[str, bool | int | str, str, object]]:
    """Yield name, value, origin and default of the window's own settings."""
    place = str(getattr(settings.store, "path", ""))
    for topic, only in _OWN.items():
        values = getattr(settings, topic)
        usual = asdict(type(values)())
        for name, value in asdict(values).items():
            if only in ("", name):
                source = "default" if value == usual[name] else place
                yield f"{topic}.{name}", value, source, usual[name]
