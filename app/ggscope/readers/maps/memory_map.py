"""Reader of ``memory-map.json``: where which tensor of a model lies, as a list.

Written by the scripts that prepare traces for BSC's web page, in several forms:
offsets from the start of the file or of its data section, sizes right or those of
32-bit floats, stacked experts whole or slice by slice. How rows become a trace, it
has in common with the structure table and the registry.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ggscope.errors import CorruptError, ReadError, TruncatedError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tensors import ModelFile, Place
from ggscope.model.trace import (
    DeclaredMetric,
    Severity,
    Trace,
    stated_figure,
    without_verdict,
)
from ggscope.readers.api import NOT_MINE, Head, ReadContext, ReaderInfo, Sniff
from ggscope.readers.common.file_facts import trace_info
from ggscope.readers.common.json_cursor import (
    Block,
    JsonCursor,
    first_element_keys,
    outer_keys,
)
from ggscope.readers.common.json_text import JsonSyntaxError, JsonTooLargeError, locate
from ggscope.readers.common.json_walk import ValueDecoder, note_repeated
from ggscope.readers.common.tensor_rows import MAX_ROWS, TensorRows
from ggscope.readers.maps import MEMORY_MAP_INFO
from ggscope.readers.maps.checks import (
    RepairedPlaces,
    StatedTotals,
    examine,
    note_claims,
    note_layout,
    note_offsets,
    note_places,
    totals,
)
from ggscope.readers.source import Source
from ggscope.sanitize import one_line

NO_LAYER = 65535
"""What the tracer's structures say for "no layer"."""
_MAX_TEXT = 200
_MAX_FACTS = 64
_MAX_KEYS = 64
_ROW_KEYS = {"name", "offset_start"}
_OUTER_KEYS = {"model_name", "total_size_bytes", "metadata"}


@dataclass(slots=True)
class MapParser:
    """What has been read of a memory map so far.

    Parameters
    ----------
    builder : gets the warnings.

    Attributes
    ----------
    facts : what the file says of the model, as text by key.
    categories : tensors by the file's own ``category``.
    has_tensors : whether the list of tensors has been met.
    keys : keys of the root object as they came, the first ones of very many.
    """

    builder: TraceBuilder
    rows: TensorRows = field(default_factory=TensorRows)
    facts: dict[str, str] = field(default_factory=dict)
    categories: Counter[str] = field(default_factory=Counter)
    keys: list[str] = field(default_factory=list)
    model_name: str = ""
    total_bytes: int = -1
    n_tensors: int = -1
    has_tensors: bool = False
    n_elements: int = 0
    _values: ValueDecoder = field(init=False)

    def __post_init__(self) -> None:
        self._values = ValueDecoder(self.builder, float)

    def take(self, cursor: JsonCursor) -> None:
        """Take the object that begins here; JSON faults pass through."""
        for key in cursor.members():
            if key in self.keys:
                note_repeated(self.builder, key, cursor.position)
            elif len(self.keys) < _MAX_KEYS:
                self.keys.append(key)
            if key == "tensors" and cursor.peek() == b"[":
                self.has_tensors = True
                for block in cursor.blocks():
                    self._take_block(block)
                continue
            data, at = cursor.value()
            self._take_fact(key, data, at)

    def _take_fact(self, key: str, data: bytes, at: int) -> None:
        try:
            value = self._values.parsed(data, at, key)
        except JsonSyntaxError:
            value = None
            self._fault(
                "map_bad_value",
                f"The value of {key[:_MAX_TEXT]} is invalid JSON; skipped.",
                at,
                key[:_MAX_TEXT],
                Severity.NOTICE,
            )
        if key == "model_name" and isinstance(value, str):
            self.model_name = value[:_MAX_TEXT]
        elif key == "total_size_bytes":
            self.total_bytes = _whole(value)
        elif key == "metadata" and isinstance(value, dict):
            for name, fact in value.items():
                self._note_fact(str(name), fact)
            self.n_tensors = _whole(value.get("n_tensors"))
            return
        self._note_fact(key, value)

    def _note_fact(self, name: str, value: object) -> None:
        is_plain = isinstance(value, (int, float, str)) and value != ""
        if is_plain and len(self.facts) < _MAX_FACTS:
            self.facts[name] = str(value)[:_MAX_TEXT]

    def _take_block(self, block: Block) -> None:
        for data, at in block.texts():
            place = f"tensors[{self.n_elements}]"
            self.n_elements += 1
            if len(self.rows) >= MAX_ROWS:
                self._fault(
                    "map_too_many",
                    f"More than {MAX_ROWS:,} tensors; the rest was skipped.",
                    at,
                    place,
                )
                continue
            try:
                value = self._values.parsed(data, at, place)
            except JsonSyntaxError:
                value = None
            if isinstance(value, dict):
                self._take_tensor(value, at, place)
            else:
                self._fault(
                    "map_bad_row",
                    "An entry of the tensor list is not a JSON object; skipped.",
                    at,
                    place,
                )

    def _take_tensor(self, row: dict[str, object], at: int, place: str) -> None:
        name = row.get("name")
        if not isinstance(name, str) or not name:
            self._fault("map_no_name", "A tensor has no name; skipped.", at, place)
            return
        begin, end = _whole(row.get("offset_start")), _whole(row.get("offset_end"))
        size = _whole(row.get("size_bytes"))
        if size < 0 and 0 <= begin <= end:
            size = end - begin
        elif size >= 0 and 0 <= begin <= end != begin + size:
            self._fault(
                "map_end_differs",
                f"{name} ends at {end:,}, but offset plus size is "
                f"{begin + size:,}; using the size.",
                at,
                place,
                Severity.NOTICE,
            )
        layer = _whole(row.get("layer_id"))
        self.rows.add(
            name,
            offset=begin,
            size=size,
            layer=layer if layer < NO_LAYER else -1,
            expert=_whole(row.get("expert_id")),
            shape=_shape(row.get("shape")),
            at=at,
        )
        category = row.get("category")
        if isinstance(category, str):
            self.categories[category[:_MAX_TEXT]] += 1

    def _fault(
        self,
        code: str,
        message: str,
        at: int,
        place: str,
        severity: Severity = Severity.DATA_LOSS,
    ) -> None:
        self.builder.warn(severity, code, message, at, place=place)


