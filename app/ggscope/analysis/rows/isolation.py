"""The filter that leaves one category of a colouring."""

from ggscope.analysis.rows.categories import (
    MAX_TOKENS,
    NONE,
    category_of_key,
    engine_of,
    lanes_of_backend,
    launcher_of_key,
)
from ggscope.analysis.rows.colorings import coloring, load
from ggscope.model.selection import ColorBy
from ggscope.model.tokens import numbers_per_phase
from ggscope.model.trace import Trace

Values = frozenset[str] | frozenset[int]
Isolation = tuple[str, Values]
"""A field of `Filter` and its value; ("", empty) where no filter isolates."""
NO_ISOLATION: Isolation = ("", frozenset())


def isolating(
    trace: Trace, by: ColorBy, key: str, *, is_shared: bool = False
) -> Isolation:
    """Return (field of the filter, its value) that leaves one category.

    Parameters
    ----------
    is_shared : whether every 4096th lane has the same colour.

    Returns
    -------
    ("", empty) where no filter does: spans without an op, colours from the file,
    spans that access two kinds of memory, several or unknown experts. A filter by one
    expert also leaves spans that read others besides.
    """
    known = coloring(by)
    if key == NONE:
        if not known.filters_none:
            return NO_ISOLATION
        return known.filter_field, frozenset({-1})
    if known.isolation:
        isolation: Isolation = load(known.isolation)(trace, key, is_shared)
        return isolation
    value = key.partition(":")[2]
    if not known.filter_field or not value.isdecimal():
        return NO_ISOLATION
    return known.filter_field, frozenset({int(value)})


def _isolation_by_name(field: str, key: str) -> Isolation:
    return NO_ISOLATION if ":" in key else (field, frozenset({key}))


def op_isolation(_: Trace, key: str, _shared: bool) -> Isolation:
    """Return the isolation of an op by its name."""
    return _isolation_by_name("ops", key)


def family_isolation(trace: Trace, key: str, _: bool) -> Isolation:
    """Return the isolation of a family, or of an engine by the names of its lanes."""
    kind, _colon, value = key.partition(":")
    if kind != "engine":
        return _isolation_by_name("families", key)
    engines = trace.lanes.names_of(trace.lanes.is_engine)
    # A hundred thousand engines differ in the numbers behind their kind.
    kinds = {name: engine_of(name) for name in {x.partition(" ")[0] for x in engines}}
    return "threads", frozenset(
        x for x in engines if kinds[x.partition(" ")[0]] == value
    )


def call_isolation(trace: Trace, key: str, _shared: bool) -> Isolation:
    """Return the isolation of a category; none of calls that failed."""
    category = category_of_key(trace, key)
    if not category:
        return NO_ISOLATION
    return "groups", frozenset({f"category:{category}"})


def launcher_isolation(trace: Trace, key: str, _shared: bool) -> Isolation:
    """Return the isolation of what an op launched."""
    launcher = launcher_of_key(trace, key)
    if not launcher:
        return NO_ISOLATION
    return "groups", frozenset({f"launcher:{launcher}"})


def token_isolation(trace: Trace, key: str, _: bool) -> Isolation:
    """Return the isolation of a token; none where numbers recur per phase."""
    if numbers_per_phase(trace):
        return NO_ISOLATION  # it takes two fields, token and phase
    # With very many tokens every 4096th has the same colour.
    first = int(key.partition(":")[2])
    column = trace.spans.token
    last = first if column is None else int(column.max(initial=-1))
    return "tokens", frozenset(range(first, last + 1, MAX_TOKENS))


def thread_isolation(trace: Trace, key: str, is_shared: bool) -> Isolation:
    """Return the isolation of a lane by its name."""
    names = trace.lanes.names[int(key.partition(":")[2]) :: MAX_TOKENS]
    return "threads", frozenset(names if is_shared else names[:1])


def backend_isolation(trace: Trace, key: str, _: bool) -> Isolation:
    """Return the isolation of a backend by the names of its lanes."""
    return "threads", frozenset(lanes_of_backend(trace, key.partition(":")[2]))
