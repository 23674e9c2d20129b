"""The command line of the capture package: ``ggscope-capture``.

Exit codes: 0 success, 1 error, 2 usage; `run` exits with the program's own.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggscope_capture import __version__, completion, manual
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

if TYPE_CHECKING:
    from ggscope_capture.recording import Recorder

_ROUTE_STATES = {True: "works", False: "blocked", None: "maybe"}
_CHECK_STATES = {True: "ok", False: "failed", None: "note"}
_MAX_PATH_CHARS = 160
_LONG = re.compile(r"[^\s]{300,}")
"""Paths that are shortened in their middle."""


class _CommandError(Exception):
    """Ends the command with `code`; the text goes to stderr."""

    code = 1


class _UsageError(_CommandError):
    """The command line is wrong."""

    code = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names may hold bytes that are not UTF-8
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
        sys.stdout = None  # or the interpreter flushes it at exit
        return 0
    except OSError as error:  # of an argument, or of an output
        if error.filename is None:
            raise
        complain(_failure(Path(os.fsdecode(error.filename)), error))
        return 1
    except KeyboardInterrupt:
        return 130
    return int(code)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    root = argparse.ArgumentParser(
        prog="ggscope-capture",
        description="Trace an unmodified llama.cpp while it runs.",
    )
    root.add_argument(
        "-V", "--version", action="version", version=f"ggscope-capture {__version__}"
    )
    commands = root.add_subparsers(metavar="COMMAND", required=True)

    run = commands.add_parser(
        "run",
        help="run a program and record a trace",
        usage="ggscope-capture run [-o OUT.bin] [options] -- PROGRAM ARGS…",
    )
    run.add_argument(
        "--require",
        action="store_true",
        help="exit with 125 if the program cannot be traced",
    )
    _add_settings(run, SETTINGS)
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM ARGS…")
    run.set_defaults(do=_run)

    cuda = commands.add_parser(
        "cuda",
        help="run a program and record its calls of the CUDA driver (Linux; not yet "
        "run on a GPU)",
        usage="ggscope-capture cuda [-o OUT.jsonl] [options] -- PROGRAM ARGS…",
    )
    cuda.add_argument(
        "-o", "--output", type=Path, metavar="OUT.jsonl",
        help="file of the calls; PROGRAM-TIME.jsonl by default",
    )  # fmt: skip
    cuda.add_argument(
        "--way",
        choices=["auto", "preload", "cupti"],
        default="auto",
        help="how calls are seen: by a library before the driver (preload), by CUPTI "
        "(cupti), or by the first that works (auto)",
    )
    cuda.add_argument(
        "--require",
        action="store_true",
        help="exit with 125 if no call can be recorded",
    )
    cuda.add_argument(
        "--library",
        action="store_true",
        help="print the path of the hook, for CUDA_INJECTION64_PATH, and run nothing",
    )
    cuda.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM ARGS…")
    cuda.set_defaults(do=_cuda)

    rings = commands.add_parser(
        "rings", help="list ring buffers of running and ended programs"
    )
    rings.add_argument("--json", action="store_true", help="print JSON")
    rings.set_defaults(do=_rings)

    recover = commands.add_parser(
        "recover", help="save a trace from a leftover ring or an unfinished recording"
    )
    recover.add_argument("ring", metavar="RING|PID|FOLDER.partial")
    _add_settings(recover, SETTINGS)
    recover.set_defaults(do=_recover)

    save = commands.add_parser(
        "save", help="save a trace of the records so far; recording continues"
    )
    save.add_argument("ring", metavar="RING|PID|FOLDER.partial")
    save.add_argument("--json", action="store_true", help="print JSON")
    _add_settings(save, SETTINGS)
    save.set_defaults(do=_save)

    change = commands.add_parser("set", help="change the filters of a running program")
    change.add_argument("ring", metavar="RING|PID")
    _add_settings(change, [setting for setting in SETTINGS if setting.live])
    change.set_defaults(do=_set)

    doctor = commands.add_parser(
        "doctor",
        help="check tracer, environment and permissions, and whether a program can be "
        "traced",
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
    doctor.add_argument(
        "--cuda",
        action="store_true",
        help="check whether calls of the CUDA driver can be recorded",
    )
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(do=_doctor)

    targets = commands.add_parser("targets", help="find or install llama.cpp")
    targets.add_argument(
        "--install",
        choices=["npm", "pypi", "source"],
        metavar="npm|pypi|source",
        help="install unmodified libraries (npm, pypi), or build the programs from "
        "source, which takes minutes",
    )
    targets.add_argument(
        "--program",
        metavar="PROGRAM",
        help="show this program only, with its command line if it is llama.cpp's",
    )
    targets.add_argument("--json", action="store_true", help="print JSON")
    targets.set_defaults(do=_targets)

    demo = commands.add_parser(
        "demo", help="create a model, find or install llama.cpp, run it, record a trace"
    )
    demo.add_argument("folder", type=Path, metavar="FOLDER")
    demo.add_argument(
        "--model",
        default="moe",
        metavar="NAME",
        help="dense, moe, nano, nano-moe or bench",
    )
    demo.add_argument("--prompt", default="once upon a time", help="text to continue")
    demo.add_argument(
        "--tokens", type=int, default=32, help="number of tokens to generate (32)"
    )
    demo.add_argument(
        "--threads", type=int, default=min(2, os.cpu_count() or 1),
        help="number of threads (2; 1 on a single core)",
    )  # fmt: skip
    demo.add_argument(
        "--pace", type=float, metavar="N",
        help="limit generation to N tokens per second",
    )  # fmt: skip
    demo.set_defaults(do=_demo)

    ab = commands.add_parser(
        "ab", help="benchmark two command lines against each other"
    )
    for flag, text in (("-a", "first command line"), ("-b", "second command line")):
        ab.add_argument(flag, required=True, metavar="'COMMAND …'", help=text)
    ab.add_argument(
        "--rounds",
        type=int,
        default=8,
        help="rounds; each runs A, B and A again in random order (8)",
    )
    ab.add_argument("--seed", type=int, default=1, help="seed of the random order (1)")
    ab.add_argument(
        "--traces",
        type=Path,
        metavar="FOLDER",
        help="afterwards, record a trace of each into FOLDER (not timed), which the "
        "viewer opens as a table of runs",
    )
    ab.add_argument(
        "--recordings",
        type=int,
        default=1,
        metavar="N",
        help="traces of each command, in turns (1); several show change against noise",
    )
    ab.add_argument("--json", action="store_true", help="print JSON")
    ab.set_defaults(do=_ab)

    codemod = commands.add_parser(
        "codemod", help="patch llama.cpp sources so that a static build can be traced"
    )
    codemod.add_argument("checkout", type=Path, metavar="CHECKOUT")
    way = codemod.add_mutually_exclusive_group()
    way.add_argument(
        "--check",
        action="store_true",
        help="report the state of the sources, change nothing",
    )
    way.add_argument("--undo", action="store_true", help="revert the patch")
    codemod.set_defaults(do=_codemod)

    models = commands.add_parser(
        "models", help="create small models with random weights"
    )
    models.add_argument("folder", type=Path, metavar="FOLDER")
    models.add_argument(
        "--name",
        action="append",
        metavar="NAME",
        help="dense, moe, nano, nano-moe or bench; may be repeated",
    )
    models.set_defaults(do=_models)

    config = commands.add_parser("config", help="print the settings and their origin")
    config.add_argument(
        "--explain",
        action="store_true",
        help="also print meaning and names of each setting",
    )
    config.add_argument("--json", action="store_true", help="print JSON")
    _add_settings(config, SETTINGS)
    config.set_defaults(do=_config)

    script = commands.add_parser("completion", help="print a shell completion script")
    script.add_argument("shell", choices=completion.SHELLS)
    script.set_defaults(do=_completion)

    man = commands.add_parser("man", help="print the manual page")
    man.set_defaults(do=_man)
    return root  # fmt: skip


def _add_settings(
    command: argparse.ArgumentParser, settings: Sequence[Setting]
) -> None:
    """Add an option for each setting; None = not given."""
    group = command.add_argument_group("settings")
    group.add_argument(
        "-c",
        "--config",
        type=Path,
        metavar="FILE",
        dest="config_file",
        help="JSON file with settings; `config --explain` lists its keys",
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
    """Return the settings from command line, settings file and environment.

    Errors in the file or the environment are printed, and their values ignored.
    """
    users = TRACER if options.do is not _config else (*TRACER, *VIEWER)
    try:
        configuration = resolve(
            _flags(options), options.config_file, os.environ, users=users
        )
    except ConfigError as error:
        raise _UsageError(str(error)) from error
    for text in (*configuration.problems, *configuration.notices):
        complain(text)
    return configuration


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings given as options."""
    return {
        name.removeprefix("set_"): value
        for name, value in vars(options).items()
        if name.startswith("set_") and value is not None
    }