def _whole(value: object) -> int:
    """Return a whole number that is not negative; -1 for anything else."""
    if isinstance(value, bool):
        return -1
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and value >= 0 else -1


def _shape(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= 4:
        return ()
    shape = tuple(_whole(n) for n in value)
    return () if min(shape) < 0 else shape


def list_tensors(builder: TraceBuilder, rows: TensorRows) -> RepairedPlaces:
    """Give `builder` the tensors, repaired, and note what was wrong with them."""
    layout = examine(rows)
    builder.tensors = rows.table(
        builder.strings,
        place=Place.LISTED,
        offset=layout.offset,
        size=layout.size,
        size_source=layout.source,
    )
    note_places(builder, rows)
    note_layout(builder, rows, layout)
    return layout


def side_trace(
    builder: TraceBuilder,
    reader: ReaderInfo,
    source: Source,
    layout: RepairedPlaces,
    *,
    version: str = "",
    producer: Mapping[str, str] | None = None,
    summary: Mapping[str, object] | None = None,
    stated: tuple[DeclaredMetric | None, ...] = (),
) -> Trace:
    """Return the trace of a file that lists tensors and nothing else.

    Sizes are held against the room that the offsets leave; `stated` is what the file
    says besides.
    """
    figures = [figure for figure in stated if figure is not None]
    if layout.max_end >= 0 and len(builder.tensors):
        size = builder.tensors.size
        sizes = stated_figure(
            "sizes of all tensors",
            int(layout.stated_bytes),
            int(size[size >= 0].sum(dtype=float)),
            unit="B",
            basis="the room between offsets",
            place="tensors",
        )
        figures += [sizes] if sizes is not None else []
    if builder.has_loss:
        figures = [without_verdict(figure) for figure in figures]
    return builder.snapshot(
        trace_info(
            reader,
            source,
            len(builder.tensors),
            version=version,
            producer=producer,
            summary={**totals(layout, builder.tensors), **(summary or {})},
            stated=tuple(figures),
        )
    )


class MemoryMapReader:
    """Reads memory maps of model files."""

    info = MEMORY_MAP_INFO

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
        parser = MapParser(builder)
        cursor = JsonCursor(source)
        if cursor.peek() not in (b"{", b""):
            raise _wrong_kind(parser)
        try:
            parser.take(cursor)
        except JsonSyntaxError as fault:
            _keep(builder, parser, _explained(fault, source, parser))
        except JsonTooLargeError as fault:
            raise fault.as_limit("Is this a memory map?") from None
        if not parser.has_tensors:
            raise _wrong_kind(parser)
        context.progress(source.size, source.size)
        return _trace(builder, parser, source)


def _trace(builder: TraceBuilder, parser: MapParser, source: Source) -> Trace:
    layout = list_tensors(builder, parser.rows)
    note_offsets(builder, layout)
    claims = StatedTotals(parser.total_bytes, parser.n_tensors)
    note_claims(builder, parser.rows, layout, claims)
    facts = {"model_name": parser.model_name, **parser.facts}
    builder.models = (
        ModelFile(
            parser.model_name or source.path.stem,
            metadata={key: text for key, text in facts.items() if text},
        ),
    )
    return side_trace(
        builder,
        MemoryMapReader.info,
        source,
        layout,
        producer={"model": parser.model_name} if parser.model_name else {},
        summary={
            "total_size_bytes": parser.total_bytes,
            "categories": dict(parser.categories.most_common()),
        },
        stated=_stated(builder, parser, layout),
    )


def _stated(
    builder: TraceBuilder, parser: MapParser, layout: RepairedPlaces
) -> tuple[DeclaredMetric | None, ...]:
    """Return the totals of the file beside those of its rows.

    Where sizes are wrong, a total that was made of them is wrong as well. It may be
    that of the whole file or of its data section, and count what lies behind the last
    tensor.
    """
    layer = builder.tensors.layer
    n_layers = parser.facts.get("n_layers", "")
    total = parser.total_bytes
    end, basis = layout.repaired_end, "the end of its last tensor"
    if layout.first_offset > 0 and total == end - layout.first_offset:
        end, basis = total, "its tensors, without what comes before them"
    figures = (
        stated_figure(
            "tensors",
            parser.n_tensors if parser.n_tensors >= 0 else None,
            len(parser.rows),
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
    fault: JsonSyntaxError, source: Source, parser: MapParser
) -> CorruptError | TruncatedError:
    place = locate(source, fault.offset)
    n = len(parser.rows)
    where = (
        f"{fault.text}: line {place.line} column {place.column}, byte {fault.offset:,}"
    )
    before = f"{n:,} complete tensors before it"
    if fault.at_end:
        return TruncatedError(
            f"the file ends inside its JSON; {before} ({where}).",
            offset=fault.offset,
            hint="Check that the program that writes it ran to completion.",
        )
    return CorruptError(
        f"invalid JSON; {before} ({where}).",
        offset=fault.offset,
        hint="Re-export the file.",
    )


def _keep(builder: TraceBuilder, parser: MapParser, error: ReadError) -> None:
    """Note that only the tensors before a fault are shown; raise if there are none."""
    if not len(parser.rows):
        raise error from None
    is_cut = isinstance(error, TruncatedError)
    builder.warn(
        Severity.DATA_LOSS,
        "truncated_json" if is_cut else "broken_json",
        f"{error.message[0].upper()}{error.message[1:]} These were loaded.",
        error.offset,
        place=f"tensors[{parser.n_elements}]",
        remedy=error.hint,
    )


def _wrong_kind(parser: MapParser) -> CorruptError:
    keys = ", ".join(one_line(key[:32]) for key in parser.keys[:6])
    has = f"it has the keys {keys}" if keys else "it has no keys at all"
    return CorruptError(
        f"not a memory map: no list of tensors ({has}).",
        offset=0,
        hint="Open it without --format to detect the format.",
    )
