"""What a live source is: it is polled, and its trace grows.

Writes through mapped memory raise no event of the file system, so sources look for
themselves. A poll reads what is new and never waits.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from ggscope.model.trace import RUNNING, Trace

NANO = 1_000_000_000
_SAME_CLOCK_NS = 60 * NANO
"""A stamp that is older, or lies ahead, is of another clock."""


class State(Enum):
    """State of the program that is followed."""

    WAITING = "waiting"
    """There is nothing to read yet."""
    RUNNING = "running"
    ENDED = "ended"
    """It has ended by itself."""
    GONE = "gone"
    """It was killed or crashed."""
    NO_WRITER = "writer gone"
    """The process that wrote a file has ended; another one may go on with it."""


@dataclass(frozen=True, slots=True)
class RecordingLocation:
    """Where the recording of what was read so far is.

    Attributes
    ----------
    place : folder of a recording, or a file that grows; None = nowhere.
    n_bytes : so much of the file was read; -1 = it is a recording.
    why : why there is nothing.
    """

    place: Path | None = None
    n_bytes: int = -1
    why: str = "nothing has been recorded yet"


_NOTHING = RecordingLocation()


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """What a source has read so far.

    Attributes
    ----------
    records : in the source's own terms, without those that were lost.
    by_kind : how many of them are "ops" and "graphs" as wholes; of a log how many
        "requests" that its "lines" describe; empty = all are of one kind.
    lost : records that the writer could not place or wrote over before they were
        read; -1 where the format does not state it.
    lag_ns : of the poll before: how old its newest record was when it was read; -1
        where there was none, or the writer's clock is not known.
    is_least_lag : whether `lag_ns` is what the lag was at least: stamps are not of a
        clock of this machine, and the least delay of all polls counts as none.
    backlog : so many of the records were there when following began.
    fill : greatest share of the room for records that was full then, 0..1; of a file
        that was made beforehand how much of it is used; -1 where there is no such room.
    restarts : how often the program began anew, or the file was made again.
    message : what is waited for, or what became of the writer; "" while it runs.
    tokens : tokens that were put into ubatches, of prompts and generated ones; of a
        file of records the generated ones; -1 where unknown.
    resident_bytes, model_bytes : of the model's tensors, those in the page cache, and
        all; -1 not known.
    read_bytes, major_faults : of the program so far; -1 not known.
    recording : where all of it can be saved from.
    run : what the program states about itself and its graphs, by what each is called.
    program : its file, and `began` : when its ring was made, in seconds since 1970; ""
        and 0 = not stated.
    file : path of the trace file that is followed; "" = a ring is.
    """

    state: State = State.WAITING
    records: int = 0
    lost: int = 0
    lag_ns: int = -1
    is_least_lag: bool = False
    backlog: int = 0
    fill: float = -1.0
    restarts: int = 0
    message: str = ""
    tokens: int = -1
    resident_bytes: int = -1
    model_bytes: int = -1
    read_bytes: int = -1
    major_faults: int = -1
    recording: RecordingLocation = _NOTHING
    run: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    began: float = 0.0
    file: str = ""
    by_kind: Mapping[str, int] = field(default_factory=dict)

    def run_texts(self) -> tuple[str, ...]:
        """Return "name: text" of everything that the program says about itself."""
        return tuple(f"{key}: {text}" for key, text in self.run.items())


class LiveSource(Protocol):
    """A program that is followed, through one file.

    Everything is called from one thread.
    """

    path: Path

    def poll(self) -> bool:
        """Take what is new; return whether the trace changed. Never waits.

        Raises
        ------
        LiveError
            If the file is none of this source's.
        """
        ...

    def status(self) -> SourceStatus:
        """Return what was read so far."""
        ...

    def snapshot(self) -> Trace:
        """Return the trace as it stands; see `Trace.is_running`.

        The spans of a snapshot are the first ones of the next, until
        `SourceStatus.restarts` counts: then another trace begins.
        """
        ...

    def rest(self) -> None:
        """Leave the file to others for now; the next poll goes on."""
        ...

    def close(self) -> None:
        """Close the file; what was recorded stays."""
        ...

    def forget(self) -> None:
        """Remove what was recorded."""
        ...


def pending(status: SourceStatus, more: Iterable[str] = ()) -> frozenset[str]:
    """Return what a snapshot still waits for."""
    has_ended = status.state in (State.ENDED, State.GONE)
    return frozenset(() if has_ended else (RUNNING, *more))


class Lag:
    """How old the newest record of a file is when it is read.

    Writers stamp by the monotonic clock, by the wall clock, or from the start of
    their trace: what fits the time of reading is taken.
    """

    def __init__(self) -> None:
        self._least: int | None = None
        self._n = 0

    def of(self, stamp: int) -> tuple[int, bool]:
        """Return the lag in ns and whether it was at least that; (-1, False): unknown.

        To be called once per poll that brought something; what the first one brings
        may be old.
        """
        self._n += 1
        now = now_ns()
        for clock in (now, time.time_ns()):
            if 0 <= clock - stamp < _SAME_CLOCK_NS:
                return clock - stamp, False
        if self._n == 1:
            return -1, False
        delay = now - stamp
        self._least = delay if self._least is None else min(self._least, delay)
        lag = delay - self._least
        return (lag, True) if lag < _SAME_CLOCK_NS else (-1, False)


def now_ns() -> int:
    """Return the clock that writers on this machine use, CLOCK_MONOTONIC in ns."""
    return time.monotonic_ns()
