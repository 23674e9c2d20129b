"""How a recording was made, as its sidecar states: settings, end, and what it lacks."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ggscope.model.run import RecordingInfo, RunAccount
from ggscope.model.tables import I64

_ENDS = ("exited", "killed", "gone", "replaced", "running")
_MOST = 1 << 53
_LISTS = ("ops", "layers", "threads")
_NUMBERS = ("sample_every", "max_records", "ring_records")
_SWITCHES = (
    "enabled", "op_timing", "thread_tracking", "memory_tracking", "tensor_names",
    "overwrite",
)  # fmt: skip
_COUNTS = (
    "computed", "left_out", "expected", "recorded", "missing", "not_seen",
    "beyond_limit", "unplaced", "unknown_graphs",
)  # fmt: skip
_MAX_TEXT = 64
_MAX_WORDS = 1 << 10


def recording_info(
    facts: Mapping[str, Any],
    whole_graphs: Mapping[str, int],
    doubt: Callable[[str], None],
) -> RecordingInfo | None:
    """Return how a recording was made; None where its sidecar states nothing of it.

    Parameters
    ----------
    whole_graphs : graphs that are recorded as a whole, by the name of their backend.
    doubt : is called with the place of each value that cannot be; it is left out.
    """
    if not {"settings", "account", "end"} & facts.keys() and not whole_graphs:
        return None
    changes, end = facts.get("changes", []), facts.get("end")
    if changes is not None and not isinstance(changes, list):
        doubt("changes")
        changes = None
    if end is not None and not isinstance(end, dict):
        doubt("end")
    state = end.get("state") if isinstance(end, dict) else None
    signal = end.get("signal") if isinstance(end, dict) else None
    skipped = facts.get("skipped_graphs", 0)
    return RecordingInfo(
        settings=_settings(facts.get("settings"), doubt),
        n_changes=None if changes is None else len(changes),
        skipped_graphs=skipped if _is_count(skipped) else 0,
        end=state if state in _ENDS else "",
        signal=signal[:_MAX_TEXT] if isinstance(signal, str) else "",
        whole=tuple(Counter(whole_graphs).most_common()),
        account=_account(facts.get("account"), doubt),
    )


def end_text(recording: RecordingInfo) -> str:
    """Return "killed by SIGILL"; "" where nothing is known, or it ended by itself."""
    if recording.end == "killed":
        return f"killed by {recording.signal}" if recording.signal else "killed"
    return {
        "gone": "exited without notice: killed, or by _exit",
        "replaced": "replaced by another program (exec)",
        "running": "still running when saved",
    }.get(recording.end, "")


def _settings(item: object, doubt: Callable[[str], None]) -> dict[str, object]:
    if item is None:
        return {}
    if not isinstance(item, dict):
        doubt("settings")
        return {}
    settings: dict[str, object] = {}
    for name in (*_LISTS, *_NUMBERS, *_SWITCHES):
        value = item.get(name)
        if value is None:
            continue
        is_good = (
            _are_strings(value)
            if name in _LISTS
            else _is_count(value)
            if name in _NUMBERS
            else isinstance(value, bool)
        )
        if is_good:
            settings[name] = value
        else:
            doubt(f"settings.{name}")
    return settings


def _are_strings(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= _MAX_WORDS
        and all(
            _is_count(item) or (isinstance(item, str) and len(item) <= _MAX_TEXT)
            for item in value
        )
    )


def _account(item: object, doubt: Callable[[str], None]) -> RunAccount | None:
    if item is None:
        return None
    short = item.get("short", {}) if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(short, dict):
        doubt("account")
        return None
    counts = {name: item.get(name, 0) for name in _COUNTS}
    columns = [
        _numbers(short.get(key, [])) for key in ("graph", "expected", "recorded")
    ]
    interrupted = _numbers(item.get("interrupted", []))
    lengths = {-1 if column is None else len(column) for column in columns}
    if (
        not all(_is_count(value) for value in counts.values())
        or interrupted is None
        or len(lengths) != 1
        or -1 in lengths
    ):
        doubt("account")
        return None
    graph, expected, recorded = (column for column in columns if column is not None)
    return RunAccount(
        **counts,
        interrupted=interrupted,
        short=graph,
        short_expected=expected,
        short_recorded=recorded,
    )


def _numbers(value: object) -> I64 | None:
    if not isinstance(value, list) or not all(map(_is_count, value)):
        return None
    return np.array(value, np.int64)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST
