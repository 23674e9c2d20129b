"""Make the columns of a graph from its draft, and say what had to be done for it.

The writers of graph JSON took the type from the first parenthesis of
``Kcur-0 (view) (f32)``. So the type of 264 of 940 nodes of a real graph reads "view"
or "reshaped", and their names lack the suffix. Such ops only re-label data: the type
is that of what they view, and ggml makes the name by appending the op's word to it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.graph import Graph, NodeCategory, NodeFlag
from ggscope.model.names import SUFFIXES, layer_of, normalise, split_suffixes
from ggscope.model.tables import I64, Array, Bools
from ggscope.model.trace import Severity
from ggscope.readers.common.json_walk import integer_of
from ggscope.readers.graph.draft import (
    LEAF_OPERATION,
    GraphDraft,
    Links,
    Node,
    is_acyclic,
    op_name,
    op_number,
    resolve,
)

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
_MAX_LAYER = 9999
_ATTENTION = re.compile(r"attn|[QKV]cur|^kqv?(?:[_-]|$)|^KQ_")
_ROUNDS = 8
"""How many ops may lie between an input and the layers that share it."""

_COUNTED_NAMES = ("node_", "leaf_")
_TOKEN_NAME = re.compile(r"(?:^|[-_.])token[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)
_MAX_TOKEN = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class NameRepair:
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


def restore(nodes: Sequence[Node], links: Links) -> NameRepair:
    """Give nodes whose type is a name's suffix their name and type, in place."""
    for node in nodes:
        # Readers strip the blank that ggml puts before the suffix of no name.
        if node.name.startswith("(") and not split_suffixes(node.name)[0]:
            node.name = f" {node.name}"
    wrong = [i for i, node in enumerate(nodes) if node.dtype in SUFFIXES]
    if not wrong:
        return NameRepair()
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
    return NameRepair(len(wrong), n_types, len(wrong) - n_types, wrong[0])


def _repair(nodes: Sequence[Node], row: int, source: int) -> bool:
    """Give a node its suffix; return whether its source states its type."""
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
    viewed: dict[int, int] = {}
    for source, target, slot in zip(
        links.source[edges].tolist(),
        links.target[edges].tolist(),
        links.slot[edges].tolist(),
        strict=True,
    ):
        same = split_suffixes(nodes[source].name)[0] == nodes[target].name.strip()
        if slot == slot_of[target] and source != target and same:
            viewed[target] = source
    return viewed


def build_graph(
    draft: GraphDraft,
    builder: TraceBuilder,
    *,
    token: int,
    title: str,
    expects_views: bool,
) -> Graph:
    """Return the graph of a draft; problems become warnings of the builder.

    Parameters
    ----------
    draft : is used up: nodes are repaired in place.
    token, title : see `Graph`.
    expects_views : whether edges to nodes that the file does not declare are usual
        for its writer.
    """
    links = resolve(draft)
    nodes = draft.nodes
    _note_links(builder, nodes, links, expects_views=expects_views)
    _note_repair(builder, nodes, restore(nodes, links))
    op = np.array([op_number(n.operation) for n in nodes], np.int16)
    is_leaf = _leaves(nodes, links)
    op[is_leaf] = -1
    layer = _layers(builder, nodes)
    flags = np.array([n.flags for n in nodes], np.uint8)
    flags[is_leaf] |= np.uint8(NodeFlag.LEAF)
    flags[_shared(layer, is_leaf, links)] |= np.uint8(NodeFlag.SHARED)
    strings = builder.strings
    return Graph(
        name=_ids(builder, [n.name for n in nodes]),
        op=op,
        tensor=np.full(len(nodes), -1, np.int32),
        layer=layer,
        source=links.source.astype(np.int32),
        target=links.target.astype(np.int32),
        slot=links.slot.astype(np.uint8),
        operation=_ids(builder, [n.operation for n in nodes]),
        dtype=_ids(builder, [n.dtype for n in nodes]),
        shape=_shapes(nodes, is_leaf),
        category=np.array([category_of(n) for n in nodes], np.uint8),
        flags=flags,
        address=np.array([n.address for n in nodes], np.uint64),
        token=token,
        title=strings[strings.intern(title)],
    )


