"""Recordings: ring contents spooled to disk until they are written as a trace.

A recording is a folder beside the output: the first page, the lanes; records, events
and definitions in order of arrival. Everything is on disk before its space in the ring
is released, so that each record is in the ring, in the recording, or in both; a
recorder that resumes after a killed launcher skips duplicates. A note beside the ring
names the folder.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggscope_capture import files, filters, record_counts
from ggscope_capture.builds import Builds
from ggscope_capture.config import Settings
from ggscope_capture.facts import to_sidecar
from ggscope_capture.frames import HEAD_BYTES, Frames
from ggscope_capture.ggmlviz import ggmlviz_pieces
from ggscope_capture.record import TRACE, record_pieces
from ggscope_capture.recording_folder import (
    MARKER,
    NOTE_SUFFIX,
    RecordingFolder,
    folder_of,
    read_note,
    write_note,
)
from ggscope_capture.regular_file import is_own_file
from ggscope_capture.ring import (
    CONTROL,
    DTYPES,
    LANE,
    RECORD,
    NotReadyError,
    Ring,
    identity_of,
)
from ggscope_capture.ring_contents import Records, RingContents, whole_events
from ggscope_capture.ring_format import (
    DEFS_SUFFIX,
    RECORD_GRAPH,
    RING_PAGE,
    UNKNOWN_U32,
    DefsHeader,
    Frame,
    FrameType,
    RingError,
    RingState,
    SeenDefinitions,
    defs_head,
    size_of,
)
from ggscope_capture.sidecar import sidecar_chunks

_AT_FIRST = {
    "events": b"",
    "records": b"",
    "facts": json.dumps({"lost": 0, "lost_events": 0}).encode(),
}
"""Initial files of a recording folder."""
_BUILDS = (FrameType.BUILD, FrameType.BUILD_LIKE)
_BUFFERS = (FrameType.BUFFER, FrameType.BUFFER_EVENT)
_MAX_FACTS_BYTES = 1 << 20
_MAX_LANES_BYTES = LANE.itemsize << 16
_DEFS_HEAD_BYTES = size_of(DefsHeader)
_ALL_OPS, _N_OPS, _N_THREADS = (1 << 64) - 1, 256, 512
_FILTERS = ("op_mask", "lane_mask", "layer_first", "layer_last")
_COMMANDS = (*_FILTERS, "sample_every", "enabled")
"""Fields of the first page that the tracer reads."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The contents of one ring, read from its recording folder.

    `control` is the final first page, of `ring.CONTROL`; `lost` counts records that
    the ring dropped or overwrote. `damaged` counts frames that do not match their type
    and are left out. `sidecar_keys` holds further keys of the sidecar: settings and
    their changes, how the program ended, record counts.
    """

    contents: RingContents
    control: np.void
    lost: int
    lost_events: int
    damaged: int
    sidecar_keys: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Recorder:
    """Writer that drains one ring into a folder.

    `settings` may be replaced while it runs; live ones reach the tracer with the next
    `poll`.
    """

    ring: Ring
    place: RecordingFolder
    settings: Settings
    n_records: int = 0
    n_graphs: int = 0
    n_beyond_limit: int = 0
    _initial_settings: dict[str, Any] = field(default_factory=dict)
    _changes: list[dict[str, Any]] = field(default_factory=list)
    _end: dict[str, Any] | None = None
    _ops: dict[str, int] = field(default_factory=dict)
    _notes: list[str] = field(default_factory=list)
    _applied: tuple[Any, ...] = ()
    _last_commands: tuple[bytes, ...] = ()
    _is_set_externally: bool = False
    _has_changed: bool = False
    _last: dict[int, int] = field(default_factory=dict)
    _seen: set[bytes] = field(default_factory=set)
    _written_facts: str = ""
    _lost_before: int = 0

    @classmethod
    def begin(cls, path: Path, folder: Path, settings: Settings) -> "Recorder":
        """Open a ring and its recording folder, a new one unless it has one already.

        Raises
        ------
        RingError
            If the file is no ring, not ready yet, read by another process, or its
            definitions belong to another ring. No folder is made then.
        OSError
            If the folder cannot be made.
        """
        ring = Ring(path, releases=False)
        try:
            ring.check_definitions()
            _take(ring)
            identity = ring.identity
            there = folder_of(path, identity)
            place = there or RecordingFolder.make(folder)
            try:
                _prepare(place, path, identity)
                recorder = cls(ring, place, settings)
                recorder._initial_settings = filters.all_of(settings)
                if there is not None:
                    recorder._load_taken()
                recorder._append_definitions()
                if there is not None:
                    recorder._load_facts()
            except BaseException:
                if there is None:
                    place.remove(identity)
                place.close()
                raise
        except BaseException:
            ring.close()
            raise
        return recorder

    @property
    def folder(self) -> Path:
        """Where the recording is."""
        return self.place.path

    def _load_taken(self) -> None:
        """Index what the folder holds, so that nothing is recorded twice.

        Its writer may have been killed in the middle of a record. The ring can repeat
        at most as much as it has capacity for.
        """
        ring = self.ring
        records, events = _records(self.place), Frames(self.place.map("events"))
        self.place.cut("records", records.nbytes)
        self.place.cut("events", events.end)
        self.n_records = len(records)
        newest = records[-ring.n_bytes // RECORD.itemsize :]
        for lane in np.unique(newest["lane"]).tolist():
            self._last[lane] = int(newest["t0"][newest["lane"] == lane].max())
        is_newest = events.begins >= events.end - ring.n_bytes
        numbers = np.flatnonzero(is_newest).tolist()
        self._seen = {events.event(number).packed() for number in numbers}
        definitions = self.place.map("definitions")
        frames = Frames(definitions, _DEFS_HEAD_BYTES)
        self.place.cut("definitions", frames.end)
        for event in frames.events():
            ring.seen.is_new(event)
        self._ops |= known_ops(frames.events(FrameType.OP))

    def _load_facts(self) -> None:
        with contextlib.suppress(OSError, RingError):
            # The tracer counts all that it dropped, whoever reads the ring.
            facts = _facts(self.place)
            self._lost_before = max(facts["lost"] - self.ring.dropped(), 0)
            self._resume_facts(facts)

    def _append_definitions(self) -> None:
        """Append new definitions to the folder."""
        new = self.ring.definitions()
        self.place.append("definitions", [event.packed() for event in new])
        self._ops |= known_ops(new)
        for event in new:
            if event.type == FrameType.NOTE and event.is_whole():
                self._notes.append(event.text())

    def _resume_facts(self, facts: dict[str, Any]) -> None:
        """Restore earlier settings and changes; record a change to the present ones."""
        page = filters.live_of_page(self.ring.control[0], self._ops)
        # The viewer records no settings, because it changes none.
        self._initial_settings = facts.get("settings") or {
            **self._initial_settings,
            **page,
        }
        self._changes = facts.get("changes") or []
        self.n_beyond_limit = facts.get("beyond_limit", 0)
        before = self._changes[-1] if self._changes else self._initial_settings
        now = filters.live_of(self.settings)
        is_new = any(before.get(name) != value for name, value in now.items())
        if is_new and is_running(self.ring):
            self._has_changed = True
            self._note_change(now)

    def _note_change(self, live: dict[str, Any]) -> None:
        self._changes.append({"time": time.monotonic_ns(), **live})

    def poll(self) -> int:
        """Drain the ring into the folder; return the number of new records."""
        self.ring.control["reader_pid"] = os.getpid()
        self.ring.control["reader_heartbeat"] = time.monotonic_ns()
        # Definitions last: all that records and events refer to is included then.
        parts, events = self.ring.records(), self.ring.events()
        self._append_definitions()
        self._apply()
        if self._last:
            parts = [part[~self._is_taken(part)] for part in parts]
        remaining = self._max_remaining()
        n = 0
        self.n_graphs += sum(event.type == FrameType.GRAPH_BEGIN for event in events)
        contents = [event.packed() for event in events]
        new = [content for content in contents if content not in self._seen]
        # Events first: a concurrent reader of the records needs them.
        self.place.append("events", new)
        accepted = []
        for part in parts:
            accepted.append(
                part if remaining is None else part[: max(remaining - n, 0)]
            )
            n += len(accepted[-1])
            self.n_beyond_limit += len(part) - len(accepted[-1])
        self.place.append("records", [part.tobytes() for part in accepted])
        self._write_facts()
        self.n_records += n
        self.ring.release()
        return n

    def _write_facts(self) -> None:
        """Write loss counts and settings for concurrent readers of the folder."""
        lost = int(self.ring.lost.sum()) + self.ring.dropped() + self._lost_before
        lost_events = self.ring.events_lost + self.ring.count("events_dropped")
        facts = json.dumps(
            {
                "lost": lost, "lost_events": lost_events,
                "settings": self._initial_settings,
                "changes": self._changes, "beyond_limit": self.n_beyond_limit,
                "end": self._end, "damaged_counters": sorted(self.ring.damage),
            }
        )  # fmt: skip
        if facts != self._written_facts:
            self._contents = facts
            self.place.write("facts", facts.encode())

    def _is_taken(self, part: NDArray[Any]) -> NDArray[np.bool_]:
        lane = int(part["lane"][0]) if len(part) else 0
        return np.asarray(part["t0"] <= self._last.get(lane, -1))

    def _max_remaining(self) -> int | None:
        """Return how many records the limit still allows; None = no limit."""
        limit = self.settings.max_records
        return limit - self.n_records if limit else None

    def _apply(self) -> None:
        """Write changed settings into the ring, where the tracer reads them."""
        remaining = self._max_remaining()
        is_below_limit = remaining is None or remaining > 0
        target = (self.settings, tuple(self._ops), is_below_limit)
        now = self._commands()
        n = len(_FILTERS)
        if (
            self._last_commands and now != self._last_commands
        ):  # `ggscope-capture set`, from elsewhere
            self._is_set_externally = True
            self._has_changed = self._has_changed or now[:n] != self._last_commands[:n]
            page = filters.live_of_page(self.ring.control[0], self._ops)
            self._note_change(page)
        if target != self._applied:
            if self._applied and self._applied[0] != self.settings:
                self._is_set_externally = False
                self._has_changed = True
                self._note_change(filters.live_of(self.settings))
            self._applied = target
            if not self._is_set_externally:
                apply(self.ring, self.settings, self._ops)
            if not is_below_limit:
                self.ring.control["enabled"] = 0
        self._last_commands = self._commands()

    def _commands(self) -> tuple[bytes, ...]:
        return tuple(self.ring.control[name].tobytes() for name in _COMMANDS)

    @property
    def common_settings(self) -> Settings:
        """The settings that hold for the whole recording: no filter if one changed.

        Records from before a change passed the filter of that time.
        """
        if not self._has_changed:
            return self.settings
        return replace(
            self.settings, ops=(), layers=(), threads=(), op_timing=True,
            thread_tracking=True,
        )  # fmt: skip

    def new_notes(self) -> list[str]:
        """Return new notes of the tracer to the user, each once."""
        notes, self._notes = self._notes, []
        return notes

    def is_over(self) -> bool:
        """Return whether the ring's program has ended, for any reason."""
        return not is_running(self.ring)

    def finish(
        self, end: Mapping[str, Any] | None = None, *, keeps_ring: bool = False
    ) -> None:
        """Drain the rest, write the pages, and remove the ring.

        `end` is how the program ended if its launcher knows; see `end_of`.
        """
        ring, place = self.ring, self.place
        self._end = dict(end) if end is not None else end_of(ring)
        ring.control["enabled"] = 0
        self._last_commands = self._commands()
        self.poll()
        place.write("lanes", ring.lanes.tobytes())
        # Last: its presence marks a complete recording.
        place.write("control", ring.control.tobytes())
        ring.control["reader_pid"] = 0
        ring.close()
        if not keeps_ring:
            remove(ring)

    def remove(self) -> bool:
        """Remove the recording folder after writing; return whether it is gone.

        A folder with foreign files stays.
        """
        return self.place.remove(self.ring.identity)


