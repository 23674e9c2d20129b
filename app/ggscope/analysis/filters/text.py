"""Parser and formatter of filter expressions."""

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import partial
from typing import Any, NoReturn

from ggscope.errors import QueryError
from ggscope.model.ggml.ops import FAMILIES
from ggscope.model.selection import BY, AnyOf, Clause, Filter, Not
from ggscope.model.tables import Phase, Quality, Space
from ggscope.model.trace import unknown_op
from ggscope.model.units import (
    UNITS,
    Clock,
    TimeRange,
    Unit,
    format_byte_rate,
    format_bytes,
    format_duration,
    format_exact_bytes,
    format_offset,
    parse_duration,
    shown_form,
)

_FIELDS = {
    "ops": "op ops",
    "families": "family families",
    "layers": "layer layers",
    "tokens": "token tokens",
    "threads": "thread threads lane engine",
    "phases": "phase phases",
    "spaces": "source sources space memory",
    "qualities": "quality",
    "text": "text name",
    "duration": "duration dur",
    "time": "time",
    "tensors": "tensor tensors",
    "offsets": "offset offsets bytes",
    "size": "size",
    "wait": "wait waits waited",
    "traffic": "traffic",
    "rate": "rate",
    "experts": "expert experts",
    "buffers": "buffer buffers",
    "cores": "core cores",
    "nodes": "numa node nodes",
    "groups": "group groups",
    "categories": "category categories cat",
}
"""Names of each field in expressions; chips show the first one."""
ALIASES = {word: name for name, aliases in _FIELDS.items() for word in aliases.split()}
_WORDS: dict[str, dict[str, int]] = {
    "phases": {
        "prompt": Phase.PROMPT,
        "prefill": Phase.PROMPT,
        "generate": Phase.GENERATE,
        "decode": Phase.GENERATE,
        "mixed": Phase.MIXED,
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
    "qualities": {quality.word: quality for quality in Quality},
}
_SHOWN: dict[str, dict[int, str]] = {
    "phases": {
        Phase.PROMPT: "prompt",
        Phase.GENERATE: "generate",
        Phase.MIXED: "mixed",
        -1: "none",
    },
    "spaces": {space: space.word for space in Space},
    "qualities": {quality: quality.word for quality in Quality},
}
_KEYWORDS = {"and": "and", "or": "or", "not": "not"}
_SIGNS = {"&": "and", "&&": "and", "|": "or", "||": "or", "!": "not"}
_MAX_RANGE = 1_000_000
_MAX_DEPTH = 40
"""Parentheses within parentheses."""
MAX_PATTERN_LENGTH = 512
_NAMED = ("ops", "threads", "tensors", "categories")
UNKNOWN_OPS = "UNKNOWN"
"""Stands in a filter for all ops whose number no table names."""
"""Fields whose values are names, which may hold ``*`` or be a ``/regex/``."""
_OF_CORES = ("cores", "nodes")
"""Fields of which every op has one value, known or not."""
_NUMBERED = ("layers", "tokens", *_OF_CORES)
"""Fields that can be compared with < and >; a span has one value of each."""
_MEASURES = ("duration", "size", "wait", "traffic", "rate")
"""Fields of an amount, which is compared with all signs."""
_BYTES = ("size", "traffic")
_SINGLE = ("layers", "tokens", "phases", "qualities", "families", *_OF_CORES)
"""Fields of which a span has one value: two lists mean what both hold."""
_FEW = ("tensors", "buffers")
"""Chips list at most _MAX_LISTED of these: they are long."""
_MAX_LISTED = 2
_TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_QUOTED = r'"(?:\\.|[^"\\])*"'
_REGEX = r"/(?:\\.|[^/\\])+/[ci]*"
# A parenthesis within a name belongs to it, "k (view)" without the space.
_PLAIN = r'[^\s&|=<>!~"(),]'
_WORD = rf"(?:{_QUOTED}|{_PLAIN}|(?<=[^\s&|=<>!~\"(])\([^()\s\"]*\))+"
_ONE = rf"(?:{_REGEX}(?=[\s&|),]|$)|{_WORD})"
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<operator>>=|<=|!=|!~|==|=|~|>|<)
      | (?P<sign>&&?|\|\|?|!)
      | (?P<open>\()
      | (?P<close>\))
      | (?P<word>{_ONE}(?:\s*,\s*{_ONE})*)
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
    """Parse a filter expression.

    ``op=MUL_MAT,ADD layer=0-3 token>=5 phase=generate source=disk thread=0
    quality=measured family=matmul dur>10us dur<=1ms size>=1MiB time=1ms:2ms
    name~/attn/ tensor=blk.0.attn_q.weight offset=0x100000:0x200000 expert=3,7
    buffer=0x55d0 core=3 numa=0 wait>10us traffic>=1MiB rate<1GiB/s
    group=type:F16 category=kernel``; parts are joined by spaces, ``&`` or
    ``and``, and all must hold. ``or`` and ``|`` join alternatives and bind less,
    ``not`` and ``!`` turn what follows around, as ``!=`` and ``!~`` do, and
    parentheses group. A word, a quoted text or a ``/regex/`` alone is looked for in
    names. Ops, threads, tensors and categories may hold ``*`` or be a ``/regex/``;
    ``op~mul`` finds a part of the name. The word ``none`` stands for "no layer", "no
    token" or "no phase", ``op=unknown`` for op numbers without a name,
    ``core=unknown`` for spans whose core is not recorded.

    Parameters
    ----------
    unit : of the trace's clock; given, durations in the other unit are refused.

    Raises
    ------
    QueryError
        With the wrong part and its position.
    """
    return _Parser(_tokens(text), unit).whole()


