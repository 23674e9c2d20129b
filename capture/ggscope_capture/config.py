"""Settings of tracer and viewer: flags, a JSON file, environment variables, defaults.

For each setting the first of these four sources that has it wins. The environment
has the names that ggml-viz gave them (``GGML_VIZ_…``) where it has the same setting,
and ``GGSCOPE_…`` for the rest; the JSON file has ggml-viz's groups and keys, those of
its documents and those of its code. A wrong flag is an error. What is wrong in a file
or the environment is a problem with its place, and everything else there counts.

The viewer reads the same file by this module: `Setting.used_by` says whose is what.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

Value = bool | int | str | tuple[str, ...] | tuple[int, ...]
_MAX_BYTES = 1 << 20
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
_OP = re.compile(r"[A-Z][A-Z0-9_]*")
_LANES, _LAYERS = 512, 1 << 16
_SUFFIXES = {"": 1, "k": 10, "m": 20, "g": 30}
_ALIKE = 0.75
"""Least likeness (`difflib`) of a key that is suggested."""
_UNUSED = {
    "schema_version": "",
    "instrumentation.backends_to_trace": "all backends are traced",
    "output.flush_interval": "use flush_interval_ms",
    "ui.max_live_events": "a live trace has no limit",
    "cli.port": "there is no web server",
    "cli.web_mode": "there is no web server",
    "cli.no_hook": "the viewer has no hook of its own",
}
"""Keys of ggml-viz that have no use here, and why."""


class ConfigError(Exception):
    """A flag is wrong; the text names it and what it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings, by their names; `SETTINGS` says what each one is."""

    enabled: bool
    output: str
    ggmlviz: str
    write_ggmlviz: bool
    ops: tuple[str, ...]
    layers: tuple[int, ...]
    threads: tuple[int, ...]
    sample_every: int
    op_timing: bool
    memory_tracking: bool
    thread_tracking: bool
    tensor_names: bool
    max_records: int
    ring_records: int
    overwrite: bool
    flush_interval_ms: int
    verbose: bool
    log_level: str
    log_timestamp: bool
    log_thread_id: bool
    log_prefix: str
    live: bool
    poll_interval_ms: int


class _WrongError(Exception):
    """A value is not what it should be; the text says what it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting.

    Attributes
    ----------
    read : makes a value of a text or of what JSON holds; raises `_WrongError`.
    keys : its names in a file, ours first.
    variable : its name in the environment; a leading "!" = there 1 means off.
    used_by : "tracer", "viewer" or "both".
    live : can be changed while a program runs, by ``ggscope-capture set``.
    reloads : a change of the file counts while a program runs or is followed.
    """

    name: str
    default: Value
    read: Callable[[Any], Value]
    flag: str
    keys: tuple[str, ...]
    variable: str
    help: str
    used_by: str = "tracer"
    live: bool = False
    reloads: bool = False

    @property
    def key(self) -> str:
        """Its name in a file."""
        return self.keys[0]


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUE:
        return True
    if isinstance(value, str) and value.strip().lower() in _FALSE:
        return False
    raise _WrongError("true or false (1 or 0)")


def _number(
    min_value: int, max_value: int, *, power: bool = False
) -> Callable[[Any], int]:
    kind = "a power of two" if power else "a whole number"
    expected = f"{kind} from {min_value} to {max_value}"

    def read(value: Any) -> int:
        if isinstance(value, str):
            match = re.fullmatch(r"\s*(\d{1,18})\s*([kKmMgG]?)\s*", value)
            if not match:
                raise _WrongError(expected)
            value = int(match[1]) << (_SUFFIXES[match[2].lower()] if match[2] else 0)
        if isinstance(value, bool) or not isinstance(value, int):
            raise _WrongError(expected)
        if not min_value <= value <= max_value or (power and value & (value - 1)):
            raise _WrongError(expected)
        return value

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _WrongError("a text")
    return value


LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_LEVEL_ALIASES = {"WARNING": "WARN", "CRITICAL": "FATAL"}


def _level(value: Any) -> str:
    """Return a level in the spelling of ggml-viz; any case, and Python's names."""
    level = value.strip().upper() if isinstance(value, str) else ""
    level = _LEVEL_ALIASES.get(level, level)
    if level not in LEVELS:
        raise _WrongError(f"one of {', '.join(LEVELS)}")
    return level


