"""Texts of the experts view: summary, tooltips, empty states."""

import math

import numpy as np

from ggscope.analysis.experts.experts import (
    COUNTED,
    OF_ROUTER,
    Choices,
    CountSource,
    ExpertSource,
)
from ggscope.analysis.experts.figures import (
    Beside,
    ExpertsResult,
    layer_shares,
    rank_split,
)
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_counted,
    format_exact_bytes,
    format_offset,
    format_share,
)
from ggscope.render.grid import Cell

_MAX_SLICES = 4
_MAX_RANKS = 8
_MAX_LAYERS = 6


def source_text(choices: Choices) -> str:
    """Return the source of the routing."""
    return {
        ExpertSource.ROUTING: "routing recorded",
        ExpertSource.COUNTS: "counted over a calibration text (imatrix)",
        ExpertSource.LAUNCHES: "counted by launch (tokens_per_expert)",
        ExpertSource.SIZES: "all experts computed (derived from sizes)",
        ExpertSource.ACCESSES: "derived from expert accesses",
        ExpertSource.STACKS: "whole expert stacks",
        ExpertSource.NONE: "nothing recorded",
    }[choices.source]


def empty_text(choices: Choices | None, trace: Trace) -> tuple[str, str]:
    """Return why there is no chart: a title and a hint."""
    if never := never_used_text(trace):
        return (
            "The importance matrix has no counts",
            f"Its .dat form lists only which experts were used; {never}. "
            "llama-imatrix writes counts to .gguf.",
        )
    if choices is not None and choices.source is ExpertSource.STACKS:
        return (
            "Routing not recorded",
            (
                "Only whole stacks of experts are named. Record with expert ids, or "
                "add a routing CSV: File › Add to session."
            ),
        )
    return (
        "No experts in this trace",
        (
            "Neither routing nor expert accesses are recorded. Open a tensor-access "
            "trace of a mixture-of-experts model, or add a routing CSV."
        ),
    )


def never_used_text(trace: Trace) -> str:
    """Return which experts an importance matrix without counts never used; "" = none.

    Its old form says whether a slice was used, not how often.
    """
    if trace.importance is None:
        return ""
    layer, expert, _, seen = trace.importance.expert_counts()
    if not len(layer) or (seen < 0).any():
        return ""
    never = seen == 0
    n, total = int(np.count_nonzero(never)), len(layer)
    head = f"never used: {format_count(n)} of {format_counted(total, 'expert')}"
    parts = [
        f"layer {one}: {', '.join(map(str, expert[never & (layer == one)].tolist()))}"
        for one in np.unique(layer[never]).tolist()
    ]
    shown = "; ".join(parts[:_MAX_LAYERS])
    more = len(parts) - _MAX_LAYERS
    tail = f"; and {format_counted(more, 'more layer')}" if more > 0 else ""
    return f"{head} ({shown}{tail})" if n else head


def about_text(result: ExpertsResult) -> str:
    """Return the summary in one line."""
    choices, figures = result.base.choices, result.figures
    active = format_share(figures.utilisation)
    slots = f"{active} of {format_count(figures.n_slots)} expert slots used"
    if figures.n_open_slots:
        open_ = format_share(figures.n_open_slots / figures.n_slots)
        slots += f", {open_} unknown"
    parts = [source_text(choices), slots]
    never = figures.n_slots - figures.n_active - figures.n_open_slots
    if choices.source in COUNTED:
        parts.append(f"{format_count(never)} never chosen")
    if figures.hottest is not None:
        row, expert = figures.hottest
        text = "hottest {0}× uniform (layer {1}, expert {2})"
        layer = int(choices.layers[row])
        parts.append(text.format(f"{figures.hottest_ratio:.1f}", layer, expert))
    entropy = figures.entropy[~np.isnan(figures.entropy)]
    if len(entropy) and choices.n_experts > 1:
        share = float(np.nanmean(figures.entropy_share))
        text = "entropy {0} bits ({1} of uniform)"
        parts.append(text.format(f"{entropy.mean():.2f}", format_share(share)))
    if not math.isnan(result.base.overlap.mean):
        text = "{0} token-to-token reuse"
        parts.append(text.format(format_share(result.base.overlap.mean)))
    if result.token is None and len(choices.tokens):
        parts.append(_tokens_text(result))
    if figures.n_open_layers:
        text = "routing incomplete in {0} of {1} layers"
        n_layers = format_count(len(choices.layers))
        parts.append(text.format(format_count(figures.n_open_layers), n_layers))
    if choices.n_left_out:
        text = "{0} without a valid layer or expert omitted"
        parts.append(text.format(format_count(choices.n_left_out)))
    return " · ".join(parts)


def _tokens_text(result: ExpertsResult) -> str:
    """Return "42 tokens in 30 ubatches", or what the trace numbers: "9 tokens"."""
    base = result.base
    n, n_tokens = len(base.choices.tokens), base.sets.n_tokens
    if base.choices.noun == "token":
        text = "1 token" if n == 1 else "{0} tokens"
        return text.format(format_count(n))
    text = "1 ubatch" if n == 1 else "{0} ubatches"
    of_tokens = "1 token in {1}" if n_tokens == 1 else "{0} tokens in {1}"
    of_ubatches = text.format(format_count(n))
    return of_tokens.format(format_count(n_tokens), of_ubatches)


