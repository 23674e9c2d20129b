"""Checked metadata of the files of a session, and how well they match."""

from collections.abc import Sequence

from ggscope.descriptions.spans import Fact
from ggscope.model.trace import DeclaredMetric, MatchReport, Trace
from ggscope.model.units import format_count, format_counted, format_share

_SUBJECTS = {
    "map": "accesses with a tensor of {0}",
    "registry": "accesses with a tensor of {0}",
    "graph": "ops with a node of {0}",
    "recording": "records with a node of {0}",
    "names": "cut names completed from {0} without doubt",
}


def stated_facts(trace: Trace) -> tuple[Fact, ...]:
    """Return a fact for each checked metadata value, mismatches first and marked.

    Values of several files stand under their file's name. Empty where no file has any.
    """
    metrics = trace.stated_figures()
    if not metrics:
        return ()
    order = sorted(metrics, key=lambda pair: pair[1].agrees is not False)
    n_wrong = sum(figure.agrees is False for _, figure in metrics)
    facts = [Fact("metadata check", _verdicts(metrics), caution=n_wrong > 0)]
    facts += [_fact(file, figure) for file, figure in order[:n_wrong]]
    heading = ""
    for file, figure in order[n_wrong:]:
        if file != heading:
            n_here = sum(name == file for name, _ in order[n_wrong:])
            facts.append(Fact(file, "1 value" if n_here == 1 else f"{n_here} values"))
            heading = file
        facts.append(_fact(file, figure))
    return tuple(facts)


def producer_facts(trace: Trace) -> tuple[Fact, ...]:
    """Return a fact for each value that files state of themselves, as it is written.

    Where files of one reader state different values, each is given.
    """
    infos = [p.info for p in trace.parts if p.info.reader_id == trace.info.reader_id]
    facts = []
    for key, value in trace.info.producer.items():
        stated = dict.fromkeys(info.producer.get(key, "") for info in infos)
        text = ", ".join(filter(None, stated)) if len(infos) > 1 else value
        facts.append(Fact(key.replace("_", " "), text or value))
    return tuple(facts)


def _verdicts(metrics: Sequence[tuple[str, DeclaredMetric]]) -> str:
    """Return "2 of 21 values do not match the data, 3 cannot be checked"."""
    verdicts = [figure.agrees for _, figure in metrics]
    n_wrong, n_right, n_open = (verdicts.count(v) for v in (False, True, None))
    of_all = f"of {format_counted(len(metrics), 'value')}"
    parts = []
    if n_wrong:
        verb = "does" if n_wrong == 1 else "do"
        parts.append(f"{format_count(n_wrong)} {of_all} {verb} not match the data")
    elif n_right:
        verb = "matches" if n_right == 1 else "match"
        parts.append(f"{format_count(n_right)} {of_all} {verb} the data")
    if n_open:
        parts.append(f"{format_count(n_open)} cannot be checked")
    return ", ".join(parts)


def _fact(file: str, figure: DeclaredMetric) -> Fact:
    value = figure.stated_text
    exact = [figure.place, file]
    if figure.computed is not None:
        computed = figure.computed_text
        by = f" ({figure.basis})" if figure.basis else ""
        value = f"says {value}, computed {computed}{by}" if not figure.agrees else value
        exact.insert(0, f"{computed}{by}")
    return Fact(
        figure.name,
        value,
        " · ".join(part for part in exact if part),
        caution=figure.agrees is False,
    )


def join_text(join: MatchReport) -> str:
    """Return "accesses with a tensor of map.json: 134 of 134 (100.0 %): name 18, …"."""
    subject = _SUBJECTS.get(join.kind, join.kind + " of {0}").format(join.part)
    return f"{subject}: {join_counts_text(join)}"


def join_counts_text(join: MatchReport) -> str:
    """Return "134 of 134 (100.0 %): name 18, …", without the subject."""
    if not join.n_all:
        return "nothing to compare"
    text = (
        f"{format_count(join.n_found)} of {format_count(join.n_all)} "
        f"({format_share(join.n_found / join.n_all)})"
    )
    if not join.n_found and join.kind in ("map", "registry"):
        text += ": no match"
    rules = ", ".join(f"{rule} {format_count(n)}" for rule, n in join.rules.items())
    if rules:
        text += f": {rules}"
    if join.n_nodes:
        n = join.n_nodes - len(join.unrecorded_nodes)
        text += f"; {format_count(n)} of {format_count(join.n_nodes)} nodes recorded"
    if join.delta is not None:
        part = "all" if join.n_agree == join.n_found else f"{join.n_agree:,} of"
        text += f"; delta {format_count(join.delta)}, {part} {join.n_found:,} agree"
    return text


def joins_of(joins: Sequence[MatchReport], part: str) -> list[MatchReport]:
    """Return the matches of one part."""
    return [join for join in joins if join.part == part]
