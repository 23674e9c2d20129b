"""Words for which part of a file is shown."""

from collections.abc import Mapping

from PySide6.QtCore import QCoreApplication


def tr(text: str) -> str:
    """Return `text` in the person's language."""
    return QCoreApplication.translate("Parts", text)


def part_text(options: Mapping[str, str], n_records: int) -> str:
    """Return which records were asked for, as "records 0–10 M of 33.5 M"; "" = all.

    Parameters
    ----------
    options : reader options.
    n_records : of the whole file, about; 0 = not known.
    """
    # Not before the first window; by now the worker has imported it.
    from ggscope.readers.api import NAMES_OPTION, RANGE_OPTION, parse_range

    parts = []
    text = options.get(RANGE_OPTION, "")
    if text:
        try:
            first, stop = parse_range(text, n_records or 1 << 62)
        except ValueError:
            parts.append(tr("records {0}").format(text))
        else:
            low, high = short_count(first), short_count(stop)
            if n_records:
                words = tr("records {0}–{1} of {2}")
                parts.append(words.format(low, high, short_count(n_records)))
            else:
                parts.append(tr("records {0}–{1}").format(low, high))
    names = options.get(NAMES_OPTION, "all")
    if names == "sampled":
        parts.append(tr("names of a sample"))
    elif names == "none":
        parts.append(tr("no names"))
    return ", ".join(parts)


def short_count(n: int) -> str:
    """Return a count in three digits: ``842``, ``9.5 M``, ``33.5 M``."""
    for unit, sign in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if n >= unit:
            value = n / unit
            return f"{value:.3g} {sign}" if value < 999.5 else f"{value:.0f} {sign}"
    return str(n)


__all__ = ["part_text", "short_count"]
