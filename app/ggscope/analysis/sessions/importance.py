"""Whether an importance matrix is of the model of a session."""

from dataclasses import replace

import numpy as np

from ggscope.analysis.sessions.problems import imatrix_misfit
from ggscope.model.trace import Trace

_FITS_FROM = 0.5
"""Share of the entries whose tensor the model has, of the same width."""


def checked_importance(trace: Trace) -> Trace:
    """Return the trace without an importance matrix that is of another model.

    An entry fits where the model has a tensor of its name and, if both have it, of its
    width. Without a list of the model's tensors nothing can be held against it.
    """
    importance, tensors = trace.importance, trace.tensors
    if importance is None or not any(m.data_offset >= 0 for m in trace.models):
        return trace
    rows = {
        trace.strings[name]: row
        for row, name in enumerate(tensors.name.tolist())
        if name >= 0
    }
    unknown: list[str] = []
    unlike: list[tuple[str, int, int]] = []
    for i, name in enumerate(importance.names):
        row = rows.get(name)
        if row is None:
            unknown.append(name)
            continue
        width = (
            None if tensors.shape is None else int(np.asarray(tensors.shape)[row, 0])
        )
        known = importance.is_split[i] or "_exps." not in name
        stated = int(importance.n_values[i]) // int(importance.n_matrices[i])
        if width and known and width != stated:
            unlike.append((name, stated, width))
    n_fitting = len(importance) - len(unknown) - len(unlike)
    if n_fitting >= _FITS_FROM * len(importance):
        return trace
    warning = imatrix_misfit(n_fitting, len(importance), unknown, unlike)
    return replace(trace, importance=None, warnings=(*trace.warnings, warning))
