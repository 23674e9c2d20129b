"""Takes a memory map in as it is walked: tensors and what it says of the model."""

from collections import Counter
from dataclasses import dataclass, field

from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.json_blocks import Block
from ggscope.readers.json_stream import JsonCursor
from ggscope.readers.json_text import JsonSyntaxError
from ggscope.readers.json_walk import Values, note_repeated
from ggscope.readers.model_rows import MAX_ROWS, TensorRows

NO_LAYER = 65535
"""What the tracer's structures say for "no layer"."""
_MAX_TEXT = 200
_MAX_FACTS = 64
_MAX_KEYS = 64


@dataclass(slots=True)
class MapIntake:
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
    _values: Values = field(init=False)

    def __post_init__(self) -> None:
        self._values = Values(self.builder, float)

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
                f"The value of {key[:_MAX_TEXT]} is no valid JSON; it was left out.",
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
        for start, end in block.elements():
            place = f"tensors[{self.n_elements}]"
            self.n_elements += 1
            if len(self.rows) >= MAX_ROWS:
                self._fault(
                    "map_too_many",
                    f"More than {MAX_ROWS:,} tensors are listed; the rest was left "
                    "out.",
                    block.offset + start,
                    place,
                )
                continue
            try:
                value = self._values.parsed(
                    block.element(start, end), block.offset + start, place
                )
            except JsonSyntaxError:
                value = None
            if isinstance(value, dict):
                self._take_tensor(value, block.offset + start, place)
            else:
                self._fault(
                    "map_bad_row",
                    "An element of the list of tensors is no JSON object; it was "
                    "left out.",
                    block.offset + start,
                    place,
                )

    def _take_tensor(self, row: dict[str, object], at: int, place: str) -> None:
        name = row.get("name")
        if not isinstance(name, str) or not name:
            self._fault(
                "map_no_name", "A tensor has no name; it was left out.", at, place
            )
            return
        begin, end = _whole(row.get("offset_start")), _whole(row.get("offset_end"))
        size = _whole(row.get("size_bytes"))
        if size < 0 and 0 <= begin <= end:
            size = end - begin
        elif size >= 0 and 0 <= begin <= end != begin + size:
            self._fault(
                "map_end_differs",
                f"{name} ends at {end:,}, but its offset and size give "
                f"{begin + size:,}; the size was believed.",
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


__all__ = ["MapIntake"]
