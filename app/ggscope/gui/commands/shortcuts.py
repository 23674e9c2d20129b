"""Shortcuts of commands: the user's own choice, and their table for people."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence

from ggscope.gui.commands.registry import COMMANDS, Command
from ggscope.views.registry import BUILTIN

MAX_FILE_BYTES = 1 << 20
"""Largest ``keys.json`` that is read."""


def keys_of(
    command: Command, overrides: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[str, ...]:
    """Return the shortcuts of a command after the user's own choice."""
    return (overrides or {}).get(command.id, command.keys)


def load_overrides(path: Path) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Read ``keys.json``: ``{"zoom.in": ["Z"], "view.details": []}``.

    Returns
    -------
    The good entries, and a sentence per entry that is ignored. A missing file is
    no problem; one that is not JSON is ignored as a whole.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return {}, [f"{path.name} is too large for a key map and is ignored."]
        data: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError, RecursionError) as error:
        return {}, [f"Cannot read {path.name}: {error}. It is ignored."]
    if not isinstance(data, dict):
        return {}, [f"{path.name} is not a JSON object and is ignored."]
    known = {command.id for command in COMMANDS}
    good: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, keys in data.items():
        listed = [keys] if isinstance(keys, str) else keys
        if name not in known:
            problems.append(f"{path.name}: unknown command {name[:60]!r}.")
        elif not _are_keys(listed):
            problems.append(f"{path.name}: invalid keys for {name}.")
        else:
            good[name] = tuple(listed)
    return good, problems


def _are_keys(keys: object) -> bool:
    if not isinstance(keys, list):
        return False
    return all(isinstance(key, str) and _is_key(key) for key in keys)


def _is_key(text: str) -> bool:
    sequence = QKeySequence(text)
    if not 0 < len(text) < 60 or sequence.isEmpty():
        return False
    # The stubs do not know that a sequence can be indexed.
    steps: Any = sequence
    return all(
        steps[i].key() not in (Qt.Key.Key_unknown, Qt.Key(0))
        for i in range(sequence.count())
    )


def keys_markdown() -> str:
    """Return the table of shortcuts and gestures for the documents."""
    lines = ["| Key | Action |", "| --- | --- |"]
    for command in COMMANDS:
        if command.keys and not command.id.startswith("go.bookmark_"):
            keys = " ".join(f"`{key}`" for key in command.keys)
            lines.append(f"| {keys} | {command.text.removesuffix('…')} |")
    lines.append("| `Alt+1` … `Alt+9` | Go to bookmark 1 … 9 |")
    lines += [
        f"| {keys} | {action} ({view.title}) |"
        for view in BUILTIN
        for keys, action in view.gestures
    ]
    return "\n".join(lines) + "\n"
