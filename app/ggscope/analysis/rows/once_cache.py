"""Values that are computed once, by whichever thread asks first."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar, cast

_T = TypeVar("_T")


class OnceCache:
    """Values by key, each computed once, by whichever thread asks first."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._slots: dict[Hashable, _Slot] = {}
        self._latest: dict[str, list[Hashable]] = {}

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the value of `key`, made where it is new.

        `make` may ask for other keys, but not, however indirectly, for `key`. If
        it raises, the next one who asks tries again.
        """
        known = self._slots.get(key)
        if known is not None and known.filled:  # some hundred times for each picture
            return cast(_T, known.value)
        with self._guard:
            slot = self._slots.setdefault(key, _Slot())
        with slot.lock:
            if not slot.filled:
                slot.value = make()
                slot.filled = True
        return cast(_T, slot.value)

    def known(self, key: Hashable) -> object:
        """Return the value of `key` if it has been computed, else None."""
        with self._guard:
            slot = self._slots.get(key)
        return slot.value if slot is not None and slot.filled else None

    def valid_part(self, is_valid: Callable[[Hashable], bool]) -> "OnceCache":
        """Return a cache that shares the values whose keys are valid."""
        made = OnceCache()
        with self._guard:
            made._slots = {k: slot for k, slot in self._slots.items() if is_valid(k)}
            made._latest = {k: list(names) for k, names in self._latest.items()}
        return made

    def keep_latest(self, kind: str, name: tuple[Hashable, ...], n: int) -> None:
        """Note that `name` is in use; forget all but the latest `n` of its kind.

        Keys belong to `name` if they begin with it.
        """
        with self._guard:
            used = self._latest.setdefault(kind, [])
            if used and used[-1] == name:
                return
            if name in used:
                used.remove(name)
            used.append(name)
            for old in used[:-n]:
                self._forget(cast("tuple[Hashable, ...]", old))
            del used[:-n]

    def _forget(self, name: tuple[Hashable, ...]) -> None:
        gone = [
            key
            for key in self._slots
            if isinstance(key, tuple) and key[: len(name)] == name
        ]
        for key in gone:
            del self._slots[key]


class _Slot:
    """One value of the cache and the lock of whoever computes it."""

    __slots__ = ("filled", "lock", "value")

    def __init__(self) -> None:
        self.lock = Lock()
        self.filled = False
        self.value: object = None