def category_of(node: Node) -> int:
    """Return what a node belongs to, `NodeCategory`.

    What the file states wins. Else by the rule of the tracer's own exporter, so
    that a DOT file and the JSON made from it agree: looking up rows is input, then
    the first word found in the name decides. KV caches and the embedding table are
    "other" under it.
    """
    if node.category >= 0:
        return node.category
    name = node.name
    if op_name(node.operation) == "GET_ROWS" or name.startswith("inp_"):
        return NodeCategory.INPUT
    if _ATTENTION.search(name):
        return NodeCategory.ATTENTION
    if "ffn" in name:
        return NodeCategory.FFN
    if "norm" in name:
        return NodeCategory.NORM
    if "output" in name:
        return NodeCategory.OUTPUT
    return NodeCategory.OTHER


def _leaves(nodes: list[Node], links: Links) -> Bools:
    """Return which nodes are constants or inputs.

    Those that the file calls so; and, where it says nothing of their operation,
    those that no edge leads to.
    """
    is_const = np.array([n.operation == LEAF_OPERATION for n in nodes], np.bool_)
    is_silent = np.array([not n.operation for n in nodes], np.bool_)
    is_declared = np.array([not n.flags & NodeFlag.UNDECLARED for n in nodes], np.bool_)
    has_sources = np.zeros(len(nodes), np.bool_)
    has_sources[links.target] = True
    return np.asarray(is_const | (is_silent & is_declared & ~has_sources))


def _layers(builder: TraceBuilder, nodes: list[Node]) -> Array:
    """Return the layer of each node: by its name, else as the file states."""
    result = np.full(len(nodes), -1, np.int16)
    counted = contradicted = 0
    for i, node in enumerate(nodes):
        named = layer_of(node.name)
        stated = node.layer if 0 <= node.layer <= _MAX_LAYER else -1
        if named < 0 <= stated and normalise(node.name).startswith(_COUNTED_NAMES):
            counted += 1
            stated = -1
        contradicted += named >= 0 and stated >= 0 and named != stated
        result[i] = named if named >= 0 else stated
    builder.warn(
        Severity.NOTICE,
        "layer_from_count",
        "nodes named node_N or leaf_N have N as their layer; N is only a "
        "node index, so their layer is left empty.",
        count=counted,
    )
    builder.warn(
        Severity.NOTICE,
        "layer_mismatch",
        "layer does not match the node name; using the name.",
        count=contradicted,
    )
    return result


def _shared(layer: Array, is_leaf: Bools, links: Links) -> Bools:
    """Return the inputs that several layers use, directly or made ready by other ops.

    A mask that is cast once for all layers is shared, and so is its cast.
    """
    n = len(layer)
    is_loop = links.source == links.target
    source, target = links.source[~is_loop], links.target[~is_loop]
    prepares = is_leaf & (layer < 0)
    for _ in range(_ROUNDS):
        depends = np.zeros(n, np.bool_)
        depends[target[~prepares[source]]] = True
        has_sources = np.zeros(n, np.bool_)
        has_sources[target] = True
        grown = prepares | ((layer < 0) & has_sources & ~depends)
        if (grown == prepares).all():
            break
        prepares = grown
    of_input = prepares[source]
    source, target = source[of_input], target[of_input]
    direct = layer[target] >= 0
    reach = _pairs(source[direct], layer[target[direct]])
    inner_source, inner_target = source[~direct], target[~direct]
    for _ in range(_ROUNDS):
        # Whatever layers a prepared input reaches, its own sources reach too.
        first = np.searchsorted(reach[:, 0], inner_target)
        n_layers = np.searchsorted(reach[:, 0], inner_target, "right") - first
        rows = np.repeat(first - np.cumsum(n_layers) + n_layers, n_layers)
        rows += np.arange(len(rows))
        grown_reach = _pairs(
            np.concatenate([reach[:, 0], np.repeat(inner_source, n_layers)]),
            np.concatenate([reach[:, 1], reach[rows, 1]]),
        )
        if len(grown_reach) == len(reach):
            break
        reach = grown_reach
    return np.asarray(np.bincount(reach[:, 0], minlength=n) >= 2)


