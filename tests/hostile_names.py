"""Files of every format whose names are what somebody put there to do harm."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from reader_files import ReaderFiles, reader_files

MARKER = "m"
"""Name of a picture in the working folder, which nothing may load."""
MARKUP = (
    f"<img src={MARKER}>",
    f"<img src='{MARKER}' width=1>",
    f"<b>bold</b><img src={MARKER}>",
    f"<a href={MARKER}>click</a>",
    f"<!doctype html><img src={MARKER}>",
    f"&lt;<img src={MARKER}>",
    f"<?xml version='1.0'?><img src={MARKER}>",
    f"<table background={MARKER}><tr><td>x",
    f" <p style='background-image:url({MARKER})'>x",
)
CONTROLS = (
    "\x1b]0;PWNED\x07",
    "\x1b[31mred\x1b[2J",
    "\x9b31mc1",
    "bell\x07back\b\bcr\rnl\nFAKE: good\ttab",
    "\u202egnp.exe\u2066",
    "del\x7f\x01\x02",
    "nul\u200b\u2028sep",
)
FORMULAS = ("=cmd()", "+1+1", "-2+3", "@SUM(A1)", "\t=tab()", "\r=cr()", "＝wide()")

_WITH_NAMES: dict[str, ReaderFiles] = {
    reader_id: files
    for reader_id, files in reader_files().items()
    if files.hostile is not None
}
READERS = tuple(_WITH_NAMES)
"""Ids of the readers whose files have names."""


def hostile_sessions() -> dict[str, tuple[str, ...]]:
    """Return the readers whose files are opened together: each is in one session."""
    sessions: dict[str, tuple[str, ...]] = {}
    for reader_id, files in _WITH_NAMES.items():
        name = files.session or reader_id
        sessions[name] = (*sessions.get(name, ()), reader_id)
    return sessions


def hostile_named(folder: Path, texts: Sequence[str]) -> dict[str, Path]:
    """Write a file per format, in which the texts take turns as names.

    Return reader id -> path. The files themselves are named by the first text, as
    far as a file can be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = texts[0].replace("/", "")
    made: dict[str, Path] = {}
    for reader_id, files in _WITH_NAMES.items():
        assert files.hostile is not None
        suffix, make = files.hostile
        part = folder / reader_id
        part.mkdir()
        made[reader_id] = part / f"{stem}{suffix}"
        made[reader_id].write_bytes(make(cycle(texts)))
    return made
