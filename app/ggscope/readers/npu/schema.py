"""The rules of the NPU format: what becomes of values that break them.

`scan` decodes events and samples that the rules have nothing to say about; `Rules`
judges all others, and all markers, one by one.

Every repair and every loss is noted as a warning with the JSON path of its place.
Broken rules of the format are errors, although all that can be shown is: mandatory
fields, the words of enumerations, times that are not negative and in order. What a
later writer may add (event types, minor versions) and what could be repaired are
notices.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import INVALID_CODE, INVALID_TRACE, Severity

MAX_CYCLE = 1 << 61
"""Larger times would overflow int64 once windows are added to them."""
MAX_ID = (1 << 31) - 1
MAX_NUMBER = (1 << 62) - 1

ENGINES = ("DMA", "TE", "VE", "CTRL", "HOST", "OTHER")
"""Engine names in the order of their lanes."""
MASTERS = ("DMA", "TE", "VE", "BUS", "TRACE", "CTRL", "HOST", "OTHER")
REASONS = ("queue_full", "priority_deferred", "backpressure", "throttle")
"""What the specification says masters stall for; the list is open."""
NO_REASON = "stall"
"""What a stall without a reason is called."""
COMMANDS = ("ENQUEUE", "START", "END", "ERROR")
COMMAND_NAME = "command"
"""What a command without phase and source is called."""
TOKEN_PHASES = ("PREFILL", "DECODE")
PHASE_NAMES = ("prefill", "decode")
"""How `TOKEN_PHASES` are called where people read them."""
DIRECTIONS = ("read", "write")
MEMORIES = ("DRAM", "SPM")
RESERVED = ("BUS_EVENT", "POWER_ESTIMATE", "ERROR_EVENT")
"""Types that the specification sets aside without saying what is in them."""

_BOUNDED_NUMBER = re.compile(r"(?:^|[\W_])(\d{1,5})(?=$|[\W_])")
_TRAILING_NUMBER = re.compile(r"(\d{1,5})$")
_HEX_COLOR = re.compile(r"#?([0-9a-fA-F]{6}|[0-9a-fA-F]{3})$")
_COLOR_NAMES = {
    "black": 0x000000,
    "blue": 0x0000FF,
    "brown": 0xA52A2A,
    "cyan": 0x00FFFF,
    "gray": 0x808080,
    "green": 0x008000,
    "grey": 0x808080,
    "magenta": 0xFF00FF,
    "orange": 0xFFA500,
    "pink": 0xFFC0CB,
    "purple": 0x800080,
    "red": 0xFF0000,
    "white": 0xFFFFFF,
    "yellow": 0xFFFF00,
}
Fields: TypeAlias = dict[str, object]
DETAIL_CHARS = 4096
MAX_ADDRESS = (1 << 64) - 1
LEFT_OUT = "it is not shown"
_DETAILS = {
    "moved": (("bytes",), MAX_NUMBER),
    "bits": (("qbits_weight", "qbits", "qbits_activation"), 127),
    "bank": (("spm_bank",), (1 << 15) - 1),
    "bank_offset": (("spm_offset",), MAX_NUMBER),
}
"""Keys of each detail, the first that is stated counts; and its largest value."""
ROLES = ("weight", "kv", "activation", "other")
"""What an engine moves, as it is called in the trace."""
_ROLE_OF = {
    "weight": 0, "weights": 0, "kv": 1, "kv_cache": 1, "activation": 2,
    "activations": 2,
}  # fmt: skip
_AMOUNTS = ("bytes",)
"""Numbers that no rule of the format lets be negative; others are ids."""


@dataclass(slots=True)
class Engine:
    """Work of one engine; the last five are -1 where its details do not state them."""

    start_cycle: int
    end_cycle: int
    engine: str
    op: str | None
    engine_id: int
    cmdq_id: int
    layer_id: str | None
    tile_id: str | None
    color_hint: str | None
    deps: list[int] | None
    moved: int
    bits: int
    bank: int
    bank_offset: int
    role: int


@dataclass(slots=True)
class Access:
    """One transfer; `bytes` is -1 where it is not stated, `addr` below 2**64."""

    cycle: int
    mem_type: str
    direction: str
    bytes: int
    addr: int | None
    source_engine: str | None
    source_engine_id: int
    cmdq_id: int


@dataclass(slots=True)
class Token:
    """The time spent on one token; `token_index` -1 where it is not known."""

    start_cycle: int
    end_cycle: int
    phase: str
    token_index: int


@dataclass(slots=True)
class Stall:
    """A master waiting for something."""

    start_cycle: int
    end_cycle: int
    master: str
    master_id: int
    reason: str | None


@dataclass(slots=True)
class Command:
    """One step in the life of a command; `phase` is free text here."""

    cycle: int
    event: str
    cmd_id: int
    source: str | None
    phase: str | None


@dataclass(slots=True)
class Instant:
    """A marker, or an event that is shown as one; `power` in mW, NaN if none."""

    cycle: int
    name: str
    detail: str | None = None
    power: float = math.nan


@dataclass(slots=True)
class Sample:
    """One entry of ``bandwidth_samples``; None where a figure is missing."""

    cycle: int
    window_cycles: int
    dram_read_bytes: float | None
    dram_write_bytes: float | None
    stall_cycles: float | None
    kv_bytes: float | None


Event = Engine | Access | Token | Stall | Command | Instant


def layer_number(layer_id: str) -> int:
    """Return the layer that an id such as ``attn_0`` or ``blk.5.ffn`` names; or -1.

    The first number that stands alone counts; else one at the end ("layer12").
    """
    match = _BOUNDED_NUMBER.search(layer_id) or _TRAILING_NUMBER.search(layer_id)
    number = int(match.group(1)) if match else -1
    return number if number < 1 << 15 else -1


def color_value(hint: str) -> int:
    """Return 0xFFRRGGBB for ``#rrggbb``, ``#rgb`` or a common name; 0 otherwise."""
    named = _COLOR_NAMES.get(hint.strip().lower())
    if named is not None:
        return 0xFF000000 | named
    match = _HEX_COLOR.match(hint.strip())
    if match is None:
        return 0
    digits = match.group(1)
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    return 0xFF000000 | int(digits, 16)


