"""Filters as text: what people type, what chips say, what a file keeps."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NoReturn

from ggscope.errors import QueryError
from ggscope.model.ggml import FAMILIES
from ggscope.model.selection import Filter
from ggscope.model.tables import Phase, Quality, Space
from ggscope.model.time import Clock, TimeRange, Unit
from ggscope.model.units import (
    format_bytes,
    format_duration,
    format_offset,
    parse_duration,
    shown_form,
)

_ALIASES = {
    "op": "ops",
    "ops": "ops",
    "family": "families",
    "families": "families",
    "layer": "layers",
    "layers": "layers",
    "token": "tokens",
    "tokens": "tokens",
    "thread": "threads",
    "threads": "threads",
    "lane": "threads",
    "engine": "threads",
    "phase": "phases",
    "phases": "phases",
    "source": "spaces",
    "sources": "spaces",
    "space": "spaces",
    "memory": "spaces",
    "quality": "qualities",
    "name": "text",
    "text": "text",
    "dur": "duration",
    "duration": "duration",
    "time": "time",
    "tensor": "tensors",
    "tensors": "tensors",
    "offset": "offsets",
    "offsets": "offsets",
    "bytes": "offsets",
    "expert": "experts",
    "experts": "experts",
    "buffer": "buffers",
    "buffers": "buffers",
}
_WORDS: dict[str, dict[str, int]] = {
    "phases": {
        "prompt": Phase.PROMPT,
        "prefill": Phase.PROMPT,
        "generate": Phase.GENERATE,
        "decode": Phase.GENERATE,
        "none": -1,
    },
    "spaces": {
        "disk": Space.FILE,
        "file": Space.FILE,
        "buffer": Space.BUFFER,
        "buf": Space.BUFFER,
        "dram": Space.DRAM,
        "spm": Space.SPM,
        "unknown": Space.UNKNOWN,
    },
    "qualities": {quality.name.lower(): quality for quality in Quality},
}
_SHOWN: dict[str, dict[int, str]] = {
    "phases": {Phase.PROMPT: "prompt", Phase.GENERATE: "generate", -1: "none"},
    "spaces": {
        Space.FILE: "DISK",
        Space.BUFFER: "BUFFER",
        Space.DRAM: "DRAM",
        Space.SPM: "SPM",
        Space.UNKNOWN: "unknown",
    },
    "qualities": {quality: quality.name.lower() for quality in Quality},
}
_TITLES = {
    "ops": "op",
    "families": "family",
    "layers": "layer",
    "tokens": "token",
    "threads": "thread",
    "phases": "phase",
    "spaces": "source",
    "qualities": "quality",
    "text": "text",
    "min_duration": "duration",
    "max_duration": "duration",
    "time": "time",
    "tensors": "tensor",
    "offsets": "offset",
    "experts": "expert",
    "buffers": "buffer",
}
_JOINERS = {"and", "&", "&&"}
_MAX_RANGE = 1_000_000
_FEW = ("tensors", "buffers")
"""Chips list at most _MOST_LISTED of these: they are long."""
_MOST_LISTED = 2
_QUOTED = r'"(?:\\.|[^"\\])*"'
_REGEX = r"/(?:\\.|[^/\\])+/[ci]*"
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<joiner>&&?)
      | (?P<operator>>=|<=|!=|==|=|~|>|<)
      | (?P<regex>{_REGEX}(?=[\s&]|$))
      | (?P<word>(?:{_QUOTED}|[^\s&=<>!~"])+)
      | (?P<bad>\S)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


def parse_filter(text: str, unit: Unit | None = None) -> Filter:
    """Return the filter that an expression says.

    ``op=MUL_MAT,ADD layer=0-3 token=5 phase=generate source=disk thread="thread 0"
    quality=measured family=matmul dur>10us dur<=1ms time=1ms:2ms name~/attn/
    tensor=blk.0.attn_q.weight offset=0x100000:0x200000 expert=3,7 buffer=0x55d0``;
    parts are joined by spaces, ``&`` or ``and``, and all must hold. A word, a quoted
    text or a ``/regex/`` alone is looked for in names. Ops may hold ``*``; the word
    ``none`` stands for "no layer", "no token" or "no phase", and ``op=unknown`` for
    op numbers without a name.

    Parameters
    ----------
    unit : of the trace's clock; given, durations in the other unit are refused.

    Raises
    ------
    QueryError
        Naming the part that is not understood and its place.
    """
    tokens = _joined_lists(_tokens(text))
    result, i = Filter(), 0
    while i < len(tokens):
        token = tokens[i]
        if token.kind == "joiner" or token.text.lower() in _JOINERS:
            i += 1
            continue
        if token.kind == "operator":
            _refuse(token, "there is nothing before it to compare")
        if i + 1 < len(tokens) and tokens[i + 1].kind == "operator":
            if i + 2 >= len(tokens) or tokens[i + 2].kind in ("operator", "joiner"):
                _refuse(tokens[i + 1], "there is nothing after it to compare with")
            part = _compared(token, tokens[i + 1], tokens[i + 2], unit)
            i += 3
        else:
            part = {"text": _unquoted(token.text)}
            i += 1
        result = _merged(result, part, token)
    return result


def describe_filter(wanted: Filter, unit: Unit = "ns") -> tuple[tuple[str, str], ...]:
    """Return (field, short text) per part, for chips: ("layers", "layer 0–21")."""
    chips: list[tuple[str, str]] = []
    for f in fields(Filter):
        value = getattr(wanted, f.name)
        if value == f.default:
            continue
        title = _TITLES[f.name]
        if f.name == "text":
            shown = value if _is_regex(value) else f"“{value}”"
        elif f.name == "time":
            form = shown_form(value, Clock(unit))
            shown = f"{form.text(value.start)} – {form.text(value.end)}"
        elif f.name == "offsets":
            shown = f"{format_offset(value[0])} – {format_offset(value[1])}"
            shown += f" ({format_bytes(value[1] - value[0])})"
        elif f.name in ("min_duration", "max_duration"):
            sign = "≥" if f.name == "min_duration" else "≤"
            shown = f"{sign} {format_duration(value, unit)}"
        else:
            shown = _listed(f.name, value, ", ", "–")
            if f.name in _FEW and len(value) > _MOST_LISTED:
                some = sorted(value)[:_MOST_LISTED]
                more = len(value) - _MOST_LISTED
                shown = f"{_listed(f.name, some, ', ', '–')} and {more} more"
        chips.append((f.name, f"{title} {shown}"))
    return tuple(chips)


def format_filter(wanted: Filter) -> str:
    """Return an expression that `parse_filter` turns into `wanted` again.

    An empty set ("nothing matches") has no expression and is left out.
    """
    parts: list[str] = []
    for f in fields(Filter):
        value = getattr(wanted, f.name)
        if value == f.default:
            continue
        if f.name == "text":
            plain = re.fullmatch(_REGEX, value)
            parts.append(f"name~{value if plain else _quoted(value)}")
        elif f.name == "time":
            parts.append(f"time={value.start}:{value.end}")
        elif f.name == "offsets":
            parts.append(f"offset={value[0]:#x}:{value[1]:#x}")
        elif f.name in ("min_duration", "max_duration"):
            parts.append(f"dur{'>' if f.name == 'min_duration' else '<'}={value}")
        elif value:
            parts.append(f"{_TITLES[f.name]}={_listed(f.name, value, ',', '-')}")
    return " ".join(parts)


def parse_range(text: str, extent: TimeRange, unit: Unit | None = None) -> TimeRange:
    """Return the range that ``A:B`` names, e.g. ``1ms:2.5ms``, ``:10us`` or ``5s:``.

    An empty side stands for the end of `extent`. Times count from the first event.
    ``A..B`` and ``A – B`` mean the same and leave the colon to minutes.

    Raises
    ------
    QueryError
        If a side is no time, or the range ends before it starts.
    """
    between = re.search(r"\.\.|–", text) or re.search(":", text)
    if between is None:
        raise QueryError(f"range {text!r} has no colon; write it as 1ms:2ms.")
    first, last = text[: between.start()], text[between.end() :]
    start = _ticks(first, unit) if first.strip() else extent.start
    end = _ticks(last, unit) if last.strip() else extent.end
    if end < start:
        raise QueryError(f"range {text!r} ends before it starts.")
    return TimeRange(start, end)


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text.rstrip()):
        kind = match.lastgroup or "bad"
        token = _Token(kind, match[kind], match.start(kind))
        if kind == "bad":
            _refuse(token, "it starts a quotation that does not end")
        yield token


def _joined_lists(tokens: Iterable[_Token]) -> list[_Token]:
    """Put ``a, b`` together again, which the white space has parted."""
    result: list[_Token] = []
    for token in tokens:
        last = result[-1] if result else None
        if (
            last is not None
            and last.kind == token.kind == "word"
            and (last.text.endswith(",") or token.text.startswith(","))
        ):
            result[-1] = replace(last, text=last.text + token.text)
        else:
            result.append(token)
    return result


def _refuse(token: _Token, reason: str) -> NoReturn:
    raise QueryError(
        f"filter: {token.text!r} at character {token.place + 1} is not understood: "
        f"{reason}."
    )


def _compared(
    field: _Token, operator: _Token, value: _Token, unit: Unit | None
) -> dict[str, Any]:
    """Return the part of a filter that ``field operator value`` says."""
    name = _ALIASES.get(field.text.lower())
    if name is None:
        _refuse(field, "known fields are " + ", ".join(sorted(set(_TITLES.values()))))
    sign = "=" if operator.text == "==" else operator.text
    if sign == "!=":
        _refuse(operator, "a filter says what to show, not what to leave out")
    if name == "duration":
        return _duration(sign, value, unit)
    if sign not in (("=", "~") if name == "text" else ("=",)):
        _refuse(operator, f"{field.text} is compared with =")
    if name == "text":
        return {"text": _unquoted(value.text)}
    if name == "time":
        return {"time": _explained(value, lambda: _time(value.text, unit))}
    if name == "offsets":
        return {"offsets": _explained(value, lambda: _offsets(value.text))}
    items = [_unquoted(item) for item in _split_list(value.text)]
    if not all(items):
        _refuse(value, "an item of the list is empty")
    return {name: frozenset(_items(name, items, value))}


def _items(name: str, items: list[str], token: _Token) -> Iterator[str | int]:
    for item in items:
        if name == "ops":
            yield "OP#*" if item.lower() in ("unknown", "?") else item.upper()
        elif name in ("threads", "tensors"):
            yield item
        elif name == "buffers":
            yield _explained(token, partial(_address, item))
        elif name == "families":
            if item.lower() not in FAMILIES:
                _refuse(token, "known families are " + ", ".join(FAMILIES))
            yield item.lower()
        elif name in _WORDS:
            number = _WORDS[name].get(item.lower())
            if number is None:
                _refuse(token, "known words are " + ", ".join(_WORDS[name]))
            yield int(number)
        else:
            yield from _numbers(item, token)


def _numbers(item: str, token: _Token) -> range | tuple[int, ...]:
    if item.lower() == "none":
        return (-1,)
    match = re.fullmatch(r"(\d+)(?:(?:-|–|\.\.)(\d+))?", item)
    if match is None:
        _refuse(token, "a number, a range like 0-3, or none is expected")
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    if last < first or last - first > _MAX_RANGE:
        _refuse(token, "the range is backwards or too wide")
    return range(first, last + 1)


def _duration(sign: str, value: _Token, unit: Unit | None) -> dict[str, Any]:
    ticks = _explained(value, lambda: _ticks(value.text, unit))
    if sign == "=":
        return {"min_duration": ticks, "max_duration": ticks}
    if sign in (">", ">="):
        return {"min_duration": ticks + (sign == ">")}
    if sign in ("<", "<="):
        return {"max_duration": ticks - (sign == "<")}
    _refuse(value, "a duration is compared with < <= = >= >")


def _time(text: str, unit: Unit | None) -> TimeRange:
    first, _, last = text.partition(":")
    if not first or not last:
        raise QueryError("write a range like 1ms:2ms")
    return parse_range(text, TimeRange(0, 0), unit)


def _offsets(text: str) -> tuple[int, int]:
    """Return the bytes that ``A:B`` or ``A+N`` names: [A, B) or [A, A + N)."""
    match = re.fullmatch(r"([^:+]+)([:+])([^:+]+)", text)
    if match is None:
        raise QueryError("write a range of bytes like 0x100000:0x200000 or 4MiB+64KiB")
    first, last = _bytes(match[1]), _bytes(match[3])
    stop = first + last if match[2] == "+" else last
    if stop < first or stop >= 1 << 63:
        raise QueryError("the range ends before it starts, or beyond any file")
    return first, stop


def _bytes(text: str) -> int:
    """Return ``0x10_0000``, ``1048576``, ``1MiB`` or ``1.5GiB`` as bytes."""
    plain = text.strip().lower().replace("_", "").replace(",", "")
    if re.fullmatch(r"0x[0-9a-f]{1,16}", plain):
        return int(plain, 16)
    match = re.fullmatch(r"(\d{1,19}(?:\.\d{1,9})?) ?([kmgt]?)(?:i?b)?", plain)
    if match is None or ("." in match[1] and not match[2]):
        raise QueryError(f"{text!r} is no number of bytes; write 0x1000, 4096 or 4KiB")
    factor: int = 1024 ** ("kmgt".index(match[2]) + 1) if match[2] else 1
    whole, _, part = match[1].partition(".")
    return int(whole) * factor + int(part or 0) * factor // int(10 ** len(part))


def _address(text: str) -> int:
    """Return the id of a buffer, in hexadecimal or decimal."""
    plain = text.lower().replace("_", "")
    if re.fullmatch(r"0x[0-9a-f]{1,16}", plain):
        return int(plain, 16)
    if re.fullmatch(r"\d{1,20}", plain) and int(plain) < 1 << 64:
        return int(plain)
    raise QueryError(f"{text!r} is no address; write it as 0x55d0")


def _ticks(text: str, unit: Unit | None) -> int:
    if unit == "ns" and "cyc" in text.lower():
        raise QueryError(f"this trace counts nanoseconds, not cycles: {text!r}.")
    try:
        return parse_duration(text, unit or "ns")
    except (ValueError, OverflowError) as error:
        if unit == "cycle" and "counts cycles" in str(error):
            raise QueryError(f"{error}.") from error
        raise QueryError(
            f"{text!r} is no time; write 100, 12.5us, 3ms or 2s."
        ) from error


def _explained(token: _Token, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except QueryError as error:
        _refuse(token, str(error).rstrip("."))


def _merged(result: Filter, part: dict[str, Any], token: _Token) -> Filter:
    """Return both together; a field that is named twice must hold both times."""
    changes: dict[str, Any] = {}
    for name, new in part.items():
        old = getattr(result, name)
        if old is None or old == "":
            changes[name] = new
        elif name == "min_duration":
            changes[name] = max(old, new)
        elif name == "max_duration":
            changes[name] = min(old, new)
        elif isinstance(old, frozenset):
            changes[name] = old & new
        elif name == "offsets":
            first, stop = max(old[0], new[0]), min(old[1], new[1])
            changes[name] = (first, max(first, stop))
        else:
            _refuse(token, "there is a text already; write both as one /regex/")
    return replace(result, **changes)


def _listed(name: str, values: Collection[Any], comma: str, dash: str) -> str:
    """Return a set in order, with runs of numbers as ranges."""
    if not values:
        return "nothing"
    if name in _SHOWN:
        return comma.join(_SHOWN[name][v] for v in sorted(values))
    if name == "buffers":
        show = hex if comma == "," else format_offset
        return comma.join(show(v) for v in sorted(values))
    if name not in ("layers", "tokens", "experts"):
        if comma == ",":
            return comma.join(_quoted(v) for v in sorted(values))
        return comma.join(sorted(values))
    runs: list[list[int]] = []
    for v in sorted(values):
        if runs and v == runs[-1][1] + 1 and v > 0:
            runs[-1][1] = v
        else:
            runs.append([v, v])
    return comma.join(
        "none" if a < 0 else str(a) if a == b else f"{a}{dash}{b}" for a, b in runs
    )


def _split_list(text: str) -> list[str]:
    """Split at commas that are not quoted."""
    return re.sub(f"({_QUOTED})|,", lambda m: m[1] or "\0", text).split("\0")


def _unquoted(text: str) -> str:
    if _is_regex(text):
        return text
    return re.sub(_QUOTED, lambda m: re.sub(r"\\(.)", r"\1", m[0][1:-1]), text)


def _quoted(text: str) -> str:
    if re.fullmatch(r"[\w.#*-]+", text) and text.lower() not in _JOINERS:
        return text
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _is_regex(text: str) -> bool:
    return re.fullmatch(r"/.+/[ci]*", text, re.DOTALL) is not None
