"""Interned strings: a table that only grows, so ids stay valid for ever."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

MISSING = -1


class StringTable:
    """Append-only list of distinct strings; id -1 stands for "none".

    A published trace shares the table with its builder: rows below a known
    length never change, so older snapshots stay valid.
    """

    __slots__ = ("_ids", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._ids: dict[str, int] = {}
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
        found = self._ids.get(text)
        if found is None:
            found = len(self._texts)
            self._texts.append(text)
            self._ids[text] = found
        return found

    def intern_many(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the ids of `texts`, int32[len(texts)]."""
        ids, known = self._ids, self._texts
        new = [text for text in dict.fromkeys(texts) if text not in ids]
        ids.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
        known += new
        return np.fromiter(map(ids.__getitem__, texts), np.int32, len(texts))

    def find(self, text: str) -> int:
        """Return the id of `text`, or -1 where it never occurred."""
        return self._ids.get(text, MISSING)

    def texts(self) -> list[str]:
        """Return a copy of all texts, in id order."""
        return list(self._texts)
