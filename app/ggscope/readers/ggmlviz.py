"""Reader of ``.ggmlviz``: the event stream that ggml-viz's hooks write."""

from ggscope.errors import (
    CorruptError,
    LimitExceededError,
    TruncatedError,
    UnsupportedVersionError,
)
from ggscope.model.trace import Trace
from ggscope.readers.api import (
    NAMES_CHOICES,
    NAMES_OPTION,
    NOT_MINE,
    RANGE_OPTION,
    Estimate,
    Head,
    ReadContext,
    ReaderInfo,
    Sniff,
)
from ggscope.readers.ggmlviz_columns import TOO_LARGE_HINT
from ggscope.readers.ggmlviz_layouts import HEADER_BYTES, LAYOUT_BY_ID, MAGIC
from ggscope.readers.ggmlviz_options import choose, estimate
from ggscope.readers.ggmlviz_reading import Reading
from ggscope.readers.ggmlviz_threads import NUMBERING_OPTION, NUMBERINGS
from ggscope.readers.source import Source

VERSION = 1

_OPTIONS = {
    "layout": "layout of the events: auto or one of " + ", ".join(LAYOUT_BY_ID),
    "ops": "op table: auto or the id of one, such as ggml-2025-06-30-86",
    NUMBERING_OPTION: "numbers of barrier and thread events: " + ", ".join(NUMBERINGS),
    RANGE_OPTION: "FIRST:STOP, numbers of events or shares such as 5%: read only these",
    NAMES_OPTION: "labels: " + ", ".join(NAMES_CHOICES),
}


class GgmlvizReader:
    """Reads graph, op and memory events; see the modules ``ggmlviz_*``."""

    info = ReaderInfo(
        id="ggmlviz",
        title="ggml-viz event stream",
        suffixes=(".ggmlviz",),
        doc="Begin and end events of graphs and ops, and memory events, as the hooks "
        "of ggml-viz write them.",
        options=_OPTIONS,
    )

    def sniff(self, head: Head) -> Sniff:
        """Judge by the magic number, else by the suffix."""
        data = head.data[:HEADER_BYTES]
        if data.startswith(MAGIC):
            if len(data) < HEADER_BYTES:
                return Sniff(90, "the magic number, and a header that is cut")
            version = int.from_bytes(data[len(MAGIC) :], "little")
            return Sniff(
                100 if version == VERSION else 90, f"magic number, version {version}"
            )
        if _is_other_version(data):
            return Sniff(90, f"magic number {_shown(data)}, not {_shown(MAGIC)}")
        if data and head.size < HEADER_BYTES and MAGIC.startswith(data):
            # One to three letters could begin anything.
            return Sniff(90 if len(data) > 3 else 25, "the beginning of the header")
        if head.suffix in self.info.suffixes:
            return Sniff(10, "only the name says so: the magic number is missing")
        return NOT_MINE

    def estimate(self, head: Head) -> Estimate | None:
        """Return the cost of reading a file with this head; None if unknown."""
        return estimate(head)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace; a file with a header and no events gives an empty one.

        Raises
        ------
        CorruptError, UnsupportedVersionError, TruncatedError
            If the header is not that of a ``.ggmlviz`` file.
        LimitExceededError
            If the events take more memory than there is or the context allows.
        ReadError
            If an option has a value that does not exist.
        """
        version = _version(source)
        try:
            reading = Reading(source, context, choose(source, context), version)
            return reading.run(is_known=version == VERSION)
        except MemoryError:
            raise LimitExceededError(
                "there is not enough memory for the events of this file.",
                hint=TOO_LARGE_HINT,
            ) from None


def _is_other_version(data: bytes) -> bool:
    """Tell whether the magic number is ours but for its last character."""
    return len(data) >= len(MAGIC) and data[: len(MAGIC) - 1] == MAGIC[:-1]


def _shown(data: bytes) -> str:
    """Return the first bytes as text and, where they are none, in hex."""
    start = data[: len(MAGIC)]
    text = start.decode("latin-1")
    if text.isascii() and text.isprintable():
        return f'"{text}"'
    return start.hex(" ")


def _version(source: Source) -> int:
    """Check the header; return the version that it states."""
    data = source.head(HEADER_BYTES)
    if data.startswith(MAGIC) and len(data) == HEADER_BYTES:
        return int.from_bytes(data[len(MAGIC) :], "little")
    if data.startswith(MAGIC) or MAGIC.startswith(data):
        raise TruncatedError(
            f"short header: {len(data)} of its {HEADER_BYTES} bytes are there.",
            offset=len(data), hint="The writer was stopped before its first event.",
        )  # fmt: skip
    if _is_other_version(data):
        raise UnsupportedVersionError(
            f"the magic number is {_shown(data)}; only {_shown(MAGIC)} is known.",
            offset=0, hint="A newer ggscope may read it.",
        )  # fmt: skip
    raise CorruptError(
        f"this is no .ggmlviz file: the magic number is {_shown(data)}, not "
        f"{_shown(MAGIC)}.",
        offset=0, hint="Check that the file was not converted or cut at its start.",
    )  # fmt: skip
