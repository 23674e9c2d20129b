"""What the head of a GGUF file holds, as data."""

from dataclasses import dataclass, field
from typing import TypeAlias

from ggscope.model.trace import ReadWarning, Severity

DEFAULT_ALIGNMENT = 32

Scalar: TypeAlias = int | float | bool | str


@dataclass(frozen=True, slots=True)
class GgufField:
    """One piece of metadata.

    Attributes
    ----------
    value : a number, a text or a tuple of them; None where it is too long to keep.
    length : of an array its elements, of a text its bytes; -1 for numbers.
    is_array : whether it is an array.
    offset : where its key begins.
    """

    value: Scalar | tuple[Scalar, ...] | None
    length: int
    is_array: bool
    offset: int


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One row of the table of tensors.

    Attributes
    ----------
    shape : ne0 … as stated, at most four.
    type : number of the ggml type as stored.
    offset : from the start of the data section, as stored.
    at : where the row begins in the file.
    """

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int
    at: int


@dataclass(slots=True)
class GgufHeader:
    """What the head of one file says.

    Attributes
    ----------
    n_tensors, n_fields : as the head counts them.
    fields : by key, in the order of the file.
    end : offset behind the table of tensors; -1 where it was not reached.
    data_offset : where the data section begins; -1 unknown.
    warnings : what is wrong with it.
    """

    version: int = 0
    is_big_endian: bool = False
    n_tensors: int = 0
    n_fields: int = 0
    fields: dict[str, GgufField] = field(default_factory=dict)
    tensors: list[GgufTensor] = field(default_factory=list)
    alignment: int = DEFAULT_ALIGNMENT
    end: int = -1
    data_offset: int = -1
    warnings: list[ReadWarning] = field(default_factory=list)

    def integer(self, key: str) -> int:
        """Return the integer under `key`; -1 where there is none."""
        found = self.fields.get(key)
        value = None if found is None else found.value
        return value if type(value) is int else -1

    def text(self, key: str) -> str:
        """Return the text under `key`; "" where there is none."""
        found = self.fields.get(key)
        value = None if found is None else found.value
        return value if isinstance(value, str) else ""

    def warn(
        self,
        severity: Severity,
        code: str,
        message: str,
        offset: int | None = None,
        *,
        count: int = 1,
        place: str = "",
        remedy: str = "",
    ) -> None:
        """Note a problem."""
        self.warnings.append(
            ReadWarning(severity, code, message, count, offset, place, remedy)
        )


__all__ = ["DEFAULT_ALIGNMENT", "GgufField", "GgufHeader", "GgufTensor", "Scalar"]
