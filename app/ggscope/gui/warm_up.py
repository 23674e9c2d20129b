"""Imports what opening a file will need, while the person looks for one."""

import importlib
import logging
import threading

from ggscope.views.registry import BUILTIN

logger = logging.getLogger(__name__)

_ON_DEMAND = (
    "ggscope.readers.room",
    "ggscope.session.opening",
    "ggscope.views.timeline_tooltip",
    "ggscope.views.timeline_menus",
)


def warm_up() -> threading.Thread:
    """Import views and readers on a thread of its own; return it.

    Modules only: nothing of Qt is made. Whoever needs a module that is just being
    imported waits for it, and not longer than the import would take anyway.
    """
    thread = threading.Thread(target=_import_all, name="ggscope-warm-up", daemon=True)
    thread.start()
    return thread


def _import_all() -> None:
    views = [entry.target.partition(":")[0] for entry in BUILTIN]
    try:
        for name in (*views, *_ON_DEMAND):
            importlib.import_module(name)
        from ggscope.readers.registry import readers

        readers()
    except Exception:
        # Whoever needs it will say so; here it is only too early.
        logger.debug("warm-up ended early", exc_info=True)


__all__ = ["warm_up"]
