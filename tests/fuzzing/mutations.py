"""Mutations that know what a file is made of.

Bytes: integers and lengths of every width and order, splices within a file and with
another, truncation, records moved as a whole. Text: tokens exchanged, nesting, values
of JSON and cells of CSV replaced. One random generator decides everything, so a number
repeats a mutation. Only mutations that change a byte are counted.
"""

import copy
import json
import re
import struct
from collections.abc import Callable, Sequence
from random import Random

MAX_BYTES = 1 << 20
"""No mutation makes a file larger; size itself is tried elsewhere."""

MAX_LINE_BYTES = 1 << 12
"""No dense mutation makes a line larger."""
DENSE_LINES = (10, 50)
"""How many lines of a text a dense case changes, at least and at most; never more than
half of them."""
DENSE_VALUES = (2, 16)
"""How many values of a JSON document it changes: more leave nothing to be read."""

_EDGES = sorted(
    {0, 1, 2, 3, 7, 8, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 1 << 16, 1 << 20}
    | {(1 << bits) + step for bits in (31, 32, 40, 53, 62, 63) for step in (-1, 0, 1)}
    | {(1 << 64) - 1, (1 << 64) - 8}
)
_RECORDS = (20, 24, 28, 32, 64, 72, 128, 256, 1024)
_VALUES: tuple[object, ...] = (
    None, True, False, [], {}, "", "x", "0", "-1", -1, 0, 1, 0.5, -0.0, 1e308, -1e308,
    2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, "\ud800", "\0", "\x1b[2J",
    "a" * 5000, [1, 2, 3], [[]], {"": {}}, "NaN", float("nan"), float("inf"), "0x10",
    "<img src='x'>", "=1+1", "\u202e", "\n",
)  # fmt: skip
_TOKENS = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r\n", b"null", b"-1",
    b"1e999", b"99999999999999999999", b"NaN", b"true", b"\xff", b"\0", b"\xc3", b"->",
    b"--", b"<", b">", b"/*", b"//", b"#", b"0", b" ", b"=", b"-", b"\xef\xbb\xbf",
    b"\\ud800", b"\\u0000", b"1e-400", b"0x", b"e", b".", b"'", b";", b"\x1b",
)  # fmt: skip
_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_NUMBERS = (
    b"", b"-", b"-1", b"0", b"00", b"1e9", b"1e-9", b"1.5", b"1,5", b"1_000", b"nan",
    b"inf", b"0.0", b"0x10", b"9" * 15, b"9" * 19, b"9" * 25, b"9" * 400,
    b"0." + b"9" * 30,
)  # fmt: skip
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[\w.+-]+|\s+|.', re.DOTALL)

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


def mutated(random: Random, data: bytes, others: Sequence[bytes]) -> tuple[bytes, int]:
    """Return `data` after one to six mutations, and how many of them changed it.

    What can be read as text is mutated as text two times of three; `others` are
    spliced in.
    """
    kinds = _TEXT if _is_text(data) and random.random() < 0.67 else _BINARY
    n_changes = 0
    for _ in range(min(1 + int(random.expovariate(0.7)), 6)):
        changed = random.choice(kinds)(random, data, others)[:MAX_BYTES]
        n_changes += changed != data
        data = changed
    return data, n_changes


def densely_mutated(random: Random, data: bytes) -> tuple[bytes, int]:
    """Return a text after mutations of many of its parts, and their number.

    Each is of another line, or of some value of a JSON document, and leaves the rest
    as it is: so a file tries as many mutations as it has lines that are read apart.
    """
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return _lines_mutated(random, data)
    n_changes = sum(_change(random, root) for _ in range(random.randint(*DENSE_VALUES)))
    return json.dumps(root).encode(), n_changes


