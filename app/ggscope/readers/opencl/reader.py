"""Reader of ggml-OpenCL's ``cl_profiling.csv``: kernels with durations and no times.

Source: ``write_profiling_info`` of ``ggml-opencl.cpp``. "op name" is the tensor that is
computed; durations are milliseconds with six places, of the device's own clock.
"""

import re

import numpy as np
import numpy.typing as npt

from ggscope.errors import CorruptError
from ggscope.model.backend_ops import (
    BackendOps,
    OpSources,
    SplitInputs,
    Splits,
    timed_ops,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.names import layer_of
from ggscope.model.tables import I32, I64
from ggscope.model.trace import LaneKind, OpTable, Severity, Trace
from ggscope.readers.api import (
    BOM,
    HEAD_BYTES,
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.common.csv_rows import (
    CsvBlocks,
    CsvRows,
    table_estimate,
    warn_of_strays,
)
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.opencl import INFO
from ggscope.readers.source import Source

_COLUMNS = (
    "op name", "kernel name", "exec duration (ms)", "global size", "local size",
    "output size",
)  # fmt: skip
_ROW_BYTES = 200
_MAX_MS = 1e12
_ONES = re.compile(r"(x1)+$")


class OpenclReader:
    """Reads the profile of kernels."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the names of its columns."""
        if b"\0" in head.data or _rows_at(head.data) is None:
            return NOT_MINE
        return Sniff(95, "columns of ggml-OpenCL's profile")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by the length of its rows."""
        return table_estimate(head, _ROW_BYTES, 3)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a profile, a kernel behind the other.

        Raises
        ------
        CorruptError
            If there is no row.
        """
        context.progress(0, source.size)
        start = _rows_at(source.head(HEAD_BYTES))
        if start is None:
            raise CorruptError("no line names the columns of the profile.", offset=0)
        kernels = _Kernels()
        blocks = CsvBlocks(source, context, start, len(_COLUMNS))
        for rows in blocks:
            kernels.take(rows)
        if not len(kernels):
            raise CorruptError("the profile has no row that can be read.", offset=start)
        builder = TraceBuilder()
        kernels.add_to(builder)
        _warn(builder, kernels.n_bad, has_open_end=blocks.has_open_end)
        n = len(kernels)
        return file_trace(builder, INFO, source, n, {"rows": n})


def _rows_at(data: bytes) -> int | None:
    """Return where the rows begin, None where the columns are not named."""
    start = len(BOM) if data.startswith(BOM) else 0
    line, feed, _ = data[start:].partition(b"\n")
    names = tuple(name.strip() for name in line.decode("utf-8", "replace").split(","))
    return start + len(line) + 1 if feed and names == _COLUMNS else None


def _warn(builder: TraceBuilder, n_bad: int, *, has_open_end: bool) -> None:
    builder.warn(
        Severity.NOTICE,
        "no_times",
        "the profile has durations and no times: kernels follow one another. When the "
        "device did nothing is unknown.",
        remedy="cl_trace.json, which is written with it, has the times.",
    )
    warn_of_strays(builder, n_bad, has_open_end=has_open_end)


class _Kernels:
    """Takes the rows of the profile block by block."""

    def __init__(self) -> None:
        self._line: list[I64] = []
        self._time: list[I64] = []
        self._text: list[I32] = []
        self._numbers: dict[bytes, int] = {}
        self._n_lines = 1
        self.n_bad = 0

    def __len__(self) -> int:
        return sum(map(len, self._line))

    def take(self, rows: CsvRows) -> None:
        """Take the rows of a block."""
        ms = rows.decimals(2)
        good = np.isfinite(ms) & (ms >= 0) & (ms < _MAX_MS)
        self.n_bad += len(rows.strays) + int(np.count_nonzero(~good))
        self._line.append(rows.line[good] + self._n_lines)
        self._time.append(np.rint(ms[good] * 1e6).astype(np.int64))
        columns = [self._numbered(rows.texts(k)[good]) for k in (0, 1, 5)]
        self._text.append(np.stack(columns, axis=1))
        self._n_lines += rows.n_lines

    def _numbered(self, texts: npt.NDArray[np.bytes_]) -> I32:
        different, place = np.unique(texts, return_inverse=True)
        numbers = self._numbers
        table = [numbers.setdefault(text, len(numbers)) for text in different.tolist()]
        return np.array(table, np.int32)[place.reshape(-1)]

    def add_to(self, builder: TraceBuilder) -> None:
        """Add a lane, the spans and the listing."""
        text, time = np.concatenate(self._text), np.concatenate(self._time)
        line = np.concatenate(self._line)
        names = [word.decode("utf-8", "replace") for word in self._numbers]
        n, end = len(time), np.cumsum(time)
        kernels, op = np.unique(text[:, 1], return_inverse=True)
        builder.ops = OpTable(
            "opencl", tuple(names[k] for k in kernels.tolist()), "spelled"
        )
        numbers = np.asarray(builder.strings.intern_many(names), np.int32)
        layer = np.array([layer_of(word) for word in names], np.int16)
        first = builder.add_spans(
            start=end - time,
            end=end,
            lane=builder.add_lane("OpenCL", LaneKind.THREAD, ("Backends",)),
            name=numbers[text[:, 0]],
            op=op.reshape(-1).astype(np.int16),
            layer=layer[text[:, 0]],
            record=line,
        )
        shapes = [_ONES.sub("", word) for word in names]
        texts = (*names, *shapes, "OpenCL")
        builder.backend_ops = BackendOps(
            texts,
            timed_ops(
                line=line,
                op=text[:, 1],
                name=text[:, 0],
                shape=text[:, 2] + np.int32(len(names)),
                backend=np.full(n, len(texts) - 1, np.int32),
                time=time,
                span=first + np.arange(n),
            ),
            OpSources.blank(),
            Splits.blank(),
            SplitInputs.blank(),
            n_graphs=1,
        )
