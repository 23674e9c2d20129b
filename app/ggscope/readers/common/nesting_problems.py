"""Problems with begins, ends and the nesting of spans, of whichever format."""

from collections.abc import Callable, Sequence

from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.common.nesting import Paired


def warn_of_pairs(
    builder: TraceBuilder,
    pairs: Sequence[Paired],
    offset: Callable[[int], int],
    lane: str,
) -> None:
    """Warn of begins and ends without the other, and of ends of another name.

    Parameters
    ----------
    offset : returns the place of an event in the file.
    lane : what the format calls the lanes of its spans.
    """
    opened = [int(pair.open.min()) for pair in pairs if len(pair.open)]
    if opened:
        builder.warn(
            Severity.NOTICE,
            "begin_without_end",
            "begins have no end in the file: they are drawn up to the last event "
            f"of their {lane}, and how long they took is unknown.",
            offset(min(opened)),
            sum(len(pair.open) for pair in pairs),
        )
    orphans = [int(pair.orphan[0]) for pair in pairs if len(pair.orphan)]
    if orphans:
        builder.warn(
            Severity.NOTICE,
            "end_without_begin",
            "ends have no begin in the file; they are left out.",
            offset(min(orphans)),
            sum(len(pair.orphan) for pair in pairs),
        )
    builder.warn(
        Severity.NOTICE,
        "mismatched_end",
        "ends have another name than every open begin; they close the last one.",
        count=sum(pair.n_mismatched for pair in pairs),
    )


def warn_of_nesting(
    builder: TraceBuilder,
    n_reaching: int,
    first: int,
    offset: Callable[[int], int],
    lane: str,
) -> None:
    """Warn of spans that end behind the one they begin in; `first` is an event."""
    if n_reaching:
        builder.warn(
            Severity.NOTICE,
            "bad_nesting",
            f"spans begin within another of their {lane} and end behind it; they are "
            "drawn beside it.",
            offset(first),
            n_reaching,
        )


def warn_of_limits(builder: TraceBuilder, n_counters: int, n_names: int) -> None:
    """Warn of counters that are not shown, and of names that are no ops."""
    builder.warn(
        Severity.DATA_LOSS,
        "too_many_counters",
        "there are more counters than are shown.",
        count=n_counters,
    )
    builder.warn(
        Severity.NOTICE,
        "too_many_ops",
        "there are more names than are distinguished as ops; the others count as "
        "“other names”, and keep their names.",
        count=n_names,
    )
