"""Test files of every built-in reader: a module for each folder of ``readers/``.

A module has `FILES`. All suites that go through the readers take theirs from here:
contract, fuzzing, hostile names, problems, SQL.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ggscope.readers import registry
from support import ROOT

Names = Iterator[str]
"""Texts without end, to be used as names."""
Seed = tuple[str, bytes]
"""A file's name and its content."""


@dataclass(frozen=True, slots=True)
class ReaderFiles:
    """Files of one reader.

    Attributes
    ----------
    reader : its id.
    valid : name of a file without faults, of more than a kilobyte, and what makes it.
    seeds : what fuzzing mutates; the valid file alone if None.
    small_seeds : files with a few rows each, in which nearly every byte matters; if
        None, seeds with most of their rows left out.
    hostile : suffix of a file with the given texts as names wherever it has names, and
        what makes it; None if it has no names.
    session : hostile files of the same session are opened in one window; alone if "".
    """

    reader: str
    valid: tuple[str, Callable[[], bytes]]
    seeds: Callable[[], list[Seed]] | None = None
    small_seeds: Callable[[], list[Seed]] | None = None
    hostile: tuple[str, Callable[[Names], bytes]] | None = None
    session: str = ""


@cache
def reader_files() -> dict[str, ReaderFiles]:
    """Return the files of every built-in reader by its id, in the registry's order."""
    declared = {
        files.reader: files
        for module in pkgutil.iter_modules(__path__)
        for files in importlib.import_module(f"{__name__}.{module.name}").FILES
    }
    return {
        info.id: declared.pop(info.id) for info in registry.BUILTIN.values()
    } | declared


def valid_file(reader: str, folder: Path) -> Path:
    """Write the valid file of the reader with this id; return its path."""
    name, make = reader_files()[reader].valid
    path = folder / name
    path.write_bytes(make())
    return path


def from_sample(name: str) -> tuple[str, Callable[[], bytes]]:
    """Return a sample of the program as a valid file."""
    return name, (ROOT / "resources" / "samples" / name).read_bytes


def one_line(names: Names) -> Names:
    """Return names that fit a field of a line of text."""
    return (" ".join(name.split()) or "-" for name in names)
