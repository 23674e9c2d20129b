"""The schema: what each column of a trace is, declared once beside its name.

A table is a dataclass whose columns are annotated with a `Column`::

    layer: Annotated[Array | None, Column("int16", "transformer layer", null=-1)] = None

Nothing else spells a column: the builder fills and joins by the schema, sessions move
numbers of one file into those of another by it, ``Trace.check`` holds values against
it, Details and the trace table show what has a label, statistics can group by it, and
``resources/docs/trace-model.md`` is written from it.
"""

from dataclasses import MISSING, dataclass, fields, replace
from enum import IntEnum, IntFlag
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Column:
    """What a column holds.

    Attributes
    ----------
    dtype : the widest; a reader may store narrower signed integers where they fit.
    doc : meaning, as the documentation says it.
    null : what stands for "none" or "unknown", and where a table lacks the column;
        None where every row has a value.
    unit : "ticks" or "bytes"; "" for plain numbers.
    of : table or list whose rows or places the numbers are: "strings", "lanes",
        "tensors", "buffers", "models", "ops", "spans", "records" of the file, ...
    code : enumeration or flags that the numbers are of.
    low, high : values lie in [low, high); None = what `null` and `of` say, and without
        `of` whatever the dtype holds.
    is_exact : whether a narrower dtype is wrong.
    per : what a row is for, where that is no row of the table: "edges", ...
    width : > 1 where each row is so many numbers.
    label : what people call it, where Details, the trace table and statistics show it.
    mark : stands before its numbers in words.
    is_rare : few formats have it: nothing is said of it where a trace lacks the
        column, and "none" means that it is not known.
    """

    dtype: str
    doc: str
    null: float | None = None
    unit: str = ""
    of: str = ""
    code: type[IntEnum] | type[IntFlag] | None = None
    low: int | None = None
    high: int | None = None
    is_exact: bool = False
    per: str = ""
    width: int = 1
    label: str = ""
    mark: str = ""
    is_rare: bool = False

    def blank(self, n: int, *, narrow: bool = False) -> npt.NDArray[Any]:
        """Return `n` rows of "none"; `narrow` where other rows will widen them."""
        shape = n if self.width == 1 else (n, self.width)
        is_signed = self.dtype.startswith("int")
        dtype = "int8" if narrow and is_signed else self.dtype
        return np.full(shape, 0 if self.null is None else self.null, dtype)


if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")


_PLAIN = Column("int64", "of a table that is only computed with")
_SCHEMAS: dict[type, dict[str, Column]] = {}
_EMPTY: dict[type, Any] = {}
"""Tables without rows, which all traces share: nothing of them can be changed."""


def schema_of(table: type) -> dict[str, Column]:
    """Return the columns that a table declares, by name, in their order."""
    found = _SCHEMAS.get(table)
    if found is None:
        hints = get_type_hints(table, include_extras=True)
        found = _SCHEMAS[table] = {
            name: column
            for name, hint in hints.items()
            for column in getattr(hint, "__metadata__", ())
            if isinstance(column, Column)
        }
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Equally long columns; the number of a row is its id."""

    _first = ""

    def __init_subclass__(cls) -> None:
        cls._first = next(iter(cls.__annotations__))

    def __len__(self) -> int:
        return len(getattr(self, self._first))

    @classmethod
    def blank(cls, n: int = 0) -> Self:
        """Return `n` rows of "unknown", without the columns that may be missing."""
        if not n and cls in _EMPTY:
            return _EMPTY[cls]  # type: ignore[no-any-return]  # one of this class
        schema, columns = schema_of(cls), {}
        for f in fields(cls):
            if f.default is MISSING:  # a column, or a table within this one
                kind = schema.get(f.name) or get_type_hints(cls)[f.name]
                columns[f.name] = kind.blank(n)
        table = cls(**columns)
        if not n:
            freeze(table)
            _EMPTY[cls] = table
        return table

    def take(self, rows: npt.NDArray[Any]) -> Self:
        """Return the given rows; what is no column stays."""
        taken: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                taken[f.name] = value[rows]
            elif isinstance(value, Table):
                taken[f.name] = value.take(rows)
        return replace(self, **taken)

    def full(self) -> Self:
        """Return the table with every column, "unknown" where it had none."""
        missing: dict[str, Any] = {
            name: column.blank(len(self))
            for name, column in schema_of(type(self)).items()
            if getattr(self, name) is None
        }
        return replace(self, **missing)


def stacked(*tables: _T) -> _T:
    """Return the rows of all tables, one behind the other; the rest as in the first.

    Where some tables lack a column its rows are "none"; where all do there is none.
    A single table is returned as it is, not copied.
    """
    if len(tables) == 1:
        return tables[0]
    schema, first = schema_of(type(tables[0])), tables[0]
    columns: dict[str, Any] = {}
    for f in fields(first):
        parts = [getattr(table, f.name) for table in tables]
        if isinstance(parts[0], Table):
            columns[f.name] = stacked(*parts)
        elif any(isinstance(part, np.ndarray) for part in parts):
            column = schema.get(f.name, _PLAIN)
            columns[f.name] = np.concatenate(
                [
                    column.blank(len(table), narrow=True)  # type: ignore[arg-type]  # a `Table`
                    if part is None
                    else part
                    for part, table in zip(parts, tables, strict=True)
                ]
            )
    return replace(first, **columns)


def freeze(table: object) -> None:
    """Mark every array of a table (and of the tables inside it) read-only."""
    if table is _EMPTY.get(type(table)):
        return
    for name in table.__dataclass_fields__:  # type: ignore[attr-defined]  # a dataclass
        value = getattr(table, name)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        elif hasattr(value, "__dataclass_fields__"):
            freeze(value)


def broken_columns(
    name: str, table: object, rows: dict[str, int], known: dict[str, int]
) -> list[str]:
    """Return what is wrong with the columns of a table, a sentence each.

    Parameters
    ----------
    name : of the table, as sentences call it.
    rows : number of rows by `Column.per`.
    known : length of every table that columns refer to, by `Column.of`.
    """
    broken: list[str] = []
    if table is _EMPTY.get(type(table)):
        return broken
    for key, column in schema_of(type(table)).items():
        array, what = getattr(table, key), f"{name}.{key}"
        if array is None:
            continue
        n = rows[column.per]
        shape = (n,) if column.width == 1 else (n, column.width)
        kind = _kind_of(column.dtype)
        kinds, word = ("iu", "integers") if kind in "iu" else (kind, column.dtype)
        if array.shape != shape:
            broken.append(f"{what} has shape {array.shape}, expected {shape}")
        elif array.dtype.kind not in kinds:
            broken.append(f"{what} has dtype {array.dtype}, expected {word}")
        elif column.is_exact and array.dtype != column.dtype:
            broken.append(f"{what} has dtype {array.dtype}, expected {column.dtype}")
        elif limits := _limits(column, known):
            low, high = limits
            if len(array) and (int(array.min()) < low or int(array.max()) >= high):
                broken.append(
                    f"{what} has values {array.min()}..{array.max()} outside "
                    f"[{low}, {high})"
                )
        if array.flags.writeable:
            broken.append(f"{what} is writable")
    return broken


@cache
def _kind_of(dtype: str) -> str:
    return np.dtype(dtype).kind


def _limits(column: Column, known: dict[str, int]) -> tuple[int, int] | None:
    """Return the range of a column's values; None where any value is sound."""
    low = column.low if column.low is not None else -1 if column.null == -1 else 0
    if column.high is not None:
        return low, column.high
    return (low, known[column.of]) if column.of in known else None