def plain(text: str) -> str:
    """Return an untrusted text with control characters escaped."""
    return "".join(
        character
        if unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        else character.encode("unicode_escape").decode()
        for character in text
    )


def say(text: str = "") -> None:
    """Print one line, if there is a stdout."""
    if sys.stdout is not None:
        sys.stdout.write(plain(text) + "\n")


def complain(text: str) -> None:
    """Print one line on stderr, with the program's name."""
    _write_stderr(f"ggscope-capture: {plain(text)}\n")


def _write_stderr(text: str) -> None:
    """Write to stderr; a closed one must not end a recording."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(_LONG.sub(lambda match: _short(match[0]), text))
        sys.stderr.flush()
    except (OSError, ValueError):
        # The traced program has its own stderr; only this process stops writing.
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
        complain("no program given: ggscope-capture run -o OUT.bin -- PROGRAM ARGS…")
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
    # A wrong settings file or variable stops no recording, unless `--require`.
    for problem in configuration.problems:
        log("ERROR" if options.require else "WARN", f"{problem}; ignored")
    if configuration.problems and options.require:
        return child.FAILED
    for notice in configuration.notices:
        log("WARN", notice)
    if not configuration.settings.enabled:
        source = configuration.origin("enabled").source
        log("WARN", f"tracing is off ({source}); to turn it on while the program runs: "
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
    """Log on stderr, formatted and filtered by the settings."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def __call__(self, level: str, text: str) -> None:
        min_level = self.configuration.least_level
        if LEVELS.index(level) < LEVELS.index(min_level):
            return
        settings, now = self.configuration.settings, datetime.now()
        parts = [f"{settings.log_prefix}:"] if settings.log_prefix else []
        if settings.log_timestamp:
            parts.insert(0, now.isoformat(" ", "milliseconds"))
        if settings.log_thread_id:
            parts.append(f"[{threading.get_native_id()}]")
        _write_stderr(" ".join([*parts, plain(text)]) + "\n")


