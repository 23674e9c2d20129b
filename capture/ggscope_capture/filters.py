"""What a tracer leaves out: its filters, as the sidecar of a recording states them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ggscope_capture.config import Settings

_LIVE = (
    "enabled", "ops", "layers", "threads", "sample_every", "op_timing",
    "thread_tracking",
)  # fmt: skip
"""What may change while a program runs."""
_FIXED = ("max_records", "ring_records", "overwrite")
_OUTPUTS = ("memory_tracking", "tensor_names")
"""What is left out when outputs are written."""


def all_of(settings: Settings) -> dict[str, Any]:
    """Return every setting of the tracer that leaves something out, as JSON."""
    return {name: _json(getattr(settings, name)) for name in (*_LIVE, *_FIXED)}


def live_of(settings: Settings) -> dict[str, Any]:
    """Return those that may change while a program runs."""
    return {name: _json(getattr(settings, name)) for name in _LIVE}


def outputs_of(settings: Settings) -> dict[str, Any]:
    """Return those that leave something out of the outputs."""
    return {name: _json(getattr(settings, name)) for name in _OUTPUTS}


def live_of_page(control: Any, ops: Mapping[str, int]) -> dict[str, Any]:
    """Return what the first page of a ring states the tracer, as `live_of`.

    Parameters
    ----------
    control : of ``ring_control``.
    ops : numbers of the ops by their names, as far as they are known.
    """
    left_out = np.flatnonzero(_bits(control["op_mask"]))
    threads = _bits(control["lane_mask"])
    names = {number: name for name, number in ops.items()}
    first, last = int(control["layer_first"]), int(control["layer_last"])
    has_ops = not _bits(control["op_mask"]).all()
    return {
        "enabled": bool(control["enabled"]),
        "ops": [f"!{names.get(n, n)}" for n in left_out.tolist()] if has_ops else [],
        "layers": list(range(first, last + 1)) if first or last else [],
        "threads": np.flatnonzero(~threads).tolist() if threads.any() else [],
        "sample_every": max(int(control["sample_every"]), 1),
        "op_timing": has_ops,
        "thread_tracking": True,
    }


def _bits(flags: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    raw = np.asarray(flags, "<u8").reshape(-1).view(np.uint8)
    return np.unpackbits(raw, bitorder="little").astype(np.bool_)


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
