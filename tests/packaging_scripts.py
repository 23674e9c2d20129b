"""Modules of packaging/, which is no package."""

import importlib.util
import sys
from functools import cache
from typing import Any

from support import ROOT

PACKAGING = ROOT / "packaging"


@cache
def script(name: str) -> Any:
    """Return a module of packaging/, which is no package."""
    path = PACKAGING / name
    spec = importlib.util.spec_from_file_location(f"packaging_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module
