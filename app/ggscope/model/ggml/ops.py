"""ggml's op numbers: every table there ever was, families, and which table fits.

``enum ggml_op`` has been renumbered 58 times on the main lines, and traces store
the bare number. `infer` finds the table from what the records themselves say.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from zlib import crc32

from ggscope import assets
from ggscope.model.ggml.rules import COMMON, expected_ops, fits_arity
from ggscope.model.trace import OpTable

FAMILIES = (
    "matmul",
    "attention",
    "norm",
    "elementwise",
    "move",
    "moe",
    "rope",
    "storage",
    "other",
)
"""What `family_of` may return, in the order of legends."""

TRACER_PRIVATE = OpTable(
    "tracer-private", ("", "MUL_MAT", "ADD", "ROPE"), source="format"
)
"""Op numbers of the 64- and 128-byte records of the first tensor tracer."""

UNCERTAIN_MARGIN = 3.0
"""Below this lead (natural log) another table is nearly as likely."""

MAX_MARGIN = 1e6
"""The margin where no table decodes the present codes differently."""

_FAMILY_TEXT = {
    "matmul": """MUL_MAT OUT_PROD CONV_* IM2COL* COL2IM_1D TE_* HMX_* FLASH_FF
        SOLVE_TRI""",
    "attention": """FLASH_ATTN* SOFT_MAX* DIAG_MASK_* VE_SOFTMAX* RWKV_* GATED_* SSM_*
        LIGHTNING_INDEXER""",
    "norm": "*NORM NORM *NORM_BACK VE_LAYERNORM* VE_RMSNORM* VE_*NORM*",
    "moe": "MUL_MAT_ID ADD_ID ARGSORT TOP_K",
    "rope": "ROPE* VE_ROPE* ALIBI",
    "move": """CPY DUP CONT VIEW RESHAPE PERMUTE TRANSPOSE GET_ROWS* SET_ROWS SET CONCAT
        REPEAT* PAD* ROLL DMA DMA_* FILL WIN_* UPSCALE ACC""",
    "storage": """READ PREFETCH WRITE DISCARD FLUSH MAP FAULT MAJOR_FAULT
        MINOR_FAULT""",
    "elementwise": """ADD ADD1 SUB MUL DIV SQR SQRT LOG SIN COS SUM SUM_ROWS CUMSUM MEAN
        ARGMAX COUNT_EQUAL SCALE CLAMP UNARY GLU LEAKY_RELU SILU* GELU* RELU ABS SGN NEG
        STEP TANH ELU TRI DIAG DIAG_MASK MAP_* ADD_REL_POS DSV4_* VE_*""",
}


@dataclass(frozen=True, slots=True)
class OpSample:
    """Records that agree in op number and names.

    Attributes
    ----------
    code : op number as stored.
    dst : name of the result, or the op's label; "" unknown.
    sources : names of the sources; () unknown.
    n_sources : how many sources there are (4 may mean more); None unknown.
    count : how many records agree.
    """

    code: int
    dst: str = ""
    sources: tuple[str, ...] = ()
    n_sources: int | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Era:
    """A table and the days of the first and the last header that had it."""

    table: OpTable
    since: str
    until: str


def tables(*, mainline: bool = True) -> tuple[OpTable, ...]:
    """Return the op tables, newest first; the main lines' 59 by default.

    ``mainline=False`` appends those of side branches. Read once, on first use.
    """
    main, side = _loaded()
    return main if mainline else main + side


def table(table_id: str) -> OpTable:
    """Return the table with this id, of a main line or a side branch.

    Raises
    ------
    KeyError
        If there is none.
    """
    for op_table in (*tables(mainline=False), TRACER_PRIVATE):
        if op_table.id == table_id:
            return op_table
    raise KeyError(table_id)


ERAS_HINT = (
    "Give an id such as ggml-2025-11-25-95 or a date such as 2025-11; "
    "ggscope readers --ops lists the tables."
)


def find_table(text: str) -> OpTable:
    """Return the table with this id, or the one of the main lines at this date.

    Parameters
    ----------
    text : an id, or ``2024``, ``2024-09`` or ``2024-09-20``: the newest table of that
        year, month or day, or of before.

    Raises
    ------
    KeyError
        If there is no such id, and no table that is so old.
    """
    if re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", text) is None:
        return table(text)
    for era in eras():
        if era.since[: len(text)] <= text:
            return era.table
    raise KeyError(text)


@cache
def eras() -> tuple[Era, ...]:
    """Return from when to when each table of the main lines was valid, newest first."""
    rows = json.loads(assets.path("ggml/op_tables.json").read_text("utf-8"))
    return tuple(
        Era(op_table, row["since"], row["until"])
        for row in rows
        if row["mainline"]
        for op_table in (table(row["id"]),)
    )


@cache
def mark_of(table_id: str) -> int:
    """Return the 32 bits, never 0, by which spare bytes of a file name an op table."""
    return crc32(f"op table {table_id}".encode()) or 1


@cache
def marked_tables() -> Mapping[int, OpTable]:
    """Return the tables by their marks, see `mark_of`."""
    return {mark_of(op_table.id): op_table for op_table in tables(mainline=False)}


@cache
def all_op_names() -> frozenset[str]:
    """Return the names of ops in all tables, as ggml spells them."""
    every = (TRACER_PRIVATE, *tables(mainline=False))
    return frozenset(name for one in every for name in one.names if name)


@lru_cache(maxsize=1024)
def family_of(op_name: str) -> str:
    """Return the family of an op, one of `FAMILIES`; "other" for unknown names.

    Knows the ops of ggml, the engine ops of NPU traces (``TE_GEMM``, ``DMA_LOAD`` …)
    and what storage is asked for (``READ``, ``MAJOR_FAULT``). The case of letters does
    not matter. Of fused ops (``RMS_NORM+MUL``) the first counts.
    """
    name = op_name.upper().partition("+")[0]
    for family, patterns in _FAMILY_TEXT.items():
        if any(_matches(pattern, name) for pattern in patterns.split()):
            return family
    return "other"


def infer(
    samples: Iterable[OpSample], *, candidates: Sequence[OpTable] | None = None
) -> OpTable:
    """Return the table under which the samples make most sense.

    Parameters
    ----------
    samples : any number, best distinct ones with their counts.
    candidates : tables to choose from, the preferred first; the main lines' by
        default, newest first.

    Returns
    -------
    A table with ``source="inferred"`` and ``margin`` = its lead in natural-log
    likelihood over the best table that names the present codes differently: 0.0
    without samples, `MAX_MARGIN` where all tables name them alike. Ties go to the
    earlier candidate.
    """
    choices = tables() if candidates is None else tuple(candidates)
    evidence = _evidence(samples)
    if not evidence:
        return replace(choices[0], source="inferred", margin=0.0)
    codes = sorted({code for code, _, _ in evidence})
    scores = [_score(choice, evidence) for choice in choices]
    best = scores.index(max(scores))
    decoded = [
        [choice.names[code] if code < len(choice.names) else "" for code in codes]
        for choice in choices
    ]
    rivals = [
        score
        for score, names in zip(scores, decoded, strict=True)
        if names != decoded[best]
    ]
    margin = min(scores[best] - max(rivals), MAX_MARGIN) if rivals else MAX_MARGIN
    return replace(choices[best], source="inferred", margin=round(margin, 3))


def likelihood(candidate: OpTable, samples: Iterable[OpSample]) -> float:
    """Return the natural log of how likely the samples are under a table, <= 0."""
    return _score(candidate, _evidence(samples))


_Evidence = dict[tuple[int, frozenset[str], int | None], float]


def _evidence(samples: Iterable[OpSample]) -> _Evidence:
    """Return the weight of each distinct (code, expected ops, arity).

    The root keeps ops that run in every layer from outvoting the few that decide
    two tables apart.
    """
    counts: Counter[tuple[int, frozenset[str], int | None]] = Counter()
    for s in samples:
        expected = expected_ops(s.dst, s.sources, s.n_sources)
        counts[s.code, expected, s.n_sources] += s.count
    return {key: math.sqrt(min(count, 50)) for key, count in counts.items()}


def _score(candidate: OpTable, evidence: _Evidence) -> float:
    """Return the log likelihood of the evidence under a table."""
    names = candidate.names
    total = 0.0
    for (code, expected, n_sources), weight in evidence.items():
        if code >= len(names):
            likelihood = 0.004
        elif expected:
            likelihood = 0.98 if names[code] in expected else 0.02
        elif n_sources is not None and not fits_arity(names[code], n_sources):
            likelihood = 0.05
        else:
            likelihood = 0.9 if names[code] in COMMON else 0.25
        total += weight * math.log(likelihood)
    return total


@cache
def _loaded() -> tuple[tuple[OpTable, ...], tuple[OpTable, ...]]:
    """Return the tables of the main lines and those of side branches."""
    rows = json.loads(assets.path("ggml/op_tables.json").read_text("utf-8"))
    parts: dict[bool, list[OpTable]] = {True: [], False: []}
    for row in rows:
        parts[row["mainline"]].append(OpTable(row["id"], tuple(row["ops"].split())))
    return tuple(parts[True]), tuple(parts[False])


@cache
def _matches(pattern: str, name: str) -> bool:
    """Return whether `name` fits `pattern`, where ``*`` stands for anything."""
    parts = pattern.split("*")
    if len(parts) == 1:
        return name == pattern
    return (
        name.startswith(parts[0])
        and name.endswith(parts[-1])
        and all(part in name for part in parts)
    )
