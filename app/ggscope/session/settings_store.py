"""Where settings are stored: in memory, or in an ini file that windows share.

The file has the form that QSettings gave it in earlier versions: each value is a line
of JSON with quotes and backslashes escaped. It is read and written here, because
several windows may change it at the same time: each change is merged, under a lock,
into what the file holds by then, and written as one whole.
"""

import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from ggscope.atomic_write import locked, make_folder, set_aside, write_file
from ggscope.errors import WriteError

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 16 << 20
_BLANK = " \t\r"
_PLAIN = re.compile(r"[\w.+-]*", re.ASCII)
_ESCAPE = re.compile(r'\\(["\\])|"')

Merge = Callable[[str, str | None, str, str], str]
"""(key, value that both began with, mine, theirs) -> the value that has both."""


class MemoryStore:
    """Texts by key that live as long as the object: tests and ``--safe-mode``.

    `problem` : what was wrong with the stored settings, for people; "" = nothing.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})
        self.problem = ""

    def keys(self) -> list[str]:
        """Return all keys."""
        return list(self._values)

    def get(self, key: str) -> str | None:
        """Return the text of `key`."""
        return self._values.get(key)

    def put(self, key: str, text: str) -> None:
        """Store JSON in one line of ASCII; failures are logged, never raised."""
        self._values[key] = text

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()

    def sync(self) -> str:
        """Write what is still in memory; return why it could not be, "" = it was."""
        return ""


class IniStore(MemoryStore):
    """A store over an ini file that other processes may change meanwhile.

    Parameters
    ----------
    path : the file; None = where the system keeps the program's settings. One
        that this program cannot have written is set aside as ``*.broken``.

    Attributes
    ----------
    merge : makes one value of two where this process and another have changed the
        same key; at first this process wins.

    Notes
    -----
    `sync` may be called from any thread; meanwhile nobody waits for the disk.
    """

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.path = default_path() if path is None else path
        self.merge: Merge = lambda _key, _base, mine, _theirs: mine
        self._writing = threading.Lock()
        self._lock = threading.Lock()
        self._synced: dict[str, str] | None = None  # the file, when last looked at
        self._changed: set[str] = set()
        self._is_cleared = False
        try:
            self._values = self._read() or {}
        except (OSError, WriteError) as error:
            logger.warning("settings file %s cannot be read: %s", self.path, error)
        self._synced = dict(self._values)

    def put(self, key: str, text: str) -> None:
        """Store JSON in one line of ASCII."""
        with self._lock:
            self._values[key] = text
            self._changed.add(key)

    def clear(self) -> None:
        """Remove all values, those of other windows as well."""
        with self._lock:
            self._values.clear()
            self._changed.clear()
            self._is_cleared = True

    def sync(self) -> str:
        """Merge what has changed into the file; return why not, "" = it was."""
        with self._writing:
            with self._lock:
                mine, changed = dict(self._values), self._changed
                is_cleared = self._is_cleared
                self._changed, self._is_cleared = set(), False
            if not changed and not is_cleared:
                return ""
            try:
                make_folder(self.path.parent)
                with locked(self.path.parent):
                    theirs = {} if is_cleared else self._read()
                    stored = self._merged(mine, changed, theirs)
                    write_file(self.path, _ini(stored))
            except (WriteError, OSError) as error:
                with self._lock:
                    self._changed |= changed
                    self._is_cleared |= is_cleared
                return (
                    f"Cannot save the settings: {error} Changes last until ggscope "
                    "exits."
                )
            with self._lock:
                self._synced = stored
                newer = {key: self._values[key] for key in self._changed}
                self._values = newer if self._is_cleared else {**stored, **newer}
            return ""

    def _merged(
        self, mine: dict[str, str], changed: set[str], theirs: dict[str, str] | None
    ) -> dict[str, str]:
        """Return what is to be stored: what others have, and what changed here."""
        if theirs is None:  # gone or broken: what was in it is known here
            return mine
        result = dict(theirs)
        for key in changed:
            base = (self._synced or {}).get(key)
            is_theirs = key in theirs and theirs[key] != base
            result[key] = mine[key]
            if is_theirs:
                result[key] = self.merge(key, base, mine[key], theirs[key])
        return result

    def _read(self) -> dict[str, str] | None:
        """Return what the file holds; None where it is gone or has been set aside."""
        try:
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                raise OSError(f"{self.path} is not a file")
            with self.path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
        try:
            return _parsed(content)
        except ValueError as error:
            broken = set_aside(self.path)
            when, what = "", "the defaults are used"
            if self._synced is not None:
                when, what = " while ggscope was running", "the settings are unchanged"
            self.problem = (
                f"The settings file was damaged{when} ({error}); {what}. "
                f"The damaged file is now {broken}."
            )
            logger.warning("%s", self.problem)
            return None


def default_path() -> Path:
    """Return the file where the settings of the user are."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "ggscope" / "ggscope.ini"


def _parsed(content: bytes) -> dict[str, str]:
    """Return the values of an ini file by ``section/name``; ValueError if damaged."""
    if len(content) > MAX_FILE_BYTES:
        raise ValueError("it is too large")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start:,} is not text") from None
    if "\0" in text:
        raise ValueError("it holds zero bytes")
    values: dict[str, str] = {}
    section = ""
    for number, full in enumerate(text.split("\n"), 1):
        line = full.strip(_BLANK)
        if not line or line[0] in ";#":
            continue
        if line[0] == "[" and line[-1] == "]":
            section = f"{line[1:-1]}/"
            continue
        name, sign, value = line.partition("=")
        value = value.strip(_BLANK)
        if not sign or value.startswith("@"):  # a serialised object of Qt
            raise ValueError(f"line {number:,} is not a setting")
        values[section + name.strip(_BLANK)] = _ESCAPE.sub(r"\1", value)
    return values


def _ini(values: Mapping[str, str]) -> bytes:
    """Return the ini file of values; `_parsed` takes it back."""
    lines: list[str] = []
    section = ""
    for head, name, value in sorted((*_split(k), v) for k, v in values.items()):
        if head != section:
            section = head
            lines += [*([""] if lines else []), f"[{section}]"]
        if not _PLAIN.fullmatch(value):
            value = '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
        lines.append(f"{name}={value}")
    return ("\n".join(lines) + "\n").encode()


def _split(key: str) -> tuple[str, str]:
    """Return the section of a key, "" = none, and its name there."""
    head, slash, name = key.partition("/")
    return (head, name) if slash else ("", head)
