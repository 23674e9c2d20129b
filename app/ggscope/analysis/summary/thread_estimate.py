"""What one thread more or fewer would do to the ops that all threads compute.

An estimate between two limits, from one recording. Of ops that n threads compute, let
the longest threads take L, all threads together W, and the ops, from their first begins
to their last ends, E; D of it are delays, beyond the medians of ops alike. Either the
memory sets the pace, and the longest threads take L with any number of threads; or the
processor does: W stays, its part that one thread alone computes is W·e with
e = (L/W − 1/n)/(1 − 1/n) (Karp and Flatt), and the longest of m threads take
W·(e + (1 − e)/m). The rest, R = E − L, is what threads begin later than the first:
fewer threads may have none of it, and one more makes it longer by 1/n. Another
recording may have none of the delays.
"""

from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from ggscope.analysis.summary.barriers import SharedOps
from ggscope.model.tables import I64, Phase
from ggscope.model.trace import Trace

MAX_OPS = 1 << 17
"""Of more ops the last so many count."""
MIN_ALIKE = 5
"""So many ops of one name show what is a delay."""
_MAX_BEYOND, _MIN_ALIKE, _MAX_SHARING = 0.5, 0.5, 0.1


class Reason(Enum):
    """Why there is no estimate."""

    NO_THREADS = auto()
    ONE_THREAD = auto()
    THREADS_LEFT_OUT = auto()
    NO_WAITS = auto()
    NO_CORES = auto()
    SHARED_CORES = auto()
    DERIVED_TIMES = auto()
    TOO_LONG = auto()
    NO_SHARED_OPS = auto()
    FEW_ALIKE = auto()
    DELAYS = auto()


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """Stands for an estimate without evidence.

    Attributes
    ----------
    share : of the time of ops: delays for ``DELAYS``, that of ops whose threads shared
        cores for ``SHARED_CORES``, where that is known.
    """

    reason: Reason
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class OtherCount:
    """What another number of threads would do.

    Attributes
    ----------
    n_threads : that number.
    low, high : time that the ops would take, 1 = as long as now.
    """

    n_threads: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ThreadEstimate:
    """The estimate for one thread fewer and one more, each on a core of its own.

    Attributes
    ----------
    n_threads : threads of the trace.
    n_ops : ops that all of them computed; those of generated tokens, where there are
        some.
    elapsed : ticks that these took, each from its first begin to its last end.
    beyond : share of `elapsed` beyond the medians of ops alike: delays, which no number
        of threads explains.
    fewer, more : the estimates.
    """

    n_threads: int
    n_ops: int
    elapsed: int
    beyond: float
    fewer: OtherCount
    more: OtherCount


def thread_estimate(
    trace: Trace, ops: SharedOps, n_threads: int, n_cores: int
) -> ThreadEstimate | NoEstimate:
    """Return the estimate, or why the trace gives no evidence for it.

    Parameters
    ----------
    ops : with measured times.
    n_threads, n_cores : threads, and different cores on which they were seen; 0 = not
        recorded.
    """
    if n_threads < 2:
        return NoEstimate(Reason.ONE_THREAD)
    if not n_cores:
        return NoEstimate(Reason.NO_CORES)
    if n_cores < n_threads:
        return NoEstimate(Reason.SHARED_CORES)
    rows = np.flatnonzero(ops.n_threads == n_threads)
    phase = trace.spans.phase
    if phase is not None:
        generated = rows[phase[ops.span[rows]] == Phase.GENERATE]
        rows = generated if len(generated) else rows
    ops = ops.take(rows[-MAX_OPS:])
    if (sharing := ops.sharing()) is not None and sharing.share > _MAX_SHARING:
        return NoEstimate(Reason.SHARED_CORES, sharing.share)
    elapsed = int((ops.end - ops.begin).sum())
    if not elapsed:
        return NoEstimate(Reason.NO_SHARED_OPS)
    usual, n_alike = _usual_times(trace, ops)
    if n_alike < _MIN_ALIKE * elapsed:
        return NoEstimate(Reason.FEW_ALIKE)
    beyond = 1 - usual / elapsed
    if beyond > _MAX_BEYOND:
        return NoEstimate(Reason.DELAYS, beyond)
    work, longest = int(ops.work.sum()), int(ops.longest_time.sum())
    late, delays = elapsed - longest, elapsed - usual

    def computing(n: int) -> float:
        """Return what the longest of n threads take where the processor limits."""
        serial = n_threads * longest - work
        shared = n_threads * (work - longest)
        return (serial + shared / n) / (n_threads - 1)

    def limits(n: int, low: float, high: float) -> OtherCount:
        return OtherCount(n, max(low - delays, 0) / elapsed, high / elapsed)

    fewer, more = n_threads - 1, n_threads + 1
    return ThreadEstimate(
        n_threads,
        len(ops),
        elapsed,
        beyond,
        limits(fewer, longest, late + computing(fewer)),
        limits(more, late + computing(more), elapsed + late / n_threads),
    )


def _usual_times(trace: Trace, ops: SharedOps) -> tuple[float, int]:
    """Return what ops take where each takes at most the median of those alike.

    Ops are alike where their tensor has the same name. Those of rare names count as
    they are. The second value is the time of the others.
    """
    ticks: I64 = ops.end - ops.begin
    name = trace.spans.name[ops.span].astype(np.int64)
    order = np.lexsort((ticks, name))
    ticks, name = ticks[order], name[order]
    first = np.append(0, np.flatnonzero(np.diff(name)) + 1)
    n = np.diff(np.append(first, len(name)))
    half = first + (n - 1) // 2
    median = (ticks[half] + ticks[first + n // 2]) / 2
    limit = np.where(n < MIN_ALIKE, ticks[first + n - 1], median)
    usual = np.minimum(ticks, np.repeat(limit, n)).sum()
    of_many = np.repeat(n >= MIN_ALIKE, n)
    return float(usual), int(ticks[of_many].sum())
