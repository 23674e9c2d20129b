"""Folders of the machine that builds a bundle, and a bundle without their names.

Python's own libraries and its `sysconfig` name the folder that they were built for. Of
another machine it is no use, and may be the home of a person.
"""

import importlib
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

NEUTRAL = "/usr"
"""Stands in the place of the folder of the Python that is bundled."""
_COMMON = ("/", "/usr", "/usr/local")


def python_folders() -> list[str]:
    """Return the folders that this Python was built in and for, the longest first."""
    values = build_values()
    named = [values.get(name) for name in ("abs_builddir", "abs_srcdir", "prefix")]
    named += [sys.base_prefix, str(Path(sys.base_prefix).resolve())]
    return distinct(folder for folder in named if isinstance(folder, str))


def distinct(folders: Iterable[str]) -> list[str]:
    """Return folders that are of one machine only, the longest first."""
    own = {folder.rstrip("/") for folder in folders if folder.startswith("/")}
    return sorted(own.difference(_COMMON, ("",)), key=lambda f: (-len(f), f))


def without_folders(data: bytes, folders: Sequence[str]) -> bytes:
    """Return a library whose texts name other folders, all at their places.

    Linkers let a text begin within another that ends alike: "3.11.7" may be the end of
    "/home/x/python/3.11.7". So nothing moves, and the last name stays.
    """
    for folder in folders:
        above, _, last = folder.rpartition("/")
        if len(above) < len(NEUTRAL):
            continue
        new = f"{NEUTRAL.ljust(len(above), '/')}/{last}"
        data = data.replace(folder.encode(), new.encode())
    return data


def write_sysconfig(folder: Path) -> Path:
    """Write the values of `sysconfig` without these folders; return where they are."""
    folders = python_folders()
    values: dict[str, object] = {}
    for name, value in build_values().items():
        for old in folders:
            value = value.replace(old, NEUTRAL) if isinstance(value, str) else value
        values[name] = value
    lines = [f"    {name!r}: {value!r},\n" for name, value in values.items()]
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{_module_name()}.py"
    target.write_text(f"build_time_vars = {{\n{''.join(lines)}}}\n", "utf-8")
    return folder


def build_values() -> dict[str, object]:
    try:
        module = importlib.import_module(_module_name())
    except ImportError:  # such as in a framework of macOS
        return {}
    values: dict[str, object] = module.build_time_vars
    return values


def _module_name() -> str:
    name: str = sysconfig._get_sysconfigdata_name()  # type: ignore[attr-defined]
    return name
