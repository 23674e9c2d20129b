"""What sums of accesses count, and why some are incomplete, as short texts."""

from ggscope.analysis.heat.byte_ranges import UnknownUse

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
