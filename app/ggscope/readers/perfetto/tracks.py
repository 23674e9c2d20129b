"""Tracks of a Perfetto trace: what they are called, and what they belong to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, Array, Bools
from ggscope.readers.perfetto.packets import Of, Packets, TrackKey

Order = tuple[tuple[bool, int], tuple[tuple[int, int, str, int], ...]]
_DEEPEST = 64
_EXPLICIT, _BY_NAME = 3, 1
"""Orders of the children of a track: by rank, and by name."""
_UNITS = {1: "ns", 2: "", 3: "B", 17: "ns", 18: ""}
"""Units of counters by code: those of Perfetto, and from 16 on those that it counts
itself, time of a thread and instructions."""
_BUILT_IN = {17: "thread time", 18: "thread instructions"}


@dataclass(frozen=True, slots=True)
class LaneOfTracks:
    """What a lane is called, and where it stands.

    Attributes
    ----------
    group : title of its process, and of the tracks around it.
    order : by which lanes are sorted.
    """

    title: str
    group: tuple[str, ...]
    order: Order


class Tracks:
    """What is known of the tracks of a file.

    Attributes
    ----------
    same : int64[k], the track that each one is: threads are determined by their number.
    flags : int64[k], `Of`.
    pid, tid : int64[k], of processes and threads; -1 unknown.
    """

    def __init__(self, packets: Packets) -> None:
        self._texts = packets.texts
        columns, n = packets.tracks, len(packets.track_space)
        self._space = packets.track_space
        self._first, self._second = packets.track_first, packets.track_second
        self.pid, self.tid = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        self.flags = np.zeros(n, np.int64)
        track, flags = (
            columns["track"].astype(np.int64),
            columns["flags"].astype(np.int64),
        )
        np.bitwise_or.at(self.flags, track, flags)
        has_pid = (flags & (Of.PROCESS | Of.THREAD)) != 0
        self.pid[track[has_pid]] = columns["pid"][has_pid]
        has_tid = (flags & Of.THREAD) != 0
        self.tid[track[has_tid]] = columns["tid"][has_tid]
        is_thread = self._space == TrackKey.THREAD
        self.flags[is_thread] |= int(Of.THREAD)
        self.pid[is_thread] = self._first[is_thread].astype(np.int64)
        self.tid[is_thread] = self._second[is_thread].astype(np.int64)
        self.same = self._joined()
        # What the kernel lists yields to what the program says of itself.
        rank = np.where(flags & Of.LISTED, 0, 1)
        rows = np.argsort(rank, kind="stable")
        rows = rows[self.same[track[rows]] >= 0]
        at = self.same[track[rows]]
        np.bitwise_or.at(self.flags, at, flags[rows])
        # Looked up by the track: numbers of Python are faster than those of numpy.
        self._kinds: list[int] = self.flags.tolist()
        self._spaces: list[int] = self._space.tolist()
        self._column = {
            name: self._last(at, columns[name][rows], columns[name][rows] >= 0)
            for name in ("name", "process", "thread", "unit", "merge_key", "parent")
        }
        for name in ("multiplier", "rank", "unit_code", "ordering"):
            values = columns[name][rows]
            self._column[name] = self._last(at, values, values != 0, 0)
        parent = self._column["parent"]
        self._parent = np.where(parent >= 0, self.same[np.maximum(parent, 0)], -1)
        self._parent[self._parent == np.arange(n)] = -1
        self._home = self._homes()
        self._process_names = self._names_of_processes(columns)
        self._n_named = Counter(self._process_names.values())

    def _joined(self) -> I64:
        """Return the first track of each thread, and all others as they are."""
        same = np.arange(len(self.flags), dtype=np.int64)
        is_thread = ((self.flags & Of.THREAD) != 0) & ((self.flags & Of.SEPARATE) == 0)
        known: dict[tuple[int, int], int] = {}
        for i in np.flatnonzero(is_thread).tolist():
            same[i] = known.setdefault((int(self.pid[i]), int(self.tid[i])), i)
        return same

    def _last(self, at: I64, values: Array, is_set: Bools, none: int = -1) -> I64:
        """Return what was stated last of each track."""
        column = np.full(len(self.flags), none, np.int64)
        column[at[is_set]] = values[is_set]
        return column

    def _homes(self) -> I64:
        """Return the thread or process that each track lies in, -1 none."""
        home = np.arange(len(self.flags), dtype=np.int64)
        is_home = (self.flags & (Of.PROCESS | Of.THREAD)) != 0
        for _ in range(_DEEPEST):
            goes_on = (home >= 0) & ~is_home[np.maximum(home, 0)]
            if not goes_on.any():
                return home
            home = np.where(goes_on, self._parent[np.maximum(home, 0)], home)
        home[(home >= 0) & ~is_home[np.maximum(home, 0)]] = -1
        return home

    def _names_of_processes(self, columns: dict[str, Array]) -> dict[int, str]:
        names: dict[int, str] = {}
        has_name = (columns["flags"] & int(Of.PROCESS) != 0) & (columns["process"] >= 0)
        rows = np.flatnonzero(has_name)
        is_listed = (columns["flags"][rows] & int(Of.LISTED)) != 0
        for i in (*rows[is_listed].tolist(), *rows[~is_listed].tolist()):
            names[int(columns["pid"][i])] = self._text(columns["process"][i])
        return names

    def _text(self, code: int) -> str:
        return self._texts[int(code)].strip() if code >= 0 else ""

    # -- single tracks -------------------------------------------------------------

    def is_a(self, track: int, what: Of) -> bool:
        """Return whether a track is of a kind."""
        return bool(self._kinds[track] & what.value)

    def is_activity(self, track: int) -> bool:
        """Return whether a track is one of an id beside a thread."""
        return self._spaces[track] == TrackKey.ACTIVITY.value

    def name(self, track: int) -> str:
        """Return the name that a track was given, "" if none."""
        if self.is_a(track, Of.THREAD):
            title = self._text(self._column["thread"][track])
            if title:
                return title
        return self._text(self._column["name"][track])

    def process(self, track: int) -> int:
        """Return the number of the process of a track, -1 none."""
        home = int(self._home[track])
        return int(self.pid[home]) if home >= 0 else -1

    def process_title(self, pid: int) -> str:
        """Return the title of a process; alike ones have their numbers."""
        name = self._process_names.get(pid, "")
        if not name:
            return f"process {pid}" if pid >= 0 else ""
        return f"{name} ({pid})" if self._n_named[name] > 1 else name

    def thread_title(self, track: int) -> str:
        """Return the title of a thread."""
        return self.name(track) or f"thread {int(self.tid[track])}"

    def merge_key(self, track: int, name: str) -> tuple[object, ...]:
        """Return what tracks have in common that are one lane.

        Threads, processes and tracks that stay apart are lanes of their own; others
        share one with those of their name that lie in the same track.
        """
        alone = Of.PROCESS | Of.THREAD | Of.APART
        if self.is_activity(track):
            return ("activity", self.process(track), name)
        if self.is_a(track, alone):
            return ("track", track)
        key = int(self._column["merge_key"][track])
        if key >= 0:
            return ("key", int(self._parent[track]), key)
        return ("name", int(self._parent[track]), name)

    def lane(self, track: int, name: str, first: int) -> LaneOfTracks:
        """Return what the lane of a track is called, and where it stands.

        Parameters
        ----------
        name : of the track, or of its first event.
        first : row of its first event.
        """
        if self.is_a(track, Of.THREAD):
            title = self.thread_title(track)
        else:
            title = name or self.name(track) or "events"
        around = self._around(track)
        pid = self.process(track)
        group = [self.process_title(pid)] if pid >= 0 else []
        for one in around:
            if self.is_a(one, Of.PROCESS):
                continue
            if self.is_a(one, Of.THREAD):
                group.append(self.thread_title(one))
            elif self.name(one):
                group.append(self.name(one))
        places = [*((one, one) for one in around), (track, first)]
        order = tuple(self._place(one, when) for one, when in places)
        return LaneOfTracks(title, tuple(group), ((pid < 0, pid), order))

    def _around(self, track: int) -> list[int]:
        """Return the tracks around one, outermost first."""
        around: list[int] = []
        one = int(self._parent[track])
        while (
            one >= 0 and one not in around and one != track and len(around) < _DEEPEST
        ):
            around.append(one)
            one = int(self._parent[one])
        return around[::-1]

    def _place(self, track: int, first: int) -> tuple[int, int, str, int]:
        """Return the place of a track among its siblings."""
        kind = 1 if self.is_a(track, Of.THREAD) else 2
        if self.is_a(track, Of.PROCESS):
            kind = 0
        parent = int(self._parent[track])
        order = int(self._column["ordering"][parent]) if parent >= 0 else 0
        rank = int(self._column["rank"][track])
        name = self.name(track) if order == _BY_NAME else ""
        if kind == 1:
            return kind, rank, "", max(int(self.tid[track]), 0)
        return kind, rank if order == _EXPLICIT else 0, name, first

    # -- counters --------------------------------------------------------------------

    def counter(self, track: int) -> tuple[str, str]:
        """Return name and unit of a counter."""
        code = int(self._column["unit_code"][track])
        name = self.name(track) or _BUILT_IN.get(code, "counter")
        return name, _UNITS.get(code, "") or self._text(self._column["unit"][track])

    def counter_names(self, tracks: Sequence[int]) -> list[tuple[str, str]]:
        """Return names and units; alike ones have their process or thread."""
        plain = [self.counter(track) for track in tracks]
        shown, count = [], Counter(plain)
        for track, (name, unit) in zip(tracks, plain, strict=True):
            home = int(self._home[track])
            where = self.process_title(self.process(track))
            if home >= 0 and self.is_a(home, Of.THREAD):
                where = self.thread_title(home)
            is_alone = count[name, unit] == 1 or not where
            shown.append((name if is_alone else f"{name} · {where}", unit))
        return shown

    def multiplier(self) -> I64:
        """Return what the values of each counter are multiplied by."""
        multiplier = self._column["multiplier"]
        return np.where(multiplier > 0, multiplier, 1)