class Problems:
    """Notes problems under the number and place of the event at hand.

    Parameters
    ----------
    builder : takes the warnings.
    lines : whether places are lines (JSON Lines) instead of array elements.
    """

    def __init__(self, builder: TraceBuilder, *, lines: bool = False) -> None:
        self._builder = builder
        self._lines = lines
        self._index, self._offset, self._line = 0, 0, 0
        self._list = "timeline_events"
        self._word = "event"

    def at(
        self, index: int, offset: int, line: int = 0, *, sample: bool = False
    ) -> None:
        """Say which event (or bandwidth sample) the next problems belong to."""
        self._index, self._offset, self._line = index, offset, line
        self._list = "bandwidth_samples" if sample else "timeline_events"
        self._word = "sample" if sample else "event"

    @property
    def offset(self) -> int:
        """Where the event at hand begins in the file."""
        return self._offset

    @property
    def subject(self) -> str:
        """The event at hand as messages name it: ``event 3``."""
        return f"{self._word} {self._index}"

    def place(self, field: str = "") -> str:
        """Return the JSON path or the line of the event at hand."""
        if self._lines and self._line:
            return f"line {self._line}" + (f", {field}" if field else "")
        return f"{self._list}[{self._index}]" + (f".{field}" if field else "")

    def note(self, code: str, field: str, what: str) -> None:
        """Note an odd field that breaks no rule of the format, or was repaired."""
        self.warn(Severity.NOTICE, code, f"{self.subject}: {what}", field)

    def error(self, code: str, field: str, what: str) -> None:
        """Note a field that breaks a rule of the format."""
        self.warn(Severity.ERROR, code, f"{self.subject}: {what}", field)

    def warn(
        self,
        severity: Severity,
        code: str,
        text: str,
        field: str = "",
        *,
        remedy: str = "",
    ) -> None:
        """Note a problem of the event at hand, or of one of its fields."""
        self._builder.warn(
            severity, code, text, self._offset, place=self.place(field), remedy=remedy
        )