def about_tip(result: ExpertsResult) -> str:
    """Return the tooltip of the summary: what its numbers rest on."""
    choices = result.base.choices
    known = {
        CountSource.MODEL: "{0} experts per layer (from the model).",
        CountSource.TENSORS: "{0} experts per layer (from the tensors).",
        CountSource.SEEN: (
            "{0} experts per layer (inferred from the highest expert id seen)."
        ),
    }[choices.count_source]
    lines = [
        about_text(result),
        known.format(format_count(choices.n_experts)),
        "A slot is an expert of a layer; used means routed to at least once.",
        "Uniform means that all experts of a layer are chosen equally often.",
    ]
    if result.figures.n_open_layers:
        lines.append(
            "Recorded lists hold at most 16 experts, and only those of a prompt's "
            "first token. Shares and entropy of incomplete layers are omitted."
        )
    if choices.n_implied:
        lines.append(
            f"{format_count(choices.n_implied)} choices are not listed, but follow "
            "from tensor sizes: all experts computed."
        )
    if choices.source is ExpertSource.COUNTS:
        lines.append(
            "Counts are of a calibration text, summed over its tokens; tokens, "
            "their order and overlap are unknown."
        )
    if choices.source is ExpertSource.LAUNCHES:
        lines.append(
            "Counts are sums over launches; tokens, their order and overlap are "
            "unknown."
        )
    if choices.source is ExpertSource.ACCESSES:
        lines.append("Counts are accesses; an expert has several tensors.")
    return "\n".join(lines)


def cell_text(result: ExpertsResult, cell: Cell) -> str:
    """Return the tooltip of an expert of a layer."""
    choices = result.base.choices
    row, expert = cell
    layer = int(choices.layers[row])
    count = int(result.grid.count[row, expert])
    share = float(layer_shares(result.grid.count[row : row + 1])[0, expert])
    of_routing = choices.source in OF_ROUTER
    unit = "{0} choices" if of_routing else "{0} accesses"
    n_bytes = int(result.grid.bytes[row, expert])
    place = f"layer {layer} · expert {expert}"
    counted = unit.format(format_count(count))
    more = int(result.grid.more[row])
    if more:
        counted = f"at least {counted}"
        missing = "number of" if more < 0 else f"{more}"
        lines = [place, counted, f"{missing} further choices of the layer unknown"]
    else:
        of_layer = f"{format_share(share)} of the layer"
        lines = [place, counted + " · " + of_layer]
    if n_bytes >= 0:
        size, exact = format_bytes(n_bytes), format_exact_bytes(n_bytes)
        if of_routing:
            lines.append(f"{size} to read ({exact}), derived: choices × size")
        else:
            lines.append(f"{size} read ({exact})")
    else:
        lines.append(f"bytes {NOT_AVAILABLE}: sizes unknown")
    ranks = rank_split(choices, row, expert, result.token)
    if ranks.any():
        split = [
            f"rank {i}: {format_count(n)}"
            for i, n in enumerate(ranks.tolist()[:_MAX_RANKS]) if n
        ]  # fmt: skip
        lines.append(" · ".join(split))
    return "\n".join([*lines, *slice_lines(choices, layer, expert)])


def slice_lines(choices: Choices, layer: int, expert: int) -> list[str]:
    """Return offsets and sizes of the slices of an expert, a line each."""
    slices = choices.slices
    rows = slices.of(layer, expert)
    lines = []
    for row in rows[:_MAX_SLICES].tolist():
        offset, size = int(slices.offset[row]), int(slices.size[row])
        amount = format_exact_bytes(size) if size >= 0 else NOT_AVAILABLE
        lines.append(f"slice at {format_offset(offset)}, {amount}")
    if len(rows) > _MAX_SLICES:
        lines.append(f"and {format_count(len(rows) - _MAX_SLICES)} more")
    return lines


def beside_text(result: ExpertsResult, cell: Cell) -> str:
    """Return the tooltip of a cell of the second chart."""
    if result.matrix is None:
        return ""
    choices = result.base.choices
    row, column = cell
    value = float(result.matrix[row, column])
    if result.beside is Beside.OVERLAP:
        layer, token = int(choices.layers[row]), int(choices.tokens[column])
        place = f"layer {layer} · {choices.noun} {token}"
        if not math.isnan(value):
            reuse = "{0} of its experts were also used by the previous token"
            if choices.noun != "token":
                reuse = (
                    "{0} of its tokens' experts were also used by the previous token"
                )
            return place + "\n" + reuse.format(format_share(value))
        sets = result.base.sets
        is_cell = (sets.layer == row) & (sets.token == column)
        if (sets.before[is_cell] >= 0).any():
            why = "routing of this or the previous token incomplete"
        else:
            why = "previous token not recorded"
        return place + "\n" + why
    if math.isnan(value):
        return f"expert {row} with itself"
    times = format_count(int(value))
    if result.beside is Beside.TRANSITION:
        text = "expert {0}, then expert {1} for the next token: {2} times"
    else:
        text = "experts {0} and {1} for the same token: {2} times"
    return text.format(row, column, times)
