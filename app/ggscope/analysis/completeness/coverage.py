"""Coverage: what a trace leaves out, and what cannot be concluded from it therefore.

A trace is rarely all that a program did: a tracer filters, samples and stops, rings
overflow, programs are killed, files are cut, formats record some ops only. Whatever
concludes something from absence ("never touched", "nothing is missing"), or gives a
share of a whole, asks here first, so that all of them name the same reasons.

`trace_coverage` lists the reasons as `Omission`; a view that looks at a part of the
trace only adds its own with `TraceCoverage.plus`. ``words/coverage.py`` makes texts of
them and `TraceCoverage.json` is what every ``--json`` prints as ``coverage``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from ggscope.analysis.completeness.skipped import skipped_tokens
from ggscope.analysis.reads.record_limits import (
    cut_sources,
    has_graph,
    n_unplaced,
    only_op,
    uncomputed_results,
)
from ggscope.model.run import RecordingInfo
from ggscope.model.trace import RANGE_CODES, Trace
from ggscope.model.units import TimeRange, format_count, format_duration


class Cause(StrEnum):
    """Why a trace lacks something; the values are those of ``--json``."""

    # Settings of the tracer.
    OPS_FILTERED = "ops_filtered"
    LAYERS_FILTERED = "layers_filtered"
    THREADS_FILTERED = "threads_filtered"
    OP_TIMING_OFF = "op_timing_off"
    """Graphs only: no op has a record."""
    NAMES_OFF = "names_off"
    BUFFERS_OFF = "buffers_off"
    SAMPLED = "sampled"
    """One graph of so many is recorded."""
    SWITCHED_OFF = "switched_off"
    """Tracing was off for some of the time."""
    FILTERS_CHANGED = "filters_changed"
    """What was left out changed while the program ran."""
    LIMITED = "limited"
    """The tracer stopped after so many records."""
    GRAPHS_SKIPPED = "graphs_skipped"
    """Graphs were not traced: behind the limit, besides those that sampling leaves."""
    # What went wrong.
    RECORDS_LOST = "records_lost"
    EVENTS_LOST = "events_lost"
    """Graphs, ubatches or choices of experts are missing."""
    DEFINITIONS_LOST = "definitions_lost"
    OPS_NOT_SEEN = "ops_not_seen"
    """Ops ran that the tracer has no record of, without a filter."""
    DAMAGED = "damaged"
    FILE_CUT = "file_cut"
    # How far the recording goes.
    KILLED = "killed"
    """A signal ended the program: its last graph may be half computed."""
    STILL_RUNNING = "still_running"
    STARTED_LATE = "started_late"
    # What the format can state at all.
    OPS_NOT_RECORDED = "ops_not_recorded"
    """The format or tracer records some ops only, such as MUL_MAT."""
    GRAPHS_WHOLE = "graphs_whole"
    """Graphs of a backend, such as a GPU's, are recorded as a whole: no op is seen."""
    SOURCES_CUT = "sources_cut"
    """Records name so many sources; further ones are left out."""
    ACCESSES_UNPLACED = "accesses_unplaced"
    """Accesses to the model file of which it is not known which tensor they are to."""
    # What was read of the file.
    PART_READ = "part_read"
    """Part of the records was read: ``--records`` or ``--range``."""
    PART_SHOWN = "part_shown"
    """A range of time, or a filter of the view, leaves out the rest."""


@dataclass(frozen=True, slots=True)
class Omission:
    """One reason for which a trace is not all that the program did.

    Attributes
    ----------
    count : records or graphs that are left out because of it; None = not known.
    detail : what is left out or what is left, in the tracer's own syntax ("0-3",
        "MUL_MAT", "1 of 3", "SIGILL"); "" = nothing more is known.
    is_located : whether it is known which units of the model file it may concern: then
        those are listed one by one (`Cold.n_unrecorded`, `Cold.n_cut`); else anything
        may have been read besides, and no unit is known to be untouched.
    hides_reads : whether ops are concerned that read the model file.
    """

    cause: Cause
    count: int | None = None
    detail: str = ""
    is_located: bool = False
    hides_reads: bool = True


@dataclass(frozen=True, slots=True)
class TraceCoverage:
    """What a trace leaves out.

    Attributes
    ----------
    omissions : the reasons, those of its settings first; () where none is known.
    is_stated : whether the recording states the settings of its tracer. Without it an
        empty list of reasons means that none is known, not that there is none.
    """

    omissions: tuple[Omission, ...] = ()
    is_stated: bool = False

    @property
    def is_whole(self) -> bool | None:
        """Whether nothing is left out; None where nobody states it."""
        if self.omissions:
            return False
        return True if self.is_stated else None

    @property
    def may_hide_reads(self) -> bool:
        """Whether a unit that no record touches may have been read all the same.

        Then "never touched" is not known, but for units of which it is known that
        they were touched.
        """
        return any(o.hides_reads and not o.is_located for o in self.omissions)

    def of(self, *causes: Cause) -> tuple[Omission, ...]:
        """Return the reasons that have one of these causes."""
        return tuple(o for o in self.omissions if o.cause in causes)

    def plus(self, *omissions: Omission) -> "TraceCoverage":
        """Return the coverage with more reasons, those of a view or of a question."""
        return replace(self, omissions=(*self.omissions, *omissions))


