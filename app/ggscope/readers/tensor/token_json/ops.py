"""Ops and patterns of a token trace, converted to binary records.

Op names get numbers, and are repaired if they were printed with an outdated table: an
exporter with an older ``enum ggml_op`` than the traced program prints ``LOG`` for
``MUL``, ``UNKNOWN_94`` for ``GLU``. The numbers are recovered through the exporter's
table; their meaning is inferred as for any trace that stores numbers.

Patterns become records with the fields of the binary ones, as wide as this file needs
them; the tables of a trace then come out the same whether it was read from records or
JSON.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope import assets
from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.ops import (
    ERAS_HINT,
    TRACER_PRIVATE,
    OpSample,
    find_table,
    infer,
    likelihood,
    table,
    tables,
)
from ggscope.model.ggml.rules import expected_ops
from ggscope.model.tables import I64, Array
from ggscope.model.trace import OpTable, Severity, unknown_op
from ggscope.model.units import format_share
from ggscope.readers.tensor.layouts import (
    LAYOUT_128,
    LAYOUT_256,
    LAYOUT_1024,
    NO_INDEX,
    NO_LAYER,
    NO_OFFSET,
    RecordLayout,
)
from ggscope.readers.tensor.token_json import AS_PRINTED
from ggscope.readers.tensor.token_json.entries import DISK, Access, Pattern

_MAX_OPS = 256
_LISTED = 6
_BY_VERSION = {"256-byte": LAYOUT_256, "1024-byte": LAYOUT_1024}


ENOUGH = 0.8
"""Share of the records that must agree with names for these to be believed."""

NEARLY_ALL = 0.98
"""Names that fewer records agree with are doubted: real files agree in all."""

_UNKNOWN = re.compile(r"UNKNOWN_(\d{1,3})")


@dataclass(frozen=True, slots=True)
class PrintedSample:
    """Records that agree in the printed op and in their names.

    Attributes
    ----------
    printed : name of the op as printed, or ``UNKNOWN_<number>``.
    dst, sources, n_sources, count : as in `OpSample`.
    """

    printed: str
    dst: str = ""
    sources: tuple[str, ...] = ()
    n_sources: int | None = None
    count: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Repair:
    """Mapping from printed op names to the right ones.

    Attributes
    ----------
    names : true name of every printed name; ``UNKNOWN_<number>`` where the writer's
        table does not know the number either.
    printer : table that the names were printed with.
    writer : table of the program that was traced, inferred.
    before, after : share of the records whose names show their op that agree.
    """

    names: Mapping[str, str]
    printer: OpTable
    writer: OpTable
    before: float
    after: float


def agreement(
    samples: Iterable[PrintedSample], names: Mapping[str, str] | None = None
) -> float | None:
    """Return the share of records whose fields imply an op and match its name.

    None where no record states its op. `names` says what printed names stand for;
    themselves by default.
    """
    agreeing = speaking = 0
    for s in samples:
        expected = expected_ops(s.dst, s.sources, s.n_sources)
        if expected:
            speaking += s.count
            name = s.printed if names is None else names[s.printed]
            agreeing += s.count * (name in expected)
    return agreeing / speaking if speaking else None


def unknown_number(printed: str) -> int | None:
    """Return the number in ``UNKNOWN_<number>``; None for a name."""
    match = _UNKNOWN.fullmatch(printed)
    return int(match[1]) if match else None


def needs_repair(samples: Sequence[PrintedSample]) -> bool:
    """Return whether op names contradict the records, or are only numbers."""
    share = agreement(samples)
    has_numbers = any(unknown_number(s.printed) is not None for s in samples)
    return has_numbers or (share is not None and share < NEARLY_ALL)


def repair(
    samples: Sequence[PrintedSample], *, writers: Sequence[OpTable] | None = None
) -> Repair | None:
    """Return the repaired names; None if no table explains them.

    Parameters
    ----------
    samples : best distinct ones with their counts.
    writers : tables that the traced program may have had; the main lines' by
        default.

    Notes
    -----
    Known exporters come first, then every table of the main lines. The winner is
    the one whose names agree best with the records, then the likelier one, then
    the earlier one. It must agree in `ENOUGH` records and in no fewer than before;
    names that agree fairly well give way only to such as agree in nearly all.
    """
    before = agreement(samples)
    if before is None:
        return None
    min_hits = ENOUGH if before < ENOUGH else NEARLY_ALL
    best: tuple[float, float] = (before, float("-inf"))
    repair: Repair | None = None
    seen: set[tuple[int, ...]] = set()
    printed = sorted({s.printed for s in samples})
    for printer in printers():
        codes = _codes(printed, printer)
        if codes is None or tuple(codes.values()) in seen:
            continue
        seen.add(tuple(codes.values()))
        candidate = _decoded(samples, codes, printer, writers, before)
        again = [_coded(s, codes) for s in samples]
        rank = (
            round(candidate.after, 4),
            round(likelihood(candidate.writer, again), 3),
        )
        if candidate.after >= min_hits and rank > best:
            best, repair = rank, candidate
    if repair is None or all(name == true for name, true in repair.names.items()):
        return None
    return repair


def printers() -> tuple[OpTable, ...]:
    """Return the tables that names may have been printed with, the likelier first."""
    return (*_known_printers(), TRACER_PRIVATE, *tables())


def _decoded(
    samples: Sequence[PrintedSample],
    codes: Mapping[str, int],
    printer: OpTable,
    writers: Sequence[OpTable] | None,
    before: float,
) -> Repair:
    writer = infer((_coded(s, codes) for s in samples), candidates=writers)
    names = {printed: _name(writer, code) for printed, code in codes.items()}
    return Repair(names, printer, writer, before, agreement(samples, names) or 0.0)


def _name(writer: OpTable, code: int) -> str:
    known = code < len(writer.names) and writer.names[code]
    return writer.names[code] if known else f"UNKNOWN_{code}"


def _coded(sample: PrintedSample, codes: Mapping[str, int]) -> OpSample:
    return OpSample(
        codes[sample.printed],
        sample.dst,
        sample.sources,
        sample.n_sources,
        sample.count,
    )


def _codes(printed: Iterable[str], printer: OpTable) -> dict[str, int] | None:
    """Return the number behind each printed name; None where it cannot be."""
    numbers = {name: code for code, name in enumerate(printer.names) if name}
    codes: dict[str, int] = {}
    for name in printed:
        code = unknown_number(name)
        if code is None:
            code = numbers.get(name)
        elif code < len(printer.names) and printer.names[code]:
            code = None
        if code is None:
            return None
        codes[name] = code
    return codes


@cache
def _known_printers() -> tuple[OpTable, ...]:
    rows = json.loads(assets.path("ggml/reader_tables.json").read_text("utf-8"))
    printers = []
    for row in rows:
        names = table(row["base"]).names
        printed = tuple(name for name in names if name not in row["without"])
        printers.append(OpTable(row["id"], printed))
    return tuple(printers)


@dataclass(frozen=True, slots=True, eq=False)
class PrintedOps:
    """The op table of a file, and its repaired names.

    Attributes
    ----------
    table : names for the numbers.
    of_pattern : number of each pattern's op.
    repair : how the printed names were put right; None where they stand.
    before : share of the records whose names show their op that agree with the
        names as printed; None where no record states it.
    is_doubtful : the names are wrong, and nothing explains them.
    """

    table: OpTable
    of_pattern: list[int]
    repair: Repair | None
    before: float | None
    is_doubtful: bool


def find_ops(
    patterns: Sequence[Pattern], counts: I64, choice: str, *, is_private: bool
) -> PrintedOps:
    """Return the ops of the patterns, repaired where they were printed wrong.

    Parameters
    ----------
    counts : entries of each pattern.
    choice : option ``ops``: "" to find out, `AS_PRINTED`, or the id of the table of
        the program that was traced.
    is_private : the file has the 128-byte schema, whose writer numbered ops in a
        way of its own.

    Raises
    ------
    ReadError
        If there is no table `choice`.
    """
    samples = _samples(patterns, counts)
    chosen = _chosen(choice)
    usual = (TRACER_PRIVATE,) if is_private else None
    writers = usual if chosen is None else (chosen,)
    before, fixed = agreement(samples), None
    is_wrong = choice != AS_PRINTED and needs_repair(samples)
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
    """Add warnings for repaired and unrepairable op names."""
    if ops.repair is not None:
        _note_repair(builder, ops.repair)
    elif ops.is_doubtful and ops.before is not None and ops.before < ENOUGH:
        builder.warn(
            Severity.NOTICE,
            "op_names_doubtful",
            "op names do not match tensor names: only "
            f"{format_share(ops.before)} of the comparable entries agree, with "
            "no op table that explains it. Names are shown as printed.",
            remedy="Select the traced program's table with the option ops=<id>.",
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
        f"put right: {shown}{more}. {format_share(fixed.before)} of the entries "
        f"whose names imply an op agreed with it; {format_share(fixed.after)} agree "
        f"with the table of the traced program, {fixed.writer.id} (inferred, margin "
        f"{margin}).",
        count=len(changed),
        remedy=f"See the names as printed with the option ops={AS_PRINTED}.",
    )


def _chosen(choice: str) -> OpTable | None:
    if choice in ("", "auto", AS_PRINTED):
        return None
    try:
        return find_table(choice)
    except KeyError:
        raise ReadError(
            f"unknown op table {choice!r}.",
            hint=f"{ERAS_HINT} {AS_PRINTED} uses the names as printed.",
        ) from None


def _samples(patterns: Sequence[Pattern], counts: I64) -> list[PrintedSample]:
    samples: Counter[tuple[str, str, tuple[str, ...], int | None]] = Counter()
    for p, n in zip(patterns, counts.tolist(), strict=True):
        sources = tuple(a.name for a in p.accesses)
        name, n_sources = (p.name, len(sources)) if p.has_result else ("", None)
        samples[p.op, name, sources, n_sources] += n
    return [
        PrintedSample(op, name, sources, n_sources, n)
        for (op, name, sources, n_sources), n in samples.items()
    ]


def _newest_with(names: Iterable[str]) -> OpTable:
    """Return the newest table that has all names, or that has the most of them."""
    known = {name for name in names if unknown_number(name) is None}
    # The first of equals is the newest.
    newest = max(tables(), key=lambda t: len(known.intersection(t.names)))
    return replace(newest, source="spelled")


def _numbered(names: Iterable[str], base: OpTable) -> tuple[OpTable, Mapping[str, int]]:
    """Return the table with whatever `base` lacks, and the number of each name.

    A number without a name keeps its number where that is free, so that it can be
    known by another table one day.
    """
    slots = list(base.names)
    ordered = sorted(set(names))
    numbers = {name: slots.index(name) for name in ordered if name in slots}
    taken = set(numbers.values())
    for name in (name for name in ordered if name not in numbers):
        code = unknown_number(name)
        if code is not None and code < _MAX_OPS and code not in taken:
            slots += [""] * (code + 1 - len(slots))
            slots[code] = ""
        else:
            code = _free_slot(slots, taken)
            slots[code] = (
                name if unknown_number(name) is None else unknown_op(int(name[8:]))
            )
        taken.add(code)
        numbers[name] = code
    return replace(base, names=tuple(slots)), numbers


def _free_slot(slots: list[str], taken: set[int]) -> int:
    """Return a number for a name that no table has, behind all others if it can be."""
    if len(slots) < _MAX_OPS:
        slots.append("")
        return len(slots) - 1
    free = np.setdiff1d(np.arange(_MAX_OPS), sorted(taken))
    return int(free[-1]) if len(free) else _MAX_OPS - 1


def schema_of(patterns: Sequence[Pattern], version: str) -> RecordLayout:
    """Return the binary layout that the entries were exported from.

    Parameters
    ----------
    version : what the file says, "" where it says nothing; where that is unknown
        it follows from the entries.
    """
    if version in _BY_VERSION:
        return _BY_VERSION[version]
    has_results = any(p.has_result for p in patterns)
    if not has_results and patterns:
        return LAYOUT_128
    if not version.startswith("128") and any(p.lists_experts for p in patterns):
        return LAYOUT_1024
    return LAYOUT_256


def as_records(
    patterns: Sequence[Pattern], ops: Sequence[int], schema: RecordLayout
) -> tuple[RecordLayout, Array]:
    """Return the patterns as records of a layout of their own.

    Parameters
    ----------
    ops : number of each pattern's op.
    schema : gives the widths of names; longer names make them wider.
    """
    if schema.source is None and not any(p.has_result for p in patterns):
        return _single_records(patterns, ops, schema)
    patterns = [p if p.has_result else _one_source(p) for p in patterns]
    result_width = _width((p.name for p in patterns), schema.dst_width or 24)
    names = (a.name for p in patterns for a in p.accesses)
    source_width = _width(names, schema.source_width or 20)
    n_slots = max((len(p.accesses) for p in patterns), default=0) or 1
    counts = np.array([len(p.accesses) for p in patterns], np.int64)
    flat = [a for p in patterns for a in p.accesses]
    at = np.repeat(np.arange(len(patterns)), counts)
    slot = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
    sources = _records(
        name=(f"S{source_width}", [_raw(a.name) for a in flat]),
        tensor_ptr=("<u8", [a.pointer for a in flat]),
        size_bytes=("<i8", [a.size for a in flat]),
        layer_id=("<u2", [_layer(a.layer) for a in flat]),
        memory_source=("u1", [a.space for a in flat]),
        disk_offset_or_buffer_id=("<u8", [_where(a) for a in flat]),
        tensor_idx=("<i8", [_index(a.index) for a in flat]),
    )
    slots = np.zeros((len(patterns), n_slots), sources.dtype)
    slots[at, slot] = sources
    records = _records(
        layer_id=("<u2", [_layer(p.layer) for p in patterns]),
        operation_type=("u1", ops),
        # What the entries claim is not stated here: some of it may have been left out.
        num_sources=("<i2", counts),
        num_experts=("u1", [p.lists_experts for p in patterns]),
        dst_name=(f"S{result_width}", [_raw(p.name) for p in patterns]),
        sources=((sources.dtype, (n_slots,)), slots),
    )
    return _made(schema, records.dtype, sources.dtype, result_width), records


def _single_records(
    patterns: Sequence[Pattern], ops: Sequence[int], schema: RecordLayout
) -> tuple[RecordLayout, Array]:
    accesses = [p.accesses[0] for p in patterns]
    width = _width((a.name for a in accesses), schema.dst_width)
    records = _records(
        layer_id=("<u2", [_layer(a.layer) for a in accesses]),
        operation_type=("u1", ops),
        tensor_idx=("<i8", [_index(a.index) for a in accesses]),
        tensor_ptr=("<u8", [a.pointer for a in accesses]),
        file_offset=("<u8", [a.where or 0 for a in accesses]),
        size_bytes=("<i8", [a.size for a in accesses]),
        tensor_name=(f"S{width}", [_raw(a.name) for a in accesses]),
    )
    return _made(schema, records.dtype, None, width), records


def _records(
    **columns: tuple[npt.DTypeLike, Array | Sequence[int] | Sequence[bytes]],
) -> Array:
    """Return a structured array of these fields: their dtypes and their values."""
    dtype = np.dtype([(name, kind) for name, (kind, _) in columns.items()])
    records = np.zeros(len(next(iter(columns.values()))[1]), dtype)
    for name, (_, values) in columns.items():
        records[name] = values
    return records


def _made(
    schema: RecordLayout,
    dtype: np.dtype[Any],
    source: np.dtype[Any] | None,
    dst_width: int,
) -> RecordLayout:
    return RecordLayout(
        id=schema.id,
        title=f"token trace JSON, {schema.id}-byte schema",
        dtype=dtype,
        source=source,
        dst_width=dst_width,
        key=np.zeros(0, np.bool_),
        has_ggml_ops=schema.has_ggml_ops,
    )


def _where(access: Access) -> int:
    if access.where is not None:
        return access.where
    return NO_OFFSET if access.space == DISK else 0


def _one_source(pattern: Pattern) -> Pattern:
    """Return an entry of one access as an op without a name that reads it."""
    return Pattern(
        op=pattern.op,
        name="",
        layer=pattern.layer,
        n_sources=1,
        accesses=pattern.accesses,
        has_result=True,
        lists_experts=False,
    )


def _width(names: Iterable[str], usual: int) -> int:
    """Return the usual width of a name's field, or a wider one for a longer name."""
    longest = max((len(_raw(name)) for name in names), default=0)
    return usual if longest <= usual else longest + 2


def _raw(name: str) -> bytes:
    # A NUL would end the name: records end theirs so.
    return name.encode("utf-8", "replace").replace(b"\0", b"\xef\xbf\xbd")


def _layer(layer: int) -> int:
    return NO_LAYER if layer < 0 else layer


def _index(index: int) -> int:
    return NO_INDEX if index < 0 else index
