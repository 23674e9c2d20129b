"""Labels of ggml's DOT records: ``NAME (TYPE)|I [a, b] | <x>SYMBOL``.

Written by ``ggml_graph_dump_dot``. Leaves are ``<x>NAME (TYPE)|CONST I [a, b]``, with
their values behind another bar where they are few; nodes with a gradient end in
``| <g>SYMBOL``; tensors without a name begin with the type. Early graph JSON files
hold such a record where a name belongs.
"""

import re
from dataclasses import dataclass

from ggscope.readers.graph_ops import LEAF_OPERATION

_BAR = re.compile(r"(?<!\\)\|")
_PORT = re.compile(r"^\s*<(\w*)>")
_SHAPE = re.compile(r"^\s*+(CONST\b)?\s*+(?:\d++)?\s*+\[([\d,\s]*+)\]\s*+$")
_TYPE = re.compile(r"^(.*?) ?\(([^()]*)\)\s*$", re.DOTALL)
_MAX_DIMENSION = 1 << 62


@dataclass(frozen=True, slots=True)
class RecordLabel:
    """What the label of a node's record says.

    Attributes
    ----------
    name : tensor name with its suffixes; may be "".
    dtype : name of the ggml type; "" where the label has none.
    operation : the symbol as printed, ``CONST`` for leaves, "" where there is none.
    shape : as many dimensions as are printed.
    """

    name: str
    dtype: str
    operation: str
    shape: tuple[int, ...]
    is_leaf: bool
    has_gradient: bool = False


def parse_record(text: str) -> RecordLabel | None:
    """Return what a record's label says; None where it is no such label."""
    fields = _BAR.split(text)
    for k, part in enumerate(fields):
        found = _SHAPE.match(_without_port(part))
        if found is None:
            continue
        name, dtype = _name_and_type("|".join(fields[:k]))
        shape = dimensions(found[2].replace(",", " ").split())
        if found[1]:
            return RecordLabel(name, dtype, LEAF_OPERATION, shape, True)
        operation, has_gradient = _symbols(fields[k + 1 :])
        return RecordLabel(name, dtype, operation, shape, False, has_gradient)
    return None


def dimensions(values: list[str]) -> tuple[int, ...]:
    """Return up to four dimensions; those that no tensor has become 0 (unknown)."""
    found = (int(v) if len(v) < 20 and v.isdigit() else 0 for v in values[:4])
    return tuple(n if n < _MAX_DIMENSION else 0 for n in found)


def _name_and_type(field: str) -> tuple[str, str]:
    # The type stands in the last parenthesis: suffixes of the name come before it.
    text = _without_port(field)
    found = _TYPE.match(text)
    return (found[1], found[2].strip()) if found else (text.rstrip(), "")


def _symbols(fields: list[str]) -> tuple[str, bool]:
    """Return the op's symbol, and whether a gradient's symbol stands beside it."""
    operation, has_gradient = "", False
    for field in fields:
        port = _PORT.match(field)
        if port and port[1] == "g":
            has_gradient = True
        elif not operation:
            operation = _without_port(field).strip()
    return operation, has_gradient


def _without_port(field: str) -> str:
    return _PORT.sub("", field, count=1)
