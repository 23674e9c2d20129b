"""The head of a GGUF file as the ``gguf`` package reads it: the reference.

It maps the whole file into memory and makes an object of each token string, so it
serves comparisons, not everyday reading.
"""

from pathlib import Path
from typing import cast

from ggscope.errors import CorruptError
from ggscope.readers.gguf_data import (
    GgufField,
    GgufHeader,
    GgufTensor,
    Scalar,
)

_OWN = "GGUF."
"""What the package puts among the keys by itself begins so."""


def package_header(path: Path) -> GgufHeader:
    """Return the head of an undamaged file of version 2 or 3.

    Raises
    ------
    CorruptError
        If the package refuses the file.
    """
    from gguf import GGUFEndian, GGUFReader, GGUFValueType

    try:
        reader = GGUFReader(path)
    except Exception as error:
        # Border to the package: it raises whatever numpy or an enum raises.
        raise CorruptError(
            f"the gguf package cannot read this file: {error}.",
            hint="Open it without the option header=package.",
        ) from error
    header = GgufHeader(
        version=int(reader.fields["GGUF.version"].parts[-1][0]),
        is_big_endian=reader.endianess == GGUFEndian.BIG,
        n_tensors=len(reader.tensors),
        n_fields=int(reader.fields["GGUF.kv_count"].parts[-1][0]),
        alignment=int(reader.alignment),
        data_offset=int(reader.data_offset),
    )
    for key, found in reader.fields.items():
        if not key.startswith(_OWN):
            is_array = found.types[0] == GGUFValueType.ARRAY
            header.fields[key] = _field(
                found.contents(), found.offset, len(found.data) if is_array else -1
            )
    for tensor in reader.tensors:
        header.tensors.append(
            GgufTensor(
                tensor.name,
                tuple(int(n) for n in tensor.shape),
                int(tensor.tensor_type),
                int(tensor.data_offset - reader.data_offset),
                int(tensor.field.offset),
            )
        )
    header.end = header.data_offset
    return header


def _field(content: object, offset: int, n_items: int) -> GgufField:
    """Return a field; `n_items` is -1 for anything but an array."""
    length = len(content.encode()) if isinstance(content, str) else n_items
    value = tuple(content) if isinstance(content, list) else content
    return GgufField(
        cast("Scalar | tuple[Scalar, ...]", value), length, n_items >= 0, int(offset)
    )


__all__ = ["package_header"]
