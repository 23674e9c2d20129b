"""What sums of accesses count, and why some are incomplete, as short texts."""

from ggscope.analysis.heat.byte_ranges import UnknownUse
from ggscope.model.units import format_bytes

UNKNOWN = "unknown"
OPEN_EXPERTS = "expert routing incomplete"
"""Why it is unknown whether some expert slices were read."""
READ_UNRECORDED = "read by ops of the graph that have no record"
"""About tensors that ``analysis.reads.unrecorded.unrecorded_tensors`` marks."""
UNKNOWN_USES = {
    UnknownUse.OMITTED: "unknown whether touched",
    UnknownUse.EXPERTS_OPEN: "possibly touched",
    UnknownUse.UNRECORDED: "not recorded",
}
"""What fields of a heatmap without an access may mean."""


def moved_text(n_bytes: int, n_unsized: int) -> str:
    """Return ``3.0 MiB``, ``≥ 3.0 MiB``, or ``unknown`` where no size is recorded.

    Parameters
    ----------
    n_bytes : known bytes of some accesses.
    n_unsized : those of them without a size.
    """
    if not n_unsized:
        return format_bytes(n_bytes)
    return f"≥ {format_bytes(n_bytes)}" if n_bytes else UNKNOWN


def known_bytes(n_bytes: int, n_unsized: int) -> int | None:
    """Return known bytes; None where accesses have been, and no size is recorded."""
    return None if n_unsized and not n_bytes else n_bytes


def counting_rule(passed: int, n_row_reads: int = 0, *, is_once: bool) -> str:
    """Return what a sum of bytes read from the model file counts.

    Parameters
    ----------
    passed : bytes that are left out, as they lie in experts that were not chosen.
    n_row_reads : row look-ups that are left out.
    is_once : whether each op counts once; see `op_io.counts_once`.
    """
    parts = ["all accesses, each op once" if is_once else "all accesses, per thread"]
    if passed:
        parts.append("of stacked experts only the chosen ones")
    if n_row_reads:
        parts.append("without row look-ups")
    return ", ".join(parts)
