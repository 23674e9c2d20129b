"""Finds the compiled kernels, where the installation could build them.

They are optional: without a compiler everything runs in numpy or plain Python,
slower and with the same results. Tests hold each kernel and its twin together.
Calls through ctypes release the interpreter lock.
"""

import ctypes
import logging
import os
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
"""Where the compiled libraries lie, beside their sources."""

logger = logging.getLogger(__name__)


def is_wanted() -> bool:
    """Return whether kernels may be used; ``GGSCOPE_NATIVE=0`` leaves them out.

    A folder there names other builds of them, such as those with sanitizers.
    """
    return os.environ.get("GGSCOPE_NATIVE") != "0"


@cache
def library(path: Path, version_function: str, version: int) -> ctypes.CDLL | None:
    """Return a compiled kernel, or None where it is missing or out of date.

    Parameters
    ----------
    path : the shared library, built beside the module that calls it.
    version_function : exported function without arguments that returns an int32.
    version : what that function must return; bumped with every change of a
        signature, so that a stale build is not used.
    """
    other = os.environ.get("GGSCOPE_NATIVE", "")
    if os.path.isdir(other):
        path = Path(other) / path.name
    if not path.is_file():
        return None
    try:
        found = ctypes.CDLL(str(path))
        if getattr(found, version_function)() != version:
            logger.info("%s is of another version; doing without", path.name)
            return None
    except (OSError, AttributeError) as error:
        logger.info("%s cannot be used: %s", path.name, error)
        return None
    return found
