"""Import what the window will need, a part in each turn of its event loop.

On the main thread only: PySide makes a class of Qt when it is first named, and two
threads that do so at once end the process (6.11). What many modules need is imported
before them, so that no turn takes long.

What importing made lives as long as the program. Looking for garbage in it would take
longer than in all that a tab holds, so it is set apart before there is a tab.
"""

import gc
import importlib
import linecache
import logging
import sys
from collections import deque
from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject

from ggscope.views.base.view import later
from ggscope.views.registry import BUILTIN

logger = logging.getLogger(__name__)

TAB = (
    "numpy",
    "numpy.ma",  # np.unique asks for it
    "ggscope.model.tables",
    "ggscope.model.tensors",
    "ggscope.model.storage",
    "ggscope.model.graph",
    "ggscope.model.run",
    "ggscope.model.trace",
    "ggscope.readers.api",
    "ggscope.analysis.filters.text",
    "ggscope.native.library",
    "ggscope.analysis.sessions.correlate",
    "ggscope.analysis.reads.op_io",
    "ggscope.analysis.reads.weights",
    "ggscope.analysis.reads.file_blocks",
    "ggscope.analysis.statistics.grouping",
    "ggscope.analysis.filters.masks",
    "ggscope.analysis.rows.columns",
    "ggscope.analysis.rows.categories",
    "ggscope.analysis.rows.lanes",
    "ggscope.analysis.rows.index",
    "ggscope.analysis.completeness.expected",
    "ggscope.session.linking",
    "ggscope.analysis.summary.bars",
    "ggscope.analysis.sessions.mapping",
    "ggscope.session.navigator",
    "ggscope.session.session",
    "ggscope.session.loader",
    "ggscope.views.base.widgets",
    "ggscope.gui.panes.workspace",
    "ggscope.descriptions.spans",
    "ggscope.analysis.sessions.concatenate",
    "ggscope.descriptions.files",
    "ggscope.gui.status",
    "ggscope.gui.toolbar",
    "ggscope.gui.document",
    "ggscope.render.timeline.scene",
    "ggscope.render.timeline.rows",
    "ggscope.render.timeline.marks",
    "ggscope.render.timeline.compose",
    "ggscope.render.painter",
    "ggscope.render.export",
    "ggscope.views.base.canvas",
    "ggscope.views.overview",
    "ggscope.views.timeline.view",
)
"""What the first tab is made of, and before that what each of these needs."""
_SUMMARY = (
    "ggscope.analysis.reads.hotness",
    "ggscope.analysis.statistics.table",
    "msgspec",
    "ggscope.analysis.summary.machine",
    "ggscope.analysis.summary.threads",
    "ggscope.analysis.summary.summary",
    "ggscope.descriptions.tensors",
    "ggscope.descriptions.tokens",
    "ggscope.descriptions.summary",
    "ggscope.views.base.summary_panel",
)
_PARTS = {
    "ggscope.views.summary": _SUMMARY,
    "ggscope.views.threads.view": (
        "ggscope.views.base.text_table",
        "ggscope.descriptions.tokens",
        "ggscope.descriptions.threads",
    ),
    "ggscope.views.tokens": ("ggscope.render.tokens",),
    "ggscope.views.npu.view": (
        "ggscope.analysis.npu.facts",
        "ggscope.render.npu.addresses",
    ),
    "ggscope.views.details.view": (
        *_SUMMARY,
        "ggscope.analysis.graph.layered",
        "ggscope.analysis.graph.layout",
        "ggscope.descriptions.nodes",
        "ggscope.entities.tensor",
        "ggscope.entities.wait",
        "ggscope.entities.registry",
        "ggscope.live.source",
        "ggscope.descriptions.live",
        "ggscope.views.details.access_cards",
    ),
    "ggscope.views.table.view": (
        "ggscope.analysis.order.table_order",
        "ggscope.views.base.cells",
        "ggscope.views.table.delegate",
    ),
    "ggscope.views.heatmap.view": (
        "ggscope.render.heatmap.scene",
        "ggscope.render.heatmap.compose",
        "ggscope.analysis.reads.what_if",
        "ggscope.descriptions.reads",
    ),
    "ggscope.views.statistics.view": (
        "ggscope.analysis.statistics.table",
        "ggscope.render.charts",
        "ggscope.render.statistics",
        "ggscope.views.statistics.histogram",
    ),
    "ggscope.views.compare.view": (
        "ggscope.analysis.compare.compare",
        "ggscope.descriptions.compare",
        "ggscope.views.compare.charts",
        "ggscope.views.compare.timelines",
    ),
    "ggscope.views.points.view": ("ggscope.render.points",),
    "ggscope.views.graph.view": (
        "ggscope.analysis.graph.layout",
        "ggscope.render.graph.compose",
        "ggscope.views.graph.interaction",
    ),
    "ggscope.views.tensors.view": (
        "ggscope.views.base.tree_table",
        "ggscope.render.model_map",
    ),
    "ggscope.views.bench": (
        "ggscope.analysis.bench.comparison",
        "ggscope.render.bench",
    ),
    "ggscope.views.load": ("ggscope.analysis.load.facts", "ggscope.render.load"),
    "ggscope.views.experts.view": ("ggscope.analysis.experts.figures",),
    "ggscope.views.buffers.view": ("ggscope.render.buffers",),
    "ggscope.views.console": ("psutil", "ggscope.live.launcher"),
}
"""What modules of panes import that takes a turn of its own."""
_SOON = (
    "ggscope.readers.memory",
    "ggscope.session_loading",
    "ggscope.views.timeline.tooltips",
    "ggscope.views.timeline.context_menu",
)
REST_MS = 10
"""Between two turns of work that nobody waits for: the window has its own."""


