"""Tables of a sidecar: blocks of columns that are written in few bytes.

The forms of a column are documented in ``resources/docs/ring-format.md``. A few bytes
may stand for many values, so that how many there may be in all is bounded beforehand.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

_MAX_DEPTH = 8
_LEAST, _PER_BYTE = 1 << 16, 4
"""So many values may stand in any sidecar, and so many for each of its bytes: tables of
the tool have more bytes than values."""


class ColumnError(Exception):
    """A table is not what it has to be."""


class Budget:
    """How many values may still be made of a file."""

    def __init__(self, n_bytes: int) -> None:
        self._left = max(_LEAST, _PER_BYTE * n_bytes)

    def take(self, n: int) -> None:
        """Count `n` values; raises ColumnError where they are too many."""
        self._left -= n
        if self._left < 0:
            raise ColumnError("more values than a file of this size can hold")


def is_block(item: object) -> bool:
    """Return whether an item of a list is a block of rows."""
    return isinstance(item, dict) and "rows" in item and "columns" in item


def rows(block: dict[str, Any], budget: Budget) -> Iterator[dict[str, Any]]:
    """Return the rows of a block one after the other; raises ColumnError at once."""
    table = columns(block, budget)
    names = tuple(table)
    return (
        dict(zip(names, row, strict=True)) for row in zip(*table.values(), strict=True)
    )


def columns(block: dict[str, Any], budget: Budget) -> dict[str, list[Any]]:
    """Return the values of all columns of a block; raises ColumnError."""
    n, forms = block["rows"], block["columns"]
    if type(n) is not int or n < 0 or not isinstance(forms, dict):
        raise ColumnError("a block has no rows or columns")
    table: dict[str, list[Any]] = {}
    later: list[str] = []
    for name, form in forms.items():
        if isinstance(form, dict) and "after" in form:
            later.append(name)
        else:
            table[name] = values(form, n, budget)
    for name in later:
        base = table.get(str(forms[name]["after"]))
        steps = values(forms[name].get("items"), n, budget)
        if base is None:
            raise ColumnError("a column follows one that is not there")
        table[name] = [
            None if step is None else _whole(at) + _whole(step)
            for at, step in zip(base, steps, strict=True)
        ]
    return {name: table[name] for name in forms}


def values(form: Any, n: int, budget: Budget, depth: int = 0) -> list[Any]:
    """Return the `n` values of a column; raises ColumnError."""
    budget.take(n)
    if depth > _MAX_DEPTH:
        raise ColumnError("a column within too many others")
    match form:
        case list():
            column = form
        case {"all": value}:
            column = [value] * n
        case {"values": list(distinct), "index": inner}:
            places = values(inner, n, budget, depth + 1)
            if any(not 0 <= _whole(place) < len(distinct) for place in places):
                raise ColumnError("a value outside of its list")
            column = [distinct[place] for place in places]
        case {"first": first, "steps": inner} if n:
            steps = values(inner, n - 1, budget, depth + 1)
            column = list(accumulate(map(_whole, steps), initial=_whole(first)))
        case {"lengths": inner, "items": items}:
            lengths = [_whole(k) for k in values(inner, n, budget, depth + 1)]
            if any(length < 0 for length in lengths):
                raise ColumnError("a list of negative length")
            flat = values(items, sum(lengths), budget, depth + 1)
            stops = accumulate(lengths)
            column = [flat[b - k : b] for k, b in zip(lengths, stops, strict=True)]
        case _:
            raise ColumnError("a column of no known form")
    if len(column) != n:
        raise ColumnError("a column is not as long as its table")
    return column


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ColumnError("a step that is no whole number")
    return value
