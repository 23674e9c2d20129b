"""Values that are made once per trace and cached as long as it lives."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.model.trace import Trace

_T = TypeVar("_T")


def once(make: Callable[[Trace], _T]) -> Callable[[Trace], _T]:
    """Return a function that makes its value once per trace."""
    cache: DerivedCache[Trace, _T] = DerivedCache(f"{make.__module__}.{make.__name__}")

    @wraps(make)
    def value(trace: Trace) -> _T:
        cached = cache.get(trace)
        if cached is None:
            cached = cache[trace] = make(trace)
        return cached

    return value