def _names(value: Any) -> list[str]:
    """Return the members of a list, or of a text with commas."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if not isinstance(value, list):
        value = [value]
    if any(isinstance(word, bool) or not isinstance(word, str | int) for word in value):
        raise _WrongError("a list of names or numbers")
    return [str(word) for word in value]


def _ops(value: Any) -> tuple[str, ...]:
    """Return names as ggml spells them; a leading "!" leaves an op out."""
    ops = tuple(word.upper().removeprefix("GGML_OP_") for word in _names(value))
    if not all(_OP.fullmatch(op.removeprefix("!")) for op in ops):
        raise _WrongError("names of ops, such as MUL_MAT, or !MUL_MAT to leave one out")
    if len({op.startswith("!") for op in ops}) > 1:
        raise _WrongError("either ops to trace or ops to leave out (!), not both")
    return ops


def _numbers(what: str, end: int) -> Callable[[Any], tuple[int, ...]]:
    expected = f"{what} from 0 to {end - 1}, such as 0,2 or 4-7"

    def read(value: Any) -> tuple[int, ...]:
        numbers: set[int] = set()
        for word in _names(value):
            match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", word)
            if not match:
                raise _WrongError(expected)
            first, last = int(match[1]), int(match[2] or match[1])
            if first > last or last >= end:
                raise _WrongError(expected)
            numbers.update(range(first, last + 1))
        return tuple(sorted(numbers))

    return read


_VIEWER_READS = "poll interval of a live source in ms; 0: adaptive"
SETTINGS = tuple(
    Setting(
        name=name, default=default, read=read, flag=flag, keys=tuple(keys.split()),
        variable=variable, help=text, used_by=used_by, live=change == "live",
        reloads=change in ("live", "reload"),
    )
    for name, default, read, flag, keys, variable, text, change, used_by in (
        ("enabled", True, _boolean, "enabled", "instrumentation.enabled",
         "!GGML_VIZ_DISABLE", "trace; off until changed by `set`", "live", "tracer"),
        ("output", "", _text, "output", "output.records",
         "GGSCOPE_CAPTURE_OUTPUT", "output file: tensor-access records", "", "tracer"),
        ("ggmlviz", "", _text, "ggmlviz",
         "output.filename instrumentation.output_file", "GGML_VIZ_OUTPUT",
         "output file: ggml-viz event stream; followed by the viewer",
         "reload", "both"),
        ("write_ggmlviz", True, _boolean, "write-ggmlviz", "output.write_to_file",
         "GGSCOPE_CAPTURE_WRITE_GGMLVIZ", "write the event stream, if it has a file",
         "reload", "tracer"),
        ("ops", (), _ops, "ops", "instrumentation.op_types_to_trace",
         "GGSCOPE_CAPTURE_OPS", "ops to trace, or ops to leave out (!MUL_MAT)", "live",
         "tracer"),
        ("layers", (), _numbers("layers", _LAYERS), "layers", "instrumentation.layers",
         "GGSCOPE_CAPTURE_LAYERS", "layers to trace", "live", "tracer"),
        ("threads", (), _numbers("threads", _LANES), "threads",
         "instrumentation.threads", "GGSCOPE_CAPTURE_THREADS",
         "threads to trace, by ggml's index", "live", "tracer"),
        ("sample_every", 1, _number(1, 1 << 31), "sample",
         "instrumentation.sample_every", "GGSCOPE_CAPTURE_SAMPLE",
         "trace every N-th graph only", "live", "tracer"),
        ("op_timing", True, _boolean, "op-timing", "instrumentation.enable_op_timing",
         "GGML_VIZ_OP_TIMING", "trace ops; otherwise graphs only", "live", "tracer"),
        ("memory_tracking", True, _boolean, "memory-tracking",
         "instrumentation.enable_memory_tracking", "GGML_VIZ_MEMORY_TRACKING",
         "include buffers in the outputs", "reload", "tracer"),
        ("thread_tracking", True, _boolean, "thread-tracking",
         "instrumentation.enable_thread_tracking", "GGML_VIZ_THREAD_TRACKING",
         "trace all threads; otherwise the first one", "live", "tracer"),
        ("tensor_names", True, _boolean, "tensor-names",
         "instrumentation.record_tensor_names instrumentation.enable_tensor_names",
         "GGML_VIZ_TENSOR_NAMES", "include tensor names in the outputs",
         "reload", "tracer"),
        ("max_records", 0, _number(0, 1 << 40), "max-records",
         "instrumentation.max_events", "GGML_VIZ_MAX_EVENTS",
         "stop tracing after N records; 0: no limit", "reload", "tracer"),
        ("ring_records", 0, _number(0, 1 << 26, power=True), "ring-records",
         "instrumentation.ring_records", "GGML_VIZ_BUFFER_SIZE",
         "ring size in records per thread; 0: default", "", "tracer"),
        ("overwrite", False, _boolean, "overwrite", "instrumentation.overwrite",
         "GGSCOPE_CAPTURE_OVERWRITE", "if the ring is full, overwrite oldest records",
         "", "tracer"),
        ("flush_interval_ms", 20, _number(1, 60_000), "flush-interval",
         "instrumentation.flush_interval_ms", "GGML_VIZ_FLUSH_INTERVAL",
         "interval for draining the ring, in ms", "live", "tracer"),
        ("verbose", False, _boolean, "verbose", "cli.verbose",
         "GGML_VIZ_VERBOSE", "log level INFO, unless a level is set", "reload", "both"),
        ("log_level", "WARN", _level, "log-level", "logging.level",
         "GGML_VIZ_LOG_LEVEL", "lowest level that is logged: " + ", ".join(LEVELS),
         "reload", "both"),
        ("log_timestamp", False, _boolean, "log-timestamp",
         "logging.timestamp logging.enable_timestamps", "GGML_VIZ_LOG_TIMESTAMP",
         "log with time", "reload", "both"),
        ("log_thread_id", False, _boolean, "log-thread-id",
         "logging.thread_id logging.enable_thread_id", "GGML_VIZ_LOG_THREAD_ID",
         "log with thread id", "reload", "both"),
        ("log_prefix", "ggscope-capture", _text, "log-prefix", "logging.prefix",
         "GGML_VIZ_LOG_PREFIX", "prefix of log lines", "reload", "both"),
        ("live", False, _boolean, "live", "ui.live_mode cli.live_mode",
         "GGSCOPE_LIVE", "follow a running program instead of reading a file", "",
         "viewer"),
        ("poll_interval_ms", 0, _number(0, 60_000), "poll-interval",
         "ui.poll_interval_ms cli.polling_interval_ms", "GGSCOPE_POLL_INTERVAL",
         _VIEWER_READS, "reload", "viewer"),
    )
)  # fmt: skip
"""Every setting, in the order of `Settings`."""
TRACER, VIEWER = ("tracer", "both"), ("viewer", "both")
"""What `Setting.used_by` is of the settings of each program."""
_BY_KEY = {key: setting for setting in SETTINGS for key in setting.keys}
CONFIG_VARIABLES = ("GGSCOPE_CONFIG", "GGSCOPE_CAPTURE_CONFIG", "GGML_VIZ_CONFIG")
"""Environment variables that name the file; the first one that is set counts."""


class Source(IntEnum):
    """Where a value may come from; the lowest number wins."""

    FLAG = 0
    FILE = 1
    ENVIRONMENT = 2
    DEFAULT = 3


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the value of a setting comes from, and what it overrides."""

    setting: Setting
    value: Value
    kind: Source
    source: str
    overruled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Configuration:
    """All settings with their origins.

    Attributes
    ----------
    path : the file that was read or could not be; None = none is named.
    problems : what is wrong in the file or the environment, a sentence each.
    notices : what is passed over: keys that are not known or have no use here.
    wrong : names of the settings that `problems` are about.
    is_read : whether the file, if any is named, could be read.
    """

    settings: Settings
    origins: tuple[Origin, ...]
    path: Path | None = None
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    wrong: frozenset[str] = frozenset()
    is_read: bool = True

    def origin(self, name: str) -> Origin:
        """Return the origin of one setting; KeyError if there is none."""
        return next(o for o in self.origins if o.setting.name == name)

    @property
    def least_level(self) -> str:
        """The least level that is logged, one of `LEVELS`.

        `verbose` means INFO or more, unless a level comes from the same source or from
        one that goes before it.
        """
        verbose, level = self.origin("verbose"), self.origin("log_level")
        level_name = str(level.value)
        if not verbose.value or level.kind <= verbose.kind:
            return level_name
        return min(level_name, "INFO", key=LEVELS.index)


