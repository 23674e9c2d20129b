"""Single records of a tensor trace, decoded on demand for tooltips and the hex pane."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ggscope.errors import TruncatedError
from ggscope.model.trace import OpTable, RecordView
from ggscope.model.units import NOT_AVAILABLE, format_bytes
from ggscope.readers.records import (
    FIRST_EXTENSION_OP,
    NO_INDEX,
    NO_LAYER,
    NO_OFFSET,
    Layout,
)
from ggscope.readers.source import read_at

_MISSING = {
    "layer_id": NO_LAYER,
    "token_id": NO_INDEX,
    "tensor_idx": NO_INDEX,
    "file_offset": NO_OFFSET,
    "disk_offset_or_buffer_id": NO_OFFSET,
    "attention_head": 0xFF,
    "qkv_type": 0xFF,
    "expert_id": 0xFF,
    "expert_rank": 0xFF,
}
_WORDS = {
    "phase": ("prompt", "generate"),
    "memory_source": ("disk (weight in the file)", "buffer"),
    "event_type": ("alloc", "dealloc"),
    "usage": ("any", "weights", "compute"),
}
_POINTERS = frozenset(
    ("tensor_ptr", "buffer_id", "buffer_ptr", "disk_offset_or_buffer_id", "file_offset")
)


@dataclass(frozen=True, slots=True)
class TensorRecords:
    """Gives back records of one file by their number in it.

    Attributes
    ----------
    ops : names for the op numbers; None where records have none.
    """

    path: Path
    layout: Layout
    ops: OpTable | None = None

    def view(self, record: int) -> RecordView:
        """Return record `record`, decoded.

        Raises
        ------
        IndexError
            If the number is negative.
        ReadError
            If the file is gone or has become too short.
        """
        if record < 0:
            raise IndexError(record)
        offset = record * self.layout.size
        data = read_at(self.path, offset, self.layout.size)
        if len(data) < self.layout.size:
            raise TruncatedError(
                f"record {record:,} is no longer there; the file has become shorter.",
                path=self.path,
                offset=offset,
                hint="Open the file again.",
            )
        fields = tuple(
            (name, self._text(name, data[at : at + length]), at, length)
            for name, at, length in sorted(self.layout.fields(), key=lambda f: f[1])
        )
        return RecordView(offset, data, fields)

    def _text(self, name: str, raw: bytes) -> str:
        """Return a field's value as people read it; N/A for sentinels."""
        field = name.rpartition(".")[2]
        if field.endswith("name") or field == "backend":
            text = raw.split(b"\0", 1)[0].decode("utf-8", "replace")
            return repr(text) if text else NOT_AVAILABLE
        if field.startswith("pad"):
            return raw.hex(" ") if any(raw) else "0"
        if field == "expert_ids":
            return ", ".join(map(str, np.frombuffer(raw, "<i4").tolist()))
        value = int.from_bytes(raw, "little")
        if value == _MISSING.get(field):
            return NOT_AVAILABLE
        if field == "operation_type":
            return self._op_text(value)
        if field in _WORDS:
            words = _WORDS[field]
            return f"{value} = {words[value]}" if value < len(words) else str(value)
        if field in _POINTERS:
            return f"0x{value:x}"
        if field == "size_bytes":
            return f"{value:,} = {format_bytes(value)}"
        return f"{value:,}" if field == "timestamp_ns" else str(value)

    def _op_text(self, code: int) -> str:
        if self.layout.has_ggml_ops and code >= FIRST_EXTENSION_OP:
            return f"{code} = extension record"
        return f"{code} = {self.ops.name(code)}" if self.ops else str(code)
