"""A reader for ggscope on one page: copy it into the plug-in folder and change it.

``ggscope readers`` names the folder. This one reads text files that begin with
``#spans`` and go on with lines of ``start end thread name``.

``info`` says what is known of the format without running anything of the reader: what
its files begin with (``magic``), keys of JSON (``keys``) or words of a text (``line``)
that they hold, what they are to a session, and which options there are. A reader that
says none of the first three is asked about every file.

Import and ``sniff`` must be quick (two seconds at most) and run on a thread that is not
the main one; what they print goes to stderr. Where either fails, the reader is switched
off until the program is started anew. ``read`` may take its time: it calls
``context.progress`` every now and then, which also ends it when somebody cancels.
"""

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind, Severity, Trace, TraceInfo
from ggscope.readers.api import Head, Option, ReadContext, ReaderInfo, Sniff
from ggscope.readers.source import Source

NS_OF_UNIT = {"ns": 1, "us": 1_000, "ms": 1_000_000}


class SpansTextReader:
    """Reads ``#spans`` text files."""

    info = ReaderInfo(
        "spans-text",
        "spans as text",
        (".spans",),
        "One span per line.",
        (
            Option(
                name="unit",
                doc="unit of the times: " + ", ".join(NS_OF_UNIT),
                choices=tuple(NS_OF_UNIT),
                default="ns",
            ),
        ),
        role="trace",  # to a session; a graph, a map … lies beside a trace
        magic=(b"#spans\n",),  # it is asked about files that begin so, or are named so
    )

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first bytes."""
        return Sniff(90 if head.data.startswith(b"#spans\n") else 0)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace."""
        unit = self.info.option_values(context.options)["unit"]
        text = source.read(0, source.size).decode("utf-8", "replace")
        if not text.startswith("#spans\n"):
            raise CorruptError("it does not begin with a line #spans.")
        rows = [line.split(maxsplit=3) for line in text.splitlines()[1:] if line]
        try:
            times = np.array([row[:2] for row in rows], np.int64).reshape(-1, 2)
            times *= NS_OF_UNIT[unit]
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
        if not text.endswith("\n"):
            builder.warn(Severity.DATA_LOSS, "cut", "The last line has no end.")
        context.progress(source.size, source.size)
        info = TraceInfo(
            paths=(source.path,),
            reader_id=self.info.id,
            format="text",
            format_version="1",
            byte_size=source.size,
            n_records=len(rows),
            options={"unit": unit},
        )
        return builder.snapshot(info)