def _lines_mutated(random: Random, data: bytes) -> tuple[bytes, int]:
    lines = data.split(b"\n")
    n_rows = min(random.randint(*DENSE_LINES), -(-len(lines) // 2))
    rows = random.sample(range(len(lines)), n_rows)
    n_changes = 0
    for row in rows:
        line, others = lines[row], [random.choice(lines)]
        for _ in range(3):
            changed = random.choice(_LINE)(random, line, others)[:MAX_LINE_BYTES]
            if changed != line:
                lines[row] = changed
                n_changes += 1
                break
    return b"\n".join(lines), n_changes


def _is_text(data: bytes) -> bool:
    return b"\0" not in data[:512]


def _at(random: Random, data: bytes) -> int:
    """Return a place; two of five times near the begin, where the structure is."""
    if random.random() < 0.4:
        return random.randrange(min(len(data), 256) + 1)
    return random.randrange(len(data) + 1)


def _integer(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Put an integer, or change the one that is there, at any width and order."""
    width, code = random.choice(((1, "B"), (2, "H"), (4, "I"), (8, "Q")))
    order = random.choice("<<<>")
    if len(data) < width:
        return data
    at = random.randrange(len(data) - width + 1)
    if random.random() < 0.7:
        at -= at % width
    (value,) = struct.unpack_from(order + code, data, at)
    match random.randrange(4):
        case 0:
            value = random.choice(_EDGES)
        case 1:
            value += random.choice((-8, -2, -1, 1, 2, 8, len(data)))
        case 2:
            value = random.choice((len(data), len(data) - at, len(data) - at - width))
        case _:
            value = -value
    raw = struct.pack(order + code, value % (1 << 8 * width))
    return data[:at] + raw + data[at + width :]


def _copied_field(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Put one field's bytes into another place of the same alignment."""
    width = random.choice((4, 8, 16))
    if len(data) < 2 * width:
        return data
    source, target = (
        random.randrange(len(data) // width) * width for _ in range(2)
    )  # fmt: skip
    raw = data[source : source + width]
    return data[:target] + raw + data[target + len(raw) :]


def _bit(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _deleted(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at, n = _at(random, data), random.choice((1, 2, 4, 8, 64, *_RECORDS))
    return data[:at] + data[at + n :]


def _repeated(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at, n = _at(random, data), random.choice((1, 4, 8, 64, *_RECORDS))
    times = random.choice((1, 1, 2, 8, 40))
    return data[:at] + data[at : at + n] * times + data[at:]


def _spliced(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put a part of another file, or of this one, somewhere."""
    other = random.choice(others) if others else data
    begin = _at(random, other)
    part = other[begin : begin + random.choice((8, 64, 256, 4096))]
    at = _at(random, data)
    over = len(part) if random.random() < 0.5 else 0
    return data[:at] + part + data[at + over :]


def _cut(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: _at(random, data)]


def _filled(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Overwrite a stretch by one byte: names without an end, zeros, all ones."""
    at, n = _at(random, data), random.choice((4, 8, 20, 64, 128))
    n = min(n, len(data) - at)
    return (
        data[:at] + random.choice((b"\0", b"\xff", b"A", b"\x80")) * n + data[at + n :]
    )


def _records_moved(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Swap, drop or repeat whole records after any of the usual headers."""
    size, head = random.choice(_RECORDS), random.choice((0, 0, 12, 16, 24))
    n = (len(data) - head) // size
    if n < 2:
        return data
    rows = [data[head + i * size : head + (i + 1) * size] for i in range(n)]
    one, other = random.randrange(n), random.randrange(n)
    match random.randrange(3):
        case 0:
            rows[one], rows[other] = rows[other], rows[one]
        case 1:
            del rows[one]
        case _:
            rows.insert(one, rows[other])
    return data[:head] + b"".join(rows) + data[head + n * size :]


def _token_put(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = _at(random, data)
    over = random.choice((0, 0, 1, 4))
    return data[:at] + random.choice(_TOKENS) + data[at + over :]


def _tokens_changed(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Exchange, drop, repeat or replace one token of the text by another's."""
    tokens = _TOKEN.findall(data)
    if len(tokens) < 2:
        return data
    at = random.randrange(len(tokens))
    match random.randrange(5):
        case 0:
            other = random.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 1:
            del tokens[at : at + random.choice((1, 1, 2, 5))]
        case 2:
            tokens[at:at] = tokens[at : at + random.choice((1, 3, 10))]
        case 3:
            source = _TOKEN.findall(random.choice(others)) if others else tokens
            tokens[at] = random.choice(source or tokens)
        case _:
            tokens[at] = random.choice(_TOKENS)
    return b"".join(tokens)


def _number_changed(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Replace one decimal number of the text."""
    places = [match.span() for match in _NUMBER.finditer(data)]
    if not places:
        return data
    begin, end = random.choice(places)
    raw = data[begin:end]
    match random.randrange(5):
        case 0:
            raw = b"%d" % random.choice(_EDGES)
        case 1:
            raw = random.choice(_NUMBERS)
        case 2:
            raw = b"-" + raw
        case 3:
            raw += b"0" * random.choice((1, 3, 9, 18))
        case _:
            other_begin, other_end = random.choice(places)
            raw = data[other_begin:other_end]
    return data[:begin] + raw + data[end:]


def _nested(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Put brackets that open and never, or later, close."""
    at, n = _at(random, data), random.choice((1, 10, 63, 65, 1000, 20_000))
    opens, closes = random.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"{", b"}")))
    ends = closes * n if random.random() < 0.5 else b""
    return data[:at] + opens * n + ends + data[at:]


def _value_replaced(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Replace, rename, repeat or drop a member of a JSON text or of one line of it."""
    lines = data.split(b"\n")
    row = random.randrange(len(lines)) if len(lines) > 2 else None
    try:
        root = json.loads(data if row is None else lines[row])
    except (ValueError, RecursionError):
        return data
    _change(random, root)
    try:
        text = json.dumps(root).encode()
    except (ValueError, RecursionError):
        return data
    if row is None:
        return text
    lines[row] = text
    return b"\n".join(lines)


def _change(random: Random, root: object) -> bool:
    """Change something somewhere below `root`, deeper or less deep; return whether."""
    here = root
    while isinstance(here, dict | list) and here:
        key = random.choice(list(here) if isinstance(here, dict) else range(len(here)))
        below = here[key]
        if isinstance(below, dict | list) and below and random.random() < 0.85:
            here = below
            continue
        match random.randrange(6):
            case 0:
                del here[key]
            case 1 if isinstance(here, dict):
                name = random.choice(("", "\ud800", str(key).upper(), "x"))
                is_other = name not in here
                here[name] = below
                return is_other
            case 1:
                here.insert(key, below)
            case 2 if isinstance(here, list):
                here += [below] * random.choice((1, 50))
            case 3 if isinstance(below, int | float) and not isinstance(below, bool):
                here[key] = below * random.choice((-1, 0, 2, 1e6, 2**40))
                return here[key] != below
            case _:
                here[key] = copy.deepcopy(random.choice(_VALUES))
                return json.dumps(here[key]) != json.dumps(below)
        return True
    return False


def _cell_replaced(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Replace, add or drop a cell of a line, or repeat the line."""
    lines = data.split(b"\n")
    row = random.randrange(len(lines))
    cells = lines[row].split(b",")
    at = random.randrange(len(cells))
    match random.randrange(4):
        case 0:
            del cells[at]
        case 1:
            cells.insert(at, cells[at])
        case 2:
            lines[row:row] = [lines[row]] * random.choice((1, 20))
        case _:
            cells[at] = str(random.choice(_VALUES)).encode("utf-8", "surrogatepass")
    lines[row] = b",".join(cells)
    return b"\n".join(lines)


_BINARY: tuple[Mutation, ...] = (
    _integer, _integer, _integer, _copied_field, _bit, _deleted, _repeated, _spliced,
    _cut, _filled, _records_moved,
)  # fmt: skip
_TEXT: tuple[Mutation, ...] = (
    _token_put, _tokens_changed, _tokens_changed, _number_changed, _nested,
    _value_replaced, _value_replaced, _value_replaced, _cell_replaced, _spliced,
    _cut, _deleted,
)  # fmt: skip
_LINE: tuple[Mutation, ...] = (
    _token_put, _tokens_changed, _tokens_changed, _number_changed, _number_changed,
    _value_replaced, _value_replaced, _cell_replaced, _nested, _spliced, _cut,
    _deleted, _repeated, _filled, _bit,
)  # fmt: skip
