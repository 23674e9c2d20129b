"""What is traced and how: flags, a JSON file, the environment, defaults.

The first of these four that says something wins, setting by setting. The environment
has the names that ggml-viz gave them (``GGML_VIZ_…``) where it has the same setting,
and ``GGSCOPE_CAPTURE_…`` for the rest; the JSON file has ggml-viz's groups and keys.
Everything is checked: an error names the source, the key, what stands there and what
may. Keys that nobody knows are told, and passed over.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Value = bool | int | str | tuple[str, ...] | tuple[int, ...]
_MOST_BYTES = 1 << 20
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
_OP = re.compile(r"[A-Z0-9_]+")
_LANES, _LAYERS = 512, 1 << 16
_SUFFIXES = {"": 1, "k": 10, "m": 20, "g": 30}
_UNUSED = {
    "schema_version": "",
    "instrumentation.backends_to_trace": "every backend that the tracer sees is traced",
    "output.flush_interval": "it counts events; flush_interval_ms is what counts here",
    "ui.live_mode": "the viewer decides",
    "ui.poll_interval_ms": "the viewer decides",
    "ui.max_live_events": "a live trace keeps everything",
}
"""Keys of ggml-viz that have no use here, and why."""


class ConfigError(Exception):
    """A setting is wrong; the text names the source, the key and what may be there."""


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


class _WrongError(Exception):
    """A value is not what it should be; the text says what it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting.

    `read` makes a value of a text or of what JSON holds, and raises `_WrongError`.
    `variable` may begin with "!": there 1 means off. `live` says that it can be changed
    while a program runs.
    """

    name: str
    default: Value
    read: Callable[[Any], Value]
    flag: str
    key: str
    variable: str
    help: str
    live: bool = False


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUE:
        return True
    if isinstance(value, str) and value.strip().lower() in _FALSE:
        return False
    raise _WrongError("true or false (1 or 0)")


def _number(least: int, most: int, *, power: bool = False) -> Callable[[Any], int]:
    kind = "a power of two" if power else "a whole number"
    wanted = f"{kind} from {least} to {most}"

    def read(value: Any) -> int:
        if isinstance(value, str):
            match = re.fullmatch(r"\s*(\d{1,18})\s*([kKmMgG]?)\s*", value)
            if not match:
                raise _WrongError(wanted)
            value = int(match[1]) << (_SUFFIXES[match[2].lower()] if match[2] else 0)
        if isinstance(value, bool) or not isinstance(value, int):
            raise _WrongError(wanted)
        if not least <= value <= most or (power and value & (value - 1)):
            raise _WrongError(wanted)
        return value

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _WrongError("a text")
    return value


def _choice(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if isinstance(value, str) and value.strip().upper() in choices:
            return value.strip().upper()
        raise _WrongError(f"one of {', '.join(choices)}")

    return read


def _words(value: Any) -> list[str]:
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
    ops = tuple(word.upper().removeprefix("GGML_OP_") for word in _words(value))
    if not all(_OP.fullmatch(op.removeprefix("!")) for op in ops):
        raise _WrongError("names of ops, such as MUL_MAT, or !MUL_MAT to leave one out")
    if len({op.startswith("!") for op in ops}) > 1:
        raise _WrongError("either ops to trace or ops to leave out (!), not both")
    return ops


def _numbers(what: str, most: int) -> Callable[[Any], tuple[int, ...]]:
    wanted = f"{what} from 0 to {most - 1}, such as 0,2 or 4-7"

    def read(value: Any) -> tuple[int, ...]:
        found: set[int] = set()
        for word in _words(value):
            match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", word)
            if not match:
                raise _WrongError(wanted)
            first, last = int(match[1]), int(match[2] or match[1])
            if first > last or last >= most:
                raise _WrongError(wanted)
            found.update(range(first, last + 1))
        return tuple(sorted(found))

    return read


LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
SETTINGS = tuple(
    Setting(
        name=name, default=default, read=read, flag=flag, key=key, variable=variable,
        help=text, live=live == "live",
    )
    for name, default, read, flag, key, variable, text, live in (
        ("enabled", True, _boolean, "enabled", "instrumentation.enabled",
         "!GGML_VIZ_DISABLE", "trace at all", "live"),
        ("output", "", _text, "output", "output.records",
         "GGSCOPE_CAPTURE_OUTPUT", "file for records of 256 bytes", ""),
        ("ggmlviz", "", _text, "ggmlviz", "output.filename",
         "GGML_VIZ_OUTPUT", "file for an event stream of ggml-viz", ""),
        ("write_ggmlviz", True, _boolean, "write-ggmlviz", "output.write_to_file",
         "GGSCOPE_CAPTURE_WRITE_GGMLVIZ", "write the event stream, if named", ""),
        ("ops", (), _ops, "ops", "instrumentation.op_types_to_trace",
         "GGSCOPE_CAPTURE_OPS", "only these ops, or all but those with !", "live"),
        ("layers", (), _numbers("layers", _LAYERS), "layers", "instrumentation.layers",
         "GGSCOPE_CAPTURE_LAYERS", "only ops of these layers", "live"),
        ("threads", (), _numbers("threads", _LANES), "threads",
         "instrumentation.threads",
         "GGSCOPE_CAPTURE_THREADS", "only these threads, by ggml's index", "live"),
        ("sample_every", 1, _number(1, 1 << 31), "sample",
         "instrumentation.sample_every",
         "GGSCOPE_CAPTURE_SAMPLE", "trace one graph of so many", "live"),
        ("op_timing", True, _boolean, "op-timing", "instrumentation.enable_op_timing",
         "GGML_VIZ_OP_TIMING", "trace every op; else graphs only", "live"),
        ("memory_tracking", True, _boolean, "memory-tracking",
         "instrumentation.enable_memory_tracking",
         "GGML_VIZ_MEMORY_TRACKING", "write buffers into the outputs", ""),
        ("thread_tracking", True, _boolean, "thread-tracking",
         "instrumentation.enable_thread_tracking",
         "GGML_VIZ_THREAD_TRACKING", "trace all threads; else the first one", "live"),
        ("tensor_names", True, _boolean, "tensor-names",
         "instrumentation.record_tensor_names",
         "GGML_VIZ_TENSOR_NAMES", "write names of tensors into the outputs", ""),
        ("max_records", 0, _number(0, 1 << 40), "max-records",
         "instrumentation.max_events",
         "GGML_VIZ_MAX_EVENTS", "stop tracing after so many records; 0: never", ""),
        ("ring_records", 0, _number(0, 1 << 26, power=True), "ring-records",
         "instrumentation.ring_records",
         "GGML_VIZ_BUFFER_SIZE", "records of each thread's ring; 0: the tracer's", ""),
        ("overwrite", False, _boolean, "overwrite", "instrumentation.overwrite",
         "GGSCOPE_CAPTURE_OVERWRITE", "a full ring loses its oldest records", ""),
        ("flush_interval_ms", 20, _number(1, 60_000), "flush-interval",
         "instrumentation.flush_interval_ms",
         "GGML_VIZ_FLUSH_INTERVAL", "empty the ring every so many ms", "live"),
        ("verbose", False, _boolean, "verbose", "cli.verbose",
         "GGML_VIZ_VERBOSE", "say on stderr what is done", ""),
        ("log_level", "WARN", _choice(*LEVELS), "log-level", "logging.level",
         "GGML_VIZ_LOG_LEVEL", "least level that is said", ""),
        ("log_timestamp", False, _boolean, "log-timestamp", "logging.timestamp",
         "GGML_VIZ_LOG_TIMESTAMP", "with the time", ""),
        ("log_thread_id", False, _boolean, "log-thread-id", "logging.thread_id",
         "GGML_VIZ_LOG_THREAD_ID", "with the thread", ""),
        ("log_prefix", "ggscope-capture", _text, "log-prefix", "logging.prefix",
         "GGML_VIZ_LOG_PREFIX", "what lines begin with", ""),
    )
)  # fmt: skip
"""Every setting, in the order of `Settings`."""
_BY_KEY = {setting.key: setting for setting in SETTINGS}
CONFIG_VARIABLE = "GGSCOPE_CAPTURE_CONFIG"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the value of a setting comes from, and who else said something."""

    setting: Setting
    value: Value
    source: str
    overruled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Configuration:
    """All settings with their origins; `notices` are for people."""

    settings: Settings
    origins: tuple[Origin, ...]
    notices: tuple[str, ...]