def _reloaded(reloader: Reloader, log: _Log) -> Settings | None:
    """Return the new settings if their file has changed; the log uses them too."""
    reloaded = reloader.poll()
    if reloaded is None:
        return None
    for problem in reloaded.problems:
        log("WARN", f"previous value kept: {problem}")
    for notice in reloaded.notices:
        log("WARN", notice)
    log.configuration = reloaded
    return reloaded.settings


def _writer(
    settings: Settings, command: Sequence[str]
) -> Callable[[Path, Settings, int], list[Path]]:
    """Return a function that writes the outputs of a recording folder."""
    from ggscope_capture import recording
    from ggscope_capture.launcher import numbered, target_of

    target = target_of(settings, command)

    def write(folder: Path, latest: Settings, number: int) -> list[Path]:
        loaded = recording.load(folder, latest)
        stream_path = latest.ggmlviz if latest.write_ggmlviz else ""
        stream = Path(stream_path) if stream_path else None
        records = target if settings.output or stream is None else None
        return recording.write(
            loaded,
            records=numbered(records, number) if records else None,
            ggmlviz=numbered(stream, number) if stream else None,
            settings=latest,
        )

    return write


def _completion(options: argparse.Namespace) -> int:
    made = parser()
    for action in completion.actions(made):
        if "--log-level" in action.option_strings:
            action.choices = [level.lower() for level in LEVELS]
    try:
        script = completion.completion(options.shell, made)
    except ImportError:
        complain("completion needs the Python package shtab; install it")
        return 1
    for line in script.splitlines():
        say(line)
    return 0


