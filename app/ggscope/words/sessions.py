"""How well the parts of a session fit, in words."""

from collections.abc import Sequence

from ggscope.model.trace import Join
from ggscope.model.units import format_count, format_share

_SUBJECTS = {
    "map": "accesses with a tensor of {0}",
    "registry": "accesses with a tensor of {0}",
    "graph": "ops with a node of {0}",
    "names": "cut names that {0} completes for sure",
}


def join_words(join: Join) -> str:
    """Return "accesses with a tensor of map.json: 134 of 134 (100.0 %): name 18, …"."""
    subject = _SUBJECTS.get(join.kind, join.kind + " of {0}").format(join.part)
    return f"{subject}: {fit_words(join)}"


def fit_words(join: Join) -> str:
    """Return the same without saying of what."""
    if not join.n_all:
        return "nothing to compare"
    text = (
        f"{format_count(join.n_found)} of {format_count(join.n_all)} "
        f"({format_share(join.n_found / join.n_all)})"
    )
    if not join.n_found and join.kind in ("map", "registry"):
        text += ": it does not fit"
    rules = ", ".join(f"{words} {format_count(n)}" for words, n in join.rules.items())
    if rules:
        text += f": {rules}"
    if join.n_nodes:
        n = join.n_nodes - len(join.silent_nodes)
        text += f"; {format_count(n)} of {format_count(join.n_nodes)} nodes recorded"
    if join.delta is not None:
        text += f"; delta {format_count(join.delta)}, {_agreement(join)}"
    return text


def joins_of(joins: Sequence[Join], part: str) -> list[Join]:
    """Return what is known of how one part fits."""
    return [join for join in joins if join.part == part]


def _agreement(join: Join) -> str:
    if join.n_agree == join.n_found:
        return f"all {format_count(join.n_agree)} agree"
    return f"{format_count(join.n_agree)} of {format_count(join.n_found)} agree"
