"""Problems of joining files, made from facts: the only module with their texts."""

from collections.abc import Sequence

from ggscope.model.storage import Device
from ggscope.model.trace import MatchReport, ReadWarning, Severity, Trace
from ggscope.model.units import UNITS, format_count

MISFIT = "part_does_not_fit"
NODES_NOT_RECORDED = "nodes_not_recorded"
_MAX_OPS = 6
"""Ops that a text lists."""
_MAX_NAME = 80
"""Characters of a name in a text."""


# -- clocks --------------------------------------------------------------------


def other_clock(name: str, *, can_be_shifted: bool) -> ReadWarning:
    """Return that a file was aligned to the start of the session."""
    remedy = "If the offset is known, shift the file with --shift FILE=TIME."
    return ReadWarning(
        Severity.NOTICE,
        "other_clock",
        f"{name} uses another clock and is aligned to the start of the session; "
        "simultaneous spans need not have run at the same time.",
        place=name,
        remedy=remedy if can_be_shifted else "",
    )


def clock_unknown(main: Trace, other: Trace) -> ReadWarning:
    """Return that the times of a file cannot be put on the clock of the session."""
    name = other.info.name
    unit, other_unit = UNITS[main.clock.unit], UNITS[other.clock.unit]
    return ReadWarning(
        Severity.NOTICE,
        "clock_unknown",
        f"Times of {name} are in {other_unit.many}, those of the session in "
        f"{unit.many}, and the clock frequency is unknown. Spans and "
        f"events of {name} are omitted.",
        place=name,
        remedy="Set the frequency with --option hz=…, or open the file alone.",
    )


def weights_apart(name: str) -> ReadWarning:
    """Return that a profile without times stays out, or what is joined with one."""
    return ReadWarning(
        Severity.NOTICE,
        "weights_apart",
        f"{name} cannot share an axis with the rest of the session: one has times, "
        f"the other sample weights. Spans of {name} are omitted.",
        place=name,
        remedy="Open the file alone.",
    )


def cycles_as_time(name: str, hz: float) -> ReadWarning:
    """Return that cycles of a file became nanoseconds."""
    text = f"Cycles of {name} converted to time at {hz / 1e6:g} MHz."
    return ReadWarning(Severity.INFO, "cycles_as_time", text, place=name)


# -- files that repeat others, or are of another run ---------------------------


def same_run_twice(other: Trace) -> ReadWarning:
    """Return that a file has the spans of another one."""
    name = other.info.name
    return ReadWarning(
        Severity.NOTICE,
        "same_run_twice",
        f"{name} repeats the spans of another file of this session; they are shown "
        "once.",
        len(other.spans),
        place=name,
    )


def sidecar_refused(name: str, why: str) -> ReadWarning:
    """Return that a sidecar is not of these records."""
    return ReadWarning(
        Severity.NOTICE,
        "sidecar_refused",
        f"{name} does not match these records: {why}. It is ignored.",
        place=name,
        remedy="Remove it from the session, or add the right sidecar.",
    )


def recording_cut(name: str, sidecar: str, n_missing: int) -> ReadWarning:
    """Return that a recording has fewer records than its sidecar states."""
    return ReadWarning(
        Severity.DATA_LOSS,
        "recording_cut",
        f"{name} is truncated: {sidecar} states more records.",
        n_missing,
        place=name,
        remedy="Copy the recording again.",
    )


def model_misfit(name: str, evidence: str) -> ReadWarning:
    """Return that a model or map is not that of the trace."""
    return ReadWarning(
        Severity.NOTICE,
        MISFIT,
        f"{name} does not match this trace: {evidence}. Its tensors are ignored.",
        place=name,
        remedy="Remove it from the session, or add the model that was run.",
    )