def _man(_: argparse.Namespace) -> int:
    for line in manual.manual(parser()).splitlines():
        say(line)
    return 0


def _rings(options: argparse.Namespace) -> int:
    from ggscope_capture import recording
    from ggscope_capture.launcher import ring_folder

    folder = ring_folder()
    rings = recording.ring_statuses(folder)
    if options.json:
        rows = [
            {
                "path": str(ring.path), "state": ring.state, "pid": ring.pid,
                "program": ring.program, "waiting": ring.waiting,
                "reader": ring.reader or None,
                "folder": str(ring.folder) if ring.folder else None,
                "why": ring.why,
            }
            for ring in rings
        ]  # fmt: skip
        say(json.dumps(rows))
        return 0
    if not rings:
        say(f"No rings in {_short(folder)}.")
    for ring in rings:
        say(f"{ring.path}: {ring.why or ring.state}")
        if ring.pid:
            say(
                f"    {ring.program}, process {ring.pid}; {ring.waiting} unread records"
            )
        if ring.reader:
            say(f"    read by process {ring.reader}")
        elif ring.state in {"dead", "ended"}:
            say(
                f"    to save a trace: `ggscope-capture recover {ring.path} -o OUT.bin`"
            )
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
        outputs = _writer(settings, command)(place.path, settings, 0)
    except (OSError, RingError) as error:
        raise _CommandError(_failure(path, error)) from error
    for output in outputs:
        say(str(output))
    if not place.remove(identity):
        complain(f"{place.path} not removed: it contains other files")
    return 0


def _save(options: argparse.Namespace) -> int:
    from ggscope_capture import recording
    from ggscope_capture.launcher import target_of
    from ggscope_capture.record import count_choices
    from ggscope_capture.ring_format import RingError

    # SIGTERM cleans up like Ctrl+C, so no output is left half-written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings, path = _configuration(options).settings, _ring(options.ring)
    folder = path if path.is_dir() else recording.place_of(path)
    if folder is None:
        ring = recording.ring_status(path)
        if ring.why:
            raise _CommandError(f"{path}: {ring.why}")
        does = "starts a recording"
        if ring.state != "running":
            does = "saves the records left in it"
        raise _CommandError(
            f"{path}: this ring is not being recorded; `ggscope-capture recover` {does}"
        )
    try:
        has_facts = recording.has_facts(folder)
    except OSError as error:
        raise _CommandError(_failure(folder, error)) from error
    if not has_facts:
        raise _CommandError(f"{folder}: not a recording")

    def report_progress(done: int, of: int) -> None:
        if options.json:
            say(json.dumps({"done": done, "of": of}))
            sys.stdout.flush()

    target = target_of(settings, [str(path)])
    try:
        loaded = recording.load(folder, settings)
        outputs = recording.write(
            loaded, records=target, ggmlviz=None, settings=settings,
            report_progress=report_progress,
        )  # fmt: skip
    except (OSError, RingError) as error:
        raise _CommandError(_failure(folder, error)) from error
    n, n_lists = loaded.contents.n_ops(), count_choices(loaded.contents)
    if options.json:
        facts = {"records": n, "extension_records": n_lists, "lost": loaded.lost}
        say(json.dumps({**facts, "written": [str(path) for path in outputs]}))
    else:
        counts = [f"{n} op{'' if n == 1 else 's'}"]
        if n_lists:
            counts.append(f"{n_lists} expert list{'' if n_lists == 1 else 's'}")
        lost = f"{loaded.lost} lost" if loaded.lost else "none lost"
        say(f"{' and '.join(map(str, outputs))}: {', '.join([*counts, lost])}")
    return 0


