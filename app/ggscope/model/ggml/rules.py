"""What a record's names and arity say about its op, without knowing its number.

llama.cpp names graph nodes after their role (``Qcur-5``, ``ffn_moe_topk-3``) and
weights after their file entry (``blk.5.attn_q.weight``). Together they determine the op
of most records, which is what the op table is inferred from.

What ggml ops do with their sources: which they read, which they write, how much.

Traces list the sources of an op as if all were read. By the op's definition some are
not: ``ggml_set_rows`` keeps its destination as source 2, ``ggml_cpy`` as source 1, and
a view touches nothing. These rules are here and nowhere else;
``analysis.reads.op_io`` applies them.
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

from ggscope.model.names import split_suffixes

NOTHING: frozenset[str] = frozenset()
# Names are cut at 19 or 23 characters, so ".weight" may end as ".w".
_WEIGHT = re.compile(r"\.w(?:e(?:i(?:g(?:ht?)?)?)?)?$")
_BIAS = re.compile(r"\.b(?:i(?:as?)?)?$")
_MATRIX = re.compile(r"(?:attn_(?:q|k|v|qkv|output)|ffn_(?:up|gate|down))\.w")
_NORM_WEIGHT = re.compile(r"norm[^.]*\.w")
_STEM_TAIL = re.compile(r"-\d+$")
_RELABEL = {
    "view": "VIEW",
    "reshaped": "RESHAPE",
    "permuted": "PERMUTE",
    "transposed": "TRANSPOSE",
    "cont": "CONT",
    "copy": "CPY",
}
_ONE_OP = {
    "kq": (2, "MUL_MAT"),
    "kqv": (2, "MUL_MAT"),
    "inp_embd": (2, "GET_ROWS"),
    "ffn_moe_argsort": (1, "ARGSORT"),
    "ffn_moe_weights": (2, "GET_ROWS"),
    "ffn_moe_logits": (2, "MUL_MAT"),
    "ffn_inp": (2, "ADD"),
    "l_out": (2, "ADD"),
    "ffn_moe_up": (3, "MUL_MAT_ID"),
    "ffn_moe_gate": (3, "MUL_MAT_ID"),
    "ffn_moe_down": (3, "MUL_MAT_ID"),
}
_SEVERAL_OPS = {
    "norm": (1, ("RMS_NORM", "NORM")),
    "ffn_moe_probs": (1, ("SOFT_MAX", "UNARY")),
    "ffn_moe_topk": (1, ("VIEW", "TOP_K", "ARGSORT")),
    "ffn_silu": (1, ("UNARY", "SILU")),
    "ffn_gelu": (1, ("UNARY", "GELU")),
    "ffn_moe_silu": (1, ("UNARY", "SILU")),
    "ffn_moe_gelu": (1, ("UNARY", "GELU")),
}
_WITH_WEIGHT = (
    "ffn_up",
    "ffn_gate",
    "ffn_down",
    "ffn_out",
    "result_output",
    "attn_out",
    "Qcur",
    "Kcur",
    "Vcur",
)
_ARITY_TEXT = {
    (0,): "NONE ARANGE",
    (1,): """DUP SQR SQRT LOG SIN COS SUM SUM_ROWS CUMSUM MEAN ARGMAX NORM RMS_NORM
        GROUP_NORM L2_NORM SCALE CONT VIEW PERMUTE TRANSPOSE DIAG DIAG_MASK_INF
        DIAG_MASK_ZERO CLAMP POOL_1D POOL_2D UPSCALE PAD PAD_REFLECT_1D ROLL
        TIMESTEP_EMBEDDING ARGSORT TOP_K LEAKY_RELU TRI FILL WIN_PART WIN_UNPART
        GET_REL_POS UNARY MAP_UNARY MAP_CUSTOM1 MAP_CUSTOM1_F32 COL2IM_1D ALIBI ABS
        SGN NEG STEP TANH ELU RELU GELU GELU_QUICK SILU REPEAT_BACK""",
    (1, 2): "RESHAPE REPEAT CPY GLU",
    (2,): """ADD ADD1 ACC SUB MUL DIV COUNT_EQUAL CONCAT SILU_BACK RMS_NORM_BACK
        MUL_MAT OUT_PROD SET GET_ROWS SOFT_MAX_BACK CONV_TRANSPOSE_1D IM2COL IM2COL_3D
        CONV_2D CONV_3D CONV_2D_DW CONV_TRANSPOSE_2D POOL_2D_BACK SOLVE_TRI MAP_BINARY
        MAP_CUSTOM2 MAP_CUSTOM2_F32 CROSS_ENTROPY_LOSS CONV_1D CONV_1D_STAGE_0
        CONV_1D_STAGE_1 CONV_2D_STAGE_0 CONV_2D_STAGE_1 CONV_1D_S1_PH CONV_1D_S2_PH
        CONV_2D_SK_P0 CONV_1D_1S CONV_1D_2S DSV4_HC_PRE""",
    (2, 3): "GET_ROWS_BACK SET_ROWS ROPE ROPE_BACK IM2COL_BACK",
    (1, 2, 3): "SOFT_MAX",
    (3,): """ADD_ID MUL_MAT_ID ADD_REL_POS CROSS_ENTROPY_LOSS_BACK OPT_STEP_SGD
        MAP_CUSTOM3 MAP_CUSTOM3_F32 DSV4_HC_COMB""",
    (2, 3, 4): "SSM_CONV",
    (3, 4): "FLASH_ATTN_EXT FLASH_ATTN LIGHTNING_INDEXER",
    (4,): """FLASH_ATTN_BACK SSM_SCAN RWKV_WKV RWKV_WKV6 RWKV_WKV7 GATED_LINEAR_ATTN
        GATED_DELTA_NET OPT_STEP_ADAMW FLASH_FF DSV4_HC_POST""",
}
ARITY: dict[str, frozenset[int]] = {
    op: frozenset(arity) for arity, text in _ARITY_TEXT.items() for op in text.split()
}
"""Numbers of sources that an op takes, as recorded (never more than 4)."""
MAX_SOURCES = 4
"""Sources that a record has room for; writers leave out the others."""
OPS_OF_MORE_SOURCES = frozenset(
    [
        "FLASH_ATTN_EXT",
        "SSM_SCAN",
        "RWKV_WKV6",
        "RWKV_WKV7",
        "GATED_DELTA_NET",
        "OPT_STEP_ADAMW",
    ]
)
"""Ops that may take more than `MAX_SOURCES`."""
_COMMON_TEXT = """
    ADD ADD_ID MUL MUL_MAT MUL_MAT_ID GET_ROWS SET_ROWS RMS_NORM NORM ROPE SOFT_MAX
    FLASH_ATTN_EXT GLU UNARY CPY CONT VIEW RESHAPE PERMUTE TRANSPOSE SCALE ARGSORT
    TOP_K SUM_ROWS DIV SUB SQR CLAMP CONCAT REPEAT DIAG_MASK_INF L2_NORM SILU
    GELU RELU"""
COMMON = frozenset(_COMMON_TEXT.split())
"""Ops that transformer graphs commonly hold; all others are rare there."""
VIEW_OPS = frozenset({"NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"})
"""Ops that only describe memory: nothing is read or written."""
ROW_OPS = frozenset({"GET_ROWS"})
"""Ops that read some rows of source 0: those that source 1 names."""
CHOOSING_OPS = frozenset({"MUL_MAT_ID", "ADD_ID"})
"""Ops that read of a stack of experts those that their last source names."""
MASKING_OPS = frozenset({"FLASH_ATTN_EXT", "FLASH_ATTN"})
"""Ops that skip rows of sources 1 and 2 (K and V) where source 3 masks them."""
MASK_SLOT = 3
INDEX_BYTES = 4
"""``ggml_get_rows`` and ``ggml_mul_mat_id`` take 32-bit indices."""
_DESTINATION = {"SET_ROWS": 2, "CPY": 1, "DUP": 1, "CONT": 1, "SET": 0, "ACC": 0}


@lru_cache(maxsize=1 << 14)
def expected_ops(
    dst: str, sources: tuple[str, ...] = (), n_sources: int | None = None
) -> frozenset[str]:
    """Return the ops that fit these names; empty where they say nothing.

    Parameters
    ----------
    dst : name of the result, with its suffixes, perhaps cut; or an op's label.
    sources : names of the sources as far as known.
    n_sources : how many there are; None where that is not known.
    """
    base, suffixes, _ = split_suffixes(dst)
    stem = _STEM_TAIL.sub("", base)
    if base.startswith("cache_") and n_sources != 1:
        return _cache_ops(n_sources, bool(suffixes))
    if suffixes:
        return _relabel_ops(suffixes[-1], n_sources)
    bases = [split_suffixes(name)[0] for name in sources]
    return _ops_by_sources(stem, bases, n_sources) or _ops_by_stem(stem, n_sources)


def fits_arity(op: str, n_sources: int) -> bool:
    """Return whether `op` takes `n_sources` sources; True for ops of unknown arity."""
    return n_sources in ARITY.get(op, (n_sources,))


def _cache_ops(n: int | None, is_view: bool) -> frozenset[str]:
    if n == 3:
        return frozenset(("SET_ROWS",))
    if n == 2 or (n is None and is_view):
        return frozenset(("SET_ROWS", "CPY", *(("VIEW",) if n is None else ())))
    return NOTHING


def _relabel_ops(word: str, n: int | None) -> frozenset[str]:
    op = _RELABEL.get(word)
    if op is None or n not in (None, 1, 2) or (n == 2 and op != "CPY"):
        return NOTHING
    return frozenset((op,))


def _ops_by_sources(stem: str, sources: Sequence[str], n: int | None) -> frozenset[str]:
    """Return what weights and positions among the sources say."""
    is_pair = n in (None, 2)
    if n in (None, 3) and any("_exps" in name for name in sources):
        has_bias = "biased" in stem or any(_BIAS.search(name) for name in sources)
        return frozenset(("ADD_ID",) if has_bias else ("MUL_MAT_ID",))
    if is_pair and any(_BIAS.search(name) for name in sources):
        return frozenset(("ADD",))
    if is_pair and "norm" in stem and any(map(_NORM_WEIGHT.search, sources)):
        return frozenset(("MUL",))
    has_matrix = any(
        _MATRIX.search(name) or (stem in _WITH_WEIGHT and _WEIGHT.search(name))
        for name in sources
    )
    if is_pair and has_matrix:
        return frozenset(("MUL_MAT",))
    if (
        stem in ("Qcur", "Kcur", "Vcur")
        and n in (None, 2, 3)
        and any(name.startswith("leaf_") or "pos" in name for name in sources)
    ):
        return frozenset(("ROPE",))
    return NOTHING


def _ops_by_stem(stem: str, n: int | None) -> frozenset[str]:
    """Return what the name of the result says by itself."""
    if stem == "__fattn__":
        return frozenset(("FLASH_ATTN_EXT",)) if n in (None, 3, 4) else NOTHING
    if stem.endswith("_biased"):
        return frozenset(("ADD_ID",)) if n in (None, 3) else NOTHING
    if stem.startswith("kq_soft_max"):
        return frozenset(("SOFT_MAX",))
    if stem.endswith(("swiglu", "geglu")):
        return frozenset(("GLU",)) if n in (None, 1, 2) else NOTHING
    if "matmul" in stem.lower() or "mul_mat" in stem.lower():
        return frozenset(("MUL_MAT",)) if n in (None, 2) else NOTHING
    arity, op = _ONE_OP.get(stem, (0, ""))
    if op and n in (None, arity):
        return frozenset((op,))
    arity, ops = _SEVERAL_OPS.get(stem, (0, ()))
    return frozenset(ops) if ops and n in (None, arity) else NOTHING


class Operand(IntEnum):
    """What an op does with one of its sources."""

    READ = 0
    """Reads all of it."""
    ROWS = 1
    """Reads the rows that another source names."""
    EXPERTS = 2
    """Reads, where it is a stack of experts, those that another source names; else
    all of it."""
    WRITTEN = 3
    """Writes all of it."""
    PARTLY_WRITTEN = 4
    """Writes some of it; how much is not to be seen from its size."""
    ROWS_WRITTEN = 7
    """Writes some rows of it, those of source 0, in its own type."""
    UNTOUCHED = 5
    """Neither reads nor writes it."""
    MASKED = 6
    """Reads the rows that a mask leaves: of views of the KV cache, which are padded,
    those of positions in use. Without a mask all of it."""


_WRITES = {
    "SET_ROWS": Operand.ROWS_WRITTEN,
    "SET": Operand.PARTLY_WRITTEN,
    "ACC": Operand.PARTLY_WRITTEN,
}


@lru_cache(maxsize=4096)
def operand(op: str, slot: int) -> Operand:
    """Return what op `op` does with source number `slot`, counted from 0.

    Ops that are not known read all of their sources.
    """
    if op in VIEW_OPS:
        return Operand.UNTOUCHED
    if _DESTINATION.get(op) == slot:
        return _WRITES.get(op, Operand.WRITTEN)
    if op in MASKING_OPS and slot in (1, 2):
        return Operand.MASKED
    if op in ROW_OPS and slot == 0:
        return Operand.ROWS
    if op in CHOOSING_OPS:
        return Operand.EXPERTS
    return Operand.READ
