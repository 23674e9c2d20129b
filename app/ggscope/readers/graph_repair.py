"""Undo what the writers of graph JSON did to names and types.

They took the type from the first parenthesis of ``Kcur-0 (view) (f32)``. So the type
of 264 of 940 nodes of a real graph reads "view" or "reshaped", and their names lack
the suffix. Such ops only re-label data: the type is that of what they view, and ggml
makes the name by appending the op's word to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.model.names import SUFFIXES, split_suffixes
from ggscope.readers.graph_draft import Links, Node
from ggscope.readers.graph_ops import op_name

_VIEWED_SLOT = {
    "VIEW": 0,
    "RESHAPE": 0,
    "PERMUTE": 0,
    "TRANSPOSE": 0,
    "CONT": 0,
    "SET": 0,
    "ACC": 0,
    "CPY": 1,
    "SET_ROWS": 2,
}
"""Which source an op hands on under a new label (ggml.c, ``ggml_view_tensor`` …)."""
_WORD = {
    "VIEW": "view",
    "RESHAPE": "reshaped",
    "PERMUTE": "permuted",
    "TRANSPOSE": "transposed",
    "CONT": "cont",
    "CPY": "copy",
}
"""What these ops append to the name of their source."""
_MAX_NAME = 256
"""Longer than any build of ggml keeps."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done, for the notes.

    Attributes
    ----------
    n_names : names that got their suffix back.
    n_types : types taken from what the node views.
    n_unknown_types : types that stay unknown.
    first : row of the first of them; -1 none.
    """

    n_names: int = 0
    n_types: int = 0
    n_unknown_types: int = 0
    first: int = -1


def restore(nodes: Sequence[Node], links: Links) -> Repair:
    """Give nodes whose type is a name's suffix their name and type, in place."""
    for node in nodes:
        # Readers strip the blank that ggml puts before the suffix of no name.
        if node.name.startswith("(") and not split_suffixes(node.name)[0]:
            node.name = f" {node.name}"
    wrong = [i for i, node in enumerate(nodes) if node.dtype in SUFFIXES]
    if not wrong:
        return Repair()
    viewed = _viewed(nodes, wrong, links)
    waiting, n_types = set(wrong), 0
    for first in wrong:
        # What a node views may need repair itself, and then goes first.
        row, chain = first, []
        while row in waiting:
            waiting.discard(row)
            chain.append(row)
            row = viewed.get(row, -1)
        for link in reversed(chain):
            n_types += _repair(nodes, link, viewed.get(link, -1))
    return Repair(len(wrong), n_types, len(wrong) - n_types, wrong[0])


def _repair(nodes: Sequence[Node], row: int, source: int) -> bool:
    """Give a node its suffix; return whether its source tells its type."""
    node, word = nodes[row], nodes[row].dtype
    name, node.dtype = f"{node.name} ({word})", ""
    if source >= 0 and nodes[source].dtype not in SUFFIXES:
        own = _WORD.get(op_name(node.operation), word)
        appended = f"{nodes[source].name} ({own})"
        fits = len(appended) <= _MAX_NAME
        if fits and split_suffixes(appended)[1][:1] == (word,):
            name = appended
        node.dtype = nodes[source].dtype
    node.name = name
    return bool(node.dtype)


def _viewed(nodes: Sequence[Node], wrong: list[int], links: Links) -> dict[int, int]:
    """Return the row of what each of these nodes is a view of, where it is known."""
    is_wrong = np.zeros(len(nodes), np.bool_)
    is_wrong[wrong] = True
    edges = np.flatnonzero(is_wrong[links.target])
    slot_of = {i: _VIEWED_SLOT.get(op_name(nodes[i].operation), -1) for i in wrong}
    found: dict[int, int] = {}
    for source, target, slot in zip(
        links.source[edges].tolist(),
        links.target[edges].tolist(),
        links.slot[edges].tolist(),
        strict=True,
    ):
        same = split_suffixes(nodes[source].name)[0] == nodes[target].name.strip()
        if slot == slot_of[target] and source != target and same:
            found[target] = source
    return found