def _failure(path: Path, error: Exception) -> str:
    """Return a message for an error at `path`."""
    if not isinstance(error, OSError):
        return f"{_short(path)}: {error}"
    reason, name = reason_of(error), error.filename
    if name is None or str(name) == str(path):
        return f"{_short(path)}: {reason}"
    # An error below an open folder names the file only.
    where = "" if os.path.isabs(name) else f"{_short(path)}: "
    return f"{where}{_short(os.fsdecode(name))}: {reason}"


def _short(path: Path | str) -> str:
    """Return a path, with the middle of a very long one omitted."""
    text = str(path)
    if len(text) <= _MAX_PATH_CHARS:
        return text
    return f"{text[: _MAX_PATH_CHARS // 2]}…{text[-_MAX_PATH_CHARS // 3 :]}"


def _follow(recorder: "Recorder", settings: Settings) -> None:
    """Drain a ring until its program ends, or Ctrl+C."""
    if not recorder.is_over():
        complain("recording until the program ends; Ctrl+C stops")
    try:
        while not recorder.is_over():
            recorder.poll()
            time.sleep(settings.flush_interval_ms / 1000)
    except KeyboardInterrupt:
        complain("recording stopped")


def _ring(name: str) -> Path:
    """Return the path of a ring, given as such or as the pid of program or launcher.

    A pid is searched among this user's rings; another owner of a path is reported.
    """
    from ggscope_capture import recording
    from ggscope_capture.launcher import ring_folder
    from ggscope_capture.regular_file import other_owner

    if not name.isdigit():
        owner = other_owner(Path(name))
        if owner:
            complain(f"{name} belongs to {owner} and is not removed")
        return Path(name)
    rings = recording.ring_statuses(ring_folder())
    paths = [r.path for r in rings if r.path.name.startswith(f"ggscope-{name}-")]
    paths += [r.path for r in rings if r.pid == int(name)]
    if not paths:
        raise _CommandError(f"no ring of yours for process {name}")
    return paths[-1]


def _set(options: argparse.Namespace) -> int:
    from ggscope_capture import recording
    from ggscope_capture.ring import Ring
    from ggscope_capture.ring_format import RingError

    names = frozenset(_flags(options))
    configuration = _configuration(options)
    if configuration.problems:
        raise _CommandError("settings not changed")
    live = {
        origin.setting.name
        for origin in configuration.origins
        if origin.kind is not Source.DEFAULT and origin.setting.live
    }
    if options.config_file:
        names = frozenset(live)
    if not names:
        raise _CommandError("no setting given; see `set --help`")
    path = _ring(options.ring)
    try:
        with Ring(path, releases=False) as ring:
            ops = recording.known_ops(ring.definitions())
            recording.apply(ring, configuration.settings, ops, names)
    except (OSError, RingError) as error:
        raise _CommandError(_failure(path, error)) from error
    return 0


def _cuda(options: argparse.Namespace) -> int:
    from ggscope_capture import child

    with child.signals_held():
        code = _cuda_held(options)
    return child.end_like(code)


