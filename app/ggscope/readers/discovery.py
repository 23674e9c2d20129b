"""Which files belong together: folders, mixed drops, and what lies beside a trace.

Nothing is read here but the first bytes of each file: what a file is, its content
says (see `readers.registry`), not its name. Experiment folders come in two forms: all
files in one folder, or ``memory-map.json`` and ``buffer-timeline.json`` beside the
folders ``traces`` and ``graphs``, often deep in a web page's ``public/data``.
"""

import os
import re
from collections import deque
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from ggscope.errors import QueryError, ReadError, UnknownFormatError
from ggscope.readers.api import ALONE, BENCH, HEAD_BYTES, RECORDING, ROLES, TRACE
from ggscope.readers.closed_formats import format_of_folder
from ggscope.readers.format_hints import likeness
from ggscope.readers.registry import may_be, role_of, sniff_all
from ggscope.readers.source import Source

MAX_ENTRIES = 50_000
"""Names of a folder and its subfolders that are looked at."""
MAX_FILES = 2_000
"""Files whose content is looked at."""
MAX_BESIDE = 64
"""The same for the files beside a trace that was opened alone."""
MAX_RUNS = 64
"""Runs of a side that are compared: each is read whole."""
MAX_DEPTH = 8

_INNER = ("traces", "graphs")
"""Folders that hold parts of the experiment that the folder above them is."""
_PASSED_OVER = {"node_modules", "__pycache__", "venv", "site-packages"}
_BESIDE_SUFFIXES = {".json", ".jsonl", ".csv", ".gguf", ".dot", ".txt", ".log"}
_TRACE_SUFFIXES = {".bin", ".json"}
_RECORDS, _TOKENS = "tensor-access", "trace-json"
"""Readers of traces that state which bytes of a model are read: a run, a token each."""
_SPLIT_MODEL = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_OUR_SUFFIX = ".ggscope.json"
"""Ends the names of bookmark files."""
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A file that takes part in a session.

    Attributes
    ----------
    role : as in `model.trace.JoinedFile`.
    reader_id : the reader that recognised it.
    size : bytes.
    """

    path: Path
    role: str
    reader_id: str
    size: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that takes no part, and why, in a sentence for people.

    `is_fault` : it could not be opened.
    """

    path: Path
    reason: str
    is_fault: bool = False


