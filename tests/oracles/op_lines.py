"""Lines of ggml's lists of ops by regular expressions: the twin of ``ops.c``."""

import re
from decimal import Decimal
from typing import Any

Row = tuple[str, int, tuple[str | None, ...], tuple[int, ...]]
"""Kind, number of the line, five texts, four values."""

_ESCAPE = re.compile(r"\x1b(\[[^@-~]*[@-~]?|.?)", re.DOTALL)
_CLOCK = re.compile(r"(?<!\d)(\d{1,7})\.(\d\d)\.(\d{3})\.(\d{3}) [A-Z] ?")
_SIZE = r"\( *(\d+)([KM])\)"
_PLACE = r" \[(.{4,5}) (.{8})\]"
_SPLIT = re.compile(r"## SPLIT #(\d+):(.*?) # [ \t]*(\d+) inputs(.*)$")
_INPUT = re.compile(r"\[(.*?) *" + _SIZE + r"\]")
_NODE = re.compile(r"node #[ \t]*(\d+) \((.{0,78}?)\):(.*?)" + _SIZE + _PLACE + "(.*)$")
_SOURCE = re.compile(r"(.*?)" + _SIZE + _PLACE)
_FLAG = re.compile(r",c=(\d)")
_NUMBER = r"(\d+\.?\d*(?:[eE][+-]?\d+)?|inf|nan)"
_TIMED = re.compile(
    rf"(.+?): (\d+) x {_NUMBER} [um]s(?: = {_NUMBER} us(?: \({_NUMBER} GFLOPS/s\))?)?$"
)
_TOTAL = re.compile(rf"Total time: {_NUMBER} us$")
_PROFILE = re.compile(r"(?:ggml-hex: (.*?))?profile-op ([^|: ]+)([|:])(.*)$")
_EVENT = re.compile(
    r"(?:ggml-hex: (.*?))?trace-(?:evt (?P<event>[^:]+):|op (?P<op>[^:]+):) "
    r"thread (\d+) (?:event (\S+) )?info (\d+) (start|stop) (\d+)"
)
_MISSES = 8
_NONE = (None,) * 5


def rows_of(text: str) -> list[Row]:
    """Return what lines state, in their order; the text ends with a line end."""
    items: list[Row] = []
    left = prefix = 0
    for number, line in enumerate(text.split("\n")[:-1]):
        plain = _CLOCK.sub("", _ESCAPE.sub("", line))
        if "node #" in plain:
            items += _nodes(number, plain)
        elif "## SPLIT #" in plain:
            items += _splits(number, plain)
        elif "profile-op " in plain:
            items += _profiled(number, plain)
        elif "trace-evt " in plain or "trace-op " in plain:
            items += _events(number, plain)
        elif "Vulkan Timings:" in plain:
            left, prefix = _MISSES, plain.index("Vulkan Timings:")
            items.append(("TIMINGS", number, _NONE, (-1,) * 4))
        elif left:
            rest = plain[prefix:].rstrip(" .\r")
            row, left = _timed(number, rest, left)
            items += row
    return items


def _texts(*texts: str | None) -> tuple[str | None, ...]:
    made = [None if text is None else text.strip(" \t") or None for text in texts]
    return (*made, *_NONE)[:5]


def _bytes(number: str, unit: str) -> tuple[int, int]:
    step = 1 << 10 if unit == "K" else 1 << 20
    return int(number) * step, step


def _scaled(text: str | None, scale: int) -> int:
    if text is None or not text[0].isdigit():
        return -1
    value = int(Decimal(text).scaleb(scale))
    return value if value < 1 << 63 else -1


def _splits(number: int, line: str) -> list[Row]:
    match = _SPLIT.search(line)
    if match is None:
        return []
    head = (int(match[1]), int(match[3]), -1, -1)
    rows: list[Row] = [("SPLIT", number, _texts(match[2]), head)]
    for index, one in enumerate(_INPUT.finditer(match[4])):
        size = _bytes(one[2], one[3])
        rows.append(("INPUT", number, _texts(one[1]), (index, *size, -1)))
    return rows


def _nodes(number: int, line: str) -> list[Row]:
    match = _NODE.search(line)
    if match is None:
        return []
    flags, _, sources = match[8].partition(":")
    flag = _FLAG.search(flags)
    computed = -1 if flag is None else int(flag[1] != "0")
    values = (int(match[1]), *_bytes(match[4], match[5]), computed)
    texts = _texts(match[2], match[3], match[6], match[7])
    rows: list[Row] = [("NODE", number, texts, values)]
    for index, one in enumerate(_SOURCE.finditer(sources)):
        size = _bytes(one[2], one[3])
        names = _texts(None, one[1], one[4], one[5])
        rows.append(("SOURCE", number, names, (index, *size, -1)))
    return rows


def _timed(number: int, line: str, left: int) -> tuple[list[Row], int]:
    if (match := _TOTAL.match(line)) is not None:
        return [("TOTAL", number, _NONE, (-1, -1, _scaled(match[1], 3), -1))], 0
    if (match := _TIMED.match(line)) is None:
        return [], left - 1
    values = (
        int(match[2]), _scaled(match[3], 3), _scaled(match[4], 3), _scaled(match[5], 9)
    )  # fmt: skip
    return [("TIMED_OP", number, _texts(match[1]), values)], _MISSES


def _field(text: str, word: str) -> Any:
    match = re.search(rf"{word}(\d+(?:\.\d+)?)", text)
    return None if match is None else match[1]


def _profiled(number: int, line: str) -> list[Row]:
    match = _PROFILE.search(line)
    if match is None:
        return []
    fields = match[4].split("|" if match[3] == "|" else " : ")
    tails = [i for i, one in enumerate(fields) if re.match(r" *(op-)?usec ", one)]
    if not tails or tails[0] > 7:
        return []
    tail = (" : " if match[3] == ":" else "|").join(fields[tails[0] :])
    micros, cycles = _field(tail, "usec "), _field(tail, "cycles ")
    if micros is None or cycles is None:
        return []
    start = _field(tail, " start ")
    names = [*fields[: tails[0]], None, None, None, None]
    values = (
        int(micros), int(cycles), -1 if start is None else int(start),
        _scaled(_field(tail, " mhz "), 6),
    )  # fmt: skip
    kind = "BATCH" if match[2] == "OPBATCH" else "PROFILED_OP"
    texts = _texts(match[2], names[0], match[1], names[1], names[2])
    return [(kind, number, texts, values)]


def _events(number: int, line: str) -> list[Row]:
    match = _EVENT.search(line)
    if match is None:
        return []
    name = match["event"] or match[5]
    is_stop = int(match[7] == "stop")
    values = (int(match[4]), int(match[8]), int(match[6]), is_stop)
    return [("EVENT", number, _texts(name, match["op"], match[1]), values)]