def resolve(
    flags: Mapping[str, Any], file: Path | None, environment: Mapping[str, str]
) -> Configuration:
    """Return the settings.

    Parameters
    ----------
    flags : texts (or booleans) by the names of settings, those that were given only.
    file : a JSON file, or None: then the one that ``GGSCOPE_CAPTURE_CONFIG`` names.

    Raises
    ------
    ConfigError
        If a source says something that cannot be, or the file cannot be read.
    """
    if file is None and environment.get(CONFIG_VARIABLE):
        file = Path(environment[CONFIG_VARIABLE])
    written, notices = _file_values(file) if file else ({}, [])
    origins = []
    for setting in SETTINGS:
        said: list[tuple[str, Value]] = []
        if setting.name in flags:
            source = f"--{setting.flag}"
            said.append((source, _checked(setting, flags[setting.name], source)))
        if setting.key in written:
            source = f"{file}: {setting.key}"
            said.append((source, _checked(setting, written[setting.key], source)))
        name = setting.variable.removeprefix("!")
        if name in environment:
            value = _checked(setting, environment[name], name)
            inverted = setting.variable.startswith("!")
            said.append((name, not value if inverted else value))
        said.append(("default", setting.default))
        (source, value), rest = said[0], said[1:-1]
        overruled = tuple(f"{source} says {shown(value)}" for source, value in rest)
        origins.append(Origin(setting, value, source, overruled))
    values: dict[str, Any] = {o.setting.name: o.value for o in origins}
    return Configuration(Settings(**values), tuple(origins), tuple(notices))


