"""ggscope: a native viewer for inference traces."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ggscope.api import figure, open, table  # noqa: A004 - users write ggscope.open

__version__ = "0.1.0"
__all__ = ["__version__", "figure", "open", "table"]


def __getattr__(name: str) -> object:
    # Only who opens a trace waits for numpy: ``ggscope --version`` needs neither.
    if name in ("figure", "open", "table"):
        from ggscope import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
