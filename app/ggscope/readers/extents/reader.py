"""Reader of extent maps as ``filefrag -v`` prints them (e2fsprogs)."""

import re
from dataclasses import dataclass, field

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.storage import Extents, IoRequests, Storage, StorageFile
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace, refuse_larger
from ggscope.readers.extents import INFO
from ggscope.readers.source import Source

_MAX_BYTES = 512 << 20
_FURTHEST = 1 << 61
_SIZE = re.compile(
    r"File size of (?P<path>.+) is (?P<size>\d{1,19}) "
    r"\((?P<blocks>\d{1,19}) blocks? of (?P<block>\d{1,10}) bytes\)\s*$"
)
_EXTENT = re.compile(
    r"\s*(?P<number>\d+):\s*(?P<first>\d{1,19})\.\.\s*(?P<last>\d{1,19}):\s*"
    r"(?P<start>\d{1,19})\.\.\s*(?P<stop>\d{1,19}):\s*(?P<length>\d{1,19}):"
    r"\s*(?P<rest>.*)$"
)
_HEADER = "physical_offset:"
_NOWHERE = {"unknown_loc", "delalloc", "encoded", "inline", "tail_packed"}
"""Flags of extents whose bytes do not lie as they are read where the map says."""


class ExtentsReader:
    """Reads what ``filefrag -v`` prints, of one file or several."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its heading."""
        text = head.data.decode("utf-8", "replace")
        if not any(_SIZE.match(line) for line in text.splitlines()):
            return NOT_MINE
        if _HEADER not in text and not any(map(_EXTENT.match, text.splitlines())):
            return Sniff(0, "filefrag without -v lists no extents")
        return Sniff(90, "heading of filefrag -v")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace that holds the extents of each file, and no times.

        Raises
        ------
        CorruptError
            If there is no extent.
        LimitExceededError
            If the file is larger than any map.
        """
        refuse_larger(source, _MAX_BYTES, "Is this the output of filefrag -v?")
        context.progress(0, source.size)
        text = source.read(0, source.size).decode("utf-8", "replace")
        builder = TraceBuilder()
        parser = _Parser()
        for number, line in enumerate(text.splitlines()):
            parser.take(line)
            if number % 10_000 == 0:
                context.check_cancelled()
        if not any(made.first for made in parser.files):
            raise CorruptError(
                "there is no extent.",
                offset=0,
                hint="Run filefrag with -v; as root where the file belongs to another.",
            )
        files = tuple(made.file() for made in parser.files)
        n = sum(len(made.first) for made in parser.files)
        builder.storage = Storage(IoRequests.blank(), files)
        _warn(builder, parser, text)
        return file_trace(
            builder, INFO, source, n, {"files": len(files), "extents": n},
            producer={"written by": "filefrag"},
        )  # fmt: skip


@dataclass(slots=True)
class _File:
    path: str
    size: int
    block: int
    first: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    length: list[int] = field(default_factory=list)

    def file(self) -> StorageFile:
        """Return the file, with extents that go on behind one another as one."""
        order = np.argsort(np.array(self.first, np.int64), kind="stable")
        logical = np.array(self.first, np.int64)[order] * self.block
        physical = np.array(self.start, np.int64)[order] * self.block
        length = np.array(self.length, np.int64)[order] * self.block
        goes_on = (logical[:-1] + length[:-1] == logical[1:]) & (
            physical[:-1] + length[:-1] == physical[1:]
        )
        heads = np.flatnonzero(np.append(True, ~goes_on)) if len(logical) else order
        if len(heads):
            length = np.add.reduceat(length, heads)
        extents = Extents(logical[heads], physical[heads], length)
        return StorageFile(self.path, self.size, extents)


@dataclass(slots=True)
class _Parser:
    """Takes line after line.

    Attributes
    ----------
    n_stray, n_nowhere : lines that are no part of a map; extents without a place.
    """

    files: list[_File] = field(default_factory=list)
    n_stray: int = 0
    n_nowhere: int = 0

    def take(self, line: str) -> None:
        """Take a line."""
        if match := _SIZE.match(line):
            size, block = int(match["size"]), int(match["block"])
            if 0 < block < 1 << 30 and size < _FURTHEST:
                self.files.append(_File(match["path"], size, block))
                return
        elif (match := _EXTENT.match(line)) and self.files:
            self._take_extent(match)
            return
        if line.strip() and not _is_known(line):
            self.n_stray += 1

    def _take_extent(self, match: re.Match[str]) -> None:
        file = self.files[-1]
        flags = set(re.split(r"[,\s]+", match["rest"]))
        length, first = int(match["length"]), int(match["first"])
        start = int(match["start"])
        limit = _FURTHEST // file.block
        if flags & _NOWHERE:
            self.n_nowhere += 1
        elif not length or max(first, start, length) >= limit // 2:
            self.n_stray += 1
        else:
            file.first.append(first)
            file.start.append(start)
            file.length.append(length)


def _is_known(line: str) -> bool:
    return (
        _HEADER in line
        or line.startswith(("Filesystem type is:", "Filesystem cylinder groups"))
        or re.search(r": \d+ extents? found", line) is not None
    )


def _warn(builder: TraceBuilder, parser: _Parser, text: str) -> None:
    builder.warn(
        Severity.DATA_LOSS,
        "stray_line",
        "lines that are no part of an extent map were skipped.",
        count=parser.n_stray,
    )
    builder.warn(
        Severity.NOTICE,
        "extents_without_place",
        "extents have no place of their own on the disk: compressed, inline or not "
        "written yet. Requests are not joined with them.",
        count=parser.n_nowhere,
    )
    ends = re.findall(r": \d+ extents? found", text)
    if len(ends) < len(parser.files):
        builder.warn(
            Severity.DATA_LOSS,
            "map_without_end",
            "the map of a file does not end as filefrag ends it; extents may lack.",
            count=len(parser.files) - len(ends),
            remedy="Run filefrag -v again.",
        )
