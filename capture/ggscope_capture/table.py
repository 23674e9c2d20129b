"""Text tables that fit a width: cells that are too long continue below."""

import re
import textwrap
from collections.abc import Sequence

_GAP = "  "
_BREAKS = re.compile(r"[./_,:-]+")


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    min_widths: Sequence[int],
) -> list[str]:
    """Return the lines of a table, flush left, no longer than `width`.

    Parameters
    ----------
    min_widths : characters per column, 0 = those of its longest cell. If these do not
        fit, the table is wider than `width`.
    """
    natural = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    floor = [min(n, low or n) for n, low in zip(natural, min_widths, strict=True)]
    widths = list(natural)
    space = width - len(_GAP) * (len(head) - 1)
    while sum(widths) > space and widths != floor:
        spare = [w - low for w, low in zip(widths, floor, strict=True)]
        widths[spare.index(max(spare))] -= 1
    lines = []
    for row in (head, *rows):
        cells = [_wrapped(cell, w) for cell, w in zip(row, widths, strict=True)]
        for i in range(max(map(len, cells))):
            parts = [
                (cell[i] if i < len(cell) else "").ljust(w)
                for cell, w in zip(cells, widths, strict=True)
            ]
            lines.append(_GAP.join(parts).rstrip())
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a cell; words that are too long break after punctuation."""
    lines = []
    for word in text.split():
        rest = word
        while len(rest) > width:
            ends = [match.end() for match in _BREAKS.finditer(rest, 0, width)]
            cut = ends[-1] if ends else width
            lines.append(rest[:cut])
            rest = rest[cut:]
        lines.append(rest)
    return textwrap.wrap(
        " ".join(lines), width, break_long_words=False, break_on_hyphens=False
    ) or [""]
