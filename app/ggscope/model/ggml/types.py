"""ggml's tensor types: their numbers, names, and how many bytes a tensor takes.

The table is ``resources/ggml/types.json``, made by ``packaging/make_ggml_types.py``.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ggscope import assets

MAX_BYTES = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class GgmlType:
    """One type of tensor elements.

    Attributes
    ----------
    number : as GGUF files store it.
    name : as ggml prints it, e.g. ``q4_K``.
    block : elements of one block; 1 for plain types.
    bytes : bytes of one block.
    is_dropped : whether ggml has given the type up; old files still use it.
    """

    number: int
    name: str
    block: int
    bytes: int
    is_dropped: bool = False


def ggml_types() -> tuple[GgmlType, ...]:
    """Return every known type, by number. Read once, on first use."""
    return _loaded()[0]


def find_type(number: int) -> GgmlType | None:
    """Return the type with this number; None for an unknown one."""
    return _by_number().get(number)


def type_name(number: int) -> str:
    """Return ``q4_K`` for 12; "" for -1, ``type#N`` for an unknown number."""
    if number < 0:
        return ""
    known = find_type(number)
    return f"type#{number}" if known is None else known.name


def type_number(name: str) -> int:
    """Return 12 for ``q4_K`` in any case of letters; -1 for an unknown name."""
    return _by_name().get(name.strip().lower(), -1)


def file_type_name(number: int) -> str:
    """Return what ``general.file_type`` means: ``Q4_K_M`` for 15; "" unknown."""
    return _loaded()[1].get(number, "")


def tensor_bytes(number: int, shape: Sequence[int]) -> int:
    """Return the bytes of a tensor, as ``ggml_nbytes`` does for a packed one.

    Parameters
    ----------
    number : of the type.
    shape : ne0 to ne3; dimensions that are left out count as 1.

    Returns
    -------
    -1 where the type is unknown, a dimension is negative or the tensor is larger
    than any file. Elements that fill no whole block count by their share, as the
    gguf package counts them; see `fills_blocks`.
    """
    kind = find_type(number)
    if kind is None or any(n < 0 for n in shape):
        return -1
    elements = 1
    for n in shape:
        elements *= int(n)
    size = elements * kind.bytes // kind.block
    return size if size <= MAX_BYTES else -1


def fills_blocks(number: int, shape: Sequence[int]) -> bool:
    """Return whether rows of a tensor are whole blocks, as ggml demands."""
    kind = find_type(number)
    return kind is None or not shape or int(shape[0]) % kind.block == 0


@cache
def _loaded() -> tuple[tuple[GgmlType, ...], dict[int, str]]:
    content = json.loads(assets.path("ggml/types.json").read_text("utf-8"))
    types = tuple(
        GgmlType(
            row["number"],
            row["name"],
            row["block"],
            row["bytes"],
            row.get("dropped", False),
        )
        for row in content["types"]
    )
    return types, {int(k): name for k, name in content["file_types"].items()}


@cache
def _by_number() -> dict[int, GgmlType]:
    return {kind.number: kind for kind in ggml_types()}


@cache
def _by_name() -> dict[str, int]:
    return {kind.name.lower(): kind.number for kind in ggml_types()}
