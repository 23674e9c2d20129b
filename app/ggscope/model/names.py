"""What a tensor's name shows: its base, layer, expert, head and role.

ggml builds names by appending: ``Qcur-5 (view) (permuted)``. Trace writers cut them
at a fixed width, so the last suffix may be incomplete: ``Qcur-5 (view) (perm``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

SUFFIXES = ("copy", "view", "permuted", "transposed", "reshaped", "cont")
"""Words that ggml appends in parentheses for an op that only re-labels data."""

_SUFFIX = re.compile(r"\((\w*)(?: of [^()]*)?(\)?) *$")
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
_LONGEST_KEPT = 1 << 10
"""Longer names are looked at again each time: a trace may have many of a megabyte."""
_ONE_DIGIT = str.maketrans("123456789", "000000000")
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


@dataclass(frozen=True, slots=True)
class NameShape:
    """Where the parts of a name stand; the same for all names that differ in digits.

    Attributes
    ----------
    begin, end : of the base.
    suffixes, is_cut, role, component : see `TensorName`.
    layer, expert, head : begin and end of the digits; (0, 0) where there are none.
    """

    begin: int
    end: int
    suffixes: tuple[str, ...]
    is_cut: bool
    role: str
    component: str
    layer: tuple[int, int]
    expert: tuple[int, int]
    head: tuple[int, int]


def shape_of(name: str) -> NameShape:
    """Return where the parts of `name` stand.

    A trace may have a million names; nearly all differ from others in digits only,
    and those are looked at once.
    """
    find = pattern_shape if len(name) <= _LONGEST_KEPT else pattern_shape.__wrapped__
    return find(name.translate(_ONE_DIGIT))


def shapes_of(
    names: Sequence[str],
) -> tuple[list[NameShape], npt.NDArray[np.int32]]:
    """Return the different shapes of names, and which of them each name has.

    That is `shape_of` of very many at a tenth of the time: all names are made one
    text whose digits are replaced at once.
    """
    text = "\n".join(names).translate(_ONE_DIGIT)
    alike = text.split("\n")
    if len(alike) != len(names):  # a name has line breaks of its own
        alike = [name.translate(_ONE_DIGIT) for name in names]
    known = {one: i for i, one in enumerate(dict.fromkeys(alike))}
    which = np.fromiter(map(known.__getitem__, alike), np.int32, len(alike))
    return [shape_of(one) for one in known], which


def number_at(name: str, digits: tuple[int, int]) -> int:
    """Return the number that stands at `digits` of a `NameShape`, or -1."""
    begin, end = digits
    return int(name[begin:end]) if end else -1


def split_suffixes(name: str) -> tuple[str, tuple[str, ...], bool]:
    """Return the base of `name`, its suffix words and whether the last one is cut."""
    shape = shape_of(name)
    return name[shape.begin : shape.end], shape.suffixes, shape.is_cut


def normalise(name: str) -> str:
    """Return `name` without suffixes, complete or cut; may be ""."""
    shape = shape_of(name)
    return name[shape.begin : shape.end]


def layer_of(name: str) -> int:
    """Return the layer that `name` states, or -1.

    ``blk.5.…`` wins; else ``…-5`` and ``…_l5`` at the end of the base. The numbers
    of ``leaf_5`` and ``node_5`` count graph nodes and are no layers.
    """
    return number_at(name, shape_of(name).layer)


def is_weight_name(name: str) -> bool:
    """Return whether a tensor is called as those of model files are."""
    return name.endswith((".weight", ".bias"))


def parse(name: str) -> TensorName:
    """Return everything that `name` states."""
    return (_parse if len(name) <= _LONGEST_KEPT else _parse.__wrapped__)(name)


@lru_cache(maxsize=1 << 14)
def _parse(name: str) -> TensorName:
    shape = shape_of(name)
    return TensorName(
        raw=name,
        base=name[shape.begin : shape.end],
        suffixes=shape.suffixes,
        layer=number_at(name, shape.layer),
        expert=number_at(name, shape.expert),
        head=number_at(name, shape.head),
        role=shape.role,
        component=shape.component,
        is_cut=shape.is_cut,
    )


@lru_cache(maxsize=1 << 12)
def pattern_shape(name: str) -> NameShape:
    """Return the shape of all names that are this one once each digit is alike."""
    begin, end, suffixes, is_cut = _split(name)
    base = name[begin:end]
    expert, head = _digits(_EXPERT, base), _digits(_HEAD, base)
    return NameShape(
        begin,
        end,
        suffixes,
        is_cut,
        _first(_ROLES, base, ""),
        _first(_COMPONENTS, base, "other"),
        _layer_digits(name, base, begin),
        (expert[0] + begin, expert[1] + begin) if expert[1] else expert,
        (head[0] + begin, head[1] + begin) if head[1] else head,
    )


def _split(name: str) -> tuple[int, int, tuple[str, ...], bool]:
    """Return begin and end of the base, the suffix words, and whether one is cut."""
    parts: list[str] = []
    is_cut = False
    end = len(name.rstrip())
    # A suffix holds no second "(", so each search ends where the last one began:
    # a name of a hundred thousand suffixes is read once.
    while (at := name.rfind("(", 0, end)) >= 0:
        match = _SUFFIX.match(name, at, end)
        if match is None:
            break
        word, closed = match[1], bool(match[2])
        fitting = [
            s for s in SUFFIXES if s == word or (not closed and s.startswith(word))
        ]
        if not fitting or (not closed and parts):
            break
        is_cut = is_cut or not closed
        parts.append(fitting[0] if len(fitting) == 1 else word)
        end = at
        while end and name[end - 1].isspace():
            end -= 1
    begin = end - len(name[:end].lstrip())
    return begin, end, tuple(reversed(parts)), is_cut


def _layer_digits(name: str, base: str, begin: int) -> tuple[int, int]:
    """Return where the digits of the layer stand in `name`."""
    digits = _digits(_LAYER_PATH, name)
    if digits[1] or base.startswith(("leaf_", "node_")):
        return digits
    first, last = _digits(_LAYER_TAIL, base)
    return (first + begin, last + begin) if last else (0, 0)


def _digits(pattern: re.Pattern[str], text: str) -> tuple[int, int]:
    match = pattern.search(text)
    return match.span(match.lastindex or 0) if match else (0, 0)


def _first(
    table: tuple[tuple[str, re.Pattern[str]], ...], text: str, default: str
) -> str:
    return next((word for word, pattern in table if pattern.search(text)), default)