def _pairs(node: Array, layer: Array) -> I64:
    """Return the distinct (node, layer) pairs in order, int64[k, 2]."""
    both = node.astype(np.int64) * (1 << 16) + layer.astype(np.int64)
    distinct = np.unique(both)
    return np.column_stack([distinct >> 16, distinct & 0xFFFF])


def _shapes(nodes: list[Node], is_leaf: Bools) -> I64:
    """Return the dimensions, 0 where the file does not state it.

    ggml prints two dimensions of a node that is a matrix and else three; of a leaf
    always two, however many it has.
    """
    result = np.zeros((len(nodes), 4), np.int64)
    for i, (node, leaf) in enumerate(zip(nodes, is_leaf.tolist(), strict=True)):
        shape = node.shape[:4]
        result[i, : len(shape)] = shape
        if len(shape) == 2 and not leaf:
            result[i, 2:] = 1
    return result


def _ids(builder: TraceBuilder, texts: list[str]) -> Array:
    """Return string ids, -1 for empty texts."""
    intern = builder.strings.intern
    return np.array([intern(t) if t else -1 for t in texts], np.int32)


def _note_links(
    builder: TraceBuilder, nodes: list[Node], links: Links, *, expects_views: bool
) -> None:
    if links.n_undeclared:
        builder.warn(
            Severity.INFO if expects_views else Severity.NOTICE,
            "undeclared_node",
            "edges refer to undeclared nodes; these are shown by id as "
            "dangling ends and not counted as nodes.",
            count=links.n_undeclared,
            place=f"edges[{links.first_undeclared}]",
        )
    loops = np.flatnonzero(links.source == links.target)
    if len(loops):
        builder.warn(
            Severity.INFO,
            "self_loop",
            "edges lead from a node to itself (ggml writes them for casts).",
            count=len(loops),
            place=_place(nodes, int(links.target[loops[0]])),
        )
    is_clear = is_acyclic(len(nodes), links)
    if not is_clear.all():
        builder.warn(
            Severity.NOTICE,
            "cycle",
            "nodes form or depend on a cycle; there is no valid execution "
            "order for them.",
            count=int(np.count_nonzero(~is_clear)),
            place=_place(nodes, int(np.argmin(is_clear))),
        )


def _note_repair(builder: TraceBuilder, nodes: list[Node], repair: NameRepair) -> None:
    if not repair.n_names:
        return
    builder.warn(
        Severity.INFO,
        "type_was_suffix",
        "the exporter wrote a name suffix as the type of some nodes; the name "
        "was restored and the type inferred from the viewed node.",
        count=repair.n_names,
        place=_place(nodes, repair.first),
    )
    builder.warn(
        Severity.NOTICE,
        "unknown_type",
        "unknown node types: the file has a name suffix in their place "
        "and no viewed node.",
        count=repair.n_unknown_types,
    )


def _place(nodes: list[Node], row: int) -> str:
    return f"nodes[{row}] ({nodes[row].name.strip()[:64]})"


def title_of(path: Path, stated: object = None) -> tuple[int, str]:
    """Return (token, title) of a graph file.

    Parameters
    ----------
    stated : what the file says its token is; wins over the name of the file.

    Returns
    -------
    Token -1 and the file's name where neither states one.
    """
    token = -1
    number = integer_of(stated)
    if number is not None:
        token = number if 0 <= number <= _MAX_TOKEN else -1
    elif match := _TOKEN_NAME.search(path.stem):
        token = int(match[1])
    return token, f"token {token}" if token >= 0 else path.name
