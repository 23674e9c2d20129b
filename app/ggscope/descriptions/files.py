"""What the files of a session say of themselves, and how well they fit."""

from collections.abc import Sequence

from ggscope.descriptions.spans import Fact
from ggscope.model.trace import DeclaredMetric, MatchReport, Trace
from ggscope.model.units import format_count, format_share

_SUBJECTS = {
    "map": "accesses with a tensor of {0}",
    "registry": "accesses with a tensor of {0}",
    "graph": "ops with a node of {0}",
    "recording": "records with a node of {0}",
    "names": "cut names that {0} completes for sure",
}


def stated_facts(trace: Trace) -> tuple[Fact, ...]:
    """Return a fact for each stated figure, contradicted ones first and marked.

    Those of several files stand under their file's name. Empty where no file states
    any.
    """
    found = trace.stated_figures()
    if not found:
        return ()
    order = sorted(found, key=lambda pair: pair[1].agrees is not False)
    wrong = sum(figure.agrees is False for _, figure in found)
    facts = [Fact("stated figures", _verdicts(found), caution=wrong > 0)]
    facts += [_fact(file, figure) for file, figure in order[:wrong]]
    above = ""
    for file, figure in order[wrong:]:
        if file != above:
            n_here = sum(name == file for name, _ in order[wrong:])
            facts.append(Fact(file, "1 figure" if n_here == 1 else f"{n_here} figures"))
            above = file
        facts.append(_fact(file, figure))
    return tuple(facts)


def _verdicts(found: Sequence[tuple[str, DeclaredMetric]]) -> str:
    """Return "2 contradict the content, 16 agree, 3 cannot be told"."""
    verdicts = [figure.agrees for _, figure in found]
    wrong, right, open_ = (verdicts.count(v) for v in (False, True, None))
    parts = [
        (wrong, "contradicts the content", "contradict the content"),
        (right, "agrees with the content", "agree with the content"),
        (open_, "cannot be told", "cannot be told"),
    ]
    if wrong:
        parts[1] = (right, "agrees", "agree")
    return ", ".join(
        f"{format_count(n)} {one if n == 1 else many}" for n, one, many in parts if n
    )


def _fact(file: str, figure: DeclaredMetric) -> Fact:
    value = figure.stated_text
    exact = [figure.place, file]
    if figure.computed is not None:
        found = figure.computed_text
        by = f" by {figure.basis}" if figure.basis else ""
        value = f"{value} stated; {found}{by}" if figure.agrees is not True else value
        exact.insert(0, f"{found}{by}")
    return Fact(
        figure.name,
        value,
        " · ".join(part for part in exact if part),
        caution=figure.agrees is False,
    )


def join_words(join: MatchReport) -> str:
    """Return "accesses with a tensor of map.json: 134 of 134 (100.0 %): name 18, …"."""
    subject = _SUBJECTS.get(join.kind, join.kind + " of {0}").format(join.part)
    return f"{subject}: {fit_words(join)}"


def fit_words(join: MatchReport) -> str:
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
        part = "all" if join.n_agree == join.n_found else f"{join.n_agree:,} of"
        text += f"; delta {format_count(join.delta)}, {part} {join.n_found:,} agree"
    return text


def joins_of(joins: Sequence[MatchReport], part: str) -> list[MatchReport]:
    """Return what is known of how one part fits."""
    return [join for join in joins if join.part == part]