_OF_PROBLEMS: dict[str, Cause] = {
    "capture_lost": Cause.RECORDS_LOST,
    "capture_no_lane": Cause.RECORDS_LOST,
    "capture_events_lost": Cause.EVENTS_LOST,
    "choices_missing": Cause.EVENTS_LOST,
    "capture_definitions_lost": Cause.DEFINITIONS_LOST,
    "capture_unnamed_ops": Cause.OPS_NOT_SEEN,
    "capture_damaged": Cause.DAMAGED,
    "capture_counters": Cause.DAMAGED,
    "live_counters": Cause.DAMAGED,
    "sidecar_values": Cause.DAMAGED,
    "recording_cut": Cause.FILE_CUT,
    "file_shrank": Cause.FILE_CUT,
    "read_failed": Cause.FILE_CUT,
    "truncated_record": Cause.FILE_CUT,
    "truncated_event": Cause.FILE_CUT,
    "truncated_json": Cause.FILE_CUT,
    "truncated_line": Cause.FILE_CUT,
    "unclean_end": Cause.FILE_CUT,
    "hole": Cause.DAMAGED,
    "skipped_bytes": Cause.DAMAGED,
    "broken_line": Cause.DAMAGED,
    "bad_entry": Cause.DAMAGED,
    "buffer_full": Cause.LIMITED,
    "live_lost": Cause.RECORDS_LOST,
    "live_no_lane": Cause.RECORDS_LOST,
    "live_hole": Cause.RECORDS_LOST,
    "live_damaged": Cause.DAMAGED,
    "live_before": Cause.STARTED_LATE,
    "live_full": Cause.LIMITED,
    "live_stopped": Cause.STILL_RUNNING,
    "reading_failed": Cause.PART_READ,
    "reading_stopped": Cause.PART_READ,
    **dict.fromkeys(RANGE_CODES, Cause.PART_READ),
}
"""Problems of a trace that say that records are missing or were left out."""
_ORDER = {cause: place for place, cause in enumerate(Cause)}


def trace_coverage(trace: Trace) -> TraceCoverage:
    """Return what a trace leaves out, as far as it states."""
    omissions = [
        Omission(
            _OF_PROBLEMS[warning.code],
            warning.count,
            trace.info.options.get("range", "") if warning.code in RANGE_CODES else "",
            # What experts compute without a known choice is stated tensor by tensor.
            is_located=warning.code == "choices_missing",
        )
        for warning in trace.warnings
        if warning.code in _OF_PROBLEMS
    ]
    for recording in trace.recordings:
        omissions = _with_recording(omissions, recording)
    if trace.is_running:
        omissions.append(Omission(Cause.STILL_RUNNING))
    if (skipped := skipped_tokens(trace)).gaps:
        numbers = f"token{'' if skipped.n_tokens == 1 else 's'} {skipped.numbers()}"
        omissions.append(Omission(Cause.RECORDS_LOST, detail=numbers))
    omissions += _of_records(trace)
    omissions.sort(key=lambda omission: _ORDER[omission.cause])
    is_stated = bool(trace.recordings) and all(s.settings for s in trace.recordings)
    return TraceCoverage(tuple(omissions), is_stated)


def shown_coverage(trace: Trace, time: TimeRange | None) -> TraceCoverage:
    """Return what a trace leaves out, and what a range of it leaves out besides."""
    coverage = trace_coverage(trace)
    if time is None:
        return coverage
    unit = trace.clock.unit
    begin, end = (format_duration(tick, unit) for tick in (time.start, time.end))
    return coverage.plus(
        # All omissions are about that part, so nothing of it is hidden.
        Omission(Cause.PART_SHOWN, detail=f"{begin} – {end}", hides_reads=False)
    )


def _with_recording(
    omissions: list[Omission], recording: RecordingInfo
) -> list[Omission]:
    """Return the reasons with those that a recording states itself."""
    omissions = [*omissions, *_of_settings(recording), *_of_end(recording)]
    account = recording.account
    if recording.whole:
        names = ", ".join(name for name, _ in recording.whole)
        n = sum(n for _, n in recording.whole)
        omissions.append(Omission(Cause.GRAPHS_WHOLE, n, names))
    if account is None:
        return omissions
    causes = {omission.cause for omission in omissions}
    n_lost = account.lost - account.not_seen
    if n_lost > 0 and Cause.RECORDS_LOST not in causes:
        omissions.append(Omission(Cause.RECORDS_LOST, n_lost))
    if account.not_seen and Cause.OPS_NOT_SEEN not in causes:
        omissions.append(Omission(Cause.OPS_NOT_SEEN, account.not_seen))
    if account.unknown_graphs and Cause.DEFINITIONS_LOST not in causes:
        n = account.unknown_graphs
        omissions.append(Omission(Cause.DEFINITIONS_LOST, n, "nodes of graphs"))
    return omissions


