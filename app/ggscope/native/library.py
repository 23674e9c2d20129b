"""Loads the compiled library, which must be there and made from these sources.

Its functions take arrays and structures as `ggscope.native.declared` says, and release
the interpreter lock while they run.
"""

import ctypes
import os
from functools import cache
from pathlib import Path

from ggscope.errors import NativeError
from ggscope.native.declared import FOLDER, NAME, SOURCES, fingerprint, sources_digest


@cache
def library() -> ctypes.CDLL:
    """Return the compiled library, ready to be called.

    ``GGSCOPE_NATIVE`` may name a folder with another build of it, such as one with
    sanitizers.

    Raises
    ------
    NativeError
        If it is missing, cannot be loaded, or belongs to another version.
    """
    other = os.environ.get("GGSCOPE_NATIVE", "")
    path = Path(other or FOLDER) / NAME
    if not path.is_file():
        raise NativeError(f"the compiled part of ggscope is missing ({path}).")
    try:
        loaded = ctypes.CDLL(str(path))
        built = loaded.ggscope_native_version
        built.restype = ctypes.c_char_p
        made_from = built().decode().split()
    except (OSError, AttributeError) as error:
        raise NativeError(
            f"the compiled part of ggscope cannot be loaded: {error}."
        ) from error
    here = [fingerprint(), *sources_digest(FOLDER)]
    if made_from[: len(here)] != here:
        raise NativeError(
            f"the compiled part of ggscope ({path}) is older or newer than the program."
        )
    for functions in SOURCES.values():
        for name, (result, *arguments) in functions.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    return loaded
