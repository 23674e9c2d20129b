"""ggscope: a native viewer for inference traces.

In Python: ``trace = ggscope.open("trace.bin")``, then ``ggscope.summary(trace)``,
``ggscope.stats(trace)``, ``ggscope.compare(trace, other)``,
``ggscope.table(trace)``, ``ggscope.accesses(trace)`` and ``ggscope.figure(trace)``.
All errors derive from ``ggscope.TraceError``.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ggscope.api import (
        accesses,
        compare,
        figure,
        open,  # noqa: A004 - users write ggscope.open
        stats,
        summary,
        table,
    )
    from ggscope.errors import (
        ExportError,
        QueryError,
        ReadError,
        TooLargeError,
        TraceError,
    )

__version__ = "0.2.0"
__all__ = [
    "ExportError",
    "QueryError",
    "ReadError",
    "TooLargeError",
    "TraceError",
    "__version__",
    "accesses",
    "compare",
    "figure",
    "open",
    "stats",
    "summary",
    "table",
]


def __getattr__(name: str) -> object:
    # Imported on first use: ``ggscope --version`` needs no numpy.
    if name.startswith("_") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = "errors" if name.endswith("Error") else "api"
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
