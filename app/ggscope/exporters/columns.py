"""Columns of exported tables: numbers and repeated texts, some values unknown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.errors import ExportError
from ggscope.model.tables import Array


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Whole numbers; `is_known` is bool[n], None = all are known."""

    values: Array
    is_known: npt.NDArray[np.bool_] | None = None

    def head(self, n: int) -> "Numbers":
        """Return the first n rows."""
        known = None if self.is_known is None else self.is_known[:n]
        return Numbers(self.values[:n], known)

    def to_list(self) -> list[Any]:
        """Return the values, None where one is unknown."""
        values: list[Any] = self.values.tolist()
        if self.is_known is None:
            return values
        known = self.is_known.tolist()
        return [v if k else None for v, k in zip(values, known, strict=True)]

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Int64Array``; it shares memory where it can."""
        import pyarrow

        values = self.values.astype(np.int64, copy=False)
        mask = None if self.is_known is None else ~self.is_known
        return pyarrow.array(values, pyarrow.int64(), mask=mask)


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Texts; row i has ``entries[codes[i]]``, None = unknown."""

    codes: Array
    entries: list[str | None]

    def head(self, n: int) -> "Texts":
        """Return the first n rows."""
        return Texts(self.codes[:n], self.entries)

    def to_list(self) -> list[Any]:
        """Return the values, None where one is unknown."""
        entries = self.entries
        return [entries[code] for code in self.codes.tolist()]

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.DictionaryArray`` of strings."""
        import pyarrow

        is_unknown = np.array([entry is None for entry in self.entries], np.bool_)
        mask = is_unknown[self.codes] if is_unknown.any() else None
        codes = pyarrow.array(self.codes.astype(np.int32), mask=mask)
        # UTF-8 has no halves of surrogate pairs.
        entries = [utf8(entry or "") for entry in self.entries]
        return pyarrow.DictionaryArray.from_arrays(
            codes, pyarrow.array(entries, pyarrow.string())
        )


@dataclass(frozen=True, slots=True)
class Values:
    """Plain values of one type, None = unknown; for short tables."""

    values: list[Any]

    def head(self, n: int) -> "Values":
        """Return the first n rows."""
        return Values(self.values[:n])

    def to_list(self) -> list[Any]:
        """Return the values."""
        return self.values

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Array`` of the type of the values."""
        import pyarrow

        return pyarrow.array(self.values)


ExportColumn = Numbers | Texts | Values


def known_numbers(values: Array) -> Numbers:
    """Return numbers of which negative ones are unknown."""
    return Numbers(values, values >= 0)


def texts_by_id(ids: Array, text_of: Callable[[int], str | None]) -> Texts:
    """Return the texts of ids, each made once; empty ones are unknown."""
    distinct_ids, codes = np.unique(ids, return_inverse=True)
    return Texts(codes, [text_of(i) or None for i in distinct_ids.tolist()])


def utf8(text: str) -> str:
    """Return a text without halves of surrogate pairs, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def arrow_table(columns: Mapping[str, ExportColumn]) -> Any:
    """Return a ``pyarrow.Table``. Raises ExportError where pyarrow is missing."""
    try:
        import pyarrow
    except ImportError:
        raise ExportError(
            "pyarrow is not installed. Install it with: pip install pyarrow"
        ) from None
    return pyarrow.table({name: c.to_arrow() for name, c in columns.items()})
