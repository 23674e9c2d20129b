"""Entries of the list of recent files: a file, a folder, or several as one session."""

from pathlib import Path

from ggscope.session.settings import RECENT_SEPARATOR


def recent_paths(text: str) -> tuple[Path, ...]:
    """Return the files of an entry; the first one is what was opened."""
    return tuple(Path(part) for part in text.split(RECENT_SEPARATOR) if part)


def recent_title(text: str) -> str:
    """Return what menus call an entry."""
    first, *more = recent_paths(text)
    return f"{first.name} +{len(more)}" if more else first.name


def recent_exists(text: str) -> bool:
    """Tell whether all files of an entry are still there."""
    return all(path.exists() for path in recent_paths(text))


__all__ = ["recent_exists", "recent_paths", "recent_title"]
