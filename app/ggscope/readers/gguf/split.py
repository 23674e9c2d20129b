"""Split models: which parts there are, and which of them lie beside the opened one.

``gguf-split`` names them ``model-00001-of-00003.gguf`` and numbers them from 0 in
the key ``split.no``.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from ggscope.model.trace import Severity
from ggscope.readers.gguf.header import GgufHeader

COUNT_KEY = "split.count"
NUMBER_KEY = "split.no"
TENSORS_KEY = "split.tensors.count"
_NAME = re.compile(r"(?P<stem>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})(?P<end>\.gguf)$")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SplitFile:
    """One part of a split model that exists.

    Attributes
    ----------
    number : from 0.
    """

    path: Path
    number: int


@dataclass(frozen=True, slots=True)
class SplitModel:
    """What lies in a folder of a split model.

    Attributes
    ----------
    count : parts that there should be; 1 for a model that is not split.
    number : of the opened one, from 0.
    found : parts that exist, by number; the opened one among them.
    missing : names of files that do not.
    """

    count: int
    number: int
    found: tuple[SplitFile, ...]
    missing: tuple[str, ...] = ()


def find_split(path: Path, header: GgufHeader) -> SplitModel:
    """Return the parts that belong to the opened file `path`.

    The file name decides which files are parts; the head is asked whether it agrees.
    """
    named = _NAME.match(path.name)
    stated = max(header.integer(COUNT_KEY), 1)
    if named is None:
        number = header.integer(NUMBER_KEY)
        if stated > 1:
            header.warn(
                Severity.DATA_LOSS,
                "gguf_part_alone",
                f"This is part {number + 1} of {stated:,} of a split model, but its "
                "name does not say so: the other parts were not looked for.",
                header.fields[COUNT_KEY].offset,
                remedy="Name the parts …-00001-of-00003.gguf and open one of them.",
            )
        inside = 0 <= number < stated
        number = number if inside else 0
        return SplitModel(stated, number, (SplitFile(path, number),))
    count, number = int(named["count"]), int(named["no"]) - 1
    if not 0 <= number < count:
        return SplitModel(1, 0, (SplitFile(path, 0),))
    _compare(header, count, number)
    present = _present(path, named)
    present[number] = path
    missing = [
        f"{named['stem']}-{i + 1:05d}-of-{count:05d}{named['end']}"
        for i in range(count)
        if i not in present
    ]
    found = tuple(SplitFile(present[i], i) for i in sorted(present))
    return SplitModel(count, number, found, tuple(missing))


def note_missing(parts: SplitModel, header: GgufHeader) -> None:
    """Note the parts that are not there."""
    if not parts.missing:
        return
    names = ", ".join(parts.missing[:_SHOWN])
    more = len(parts.missing) - _SHOWN
    header.warn(
        Severity.DATA_LOSS,
        "gguf_missing_part",
        f"{len(parts.missing):,} of {parts.count:,} parts of this split model are "
        f"missing: {names}" + (f" and {more:,} more" if more > 0 else "") + ". Their "
        "tensors are not listed.",
        count=len(parts.missing),
        remedy="Put the parts into one folder and open any of them.",
    )


def note_total(header: GgufHeader, n_tensors: int) -> None:
    """Note where all parts together hold other than the stated tensors.

    Only to be asked where every part was read.
    """
    stated = header.integer(TENSORS_KEY)
    if stated < 0 or stated == n_tensors:
        return
    header.warn(
        Severity.DATA_LOSS,
        "gguf_split_count",
        f"The parts hold {n_tensors:,} tensors, but {TENSORS_KEY} says {stated:,}.",
        header.fields[TENSORS_KEY].offset,
        remedy="Parts of different models may lie in this folder; fetch them again.",
    )


def _compare(header: GgufHeader, count: int, number: int) -> None:
    """Note where the head's part number contradicts the file's name."""
    stated = header.integer(COUNT_KEY), header.integer(NUMBER_KEY)
    if header.end >= 0 and stated != (count, number):
        says = (
            f"its head says part {stated[1] + 1:,} of {stated[0]:,}"
            if stated[0] > 0
            else "its head does not"
        )
        header.warn(
            Severity.NOTICE,
            "gguf_part_number",
            f"The file's name says part {number + 1:,} of {count:,}, {says}; the name "
            "was believed.",
        )


def _present(path: Path, named: re.Match[str]) -> dict[int, Path]:
    """Return the parts beside `path` by number."""
    found: dict[int, Path] = {}
    try:
        siblings = list(path.parent.iterdir())
    except OSError:
        return found
    for other in siblings:
        match = _NAME.match(other.name)
        if (
            match
            and (match["stem"], match["count"]) == (named["stem"], named["count"])
            and 0 < int(match["no"]) <= int(match["count"])
        ):
            found[int(match["no"]) - 1] = other
    return found
