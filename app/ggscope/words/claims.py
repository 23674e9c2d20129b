"""What the files of a session say of themselves, beside what they hold."""

from ggscope.analysis.sessions.tables import part_name
from ggscope.model.claims import Stated, figure_text
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.words.spans import Fact


def stated_of(trace: Trace) -> tuple[tuple[str, Stated], ...]:
    """Return each stated figure with the name of its file; "" for a file alone."""
    if not trace.parts:
        return tuple(("", figure) for figure in trace.info.stated)
    return tuple(
        (part_name(part.info), figure)
        for part in trace.parts
        for figure in part.info.stated
    )


def verdict(figure: Stated) -> str:
    """Return "agrees", "contradicts", or "cannot be told"."""
    if figure.agrees is None:
        return "cannot be told"
    return "agrees" if figure.agrees else "contradicts"


def stated_facts(trace: Trace) -> tuple[Fact, ...]:
    """Return a fact for each stated figure, contradicted ones first and marked.

    Those of several files stand under their file's name. Empty where no file states
    any.
    """
    found = stated_of(trace)
    if not found:
        return ()
    order = sorted(found, key=lambda pair: pair[1].agrees is not False)
    wrong = sum(figure.agrees is False for _, figure in found)
    n = format_count(len(found))
    if wrong:
        words = f"{format_count(wrong)} of {n} are not what its content makes of them"
    else:
        words = f"none of {n} is contradicted by its content"
    facts = [Fact("stated figures", words, caution=wrong > 0)]
    facts += [_fact(file, figure) for file, figure in order[:wrong]]
    above = ""
    for file, figure in order[wrong:]:
        if file != above:
            n_here = sum(name == file for name, _ in order[wrong:])
            facts.append(Fact(file, "1 figure" if n_here == 1 else f"{n_here} figures"))
            above = file
        facts.append(_fact(file, figure))
    return tuple(facts)


def _fact(file: str, figure: Stated) -> Fact:
    value = figure_text(figure.stated, figure.unit)
    exact = [figure.place, file]
    if figure.computed is not None:
        found = figure_text(figure.computed, figure.unit)
        by = f" by {figure.basis}" if figure.basis else ""
        value = f"{value} stated; {found}{by}" if figure.agrees is not True else value
        exact.insert(0, f"{found}{by}")
    return Fact(
        figure.name,
        value,
        " · ".join(part for part in exact if part),
        caution=figure.agrees is False,
    )
