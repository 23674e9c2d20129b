"""Bands of prompt and generation over the whole trace, and the tokens in them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.batches import Ubatches
from ggscope.model.tables import I64, Array, Phase
from ggscope.model.tokens import has_ubatches
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange


@dataclass(frozen=True, slots=True, eq=False)
class PhaseBands:
    """Bands in order of time, equally long columns.

    Attributes
    ----------
    names : what people call them.
    phase : int8[n], `Phase`; -1 unknown.
    start, end : int64[n], ticks.
    n_prompt, n_generated : int64[n], tokens that ubatches compute in the band; -1 where
        the trace does not state the tokens of ubatches.
    n_own : int64[n], spans of token lanes that begin in the band and are of its phase:
        passes, or tokens as the file numbers them.
    counts_passes : whether `n_own` counts passes.
    """

    names: tuple[str, ...]
    phase: npt.NDArray[np.int8]
    start: I64
    end: I64
    n_prompt: I64
    n_generated: I64
    n_own: I64
    counts_passes: bool = False

    def __len__(self) -> int:
        return len(self.start)

    def time(self, band: int) -> TimeRange:
        """Return from when to when a band lasts."""
        return TimeRange(int(self.start[band]), int(self.end[band]))

    def text(self, band: int) -> str:
        """Return ``prompt, 21 tokens``, or the name alone where no number is known.

        How many tokens a prefill computes at once is not in the number of its spans.
        """
        name, phase = self.names[band], int(self.phase[band])
        n_prompt, n_generated = int(self.n_prompt[band]), int(self.n_generated[band])
        if n_prompt >= 0:
            if phase == Phase.MIXED:
                return f"{name}, {n_prompt:,} prompt + {n_generated:,} generated tokens"
            n = n_prompt if phase == Phase.PROMPT else n_generated
            return f"{name}, {n:,} token{'' if n == 1 else 's'}" if phase >= 0 else name
        n = int(self.n_own[band])
        if n and self.counts_passes:
            return f"{name}, {n:,} pass{'' if n == 1 else 'es'}"
        if n and phase == Phase.GENERATE:
            return f"{name}, {n:,} token{'' if n == 1 else 's'}"
        return name


def bands_of_lane(trace: Trace, ids: Array, tokens: Array) -> PhaseBands:
    """Return the spans `ids` of phase lanes as bands.

    `tokens` are the spans of token lanes; both in order of time.
    """
    spans = trace.spans
    phase = _phases(trace, ids)
    start, end = spans.start[ids].astype(np.int64), spans.end[ids].astype(np.int64)
    return _counted(
        trace,
        tuple(trace.span_name(i) for i in ids.tolist()),
        phase,
        start,
        end,
        tokens,
    )


def bands_of_tokens(trace: Trace, tokens: Array) -> PhaseBands:
    """Return bands of neighbouring ubatches (spans of token lanes) of one phase.

    `tokens` are in order of time; those of no known phase are in no band.
    """
    spans, phase = trace.spans, _phases(trace, tokens)
    first = np.flatnonzero(np.append(True, phase[1:] != phase[:-1])[: len(phase)])
    band = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(phase))))
    start = spans.start[tokens][first].astype(np.int64)
    end = np.zeros(len(first), np.int64)
    if len(first):
        end = np.maximum.reduceat(spans.end[tokens], first).astype(np.int64)
    ubatches = Ubatches.of(trace.batch_tokens)
    number = np.full(len(tokens), -1) if spans.token is None else spans.token[tokens]
    row = ubatches.rows(number)
    sums = np.zeros((2, len(first)), np.int64)
    for total, values in zip(
        sums, (ubatches.n_prompt, ubatches.n_generated), strict=True
    ):
        np.add.at(total, band, np.append(values, 0)[row])
    known = np.flatnonzero(phase[first] >= 0)
    of_band = phase[first][known]
    return PhaseBands(
        tuple(Phase(p).name.lower() for p in of_band.tolist()),
        of_band,
        start[known],
        end[known],
        sums[0, known],
        sums[1, known],
        np.bincount(band, minlength=len(first))[known],
    )


def bands_of_times(
    trace: Trace, times: dict[Phase, TimeRange], tokens: Array
) -> PhaseBands:
    """Return one band for each phase, from its first span to its last."""
    ordered = sorted(times.items(), key=lambda item: item[1])
    return _counted(
        trace,
        tuple(phase.name.lower() for phase, _ in ordered),
        np.array([phase for phase, _ in ordered], np.int8),
        np.array([time.start for _, time in ordered], np.int64),
        np.array([time.end for _, time in ordered], np.int64),
        tokens,
    )


def tells_ubatches(trace: Trace) -> bool:
    """Return whether bands follow from the ubatches of a trace."""
    return has_ubatches(trace) and bool(trace.lanes.is_token.any())


def _counted(
    trace: Trace,
    names: tuple[str, ...],
    phase: npt.NDArray[np.int8],
    start: I64,
    end: I64,
    tokens: Array,
) -> PhaseBands:
    own = _phases(trace, tokens)
    begin = trace.spans.start[tokens]
    n_own = np.zeros(len(start), np.int64)
    for code in np.unique(phase).tolist():
        mine = np.sort(begin[own == code])
        of_code = phase == code
        low = np.searchsorted(mine, start[of_code])
        n_own[of_code] = np.searchsorted(mine, end[of_code]) - low
    unknown = np.full(len(start), -1, np.int64)
    return PhaseBands(
        names, phase, start, end, unknown, unknown, n_own, trace.info.n_passes > 0
    )


def _phases(trace: Trace, ids: Array) -> npt.NDArray[np.int8]:
    if trace.spans.phase is None:
        return np.full(len(ids), -1, np.int8)
    return trace.spans.phase[ids].astype(np.int8)
