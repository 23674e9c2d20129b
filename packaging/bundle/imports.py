"""Imports all that the program may import where modules of the bundle are left out.

    python imports.py [PACKAGE …]

Every module of the packages, and what these import within functions, is imported with
the modules of `contents.UNUSED_MODULES` missing. Prints the names of all modules that
were loaded from files; those that cannot be imported go to stderr, and end it with 1.
"""

import ast
import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import contents

PACKAGES = ("ggscope", "ggscope_capture")
_CHOSEN_LATER = ("OpenGL.GL", "duckdb")
"""Imported within a ``try``, or by the first function of OpenGL that is called."""

_TRIED_BEFORE = {"pyarrow"}
"""Imported plainly by functions whose callers have tried whether it is there."""


class _Missing(importlib.abc.MetaPathFinder):
    """Finds what is left out to be not there."""

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for a module that is left out."""
        parts = name.split(".")
        names = {".".join(parts[: n + 1]) for n in range(len(parts))}
        if names & set(contents.UNUSED_MODULES):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(packages: Iterable[str]) -> int:
    """Import everything; return the exit code."""
    # What the interpreter of a virtual environment brings, and this script.
    foreign = {n for n in sys.modules if n not in sys.stdlib_module_names}
    for name in [n for n in sys.modules if n in contents.UNUSED_MODULES]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Missing())
    needed = {*_CHOSEN_LATER, *(name for p in packages for name in needed_by(p))}
    code = 0
    for name in sorted(needed - _TRIED_BEFORE):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
    loaded = (name for name, module in sys.modules.items() if _has_file(name, module))
    print(*sorted(set(loaded) - foreign))
    return code


def needed_by(package: str) -> set[str]:
    """Return the modules of a package, and all that these import."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    needed = set()
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        if "resources" in parts or path.stem == "__main__":
            continue
        needed.add(".".join(parts).removesuffix(".__init__"))
        needed.update(_imports(ast.parse(path.read_text("utf-8")).body))
    return needed


def _imports(body: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the modules that statements need: not those that they only try."""
    for node in body:
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                yield from _imports(node.orelse)
            case ast.Try() if any(map(_catches_imports, node.handlers)):
                yield from _imports([*node.orelse, *node.finalbody])
            case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                yield from _imports(ast.iter_child_nodes(node))


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    caught = "Exception" if handler.type is None else ast.unparse(handler.type)
    return bool({"ImportError", "ModuleNotFoundError", "Exception"} & set(
        caught.strip("()").replace(",", " ").split()
    ))  # fmt: skip


def _has_file(name: str, module: ModuleType) -> bool:
    spec = getattr(module, "__spec__", None)
    # Some names are aliases, and some modules lie within a library.
    if spec is None or not spec.has_location or spec.name != name:
        return False
    return Path(str(spec.origin)).is_file()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or PACKAGES))