def _of_settings(recording: RecordingInfo) -> list[Omission]:
    """Return the omissions by filters of the tracer."""
    settings, account, omissions = (
        recording.settings,
        recording.account,
        list[Omission](),
    )

    def texts(name: str) -> list[str]:
        value = settings.get(name)
        return [str(item) for item in value] if isinstance(value, list) else []

    filters = [
        (Cause.OPS_FILTERED, ", ".join(texts("ops"))),
        (Cause.LAYERS_FILTERED, number_ranges(texts("layers"))),
        (Cause.THREADS_FILTERED, number_ranges(texts("threads"))),
    ]
    if settings.get("thread_tracking") is False:
        filters[2] = (Cause.THREADS_FILTERED, "0")
    if settings.get("op_timing") is False:
        filters = [(Cause.OP_TIMING_OFF, "op timing was off")]
    used = [(cause, detail) for cause, detail in filters if detail]
    # Of several filters it is not known how much each leaves out.
    count = account.left_out if account is not None and len(used) == 1 else None
    omissions += [Omission(cause, count, detail) for cause, detail in used]
    for name, cause in (
        ("tensor_names", Cause.NAMES_OFF), ("memory_tracking", Cause.BUFFERS_OFF),
    ):  # fmt: skip
        if settings.get(name) is False:
            omissions.append(Omission(cause, hides_reads=False))
    if recording.n_changes is None or recording.n_changes:
        omissions.append(Omission(Cause.FILTERS_CHANGED, recording.n_changes))
    return [*omissions, *_of_skipped(recording)]


def _of_skipped(recording: RecordingInfo) -> list[Omission]:
    """Return the omissions by sampling, limits and switching off."""
    account, n = recording.account, recording.skipped_graphs
    every, limit = (recording.settings.get(k) for k in ("sample_every", "max_records"))
    is_sampled = isinstance(every, int) and every > 1
    if isinstance(limit, int) and limit and account is not None:
        beyond = account.beyond_limit
        if beyond or account.recorded >= limit:
            detail = f"{format_count(limit)} records"
            omissions = [Omission(Cause.LIMITED, beyond or None, detail)]
            if is_sampled:
                # How many of them the limit skipped is not known.
                omissions.append(Omission(Cause.SAMPLED, n or None, f"1 of {every}"))
            elif n:
                omissions.append(Omission(Cause.GRAPHS_SKIPPED, n))
            return omissions
    if is_sampled:
        return [Omission(Cause.SAMPLED, n, f"1 of {every}")]
    if n or recording.settings.get("enabled") is False:
        return [Omission(Cause.SWITCHED_OFF, n, "graphs")]
    return []


def _of_end(recording: RecordingInfo) -> list[Omission]:
    """Return the omissions of a program that did not end normally."""
    account = recording.account
    n = 0 if account is None else len(account.interrupted)
    # All graphs that it had computed are recorded.
    hides = n > 0 or account is None
    if recording.end == "running":
        return [Omission(Cause.STILL_RUNNING)]
    if recording.end == "killed":
        detail = f"by {recording.signal}" if recording.signal else ""
        return [Omission(Cause.KILLED, n or None, detail, hides_reads=hides)]
    if recording.end == "gone":
        return [Omission(Cause.KILLED, n or None, "cause unknown", hides_reads=hides)]
    if n:
        return [Omission(Cause.KILLED, n, "while computing")]
    return []


def number_ranges(texts: Iterable[str]) -> str:
    """Return "0-3, 7" of whole numbers; other texts come behind them."""
    numbers = sorted({int(text) for text in texts if text.isdecimal()})
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    ranges = [str(a) if a == b else f"{a}-{b}" for a, b in parts]
    return ", ".join([*ranges, *(text for text in texts if not text.isdecimal())])


def _of_records(trace: Trace) -> list[Omission]:
    """Return what the records of a trace show by themselves, and its graphs of them."""
    omissions: list[Omission] = []
    if has_graph(trace):
        # Which of their ops have no record is listed, and what those read.
        if n := len({node for join in trace.joins for node in join.unrecorded_nodes}):
            omissions.append(Omission(Cause.OPS_NOT_SEEN, n, is_located=True))
        if n := len({node for join in trace.joins for node in join.truncated_nodes}):
            omissions.append(Omission(Cause.SOURCES_CUT, n, is_located=True))
    elif op := only_op(trace):
        omissions.append(Omission(Cause.OPS_NOT_RECORDED, detail=op))
    elif results := uncomputed_results(trace):
        omissions.append(Omission(Cause.OPS_NOT_SEEN, detail=", ".join(results)))
    if n := int(np.count_nonzero(cut_sources(trace))):
        omissions.append(Omission(Cause.SOURCES_CUT, n, is_located=True))
    if n := n_unplaced(trace):
        omissions.append(Omission(Cause.ACCESSES_UNPLACED, n))
    return omissions
