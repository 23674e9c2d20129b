"""The rules of the NPU format: what becomes of values that break them.

`scan` decodes events and samples that the rules have nothing to say about; `Rules`
judges all others, and all markers, one by one, as `EVENTS` says.

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
from typing import Any, NamedTuple, TypeAlias

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
Fields: TypeAlias = dict[str, Any]
Rule: TypeAlias = "Callable[[Problems, Fields, str], object]"
"""Returns what the field of a key stands for, and notes what is wrong with it."""

DETAIL_CHARS = 4096
MAX_ADDRESS = (1 << 64) - 1
LEFT_OUT = "it is not shown"
ROLES = ("weight", "kv", "activation", "other")
"""What an engine moves, as it is called in the trace."""
_ROLE_OF = {
    "weight": 0, "weights": 0, "kv": 1, "kv_cache": 1, "activation": 2,
    "activations": 2,
}  # fmt: skip
_AMOUNTS = ("bytes",)
"""Numbers that no rule of the format lets be negative; others are ids."""


class Event(NamedTuple):
    """An event as the rules give it.

    Attributes
    ----------
    kind : its type in `EVENTS`; that of markers for all that is shown as one.
    values : what each field in `EVENTS` stands for.
    """

    kind: str
    values: dict[str, Any]


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

    def missing(self, field: str) -> None:
        """Note a field that must be there."""
        self.error("field_missing", field, f"{field} missing")

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
        kind = value.get("type")
        if not isinstance(kind, str):
            what = "has no type" if kind is None else "has a type that is not a string"
            text = f"{problems.subject} {what}; {LEFT_OUT}"
            problems.warn(Severity.ERROR, "event_without_type", text, "type")
            return None
        if kind not in EVENTS and kind not in RESERVED:
            if not self.unknown:
                self.first_unknown = problems.place("type")
            self.unknown[kind] = self.unknown.get(kind, 0) + 1
        values: Fields = {}
        try:
            for key, rule in EVENTS.get(kind, _OTHERS).items():
                values[key] = rule(problems, value, key)
        except _LeftOutError:
            return None
        except _MarkerError:
            marker = _marker_of(value, clean(kind))
            return Event(MARKER, {"cycle": values["cycle"], **marker})
        return Event(kind, values)

    def sample(self, value: object) -> Fields | None:
        """Return the values of `SAMPLE_FIELDS`, or None where it is left out."""
        problems = self._problems
        if not isinstance(value, dict):
            text = f"{problems.subject} is not an object; {LEFT_OUT}"
            problems.warn(Severity.ERROR, "sample_not_object", text)
            return None
        try:
            return {k: rule(problems, value, k) for k, rule in SAMPLE_FIELDS.items()}
        except _LeftOutError:
            return None


class _LeftOutError(Exception):
    """A time is missing or unusable: the event cannot be shown."""


class _MarkerError(Exception):
    """All that can be shown of the event is a marker."""


def _cycle(problems: Problems, fields: Fields, key: str) -> int:
    """Return a time; raises, with a loss noted, where there is none to be had."""
    if fields.get(key) is None:
        problems.error("cycle_missing", key, f"{key} missing; {LEFT_OUT}")
        raise _LeftOutError
    cycle = _parsed(problems, fields, key)
    if cycle is None or not -MAX_CYCLE <= cycle <= MAX_CYCLE:
        what = "is not a number" if cycle is None else "is out of range"
        problems.error("cycle_unusable", key, f"{key} {what}; {LEFT_OUT}")
        raise _LeftOutError
    if cycle < 0:
        problems.error(f"negative_{key}", key, f"negative {key}")
    return cycle


def _any_cycle(problems: Problems, fields: Fields, key: str) -> int:
    """Return the time of an event of another type."""
    is_interval = fields.get(key) is None and fields.get("start_cycle") is not None
    return _cycle(problems, fields, "start_cycle" if is_interval else key)


def _window(problems: Problems, fields: Fields, key: str) -> int:
    """Return the length of a sample's window; raises, as an error, without one."""
    value = fields.get(key)
    window = None if value is None else _parsed(problems, fields, key)
    if window is not None and 0 < window <= MAX_CYCLE:
        return window
    code, what = "bandwidth_window_unusable", "is out of range"
    if value is None:
        code, what = "bandwidth_window_missing", "is missing"
    elif window is None:
        what = "is not a number"
    elif window == 0:
        code, what = "bandwidth_window_zero", "is 0"
    elif window < 0:
        code, what = "bandwidth_window_negative", f"is negative ({window})"
    problems.error(code, key, f"{key} {what}; {LEFT_OUT}")
    raise _LeftOutError


