"""The tokens of one ubatch, as a ring or a sidecar states them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.model.batches import BatchTokens
from ggscope.model.tables import I8, I32, I64, Array, Phase

_PHASES = (-1, int(Phase.PROMPT), int(Phase.GENERATE), int(Phase.MIXED))
"""Phases as a tracer numbers them."""
N_PHASES = len(_PHASES)
_OF_TOKENS = np.array([-1, Phase.PROMPT, Phase.GENERATE, -1], np.int8)
"""The same of single tokens, which are never mixed."""
MAX_SEQUENCES = 1 << 16
_LISTED = 6
"""So many tokens or positions are in words."""
_UNKNOWN_POSITION = -1


def phase_of(number: int) -> int:
    """Return the `Phase` that a tracer numbers so; -1 where it means none."""
    return _PHASES[number] if 0 <= number < N_PHASES else -1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UbatchTokens:
    """What a ubatch computes.

    Attributes
    ----------
    ids : int32[n], numbers in the vocabulary; -1 where they are not stated.
    positions : int32[n], -1 likewise.
    phases : int8[n], `Phase` of each token; -1 likewise.
    outputs : int8[n], whether its output was asked for; -1 likewise.
    counts, sequences : int64[n], how many of the sequences, int32[m], each is of.
    context : what distinguishes contexts; 0 where nothing does.
    decode : number of the call that computes it, -1 where none is seen.
    """

    ids: I32
    positions: I32
    phases: I8
    outputs: I8
    counts: I64
    sequences: I32
    context: int = 0
    decode: int = -1

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def phase(self) -> int:
        """`Phase` of all tokens together; -1 where that of one is not known."""
        kinds = np.unique(self.phases)
        if not len(kinds) or kinds[0] < 0:
            return -1
        return int(kinds[0]) if len(kinds) == 1 else int(Phase.MIXED)

    def table(self, number: int, context: int) -> BatchTokens:
        """Return the tokens as rows of ubatch `number`."""
        n = len(self)
        return BatchTokens(
            ubatch=np.full(n, number, np.int32),
            row=np.arange(n, dtype=np.int32),
            id=self.ids,
            position=self.positions,
            phase=self.phases,
            is_output=self.outputs,
            context=np.full(n, context, np.int32),
            decode=np.full(n, self.decode, np.int64),
        )

    def text(self, rows: Array | None = None) -> str:
        """Return ``token 5 at 3`` or ``4 tokens at 0–3: 1, 9, 8, 7``; "" for none."""
        ids, positions = self.ids, self.positions
        if rows is not None:
            ids, positions = ids[rows], positions[rows]
        n = len(ids)
        has_positions = bool((positions >= 0).any())
        at = f" at {_listed(positions.tolist())}" if has_positions else ""
        has_ids = bool((ids >= 0).any())
        if n == 1:
            return f"token {ids[0]}{at}" if has_ids else f"1 token{at}"
        which = f": {_listed(ids.tolist(), has_runs=False)}" if has_ids else ""
        return f"{n:,} tokens{at}{which}" if n else ""


def ubatch_tokens(
    tokens: Sequence[int],
    positions: Sequence[int],
    phase: int,
    *,
    phases: Sequence[int] | None = None,
    outputs: Array | None = None,
    counts: Sequence[int] | None = None,
    sequences: Sequence[int] = (),
    context: int = 0,
    decode: int = -1,
) -> UbatchTokens:
    """Return the tokens of a ubatch.

    Parameters
    ----------
    tokens, positions : as the graph reads them; of M-RoPE several positions each.
        What is negative is not known.
    phase : of the whole, as a tracer numbers it.
    phases : of each token, likewise; None where the tracer recorded nothing of single
        tokens. It called every ubatch of several a prompt then, so positions decide.
    outputs : bool[n]; None where they are not known.
    counts : None where each token is of one of the `sequences`, or none is stated.
    """
    n = len(phases) if phases is not None else len(tokens) or len(positions)
    ids = np.full(n, -1, np.int32)
    ids[: len(tokens)] = np.maximum(np.array(tokens[:n], np.int32), -1)
    at = np.full(n, _UNKNOWN_POSITION, np.int32)
    at[: len(positions[:n])] = np.maximum(np.array(positions[:n], np.int32), -1)
    kinds = np.full(n, phase_of(phase), np.int8)
    if phases is not None:
        kinds[:] = _OF_TOKENS[np.array(phases, np.int64)]
    elif n > 1:
        kinds[:] = _phase_of_positions(at)
    each = np.full(n, len(sequences) > 0, np.int64)
    return UbatchTokens(
        ids=ids,
        positions=at,
        phases=kinds,
        outputs=np.full(n, -1, np.int8) if outputs is None else outputs.astype(np.int8),
        counts=each if counts is None else np.array(counts, np.int64),
        sequences=np.array(sequences, np.int32),
        context=context,
        decode=decode,
    )


def _phase_of_positions(positions: Array) -> int:
    """Return the phase of several tokens, where their positions leave no doubt."""
    if np.array_equal(positions, np.arange(len(positions))):
        return int(Phase.PROMPT)
    follows = bool((np.diff(positions) == 1).any())
    return -1 if follows or (positions <= 0).any() else int(Phase.GENERATE)


def _listed(numbers: Sequence[int], *, has_runs: bool = True) -> str:
    """Return the first of some numbers, or all of those that follow each other."""
    first, n = numbers[0], len(numbers)
    if has_runs and n > 2 and list(numbers) == list(range(first, first + n)):
        return f"{first}–{first + n - 1}"
    more = ", …" if n > _LISTED else ""
    return ", ".join(map(str, numbers[:_LISTED])) + more
