"""Which op a graph's node is: ggml prints a symbol (``X*Y``), not a number."""

import json
from dataclasses import replace
from functools import cache

from ggscope import assets
from ggscope.model import ggml
from ggscope.model.trace import OpTable

LEAF_OPERATION = "CONST"
"""What the record of a leaf says where other nodes have their symbol."""


@cache
def op_table() -> OpTable:
    """Return the newest table of the main lines, which numbers the ops of graphs.

    Graphs spell ops; the numbers are of this program alone.
    """
    return replace(ggml.tables()[0], source="spelled")


def op_number(operation: str) -> int:
    r"""Return the number under `op_table` of a symbol or an op's name; -1 unknown.

    Parameters
    ----------
    operation : as the file prints it, with the backslashes of DOT records
        (``x-\>y``) or without them.
    """
    text = operation.strip()
    numbers = _numbers()
    found = numbers.get(_symbols().get(_unescaped(text), ""), -1)
    return found if found >= 0 else numbers.get(text.removeprefix("GGML_OP_"), -1)


def op_name(operation: str) -> str:
    """Return the name of the op behind a symbol; "" unknown."""
    number = op_number(operation)
    return op_table().names[number] if number >= 0 else ""


@cache
def _symbols() -> dict[str, str]:
    """Return op names by symbol, without the backslashes."""
    stored = json.loads(assets.path("ggml/op_symbols.json").read_text("utf-8"))
    return {_unescaped(symbol): name for symbol, name in stored.items()}


@cache
def _numbers() -> dict[str, int]:
    # NONE is the op of leaves: no op at all.
    return {n: i for i, n in enumerate(op_table().names) if n and n != "NONE"}


def _unescaped(symbol: str) -> str:
    return symbol.replace("\\", "")
