"""Where settings are kept: in memory, or in an ini file that windows share.

The file has the form that QSettings gave it in earlier versions. It is read and
written here, because several windows may change it at the same time: each change is
merged, under a lock, into what the file holds by then, and written as one whole.
"""

import logging
import os
import re
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from ggscope.atomic_write import locked, make_folder, set_aside, write_file
from ggscope.errors import WriteError

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 16 << 20
_BLANK = " \t\r"
_PLAIN = re.compile(r"[\w.+-]*")
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r'\\(?:x([0-9a-fA-F]{1,6})|([abfnrtv"\\]))|(")|(\\)')
_CONTROL = re.compile(r"[\x00-\x1f\x7f][0-9a-fA-F]*")
_PERCENT = re.compile(r"%U([0-9A-Fa-f]{4})|%([0-9A-Fa-f]{2})")

Merge = Callable[[str, str | None, str, str], str]
"""(key, value that both began with, mine, theirs) -> the value that has both."""


class Store(Protocol):
    """Where texts are kept by key.

    `problem` : what was wrong with what was kept, for people; "" = nothing.
    """

    problem: str

    def keys(self) -> list[str]:
        """Return all keys."""
        ...

    def get(self, key: str) -> object:
        """Return what is stored under `key`, or None."""
        ...

    def put(self, key: str, text: str) -> None:
        """Store a text; failures are logged, never raised."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...

    def sync(self) -> str:
        """Write what is still in memory; return why it could not be, "" = it was."""
        ...


class MemoryStore:
    """A store that lives as long as the object: tests and ``--safe-mode``."""

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self._values: dict[str, object] = dict(values or {})
        self.problem = ""

    def keys(self) -> list[str]:
        """Return all keys."""
        return list(self._values)

    def get(self, key: str) -> object:
        """Return what is stored under `key`, or None."""
        return self._values.get(key)

    def put(self, key: str, text: str) -> None:
        """Store a text."""
        self._values[key] = text

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()

    def sync(self) -> str:
        """Do nothing; nothing is written."""
        return ""


class IniStore:
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
        self.path = default_path() if path is None else path
        self.problem = ""
        self.merge: Merge = _mine
        self._writing = threading.Lock()
        self._lock = threading.Lock()
        self._seen: dict[str, str] = {}  # in the file, when it was last looked at
        self._has_read = False
        try:
            self._seen = self._read() or {}
        except (OSError, WriteError) as error:
            logger.warning("settings file %s cannot be read: %s", self.path, error)
        self._has_read = True
        self._values = dict(self._seen)
        self._changed: set[str] = set()
        self._is_cleared = False

    def keys(self) -> list[str]:
        """Return all keys."""
        with self._lock:
            return list(self._values)

    def get(self, key: str) -> object:
        """Return what is stored under `key`, or None."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: str, text: str) -> None:
        """Store a text."""
        with self._lock:
            self._values[key] = text
            self._changed.add(key)

    def clear(self) -> None:
        """Forget everything, what others have stored as well."""
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
                    write_file(self.path, _written(stored))
            except (WriteError, OSError) as error:
                with self._lock:
                    self._changed |= changed
                    self._is_cleared |= is_cleared
                return (
                    f"Cannot save the settings: {error} Changes last until ggscope "
                    "exits."
                )
            with self._lock:
                self._seen = stored
                newer = {key: self._values[key] for key in self._changed}
                self._values = newer if self._is_cleared else {**stored, **newer}
            return ""

    def _merged(
        self,
        mine: dict[str, str],
        changed: set[str],
        theirs: dict[str, str] | None,
    ) -> dict[str, str]:
        """Return what is to be stored: what others have, and what changed here."""
        if theirs is None:  # gone or broken: what was in it is known here
            return mine
        result = dict(theirs)
        for key in changed:
            base = self._seen.get(key)
            is_theirs = key in theirs and theirs[key] != base
            result[key] = mine[key]
            if is_theirs:
                result[key] = self.merge(key, base, mine[key], theirs[key])
        return result

    def _read(self) -> dict[str, str] | None:
        """Return what the file holds; None where it is gone or has been set aside."""
        try:
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                raise OSError(f"{self.path} is no file")
            with self.path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
        try:
            return _read(content)
        except ValueError as error:
            kept = set_aside(self.path)
            self.problem = (
                f"The settings file was damaged while ggscope was running ({error}); "
                f"the settings are unchanged. The damaged file is now {kept}."
                if self._has_read
                else f"The settings file was damaged ({error}); the defaults are used. "
                f"The damaged file is now {kept}."
            )
            logger.warning("%s", self.problem)
            return None