@dataclass(slots=True)
class _File:
    """What a file says: values by setting with their keys, and what is wrong."""

    values: dict[str, tuple[str, Any]]
    problems: list[str]
    notices: list[str]
    is_read: bool = True


def config_path(file: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file with settings: the one given, else that of the environment."""
    if file is not None:
        return file
    named = (environment.get(name) for name in CONFIG_VARIABLES)
    return next((Path(name) for name in named if name), None)


def resolve(
    flags: Mapping[str, Any],
    file: Path | None,
    environment: Mapping[str, str],
    *,
    defaults: Mapping[str, Value] | None = None,
    users: Collection[str] = (*TRACER, *VIEWER),
) -> Configuration:
    """Return the settings.

    Parameters
    ----------
    flags : texts (or booleans) by the names of settings, those that were given only.
    file : a JSON file, or None: then the one that the environment names.
    defaults : other defaults, by the names of settings.
    users : `TRACER` or `VIEWER`; settings of others have their defaults, unchecked.

    Raises
    ------
    ConfigError
        If a flag says something that cannot be.
    """
    path = config_path(file, environment)
    from_file = _File({}, [], []) if path is None else _read_file(path)
    origins = []
    wrong: set[str] = set()
    problems = list(from_file.problems)
    for setting in SETTINGS:
        values_by_source: list[tuple[Source, str, Value]] = []
        sources = _sources(setting, flags, path, from_file, environment)
        for kind, source, raw in sources if setting.used_by in users else ():
            try:
                value = _checked(setting, raw, source)
            except ConfigError as error:
                if kind is Source.FLAG:
                    raise
                problems.append(str(error))
                wrong.add(setting.name)
                continue
            if kind is Source.ENVIRONMENT and setting.variable.startswith("!"):
                value = not value
            values_by_source.append((kind, source, value))
        default = (defaults or {}).get(setting.name, setting.default)
        values_by_source.append((Source.DEFAULT, "default", default))
        (kind, source, value), rest = values_by_source[0], values_by_source[1:-1]
        overruled = tuple(
            f"{source} is {formatted(value)}" for _, source, value in rest
        )
        origins.append(Origin(setting, value, kind, source, overruled))
    values: dict[str, Any] = {o.setting.name: o.value for o in origins}
    return Configuration(
        Settings(**values),
        tuple(origins),
        path,
        tuple(problems),
        tuple(from_file.notices),
        frozenset(wrong),
        from_file.is_read,
    )


def _sources(
    setting: Setting,
    flags: Mapping[str, Any],
    path: Path | None,
    from_file: _File,
    environment: Mapping[str, str],
) -> Iterable[tuple[Source, str, Any]]:
    """Yield who says something of a setting, and what, the first one first."""
    if setting.name in flags:
        yield Source.FLAG, f"--{setting.flag}", flags[setting.name]
    if setting.name in from_file.values:
        key, value = from_file.values[setting.name]
        yield Source.FILE, f"{path}: {key}", value
    name = setting.variable.removeprefix("!")
    if name in environment:
        yield Source.ENVIRONMENT, name, environment[name]


class Reloader:
    """Gives the settings anew when their file has changed.

    A value that is wrong now stays as it was; so does everything where the file cannot
    be read.

    Attributes
    ----------
    current : what counts now.
    """

    def __init__(self, resolve_again: Callable[[], Configuration]) -> None:
        """Resolve; raises ConfigError."""
        self._resolve = resolve_again
        self.current = resolve_again()
        self._seen = self._stamp()

    def poll(self) -> Configuration | None:
        """Return what counts now where the file has changed, else None.

        Its problems and notices are of this change.
        """
        stamp = self._stamp()
        if stamp is None or stamp == self._seen:
            return None
        self._seen = stamp
        reloaded, old = self._resolve(), self.current.settings
        if not reloaded.is_read:
            self.current = replace(self.current, problems=reloaded.problems, notices=())
            return self.current
        fixed = {o.setting.name for o in reloaded.origins if not o.setting.reloads}
        unchanged = {name: getattr(old, name) for name in fixed | reloaded.wrong}
        waiting = tuple(
            f"{name} changes with the next run"
            for name in sorted(fixed)
            if getattr(reloaded.settings, name) != unchanged[name]
        )
        self.current = replace(
            reloaded,
            settings=replace(reloaded.settings, **unchanged),
            notices=(*reloaded.notices, *waiting),
        )
        return self.current

    def _stamp(self) -> tuple[int, int, int] | None:
        if self.current.path is None:
            return None
        try:
            status = os.stat(self.current.path)
        except OSError:  # an editor may be about to put another one there
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def formatted(value: Value) -> str:
    """Return a value as it would be written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "all"
    return str(value) if value != "" else "none"


def as_json(configuration: Configuration) -> dict[str, dict[str, object]]:
    """Return every setting with value, origin and names, by its name."""
    return {
        origin.setting.name: {
            "value": origin.value,
            "from": origin.source,
            "overruled": origin.overruled,
            "default": origin.setting.default,
            "flag": f"--{origin.setting.flag}",
            "keys": origin.setting.keys,
            "variable": origin.setting.variable.removeprefix("!"),
            "used_by": origin.setting.used_by,
            "reloads": origin.setting.reloads,
            "help": origin.setting.help,
        }
        for origin in configuration.origins
    }


def as_rows(configuration: Configuration) -> list[tuple[str, str, str, str]]:
    """Return name, value, origin, and meaning with all names, of every setting.

    The file is "file" in them; `Configuration.path` says which one.
    """
    rows = []
    place = f"{configuration.path}: "
    for origin in configuration.origins:
        setting = origin.setting
        source = "; overrules ".join([origin.source, *origin.overruled])
        source = source.replace(place, "file: ")
        names = (f"--{setting.flag}", *setting.keys, setting.variable.lstrip("!"))
        meaning = f"{setting.help} · {' '.join(names)}"
        if setting.used_by != "both":
            meaning += f" ({setting.used_by})"
        rows.append((setting.name, formatted(origin.value), source, meaning))
    return rows


def _checked(setting: Setting, value: Any, source: str) -> Value:
    try:
        return setting.read(value)
    except _WrongError as wrong:
        text = json.dumps(value, default=str)
        text = text if len(text) <= 60 else text[:57] + "…"
        raise ConfigError(f"{source} is {text}; it must be {wrong}") from None


def _read_file(path: Path) -> _File:
    """Return what a file says; what cannot be read says nothing."""
    problem, document = "", None
    doubled: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in items]
        doubled.extend(dict.fromkeys(n for n in names if names.count(n) > 1))
        return dict(items)

    try:
        with path.open("rb") as handle:
            content = handle.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            problem = f"{path} has more than {_MAX_BYTES} bytes"
        else:
            document = json.loads(content, object_pairs_hook=pairs)
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        problem = f"{path} is not JSON: {error}"
    if not problem and not isinstance(document, dict):
        problem = f"{path} is not a JSON object with groups of settings"
    if problem or not isinstance(document, dict):
        return _File({}, [problem], [], is_read=False)
    parsed = _flattened(path, document)
    parsed.problems[:0] = [
        f"{path} has {n} twice; the last one counts" for n in doubled
    ]
    return parsed


