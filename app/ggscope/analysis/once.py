"""Values that are made once per trace and kept as long as it."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from ggscope.model.trace import Trace

_T = TypeVar("_T")


def once(make: Callable[[Trace], _T]) -> Callable[[Trace], _T]:
    """Return a function that makes its value once per trace."""
    kept: WeakKeyDictionary[Trace, _T] = WeakKeyDictionary()

    @wraps(make)
    def value(trace: Trace) -> _T:
        found = kept.get(trace)
        if found is None:
            found = kept[trace] = make(trace)
        return found

    return value
