"""A reader for ggscope in thirty lines: copy it into the plug-in folder and change it.

``ggscope readers`` names the folder. This one reads text files that begin with
``#spans`` and go on with lines of ``start end thread name``, times in nanoseconds.

Import and ``sniff`` must be quick (two seconds at most) and run on a thread that is not
the main one; what they print goes to stderr. Where either fails, the reader is switched
off until the program is started anew. ``read`` may take its time: it calls
``context.progress`` every now and then, which also ends it when somebody cancels.
"""

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.lanes import LaneKind
from ggscope.model.trace import Trace, TraceInfo
from ggscope.readers.api import Head, ReadContext, ReaderInfo, Sniff
from ggscope.readers.source import Source


class SpansTextReader:
    """Reads ``#spans`` text files."""

    info = ReaderInfo("spans-text", "spans as text", (".spans",), "One span per line.")

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first bytes."""
        return Sniff(90 if head.data.startswith(b"#spans\n") else 0)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace."""
        text = source.read(0, source.size).decode("utf-8", "replace")
        rows = [line.split(maxsplit=3) for line in text.splitlines()[1:] if line]
        try:
            times = np.array([row[:2] for row in rows], np.int64).reshape(-1, 2)
            threads, names = [row[2] for row in rows], [row[3] for row in rows]
        except (ValueError, IndexError) as error:
            raise CorruptError(f"a line is not like 0 10 main work: {error}") from error
        builder = TraceBuilder()
        lanes = {
            thread: builder.add_lane(thread, LaneKind.THREAD, ("Threads",))
            for thread in dict.fromkeys(threads)
        }
        builder.add_spans(
            start=times[:, 0],
            end=times[:, 1],
            lane=np.array([lanes[thread] for thread in threads], np.int32),
            name=builder.strings.intern_many(names),
            op=np.full(len(rows), -1, np.int16),
        )
        context.progress(source.size, source.size)
        path, version = (source.path,), "1"
        info = TraceInfo(path, self.info.id, "text", version, source.size, len(rows))
        return builder.snapshot(info)
