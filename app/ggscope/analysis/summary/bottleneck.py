"""What limits a run, with the evidence; or why the trace does not state.

The causes are looked at in this order, and the first that its evidence supports is
named: nothing computed between tokens; threads that share cores, so that they wait at
barriers; a few slow tokens; threads that wait for another one; idle threads; memory at
its peak rate; a device that is busy, or waits for the program to launch work; calls in
which the host waits for the GPU; the busiest engine; the op that takes most of the
time; a device that is idle for a reason that is not recorded; without ops, what
requests of a server or tokens take most time for, or a few slow graph passes. Each
threshold is a share of the time that it explains.
"""

from dataclasses import dataclass
from enum import Enum

from ggscope.analysis.requests import RequestShares
from ggscope.analysis.summary.barriers import CoreSharing
from ggscope.analysis.summary.host_waits import HostWaits

_MAX_BETWEEN, _MAX_WAITING, _MAX_IDLE = 0.5, 0.3, 0.5
_SLOW_EXCESS, _FEW, _SHARING = 0.3, 0.1, 0.25
_PEAK, _BUSY_ENGINE, _LEADING_OP = 0.7, 0.5, 0.35
_BUSY_DEVICE, _HOST, _HOST_WAITS, _IDLE_DEVICE = 0.7, 0.5, 0.35, 0.5
_LEADING_PART, _REPROCESSED = 0.5, 0.3


class Cause(Enum):
    """What limits a run."""

    BETWEEN_TOKENS = "time between tokens"
    SHARED_CORES = "threads share cores"
    SLOW_TOKENS = "slow tokens"
    WAITING = "waiting at barriers"
    IDLE_THREADS = "idle threads"
    BANDWIDTH = "memory bandwidth"
    DEVICE = "busy device"
    HOST = "device waits for the host"
    HOST_WAITS = "host waits for the GPU"
    DEVICE_IDLE = "idle device"
    ENGINE = "busiest engine"
    OP = "one op"
    QUEUE = "waits before prompts"
    REPROCESSING = "prompts computed again"
    PROMPT = "prompt processing"
    GENERATION = "token generation"
    TOKEN_PART = "part of a token's time"
    SLOW_PASSES = "slow graph passes"
    SPREAD = "no single cause"


@dataclass(frozen=True, slots=True)
class SlowBars:
    """Generated tokens, ubatches or graph passes that take over twice the median.

    Attributes
    ----------
    n : how many they are.
    of : how many bars are counted.
    excess : their time beyond the median, as a share of the time of all counted bars.
    """

    n: int
    of: int
    excess: float


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """How a device is used from its first to its last kernel or copy.

    Attributes
    ----------
    name : of the device.
    busy : share of the time in which it works.
    host : share of the idle time of its busiest stream in which the program had not
        launched yet what follows; None where it is never idle, or launches of less
        than half of that time are recorded.
    kernel : the kernel of most time, and its share of the time of all kernels.
    """

    name: str
    busy: float
    host: float | None
    kernel: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the trace states about the causes; None = not known.

    Attributes
    ----------
    between : share of the time from the first to the last token in which no token is
        computed.
    slow : the slow ones of generated tokens or ubatches.
    waiting : share of waits in work and waits of all threads.
    idle : share of idle time of threads while tokens are computed.
    n_threads, n_cores : threads, and cores on which they were seen.
    sharing : how threads that compute an op share cores.
    waited_for : the thread that the others waited for most, and its share of that.
    waited_op : the op of that thread behind which they waited longest, and its share.
    of_peak : rate of reading weights as a share of the machine's peak.
    device : the busiest device.
    host_waits : calls in which the host waits for the GPU.
    engine : the busiest engine, and its busy share.
    op : the op of most time, and its share of the time of all ops.
    requests : where the time of requests goes.
    parts : where the time of tokens goes, the largest part first; () = not known.
    passes : the slow ones of graph passes, whose phases are not known.
    """

    between: float | None = None
    slow: SlowBars | None = None
    waiting: float | None = None
    idle: float | None = None
    n_threads: int = 0
    n_cores: int = 0
    sharing: CoreSharing | None = None
    waited_for: tuple[str, float] | None = None
    waited_op: tuple[str, float] | None = None
    of_peak: float | None = None
    device: DeviceUse | None = None
    host_waits: HostWaits | None = None
    engine: tuple[str, float] | None = None
    op: tuple[str, float] | None = None
    requests: RequestShares | None = None
    parts: tuple[tuple[str, float], ...] = ()
    passes: SlowBars | None = None


def cause_of(seen: Evidence) -> Cause | None:
    """Return what limits the run; None where the trace does not state it."""
    if seen.between is not None and seen.between >= _MAX_BETWEEN:
        return Cause.BETWEEN_TOKENS
    waits = seen.waiting is not None and seen.waiting >= _MAX_WAITING
    is_crowded = 0 < seen.n_cores < seen.n_threads
    # Threads that move may be seen on all cores, and yet be on one core at a time.
    is_crowded |= seen.sharing is not None and seen.sharing.share >= _SHARING
    if waits and is_crowded:
        return Cause.SHARED_CORES
    if _are_few(seen.slow):
        return Cause.SLOW_TOKENS
    if waits:
        return Cause.WAITING
    if seen.idle is not None and seen.idle >= _MAX_IDLE:
        return Cause.IDLE_THREADS
    if seen.of_peak is not None and seen.of_peak >= _PEAK:
        return Cause.BANDWIDTH
    device = seen.device
    if device is not None and device.busy >= _BUSY_DEVICE:
        return Cause.DEVICE
    if device is not None and device.host is not None and device.host >= _HOST:
        return Cause.HOST
    if seen.host_waits is not None and seen.host_waits.share >= _HOST_WAITS:
        return Cause.HOST_WAITS
    if seen.engine is not None:
        return Cause.ENGINE if seen.engine[1] >= _BUSY_ENGINE else _spread(device)
    if seen.op is not None:
        return Cause.OP if seen.op[1] >= _LEADING_OP else _spread(device)
    if seen.requests is not None:
        return _cause_of_requests(seen.requests)
    if seen.parts:
        leads = seen.parts[0][1] >= _LEADING_PART
        return Cause.TOKEN_PART if leads else Cause.SPREAD
    return Cause.SLOW_PASSES if _are_few(seen.passes) else None


def _are_few(slow: SlowBars | None) -> bool:
    """Return whether a few slow bars take much of the time."""
    if slow is None:
        return False
    return slow.n <= _FEW * slow.of and slow.excess >= _SLOW_EXCESS


def _spread(device: DeviceUse | None) -> Cause:
    """Return what limits a run in which no engine and no op stands out."""
    is_idle = device is not None and 1 - device.busy >= _IDLE_DEVICE
    return Cause.DEVICE_IDLE if is_idle else Cause.SPREAD


def _cause_of_requests(shares: RequestShares) -> Cause:
    if (shares.queued or 0.0) >= _LEADING_PART:
        return Cause.QUEUE
    if shares.generated >= _LEADING_PART:
        return Cause.GENERATION
    if shares.prompt < _LEADING_PART:
        return Cause.SPREAD
    again = shares.reprocessed is not None and shares.reprocessed >= _REPROCESSED
    return Cause.REPROCESSING if again else Cause.PROMPT