def shown(value: Value) -> str:
    """Return a value as it would be written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "all"
    return str(value) if value != "" else "none"


def _checked(setting: Setting, value: Any, source: str) -> Value:
    try:
        return setting.read(value)
    except _WrongError as wrong:
        told = json.dumps(value, default=str)
        told = told if len(told) <= 60 else told[:57] + "…"
        raise ConfigError(f"{source} is {told}; it must be {wrong}") from None


def _file_values(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return what a file says by key, and notices; raises ConfigError."""
    try:
        with path.open("rb") as handle:
            content = handle.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{path} has more than {_MOST_BYTES} bytes")
    doubled: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in items]
        doubled.extend(name for name in set(names) if names.count(name) > 1)
        return dict(items)

    try:
        document = json.loads(content, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} holds no object with groups of settings")
    if doubled:
        raise ConfigError(f"{path} says {doubled[0]} twice")
    return _flattened(path, document)


def _flattened(
    path: Path, document: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    notices: list[str] = []
    groups = {key.partition(".")[0] for key in (*_BY_KEY, *_UNUSED)}
    for group, body in document.items():
        if group in _UNUSED:
            continue
        if group not in groups:
            notices.append(_unknown(path, group, groups))
            continue
        if not isinstance(body, dict):
            raise ConfigError(f"{path}: {group} must be an object with settings")
        for name, value in body.items():
            key = f"{group}.{name}"
            if key in _BY_KEY:
                values[key] = value
            elif key in _UNUSED:
                notices.append(f"{path}: {key} is not used; {_UNUSED[key]}")
            else:
                notices.append(_unknown(path, key, _BY_KEY))
    return values, notices


def _unknown(path: Path, key: str, known: Any) -> str:
    near = difflib.get_close_matches(key, list(known), 1)
    meant = f"; did you mean {near[0]}" if near else ""
    return f"{path}: nobody knows {key}{meant}"