class _Parser:
    """Recursive-descent parser of a filter expression."""

    def __init__(self, tokens: Iterable[_Token], unit: Unit | None) -> None:
        self._tokens = list(tokens)
        self._at = 0
        self._unit = unit
        self._depth = 0

    def whole(self) -> Filter:
        """Return the filter of the whole expression."""
        while self._takes("and"):
            pass  # of nothing, as in an expression that is still being typed
        if self._at == len(self._tokens):
            return Filter()
        result = self._alternatives()
        if self._at < len(self._tokens):
            _refuse(self._tokens[self._at], "unmatched closing parenthesis")
        return result

    def _alternatives(self) -> Filter:
        """Parse alternatives joined by ``or``."""
        filters = [self._together()]
        while self._takes("or"):
            filters.append(self._together())
        return _any_of(filters)

    def _together(self) -> Filter:
        """Parse conditions joined by ``and`` or spaces."""
        result = self._single()
        while True:
            joins = self._takes("and")
            if self._word() == "or" or self._peek("close") or self._is_at_end():
                if joins and self._word() == "or":
                    self._lacks(self._tokens[self._at - 1])
                return result
            if not joins:
                result = both(result, self._single())

    def _single(self) -> Filter:
        """Parse one condition, negated after ``not``."""
        if self._is_at_end() or self._word() in ("and", "or") or self._peek("close"):
            self._lacks(self._tokens[max(self._at - 1, 0)])
        token = self._tokens[self._at]
        if self._takes("not"):
            return negated(self._deeper(token, self._single))
        if token.kind == "operator":
            _refuse(token, "no field before the operator")
        self._at += 1
        if token.kind == "open":
            inner = self._deeper(token, self._alternatives)
            if not self._peek("close"):
                _refuse(token, "unclosed parenthesis")
            self._at += 1
            return inner
        if not self._peek("operator"):
            return Filter(text=_regex_checked(token, _unquoted(token.text)))
        operator = self._tokens[self._at]
        self._at += 1
        if not self._peek("word"):
            _refuse(operator, "no value after the operator")
        value = self._tokens[self._at]
        self._at += 1
        return _compared(token, operator, value, self._unit)

    def _deeper(self, token: _Token, read: Callable[[], Filter]) -> Filter:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            _refuse(token, f"nested too deeply (at most {_MAX_DEPTH} levels)")
        where = read()
        self._depth -= 1
        return where

    def _word(self) -> str:
        """Return "and", "or" or "not" where one is next, else ""."""
        if self._is_at_end():
            return ""
        token = self._tokens[self._at]
        if token.kind == "sign":
            return _SIGNS[token.text]
        after = self._tokens[self._at + 1 : self._at + 2]
        if token.kind != "word" or (after and after[0].kind == "operator"):
            return ""
        return _KEYWORDS.get(token.text.lower(), "")

    def _takes(self, word: str) -> bool:
        if self._word() != word:
            return False
        self._at += 1
        return True

    def _peek(self, kind: str) -> bool:
        return not self._is_at_end() and self._tokens[self._at].kind == kind

    def _is_at_end(self) -> bool:
        return self._at >= len(self._tokens)

    def _lacks(self, before: _Token) -> NoReturn:
        """Raise QueryError for a missing condition."""
        if self._is_at_end():
            _refuse(before, "incomplete expression")
        _refuse(self._tokens[self._at], "a condition is missing before it")


