"""Rows of equal keys as columns of JSON, in a small part of their bytes.

A table is a list of blocks, each ``{"rows": n, "columns": {name: column}}``. A column
is a list of n values or, where that is shorter, one of these objects:

``{"all": value}``
    the same value in every row;
``{"values": [...], "index": column}``
    row i holds ``values[index[i]]``;
``{"first": number, "steps": column}``
    whole numbers, each given by its difference from the one before (n - 1 steps);
``{"after": name, "items": column}``
    whole numbers, each given by its difference from another column of the block;
    null stays null;
``{"lengths": column, "items": column}``
    lists, one behind the other.

Columns within columns have these forms, too. A key that a row lacks is null.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

Column = Any
"""What `json` writes as a column."""
BLOCK_ROWS = 1 << 14
_DEPTH = 2
"""So deep columns stand within columns, at most."""


def blocks(
    rows: Iterable[Mapping[str, Any]], *, size: int = BLOCK_ROWS
) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a table, of at most `size` rows each."""
    remaining = iter(rows)
    while block := list(islice(remaining, size)):
        names = dict.fromkeys(name for row in block for name in row)
        yield table(
            len(block), {name: [row.get(name) for row in block] for name in names}
        )


def table(n: int, values: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return a block of `n` rows whose columns are given as lists."""
    return {"rows": n, "columns": {name: column(values, name) for name in values}}


def column(values: Mapping[str, Sequence[Any]], name: str) -> Column:
    """Return the shortest form of one of the columns of a block."""
    forms = [_shortest(values[name], _DEPTH)]
    begins, ends = values.get("begin", [None]), values[name]
    known = [end for end in ends if end is not None]
    if name == "end" and _are_whole([*begins, *known]):
        items = [
            None if end is None else end - begin
            for begin, end in zip(begins, ends, strict=True)
        ]
        forms.append({"after": "begin", "items": _shortest(items, _DEPTH)})
    return min(forms, key=_size)


def text(value: Any) -> bytes:
    """Return a value as JSON without needless characters."""
    made = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return made.encode("utf-8", "replace")


def _shortest(values: Sequence[Any], depth: int) -> Column:
    """Return the shortest form of some values; `depth` columns may stand within."""
    plain = list(values)
    if len(plain) < 2 or not depth:
        return plain
    forms = [plain, *(form for make in _FORMS if (form := make(plain, depth - 1)))]
    return min(forms, key=_size)


def _constant(values: list[Any], _: int) -> Column | None:
    first = values[0]
    is_same = all(type(value) is type(first) and value == first for value in values)
    return {"all": first} if is_same else None


def _indexed(values: list[Any], depth: int) -> Column | None:
    if any(isinstance(value, list | dict) for value in values):
        return None
    # 1, 1.0 and True are equal, but not the same text.
    places: dict[tuple[type, Any], int] = {}
    index = [places.setdefault((type(v), v), len(places)) for v in values]
    if len(places) > len(values) // 2:
        return None
    distinct = [value for _, value in places]
    return {"values": distinct, "index": _shortest(index, depth)}


def _stepped(values: list[Any], depth: int) -> Column | None:
    if not _are_whole(values):
        return None
    steps = [b - a for a, b in pairwise(values)]
    return {"first": values[0], "steps": _shortest(steps, depth)}


def _joined(values: list[Any], depth: int) -> Column | None:
    if not all(isinstance(value, list) for value in values):
        return None
    items = [item for value in values for item in value]
    lengths = _shortest([len(value) for value in values], depth)
    return {"lengths": lengths, "items": _shortest(items, depth)}


_FORMS: tuple[Callable[[list[Any], int], Column | None], ...] = (
    _constant, _indexed, _stepped, _joined,
)  # fmt: skip


def _are_whole(values: Sequence[Any]) -> bool:
    return all(type(value) is int for value in values)


def _size(value: Column) -> int:
    return len(text(value))
