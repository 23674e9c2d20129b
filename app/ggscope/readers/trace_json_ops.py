"""Numbers for the op names of a token trace, and names that were printed wrong."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml import TRACER_PRIVATE, table, tables
from ggscope.model.ggml_repair import (
    ENOUGH,
    PrintedSample,
    Repair,
    agreement,
    needs_repair,
    repair,
    unknown_number,
)
from ggscope.model.tables import I64
from ggscope.model.trace import OpTable, Severity
from ggscope.readers.trace_json_entries import Pattern

AS_PRINTED = "as-printed"
"""Value of the option ``ops`` that takes every name as it stands."""

_MOST_OPS = 256
_LISTED = 6


@dataclass(frozen=True, slots=True, eq=False)
class PrintedOps:
    """What the ops of a file are.

    Attributes
    ----------
    table : names for the numbers.
    of_pattern : number of each pattern's op.
    repair : how the printed names were put right; None where they stand.
    before : share of the records whose names tell their op that agree with the
        names as printed; None where no record tells it.
    is_doubtful : the names are wrong, and nothing explains them.
    """

    table: OpTable
    of_pattern: list[int]
    repair: Repair | None
    before: float | None
    is_doubtful: bool


def find_ops(
    patterns: Sequence[Pattern], counts: I64, wanted: str, *, is_private: bool
) -> PrintedOps:
    """Return the ops of the patterns, repaired where they were printed wrong.

    Parameters
    ----------
    counts : entries of each pattern.
    wanted : option ``ops``: "" to find out, `AS_PRINTED`, or the id of the table of
        the program that was traced.
    is_private : the file has the 128-byte schema, whose writer numbered ops in a
        way of its own.

    Raises
    ------
    ReadError
        If there is no table `wanted`.
    """
    samples = _samples(patterns, counts)
    chosen = _chosen(wanted)
    usual = (TRACER_PRIVATE,) if is_private else None
    writers = usual if chosen is None else (chosen,)
    before, fixed = agreement(samples), None
    is_wrong = wanted != AS_PRINTED and needs_repair(samples)
    if is_wrong:
        fixed = repair(samples, writers=writers)
    names = [p.op if fixed is None else fixed.names[p.op] for p in patterns]
    if fixed is not None:
        base = fixed.writer
    elif chosen is not None:
        base = chosen
    elif is_private and set(names) <= set(TRACER_PRIVATE.names):
        base = replace(TRACER_PRIVATE, source="spelled")
    else:
        base = _newest_with(names)
    numbered, numbers = _numbered(names, base)
    return PrintedOps(
        table=replace(numbered, source="override") if chosen else numbered,
        of_pattern=[numbers[name] for name in names],
        repair=fixed,
        before=before,
        is_doubtful=is_wrong and fixed is None,
    )


def note_ops(builder: TraceBuilder, ops: PrintedOps) -> None:
    """Note names that were put right, or should have been."""
    if ops.repair is not None:
        _note_repair(builder, ops.repair)
    elif ops.is_doubtful and ops.before is not None and ops.before < ENOUGH:
        builder.warn(
            Severity.NOTICE,
            "op_names_doubtful",
            f"op names contradict the names of tensors: {ops.before:.1%} of the "
            "entries that tell their op agree. No op table explains it; the names "
            "are shown as printed.",
            remedy="Name the traced program's table with the option ops=<id>.",
        )


def _note_repair(builder: TraceBuilder, fixed: Repair) -> None:
    changed = [(a, b) for a, b in fixed.names.items() if a != b]
    shown = ", ".join(f"{a} is {b}" for a, b in changed[:_LISTED])
    more = f" and {len(changed) - _LISTED} more" if len(changed) > _LISTED else ""
    margin = fixed.writer.margin
    builder.warn(
        Severity.NOTICE,
        "ops_repaired",
        f"op names were printed with an outdated table ({fixed.printer.id}) and are "
        f"put right: {shown}{more}. {fixed.before:.1%} of the entries that tell their "
        f"op agreed with it; {fixed.after:.1%} agree with the table of the traced "
        f"program, {fixed.writer.id} (inferred, margin {margin}).",
        count=len(changed),
        remedy=f"See the names as printed with the option ops={AS_PRINTED}.",
    )


def _chosen(wanted: str) -> OpTable | None:
    if wanted in ("", "auto", AS_PRINTED):
        return None
    try:
        return table(wanted)
    except KeyError:
        raise ReadError(
            f"there is no op table {wanted!r}.",
            hint=f"Ids look like ggml-2025-11-25-95; {AS_PRINTED} takes the names as "
            "they stand.",
        ) from None


def _samples(patterns: Sequence[Pattern], counts: I64) -> list[PrintedSample]:
    found: Counter[tuple[str, str, tuple[str, ...], int | None]] = Counter()
    for p, n in zip(patterns, counts.tolist(), strict=True):
        sources = tuple(a.name for a in p.accesses)
        name, n_sources = (p.name, len(sources)) if p.has_result else ("", None)
        found[p.op, name, sources, n_sources] += n
    return [
        PrintedSample(op, name, sources, n_sources, n)
        for (op, name, sources, n_sources), n in found.items()
    ]


def _newest_with(names: Iterable[str]) -> OpTable:
    """Return the newest table that has all names, or that has the most of them."""
    wanted = {name for name in names if unknown_number(name) is None}
    # The first of equals is the newest.
    found = max(tables(), key=lambda t: len(wanted.intersection(t.names)))
    return replace(found, source="spelled")


def _numbered(names: Iterable[str], base: OpTable) -> tuple[OpTable, Mapping[str, int]]:
    """Return the table with whatever `base` lacks, and the number of each name.

    A number without a name keeps its number where that is free, so that it can be
    told by another table one day.
    """
    slots = list(base.names)
    wanted = sorted(set(names))
    numbers = {name: slots.index(name) for name in wanted if name in slots}
    taken = set(numbers.values())
    for name in (name for name in wanted if name not in numbers):
        code = unknown_number(name)
        if code is not None and code < _MOST_OPS and code not in taken:
            slots += [""] * (code + 1 - len(slots))
            slots[code] = ""
        else:
            code = _free_slot(slots, taken)
            slots[code] = name if unknown_number(name) is None else f"op#{name[8:]}"
        taken.add(code)
        numbers[name] = code
    return replace(base, names=tuple(slots)), numbers


def _free_slot(slots: list[str], taken: set[int]) -> int:
    """Return a number for a name that no table has, behind all others if it can be."""
    if len(slots) < _MOST_OPS:
        slots.append("")
        return len(slots) - 1
    free = np.setdiff1d(np.arange(_MOST_OPS), sorted(taken))
    return int(free[-1]) if len(free) else _MOST_OPS - 1