def _title(name: str) -> str:
    """Return the name of a field in chips."""
    return _FIELDS[name.removeprefix("min_").removeprefix("max_")].split()[0]


def _one_part(name: str, value: object) -> Filter:
    parts: dict[str, Any] = {name: value}
    return Filter(**parts)


def both(a: Filter, b: Filter) -> Filter:
    """Return the conjunction of two filters."""
    changes: dict[str, Any] = {}
    clauses = [*a.clauses]
    for f in fields(Filter):
        old, new = getattr(a, f.name), getattr(b, f.name)
        if f.name == "clauses" or new == f.default:
            continue
        if old in (f.default, new):
            changes[f.name] = new
        elif f.name.startswith("min_"):
            changes[f.name] = max(old, new)
        elif f.name.startswith("max_"):
            changes[f.name] = min(old, new)
        elif f.name in _SINGLE and old & new:
            changes[f.name] = old & new
        else:
            # A name may fit two patterns, a span touch two ranges and several things.
            clauses.append(AnyOf((_one_part(f.name, new),)))
    clauses += [clause for clause in b.clauses if clause not in clauses]
    return replace(a, **changes, clauses=tuple(clauses))


def negated(where: Filter) -> Filter:
    """Return the negation of a filter."""
    if len(where.clauses) == 1 and where == Filter(clauses=where.clauses):
        clause = where.clauses[0]
        if isinstance(clause, Not):
            return clause.of
    return Filter(clauses=(Not(where),))


def _any_of(filters: list[Filter]) -> Filter:
    """Return the disjunction of filters."""
    filters = list(dict.fromkeys(filters))
    if len(filters) == 1:
        return filters[0]
    names = {
        f.name
        for one in filters
        for f in fields(Filter)
        if getattr(one, f.name) != f.default
    }
    (name, *more) = names
    first = getattr(filters[0], name)
    if not more and isinstance(first, frozenset):
        union = frozenset[Any]().union(*(getattr(one, name) for one in filters))
        return _one_part(name, union)
    return Filter(clauses=(AnyOf(tuple(filters)),))


