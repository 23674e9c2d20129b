"""Which token is meant where prefill and decode each number theirs from 0."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import Array, narrow
from ggscope.model.trace import Trace

_PHASES = ("prefill", "decode", "")


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """Keys that distinguish all tokens of a trace.

    Attributes
    ----------
    key : integers per span, -1 without a token; None where no span has one. Keys of
        prefill come before those of decode, and these before those of no known phase.
    per_phase : how many keys each phase has; 0 where the number alone is the key.
    """

    key: Array | None
    per_phase: int = 0

    def text(self, key: int, mark: str = "") -> str:
        """Return what people call a token: ``5`` or ``decode 5``; "" for -1.

        `mark` stands before the number, as in ``#5``.
        """
        if key < 0:
            return ""
        if not self.per_phase:
            return f"{mark}{key:,}" if mark else str(key)
        phase, number = divmod(key, self.per_phase)
        return f"{_PHASES[phase]} {mark}{number}".lstrip()


def has_ubatches(trace: Trace) -> bool:
    """Return whether the token numbers of spans are those of ubatches."""
    return len(trace.batch_tokens) > 0


def token_noun(trace: Trace) -> str:
    """Return what the token number of a span counts: "ubatch" or "token"."""
    return "ubatch" if has_ubatches(trace) else "token"


def numbers_per_phase(trace: Trace) -> bool:
    """Return whether a token is known by its phase and number together.

    Formats that show passes number tokens through both phases, or claim the same
    number for several of them.
    """
    spans = trace.spans
    has_both = spans.token is not None and spans.phase is not None
    return has_both and not trace.info.n_passes and not has_ubatches(trace)


def tokens_of(trace: Trace) -> Tokens:
    """Return the tokens of a trace; O(n) where phases count, else O(1)."""
    token, phase = trace.spans.token, trace.spans.phase
    if token is None or phase is None or not len(token):
        return Tokens(token)
    if not numbers_per_phase(trace):
        return Tokens(token)
    n = int(token.max()) + 1
    if n <= 0:
        return Tokens(token)
    which = np.where(phase < 0, 2, phase).astype(np.int64)
    return Tokens(narrow(np.where(token < 0, -1, which * n + token)), n)


def token_text(trace: Trace, span: int) -> str:
    """Return ``#5`` or ``decode #5`` for the token of a span; "" without one."""
    token, phase = trace.spans.token, trace.spans.phase
    number = -1 if token is None else int(token[span])
    if number < 0:
        return ""
    if phase is None or not numbers_per_phase(trace):
        return f"#{number:,}"
    return f"{_PHASES[int(phase[span])]} #{number:,}".lstrip()