def _number(
    low: int = -1,
    high: int = MAX_NUMBER,
    missing: int | None = -1,
    *,
    needed: bool = False,
) -> Rule:
    """Return the rule of an integer; `missing` stands for an unusable one, too."""

    def rule(problems: Problems, fields: Fields, key: str) -> int | None:
        if fields.get(key) is None:
            if needed:
                problems.missing(key)
            return missing
        number = _parsed(problems, fields, key)
        if number is None:
            problems.note("wrong_type", key, f"{key} is not a number")
        elif number < 0 and key in _AMOUNTS:
            problems.error(f"negative_{key}", key, f"negative {key}")
        elif not low <= number <= high:
            problems.note("number_out_of_range", key, f"{key} is out of range")
        else:
            return number
        return missing

    return rule


def _parsed(problems: Problems, fields: Fields, key: str) -> int | None:
    """Return the integer that a field stands for; None if it is no number."""
    value = _figure(problems, fields, key)
    if value is None or isinstance(value, int):
        return value
    if not math.isfinite(value):
        return MAX_ADDRESS + 1
    if not value.is_integer():
        what = f"{key} is not a whole number; it is rounded"
        problems.note("fractional_number", key, what)
    return round(value)


def _figure(problems: Problems, fields: Fields, key: str) -> int | float | None:
    """Return the number of a field, also where it is a string; None if it is none."""
    value = fields[key]
    if isinstance(value, str) and (number := _number_in(value)) is not None:
        problems.note("number_as_text", key, f"{key} is a string")
        value = number
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None


def _amount(problems: Problems, fields: Fields, key: str) -> float | None:
    """Return a figure of a sample; None where it is missing or unusable."""
    if fields.get(key) is None:
        return None
    value = _figure(problems, fields, key)
    if value is None:
        problems.note("wrong_type", key, f"{key} is not a number")
    elif value < 0:
        problems.error(f"negative_{key}", key, f"negative {key}")
    elif not value < math.inf:
        problems.note("number_out_of_range", key, f"{key} is out of range")
    else:
        return float(value)
    return None


def _text(problems: Problems, fields: Fields, key: str) -> str | None:
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return None if value is None else clean(value)
    problems.note("wrong_type", key, f"{key} is not a string")
    return text_of(value)


def _needed_text(problems: Problems, fields: Fields, key: str) -> str | None:
    value = fields.get(key)
    if value is None or isinstance(value, str):
        if key not in fields:
            problems.missing(key)
        return None if value is None else clean(value)
    problems.error("wrong_type", key, f"{key} is not a string")
    return text_of(value)


def _choice(
    known: Sequence[str], *, code: str = "", effect: str = "", is_open: bool = False
) -> Rule:
    """Return the rule of one of `known`, or what else stands there, with a warning.

    In an open list other words break no rule.
    """

    def rule(problems: Problems, fields: Fields, key: str) -> str:
        value = fields.get(key)
        if isinstance(value, str) and value in known:
            return value
        if value is None:
            problems.missing(key)
            return "unknown"
        shown = value if isinstance(value, str) else text_of(value)
        shown = clean(shown)[:80]
        note = problems.note if is_open else problems.error
        what = f"{key}={shown!r} is none of {', '.join(known)}"
        note(code or f"unknown_{key}", key, f"{what}; {effect}" if effect else what)
        return shown or "unknown"

    return rule


def _direction(problems: Problems, fields: Fields, key: str) -> str:
    """Return a direction; an access without one is a marker."""
    rule = _choice(DIRECTIONS, effect="it is shown as a marker")
    direction = str(rule(problems, fields, key))
    if direction not in DIRECTIONS:
        raise _MarkerError
    return direction


def _deps(problems: Problems, fields: Fields, key: str) -> list[int] | None:
    value = fields.get(key)
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
        problems.note("wrong_type", key, f"{key} is not a list of numbers")
    return usable