class Rules:
    """Turns decoded JSON values into events, as far as they can be read.

    Attributes
    ----------
    unknown : number of events of each type that the format does not define.
    first_unknown : place and offset are those of the first such event.
    """

    def __init__(self, problems: Problems) -> None:
        self.unknown: dict[str, int] = {}
        self.first_unknown = ""
        self._problems = problems

    def event(self, value: object) -> Event | None:
        """Return the event that `value` describes, or None where it is left out."""
        problems = self._problems
        if not isinstance(value, dict):
            text = f"{problems.subject} is not an object; {LEFT_OUT}"
            problems.warn(Severity.ERROR, "event_not_object", text)
            return None
        fields: Fields = value
        kind = fields.get("type")
        if not isinstance(kind, str):
            what = "has no type" if kind is None else "has a type that is not a string"
            text = f"{problems.subject} {what}; {LEFT_OUT}"
            problems.warn(Severity.ERROR, "event_without_type", text, "type")
            return None
        known = _BY_TYPE.get(kind)
        return known(self, fields) if known is not None else self._generic(fields, kind)

    def sample(self, value: object) -> Sample | None:
        """Return a bandwidth sample, or None where it is left out."""
        problems = self._problems
        if not isinstance(value, dict):
            text = f"{problems.subject} is not an object; {LEFT_OUT}"
            problems.warn(Severity.ERROR, "sample_not_object", text)
            return None
        fields: Fields = value
        cycle = self._cycle(fields, "cycle")
        if cycle is None:
            return None
        window = self._window(fields)
        if window is None:
            return None
        amounts = [
            self._amount(fields, key)
            for key in (
                "dram_read_bytes",
                "dram_write_bytes",
                "stall_cycles",
                "kv_bytes",
            )
        ]
        return Sample(cycle, window, *amounts)

    def _window(self, fields: Fields) -> int | None:
        """Return the length of a sample's window; None, as an error, where it is none.

        A sample without one is left out.
        """
        key = "window_cycles"
        window = None if fields.get(key) is None else self._parsed(fields, key)
        if window is not None and 0 < window <= MAX_CYCLE:
            return window
        code, what = "bandwidth_window_unusable", "is out of range"
        if fields.get(key) is None:
            code, what = "bandwidth_window_missing", "is missing"
        elif window is None:
            what = "is not a number"
        elif window == 0:
            code, what = "bandwidth_window_zero", "is 0"
        elif window < 0:
            code, what = "bandwidth_window_negative", f"is negative ({window})"
        self._problems.error(code, key, f"{key} {what}; {LEFT_OUT}")
        return None

    def _engine(self, fields: Fields) -> Engine | None:
        times = self._interval(fields)
        if times is None:
            return None
        return Engine(
            *times,
            engine=self._choice(fields, "engine", ENGINES),
            op=self._text(fields, "op", needed=True),
            engine_id=self._number(fields, "engine_id", 0, MAX_ID, 0),
            cmdq_id=self._number(fields, "cmdq_id"),
            layer_id=self._text(fields, "layer_id"),
            tile_id=self._text(fields, "tile_id"),
            color_hint=self._text(fields, "color_hint"),
            deps=self._deps(fields),
            **_details(fields.get("details")),
        )

    def _access(self, fields: Fields) -> Event | None:
        cycle = self._cycle(fields, "cycle")
        if cycle is None:
            return None
        memory = self._choice(fields, "mem_type", MEMORIES)
        direction = self._choice(
            fields, "direction", DIRECTIONS, effect="it is shown as a marker"
        )
        if direction not in DIRECTIONS:
            return Instant(cycle, "MEM_ACCESS_EVENT", _rest(fields))
        return Access(
            cycle,
            mem_type=memory,
            direction=direction,
            bytes=self._number(fields, "bytes", 0),
            addr=self._integer(fields, "addr", 0, MAX_ADDRESS),
            source_engine=self._text(fields, "source_engine"),
            source_engine_id=self._number(fields, "source_engine_id", 0, MAX_ID, 0),
            cmdq_id=self._number(fields, "cmdq_id"),
        )

    def _token(self, fields: Fields) -> Token | None:
        times = self._interval(fields)
        if times is None:
            return None
        phase = self._choice(fields, "phase", TOKEN_PHASES, code="unknown_token_phase")
        index = self._integer(fields, "token_index", 0, MAX_ID)
        if fields.get("token_index") is None:
            self._missing("token_index")
        return Token(
            *times,
            phase=phase,
            token_index=-1 if index is None else index,
        )

    def _stall(self, fields: Fields) -> Stall | None:
        times = self._interval(fields)
        if times is None:
            return None
        return Stall(
            *times,
            # Their list is open, as that of reasons is.
            master=self._choice(fields, "master", MASTERS, is_open=True),
            master_id=self._number(fields, "master_id", 0, MAX_ID, 0),
            reason=self._text(fields, "reason"),
        )

    def _command(self, fields: Fields) -> Command | None:
        cycle = self._cycle(fields, "cycle")
        if cycle is None:
            return None
        event = self._choice(fields, "event", COMMANDS, code="unknown_cmd_event")
        return Command(
            cycle,
            event=event,
            cmd_id=self._number(fields, "cmd_id"),
            source=self._text(fields, "source"),
            phase=self._text(fields, "phase"),
        )

    def _marker(self, fields: Fields) -> Instant | None:
        cycle = self._cycle(fields, "cycle")
        if cycle is None:
            return None
        name = self._text(fields, "name", needed=True) or "MARKER_EVENT"
        details = fields.get("details")
        detail = text_of(details) if details not in (None, {}, "") else None
        if name == INVALID_TRACE:
            self._problems.warn(
                Severity.ERROR,
                INVALID_CODE,
                f"the simulator marked this trace as invalid: {detail or 'no details'}",
                remedy="Its times may be wrong.",
            )
        return Instant(cycle, name, detail)

    def _generic(self, fields: Fields, kind: str) -> Instant | None:
        if kind not in RESERVED:
            if not self.unknown:
                self.first_unknown = self._problems.place("type")
            self.unknown[kind] = self.unknown.get(kind, 0) + 1
        key = "cycle"
        if fields.get("cycle") is None and fields.get("start_cycle") is not None:
            key = "start_cycle"
        cycle = self._cycle(fields, key)
        if cycle is None:
            return None
        power = fields.get("mw") if kind == "POWER_ESTIMATE" else None
        if isinstance(power, bool) or not isinstance(power, int | float):
            power = math.nan
        return Instant(
            cycle,
            clean(kind),
            _rest(fields),
            float(power) if math.isfinite(power) else math.nan,
        )

    def _interval(self, fields: Fields) -> tuple[int, int] | None:
        start = self._cycle(fields, "start_cycle")
        if start is None:
            return None
        end = self._cycle(fields, "end_cycle")
        return None if end is None else (start, end)

    def _cycle(self, fields: Fields, key: str) -> int | None:
        """Return a time; None (noted as a loss) where there is none to be had."""
        problems = self._problems
        if fields.get(key) is None:
            problems.error("cycle_missing", key, f"{key} missing; {LEFT_OUT}")
            return None
        cycle = self._parsed(fields, key)
        if cycle is None or not -MAX_CYCLE <= cycle <= MAX_CYCLE:
            what = "is not a number" if cycle is None else "is out of range"
            problems.error("cycle_unusable", key, f"{key} {what}; {LEFT_OUT}")
            return None
        if cycle < 0:
            problems.error(f"negative_{key}", key, f"negative {key}")
        return cycle

    def _number(
        self,
        fields: Fields,
        key: str,
        low: int = -1,
        high: int = MAX_NUMBER,
        missing: int = -1,
    ) -> int:
        number = self._integer(fields, key, low, high)
        return missing if number is None else number

    def _integer(self, fields: Fields, key: str, low: int, high: int) -> int | None:
        """Return a number that may be missing; None also where it is unusable."""
        if fields.get(key) is None:
            return None
        problems = self._problems
        number = self._parsed(fields, key)
        if number is None:
            problems.note("wrong_type", key, f"{key} is not a number")
        elif number < 0 and key in _AMOUNTS:
            problems.error(f"negative_{key}", key, f"negative {key}")
            return None
        elif not low <= number <= high:
            problems.note("number_out_of_range", key, f"{key} is out of range")
            return None
        return number

    def _parsed(self, fields: Fields, key: str) -> int | None:
        """Return the integer that a field stands for; None if it is no number."""
        value, problems = fields[key], self._problems
        if isinstance(value, str):
            number = _number_in(value)
            if number is None:
                return None
            problems.note("number_as_text", key, f"{key} is a string")
            value = number
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if isinstance(value, int):
            return value
        if not math.isfinite(value):
            return MAX_ADDRESS + 1
        if not value.is_integer():
            problems.note(
                "fractional_number", key, f"{key} is not a whole number; it is rounded"
            )
        return round(value)

    def _amount(self, fields: Fields, key: str) -> float | None:
        """Return a figure of a sample; None where it is missing or unusable."""
        value, problems = fields.get(key), self._problems
        if value is None:
            return None
        if isinstance(value, str) and (number := _number_in(value)) is not None:
            problems.note("number_as_text", key, f"{key} is a string")
            value = number
        if isinstance(value, bool) or not isinstance(value, int | float):
            problems.note("wrong_type", key, f"{key} is not a number")
            return None
        if value < 0:
            problems.error(f"negative_{key}", key, f"negative {key}")
            return None
        if not value < math.inf:
            problems.note("number_out_of_range", key, f"{key} is out of range")
            return None
        return float(value)

    def _text(self, fields: Fields, key: str, *, needed: bool = False) -> str | None:
        value, problems = fields.get(key), self._problems
        if value is None:
            if needed and key not in fields:
                self._missing(key)
            return None
        if isinstance(value, str):
            return clean(value)
        note = problems.error if needed else problems.note
        note("wrong_type", key, f"{key} is not a string")
        return text_of(value)

    def _choice(
        self,
        fields: Fields,
        key: str,
        known: Sequence[str],
        *,
        code: str = "",
        effect: str = "",
        is_open: bool = False,
    ) -> str:
        """Return one of `known`, or what else stands there, with a warning.

        In an open list other words break no rule.
        """
        value, problems = fields.get(key), self._problems
        if isinstance(value, str) and value in known:
            return value
        if value is None:
            self._missing(key)
            return "unknown"
        shown = value if isinstance(value, str) else text_of(value)
        shown = clean(shown)[:80]
        note = problems.note if is_open else problems.error
        what = f"{key}={shown!r} is none of {', '.join(known)}"
        note(code or f"unknown_{key}", key, f"{what}; {effect}" if effect else what)
        return shown or "unknown"

    def _deps(self, fields: Fields) -> list[int] | None:
        value = fields.get("deps")
        if value is None:
            return None
        given = value if isinstance(value, list) else [value]
        usable = [
            number
            for number in given
            if isinstance(number, int)
            and not isinstance(number, bool)
            and -1 <= number <= MAX_NUMBER
        ]
        if len(usable) < len(given) or given is not value:
            problems = self._problems
            problems.note("wrong_type", "deps", "deps is not a list of numbers")
        return usable

    def _missing(self, key: str) -> None:
        problems = self._problems
        problems.error("field_missing", key, f"{key} missing")