def _flattened(path: Path, document: dict[str, Any]) -> _File:
    """Return the values of a file by setting; of two keys of one setting ours."""
    parsed = _File({}, [], [])
    groups = {key.partition(".")[0] for key in (*_BY_KEY, *_UNUSED)}
    version = document.get("schema_version", 1)
    if version != 1:
        parsed.notices.append(
            f"{path}: unknown schema_version {version}; read as version 1"
        )
    for group, body in document.items():
        if group in _UNUSED:
            continue
        if group not in groups:
            parsed.notices.append(_unknown(path, group, sorted(groups)))
        elif not isinstance(body, dict):
            parsed.problems.append(f"{path}: {group} must be an object with settings")
        else:
            for name, value in body.items():
                _take(parsed, path, f"{group}.{name}", value)
    return parsed


def _take(parsed: _File, path: Path, key: str, value: Any) -> None:
    """Note one key of a file."""
    if key in _UNUSED:
        parsed.notices.append(f"{path}: {key} is not used; {_UNUSED[key]}")
    elif key not in _BY_KEY:
        parsed.notices.append(_unknown(path, key, _BY_KEY))
    else:
        setting = _BY_KEY[key]
        other, _ = parsed.values.get(setting.name, ("", None))
        first = min(filter(None, (key, other)), key=setting.keys.index)
        if other:
            parsed.notices.append(
                f"{path}: {key} and {other} are one setting; {first} counts"
            )
        if first == key:
            parsed.values[setting.name] = key, value


def _unknown(path: Path, key: str, known_keys: Iterable[str]) -> str:
    """Return a notice, with a suggestion where a name is alike."""
    import difflib  # only for what is wrong

    leaf = key.rpartition(".")[2]
    by_leaf: dict[str, str] = {}
    group = key.partition(".")[0]
    # Of the same name in two groups that of this group.
    for other in sorted(known_keys, key=lambda other: other.startswith(f"{group}.")):
        by_leaf[other.rpartition(".")[2]] = other
    near = difflib.get_close_matches(leaf, list(by_leaf), 1, _ALIKE)
    suggestion = f"; did you mean {by_leaf[near[0]]}" if near else ""
    return f"{path}: unknown key {key}{suggestion}"
