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


_NAMES = ("ggscope-warm-up", "ggscope-import", "ggscope-memory")
_LEAVE_SECONDS = 3.0
_is_leaving = threading.Event()


def warm_up() -> threading.Thread:
    """Import views and readers on a thread of its own; return it.

    Modules only: nothing of Qt is made. Whoever needs a module that is just being
    imported waits for it, and not longer than the import would take anyway.
    """
    _is_leaving.clear()
    thread = threading.Thread(target=_import_all, name=_NAMES[0], daemon=True)
    thread.start()
    return thread


def wait_for_imports() -> None:
    """Let threads that import come to an end, before the program does.

    An interpreter that ends while another thread imports a module of Qt may crash or
    wait for ever.
    """
    _is_leaving.set()
    for thread in threading.enumerate():
        if thread.name in _NAMES:
            thread.join(_LEAVE_SECONDS)


def _import_all() -> None:
    views = [entry.target.partition(":")[0] for entry in BUILTIN]
    try:
        for name in (*views, *_ON_DEMAND):
            if _is_leaving.is_set():
                return
            importlib.import_module(name)
        from ggscope.readers.registry import readers

        readers()
    except Exception:
        # Whoever needs it will say so; here it is only too early.
        logger.debug("warm-up ended early", exc_info=True)


__all__ = ["wait_for_imports", "warm_up"]