def end_of(
    ring: Ring, code: int | None = None, *, has_launcher: bool = False
) -> dict[str, Any]:
    """Return how a ring's program ended, as the sidecar has it.

    Parameters
    ----------
    code : its exit code, negative for a signal; None = unknown.
    has_launcher : whether the program had a launcher that observed the end.
    """
    if code is not None:
        state = "exited" if code >= 0 else "killed"
    elif is_running(ring):
        state = "running"
    else:
        states = {int(RingState.ENDED): "exited", int(RingState.REPLACED): "replaced"}
        # Ended without marking the ring: killed, or left by _exit.
        state = states.get(ring.value("state"), "gone")
    return {
        "state": state,
        "exit_code": code if code is not None and code >= 0 else None,
        "signal": _signal(-code) if code is not None and code < 0 else None,
        "launcher": has_launcher,
    }


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def load(folder: Path, settings: Settings) -> Recording:
    """Read a recording folder, finished or still growing.

    Records that the settings filter out are omitted: the tracer applies a filter from
    the next graph on, and knows an op's number once it has seen one.

    Raises
    ------
    OSError
        If a file of it, or the ring of a growing one, does not exist.
    RingError
        If it is damaged.
    """
    place = RecordingFolder(folder)
    # Facts last: they include all that these belong to.
    records, events = _records(place), Frames(place.map("events"))
    facts = _facts(place)
    waiting: list[Frame] = []
    if place.has("control"):
        page = place.read("control", RING_PAGE)
        heads = place.read("lanes", _MAX_LANES_BYTES)
        if len(heads) % LANE.itemsize:
            raise RingError("the lanes are not complete")
        lanes = np.frombuffer(heads, LANE)
    else:
        path = place.ring()
        if path is None:
            raise RingError("the folder does not name its ring")
        with Ring(path, is_owner=False) as ring:
            page, lanes = ring.control.tobytes(), ring.lanes.copy()
            facts["end"] = end_of(ring)
            # Before those in the folder, which its writer may append to meanwhile.
            waiting = ring.definitions()
    definitions = Frames(place.map("definitions"), _DEFS_HEAD_BYTES)
    place.close()
    if len(page) != RING_PAGE:
        raise RingError("the first page is not complete")
    if not settings.memory_tracking:
        definitions = definitions.where_true(~np.isin(definitions.types, _BUFFERS))
        waiting = [event for event in waiting if event.type not in _BUFFERS]
    is_good = whole_events(events)
    builds, others, n_bad = _definitions(definitions, waiting)
    n_bad += int(np.count_nonzero(~is_good))
    contents = RingContents.with_builds(
        builds, others, events.where_true(is_good), Records(records), lanes
    )
    control = np.frombuffer(page, CONTROL, 1)[0]
    filtered = _without_filtered(contents, settings)
    return Recording(
        filtered, control, facts["lost"], facts["lost_events"], n_bad,
        _record_facts(facts, contents, filtered, control, settings),
    )  # fmt: skip


