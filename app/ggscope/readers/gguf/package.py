"""The head of a GGUF file as the ``gguf`` package reads it: the reference.

It maps the whole file into memory and makes an object of each token string, so it
serves comparisons, not everyday reading. It trusts what it reads: a damaged count
keeps it busy for ever, and a file that shrinks under its map ends the process. So it
sees whole heads only, and those in a private file.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

from ggscope.errors import CorruptError
from ggscope.readers import plugins
from ggscope.readers.gguf.header import (
    GgufField,
    GgufHeader,
    GgufTensor,
    Scalar,
    read_header,
)
from ggscope.readers.plugins import GuestError
from ggscope.readers.source import Source

_OWN = "GGUF."
"""What the package puts among the keys by itself begins so."""
_SECONDS = 120.0
"""A vocabulary of 200,000 tokens takes the package 12 s."""
_HINT = "Open it without the option header=package."


def package_header(
    source: Source, check_cancelled: Callable[[], None] = lambda: None
) -> GgufHeader:
    """Return the head of an undamaged file of version 2 or 3.

    Raises
    ------
    CorruptError, TruncatedError, UnsupportedVersionError
        If our own walk finds any damage, or the package refuses the file or is not
        done in two minutes.
    """
    walked = read_header(source, check_cancelled)
    if walked.end < 0 or walked.warnings:
        why = walked.warnings[0].message if walked.warnings else "Its head is cut."
        raise CorruptError(
            f"the gguf package reads whole heads only, and this one is damaged: {why}",
            hint=_HINT,
        )
    with tempfile.TemporaryDirectory(
        prefix="ggscope-", ignore_cleanup_errors=True
    ) as folder:
        copy = Path(folder) / "head.gguf"
        with copy.open("wb") as file:
            file.write(source.head(walked.data_offset))
            # The weights are a hole: nobody looks at them.
            file.truncate(source.size)
        try:
            header, _ = plugins.run(
                lambda: _read(copy), seconds=_SECONDS, check=check_cancelled
            )
        except GuestError as error:
            raise CorruptError(
                f"the gguf package cannot read this file: {error}.", hint=_HINT
            ) from error
    return header


def _read(path: Path) -> GgufHeader:
    """Return what the package reads; it raises whatever numpy or an enum raises."""
    from gguf import GGUFEndian, GGUFReader, GGUFValueType

    reader = GGUFReader(path)
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
