"""Reader of ``memory-map.json``: where which tensor of a model lies, as a list.

Written by the scripts that prepare traces for BSC's web page, in several forms:
offsets from the start of the file or of its data section, sizes right or those of
32-bit floats, stacked experts whole or slice by slice.
"""

import numpy as np

from ggscope.errors import (
    CorruptError,
    LimitExceededError,
    ReadError,
    TruncatedError,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.claims import Stated, stated_figure
from ggscope.model.tensors import ModelFile
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, ReaderInfo, Sniff
from ggscope.readers.json_outline import BOM, first_element_keys, outer_keys
from ggscope.readers.json_stream import JsonCursor
from ggscope.readers.json_text import JsonSyntaxError, JsonTooLargeError, locate
from ggscope.readers.map_intake import MapIntake
from ggscope.readers.map_layout import Layout
from ggscope.readers.map_notes import Claims, note_claims, note_offsets
from ggscope.readers.map_trace import list_tensors, side_trace
from ggscope.readers.source import Source
from ggscope.text import one_line

_ROW_KEYS = {"name", "offset_start"}
_OUTER_KEYS = {"model_name", "total_size_bytes", "metadata"}


class MemoryMapReader:
    """Reads memory maps of model files."""

    info = ReaderInfo(
        "memory-map",
        "Memory map of a model",
        (".json",),
        "Tensors of a model with their places in its file, prepared for a web page.",
    )

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its keys and those of its first tensor."""
        if b'"tensors"' not in head.data or b"\0" in head.data:
            return NOT_MINE
        keys = outer_keys(head.data)
        if "tensors" not in keys:
            return NOT_MINE
        row = first_element_keys(head.data, "tensors")
        if row >= _ROW_KEYS:
            return Sniff(90, "a list of tensors with offset_start")
        if not row and keys & _OUTER_KEYS:
            return Sniff(50, "keys of a memory map, but no tensor so far")
        return NOT_MINE

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the tensors of a map.

        Raises
        ------
        CorruptError, TruncatedError
            If the text is no JSON before the first tensor, or lists none.
        LimitExceededError
            If a single value is too large.
        """
        builder = TraceBuilder()
        intake = MapIntake(builder)
        start = len(BOM) if source.head(len(BOM)) == BOM else 0
        cursor = JsonCursor(source, start)
        if cursor.peek() not in (b"{", b""):
            raise _wrong_kind(intake)
        try:
            intake.take(cursor)
        except JsonSyntaxError as fault:
            _keep(builder, intake, _explained(fault, source, intake))
        except JsonTooLargeError as fault:
            raise LimitExceededError(
                f"one value is larger than {fault.limit:,} bytes.",
                offset=fault.offset,
                hint="Is this a memory map?",
            ) from None
        if not intake.has_tensors:
            raise _wrong_kind(intake)
        context.progress(source.size, source.size)
        return _trace(builder, intake, source)


def _trace(builder: TraceBuilder, intake: MapIntake, source: Source) -> Trace:
    layout = list_tensors(builder, intake.rows)
    note_offsets(builder, layout)
    claims = Claims(intake.total_bytes, intake.n_tensors)
    note_claims(builder, intake.rows, layout, claims)
    facts = {"model_name": intake.model_name, **intake.facts}
    builder.models = (
        ModelFile(
            intake.model_name or source.path.stem,
            metadata={key: text for key, text in facts.items() if text},
        ),
    )
    return side_trace(
        builder,
        MemoryMapReader.info,
        source,
        layout,
        producer={"model": intake.model_name} if intake.model_name else {},
        summary={
            "total_size_bytes": intake.total_bytes,
            "categories": dict(intake.categories.most_common()),
        },
        stated=_stated(builder, intake, layout),
    )


def _stated(
    builder: TraceBuilder, intake: MapIntake, layout: Layout
) -> tuple[Stated | None, ...]:
    """Return the totals of the file beside those of its rows.

    Where sizes are wrong, a total that was made of them is wrong as well. It may be
    that of the whole file or of its data section, and count what lies behind the last
    tensor.
    """
    layer = builder.tensors.layer
    n_layers = intake.facts.get("n_layers", "")
    total = intake.total_bytes
    end, basis = layout.repaired_end, "the end of its last tensor"
    if layout.first_offset > 0 and total == end - layout.first_offset:
        end, basis = total, "its tensors, without what comes before them"
    figures = (
        stated_figure(
            "tensors",
            intake.n_tensors if intake.n_tensors >= 0 else None,
            len(intake.rows),
            basis="its rows",
            place="metadata.n_tensors",
        ),
        stated_figure(
            "layers",
            int(n_layers) if n_layers.isdecimal() and len(n_layers) < 9 else None,
            len(np.unique(layer[layer >= 0])),
            basis="layers of its rows",
            place="metadata.n_layers",
            at_least=True,
        ),
        stated_figure(
            "total size",
            total if total >= 0 else None,
            end if end >= 0 else None,
            unit="B",
            basis=basis,
            place="total_size_bytes",
            at_least=total != layout.max_end,
        ),
    )
    builder.warn_stated(f for f in figures if f is not None and f.name == "layers")
    return figures


def _explained(
    fault: JsonSyntaxError, source: Source, intake: MapIntake
) -> CorruptError | TruncatedError:
    place = locate(source, fault.offset)
    n = len(intake.rows)
    where = (
        f"{fault.text}: line {place.line} column {place.column}, byte {fault.offset:,}"
    )
    before = f"{n:,} whole tensors come before it"
    if fault.at_end:
        return TruncatedError(
            f"the file ends in the middle of its JSON; {before} ({where}).",
            offset=fault.offset,
            hint="Check that the program that should write it ran to its end.",
        )
    return CorruptError(
        f"the file is no valid JSON; {before} ({where}).",
        offset=fault.offset,
        hint="Write the file again.",
    )


def _keep(builder: TraceBuilder, intake: MapIntake, error: ReadError) -> None:
    """Note that only the tensors before a fault are shown; raise if there are none."""
    if not len(intake.rows):
        raise error from None
    is_cut = isinstance(error, TruncatedError)
    builder.warn(
        Severity.DATA_LOSS,
        "truncated_json" if is_cut else "broken_json",
        f"{error.message[0].upper()}{error.message[1:]} They were kept.",
        error.offset,
        place=f"tensors[{intake.n_elements}]",
        remedy=error.hint,
    )


def _wrong_kind(intake: MapIntake) -> CorruptError:
    keys = ", ".join(one_line(key[:32]) for key in intake.keys[:6])
    has = f"it has the keys {keys}" if keys else "it has no keys at all"
    return CorruptError(
        f"this JSON is no memory map: it has no list of tensors ({has}).",
        offset=0,
        hint="Open it without --format to have its kind told by its content.",
    )
