"""Summaries of runs that are not kept: what a table of many runs shows of each.

What the sidecar of a recording states needs no event. Times of ops do: then a run is
read, summed up and let go of, one at a time, and the result is kept on disk by size and
time of its files.
"""

import dataclasses
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ggscope.analysis.completeness.coverage import Cause, Omission, trace_coverage
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.statistics.table import stat_table
from ggscope.analysis.summary.summary import token_summary
from ggscope.atomic_write import make_folder, write_file
from ggscope.errors import TooLargeError, TraceError
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.discovery import (
    FileSet,
    RunFiles,
    RunFolder,
    survey,
)
from ggscope.readers.memory import MemoryGuard
from ggscope.readers.registry import infos
from ggscope.session_loading import open_bundle

logger = logging.getLogger(__name__)

MAX_CACHED = 4_000
MAX_SIDECAR = 64 << 20
"""A sidecar of more bytes is read with the events alone."""
_CACHE_VERSION = 1


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What is known of a run; None = not known, or not read so far.

    Attributes
    ----------
    path : what is opened to see it.
    size : bytes of its traces.
    modified_ns : when the newest of them was written, since 1970.
    format : of the trace.
    facts : what the file says of its producer, by name: program, command …
    model : name of the model file.
    prompt, generated : tokens.
    prompt_per_s, generated_per_s : tokens per second in which any of them is computed;
        of a log, by the times that llama.cpp states for its requests.
    threads : of which ops are recorded.
    families : thread time of ops by family, ticks, the longest first.
    ticks_per_s : of these; None where nobody says how long a cycle is.
    omissions : what the recording leaves out; () = nothing, as it states.
    error : why it cannot be read; "" = it can.
    is_read : whether its events were read.
    """

    path: Path
    size: int
    modified_ns: int
    format: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    model: str = ""
    prompt: int | None = None
    generated: int | None = None
    prompt_per_s: float | None = None
    generated_per_s: float | None = None
    threads: int | None = None
    families: tuple[tuple[str, int], ...] | None = None
    ticks_per_s: float | None = None
    omissions: tuple[Omission, ...] | None = None
    error: str = ""
    is_read: bool = False

    @property
    def command(self) -> str:
        """Command line of the program; "" unknown."""
        return self.facts.get("command", "")

    @property
    def total(self) -> int | None:
        """Thread time of all ops, ticks."""
        if self.families is None:
            return None
        return sum(ticks for _, ticks in self.families)


def quick_summary(run: RunFiles) -> RunSummary:
    """Return what is known of a run without reading an event."""
    titles = {info.id: info.title for info in infos(waits=False)}
    readers = dict.fromkeys(titles.get(t.reader_id, t.reader_id) for t in run.traces)
    blank = RunSummary(run.path, run.size, _modified_ns(run), format=", ".join(readers))
    if run.sidecar is None or run.sidecar.size > MAX_SIDECAR:
        return blank
    try:
        trace = open_bundle(FileSet(sides=(run.sidecar,)))
    except TraceError as error:
        logger.info("%s: %s", run.sidecar.path, error)
        return blank
    # Of ops a sidecar alone has none, which is no statement about the run.
    return replace(_with_tokens(blank, trace), format=blank.format)


def whole_summary(
    run: RunFiles,
    context: ReadContext | None = None,
    *,
    limit_bytes: int = 0,
    known: RunSummary | None = None,
) -> RunSummary:
    """Return the sums of a run; it is read, and nothing of it is kept.

    Where it cannot be read, or would not fit into memory, the error is in the result.
    `known` is the quick summary, where it is there.

    Raises
    ------
    Cancelled
        From the context.
    """
    admit = MemoryGuard(run.path, limit_bytes=limit_bytes)
    known = known or quick_summary(run)
    try:
        trace = open_bundle(survey([run.path]), context=context, admit=admit)
        return replace(_summed(known, trace, context), is_read=True)
    except TooLargeError:
        return replace(known, error="It would not fit into memory.")
    except TraceError as error:
        return replace(known, error=str(error), is_read=True)


def summaries(
    folder: RunFolder,
    cache: "SummaryCache | None" = None,
    *,
    reads_events: bool = True,
    limit_bytes: int = 0,
    progress: Callable[[int, int], None] | None = None,
    cancel: threading.Event | None = None,
) -> Iterator[tuple[int, RunSummary]]:
    """Yield number and summary of each run: first what is quick, then what is read.

    Parameters
    ----------
    cache : of earlier summaries; the caller saves it.
    reads_events : else only the quick ones come, and those of the cache.
    limit_bytes : memory that reading a run may use; see `readers.memory.judge`.
    progress : called with bytes done and bytes of all runs that are read.

    Raises
    ------
    Cancelled
        Where `cancel` is set.
    """
    outer = ReadContext(progress=progress, cancel=cancel)
    inner = ReadContext(cancel=cancel)
    runs, waiting = folder.runs, dict[int, RunSummary]()
    for i, run in enumerate(runs):
        outer.check_cancelled()
        cached = None if cache is None else cache.get(run)
        if cached is None:
            waiting[i] = quick_summary(run)
        yield i, cached or waiting[i]
    if not reads_events:
        return
    total, done = sum(runs[i].size for i in waiting), 0
    for i, known in waiting.items():
        outer.progress(done, total)
        read = whole_summary(runs[i], inner, limit_bytes=limit_bytes, known=known)
        if cache is not None and read.is_read:
            cache.put(runs[i], read)
        yield i, read
        done += runs[i].size
    outer.progress(total, total)


def _summed(
    known: RunSummary, trace: Trace, context: ReadContext | None = None
) -> RunSummary:
    """Return a summary with what all events of a trace state."""
    families = None
    blocks = SpanBlocks(trace)
    if len(stat_table(trace, "op", blocks=blocks, watcher=context).rows):
        rows = stat_table(trace, "family", blocks=blocks, watcher=context).rows
        families = tuple(
            (row.key, row.total)
            for row in sorted(rows, key=lambda row: -row.total)
            if row.timed
        )
    coverage = trace_coverage(trace)
    return replace(
        _with_tokens(known, trace),
        threads=int(trace.lanes.is_thread.sum()) or None,
        families=families,
        omissions=None if coverage.is_whole is None else coverage.omissions,
    )


def _with_tokens(known: RunSummary, trace: Trace) -> RunSummary:
    """Return a summary with what needs no op: tokens, producer, model."""
    tokens, clock = token_summary(trace), trace.clock
    per_s = clock.per_s

    def rate(per_tick: float | None) -> float | None:
        return None if per_tick is None or per_s is None else per_tick * per_s

    prompt, generated = tokens.prompt, tokens.generated
    rates = rate(tokens.prompt_per_tick), rate(tokens.generated_per_tick)
    if tokens.prompt is None and not len(tokens.bars):
        (prompt, prompt_rate), (generated, generated_rate) = map(
            partial(_of_log, trace), ("prompt", "generated")
        )
        rates = prompt_rate, generated_rate
    return replace(
        known,
        format=trace.info.format or known.format,
        facts=dict(trace.info.producer),
        model=_model(trace),
        prompt=prompt,
        generated=generated,
        prompt_per_s=rates[0],
        generated_per_s=rates[1],
        ticks_per_s=per_s,
    )


def _of_log(trace: Trace, phase: str) -> tuple[int | None, float | None]:
    """Return the tokens of all requests of a log, and how many they are per second."""
    events = trace.info.summary.get("events")
    counts = events if isinstance(events, dict) else {}
    n, ms = counts.get(f"{phase}_tokens"), counts.get(f"{phase}_ms")
    if not isinstance(n, int):
        return None, None
    return n, n / ms * 1000 if isinstance(ms, int | float) and ms > 0 else None


def _model(trace: Trace) -> str:
    names = [m.metadata.get("general.name") or m.name for m in trace.models]
    known = ", ".join(dict.fromkeys(names)) or trace.info.producer.get("model", "")
    return os.path.basename(known) or known


def _modified_ns(run: RunFiles) -> int:
    return max((stamp[1] for stamp in _stamps(run)), default=0)


def _stamps(run: RunFiles) -> list[tuple[int, int]]:
    """Return size and time of all files of a run; (-1, 0) where one is gone."""
    paths = [trace.path for trace in run.traces]
    stamps = []
    for path in [*paths, *([run.sidecar.path] if run.sidecar else [])]:
        try:
            status = os.stat(path)
        except OSError:
            stamps.append((-1, 0))
        else:
            stamps.append((status.st_size, status.st_mtime_ns))
    return stamps


class SummaryCache:
    """Summaries by the files that they are of, in one file; it never fails.

    Parameters
    ----------
    path : the file; a damaged or foreign one is as good as none, and is replaced.
    version : of the program: another one may sum up otherwise.
    """

    def __init__(self, path: Path, version: str) -> None:
        self._path = path
        self._version = [_CACHE_VERSION, version]
        self._is_changed = False
        self._entries: dict[str, dict[str, Any]] = {}
        try:
            stored = json.loads(path.read_bytes())
            if stored["version"] == self._version:
                self._entries = dict(stored["runs"])
        except (OSError, ValueError, KeyError, TypeError):
            logger.debug("%s holds no summaries", path)

    def get(self, run: RunFiles) -> RunSummary | None:
        """Return the summary of a run whose files are as they were, else None."""
        entry = self._entries.get(str(run.path))
        try:
            if entry is None or entry["stamps"] != [list(s) for s in _stamps(run)]:
                return None
            values = dict(entry["summary"])
            families = values["families"]
            if families is not None:
                values["families"] = tuple((str(k), int(v)) for k, v in families)
            omissions = values["omissions"]
            if omissions is not None:
                values["omissions"] = tuple(
                    Omission(**{**entry, "cause": Cause(entry["cause"])})
                    for entry in omissions
                )
            return RunSummary(path=run.path, **values)
        except (KeyError, TypeError, ValueError):
            return None

    def put(self, run: RunFiles, known: RunSummary) -> None:
        """Keep a summary."""
        values = dataclasses.asdict(known)
        del values["path"]
        self._entries.pop(str(run.path), None)
        stamps = [list(stamp) for stamp in _stamps(run)]
        self._entries[str(run.path)] = {"stamps": stamps, "summary": values}
        self._is_changed = True

    def save(self) -> None:
        """Write the file; where that cannot be, nothing is kept."""
        if not self._is_changed:
            return
        newest = dict(list(self._entries.items())[-MAX_CACHED:])
        stored = {"version": self._version, "runs": newest}
        try:
            make_folder(self._path.parent)
            write_file(self._path, json.dumps(stored).encode())
        except (OSError, TraceError) as error:
            logger.debug("%s was not written: %s", self._path, error)


def default_cache(version: str) -> SummaryCache:
    """Return the cache of this user, for a version of the program."""
    import platformdirs  # only where runs are listed

    folder = Path(platformdirs.user_cache_dir("ggscope", appauthor=False))
    return SummaryCache(folder / "runs.json", version)
