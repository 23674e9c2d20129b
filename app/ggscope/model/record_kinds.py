"""What records are of, in words: ops, graphs, lists of experts."""

from collections.abc import Mapping

from ggscope.model.trace import TraceInfo
from ggscope.model.units import format_count

_ONE = {
    "ops": "op", "graphs": "graph", "lists of experts": "list of experts",
    "requests": "request", "calls": "call", "lines": "line",
}  # fmt: skip


def record_text(info: TraceInfo) -> str:
    """Return "2,616 ops, 96 lists of experts"; "120 records" of what has one kind."""
    return counted_text(info.n_records, info.records_by_kind)


def counted_text(n: int, by_kind: Mapping[str, int]) -> str:
    """Return how many records there are of which kind.

    Parameters
    ----------
    n : all records.
    by_kind : how many of them are "ops", "graphs", "lists of experts"; of a log its
        "requests" and "lines", of CUDA its "calls" and "lines"; empty = in the source's
        own terms.
    """
    if not by_kind:
        return f"{format_count(n)} record{'' if n == 1 else 's'}"
    some = {word: number for word, number in by_kind.items() if number}
    return ", ".join(
        f"{format_count(number)} {_ONE[word] if number == 1 else word}"
        for word, number in (some or {record_unit(by_kind): 0}).items()
    )


def record_unit(by_kind: Mapping[str, int]) -> str:
    """Return what is counted, as of a rate: "ops", "ops and graphs", "lines"."""
    if not by_kind:
        return "records"
    if "lines" in by_kind:
        return "lines"
    return " and ".join(word for word, number in by_kind.items() if number) or "ops"
