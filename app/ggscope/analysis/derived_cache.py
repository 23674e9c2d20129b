"""Caches of values derived from a trace, an index or a table, as long as it lives."""

from typing import TypeVar
from weakref import WeakKeyDictionary

_K = TypeVar("_K")
_V = TypeVar("_V")
_caches: list["DerivedCache[object, object]"] = []


class DerivedCache(WeakKeyDictionary[_K, _V]):
    """Maps an object to what was derived from it; an entry goes with its object.

    Made once per module and never deleted. A value must not refer to its key, which
    would then live forever.

    Parameters
    ----------
    name : of the derived value, for `cache_sizes`.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        _caches.append(self)  # type: ignore[arg-type]  # of any key and value


def cache_sizes() -> dict[str, int]:
    """Return the number of cached entries by the name of the value."""
    sizes: dict[str, int] = {}
    for cache in _caches:
        sizes[cache.name] = sizes.get(cache.name, 0) + len(cache)
    return sizes


def clear_caches() -> None:
    """Drop all derived values; they are made again when needed."""
    for cache in _caches:
        cache.clear()
