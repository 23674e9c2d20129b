"""Insides of open layers, and the level of everything that lies around them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph_drawn import Drawn, Items
from ggscope.analysis.graph_place import Placed, place
from ggscope.analysis.graph_ranks import BOTTOM, FREE, TOP
from ggscope.analysis.graph_rows import F64, Level
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64

NODE_SIZE = (164.0, 40.0)
INPUT_SIZE = (140.0, 24.0)
LAYER_SIZE = (236.0, 46.0)
FRAME_PAD = 14.0
FRAME_HEAD = 28.0
"""Space above the first row of a frame, for its title."""
_MIN_FRAME_WIDTH = 260.0
_INPUT_WEIGHT = 0.02
"""Inputs follow the ops that they feed, not the other way round."""
_SPINE_WEIGHT = 20.0
"""From one layer to the next: the main line of the picture."""
Cache = dict[bytes, Placed]
"""Insides of frames by their `Level.key`; belongs to one caller."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The inside of an open layer.

    Attributes
    ----------
    members : int64[k], drawn nodes inside.
    placed : members first, then ports for what comes in and what goes out.
    came, went : drawn nodes whose values come in (from outside) and go out.
    edge, hop : drawn edges with at least one end inside, and which edge of `placed`
        is their part in here.
    arrives : bool[p], edges of `placed` that end at a member, not at the border.
    """

    members: I64
    placed: Placed
    came: I64
    went: I64
    edge: I64
    hop: I64
    arrives: npt.NDArray[np.bool_]

    @property
    def width(self) -> float:
        """Width of the frame with its padding."""
        return max(self.placed.width + 2 * FRAME_PAD, _MIN_FRAME_WIDTH)

    @property
    def height(self) -> float:
        """Height of the frame; lines that go out end at its lower edge."""
        return self.placed.height + (0.0 if len(self.went) else FRAME_PAD)

    @property
    def inset(self) -> float:
        """How far inside the frame `placed` begins, from the left."""
        return (self.width - self.placed.width) / 2

    def port_x(self, node: int, *, incoming: bool) -> float:
        """Return where a value crosses the border, from the frame's middle."""
        ports = self.came if incoming else self.went
        port = len(self.members) + int(np.searchsorted(ports, node))
        port += 0 if incoming else len(self.came)
        return float(self.placed.x[port]) + self.inset - self.width / 2


def node_sizes(is_input: npt.NDArray[np.bool_]) -> tuple[F64, F64]:
    """Return width and height of the boxes of nodes."""
    width = np.where(is_input, INPUT_SIZE[0], NODE_SIZE[0])
    return width, np.where(is_input, INPUT_SIZE[1], NODE_SIZE[1])


def frame_of(
    drawn: Drawn, items: Items, item: int, cache: Cache, watcher: Watcher | None
) -> Frame:
    """Return the inside of an open layer; from the cache where one alike is known."""
    members = items.members[item]
    local = np.full(len(drawn.row), -1, np.int64)
    local[members] = np.arange(len(members))
    here = items.of_node == item
    from_here, to_here = here[drawn.source], here[drawn.target]
    edge = np.flatnonzero(from_here | to_here)
    source, target = drawn.source[edge], drawn.target[edge]
    comes, goes = ~from_here[edge], ~to_here[edge]
    came, went = np.unique(source[comes]), np.unique(source[goes])
    first_in, first_out = len(members), len(members) + len(came)
    begin = np.where(comes, first_in + np.searchsorted(came, source), local[source])
    end = np.where(goes, first_out + np.searchsorted(went, source), local[target])
    n = first_out + len(went)
    pairs, hop = np.unique(begin * n + end, return_inverse=True)
    width, height = node_sizes(drawn.is_input[members])
    begins = pairs // n if n else pairs
    feeds = np.concatenate([drawn.is_input[members], drawn.is_input[came]])
    ports = np.zeros(n - first_in)
    level = Level(
        np.concatenate([width, ports]),
        np.concatenate([height, ports]),
        begins,
        pairs % n if n else pairs,
        np.zeros(len(pairs)),
        np.zeros(len(pairs)),
        np.where(feeds[begins], _INPUT_WEIGHT, 1.0),
        np.zeros(len(pairs), np.bool_),
        np.repeat([FREE, TOP, BOTTOM], [len(members), len(came), len(went)]),
        np.concatenate([drawn.is_input[members], ports > 0]),
    )
    key = level.key()
    placed = cache.get(key)
    if placed is None:
        placed = cache[key] = place(level, FRAME_HEAD, watcher)
    arrives = level.target < first_out
    return Frame(members, placed, came, went, edge, hop.reshape(-1), arrives)


def outer_level(
    drawn: Drawn, items: Items, frames: dict[int, Frame]
) -> tuple[Level, I64, I64]:
    """Return the level of all items.

    Returns
    -------
    The level, the drawn edges that lead from item to item, and which of the level's
    edges each of them is.
    """
    begin, end = items.of_node[drawn.source], items.of_node[drawn.target]
    edge = np.flatnonzero(begin != end)
    begin, end, value = begin[edge], end[edge], drawn.source[edge]
    # Lines from one closed box are one line, whatever it carries.
    is_frame = np.isin(np.arange(len(items.layer)), list(frames))
    carried = np.where(is_frame[begin] | is_frame[end], value, -1)
    rows = np.stack([begin, end, carried], 1).astype(np.int64)
    distinct, hop = np.unique(rows, axis=0, return_inverse=True)
    hop = hop.reshape(-1)
    leave = np.array(
        [_port(frames, int(a), int(v), incoming=False) for a, _, v in distinct],
        np.float64,
    )
    enter = np.array(
        [_port(frames, int(b), int(v), incoming=True) for _, b, v in distinct],
        np.float64,
    )
    begins, ends = distinct[:, 0], distinct[:, 1]
    alone = items.node >= 0
    is_input = alone & drawn.is_input[np.maximum(items.node, 0)]
    width, height = _item_sizes(items, is_input, frames)
    next_layer = (items.layer[begins] >= 0) & (
        items.layer[ends] == items.layer[begins] + 1
    )
    weight = np.where(next_layer, _SPINE_WEIGHT, 1.0)
    weight = np.where(is_input[begins], _INPUT_WEIGHT, weight)
    pinned = np.full(len(items.layer), FREE, np.int64)
    level = Level(
        width, height, begins, ends, leave, enter, weight, next_layer, pinned, is_input
    )
    return level, edge, hop


def _port(frames: dict[int, Frame], item: int, value: int, *, incoming: bool) -> float:
    frame = frames.get(item)
    return 0.0 if frame is None else frame.port_x(value, incoming=incoming)


def _item_sizes(
    items: Items, is_input: npt.NDArray[np.bool_], frames: dict[int, Frame]
) -> tuple[F64, F64]:
    width, height = node_sizes(is_input)
    width[items.layer >= 0], height[items.layer >= 0] = LAYER_SIZE
    for item, frame in frames.items():
        width[item], height[item] = frame.width, frame.height
    return width, height


__all__ = [
    "FRAME_HEAD",
    "FRAME_PAD",
    "Cache",
    "Frame",
    "frame_of",
    "node_sizes",
    "outer_level",
]