def imatrix_misfit(
    n_fitting: int,
    n_entries: int,
    unknown: Sequence[str] = (),
    unlike: Sequence[tuple[str, int, int]] = (),
) -> ReadWarning:
    """Return that an importance matrix is of another model.

    Parameters
    ----------
    unknown : names of entries without a tensor in the model.
    unlike : name, width in the matrix and width in the model of entries that have one
        of another width.
    """
    parts = [
        f"The importance matrix is of another model: {n_fitting:,} of {n_entries:,} "
        "entries have a tensor of their name and width."
    ]
    if unknown:
        name = _shortened(unknown[0])
        parts.append(f"The model lacks {len(unknown):,} of them, such as {name}.")
    if unlike:
        name, stated, width = unlike[0]
        parts.append(
            f"{len(unlike):,} have another width, such as {_shortened(name)}: "
            f"{stated:,} in the matrix, {width:,} in the model."
        )
    return ReadWarning(
        Severity.NOTICE,
        "imatrix_misfit",
        " ".join([*parts, "It is not used."]),
        remedy="Open it with the model that it was made of, or alone.",
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"


def routing_not_added(name: str, n_choices: int) -> ReadWarning:
    """Return that the choices of experts of a file were left out."""
    return ReadWarning(
        Severity.NOTICE,
        "routing_not_added",
        f"Expert routing of {name} ignored: the session has routing already.",
        n_choices,
        place=name,
        remedy="Open the file alone to see its routing.",
    )


# -- tensors of a model or map -------------------------------------------------


def trace_offsets_moved(
    name: str, delta: int, n_agree: int, n_offsets: int
) -> ReadWarning:
    """Return that offsets of the trace were counted from the begin of the model."""
    return ReadWarning(
        Severity.INFO,
        "trace_offsets_moved",
        f"Trace offsets shifted by {-delta:,} bytes to count from the begin "
        f"of {name}; {n_agree:,} of {n_offsets:,} offsets match.",
        place=name,
    )


def offsets_moved(
    name: str, delta: int, n_agree: int, n_offsets: int, *, has_accesses: bool
) -> ReadWarning:
    """Return that offsets of a model or map were moved to those of the trace."""
    source = "the trace" if has_accesses else "the other files"
    return ReadWarning(
        Severity.INFO,
        "offsets_moved",
        f"Offsets of {name} shifted by {delta:,} bytes; {n_agree:,} "
        f"of {n_offsets:,} match the offsets in {source}.",
        place=name,
    )


def nothing_to_map(name: str) -> ReadWarning:
    """Return that accesses have nothing by which tensors are known."""
    return ReadWarning(
        Severity.NOTICE,
        "nothing_to_map",
        f"Accesses cannot be mapped to the tensors of {name}: the trace has "
        "neither tensor names nor offsets.",
        place=name,
        remedy="Add a registry with addresses, or record with tensor names.",
    )


def delta_disagrees(name: str, delta: int, data_offset: int) -> ReadWarning:
    """Return that offsets were moved by another amount than the model file states."""
    return ReadWarning(
        Severity.NOTICE,
        "delta_disagrees",
        f"Offsets of {name} shifted by {delta:,} bytes, but the data "
        f"section of the model file begins at {data_offset:,}.",
        place=name,
        remedy="Check that the map belongs to this model file.",
    )


def offsets_disagree(name: str, n_accesses: int) -> ReadWarning:
    """Return that accesses lie outside of their tensors."""
    return ReadWarning(
        Severity.NOTICE,
        "offsets_disagree",
        f"Some accesses lie outside their tensor according to {name}.",
        n_accesses,
        place=name,
        remedy="Their offsets from the trace are used.",
    )


def tensors_missing_in_map(name: str, n_accesses: int) -> ReadWarning:
    """Return that accesses to the model file are of no tensor."""
    return ReadWarning(
        Severity.NOTICE,
        "tensors_missing_in_map",
        f"Accesses to the model file without a tensor in {name}.",
        n_accesses,
        place=name,
        remedy="Add the model file itself: its header lists every tensor.",
    )


def names_completed(name: str, n_names: int, n_guessed: int) -> ReadWarning:
    """Return that truncated names were completed."""
    text = f"Truncated names completed from {name}"
    if n_guessed:
        text += f"; {n_guessed:,} of them (marked ~) from their beginning only"
    code = "names_completed"
    return ReadWarning(Severity.INFO, code, f"{text}.", n_names, place=name)


def tensors_named(name: str, n_tensors: int) -> ReadWarning:
    """Return that tensors without a name got one."""
    text = f"Unnamed tensors of the trace named from {name}, by file offset."
    return ReadWarning(Severity.INFO, "tensors_named", text, n_tensors, place=name)


# -- nodes of a graph -----------------------------------------------------------


def unrecorded_text(join: MatchReport) -> str:
    """Return "134 of 425 ops of the graph have no record: MUL_MAT 134"; "" for none."""
    n = len(join.unrecorded_nodes)
    if not n:
        return ""
    parts = [f"{op} {format_count(k)}" for op, k in join.unrecorded.items()]
    listed = ", ".join(parts[:_MAX_OPS])
    listed += " …" if len(parts) > _MAX_OPS else ""
    return (
        f"{format_count(n)} of {format_count(join.n_nodes)} ops of the graph "
        f"{'has' if n == 1 else 'have'} no record in any pass: {listed}"
    )


def nodes_not_recorded(join: MatchReport, *, has_derived_times: bool) -> ReadWarning:
    """Return that nodes of a graph have no records."""
    time = ""
    if has_derived_times:
        time = ", and derived times of preceding ops include theirs"
    return ReadWarning(
        Severity.NOTICE,
        NODES_NOT_RECORDED,
        f"{unrecorded_text(join)}. They were not traced, lost, or came after the end "
        f"of the recording; what they read is unknown{time}.",
        len(join.unrecorded_nodes),
        place=join.part,
        remedy="Record with a tracer that hooks these ops too; ggml computes repacked "
        "weights outside of the usual hook.",
    )


# -- storage -------------------------------------------------------------------


def partition_ambiguous(device: Device, start: int, n_candidates: int) -> ReadWarning:
    """Return that a partition was chosen out of several."""
    return ReadWarning(
        Severity.NOTICE,
        "partition_ambiguous",
        f"Several partitions of {device.name} match the extent map; the one that "
        f"begins at sector {start:,} is used.",
        n_candidates,
        place=device.name,
        remedy="Choose one with --option partition=SECTOR.",
    )


def partition_start(device: Device, start: int) -> ReadWarning:
    """Return where the extent map counts from."""
    how = "as given" if device.is_stated else "derived from remapped requests"
    return ReadWarning(
        Severity.INFO,
        "partition_start",
        f"The extent map counts from sector {start:,} of {device.name}, {how}.",
        place=device.name,
    )


def partition_unknown(device: Device) -> ReadWarning:
    """Return that the sector where the extent map begins is unknown."""
    return ReadWarning(
        Severity.NOTICE,
        "partition_unknown",
        f"The start of the partition on {device.name} is unknown; the extent map is "
        "assumed to count from sector 0.",
        place=device.name,
        remedy="Set the start with --option partition=SECTOR.",
    )


def requests_outside_files(n_requests: int) -> ReadWarning:
    """Return that requests are of no file."""
    return ReadWarning(
        Severity.INFO,
        "requests_outside_files",
        "Device requests outside of the files that have an extent map.",
        n_requests,
    )


def requests_across_extents(n_requests: int) -> ReadWarning:
    """Return that requests go on behind an extent."""
    return ReadWarning(
        Severity.INFO,
        "requests_across_extents",
        "Requests that continue past the extent in which they begin; the rest "
        "counts as the same file.",
        n_requests,
    )
