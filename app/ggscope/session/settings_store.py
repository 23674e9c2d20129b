"""Where settings are stored: in memory, or in an ini file that windows share.

The file has the form that QSettings gave it in earlier versions: each value is a line
of JSON with quotes and backslashes escaped. Several windows may change it at the same
time: each applies its edits, under a lock, to what the file holds by then, and writes
the result as one whole.
"""

import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ggscope.atomic_write import locked, make_folder, set_aside, write_file
from ggscope.errors import WriteError

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 16 << 20
_PLAIN = re.compile(r"[\w.+-]*", re.ASCII)
_ESCAPE = re.compile(r'\\(["\\])|"')

Edit = Callable[[str | None], str]
"""Makes the new text of a key from the one that is stored; None = there is none."""


class MemoryStore:
    """Texts by key that live as long as the object: tests and ``--safe-mode``.

    Attributes
    ----------
    values : texts by ``topic/name``; each is JSON in one line of ASCII.
    problem : what was wrong with the stored settings, for people; "" = nothing.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self.values = dict(values or {})
        self.problem = ""

    def edit(self, key: str, edit: Edit) -> None:
        """Change the text of `key`."""
        self.values[key] = edit(self.values.get(key))

    def clear(self) -> None:
        """Remove all values, those of other windows as well."""
        self.values.clear()

    def sync(self) -> str:
        """Write the edits; return why they could not be written, "" = they were."""
        return ""


class IniStore(MemoryStore):
    """A store over an ini file that other processes may change meanwhile.

    Parameters
    ----------
    path : the file; None = where the system keeps the program's settings. One
        that this program cannot have written is set aside as ``*.broken``.

    Notes
    -----
    `sync` may be called from any thread; meanwhile nobody waits for the disk.
    """

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.path = default_path() if path is None else path
        self._syncing = threading.Lock()
        self._lock = threading.Lock()  # of values and edits
        self._edits: list[tuple[str, Edit] | None] = []  # None = all values go
        self._is_read = False
        try:
            self.values = self._read() or {}
        except (OSError, WriteError) as error:
            logger.warning("settings file %s cannot be read: %s", self.path, error)
        self._is_read = True

    def edit(self, key: str, edit: Edit) -> None:
        """Change the text of `key`, in the file as soon as `sync` is called."""
        with self._lock:
            super().edit(key, edit)
            self._edits.append((key, edit))

    def clear(self) -> None:
        """Remove all values, those of other windows as well."""
        with self._lock:
            super().clear()
            self._edits = [None]

    def sync(self) -> str:
        """Apply the edits to the file; return why not, "" = it was done."""
        with self._syncing:
            with self._lock:
                edits, self._edits = self._edits, []
                known = dict(self.values)
            if not edits:
                return ""
            try:
                make_folder(self.path.parent)
                with locked(self.path.parent):
                    stored = self._read()
                    # Gone or broken: what was in it is known here.
                    values = known if stored is None else _edited(stored, edits)
                    write_file(self.path, _ini(values))
            except (WriteError, OSError) as error:
                with self._lock:
                    self._edits = [*edits, *self._edits]
                return (
                    f"Cannot save the settings: {error} Changes last until ggscope "
                    "exits."
                )
            with self._lock:
                self.values = _edited(values, self._edits)
            return ""

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
            if self._is_read:
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


def _edited(
    values: Mapping[str, str], edits: Iterable[tuple[str, Edit] | None]
) -> dict[str, str]:
    result = dict(values)
    for entry in edits:
        if entry is None:
            result.clear()
        else:
            key, edit = entry
            result[key] = edit(result.get(key))
    return result


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
        line = full.strip(" \t\r")
        if not line or line[0] in ";#":
            continue
        if line[0] == "[" and line[-1] == "]":
            section = f"{line[1:-1]}/"
            continue
        name, sign, value = (part.strip(" \t\r") for part in line.partition("="))
        if not sign or value.startswith("@"):  # a serialised object of Qt
            raise ValueError(f"line {number:,} is not a setting")
        values[section + name] = _ESCAPE.sub(r"\1", value)
    return values


def _ini(values: Mapping[str, str]) -> bytes:
    """Return the ini file of values; `_parsed` takes it back."""
    lines: list[str] = []
    section = ""
    # Keys without a section first: after one they would belong to it.
    for key, value in sorted(values.items(), key=lambda item: ("/" in item[0], item)):
        head, name = key.split("/", 1) if "/" in key else ("", key)
        if head != section:
            section = head
            lines += [*([""] if lines else []), f"[{section}]"]
        if not _PLAIN.fullmatch(value):
            value = '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
        lines.append(f"{name}={value}")
    return ("\n".join(lines) + "\n").encode()