def _cuda_held(options: argparse.Namespace) -> int:
    from ggscope_capture import child, cuda, launcher

    command = options.command
    if command[:1] == ["--"]:
        command = command[1:]
    if options.library:
        try:
            say(str(cuda.library()))
        except launcher.NoTraceError as error:
            raise _CommandError(str(error)) from error
        return 0
    if not command:
        complain("no program given: ggscope-capture cuda -o OUT.jsonl -- PROGRAM ARGS…")
        return 2
    log = _Log(resolve({}, None, os.environ))
    launch = cuda.CudaLaunch(
        command, options.output or cuda.output_for(command), log, options.way,
        requires=options.require, is_named=options.output is not None,
    )  # fmt: skip
    try:
        return launch.run()
    except child.LaunchError as error:
        log("ERROR", str(error))
        return error.code


def _doctor(options: argparse.Namespace) -> int:
    from ggscope_capture import cuda, doctor
    from ggscope_capture.checks import machine_checks

    if options.cuda:
        examine = cuda.examine
        checks = cuda.machine_checks(os.environ, options.output)
    else:
        examine = doctor.examine
        configuration = resolve({}, None, os.environ)
        checks = machine_checks(configuration, os.environ, options.output)
    report = None
    try:
        if options.program is not None:
            report = examine(options.program)
    except doctor.DoctorError as error:
        raise _CommandError(str(error)) from error
    if options.json:
        facts = {} if report is None else report.as_json()
        say(json.dumps(facts | {"checks": [asdict(check) for check in checks]}))
        return 0
    if report is not None:
        say(f"{report.program}: {report.linkage}")
        for route in report.routes:
            state = _ROUTE_STATES[route.works]
            say(f"  {route.variable:<22} {state:<8} {route.why}")
        say(report.advice)
    for check in checks:
        say(f"  {check.name:<22} {_CHECK_STATES[check.works]:<8} {check.text}")
    return 0


def _targets(options: argparse.Namespace) -> int:
    from ggscope_capture import doctor, targets

    try:
        if options.install:
            targets.install(options.install)
        name = options.program
        matches = [targets.named(name)] if name else targets.find()
    except (targets.InstallError, doctor.DoctorError) as error:
        raise _CommandError(str(error)) from error
    if options.json:
        rows = [
            {
                "path": str(t.path), "kind": t.kind, "origin": t.origin,
                "command": targets.template(t),
            }
            for t in matches
        ]  # fmt: skip
        say(json.dumps(rows))
        return 0
    for target in matches:
        say(f"{target.path}  ({target.kind}, {target.origin})")
    if not matches:
        say("No llama.cpp found. `ggscope-capture targets --install npm` installs one.")
    return 0


def _demo(options: argparse.Namespace) -> int:
    from ggscope_capture import child

    with child.signals_held():
        code = _demo_held(options)
    return child.end_like(code)


