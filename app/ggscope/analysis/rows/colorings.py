"""Colourings of spans, each declared once: categories, title, columns and filter.

Menu, toolbar, command line, legend, index and palette read `COLORINGS`. What makes the
categories is imported when a trace is coloured; this module needs neither numpy nor Qt.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ggscope.analysis.rows.categories import Categories
    from ggscope.model.tables import Array
    from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Coloring:
    """One way to colour spans.

    Functions are named ``module:name``, the module below ``ggscope.analysis.rows``.

    Attributes
    ----------
    id : as ``--color-by`` and the command ``color.<id>`` name it.
    title : what it colours by, for menu, toolbar and captions; lower case.
    categories : (trace) -> Categories.
    columns : columns of `Spans` from which alone they are made; None where names or
        accesses matter too.
    grows_by_appending : whether spans keep their colours when more are recorded.
    orders_by_count : whether the commonest category is the first, so that the order
        of a young trace still changes.
    is_ordered : whether keys ``<id>:<number>`` go through the hues by number.
    filter_field : the field of `Filter` that leaves one category; "" = none.
    filters_none : whether -1 in that field leaves the spans without a value.
    isolation : (trace, key, whether every 4096th lane shares a colour) -> Isolation,
        where the filter takes more than the value behind the colon of a key.
    available : (trace) -> whether it has what the colouring needs; "" = every trace.
    """

    id: str
    title: str
    categories: str
    columns: tuple[str, ...] | None = None
    grows_by_appending: bool = False
    orders_by_count: bool = False
    is_ordered: bool = False
    filter_field: str = ""
    filters_none: bool = False
    isolation: str = ""
    available: str = ""

    def categorize(self, trace: "Trace") -> "Categories":
        """Return the categories of `trace`; only what occurs gets a label."""
        categories: Categories = load(self.categories)(trace)
        return categories

    def is_available(self, trace: "Trace") -> bool:
        """Return whether `trace` has the data for it."""
        return not self.available or bool(load(self.available)(trace))


def load(target: str) -> Callable[..., Any]:
    """Import the module of ``module:name`` and return the function."""
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(
        import_module(f"ggscope.analysis.rows.{module}"), name
    )
    return function


def coloring(by: str) -> Coloring:
    """Return the colouring with an id. Raises KeyError for an unknown one."""
    for known in COLORINGS:
        if known.id == by:
            return known
    raise KeyError(by)


def coloring_ids() -> tuple[str, ...]:
    """Return the ids of all colourings; a trace may lack the data for some."""
    return tuple(known.id for known in COLORINGS)


def available_colorings(trace: "Trace") -> tuple[str, ...]:
    """Return the ids of the colourings that `trace` has the data for."""
    return tuple(known.id for known in COLORINGS if known.is_available(trace))


_LOOKED_AT = 100_000


def default_coloring(trace: "Trace") -> str:
    """Return what spans are coloured by unless the user chooses.

    The family of their op; the phase where there are neither ops nor engines, as in
    logs; where most ops belong to no family, the category if most spans have one, as
    with calls of CUDA or libraries of frames, and the op in other Chrome traces and
    profiles.
    Of a long trace some spans are looked at.
    """
    import numpy as np

    from ggscope.analysis.workers import chunks
    from ggscope.model.ggml.ops import family_of

    def is_any_known(values: "Array") -> bool:
        # The main thread asks: the first rows mostly answer it, of millions.
        return any((values[part] >= 0).any() for part in chunks(len(values)))

    first, by_call = PLAIN_COLORINGS[0], "category"
    category, op = trace.spans.category, trace.spans.op
    names_any = trace.ops is not None and trace.ops.id in ("chrome", "frames")
    if not len(op):
        return first
    phase = trace.spans.phase
    has_families = trace.lanes.is_engine.any() or is_any_known(op)
    if phase is not None and not has_families and is_any_known(phase):
        return "phase"
    if category is None and not names_any:
        return first
    step = max(len(op) // _LOOKED_AT, 1)
    ops, counts = np.unique(op[::step], return_counts=True)
    half = len(op[::step]) / 2
    has_family = [op >= 0 and family_of(trace.op_name(op)) != "other" for op in ops]
    if counts[has_family].sum() >= half:
        return first
    n_calls = 0 if category is None else np.count_nonzero(category[::step] >= 0)
    return by_call if n_calls > half else "op" if names_any else first


def is_ordered(kind: str) -> bool:
    """Return whether keys ``kind:<number>`` go through the hues by number."""
    return any(known.is_ordered for known in COLORINGS if known.id == kind)


COLORINGS: tuple[Coloring, ...] = (
    Coloring(
        id="family",
        title="op family",
        categories="categories:family_categories",
        columns=("op", "color"),
        grows_by_appending=True,
        filter_field="families",
        isolation="isolation:family_isolation",
    ),
    Coloring(
        id="op",
        title="op",
        categories="categories:op_categories",
        columns=("op",),
        grows_by_appending=True,
        orders_by_count=True,
        filter_field="ops",
        isolation="isolation:op_isolation",
    ),
    Coloring(
        id="layer",
        title="layer",
        categories="categories:layer_categories",
        columns=("layer",),
        grows_by_appending=True,
        is_ordered=True,
        filter_field="layers",
        filters_none=True,
    ),
    Coloring(
        id="token",
        title="token",
        categories="categories:token_categories",
        columns=("token",),
        is_ordered=True,
        filter_field="tokens",
        filters_none=True,
        isolation="isolation:token_isolation",
    ),
    Coloring(
        id="thread",
        title="thread",
        categories="categories:thread_categories",
        columns=(),
        grows_by_appending=True,
        is_ordered=True,
        filter_field="threads",
        isolation="isolation:thread_isolation",
    ),
    Coloring(
        id="phase",
        title="phase",
        categories="categories:phase_categories",
        grows_by_appending=True,
        filter_field="phases",
        filters_none=True,
    ),
    Coloring(
        id="source",
        title="memory source",
        categories="categories:source_categories",
        grows_by_appending=True,
        filter_field="spaces",
    ),
    Coloring(
        id="quality",
        title="timing quality",
        categories="categories:quality_categories",
        columns=("flags",),
        grows_by_appending=True,
        filter_field="qualities",
    ),
    Coloring(
        id="backend",
        title="backend",
        categories="categories:backend_categories",
        columns=(),
        grows_by_appending=True,
        is_ordered=True,
        filter_field="threads",
        isolation="isolation:backend_isolation",
        available="categories:has_backends",
    ),
    Coloring(
        id="expert",
        title="expert",
        categories="categories:expert_categories",
        is_ordered=True,
        filter_field="experts",
        available="categories:has_experts",
    ),
    Coloring(
        id="core",
        title="processor core",
        categories="categories:core_categories",
        columns=("core",),
        grows_by_appending=True,
        is_ordered=True,
        filter_field="cores",
        available="categories:has_cores",
    ),
    Coloring(
        id="category",
        title="category",
        categories="categories:call_categories",
        columns=("category", "color"),
        grows_by_appending=True,
        is_ordered=True,
        filter_field="groups",
        isolation="isolation:call_isolation",
        available="categories:has_calls",
    ),
    Coloring(
        id="launcher",
        title="launching op",
        categories="categories:launcher_categories",
        columns=("launcher",),
        is_ordered=True,
        filter_field="groups",
        isolation="isolation:launcher_isolation",
        available="categories:has_launchers",
    ),
)
"""All colourings, in the order of menus and choices."""
PLAIN_COLORINGS = tuple(c.id for c in COLORINGS if not c.available)
"""Ids of the colourings that every trace has, if only with one colour."""
