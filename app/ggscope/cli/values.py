"""Values of the command line: what each may be, and what it is refused with."""

import argparse
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ggscope.analysis.compare.compare import Tolerance
    from ggscope.render.figure_style import Length


class Names(Collection[str]):
    """The names that an option takes, looked up when somebody asks for them.

    Parameters
    ----------
    several : whether it takes several, with commas between them.
    every : what stands for all of them, as ``all``; "" for nothing.
    more : further names, for which `every` does not stand.
    """

    def __init__(
        self,
        load: Callable[[], Sequence[str]],
        *,
        several: bool = False,
        every: str = "",
        more: Sequence[str] = (),
    ) -> None:
        self._load, self.several, self.every = load, several, every
        self.more = tuple(more)

    def __iter__(self) -> Iterator[str]:
        every = [self.every] if self.every else []
        return iter((*self._load(), *self.more, *every))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, chosen: object) -> bool:
        names = list(self)
        if isinstance(chosen, tuple):
            return all(name in names for name in chosen)
        return chosen in names

    def of(self, text: str) -> tuple[str, ...]:
        """Return the names that ``timeline,heatmap`` lists, each once."""
        if self.every and text == self.every:
            return tuple(self._load())
        chosen = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in chosen:
            if name not in (*self._load(), *self.more):
                listed = ", ".join(map(repr, self))
                raise argparse.ArgumentTypeError(
                    f"invalid choice: {name!r} (choose from {listed})"
                )
        return chosen


def key_value(text: str) -> tuple[str, str]:
    """Return the two sides of ``KEY=VALUE``."""
    key, sign, value = text.partition("=")
    if not key or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not like KEY=VALUE")
    return key, value


def records_text(text: str) -> str:
    """Return a range of records as it is written, where it is one."""
    from ggscope.readers.partial_reading import (
        parse_range,  # with numpy: not for every command
    )

    try:
        parse_range(text, 1 << 62)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a range of records, e.g. 0:1000000 or 0:10%"
        ) from error
    return text


def byte_rate(text: str) -> float:
    """Return the bytes per second that ``50GiB/s`` or ``20 GB/s`` names."""
    parts = re.fullmatch(r"\s*([\d.,]+)\s*([KMGT]?)(i?)B?(?:/s)?\s*", text, re.I)
    try:
        number = float(parts[1].replace(",", "")) if parts else 0.0
    except ValueError:
        number = 0.0
    if parts is None or not number > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate, e.g. 50GiB/s")
    power = " KMGT".index(parts[2].upper() or " ")
    return float(number * (1024 if parts[3] else 1000) ** power)


def tolerance(text: str) -> "Tolerance":
    """Return the changes that ``latency=1%,bw=2%`` lets pass; none for ""."""
    from ggscope.analysis.compare.compare import Tolerance  # for one command

    shares: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.strip().partition("=")
        number = value.strip().removesuffix("%")
        try:
            share = float(number) / (100 if number != value.strip() else 1)
        except ValueError:
            share = -1.0
        if key not in ("latency", "bw") or not 0 <= share < 1e6:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not a limit, e.g. latency=1%,bw=1%"
            )
        shares[key] = share
    return Tolerance(shares.get("latency", 0.0), shares.get("bw"))


def times(text: str) -> tuple[str | None, str | None] | None:
    """Return the sides of a range of time, None for one that is open.

    None as a whole where a colon parts numbers without a unit, or per cent: it may be
    a range of records.
    """
    between = re.search(r"\.\.|–", text)
    if between is None and re.search(r"[^\W\d_]", text):
        between = re.search(":", text)
    if between is None:
        return None
    first, last = text[: between.start()].strip(), text[between.end() :].strip()
    return first or None, last or None


def target(text: str) -> Path:
    """Return the path of what is to be written."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return Path(text)


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return what takes a number from `low` to `high`."""

    def checked(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number from {low} to {high}"
            )
        return int(text)

    return checked


count, positive = whole(0, 1_000_000), whole(1, 1_000_000)
percent, dpi, thumbnail_size = whole(1, 100), whole(24, 2400), whole(16, 1024)


def length(text: str) -> "Length | None":
    """Return what ``88mm`` says; None for ``auto``."""
    length: Length | None = _parsed_style(text, "parse_length")
    return length


def font(text: str) -> float | None:
    """Return the points that ``7pt`` says; None for ``auto``."""
    points: float | None = _parsed_style(text, "parse_font")
    return points


def _parsed_style(text: str, parse: str) -> Any:
    """Return `text` parsed by `render.figure_style`; None for ``auto``."""
    from ggscope.errors import ExportError
    from ggscope.render import figure_style

    if text.strip().lower() == "auto":
        return None
    try:
        return getattr(figure_style, parse)(text)
    except ExportError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def json_object(text: str) -> dict[str, object]:
    """Return a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"invalid JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('expected a JSON object, e.g. {"by": "op"}')
    return value


def bytes_of(text: str) -> int:
    """Return bytes of ``6GiB``, ``512 MiB``, ``1e9`` or ``4096``."""
    match = re.fullmatch(r"\s*([\d.]+(?:e\d+)?)\s*([kmgtp]?)(i?)b?\s*", text.lower())
    try:
        number = float(match[1]) if match else -1.0
    except ValueError:
        number = -1.0
    if match is None or not 0 <= number < 1e18:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size; write 6GiB or 512MiB"
        )
    # Sizes of memory are powers of two, written GiB or, by habit, GB.
    return round(number * float(1 << 10 * " kmgtp".index(match[2] or " ")))


def _seconds(longest: int) -> Callable[[str], float]:
    """Return what takes seconds from 0.1 to `longest`."""

    def checked(text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not 0.1 <= seconds <= longest:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number from 0.1 to {longest}"
            )
        return seconds

    return checked


seconds, watch_seconds = _seconds(600), _seconds(366 * 86400)


def size(text: str) -> tuple[int, int]:
    """Return width and height of ``1920x1080``."""
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not like 1920x1080")
    size = int(width), int(height)
    if not all(64 <= side <= 32_767 for side in size):
        raise argparse.ArgumentTypeError("sides must be from 64 to 32767")
    return size
