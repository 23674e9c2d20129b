"""What a trace of a recording takes from its sidecar, whichever its records are."""

from dataclasses import replace
from typing import Any

from ggscope.model.run import RecordCount
from ggscope.model.trace import JoinedFile, MatchReport, Trace


def from_sidecar(
    trace: Trace, side: Trace, n_ops: int, n_matched: int, n_records: int
) -> dict[str, Any]:
    """Return the fields of the joined trace that the sidecar states.

    Parameters
    ----------
    n_ops : ops of which the trace has a record.
    n_matched, n_records : records with a node or graph of the sidecar, of so many.
    """
    return {
        "batch_tokens": side.batch_tokens,
        "token_sequences": side.token_sequences,
        "recordings": side.recordings,
        "record_count": _record_count(side, n_ops),
        "info": replace(
            trace.info,
            n_passes=side.info.n_passes or trace.info.n_passes,
            paths=(*trace.info.paths, *side.info.paths),
            producer={**trace.info.producer, **side.info.producer},
        ),
        "parts": (JoinedFile(trace.info, "trace"), JoinedFile(side.info, "recording")),
        "joins": (
            *trace.joins,
            MatchReport("recording", side.info.name, n_matched, n_records),
        ),
    }


def _record_count(side: Trace, n_ops: int) -> RecordCount | None:
    """Return how many records of ops there are and lack, as the tracer counted.

    What the file holds less than was written to it is missing as well.
    """
    account = next((recording.account for recording in side.recordings), None)
    if account is None:
        return None
    return RecordCount(n_ops, account.lost + max(account.recorded - n_ops, 0))
