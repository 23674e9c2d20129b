"""Calls of ``tensor_scan.c``: its structures, and what it does to arrays.

All of it is optional; see `ggscope.native.library`. Every call releases the interpreter
lock, and the callers keep each one short.
"""

import ctypes
from typing import Any

from ggscope.model.tables import Array
from ggscope.native import library as compiled

LIBRARY = compiled.FOLDER / "_tensor_scan.so"
VERSION = 1

DONE, FILE_ENDS, FAILED, TABLE_FULL = range(4)
"""Why a scan came to its end, `TallyStruct.status`."""

_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64


class FormStruct(ctypes.Structure):
    """What to look for in a record; ``Form`` of the C source."""

    _fields_ = (
        ("n_words", _NUMBER),
        ("key_first", _NUMBER),
        ("key_stop", _NUMBER),
        ("name_first", _NUMBER),
        ("name_stop", _NUMBER),
        ("experts_word", _NUMBER),
        ("max_time", _NUMBER),
        ("first_extension", _NUMBER),
        ("has_durations", _NUMBER),
        ("sample_records", _NUMBER),
        ("sample_every", _NUMBER),
        ("key_mask", _POINTER),
        ("key_factors", _POINTER),
        ("name_factors", _POINTER),
    )


class ColumnsStruct(ctypes.Structure):
    """Where the header columns go; ``Columns`` of the C source."""

    _fields_ = tuple(
        (name, _POINTER)
        for name in (
            "time",
            "token",
            "layer",
            "thread",
            "op",
            "phase",
            "kind",
            "duration",
            "name_hash",
            "pattern",
        )
    )


class TallyStruct(ctypes.Structure):
    """What a scan counted; ``Tally`` of the C source."""

    _fields_ = (
        ("n_records", _NUMBER),
        ("n_ops", _NUMBER),
        ("n_extension", _NUMBER),
        ("n_bad_time", _NUMBER),
        ("n_expert", _NUMBER),
        ("n_empty", _NUMBER),
        ("first_bad_time", _NUMBER),
        ("first_empty", _NUMBER),
        ("has_layers", _NUMBER),
        ("has_durations", _NUMBER),
        ("status", _NUMBER),
        ("error", _NUMBER),
    )


class PatternsStruct(ctypes.Structure):
    """The table of distinct patterns; ``Patterns`` of the C source."""

    _fields_ = (
        ("count", _NUMBER),
        ("capacity", _NUMBER),
        ("n_slots", _NUMBER),
        ("slots", _POINTER),
        ("next", _POINTER),
        ("hashes", _POINTER),
        ("exemplars", _POINTER),
        ("first_record", _POINTER),
        ("last", _NUMBER),
    )


def kernel() -> Any | None:  # a library of foreign functions
    """Return the compiled library, or None where numpy has to do."""
    if not compiled.is_wanted():
        return None
    found = compiled.library(LIBRARY, "ggscope_tensor_version", VERSION)
    if found is not None and found.ggscope_tensor_scan.argtypes is None:
        _declare(found)
    return found


def address(array: Array | None) -> int | None:
    """Return where a contiguous array lies; None for none."""
    return None if array is None else int(array.ctypes.data)


def _declare(library: ctypes.CDLL) -> None:
    for name, arguments, result in (
        (
            "ggscope_tensor_order",
            (_POINTER, _NUMBER, _NUMBER, *[_POINTER] * 4),
            ctypes.c_int32,
        ),
        (
            "ggscope_tensor_gather",
            (_POINTER, _NUMBER, _POINTER, _NUMBER, _POINTER, _NUMBER),
            ctypes.c_int32,
        ),
        (
            "ggscope_tensor_scan",
            (ctypes.c_int32, _NUMBER, _NUMBER, _POINTER, _NUMBER, *[_POINTER] * 5),
            _NUMBER,
        ),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
