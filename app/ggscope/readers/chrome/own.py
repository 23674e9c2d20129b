"""What ggscope wrote as Chrome trace events, back as it was."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, SpanFlag
from ggscope.model.units import Clock
from ggscope.readers.chrome.events import OF_OPS, Events, is_own
from ggscope.readers.common.nesting import Intervals
from ggscope.readers.common.own_traces import QUALITIES, WAIT, clock_of, shift_of


@dataclass(frozen=True, slots=True)
class OwnFile:
    """What a file of ggscope says of itself.

    Attributes
    ----------
    shift : ticks that were added to all times.
    clock : of the trace that was written.
    format : of the file that the trace was read from.
    has_categories : whether the category of an event is a category, and not its op.
    """

    shift: int
    clock: Clock
    format: str
    has_categories: bool


def own_file(facts: Mapping[str, object]) -> OwnFile | None:
    """Return what a file says of itself; None where others wrote it."""
    about = facts.get("otherData")
    if not is_own(dict(facts)) or not isinstance(about, dict):
        return None
    return OwnFile(
        shift_of(about),
        clock_of(about),
        str(about.get("format", ""))[:200],
        about.get("cat") == "category",
    )


def is_wait(events: Events, row: I64) -> npt.NDArray[np.bool_]:
    """Return which events are the waits behind ops."""
    texts = events.texts
    if WAIT not in texts:
        return np.zeros(len(row), np.bool_)
    code = texts.index(WAIT)
    result: npt.NDArray[np.bool_] = (events.name[row] == code) & (
        events.category[row] == code
    )
    return result


def instants_without_end(events: Events) -> Intervals:
    """Return spans without a recorded end that could not stay open on their track."""
    row = events.of("i")
    is_open = quality_flags(events, row) == int(SpanFlag.UNFINISHED)
    row = row[is_open]
    start = events.time[row].astype(np.int64)
    flags = np.full(len(row), int(SpanFlag.UNFINISHED), np.uint16)
    return Intervals(row, start, start, row, flags)


def columns_of_ops(events: Events, row: I64) -> dict[str, Array]:
    """Return layer, token, core and NUMA node of spans, where the file has them."""
    ops = events.of_ops
    if not ops:
        return {}
    at = np.minimum(np.searchsorted(ops["row"], row), len(ops["row"]) - 1)
    has_any = ops["row"][at] == row
    columns = {name: np.where(has_any, ops[name][at], -1) for name in OF_OPS}
    low = {name: values for name, values in columns.items() if (values >= 0).any()}
    return {
        name: np.where(values < 1 << 15, values, -1) if name != "token" else values
        for name, values in low.items()
    }


def quality_flags(events: Events, row: I64) -> npt.NDArray[np.uint16]:
    """Return the flags of what the file calls derived, estimated or unfinished."""
    result = np.zeros(len(row), np.uint16)
    if not len(events.argument_row):
        return result
    at = np.minimum(
        np.searchsorted(events.argument_row, row), len(events.argument_row) - 1
    )
    text = np.where(events.argument_row[at] == row, events.text[at], -1)
    for word, flag in QUALITIES.items():
        if word in events.texts:
            result[text == events.texts.index(word)] |= np.uint16(flag)
    return result