def describe_filter(where: Filter, unit: Unit = "ns") -> tuple[tuple[str, str], ...]:
    """Return (field, short text) per part, for chips: ("layers", "layer 0–21")."""
    chips: list[tuple[str, str]] = []
    for f in fields(Filter):
        value = getattr(where, f.name)
        if value == f.default:
            continue
        if f.name == "clauses":
            for i, clause in enumerate(value):
                chips.append((f"clauses:{i}", _clause_text(clause, unit)))
            continue
        title = _title(f.name)
        if f.name == "text":
            shown = value if is_regex(value) else f"“{value}”"
        elif f.name == "time":
            form = shown_form(value, Clock(unit))
            shown = f"{form.text(value.start)} – {form.text(value.end)}"
        elif f.name == "offsets":
            shown = f"{format_offset(value[0])} – {format_offset(value[1])}"
            shown += f" ({format_bytes(value[1] - value[0])})"
        elif f.name.startswith(("min_", "max_")):
            title = "dur" if title == "duration" else title
            shown = _bound_text(f.name, value, unit)
        else:
            shown = _listed(f.name, value, ", ", "–")
            if f.name in _FEW and len(value) > _MAX_LISTED:
                some = sorted(value)[:_MAX_LISTED]
                more = len(value) - _MAX_LISTED
                shown = f"{_listed(f.name, some, ', ', '–')} and {more} more"
        chips.append((f.name, f"{title} {shown}"))
    return tuple(chips)


def _bound_text(name: str, value: int, unit: Unit) -> str:
    """Return "> 100 µs" for at least 100,001 ns: as people type it, with all digits."""
    is_least = name.startswith("min_")
    # Amounts are whole: from 100,001 on is more than 100,000, which says less by far.
    other = value - 1 if is_least else value + 1
    is_open = other >= 0 and _n_digits(other) < _n_digits(value)
    sign = (">" if is_open else "≥") if is_least else "<" if is_open else "≤"
    amount = other if is_open else value
    if name.endswith("rate"):
        return f"{sign} {format_byte_rate(amount / 1e9, unit)}"
    is_size = name[len("min_") :] in _BYTES
    return f"{sign} {_exact_bytes(amount) if is_size else _exact_time(amount, unit)}"


def _n_digits(amount: int) -> int:
    """Return how many digits an amount has but for zeros at the end, binary or not."""
    plain = len(str(amount).rstrip("0"))
    for factor in (1 << 30, 1 << 20, 1 << 10):
        if amount and not amount % factor:
            return min(plain, len(str(amount // factor).rstrip("0")))
    return plain


def _exact_time(ticks: int, unit: Unit) -> str:
    if unit != "ns" or not ticks:
        return format_duration(ticks, unit)
    factor, word = next(pair for pair in _TIMES if ticks >= pair[0])
    whole, part = divmod(ticks, factor)
    digits = f"{part:0{len(str(factor)) - 1}d}".rstrip("0") if factor > 1 else ""
    return f"{whole:,}.{digits} {word}" if digits else f"{whole:,} {word}"


def _exact_bytes(n: int) -> str:
    for factor, word in _SIZES:
        # Such as 1.5 MiB; what would need more digits is written in bytes.
        if n >= factor and not n * 8 % factor:
            return f"{n / factor:,.3f}".rstrip("0").rstrip(".") + f" {word}"
    return format_exact_bytes(n)


def _clause_text(clause: Clause, unit: Unit) -> str:
    """Return "not op ADD" or "op ADD or layer 3"."""
    if isinstance(clause, Not):
        clause_parts = [text for _, text in describe_filter(clause.of, unit)]
        is_plain = len(clause_parts) == 1 and not clause.of.clauses
        return (
            f"not {clause_parts[0]}"
            if is_plain
            else f"not ({' and '.join(clause_parts)})"
        )
    parts = []
    for one in clause.of:
        clause_parts = [text for _, text in describe_filter(one, unit)]
        parts.append(
            clause_parts[0]
            if len(clause_parts) == 1
            else f"({' and '.join(clause_parts)})"
        )
    return " or ".join(parts)


def format_filter(where: Filter) -> str:
    """Return an expression that `parse_filter` turns into `where` again.

    An empty set ("nothing matches") has no expression and is left out.
    """
    parts: list[str] = []
    for f in fields(Filter):
        value = getattr(where, f.name)
        if value == f.default:
            continue
        if f.name == "clauses":
            parts += map(_clause_expression, value)
        elif f.name == "text":
            plain = re.fullmatch(_REGEX, value)
            parts.append(f"name~{value if plain else _quoted(value)}")
        elif f.name == "time":
            parts.append(f"time={value.start}:{value.end}")
        elif f.name == "offsets":
            parts.append(f"offset={value[0]:#x}:{value[1]:#x}")
        elif f.name.startswith(("min_", "max_")):
            sign = ">=" if f.name.startswith("min_") else "<="
            measure = f.name[len("min_") :]
            word = "dur" if measure == "duration" else measure
            parts.append(f"{word}{sign}{value}")
        elif value:
            parts.append(f"{_title(f.name)}={_listed(f.name, value, ',', '-')}")
    return " ".join(parts)


def _clause_expression(clause: Clause) -> str:
    if isinstance(clause, Not):
        return f"not ({format_filter(clause.of)})"
    return "(" + " or ".join(f"({format_filter(one)})" for one in clause.of) + ")"


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
        raise QueryError(f"range {text!r} has no colon; example: 1ms:2ms.")
    first, last = text[: between.start()], text[between.end() :]
    start = _ticks(first, unit) if first.strip() else extent.start
    end = _ticks(last, unit) if last.strip() else extent.end
    if end < start:
        raise QueryError(f"range {text!r} ends before it starts.")
    return TimeRange(start, end)


def text_matcher(text: str) -> Callable[[str], bool]:
    """Return a test for one string: part of it in any case, or ``/regex/``.

    A regular expression ignores case unless it ends in ``/c``. A text that starts
    with a slash but does not end in one is plain.

    Raises
    ------
    QueryError
        If the expression does not compile or is too long.
    """
    pattern = re.fullmatch(r"/(.+)/([ci]*)", text, re.DOTALL)
    if pattern is None:
        needle = text.casefold()
        return lambda string: needle in string.casefold()
    expression, flags = pattern.groups()
    if len(expression) > MAX_PATTERN_LENGTH:
        raise QueryError(
            f"regular expression too long: {len(expression)} characters, at most "
            f"{MAX_PATTERN_LENGTH}."
        )
    try:
        search = re.compile(expression, 0 if "c" in flags else re.IGNORECASE).search
        if _repeats_within_repeats(expression):
            raise QueryError(
                f"regular expression /{expression}/ has nested quantifiers such as "
                "(a+)+, which can take exponential time."
            )
    except (re.error, RecursionError, OverflowError) as error:
        place = getattr(error, "pos", None)
        where = "" if place is None else f" at character {place + 1}"
        reason = getattr(error, "msg", str(error))
        raise QueryError(
            f"invalid regular expression /{expression}/{where}: {reason}."
        ) from error
    return lambda string: search(string) is not None


def _repeats_within_repeats(expression: str) -> bool:
    """Return whether an unbounded repeat holds another one.

    Backtracking over such a pattern can take exponential time, during which the
    matcher holds the interpreter lock and the window stands still.
    """
    parser: Any = importlib.import_module("re._parser")
    endless = parser.MAXREPEAT

    def within(node: object, inside: bool) -> bool:
        if isinstance(node, parser.SubPattern):
            return any(within(item, inside) for item in node.data)
        if not isinstance(node, tuple | list):
            return False
        if (
            isinstance(node, tuple)
            and len(node) == 2
            and node[0] in (parser.MAX_REPEAT, parser.MIN_REPEAT)
        ):
            _, repeats, body = node[1]
            is_endless = repeats is endless
            if is_endless and inside:
                return True
            return within(body, inside or is_endless)
        return any(within(item, inside) for item in node)

    return within(parser.parse(expression), False)


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text.rstrip()):
        kind = match.lastgroup or "bad"
        token = _Token(kind, match[kind], match.start(kind))
        if kind == "bad":
            why = "unclosed quotation mark"
            _refuse(token, why if token.text == '"' else "empty item in the list")
        yield token


def _refuse(token: _Token, reason: str) -> NoReturn:
    end = "" if reason.endswith("?") else "."
    raise QueryError(
        f"Filter error at {token.text!r} (character {token.place + 1}): {reason}{end}"
    )


def _compared(
    field: _Token, operator: _Token, value: _Token, unit: Unit | None
) -> Filter:
    """Return the filter of ``field operator value``."""
    name = ALIASES.get(field.text.lower())
    if name is None:
        titles = sorted({*map(_title, _FIELDS), "name"})
        near = get_close_matches(field.text.lower(), list(ALIASES), 1, 0.7)
        reason = f"unknown field. Did you mean {near[0]}?" if near else ""
        _refuse(field, reason or f"unknown field; fields are {', '.join(titles)}")
    sign = "=" if operator.text == "==" else operator.text
    if sign in ("!=", "!~"):
        turned = replace(operator, text="~" if sign == "!~" else "=")
        return negated(_compared(field, turned, value, unit))
    if name == "offsets" and (sign != "=" or not re.search(r"[:+]", value.text)):
        name = "size" if field.text.lower() == "bytes" else name
    if name in _MEASURES:
        return _measure(name, sign, value, unit)
    if name in _NUMBERED and sign in ("<", "<=", ">", ">="):
        return _numbers_beyond(name, sign, value)
    if sign not in (("=", "~") if name in ("text", *_NAMED) else ("=",)):
        signs = "=, !=" + (", <, <=, > or >=" if name in _NUMBERED else "")
        signs += ", ~ or !~" if name in _NAMED else ""
        _refuse(operator, f"operators of {field.text} are {signs}")
    if name == "text":
        return Filter(text=_regex_checked(value, _unquoted(value.text)))
    if name == "time":
        return Filter(time=_explained(value, lambda: _time(value.text, unit)))
    if name == "offsets":
        return Filter(offsets=_explained(value, lambda: _offsets(value.text)))
    items = [_unquoted(item.strip()) for item in _split_list(value.text)]
    if not all(items):
        _refuse(value, "empty item in the list")
    if sign == "~":
        items = [item if is_regex(item) else f"/{_escaped(item)}/" for item in items]
    return _one_part(name, frozenset(_items(name, items, value)))


def _escaped(text: str) -> str:
    """Return a regular expression that finds `text` anywhere."""
    return re.escape(text).replace("/", r"\/")


def _regex_checked(token: _Token, text: str) -> str:
    """Refuse a regular expression that does not compile."""
    _explained(token, lambda: text_matcher(text))
    return text


def _numbers_beyond(name: str, sign: str, value: _Token) -> Filter:
    """Return the filter of ``layer>3``: numbers, never "none"."""
    if not re.fullmatch(r"\d{1,9}", value.text):
        _refuse(value, "expected a number")
    number = int(value.text)
    # Below: these; above: what is neither one of those nor none.
    limit = number + 1 if sign in ("<=", ">") else number
    if limit > _MAX_RANGE:
        _refuse(value, f"number too large (at most {_MAX_RANGE:,})")
    if sign in ("<", "<="):
        return _one_part(name, frozenset(range(limit)))
    return negated(_one_part(name, frozenset(range(-1, limit))))


def _items(name: str, items: list[str], token: _Token) -> Iterator[str | int]:
    for item in items:
        if name in _NAMED and is_regex(item):
            yield _regex_checked(token, item)
        elif name == "ops":
            yield _op_item(item)
        elif name in _NAMED:
            yield item
        elif name == "buffers":
            yield _explained(token, partial(_address, item))
        elif name == "groups":
            if item.partition(":")[0] not in BY or ":" not in item:
                _refuse(token, "expected a row of statistics, e.g. layer:3 or type:F16")
            yield item
        elif name == "families":
            if item.lower() not in FAMILIES:
                _refuse(token, "unknown op family; families are " + ", ".join(FAMILIES))
            yield item.lower()
        elif name in _WORDS:
            number = _WORDS[name].get(item.lower())
            if number is None:
                _refuse(token, "unknown value; values are " + ", ".join(_WORDS[name]))
            yield int(number)
        else:
            yield from _numbers(name, item, token)


def _op_item(item: str) -> str:
    """Return the name of an op, `UNKNOWN_OPS` for those without one."""
    if item.lower() in ("unknown", "?", "op#*"):
        return UNKNOWN_OPS
    # As such ops were called before.
    match = re.fullmatch(r"op#(\d{1,9})", item.lower())
    return unknown_op(int(match[1])) if match else item.upper()


def _numbers(name: str, item: str, token: _Token) -> range | tuple[int, ...]:
    word = "unknown" if name in _OF_CORES else "none"
    if item.lower() == word:
        return (-1,)
    match = re.fullmatch(r"(\d+)(?:(?:-|–|\.\.)(\d+))?", item)
    if match is None:
        _refuse(token, f"expected a number, a range like 0-3, or {word}")
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    if last < first or last - first > _MAX_RANGE:
        _refuse(token, "range reversed or too wide")
    return range(first, last + 1)


def _measure(name: str, sign: str, value: _Token, unit: Unit | None) -> Filter:
    """Return the filter that compares a duration or a number of bytes."""
    if sign == "~":
        _refuse(value, f"operators of {name} are < <= = != >= >")
    read: Callable[[], int] = partial(_ticks, value.text, unit)
    if name in _BYTES:
        read = partial(_bytes, value.text)
    elif name == "rate":
        read = partial(_rate, value.text, unit)
    amount: int = _explained(value, read)
    low, high = f"min_{name}", f"max_{name}"
    if sign in (">", ">="):
        return _one_part(low, amount + (sign == ">"))
    if sign in ("<", "<="):
        return _one_part(high, amount - (sign == "<"))
    return both(_one_part(low, amount), _one_part(high, amount))


def _time(text: str, unit: Unit | None) -> TimeRange:
    if not re.fullmatch(r"[^:.–]+.*(?:\.\.|–|:).*[^:.–]+", text):
        raise QueryError("expected a range like 1ms:2ms")
    return parse_range(text, TimeRange(0, 0), unit)


def _offsets(text: str) -> tuple[int, int]:
    """Return the bytes that ``A:B`` or ``A+N`` names: [A, B) or [A, A + N)."""
    match = re.fullmatch(r"([^:+]+)([:+])([^:+]+)", text)
    if match is None:
        raise QueryError("expected a byte range like 0x100000:0x200000 or 4MiB+64KiB")
    first, last = _bytes(match[1]), _bytes(match[3])
    stop = first + last if match[2] == "+" else last
    if stop < first or stop >= 1 << 63:
        raise QueryError("range reversed or too large")
    return first, stop


def _bytes(text: str) -> int:
    """Return ``0x10_0000``, ``1048576``, ``1MiB`` or ``1.5GiB`` as bytes."""
    plain = text.strip().lower().replace("_", "").replace(",", "")
    if re.fullmatch(r"0x[0-9a-f]{1,16}", plain):
        return int(plain, 16)
    match = re.fullmatch(r"(\d{1,19}(?:\.\d{1,9})?) ?([kmgt]?)(?:i?b)?", plain)
    if match is None or ("." in match[1] and not match[2]):
        raise QueryError(f"{text!r} is not a size; examples: 0x1000, 4096, 4KiB")
    factor: int = 1024 ** ("kmgt".index(match[2]) + 1) if match[2] else 1
    whole, _, part = match[1].partition(".")
    return int(whole) * factor + int(part or 0) * factor // int(10 ** len(part))


def _rate(text: str, unit: Unit | None) -> int:
    """Return ``1.5GiB/s`` or ``12B/cycle`` as bytes per 10^9 ticks, so a number."""
    amount, _, per = text.replace(" ", "").partition("/")
    known = {"": 1, "s": 1, "cycle": 10**9, "cyc": 10**9}
    if per.lower() not in known:
        raise QueryError(f"{text!r} is not a rate; examples: 1.5GiB/s, 12B/cycle")
    if per and unit is not None and (per == "s") != (unit == "ns"):
        ticks = UNITS[unit].plural if unit != "ns" else "nanoseconds"
        raise QueryError(f"this trace is in {ticks}, not rates per {per}")
    return _bytes(amount) * known[per.lower()]


def _address(text: str) -> int:
    """Return the id of a buffer, in hexadecimal or decimal."""
    plain = text.lower().replace("_", "")
    if re.fullmatch(r"0x[0-9a-f]{1,16}", plain):
        return int(plain, 16)
    if re.fullmatch(r"\d{1,20}", plain) and int(plain) < 1 << 64:
        return int(plain)
    raise QueryError(f"{text!r} is not an address; example: 0x55d0")


def _ticks(text: str, unit: Unit | None) -> int:
    if unit == "ns" and "cyc" in text.lower():
        raise QueryError(f"{text!r} is in cycles; this trace is in nanoseconds.")
    try:
        return parse_duration(text, unit or "ns")
    except (ValueError, OverflowError) as error:
        if unit not in ("ns", None) and "this trace counts" in str(error):
            raise QueryError(f"{error}.") from error
        raise QueryError(
            f"{text!r} is not a time; examples: 100, 12.5us, 3ms, 2s."
        ) from error


def _explained(token: _Token, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except QueryError as error:
        _refuse(token, str(error).rstrip("."))


def value_text(name: str, value: object) -> str:
    """Return a value of a field of `Filter` as expression text."""
    return _listed(name, (value,), ",", "-")


def _listed(name: str, values: Collection[Any], comma: str, dash: str) -> str:
    """Return a set in order, with runs of numbers as ranges."""
    if not values:
        return "nothing"
    if name in _SHOWN:
        return comma.join(_SHOWN[name][v] for v in sorted(values))
    if name == "buffers":
        show = hex if comma == "," else format_offset
        return comma.join(show(v) for v in sorted(values))
    if name == "ops":
        values = {"unknown" if v == UNKNOWN_OPS else v for v in values}
    if name not in ("layers", "tokens", "experts", *_OF_CORES):
        if comma == ",":
            return comma.join(_quoted(v) for v in sorted(values))
        return comma.join(sorted(values))
    word = "unknown" if name in _OF_CORES else "none"
    runs: list[list[int]] = []
    for v in sorted(values):
        if runs and v == runs[-1][1] + 1 and v > 0:
            runs[-1][1] = v
        else:
            runs.append([v, v])
    return comma.join(
        word if a < 0 else str(a) if a == b else f"{a}{dash}{b}" for a, b in runs
    )


def _split_list(text: str) -> list[str]:
    """Split at commas that are not quoted."""
    whole = rf"({_QUOTED}|(?:(?<=^)|(?<=[,\s])){_REGEX}(?=\s*(?:,|$)))"
    return re.sub(f"{whole}|,", lambda m: m[1] or "\0", text).split("\0")


def _unquoted(text: str) -> str:
    if is_regex(text):
        return text
    return re.sub(_QUOTED, lambda m: re.sub(r"\\(.)", r"\1", m[0][1:-1]), text)


def _quoted(text: str) -> str:
    if re.fullmatch(r"[\w.#*?-]+", text) and text.lower() not in _KEYWORDS:
        return text
    if re.fullmatch(_REGEX, text):
        return text
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def is_regex(text: str) -> bool:
    """Return whether a text has the form ``/regex/``."""
    return re.fullmatch(r"/.+/[ci]*", text, re.DOTALL) is not None
