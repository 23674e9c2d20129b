"""Arrows between spans: which spans the events of a flow lie in, and what follows."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, Bools, Flows, looked_up, ranked
from ggscope.readers.chrome.events import Events, Mark
from ggscope.readers.chrome.pairs import ids_of
from ggscope.readers.common.nesting import Nesting, flows_of

_BEGIN, _STEP, _END = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Arrows:
    """What flows state.

    Attributes
    ----------
    flows : source and target of each arrow.
    n_loose : events of flows that lie in no span, or that nothing leads to.
    """

    flows: Flows
    n_loose: int


def launches(events: Events, row: I64, on_device: Bools) -> tuple[I64, I64, int]:
    """Return which span launched which, by numbers in their arguments.

    So many sources in front are calls, the others are ops.

    The correlation is that of a call of the runtime. Where there is no such call, the
    external id is that of the op.

    Parameters
    ----------
    row : the event of each span.
    on_device : whether it runs on a device.
    """
    correlation = looked_up(events.argument_row, events.correlation, row)
    external = looked_up(events.argument_row, events.external, row)
    source, target = _joined(correlation, ~on_device, on_device)
    is_left = on_device.copy()
    is_left[target] = False
    more = _joined(external, ~on_device & (correlation <= 0), is_left)
    sources = np.concatenate([source, more[0]])
    return sources, np.concatenate([target, more[1]]), len(source)


def _joined(number: I64, is_source: Bools, is_target: Bools) -> tuple[I64, I64]:
    """Return sources and targets of equal numbers above 0.

    Of several sources with one number nobody knows which it was.
    """
    sources = np.flatnonzero(is_source & (number > 0))
    targets = np.flatnonzero(is_target & (number > 0))
    if not len(sources) or not len(targets):
        return sources[:0], targets[:0]
    sources = sources[np.argsort(number[sources], kind="stable")]
    of_source, of_target = number[sources], number[targets]
    first = np.minimum(np.searchsorted(of_source, of_target), len(sources) - 1)
    behind = np.searchsorted(of_source, of_target, side="right")
    is_one = (of_source[first] == of_target) & (behind - first == 1)
    return sources[first[is_one]], targets[is_one]


def arrows(
    events: Events, nesting: Nesting, lane_of_track: I64, more: tuple[I64, I64]
) -> Arrows:
    """Return the arrows of phases s, t and f, and `more` sources and targets.

    An end without ``"bp": "e"`` is bound to the span that begins then or follows, all
    others to the span around them. From one begin arrows lead to all ends of its id.
    """
    row = events.of("s", "t", "f")
    if not len(row):
        return Arrows(flows_of(*more), 0)
    phase = events.phase[row]
    rank = np.where(phase == ord("s"), _BEGIN, np.where(phase == ord("t"), _STEP, _END))
    is_next = (rank == _END) & ((events.flags[row] & int(Mark.BINDS_ENCLOSING)) == 0)
    time = events.time[row].astype(np.int64)
    span = nesting.enclosing(lane_of_track[events.track[row]], time, is_next)
    number = ids_of(events, row)[1]
    n_texts = len(events.texts) + 1
    word = (events.category[row].astype(np.int64) + 1) * n_texts + events.name[row] + 1
    _, _, of_word = ranked(word)
    _, _, of_id = ranked(number)
    key = of_id * (int(of_word.max()) + 1) + of_word
    order = np.lexsort((rank, time, key))
    key, rank, span = key[order], rank[order], span[order]
    at = np.arange(len(row))
    is_first = np.ones(len(row), np.bool_)
    is_first[1:] = key[1:] != key[:-1]
    opening = np.maximum.accumulate(np.where(is_first, at, 0))
    source = np.maximum.accumulate(np.where(rank <= _STEP, at, -1))
    before = np.concatenate([[-1], source[:-1]])
    has_source = (rank >= _STEP) & (before >= opening) & ~is_first
    ends = np.flatnonzero(has_source)
    first, last = span[before[ends]], span[ends]
    is_bound = (first >= 0) & (last >= 0) & (first != last)
    n_loose = int(np.count_nonzero(span < 0)) + int(
        np.count_nonzero((rank >= _STEP) & ~has_source & (span >= 0))
    )
    source = np.concatenate([first[is_bound], more[0]])
    target = np.concatenate([last[is_bound], more[1]])
    return Arrows(flows_of(source, target), n_loose)
