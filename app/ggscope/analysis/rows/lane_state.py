"""What the user did to the lanes, as JSON: for settings and for command lines."""

from ggscope.analysis.rows.lanes import LaneState


def lane_state_data(state: LaneState) -> dict[str, object]:
    """Return `state` as JSON takes it, without what is as by default."""
    data: dict[str, object] = {}
    if state.collapsed is not None:
        data["collapsed"] = sorted(state.collapsed)
    if state.hidden:
        data["hidden"] = sorted(state.hidden)
    for name in ("pinned", "order"):
        if keys := getattr(state, name):
            data[name] = list(keys)
    if state.heights:
        data["heights"] = [list(pair) for pair in state.heights]
    if state.names:
        data["names"] = [list(pair) for pair in state.names]
    return data


def read_lane_state(data: object) -> LaneState:
    """Return the inverse of `lane_state_data`.

    Raises
    ------
    ValueError, TypeError
        If anything does not fit.
    """
    if not isinstance(data, dict):
        raise TypeError(data)

    def texts(name: str) -> tuple[str, ...]:
        part = data.get(name, [])
        if not isinstance(part, list) or any(not isinstance(t, str) for t in part):
            raise ValueError(name)
        return tuple(part)

    heights = tuple((str(key), float(n)) for key, n in data.get("heights", ()))
    if any(not 0.1 <= factor <= 20 for _, factor in heights):
        raise ValueError("heights")
    is_default = data.get("collapsed") is None
    return LaneState(
        collapsed=None if is_default else frozenset(texts("collapsed")),
        hidden=frozenset(texts("hidden")),
        pinned=texts("pinned"),
        order=texts("order"),
        heights=heights,
        names=tuple((str(key), str(name)) for key, name in data.get("names", ())),
    )
