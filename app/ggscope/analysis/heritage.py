"""What of an index stays true when names and accesses are added to a trace."""

from collections.abc import Callable, Hashable

from ggscope.model.selection import ColorBy
from ggscope.model.trace import Trace

_NEEDS: dict[ColorBy, tuple[str, ...]] = {
    "family": ("op", "color"),
    "op": ("op",),
    "layer": ("layer",),
    "token": ("token",),
    "thread": (),
    "backend": (),
    "quality": ("flags",),
}
"""Columns that a colouring looks at; the others look at names or accesses too."""


def stays(
    old: Trace, new: Trace, is_plain: Callable[[str], bool]
) -> Callable[[Hashable], bool]:
    """Return what tells of a key of `TraceIndex`'s cache whether its value stays.

    Parameters
    ----------
    is_plain : tells whether a timeline lane, by its key, shows lanes of the trace
        (not spans by layer or op).

    Notes
    -----
    Only columns that are the very same arrays count as unchanged: telling more
    would cost as much as computing anew.
    """

    def same(*names: str) -> bool:
        return all(getattr(old.spans, n) is getattr(new.spans, n) for n in names)

    n_lanes = len(old.lanes)  # side files bring lanes of their own, behind the others
    if not same("start", "end", "lane") or not new.lanes.begins_with(old.lanes):
        return lambda _: False
    ops_stay = old.ops == new.ops
    colorings = {by for by, needs in _NEEDS.items() if ops_stay and same(*needs)}

    def check(key: Hashable) -> bool:
        match key:
            case "order":
                return True
            case ("groups", "lane"):
                return len(new.lanes) == n_lanes
            case ("rows" | "overlay", str(lane)):
                return is_plain(lane)
            case ("columns", str(by), str(lane)):
                return by in colorings and is_plain(lane)
            case ("categories", str(by)):
                return by in colorings
        return False

    return check


__all__ = ["stays"]
