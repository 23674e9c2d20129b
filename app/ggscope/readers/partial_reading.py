"""The options that read a part of a file: ``range`` and ``names``."""

from collections.abc import Mapping

from ggscope.errors import ReadError

RANGE_OPTION = "range"
"""Reader option "FIRST:STOP": read only the records of these numbers."""
NAMES_OPTION = "names"
"""Reader option "all" (default), "sampled" or "none": records whose names are read."""
NAMES_CHOICES = ("all", "sampled", "none")
SAMPLED_SHARE = 16
"""With ``names=sampled``, one of this many blocks of records has names."""


def parse_range(text: str, n_records: int) -> tuple[int, int]:
    """Return (first, stop) of option ``range``, clipped to ``[0, n_records]``.

    Either side may be left out; "5%" stands for that share of the records.
    Underscores and thousands commas are ignored.

    Raises
    ------
    ValueError
        If the text is not a range or holds no record.
    """
    first_text, colon, stop_text = text.replace(",", "").replace("_", "").partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a range FIRST:STOP")

    def number(part: str, missing: int) -> int:
        part = part.strip()
        if not part:
            return missing
        if part.endswith("%"):
            share = float(part[:-1])
            if not 0 <= share <= 100:
                raise ValueError(f"{part} is not between 0 % and 100 %")
            return round(n_records * share / 100)
        if not part.isascii() or not part.isdigit():
            raise ValueError(f"{part!r} is not a record number")
        return min(int(part), n_records)

    first, stop = number(first_text, 0), number(stop_text, n_records)
    if first >= stop:
        raise ValueError(f"the range {text!r} holds none of {n_records:,} records")
    return first, stop


def requested_range(options: Mapping[str, str], n_records: int) -> tuple[int, int]:
    """Return (first, stop) of the records that the option ``range`` requests.

    Raises
    ------
    ReadError
        If it is not a range or holds no record.
    """
    text = options.get(RANGE_OPTION, "").strip()
    if not text:
        return 0, n_records
    try:
        return parse_range(text, n_records)
    except ValueError as error:
        raise ReadError(
            f"invalid option {RANGE_OPTION}: {error}.",
            hint=f"Use record numbers, as in {RANGE_OPTION}=0:1000000 or "
            f"{RANGE_OPTION}=25%:50%.",
        ) from error