# Of the class: a table of its own methods in each object would make it refer to itself,
# and all that was read would wait for the collector.
_BY_TYPE: Mapping[str, Callable[[Rules, Fields], Event | None]] = {
    "ENGINE_EVENT": Rules._engine,
    "MEM_ACCESS_EVENT": Rules._access,
    "TOKEN_EVENT": Rules._token,
    "STALL_EVENT": Rules._stall,
    "CMD_EVENT": Rules._command,
    "MARKER_EVENT": Rules._marker,
}


def clean(text: str) -> str:
    """Return `text` without halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_of(value: object) -> str:
    """Return a decoded value as JSON, cut at 4096 characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply)"
    return clean(text)[:DETAIL_CHARS]


def _rest(fields: Fields) -> str | None:
    """Return the fields of an event that have no column, as JSON."""
    rest = {key: value for key, value in fields.items() if key not in ("type", "cycle")}
    return text_of(rest) if rest else None


def _details(value: object) -> dict[str, int]:
    """Return what the details of an engine event state; -1 for what they do not.

    They are free text to the format: what has another type there breaks no rule.
    """
    details = value if isinstance(value, dict) else {}
    stated: dict[str, int] = {}
    for name, (keys, limit) in _DETAILS.items():
        numbers = (_whole(details.get(key)) for key in keys)
        stated[name] = next((n for n in numbers if 0 <= n <= limit), -1)
    role = details.get("tensor_role")
    stated["role"] = -1
    if isinstance(role, str):
        stated["role"] = _ROLE_OF.get(role, len(ROLES) - 1)
    return stated


def _whole(value: object) -> int:
    """Return a whole number; -1 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return -1
    return int(value) if math.isfinite(value) and value == int(value) else -1


def _number_in(text: str) -> int | float | None:
    """Return the number written in a string (also hexadecimal), or None."""
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None
