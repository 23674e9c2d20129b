"""Interned strings: a table that only grows, so ids stay valid for ever."""

from collections.abc import Iterable, Sequence
from threading import Lock

import numpy as np
import numpy.typing as npt

MISSING = -1
_FEW, _MOST_WALKS = 1 << 12, 8
"""Among more texts than the first number, so many are looked for one by one."""


class StringTable:
    """Append-only list of distinct strings; id -1 stands for "none".

    A published trace shares the table with its builder: rows below a known
    length never change, so older snapshots stay valid.
    """

    __slots__ = ("_ids", "_lock", "_n_unlisted", "_n_walks", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._ids: dict[str, int] = {}
        # The first so many are not in `_ids` yet: a million names that a reader knows
        # to be distinct need no looking up until somebody asks more than a few times.
        self._n_unlisted = self._n_walks = 0
        self._lock = Lock()
        for text in texts:
            self.intern(text)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, string_id: int) -> str:
        """Return the text of `string_id`; "" for -1.

        Raises
        ------
        IndexError
            If the id does not exist.
        """
        if string_id == MISSING:
            return ""
        if string_id < 0:
            raise IndexError(string_id)
        return self._texts[string_id]

    def intern(self, text: str) -> int:
        """Return the id of `text`, adding it where it is new."""
        found = self.find(text)
        if found == MISSING:
            found = len(self._texts)
            self._texts.append(text)
            self._ids[text] = found
        return found

    def intern_many(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the ids of `texts`, int32[len(texts)]."""
        if self._n_unlisted and len(texts) <= _MOST_WALKS:
            return np.array([self.intern(text) for text in texts], np.int32)
        self._list_all()
        ids, known = self._ids, self._texts
        new = [text for text in dict.fromkeys(texts) if text not in ids]
        ids.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
        known += new
        return np.fromiter(map(ids.__getitem__, texts), np.int32, len(texts))

    def add_distinct(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the ids of `texts`, of which no two are the same, int32[len(texts)].

        Into an empty table, many of them come at no cost but the memory.
        """
        if self._texts:
            return self.intern_many(texts)
        self._texts += texts
        self._n_unlisted = len(texts)
        return np.arange(len(texts), dtype=np.int32)

    def find(self, text: str) -> int:
        """Return the id of `text`, or -1 where it never occurred."""
        found = self._ids.get(text, MISSING)
        n = self._n_unlisted
        if found != MISSING or not n:
            return found
        self._n_walks += 1
        if n > _FEW and self._n_walks <= _MOST_WALKS:
            try:
                return self._texts.index(text, 0, n)
            except ValueError:
                return MISSING
        self._list_all()
        return self._ids.get(text, MISSING)

    def texts(self) -> list[str]:
        """Return a copy of all texts, in id order."""
        return list(self._texts)

    def _list_all(self) -> None:
        """Put the texts into `_ids` that are not there yet."""
        with self._lock:  # views and a reader may ask at the same time
            if n := self._n_unlisted:
                self._ids.update(zip(self._texts[:n], range(n), strict=True))
                self._n_unlisted = 0