def _definitions(
    definitions: Frames, waiting: Iterable[Frame]
) -> tuple[Builds, list[Frame], int]:
    """Return builds, other definitions, and the number of damaged ones.

    `waiting` : definitions in the ring that may not be in the folder yet.
    """
    builds, others, n_bad = Builds(), list[Frame](), 0
    definitions_seen = SeenDefinitions()
    for number, kind in enumerate(definitions.types.tolist()):
        begin = int(definitions.begins[number]) + HEAD_BYTES
        end = int(definitions.begins[number] + definitions.sizes[number])
        if kind not in _BUILDS:
            event = definitions.event(number)
            definitions_seen.is_new(event)
            others.append(event)
            continue
        try:
            builds.add(kind, definitions.data, begin, end)
        except RingError:
            n_bad += 1
    for event in waiting:
        if event.type not in _BUILDS:
            others += [event] * definitions_seen.is_new(event)
            continue
        try:
            builds.add_event(event)
        except RingError:
            n_bad += 1
    good = [event for event in others if event.is_whole()]
    return builds, good, n_bad + len(others) - len(good)


def _record_facts(
    facts: Mapping[str, Any],
    contents: RingContents,
    filtered: RingContents,
    control: np.void,
    settings: Settings,
) -> dict[str, Any]:
    """Return the sidecar keys on how the recording was made.

    `filtered` is the part of `contents` that the outputs will hold.
    """
    ops = {name: number for number, name in contents.ops.items()}
    counts = record_counts.count_records(contents)
    written_ops = record_counts.count_received(filtered)
    # The viewer records no changes: only `set` makes any, and the ring counts them.
    is_changed = "changes" not in facts and int(control["filter_seq"]) > 0
    live_settings = facts.get("settings") or filters.live_of_page(control, ops)
    return {
        "settings": {**live_settings, **filters.outputs_of(settings)},
        "changes": None if is_changed else facts.get("changes", []),
        "end": facts.get("end"),
        "damaged_counters": [*map(str, facts.get("damaged_counters", []))],
        "account": record_counts.as_json(
            counts, written_ops, beyond_limit=facts.get("beyond_limit", 0)
        ),
    }