def _demo_held(options: argparse.Namespace) -> int:
    from ggscope_capture import launcher, models, targets
    from ggscope_capture.child import LaunchError
    from ggscope_capture.driver import MIN_PACE, MIN_PACE_MESSAGE

    folder, pace = options.folder, options.pace
    if pace is not None and not pace >= MIN_PACE:
        raise _CommandError(MIN_PACE_MESSAGE)
    if options.model not in models.SHAPES:
        raise _CommandError(
            f"unknown model {options.model}; choose from {', '.join(models.SHAPES)}"
        )
    model = folder / f"{options.model}.gguf"
    try:
        models.write_model(model, options.model)
        complain(f"created {model} (random weights: the generated text has no meaning)")
        target = targets.for_demo()
    except OSError as error:
        reason = reason_of(error)
        raise _CommandError(f"{_short(model)} cannot be written: {reason}") from error
    except targets.InstallError as error:
        raise _CommandError(str(error)) from error
    complain(f"running {target.path} ({target.origin}), unmodified")
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
        complain(f"limited to {pace:g} tokens per second")
        environment["GGSCOPE_NOTE"] = (
            f"Demo limited to {pace:g} tokens per second: gaps between tokens may be "
            "artificial waits; times of ops contain none."
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
        raise _CommandError("give two commands and at least one round")
    if options.recordings < 1:
        raise _CommandError("--recordings is at least 1")
    if options.recordings > 1 and options.traces is None:
        raise _CommandError("--recordings needs --traces FOLDER")
    traces = None
    if options.traces is not None:
        traces = ab.Recordings(options.traces, options.recordings)
    if options.rounds < ab.MIN_ROUNDS:
        complain(
            f"too few rounds for a verdict: at least {ab.MIN_ROUNDS} "
            f"(--rounds {ab.MIN_ROUNDS})"
        )
    report_progress = complain if sys.stderr.isatty() else lambda text: None
    try:
        if traces is not None:
            traces.check()
        comparison = ab.compare(
            *commands, rounds=options.rounds, seed=options.seed,
            report_progress=report_progress,
        )  # fmt: skip
    except ab.AbError as error:
        raise _CommandError(str(error)) from error
    facts = comparison.as_json()
    facts["commands"] = {"a": options.a, "b": options.b}
    if traces is not None:
        facts["traces"] = traces.record(*commands)
    if options.json:
        say(json.dumps(facts))
        return 0
    for name in ab.NAMES:
        row = facts[name]
        spread = f"{row['min']:.4g} to {row['max']:.4g}"
        say(f"{name:<6} {row['median']:.4g} {comparison.unit}, {spread}")
    for name, part in (
        ("B vs. A", comparison.difference), ("A vs. A", comparison.noise),
    ):  # fmt: skip
        interval = f"{part.low:+.1f} to {part.high:+.1f} %"
        coverage = f"{part.coverage * 100:.1f} % confidence"
        say(f"{name} {part.median:+.1f} %, {interval} ({coverage})")
    say(comparison.verdict)
    for name, place in facts.get("traces", {}).items():
        say(f"trace of {name}: {place}")
    if traces is not None and facts["traces"] == traces.places():
        sides = shlex.join(traces.places().values())
        say(f"compare them: ggscope diff {sides}")
        say(f"in the window: ggscope {shlex.quote(str(options.traces))}")
    return 0


def _codemod(options: argparse.Namespace) -> int:
    from ggscope_capture import codemod

    checkout = options.checkout
    try:
        if options.undo:
            changed = codemod.undo(checkout)
            state = None
        else:
            state = codemod.inspect(checkout)
            changed = [] if options.check else codemod.apply(checkout)
    except codemod.CodemodError as error:
        raise _CommandError(str(error)) from error
    except OSError as error:
        raise _CommandError(_failure(checkout, error)) from error
    for path in changed:
        say(f"changed {path}")
    if state is None:
        return 0
    for name, place in state.places.items():
        if options.check:
            say(f"{name}: {place.path}")
    for name in state.changed:
        say(f"{name}: already patched")
    for name, is_required in state.missing.items():
        kind = "required" if is_required else "not required"
        say(f"{name}: missing ({kind})")
    if not options.check:
        say("Build as usual, then start the program with `ggscope-capture run`.")
    return int(any(state.missing.values()))


def _models(options: argparse.Namespace) -> int:
    from ggscope_capture import models

    names = options.name or ["dense", "moe"]
    for name in names:
        if name not in models.SHAPES:
            raise _CommandError(
                f"unknown model {name}; choose from {', '.join(models.SHAPES)}"
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
    head, widths = ("setting", "value", "from", "meaning and names"), (0, 8, 10, 30)
    n = 4 if options.explain else 3
    width = shutil.get_terminal_size().columns
    if configuration.path is not None:
        say(f"file: {configuration.path}")
    for line in table(head[:n], [row[:n] for row in rows], width, widths[:n]):
        say(line)
    return int(bool(configuration.problems))


if __name__ == "__main__":
    raise SystemExit(main())