@dataclass(frozen=True, slots=True)
class FileSet:
    """Files that belong together.

    Attributes
    ----------
    mains : traces, in natural order of their names.
    sides : models, maps, graphs and other files beside them, likewise.
    skipped : files that no reader takes, or that belong to something else.
    n_left : files that were not opened, because there are too many.
    folder : the folder where that alone was asked for, and all of its files take part;
        None = files were named.
    """

    mains: tuple[SessionFile, ...] = ()
    sides: tuple[SessionFile, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    n_left: int = 0
    folder: Path | None = None

    @property
    def members(self) -> tuple[SessionFile, ...]:
        """All files that take part, traces first."""
        return self.mains + self.sides

    def without(self, paths: Collection[Path]) -> "FileSet":
        """Return the file set without some of its files."""
        mains = tuple(m for m in self.mains if m.path not in paths)
        sides = tuple(m for m in self.sides if m.path not in paths)
        if len(mains) + len(sides) == len(self.members):
            return self
        return replace(self, mains=mains, sides=sides, folder=None)


@dataclass(slots=True)
class _Listing:
    """Files of a folder; `n_left` = how many more there are."""

    paths: list[Path] = field(default_factory=list)
    n_left: int = 0


def natural_key(path: Path) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts ``token-2`` before ``token-10``."""
    return tuple(
        (0, int(part), part) if part.isdecimal() else (1, 0, part.casefold())
        for part in _DIGITS.split(str(path))
    )


def survey(
    paths: Sequence[Path], check: Callable[[], object] = lambda: None
) -> FileSet:
    """Return what `paths` hold together; folders are searched.

    Parameters
    ----------
    check : called between files; raises an exception to cancel.

    Notes
    -----
    Files that are named themselves all take part. Of the files of one folder only
    those of one experiment do: where several of its subfolders hold traces, that is
    the folder itself, else the first of them, and the others are named as skipped.
    """
    members: list[SessionFile] = []
    skipped: list[Skipped] = []
    n_left = 0
    for path in paths:
        if not os.path.isdir(path):
            _sort_in([path], members, skipped, check)
            continue
        listing = _files_below(path, check)
        inside: list[SessionFile] = []
        _sort_in(listing.paths, inside, skipped, check)
        chosen, others = _one_experiment(path, inside)
        members += chosen
        skipped += others
        n_left += listing.n_left
    members = _without_alone(list(dict.fromkeys(members)), skipped)
    known = {m.path for m in members}
    # A recording of graphs alone has no records.
    empty = [s.path for s in skipped if s.is_fault and _is_empty(s.path)]
    for path in [*(m.path for m in members if m.role == TRACE), *empty]:
        if (sidecar := sidecar_of(path)) is not None and sidecar.path not in known:
            members.append(sidecar)
    return FileSet(
        tuple(m for m in members if m.role == TRACE),
        tuple(m for m in members if m.role != TRACE),
        tuple(skipped),
        n_left,
        paths[0] if len(paths) == 1 and os.path.isdir(paths[0]) else None,
    )


def _without_alone(
    members: list[SessionFile], skipped: list[Skipped]
) -> list[SessionFile]:
    """Return the members of a session; logs join none but are opened alone.

    Results of benchmarks join each other where there is nothing else.
    """
    joining = [member for member in members if member.role not in ALONE]
    alone = [member for member in members if member.role in ALONE]
    if not joining:
        is_bench = bool(alone) and alone[0].role == BENCH
        joining = [m for m in alone if m.role == BENCH] if is_bench else alone[:1]
        alone = [member for member in alone if member not in joining]
    skipped += [
        Skipped(member.path, "Opens in a tab of its own, not with other files.")
        for member in alone
    ]
    return joining


def is_left_out(bundle: FileSet, path: Path) -> bool:
    """Return whether a file that was named takes no part, nor what belongs to it.

    A later part of a split model is read with the first one, and records that are
    empty by their sidecar.
    """
    if path not in {skipped.path for skipped in bundle.skipped}:
        return False
    sidecar = sidecar_path(path)
    if any(member.path == sidecar for member in bundle.sides):
        return False
    return not isinstance(recognise(path), SessionFile)


def with_main(bundle: FileSet, path: Path, reader_id: str) -> FileSet:
    """Return a bundle in which a file that no reader claims is read by one."""
    member = SessionFile(path, role_of(reader_id), reader_id, os.path.getsize(path))
    mains, sides = bundle.mains, bundle.sides
    if member.role == TRACE:
        mains = (member, *mains)
    else:
        sides = (member, *sides)
    skipped = tuple(s for s in bundle.skipped if s.path != path)
    return replace(bundle, mains=mains, sides=sides, skipped=skipped)


def beside(
    path: Path,
    check: Callable[[], object] = lambda: None,
    roles: Collection[str] = ROLES,
) -> FileSet:
    """Return side files and further tokens that lie in the experiment of a trace.

    Looks into the trace's folder, or the one above ``traces``, and into ``graphs`` and
    ``traces`` there; at no more than `MAX_BESIDE` files. Files that can have none of
    `roles` are passed over: no reader needs to be imported for them. Never raises
    ReadError.
    """
    root = _experiment(path)
    candidates: list[Path] = []
    for folder in (root, *(root / name for name in _INNER)):
        check()
        is_home = folder == path.parent
        near = [
            Path(entry.path)
            for entry in islice(_entries(folder), MAX_ENTRIES)
            if entry.name != path.name or not is_home
            if (is_home and _is_next_of(entry.name, path.name))
            or (
                folder.name != "traces"
                and os.path.splitext(entry.name)[1].lower() in _BESIDE_SUFFIXES
            )
        ]
        candidates += sorted(near, key=natural_key)
    members: list[SessionFile] = []
    skipped: list[Skipped] = []
    _sort_in(candidates[:MAX_BESIDE], members, skipped, check, roles)
    return FileSet(
        tuple(
            m
            for m in members
            if m.role == TRACE and _is_next_of(m.path.name, path.name)
        ),
        # Other sidecars are of other runs; that of the trace is read with it.
        tuple(m for m in members if m.role not in ({TRACE, RECORDING} | ALONE)),
        (),
        max(len(candidates) - MAX_BESIDE, 0),
    )


def traces_beside(model: Path, check: Callable[[], object] = lambda: None) -> FileSet:
    """Return the newest trace of accesses that lies beside a model file.

    With the further tokens of its run; looks at no more than `MAX_BESIDE` files. Never
    raises ReadError.
    """
    near = [
        Path(entry.path)
        for entry in islice(_entries(model.parent), MAX_ENTRIES)
        if os.path.splitext(entry.name)[1].lower() in _TRACE_SUFFIXES
    ]
    near.sort(key=_newest_first)
    members: list[SessionFile] = []
    _sort_in(near[:MAX_BESIDE], members, [], check, {TRACE})
    traces = [m for m in members if m.reader_id in (_RECORDS, _TOKENS)]
    if not traces:
        return FileSet()
    newest, run = traces[0], traces[:1]
    if newest.reader_id == _TOKENS:
        run += [m for m in traces if _is_next_of(m.path.name, newest.path.name)]
    return FileSet(tuple(sorted(run, key=lambda m: natural_key(m.path))))


def _newest_first(path: Path) -> float:
    try:
        return -path.stat().st_mtime
    except OSError:
        return 0.0


def sidecar_path(path: Path) -> Path:
    """Return where the sidecar of a recording lies."""
    return path.with_suffix(".json")


def sidecar_of(path: Path) -> SessionFile | None:
    """Return the sidecar that lies beside records of our own tool, if there is one.

    Unlike other files beside a trace it is always read, for it was written with it.
    Whether it still belongs to the records is known once both are read.
    """
    place = sidecar_path(path)
    # Not of `Path`, which raises where a name is too long or a folder is closed.
    if place == path or not os.path.isfile(place):
        return None
    sidecar = recognise(place, {RECORDING})
    if isinstance(sidecar, SessionFile) and sidecar.role == RECORDING:
        return sidecar
    return None


def runs_in(folder: Path) -> list[Path]:
    """Return the traces in a folder that are each a run of their own, naturally sorted.

    Files of one token each are parts of one run, and so are none of them. Folders
    within are not looked at.
    """
    files = sorted(_listed(folder, MAX_FILES)[0], key=natural_key)
    parts = (recognise(path, (TRACE,)) for path in files)
    return [
        part.path
        for part in parts
        if isinstance(part, SessionFile)
        and part.role == TRACE
        and part.reader_id != _TOKENS
    ]


def runs_of_side(path: Path) -> list[Path]:
    """Return the runs of a side that is compared: a file, or each of a folder's.

    Raises
    ------
    QueryError
        If a folder has more runs than can be compared.
    """
    runs = runs_in(path) if os.path.isdir(path) else []
    if len(runs) > MAX_RUNS:
        raise QueryError(
            f"{path} has {len(runs)} runs; at most {MAX_RUNS} of a side are compared."
        )
    return runs if len(runs) > 1 else [path]


@dataclass(frozen=True, slots=True)
class RunFiles:
    """A run in a folder of runs.

    Attributes
    ----------
    path : what is opened to see it: its trace, or the folder of its experiment.
    traces : of which it is made; the tokens of one run are a trace each.
    sidecar : of a recording; None = there is none.
    """

    path: Path
    traces: tuple[SessionFile, ...]
    sidecar: SessionFile | None = None

    @property
    def size(self) -> int:
        """Bytes of its traces."""
        return sum(trace.size for trace in self.traces)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The runs of a folder.

    Attributes
    ----------
    runs : in natural order of their paths.
    skipped : files that no reader takes, or that cannot be opened.
    n_left : files that were not looked at, because there are too many.
    """

    folder: Path
    runs: tuple[RunFiles, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    n_left: int = 0

    @property
    def has_several(self) -> bool:
        """Whether it is no session of one run, but a folder of several."""
        return len(self.runs) > 1


def run_folder(folder: Path, check: Callable[[], object] = lambda: None) -> RunFolder:
    """Return the runs of a folder and its subfolders.

    Traces of one experiment that are of different formats are one run, recorded by
    several tools; those of one format are a run each, but for token files, which are
    parts of one. A log, or another file that opens alone, is a run where no trace lies
    beside it.

    Parameters
    ----------
    check : called between files; raises an exception to cancel.
    """
    listing = _files_below(folder, check)
    members: list[SessionFile] = []
    skipped: list[Skipped] = []
    _sort_in(listing.paths, members, skipped, check)
    traces = [m for m in members if m.role == TRACE]
    # A recording of graphs alone has no records.
    sidecars = {m.path: m for m in members if m.role == RECORDING}
    for fault in [s for s in skipped if s.is_fault and _is_empty(s.path)]:
        if sidecar_path(fault.path) in sidecars:
            traces.append(SessionFile(fault.path, TRACE, _RECORDS, 0))
            skipped.remove(fault)
    # What opens alone, such as a log, is a run where no trace lies beside it.
    with_traces = {_experiment(m.path) for m in traces}
    traces += [
        m for m in members if m.role in ALONE and _experiment(m.path) not in with_traces
    ]
    homes: dict[Path, list[SessionFile]] = {}
    for trace in sorted(traces, key=lambda m: natural_key(m.path)):
        homes.setdefault(_experiment(trace.path), []).append(trace)
    runs: list[RunFiles] = []
    for home, inside in homes.items():
        check()
        is_root = home == folder and len(homes) > 1
        runs += _runs_of(home, inside, sidecars, is_root=is_root)
    runs.sort(key=lambda run: natural_key(run.path))
    return RunFolder(folder, tuple(runs), tuple(skipped), listing.n_left)


def _runs_of(
    home: Path,
    traces: Sequence[SessionFile],
    sidecars: Mapping[Path, SessionFile],
    *,
    is_root: bool,
) -> list[RunFiles]:
    """Return the runs of one experiment's folder.

    Parameters
    ----------
    sidecars : of recordings, by their paths.
    is_root : whether other experiments lie in it: then it cannot be opened for its own.
    """
    by_reader: dict[str, list[SessionFile]] = {}
    for trace in traces:
        by_reader.setdefault(trace.reader_id, []).append(trace)
    tokens = by_reader.pop(_TOKENS, [])
    if all(len(alike) == 1 for alike in by_reader.values()) and not is_root:
        is_file = len(traces) == 1 and home == traces[0].path.parent
        sidecar = sidecars.get(sidecar_path(traces[0].path)) if is_file else None
        path = home if sidecar is None else traces[0].path
        return [RunFiles(path, tuple(traces), sidecar)]
    runs = [
        RunFiles(trace.path, (trace,), sidecars.get(sidecar_path(trace.path)))
        for alike in by_reader.values()
        for trace in alike
    ]
    if tokens:
        runs.append(RunFiles(tokens[0].path, tuple(tokens)))
    return runs


def _is_empty(path: Path) -> bool:
    try:
        return os.path.getsize(path) == 0
    except OSError:
        return False


def recognise(path: Path, roles: Collection[str] = ROLES) -> SessionFile | Skipped:
    """Return the role of a file in a session, by its first bytes."""
    try:
        with Source(path) as source:
            if roles != ROLES and not may_be(source, roles):
                return Skipped(path, f"Not a {' or '.join(roles)} file.")
            judged = [c for c in sniff_all(source) if c.sniff.confidence > 0]
            head = b"" if judged else source.head(HEAD_BYTES)
            size = source.size
    except ReadError as error:
        is_folder = isinstance(error, UnknownFormatError)
        message = error.text if is_folder else error.message
        sentence = message[:1].upper() + message[1:]
        return Skipped(path, sentence, is_fault=not is_folder)
    if not judged:
        return Skipped(path, f"Unknown format. {likeness(head, path).text}")
    best = [c for c in judged if c.sniff.confidence == judged[0].sniff.confidence]
    named = [c for c in best if path.suffix.lower() in c.info.suffixes]
    if len(best) > 1 and len(named) != 1:
        ids = ", ".join(c.info.id for c in best)
        return Skipped(path, f"Matches several formats equally: {ids}.")
    info = (best[0] if len(best) == 1 else named[0]).info
    return SessionFile(path, info.role, info.id, size)


def _sort_in(
    paths: Iterable[Path],
    members: list[SessionFile],
    skipped: list[Skipped],
    check: Callable[[], object],
    roles: Collection[str] = ROLES,
) -> None:
    """Add each file to those that take part or to those that do not."""
    for path in paths:
        check()
        split = _SPLIT_MODEL.search(path.name)
        if (
            split is not None
            and int(split[1]) > 1
            and os.path.exists(_first_part(path))
        ):
            skipped.append(Skipped(path, f"Loaded with {_first_part(path).name}."))
            continue
        file = recognise(path, roles)
        if isinstance(file, SessionFile):
            members.append(file)
        else:
            skipped.append(file)


def _first_part(path: Path) -> Path:
    """Return the first file of a split model."""
    name = _SPLIT_MODEL.sub(lambda m: f"-00001-of-{m[2]}.gguf", path.name)
    return path.with_name(name)


def _files_below(folder: Path, check: Callable[[], object]) -> _Listing:
    """Return the files of a folder, then of its subfolders, in natural order."""
    listing = _Listing()
    pending = deque([(folder, 0)])
    n_entries = 0
    while pending:
        here, depth = pending.popleft()
        check()
        files, folders, n = _listed(here, MAX_ENTRIES - n_entries)
        n_entries += n
        if format_of_folder(here.name, [path.name for path in (*files, *folders)]):
            listing.paths.append(here)  # refused as a whole, see `Source`
            continue
        n_free = MAX_FILES - len(listing.paths)
        listing.paths += files[:n_free]
        listing.n_left += max(len(files) - n_free, 0)
        if n_entries >= MAX_ENTRIES:
            listing.n_left += max(n_entries - MAX_ENTRIES, 1)
            break
        if depth < MAX_DEPTH:
            pending.extend((f, depth + 1) for f in folders)
    return listing


def _listed(folder: Path, max_entries: int) -> tuple[list[Path], list[Path], int]:
    """Return the files and folders of a folder, sorted, and how many names it has."""
    files: list[Path] = []
    folders: list[Path] = []
    n = 0
    for entry in _entries(folder):
        n += 1
        if n > max_entries or entry.name.startswith("."):
            continue  # still counted, for `n_left`
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            is_file = not is_folder and entry.is_file()
        except OSError:
            continue
        if is_folder and entry.name not in _PASSED_OVER:
            folders.append(Path(entry.path))
        elif is_file:
            files.append(Path(entry.path))
    return sorted(files, key=natural_key), sorted(folders, key=natural_key), n


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder, but for files of this program.

    None where the folder may not be read.
    """
    try:
        with os.scandir(folder) as entries:
            yield from (e for e in entries if not e.name.endswith(_OUR_SUFFIX))
    except OSError:
        return


def _experiment(path: Path) -> Path:
    """Return the folder of the experiment that a file is part of."""
    folder = path.parent
    return folder.parent if folder.name in _INNER else folder


def _one_experiment(
    root: Path, members: list[SessionFile]
) -> tuple[list[SessionFile], list[Skipped]]:
    """Return the members of one experiment in `root`, and those of the others."""
    of_traces = {_experiment(m.path): None for m in members if m.role == TRACE}
    homes = list(of_traces)
    if len(homes) < 2:
        return members, []
    chosen = root if root in of_traces else homes[0]
    inside: list[SessionFile] = []
    others: list[Skipped] = []
    for member in members:
        home = _home(_experiment(member.path), homes)
        if home is None or home == chosen:
            inside.append(member)
        else:
            reason = f"Part of another experiment; open {home.name} separately."
            others.append(Skipped(member.path, reason))
    return inside, others


def _home(folder: Path, homes: Sequence[Path]) -> Path | None:
    """Return the experiment whose folder `folder` lies in; None = it is above all."""
    inside = [home for home in homes if folder == home or home in folder.parents]
    return max(inside, key=lambda home: len(home.parts), default=None)


def _is_next_of(name: str, of: str) -> bool:
    """Return whether two names differ in numbers only: further tokens of a run."""
    if name == of or not _DIGITS.search(name):
        return False
    return _DIGITS.sub("#", name) == _DIGITS.sub("#", of)
