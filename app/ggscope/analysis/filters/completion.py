"""What may come next in a filter that is being typed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ggscope.analysis.filters.text import ALIASES, value_text
from ggscope.model.ggml.ops import FAMILIES
from ggscope.model.tables import Phase, Quality, Space

MAX_CANDIDATES = 50
_MAX_LOOKED_AT = 10_000
"""Of more values (tokens) the first are offered; it is asked at each key."""
FIELDS = {
    "op": "=",
    "family": "=",
    "layer": "=",
    "token": "=",
    "thread": "=",
    "phase": "=",
    "source": "=",
    "quality": "=",
    "dur": ">",
    "wait": ">",
    "size": ">",
    "traffic": ">",
    "rate": ">",
    "time": "=",
    "tensor": "=",
    "offset": "=",
    "expert": "=",
    "buffer": "=",
    "core": "=",
    "numa": "=",
    "group": "=",
    "category": "=",
    "name": "~",
}
"""Fields of a filter, and how each is mostly compared."""
_WORDS = ("and", "or", "not")
_KNOWN: dict[str, Sequence[object]] = {
    "families": FAMILIES,
    "phases": (*map(int, Phase), -1),
    "spaces": tuple(map(int, Space)),
    "qualities": tuple(map(int, Quality)),
}
_AMOUNTS = {
    "duration": ("1us", "10us", "100us", "1ms", "10ms"),
    "wait": ("1us", "10us", "100us", "1ms", "10ms"),
    "size": ("4KiB", "64KiB", "1MiB", "16MiB"),
    "traffic": ("4KiB", "64KiB", "1MiB", "16MiB"),
    "rate": ("100MiB/s", "1GiB/s", "10GiB/s"),
}
_VALUE = re.compile(
    r"""(?P<field>\w+)\s*(?:!=|!~|<=|>=|==|=|~|<|>)\s*
        (?:[^\s,()"]*,\s*|"[^"]*",\s*)*
        (?P<begun>"[^"]*|[^\s,()"]*)$""",
    re.VERBOSE,
)
_FIELD = re.compile(r"(?:^|[\s(!&|])(?P<begun>\w*)$")


@dataclass(frozen=True, slots=True)
class Completion:
    """What may stand in the place of ``text[start:end]``, the best first."""

    start: int
    end: int
    candidates: tuple[str, ...] = ()


def complete(
    text: str, cursor: int, values: Callable[[str], Sequence[object]]
) -> Completion:
    """Return what may come next at `cursor` of an expression.

    Parameters
    ----------
    values : takes a field of `Filter`, returns which of its values occur.
    """
    before = text[:cursor]
    match = _VALUE.search(before)
    if match is not None:
        field = ALIASES.get(match["field"].lower())
        if field is None:
            return Completion(cursor, cursor)
        begun = match["begun"].removeprefix('"')
        start = match.start("begun")
        return Completion(start, cursor, _fitting(_values(field, values), begun))
    match = _FIELD.search(before)
    if match is None or (not match["begun"] and before.strip()):
        return Completion(cursor, cursor)
    offered = [f"{name}{sign}" for name, sign in FIELDS.items()]
    if before[: match.start("begun")].strip():
        offered += _WORDS
    suggestions = _fitting(offered, match["begun"], only_beginnings=True)
    return Completion(match.start("begun"), cursor, suggestions)


def _values(field: str, values: Callable[[str], Sequence[object]]) -> list[str]:
    if field in _AMOUNTS:
        return list(_AMOUNTS[field])
    known = (values(field) or _KNOWN.get(field, ()))[:_MAX_LOOKED_AT]
    return list(dict.fromkeys(value_text(field, value) for value in known))


def _fitting(
    candidates: Sequence[str], begun: str, *, only_beginnings: bool = False
) -> tuple[str, ...]:
    """Return the words that begin so, then those that hold it; not it alone."""
    prefix = begun.casefold()
    first, then = list[str](), list[str]()
    for word in candidates:
        plain = word.casefold().strip('"')
        if plain.startswith(prefix):
            first.append(word)
        elif prefix in plain and not only_beginnings:
            then.append(word)
    fitting = (*first, *then)[:MAX_CANDIDATES]
    return () if fitting == (begun,) else fitting
