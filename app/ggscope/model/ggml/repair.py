"""Put op names right that were printed with an outdated table.

An exporter that knows an older ``enum ggml_op`` than the program it traced prints
wrong names: ``LOG`` for ``MUL``, ``UNKNOWN_94`` for ``GLU``. The numbers behind them
can be had back through the table that the exporter used, and what they mean is
inferred as for any trace that stores numbers.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ggscope import assets
from ggscope.model.ggml.ops import (
    TRACER_PRIVATE,
    OpSample,
    infer,
    likelihood,
    table,
    tables,
)
from ggscope.model.ggml.rules import expected_ops
from ggscope.model.trace import OpTable

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
    """What printed names really stand for.

    Attributes
    ----------
    names : true name of every printed name; ``UNKNOWN_<number>`` where the writer's
        table does not know the number either.
    printer : table that the names were printed with.
    writer : table of the program that was traced, inferred.
    before, after : share of the records whose names tell their op that agree.
    """

    names: Mapping[str, str]
    printer: OpTable
    writer: OpTable
    before: float
    after: float


def agreement(samples: Iterable[PrintedSample]) -> float | None:
    """Return the share of the records that tell their op and agree with its name.

    None where no record tells its op.
    """
    agreeing = speaking = 0
    for s in samples:
        expected = expected_ops(s.dst, s.sources, s.n_sources)
        if expected:
            speaking += s.count
            agreeing += s.count * (s.printed in expected)
    return agreeing / speaking if speaking else None


def unknown_number(printed: str) -> int | None:
    """Return the number in ``UNKNOWN_<number>``; None for a name."""
    found = _UNKNOWN.fullmatch(printed)
    return int(found[1]) if found else None


def needs_repair(samples: Sequence[PrintedSample]) -> bool:
    """Tell whether names contradict what the records tell, or are mere numbers."""
    share = agreement(samples)
    has_numbers = any(unknown_number(s.printed) is not None for s in samples)
    return has_numbers or (share is not None and share < NEARLY_ALL)


def repair(
    samples: Sequence[PrintedSample], *, writers: Sequence[OpTable] | None = None
) -> Repair | None:
    """Return what the printed names stand for; None where no table explains them.

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
    least = ENOUGH if before < ENOUGH else NEARLY_ALL
    best: tuple[float, float] = (before, float("-inf"))
    found: Repair | None = None
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
        if candidate.after >= least and rank > best:
            best, found = rank, candidate
    if found is None or all(name == true for name, true in found.names.items()):
        return None
    return found


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
    renamed = [replace(s, printed=names[s.printed]) for s in samples]
    return Repair(names, printer, writer, before, agreement(renamed) or 0.0)


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
    found = []
    for row in rows:
        names = table(row["base"]).names
        kept = tuple(name for name in names if name not in row["without"])
        found.append(OpTable(row["id"], kept))
    return tuple(found)
