"""Formats that only their own programs read: what makes them openable.

A format is known by what its files begin with, else by the end of their names; a format
of folders by what lies in them. Each has the command that writes something which a
reader takes, or says that there is none and what to record in its place.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ggscope.errors import UnknownFormatError
from ggscope.sanitize import one_line

_RECORD_AGAIN = (
    "Nothing exports it in a form that ggscope opens. Record the program again: "
)
_CAPTURE = "ggscope-capture run -- PROGRAM"
_VTUNE_STACKS = (
    "vtune -report top-down -call-stack-mode all "
    '-column="CPU Time:Self","Module" -filter "Function Stack" -format csv '
    "-csv-delimiter comma -report-output {stem}.csv -result-dir {file} && "
    "inferno-collapse-vtune {stem}.csv > {stem}.folded"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedFormat:
    """A format that cannot be opened.

    Attributes
    ----------
    kind : what a file of it is, with its article.
    hint : what to do, a sentence that `command` completes.
    command : for a shell, with ``{file}``, ``{stem}``, its path without the suffix, or
        ``{copy_as_csv}``, a statement of SQL; "" = `instruction` says all.
    heads : what its files begin with.
    suffixes : what names of its files end with.
    is_text : whether its files are text; suffixes of others mean binary files alone.
    members : patterns of names in its folders. All of them are there; where the
        name of a folder ends as it should, one is enough.
    """

    kind: str
    hint: str
    command: str = ""
    heads: tuple[re.Pattern[bytes], ...] = ()
    suffixes: tuple[str, ...] = ()
    is_text: bool = False
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remedy:
    """What makes a file openable: a sentence with the command, and that alone."""

    sentence: str
    command: str


def _begins(*heads: bytes) -> tuple[re.Pattern[bytes], ...]:
    return tuple(re.compile(re.escape(head)) for head in heads)


_ETL = re.compile(rb"\0..\0.{68}..[\x01\x02]\xc0", re.DOTALL)
"""The size of the first buffer, then, after its head, that of the log."""
_VARINT = rb"[\x80-\xff]{0,9}[\0-\x7f]"
_XPLANE = re.compile(
    rb"\x0a%b(\x08%b)?\x12[\x01-\x7f](/host:|/device:|#Chip|Task Environment)"
    % (_VARINT, _VARINT),
    re.DOTALL,
)

CLOSED_FORMATS = (
    ClosedFormat(
        kind="a report of NVIDIA Nsight Systems",
        hint="Export it first: ",
        command="nsys export --type sqlite --output {stem}.sqlite {file}",
        suffixes=(".nsys-rep", ".qdrep"),
    ),
    ClosedFormat(
        kind="a raw recording of NVIDIA Nsight Systems",
        hint="Import and export it first: ",
        command="QdstrmImporter -i {file} -o {stem}.nsys-rep && "
        "nsys export --type sqlite --output {stem}.sqlite {stem}.nsys-rep",
        suffixes=(".qdstrm",),
    ),
    ClosedFormat(
        kind="a report of NVIDIA Nsight Compute",
        hint="It counts within kernels and has no timeline. Record one: ",
        command="nsys profile --trace cuda,nvtx -o run PROGRAM && "
        "nsys export --type sqlite --output run.sqlite run.nsys-rep",
        heads=_begins(b"NVR\0"),
        suffixes=(".ncu-rep",),
    ),
    ClosedFormat(
        kind="a Metal capture of Xcode",
        hint=_RECORD_AGAIN,
        command=_CAPTURE,
        suffixes=(".gputrace",),
        members=("store0", "metadata"),
    ),
    ClosedFormat(
        kind="a recording of Apple's Instruments",
        hint="Copy its call tree by Edit ▸ Deep Copy into a text, or export folded "
        "stacks: ",
        command="xcrun xctrace export --input {file} --xpath "
        """'/trace-toc/*/data/table[@schema="time-profile"]' --output {stem}.xml && """
        "inferno-collapse-xctrace {stem}.xml > {stem}.folded",
        suffixes=(".trace",),
        members=("form.template", "*.run"),
    ),
    ClosedFormat(
        kind="a result of Intel VTune",
        hint="Export its stacks first: ",
        command=_VTUNE_STACKS,
        suffixes=(".vtune",),
        is_text=True,
        members=("*.vtune", "config"),
    ),
    ClosedFormat(
        kind="a Linux perf recording",
        hint="Write its samples as text first: ",
        command="perf script -i {file} > {stem}.perf.txt",
        heads=_begins(b"PERFILE2", b"PERFFILE"),
    ),
    ClosedFormat(
        kind="a recording of Tracy",
        hint=_RECORD_AGAIN,
        command=_CAPTURE,
        heads=_begins(b"tr\xfdP", b"tlZ\x04", b"tZst"),
        suffixes=(".tracy",),
    ),
    ClosedFormat(
        kind="a thread trace of AMD's rocprof",
        hint="It has no timeline of kernels. Record one: ",
        command="rocprofv3 --sys-trace --output-format json -- PROGRAM",
        suffixes=(".att",),
    ),
    ClosedFormat(
        kind="an event trace of Windows (ETW)",
        hint="Open it in PerfView and save its CPU stacks as .speedscope.json.",
        heads=(_ETL,),
        suffixes=(".etl",),
    ),
    ClosedFormat(
        kind="an event trace of .NET",
        hint="Convert it first: ",
        command="dotnet-trace convert --format Speedscope {file}",
        heads=_begins(b"Nettrace"),
        suffixes=(".nettrace",),
    ),
    ClosedFormat(
        kind="an XPlane profile of JAX or TensorFlow",
        hint="Open the .trace.json.gz that the profiler writes beside it.",
        heads=(_XPLANE,),
        suffixes=(".xplane.pb",),
    ),
    ClosedFormat(
        kind="a Parquet table",
        hint="Write it as CSV first, which opens where a reader knows its columns: ",
        command="duckdb -c {copy_as_csv}",
        heads=_begins(b"PAR1"),
        suffixes=(".parquet",),
    ),
    ClosedFormat(
        kind="folded stacks of two profiles (difffolded.pl), two counts a line",
        hint="Split it into one file for each: ",
        command="sed -E 's/ [0-9]+$//' {file} > {stem}.before.folded && "
        "sed -E 's/ [0-9]+ ([0-9]+)$/ \\1/' {file} > {stem}.after.folded",
        heads=(re.compile(rb"[^;\n]+(;[^;\n]*)+ \d+ \d+\r?(\n|$)"),),
        is_text=True,
    ),
    ClosedFormat(
        kind="the output of perf script without names of events",
        hint="Write it again with the default fields, from perf.data: ",
        command="perf script > {stem}.perf.txt",
        heads=(
            re.compile(
                rb"\s*[^\s#][^\n]*?\s\d+(/\d+)?\s+(\[\d+\]\s+)?\d+\.\d+:[ \t]*\r?\n"
                rb"[ \t]+[\da-f]+ "
            ),
        ),
        is_text=True,
    ),
    ClosedFormat(
        kind="an execution trace of Go",
        hint="Write its network, sync or scheduling waits as pprof: ",
        command="go tool trace -pprof=sched {file} > {stem}.pb.gz",
        heads=_begins(b"go 1."),
    ),
    ClosedFormat(
        kind="a table of memory of an Ascend profiler",
        hint="Its allocations are not read. Open kernel_details.csv or trace_view.json "
        "of the same folder.",
        heads=(
            re.compile(rb"(\xef\xbb\xbf)?Component,Timestamp\(us\),Total Allocated"),
            re.compile(rb"(\xef\xbb\xbf)?Name,Size\(KB\),Allocation Time\(us\)"),
        ),
        is_text=True,
    ),
    ClosedFormat(
        kind="the times of runs of trtexec (--exportTimes)",
        hint="It has no layers. Record them: ",
        command="trtexec --loadEngine=ENGINE --separateProfileRun "
        "--exportProfile=profile.json",
        heads=(re.compile(rb'\s*\[\s*\{\s*"startInMs"|\s*\[\s*\{\s*"startMs"'),),
        is_text=True,
    ),
    ClosedFormat(
        kind="a memory timeline of PyTorch (export_memory_timeline)",
        hint="Its allocations are not read. Open what export_chrome_trace of the same "
        "profiler writes.",
        heads=(re.compile(rb"\s*\[\[-?\d+, [0-3], -?\d+, \d+\][,\]]"),),
        is_text=True,
    ),
    ClosedFormat(
        kind="an XML export of Apple's Instruments",
        hint="Fold its stacks first, where its table is time-profile: ",
        command="inferno-collapse-xctrace {file} > {stem}.folded",
        heads=(re.compile(rb"\s*(<\?xml[^>]*>\s*)?<trace-query-result"),),
        is_text=True,
    ),
    ClosedFormat(
        kind="text in UTF-16, as PowerShell redirects it",
        hint="Convert it to UTF-8 first: ",
        command="iconv -f UTF-16 -t UTF-8 {file} > {stem}.utf8.txt",
        heads=_begins(b"\xff\xfe", b"\xfe\xff"),
        is_text=True,
    ),
)
"""What is refused; the first that fits."""


def closed_format(head: bytes) -> ClosedFormat | None:
    """Return the format of a file that begins with `head`, if it has a signature."""
    return next(
        (
            known
            for known in CLOSED_FORMATS
            if any(pattern.match(head) for pattern in known.heads)
        ),
        None,
    )


def format_by_name(name: str, *, is_text: bool) -> ClosedFormat | None:
    """Return the format that the name of a file ends in, where it has no signature."""
    return next(
        (
            known
            for known in CLOSED_FORMATS
            if name.lower().endswith(known.suffixes or "\0")
            and (known.is_text or not is_text)
        ),
        None,
    )


def format_of_folder(name: str, members: Sequence[str]) -> ClosedFormat | None:
    """Return the format of a folder by the names of what is in it."""
    for known in CLOSED_FORMATS:
        hits = [
            any(fnmatchcase(member, pattern) for member in members)
            for pattern in known.members
        ]
        is_named = name.lower().endswith(known.suffixes or "\0")
        if hits and (all(hits) or (is_named and any(hits))):
            return known
    return None


def remedy_of(known: ClosedFormat, path: Path | None) -> Remedy:
    """Return what makes a file of a closed format openable.

    Parameters
    ----------
    path : where it is; None = some file. Names that a terminal would not show as they
        are do not get into the command.
    """
    if path is None or one_line(str(path)) != str(path):
        path = Path("FILE")
    # A result of VTune is the folder; in it lies a file of the same suffix.
    is_inside = known.is_text and path.name.lower().endswith(known.suffixes)
    place = path.parent if is_inside else path
    suffix = next((s for s in known.suffixes if path.name.lower().endswith(s)), "")
    base = path.with_name(_stem(path.name, suffix))
    source, target = (str(p).replace("'", "''") for p in (place, f"{base}.csv"))
    command = known.command.format(
        file=shlex.quote(str(place)),
        stem=shlex.quote(str(base)),
        copy_as_csv=shlex.quote(f"COPY (FROM read_parquet('{source}')) TO '{target}'"),
    )
    return Remedy(f"{known.hint}{command}", command)


def refusal_of_folder(path: Path, members: Sequence[str]) -> UnknownFormatError | None:
    """Return why a folder of a closed format cannot be opened; None = it is not one."""
    known = format_of_folder(path.name, members)
    if known is None:
        return None
    remedy = remedy_of(known, path)
    return UnknownFormatError(
        f"unknown file format. It looks like {known.kind}.",
        path=path,
        hint=remedy.sentence,
        command=remedy.command,
    )


def _stem(name: str, suffix: str) -> str:
    return (name[: -len(suffix)] if suffix else Path(name).stem) or "FILE"