def default_path() -> Path:
    """Return the file where the settings of the person are."""
    if sys.platform == "win32":
        home = os.environ.get("APPDATA") or str(Path.home() / "AppData" / "Roaming")
    else:
        home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "ggscope" / "ggscope.ini"


def _mine(key: str, base: str | None, mine: str, theirs: str) -> str:
    return mine


def _read(content: bytes) -> dict[str, str]:
    """Return the values of an ini file by ``section/name``; ValueError if damaged."""
    if len(content) > MAX_FILE_BYTES:
        raise ValueError("it is too long")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start:,} is no text") from None
    if "\0" in text:
        raise ValueError("it holds zero bytes")
    values: dict[str, str] = {}
    section = ""
    for number, full in enumerate(text.split("\n"), 1):
        line = full.strip(_BLANK)
        if not line or line[0] in ";#":
            continue
        if line[0] == "[" and line[-1] == "]":
            section = _section(line[1:-1])
            continue
        name, sign, value = line.partition("=")
        value = value.strip(_BLANK)
        # Serialised objects of Qt are none of ours; "@@" is a text with one "@".
        if not sign or (value.startswith("@") and not value.startswith("@@")):
            raise ValueError(f"line {number:,} is no setting")
        key = _name(name.strip(_BLANK))
        values[f"{section}/{key}" if section else key] = _unescaped(value)
    return values


def _written(values: Mapping[str, str]) -> bytes:
    """Return the ini file of values; `_read` takes it back."""
    lines: list[str] = []
    section = None
    for head, name, key in sorted((*_split(key), key) for key in values):
        if head != section:
            section = head
            title = "%" + head if head.lower() == "general" else _named(head)
            lines += [*([""] if lines else []), f"[{title or 'General'}]"]
        lines.append(f"{_named(name)}={_escaped(values[key])}")
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _split(key: str) -> tuple[str, str]:
    """Return the section of a key, "" = none, and its name there."""
    head, slash, name = key.partition("/")
    return (head, name) if slash else ("", head)


def _named(name: str) -> str:
    """Return a name of a section or a value as it stands in the file."""
    parts = []
    for character in name:
        if character == "/":
            parts.append("\\")
        elif re.fullmatch(r"[A-Za-z0-9_.-]", character):
            parts.append(character)
        else:
            code = ord(character)
            parts.append(f"%{code:02X}" if code < 0x100 else f"%U{code:04X}")
    return "".join(parts)


def _section(title: str) -> str:
    """Return the section of a title; values without a section are in General."""
    if title.lower() == "general":
        return ""
    return title[1:] if title.lower() == "%general" else _name(title)


def _name(text: str) -> str:
    """Return the name that `_named` has written."""
    plain = text.replace("\\", "/")
    return _PERCENT.sub(lambda m: chr(int(m[1] or m[2], 16)), plain)


def _escaped(value: str) -> str:
    """Return a value as it stands in the file."""
    value = "@" + value if value.startswith("@") else value
    if _PLAIN.fullmatch(value):
        return value
    text = value.replace("\\", "\\\\").replace('"', '\\"')
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    # A digit after an escape would belong to its number, so it is escaped as well.
    text = _CONTROL.sub(lambda m: "".join(f"\\x{ord(c):x}" for c in m[0]), text)
    return f'"{text}"'


def _unescaped(text: str) -> str:
    """Return the value that `_escaped` has written."""

    def plain(match: re.Match[str]) -> str:
        number, letter, quote, _ = match.groups()
        if number:
            code = int(number, 16)
            return chr(code) if code < 0x110000 else ""
        if quote:
            return ""
        return _NAMED.get(letter, letter) if letter else ""

    value = _ESCAPE.sub(plain, text)
    return value[1:] if value.startswith("@@") else value
