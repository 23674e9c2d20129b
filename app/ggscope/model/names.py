"""What a tensor's name tells: its base, layer, expert, head and role.

ggml builds names by appending: ``Qcur-5 (view) (permuted)``. Trace writers cut them
at a fixed width, so the last suffix may be incomplete: ``Qcur-5 (view) (perm``.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

SUFFIXES = ("copy", "view", "permuted", "transposed", "reshaped", "cont")
"""Words that ggml appends in parentheses for an op that only re-labels data."""

_SUFFIX = re.compile(r" ?\((\w*)(?: of [^()]*)?(\)?) *$")
_LAYER_PATH = re.compile(r"(?:^|\.)(?:blk|blocks?|layers?)\.(\d{1,4})\.")
_LAYER_TAIL = re.compile(r"(?:-|_l)(\d{1,4})$")
_EXPERT = re.compile(
    r"\[(\d{1,5})\]|(?:^|[._])experts?[_.](\d{1,5})(?![\d])"
    r"|ffn_(?:gate|up|down)\.(\d{1,5})\."
)
_HEAD = re.compile(r"(?:^|[._-])head[_.-]?(\d{1,5})(?!\d)")
_ROLES = (
    ("QKV", re.compile(r"qkv|wqkv")),
    ("O", re.compile(r"attn_out|kqv_out|(?:^|[._])(?:wo|o_proj|out_proj)(?:[._-]|$)")),
    ("Q", re.compile(r"Qcur|attn_q|(?:^|[._])(?:wq|q|q_proj)(?:[._-]|$)")),
    ("K", re.compile(r"Kcur|attn_k|cache_k|(?:^|[._])(?:wk|k|k_proj)(?:[._-]|$)")),
    ("V", re.compile(r"Vcur|attn_v|cache_v|(?:^|[._])(?:wv|v|v_proj)(?:[._-]|$)")),
)
_COMPONENTS = (
    ("cache", re.compile(r"cache_[kvrs](?:_|$)")),
    (
        "router",
        re.compile(
            r"ffn_gate_inp|ffn_moe_(?:logits|probs|topk|argsort|weights)|router"
        ),
    ),
    ("norm", re.compile(r"norm")),
    ("experts", re.compile(r"_exps|_shexp|expert|ffn_moe")),
    (
        "attention",
        re.compile(
            r"attn|[QKV]cur|kqv?(?:[_-]|$)|(?:^|[._])(?:[qkv]_proj|w[qkvo])(?:[._-]|$)"
        ),
    ),
    ("ffn", re.compile(r"ffn|mlp")),
    ("embedding", re.compile(r"token_embd|inp_embd|position_embd|pos_embd")),
    ("output", re.compile(r"^(?:output|result_output|lm_head)")),
    ("input", re.compile(r"^(?:inp_|inp$|leaf_|KQ_mask)")),
    ("residual", re.compile(r"^l_out|residual")),
)
COMPONENTS = (*(name for name, _ in _COMPONENTS), "other")
"""What `TensorName.component` may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorName:
    """A parsed tensor name.

    Attributes
    ----------
    raw : the name as given.
    base : without suffixes; may be "" (``" (copy)"`` is a real name).
    suffixes : complete words in the order of appending, cut ones completed where
        only one word fits, else as they stand.
    layer, expert, head : -1 where the name does not say.
    role : "Q", "K", "V", "O", "QKV" or "".
    component : one of `COMPONENTS`.
    is_cut : the last suffix is incomplete.
    """

    raw: str
    base: str
    suffixes: tuple[str, ...]
    layer: int
    expert: int
    head: int
    role: str
    component: str
    is_cut: bool


def split_suffixes(name: str) -> tuple[str, tuple[str, ...], bool]:
    """Return the base of `name`, its suffix words and whether the last one is cut."""
    words: list[str] = []
    is_cut = False
    base = name.rstrip()
    while match := _SUFFIX.search(base):
        word, closed = match[1], bool(match[2])
        fitting = [
            s for s in SUFFIXES if s == word or (not closed and s.startswith(word))
        ]
        if not fitting or (not closed and words):
            break
        is_cut = is_cut or not closed
        words.append(fitting[0] if len(fitting) == 1 else word)
        base = base[: match.start()].rstrip()
    return base.strip(), tuple(reversed(words)), is_cut


def normalise(name: str) -> str:
    """Return `name` without suffixes, complete or cut; may be ""."""
    return split_suffixes(name)[0]


def layer_of(name: str) -> int:
    """Return the layer that `name` tells, or -1.

    ``blk.5.…`` wins; else ``…-5`` and ``…_l5`` at the end of the base. The numbers
    of ``leaf_5`` and ``node_5`` count graph nodes and are no layers.
    """
    if match := _LAYER_PATH.search(name):
        return int(match[1])
    base = normalise(name)
    if base.startswith(("leaf_", "node_")):
        return -1
    match = _LAYER_TAIL.search(base)
    return int(match[1]) if match else -1


@lru_cache(maxsize=1 << 14)
def parse(name: str) -> TensorName:
    """Return everything that `name` tells."""
    base, suffixes, is_cut = split_suffixes(name)
    return TensorName(
        raw=name,
        base=base,
        suffixes=suffixes,
        layer=layer_of(name),
        expert=_number(_EXPERT, base),
        head=_number(_HEAD, base),
        role=_first(_ROLES, base, ""),
        component=_first(_COMPONENTS, base, "other"),
        is_cut=is_cut,
    )


def _number(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return int(match[match.lastindex or 0]) if match else -1


def _first(
    table: tuple[tuple[str, re.Pattern[str]], ...], text: str, default: str
) -> str:
    return next((word for word, pattern in table if pattern.search(text)), default)