def write(
    recording: Recording,
    *,
    records: Path | None,
    ggmlviz: Path | None,
    settings: Settings,
    report_progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write the outputs of a recording, records with their sidecar; return the paths.

    `report_progress` takes the number of records written, and the total.

    Raises
    ------
    OSError
        If one cannot be written.
    RingError
        If the recording is damaged.
    """
    paths = []
    has_names = settings.tensor_names
    if records is not None:
        sidecar = records.with_suffix(".json")
        facts = to_sidecar(recording.contents, recording.control)
        facts["lost"], facts["lost_events"] = recording.lost, recording.lost_events
        facts["damaged_frames"] = recording.damaged
        facts.update(recording.sidecar_keys)
        n_done, n_records = 0, len(recording.contents.records)
        with files.replacing(records) as temporary, temporary.open("wb") as out:
            for chunk in record_pieces(recording.contents, has_names=has_names):
                n_done += out.write(chunk) // TRACE.itemsize
                if report_progress is not None:
                    report_progress(n_done, max(n_done, n_records))
        builds = recording.contents.builds.values()
        with files.replacing(sidecar) as temporary, temporary.open("wb") as out:
            out.writelines(sidecar_chunks(facts, builds, has_names=has_names))
        paths += [records, sidecar]
    if ggmlviz is not None:
        with files.replacing(ggmlviz) as temporary, temporary.open("wb") as out:
            out.writelines(ggmlviz_pieces(recording.contents, has_names=has_names))
        paths.append(ggmlviz)
    return paths


def _without_filtered(contents: RingContents, settings: Settings) -> RingContents:
    """Return the ring contents without what the settings filter out."""
    mask = op_mask(settings, {name: number for number, name in contents.ops.items()})
    left_out = [number for number in range(_N_OPS) if mask >> number & 1]
    threads = _thread_mask(settings)
    closed_threads = [ith for ith in range(_N_THREADS) if threads >> ith & 1]
    layers = _Layers(contents)

    def keeps(records: NDArray[Any]) -> NDArray[np.bool_]:
        is_graph = records["extra"] & RECORD_GRAPH != 0
        counts = np.ones(len(records), np.bool_)
        if left_out:
            counts &= is_graph | ~np.isin(records["op"], left_out)
        if closed_threads and len(contents.lanes):
            lane = np.minimum(records["lane"], len(contents.lanes) - 1)
            counts &= ~np.isin(contents.lanes["ith"][lane], closed_threads)
        if settings.layers:
            counts &= is_graph | np.isin(layers.of(records), settings.layers)
        return counts

    if not left_out and not closed_threads and not settings.layers:
        return contents
    events = contents.events
    if settings.layers:
        frames = events.where(FrameType.EXPERTS, FrameType.ROUTER)
        heads = events.structs(frames, DTYPES["event_experts"])
        is_kept = np.ones(len(events), np.bool_)
        is_kept[frames] = np.isin(heads["layer"], settings.layers)
        events = events.where_true(is_kept)
    return replace(contents, records=contents.records.filtered(keeps), events=events)


class _Layers:
    """Layers of nodes, cached by build; alike builds share them."""

    def __init__(self, contents: RingContents) -> None:
        self._contents = contents
        self._of_whole: dict[int, NDArray[np.int64]] = {}

    def of(self, records: NDArray[Any]) -> NDArray[np.int64]:
        """Return the layer of each record; -1 = none or unknown."""
        contents, layers = self._contents, np.full(len(records), -1, np.int64)
        of_graph = np.append(contents.graphs["build"].astype(np.int64), UNKNOWN_U32)
        number = of_graph[contents.places(records["graph"])]
        numbers, which = np.unique(number, return_inverse=True)
        wholes = np.array(
            [contents.builds.whole_of(n) for n in numbers.tolist()], np.int64
        )
        whole, nodes = wholes[which], records["node"].astype(np.int64)
        for n in np.unique(whole[whole >= 0]).tolist():
            table = self._table(n)
            rows = np.flatnonzero((whole == n) & (nodes < len(table)))
            layers[rows] = table[nodes[rows]]
        return layers

    def _table(self, whole: int) -> NDArray[np.int64]:
        if whole not in self._of_whole:
            build = self._contents.builds[whole]
            layers = build.tensors["layer"][: build.head.n_nodes]
            self._of_whole[whole] = layers.astype(np.int64)
        return self._of_whole[whole]


def apply(
    ring: Ring,
    settings: Settings,
    ops: dict[str, int],
    names: frozenset[str] | None = None,
) -> None:
    """Write what is live in the settings into a ring's first page.

    `ops` are the numbers of known op names; `names` the settings to write, None = all.
    The tracer reads them at the next graph.
    """
    control = ring.control
    every = names is None
    names = names or frozenset()
    if every or names & {"ops", "op_timing"}:
        control["op_mask"][0] = _mask_words(op_mask(settings, ops), 4)
    if every or names & {"threads", "thread_tracking"}:
        control["lane_mask"][0] = _mask_words(_thread_mask(settings), 8)
    if every or "layers" in names:
        # The tracer keeps to a range, and 0, 0 is all of them: gaps, and layer 0
        # alone, are left out when the outputs are written.
        layers = settings.layers or (0,)
        control["layer_first"], control["layer_last"] = layers[0], layers[-1]
    if every or "sample_every" in names:
        control["sample_every"] = settings.sample_every
    if every or "enabled" in names:
        control["enabled"] = int(settings.enabled)
    control["filter_seq"] += 1


def known_ops(definitions: Iterable[Frame]) -> dict[str, int]:
    """Return the numbers of the ops that definitions name."""
    ops = {}
    for definition in definitions:
        if definition.type == FrameType.OP:
            with contextlib.suppress(RingError):
                ops[definition.text()] = definition.number()
    return ops


def op_mask(settings: Settings, ops: dict[str, int]) -> int:
    """Return the ops to leave out as a bit mask; `ops` maps names to numbers."""
    if not settings.op_timing:
        return (1 << _N_OPS) - 1
    mask = 0
    for name in settings.ops:
        bare = name.removeprefix("!")
        number = int(bare) if bare.isdigit() else ops.get(bare, -1)
        if 0 <= number < _N_OPS:
            mask |= 1 << number
    if settings.ops and not settings.ops[0].startswith("!"):
        known_ops_mask = sum(1 << number for number in ops.values() if number < _N_OPS)
        return known_ops_mask & ~mask  # names that are not known yet may be wanted
    return mask


def _thread_mask(settings: Settings) -> int:
    """Return the threads to leave out as a bit mask."""
    traced = settings.threads or tuple(range(_N_THREADS))
    if not settings.thread_tracking:
        traced = tuple(ith for ith in traced if ith == 0)
    every = (1 << _N_THREADS) - 1
    return every & ~sum(1 << ith for ith in traced)


def _mask_words(mask: int, n: int) -> list[int]:
    return [mask >> (64 * word) & _ALL_OPS for word in range(n)]


def _records(place: RecordingFolder) -> NDArray[Any]:
    """Return the complete records of a folder as a memory map."""
    content = place.map("records")
    return np.frombuffer(content, RECORD, len(content) // RECORD.itemsize)


def _facts(place: RecordingFolder) -> dict[str, Any]:
    """Read a recording's facts file; raises OSError or RingError."""
    try:
        facts = place.read_json("facts", _MAX_FACTS_BYTES)
    except ValueError as error:
        raise RingError(f"its facts cannot be read: {error}") from error
    numbers = [facts.get(k, 0) for k in ("lost", "lost_events", "beyond_limit")]
    changes = facts.get("changes", [])
    if (
        any(type(number) is not int or number < 0 for number in numbers)
        or not isinstance(facts.get("settings") or {}, dict)
        or not isinstance(facts.get("end") or {}, dict)
        or not isinstance(changes, list)
        or not all(isinstance(change, dict) for change in changes)
        or not isinstance(facts.get("damaged_counters", []), list)
        or not {"lost", "lost_events"} <= facts.keys()
    ):
        raise RingError("its facts are damaged")
    return facts


def is_running(ring: Ring) -> bool:
    """Return whether the process that writes a ring is alive."""
    return _is_alive(ring.value("pid"), ring.value("start_time"))


def _is_alive(pid: int, start_time: int) -> bool:
    """Return whether a process is alive, and not another one with its number."""
    if not 0 < pid < 1 << 31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return True  # a system without /proc
    return stat[0] not in (b"Z", b"X") and (
        not start_time or int(stat[19]) == start_time
    )


def _take(ring: Ring) -> None:
    """Claim a ring for this process; raises RingError if another reads it."""
    reader = ring.value("reader_pid")
    if reader not in (0, os.getpid()) and _is_alive(reader, 0):
        raise RingError(f"process {reader} is already reading it")
    ring.control["reader_pid"] = os.getpid()


def _prepare(place: RecordingFolder, ring: Path, identity: str) -> None:
    """Create the files of a recording, then the note that names its folder.

    In this order, so that a successor of a killed recorder can resume it.
    """
    files_at_first = {**_AT_FIRST, "definitions": defs_head(bytes.fromhex(identity))}
    for name, content in {**files_at_first, MARKER: identity.encode()}.items():
        if not place.has(name):
            place.write(name, content)
    place.write("ring", os.fsencode(ring.resolve()))
    write_note(ring, place.path, identity)


def finished(path: Path) -> RecordingFolder:
    """Open the folder of a finished recording.

    Raises
    ------
    OSError
        If it cannot be opened.
    RingError
        If the end is still in its ring, or lost.
    """
    place = RecordingFolder(path.parent.resolve() / path.name)
    if place.has("control"):
        return place
    ring = place.ring()
    place.close()
    if ring is not None and ring.exists():
        raise RingError(f"the recording is still growing in {ring}: name that ring")
    raise RingError("the recording is incomplete, and its ring is gone")


def has_facts(path: Path) -> bool:
    """Return whether a folder holds a recording; raises OSError."""
    with contextlib.closing(RecordingFolder(path)) as place:
        return place.has("facts")


def ring_identity(place: RecordingFolder) -> str:
    """Return the identity of a finished recording's ring."""
    page = place.read("control", RING_PAGE)
    if len(page) != RING_PAGE:
        raise RingError("the first page is not complete")
    return bytes(np.frombuffer(page, CONTROL, 1)["identity"][0]).hex()


def remove(ring: Ring) -> None:
    """Remove a ring, open or closed, its definitions, and the note beside it.

    Of each name only the file that is this user's and of this very ring: another one
    may stand there by now, or always have.

    Raises
    ------
    OSError
        If one cannot be removed.
    """
    name = ring.path.name
    flags = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
    folder = os.open(ring.path.parent, flags)
    try:
        if ring.is_file(name, folder):
            os.unlink(name, dir_fd=folder)
        if identity_of(name + DEFS_SUFFIX, folder) == ring.identity:
            os.unlink(name + DEFS_SUFFIX, dir_fd=folder)
        note = read_note(name + NOTE_SUFFIX, folder)
        if note is not None and note.identity == ring.identity:
            os.unlink(name + NOTE_SUFFIX, dir_fd=folder)
    finally:
        os.close(folder)


def place_of(ring: Path, identity: str = "") -> Path | None:
    """Return the recording folder of a ring, or None; see `folder_of`."""
    folder = folder_of(ring, identity)
    if folder is None:
        return None
    folder.close()
    return folder.path


@dataclass(frozen=True, slots=True, kw_only=True)
class RingStatus:
    """The state of a ring file.

    `state` is "running", "ended", "dead" (its program was killed), "not ready" or
    "damaged"; `waiting` counts unread records.
    """

    path: Path
    state: str
    pid: int = 0
    program: str = ""
    waiting: int = 0
    reader: int = 0
    folder: Path | None = None
    why: str = ""


def ring_statuses(folder: Path) -> list[RingStatus]:
    """Return this user's rings in a folder, oldest first."""
    return [
        ring_status(path)
        for path in sorted(folder.glob("ggscope-*"), key=_age)
        if not path.name.endswith((DEFS_SUFFIX, NOTE_SUFFIX, ".tmp"))
        and is_own_file(path)
    ]


def _age(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def ring_status(path: Path) -> RingStatus:
    """Return the status of a ring file; ``why`` says what is wrong with it."""
    try:
        ring = Ring(path, is_owner=False)
    except RingError as error:
        state = "not ready" if isinstance(error, NotReadyError) else "damaged"
        return RingStatus(path=path, state=state, why=str(error))
    except OSError as error:
        return RingStatus(path=path, state="damaged", why=files.reason_of(error))
    with ring:
        pid = ring.value("pid")
        state = "running" if is_running(ring) else "dead"
        if state == "dead" and ring.value("state") != RingState.RUNS:
            state = "ended"
        waiting = ring.waiting().sum()
        reader = ring.value("reader_pid")
        return RingStatus(
            path=path, state=state, pid=pid, waiting=int(waiting),
            program=ring.control["program"][0].decode("utf-8", "replace"),
            reader=reader if reader and _is_alive(reader, 0) else 0,
            folder=place_of(path, ring.identity),
        )  # fmt: skip
