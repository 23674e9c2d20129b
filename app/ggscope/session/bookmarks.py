"""Bookmarks: named points and ranges, as plain values."""

from dataclasses import dataclass, replace

from ggscope.model.time import TimeRange


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A named point or range."""

    name: str
    time: TimeRange
    permanent: bool = True


Bookmarks = tuple[Bookmark, ...]


def added(
    bookmarks: Bookmarks, name: str, time: TimeRange, permanent: bool
) -> Bookmarks:
    """Return the bookmarks with one more; "" gets a name by number.

    There is at most one that is not permanent: a new one replaces it.
    """
    kept = tuple(b for b in bookmarks if b.permanent or permanent)
    return (*kept, Bookmark(name or f"Bookmark {len(kept) + 1}", time, permanent))


def without(bookmarks: Bookmarks, position: int) -> Bookmarks:
    """Return the bookmarks less one; IndexError where there is none."""
    kept = list(bookmarks)
    del kept[position]
    return tuple(kept)


def renamed(bookmarks: Bookmarks, position: int, name: str) -> Bookmarks:
    """Return the bookmarks with another name for one; IndexError likewise."""
    kept = list(bookmarks)
    kept[position] = replace(kept[position], name=name)
    return tuple(kept)


__all__ = ["Bookmark", "Bookmarks", "added", "renamed", "without"]
