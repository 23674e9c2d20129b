"""What records of a run mean: cores, waits, and what the sidecar beside them says."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, LONGEST_WAIT, NO_WAIT, Array, SpanFlag

BEGIN_ONLY, WHOLE_GRAPH = 1 << 29, 1 << 30
"""In the extra number of a record: its end is not known; it is no op but a graph."""
_FUSED = 1 << 28
"""Likewise: the next computed node ran within this one."""
THREADS_OF_SLOT = 512
"""Numbers of threads distinguish computations that run at the same time."""
_CORE_BITS, _NODE_BITS, _NODE_SHIFT = 0xFFF, 0xFF, 12


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Run:
    """The graphs of a run and their nodes, by which its records are understood.

    Attributes
    ----------
    n_records : of all kinds that the file of the records should hold.
    graph : numbers of the graphs as records have them, ascending.
    begin, end : ticks of each graph; where no end was stated it is later than any time.
    first, n_nodes : row of the first node of each graph, and how many they are.
    token, phase : of each graph, as of spans.
    slot : of each graph; those that are computed at the same time have different ones.
    name, layer, pattern : of each node, as of spans; the first stands for one that is
        not known.
    lane_of : lane of each thread by the number that records have of it.
    """

    n_records: int
    graph: I64
    begin: I64
    end: I64
    first: I64
    n_nodes: I64
    token: npt.NDArray[np.int32]
    phase: npt.NDArray[np.int8]
    slot: I64
    name: Array
    layer: Array
    pattern: Array
    lane_of: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RecordCount:
    """How many records of ops there are and were lost, as the tracer itself counts.

    Nothing of it is an estimate: a graph that was not over when the trace ended lacks
    none.
    """

    n_there: int
    n_lost: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RunAccount:
    """Records of ops of a recording, by what its graphs should have given.

    Attributes
    ----------
    computed : what all computed nodes make on all threads, of graphs that ended and
        whose nodes are known; filters `left_out` so many of them.
    expected, recorded, missing : without these.
    not_seen : of the missing ones the tracer saw no op.
    beyond_limit : records behind the limit of records.
    unplaced : records of graphs that are not stated.
    unknown_graphs : graphs whose nodes are not known.
    interrupted : numbers of the graphs without an end.
    short : graphs that lack records; int64[n], with what they expected and have.
    """

    computed: int
    left_out: int
    expected: int
    recorded: int
    missing: int
    not_seen: int
    beyond_limit: int
    unplaced: int
    unknown_graphs: int
    interrupted: I64
    short: I64
    short_expected: I64
    short_recorded: I64

    @property
    def lost(self) -> int:
        """Missing records but those behind the limit, which was asked for."""
        return self.missing - min(self.beyond_limit, self.missing)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RecordingInfo:
    """How a recording was made, as it states itself.

    Attributes
    ----------
    settings : those of the tracer when it began, by name; {} = not stated.
    n_changes : how often that changed; None = it did, how often is not known.
    skipped_graphs : graphs that were not traced.
    end : "exited", "killed", "gone" (exited without notice), "replaced" by another
        program, or "running" when it was saved; "" = not stated.
    signal : that ended the program; "" = none, or not known.
    whole : backends whose graphs are recorded as a whole, not op by op, and the number
        of those graphs.
    account : None where it is not stated.
    """

    settings: Mapping[str, object]
    n_changes: int | None
    skipped_graphs: int
    end: str
    signal: str
    whole: tuple[tuple[str, int], ...]
    account: RunAccount | None


RunStory = RecordingInfo  # name in 0.1.0, for plug-ins until 0.3.0


def waits_of(wait: Array, extra: Array) -> npt.NDArray[np.uint32]:
    """Return the waits of records, uint32[n] as of spans.

    Parameters
    ----------
    wait, extra : uint32[n], as ``resources/docs/ring-format.md`` says.
    """
    has_none = (extra & (BEGIN_ONLY | WHOLE_GRAPH)) != 0
    cut = np.minimum(wait, np.uint32(LONGEST_WAIT))
    return np.where(has_none, np.uint32(NO_WAIT), cut).astype(np.uint32)


def fused_of(extra: Array) -> npt.NDArray[np.uint16]:
    """Return `SpanFlag.FUSED` for each record that holds the next node, else 0.

    Parameters
    ----------
    extra : uint32[n], as ``resources/docs/ring-format.md`` says.
    """
    is_fused = (extra & _FUSED) != 0
    return np.where(is_fused, np.uint16(SpanFlag.FUSED), np.uint16(0))


def cores_of(extra: Array) -> tuple[Array, Array]:
    """Return (core, NUMA node) on which ops began, int16[n] each; -1 is not known.

    Parameters
    ----------
    extra : uint32[n], as in ``resources/docs/ring-format.md``.
    """
    core = (extra & _CORE_BITS).astype(np.int16)
    numa = ((extra >> _NODE_SHIFT) & _NODE_BITS).astype(np.int16)
    is_unknown = core == _CORE_BITS
    # Where no core is known the tracer leaves zeros for its node.
    core[is_unknown] = numa[is_unknown] = -1
    return core, numa