def _detail(high: int, *keys: str) -> Rule:
    """Return the rule of a number in ``details``: of the first key that has one; or -1.

    Details are free text to the format: what has another type there breaks no rule.
    """

    def rule(_: Problems, fields: Fields, __: str) -> int:
        details = fields.get("details")
        if isinstance(details, dict):
            for key in keys:
                if key in details and 0 <= (number := _whole(details[key])) <= high:
                    return number
        return -1

    return rule


def _role(_: Problems, fields: Fields, __: str) -> int:
    """Return which of `ROLES` an engine moves; -1 where its details do not say."""
    details = fields.get("details")
    role = details.get("tensor_role") if isinstance(details, dict) else None
    return _ROLE_OF.get(role, len(ROLES) - 1) if isinstance(role, str) else -1


def _marker_name(problems: Problems, fields: Fields, key: str) -> str:
    return _needed_text(problems, fields, key) or MARKER


def _marker_detail(problems: Problems, fields: Fields, _: str) -> str | None:
    details = fields.get("details")
    detail = text_of(details) if details not in (None, {}, "") else None
    if fields.get("name") == INVALID_TRACE:
        what = f"the simulator marked this trace as invalid: {detail or 'no details'}"
        remedy = "Its times may be wrong."
        problems.warn(Severity.ERROR, INVALID_CODE, what, remedy=remedy)
    return detail


def _as_marker(*_: object) -> None:
    raise _MarkerError


def _marker_of(fields: Fields, name: str) -> Fields:
    """Return name, detail and power of the marker that stands for an event."""
    rest = {key: value for key, value in fields.items() if key not in ("type", "cycle")}
    power = fields.get("mw") if name == "POWER_ESTIMATE" else None
    if isinstance(power, bool) or not isinstance(power, int | float):
        power = math.nan
    return {
        "name": name,
        "detail": text_of(rest) if rest else None,
        "power": float(power) if math.isfinite(power) else math.nan,
    }


MARKER = "MARKER_EVENT"
EVENTS: Mapping[str, Mapping[str, Rule]] = {
    "ENGINE_EVENT": {
        "start_cycle": _cycle,
        "end_cycle": _cycle,
        "engine": _choice(ENGINES),
        "op": _needed_text,
        "engine_id": _number(0, MAX_ID, 0),
        "cmdq_id": _number(),
        "layer_id": _text,
        "tile_id": _text,
        "color_hint": _text,
        "deps": _deps,
        "moved": _detail(MAX_NUMBER, "bytes"),
        "bits": _detail(127, "qbits_weight", "qbits", "qbits_activation"),
        "bank": _detail((1 << 15) - 1, "spm_bank"),
        "bank_offset": _detail(MAX_NUMBER, "spm_offset"),
        "role": _role,
    },
    "MEM_ACCESS_EVENT": {
        "cycle": _cycle,
        "mem_type": _choice(MEMORIES),
        "direction": _direction,
        "bytes": _number(0),
        "addr": _number(0, MAX_ADDRESS, None),
        "source_engine": _text,
        "source_engine_id": _number(0, MAX_ID, 0),
        "cmdq_id": _number(),
    },
    "TOKEN_EVENT": {
        "start_cycle": _cycle,
        "end_cycle": _cycle,
        "phase": _choice(TOKEN_PHASES, code="unknown_token_phase"),
        "token_index": _number(0, MAX_ID, needed=True),
    },
    "STALL_EVENT": {
        "start_cycle": _cycle,
        "end_cycle": _cycle,
        # Their list is open, as that of reasons is.
        "master": _choice(MASTERS, is_open=True),
        "master_id": _number(0, MAX_ID, 0),
        "reason": _text,
    },
    "CMD_EVENT": {
        "cycle": _cycle,
        "event": _choice(COMMANDS, code="unknown_cmd_event"),
        "cmd_id": _number(),
        "source": _text,
        "phase": _text,
    },
    MARKER: {
        "cycle": _cycle,
        "name": _marker_name,
        "detail": _marker_detail,
        "power": lambda *_: math.nan,
    },
}
"""The rule of each field of each type of event, in the order in which they apply."""

_OTHERS: Mapping[str, Rule] = {"cycle": _any_cycle, "type": _as_marker}

SAMPLE_FIELDS: Mapping[str, Rule] = {
    "cycle": _cycle,
    "window_cycles": _window,
    "dram_read_bytes": _amount,
    "dram_write_bytes": _amount,
    "stall_cycles": _amount,
    "kv_bytes": _amount,
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
