"""Keys that an object of a JSON text names twice, which typed decoders pass over.

``json_repeats.c`` looks through a text at about 1 GB/s. For what it cannot judge, a
decoder in Python does.
"""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64
from ggscope.native.library import library
from ggscope.readers.common.json_cursor import Bytes8
from ggscope.readers.common.json_text import TolerantDecoder


@dataclass(frozen=True, slots=True)
class Repeats:
    """Keys that were named again.

    Attributes
    ----------
    count : of all elements.
    element : number of the first element that has one.
    key : the first one.
    """

    count: int
    element: int
    key: str


def repeats(data: Bytes8, start: I64, end: I64) -> Repeats | None:
    """Return what the elements of a text name twice; None for nothing.

    Parameters
    ----------
    data : uint8[n], text in which each element is sound JSON.
    start, end : int64[m], the elements in `data`, in order; only commas and white
        space stand between them.
    """
    if not len(start):
        return None
    begin = int(start[0])
    part = np.ascontiguousarray(data[begin : int(end[-1])])
    place = np.zeros(2, np.int64)
    found = library().ggscope_json_repeats(part, len(part), place)
    if found < 0:
        return _repeats_slow(data, start, end)
    if not found:
        return None
    at, length = place.tolist()
    element = int(np.searchsorted(start, begin + at, "right")) - 1
    key = part[at : at + length].tobytes().decode("utf-8", "replace")
    return Repeats(found, element, key)


def repeats_in(text: bytes) -> Repeats | None:
    """Return the same of one value."""
    data = np.frombuffer(text, np.uint8)
    return repeats(data, np.array([0]), np.array([len(text)]))


def _repeats_slow(data: Bytes8, start: I64, end: I64) -> Repeats | None:
    """Return the same by decoding each element."""
    decoder, first = TolerantDecoder(), -1
    bounds = zip(start.tolist(), end.tolist(), strict=True)
    for element, (begin, finish) in enumerate(bounds):
        decoder.decode(data[begin:finish].tobytes().decode("utf-8", "replace"))
        if decoder.n_repeated and first < 0:
            first = element
    if first < 0:
        return None
    return Repeats(decoder.n_repeated, first, decoder.repeated)
