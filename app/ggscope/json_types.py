"""JSON as values of type hints, for what this program has written itself."""

import os
from dataclasses import is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

_MAX_NAME_BYTES = 4096


def from_json(data: object, hint: Any) -> Any:
    """Return parsed JSON as a value of a type, with no more, no less and no other.

    Parameters
    ----------
    hint : bool, int, str, float, an absolute `Path`, a `Literal`, ``T | None``, a
        tuple, a dataclass of these, or ``Annotated[int, range(…)]``.

    Raises
    ------
    ValueError
        If it does not fit, with the reason.
    """
    kind, parts = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        if isinstance(data, dict) and data.keys() == hints.keys():
            values = {name: from_json(data[name], hints[name]) for name in hints}
            return hint(**values)  # type: ignore[operator]  # a class, no instance
    elif kind is tuple and isinstance(data, list):
        items = parts[:1] * len(data) if parts[-1] is ... else parts
        if len(data) == len(items):
            return tuple(map(from_json, data, items))
    elif kind is UnionType:
        return None if data is None else from_json(data, parts[0])
    elif hint is Path and isinstance(data, str):
        if not _is_absolute_path(data):
            raise ValueError("a path is relative, too long or invalid")
        return Path(data)
    elif _is_scalar(data, hint):
        return data
    raise ValueError("unexpected, missing or invalid fields")


def _is_scalar(data: object, hint: Any) -> bool:
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return type(data) is parts[0] and data in parts[1]
    if kind is Literal:
        return isinstance(data, str) and data in parts
    return type(data) is hint


def _is_absolute_path(text: str) -> bool:
    try:
        is_short = len(os.fsencode(text)) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False
    return is_short and os.path.isabs(text) and "\0" not in text