def spare_sources() -> None:
    """Keep PySide from reading the source of every module that is imported.

    It looks for its own name there, to know where "features" may be switched on: one
    of ten seconds of importing, and 17 MB, since Python keeps the text of what was
    read. What asks for features gets them all the same. Does nothing where PySide goes
    another way.
    """
    feature = sys.modules.get("PySide6.support.feature")
    if hasattr(feature, "_mod_uses_pyside"):
        vars(feature)["_mod_uses_pyside"] = lambda _: True
    linecache.clearcache()


def import_tab(owner: QObject, then: Callable[[], object]) -> None:
    """Import what the first tab needs, then call `then`; never if `owner` goes."""

    def go_on() -> None:
        gc.freeze()
        then()

    _import_next(owner, deque(TAB), 0, go_on)


def import_ahead(owner: QObject, had_tabs: Callable[[], bool]) -> None:
    """Import tabs, panes and readers while nothing else is to be done.

    What importing made is set apart unless there was a tab: of one that was closed, a
    worker may still hold something, which would then never go.
    """

    def go_on() -> None:
        from ggscope.readers import registry

        names = deque(path.partition(":")[0] for path in registry.BUILTIN)
        _import_next(owner, names, REST_MS, end)

    def end() -> None:
        from ggscope.readers import registry

        # Plug-ins have threads of their own: nobody knows how long they take.
        registry.infos(waits=False)
        if not had_tabs():
            gc.freeze()

    views = (n for e in BUILTIN for n in (*_PARTS.get(e.module, ()), e.module))
    _import_next(owner, deque([*TAB, *views, *_SOON]), REST_MS, go_on)


def next_part(module: str) -> str:
    """Return what is to be imported next for a module, itself at last; "" = nothing."""
    names = (*_PARTS.get(module, ()), module)
    return next((name for name in names if name not in sys.modules), "")


def import_one(name: str) -> bool:
    """Import a module and return whether that worked; whoever needs it says why not."""
    try:
        importlib.import_module(name)
    except Exception:
        logger.debug("%s cannot be imported", name, exc_info=True)
        return False
    return True


def _import_next(
    owner: QObject, names: deque[str], rest_ms: int, then: Callable[[], object]
) -> None:
    """Import the next module that is not there yet, and the others in later turns."""
    while names:
        name = names.popleft()
        if name not in sys.modules:
            import_one(name)
            later(owner, partial(_import_next, owner, names, rest_ms, then), rest_ms)
            return
    then()
