"""The tokens of a recording: what each ubatch computes, and of which sequences."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, Column, Phase, Table, places_among


@dataclass(frozen=True, slots=True, eq=False)
class BatchTokens(Table):
    """Tokens that a program handed to a model, one row each, ubatch by ubatch.

    A span's `token` is the number of its ubatch where a trace has these rows: an op
    computes all tokens of a ubatch at once.
    """

    ubatch: Annotated[
        Array,
        Column("int32", "number of its ubatch, as `token` of spans", high=1 << 32),
    ]
    row: Annotated[Array, Column("int32", "place in the ubatch", high=1 << 31)]
    id: Annotated[
        Array, Column("int32", "number in the model's vocabulary", -1, high=1 << 31)
    ]
    position: Annotated[
        Array, Column("int32", "position in its sequences", -1, high=1 << 31)
    ]
    phase: Annotated[
        Array,
        Column(
            "int8",
            "whether it is of a prompt or was generated (drafts that are verified too)",
            -1,
            code=Phase,
            high=2,
        ),
    ]
    is_output: Annotated[
        Array, Column("int8", "whether its output was asked for: 0 or 1", -1, high=2)
    ]
    context: Annotated[
        Array,
        Column(
            "int32", "which context (KV cache) computes it, from 0", -1, high=1 << 31
        ),
    ]
    decode: Annotated[
        Array,
        Column(
            "int64",
            "number of the call that computes it, perhaps in several ubatches",
            -1,
            high=1 << 32,
        ),
    ]


@dataclass(frozen=True, slots=True, eq=False)
class TokenSequences(Table):
    """Sequences of tokens: one row for each sequence that a token is of."""

    token: Annotated[I64, Column("int64", "row of the token", of="batch_tokens")]
    sequence: Annotated[
        Array, Column("int32", "number of the sequence in its context", high=1 << 31)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Ubatches:
    """What ubatches hold, by their number.

    Attributes
    ----------
    number : int64[n], ascending.
    n_tokens, n_prompt, n_generated : int64[n]; tokens of no known phase are in neither
        of the last two.
    """

    number: I64
    n_tokens: I64
    n_prompt: I64
    n_generated: I64

    @classmethod
    def of(cls, tokens: BatchTokens) -> "Ubatches":
        """Return the ubatches of some tokens; O(n log n)."""
        number, which = np.unique(tokens.ubatch.astype(np.int64), return_inverse=True)

        def count(chosen: npt.NDArray[np.bool_]) -> I64:
            return np.bincount(which[chosen], minlength=len(number)).astype(np.int64)

        return cls(
            number,
            count(np.ones(len(tokens), np.bool_)),
            count(tokens.phase == Phase.PROMPT),
            count(tokens.phase == Phase.GENERATE),
        )

    def rows(self, numbers: Array) -> I64:
        """Return the row of each ubatch, by its number; -1 where there is none."""
        return places_among(self.number, numbers)


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """How many tokens a recording computes, and in what.

    Attributes
    ----------
    prompt, generated : tokens of these phases; those of no known phase are in neither.
    decodes : calls that compute a batch; -1 where they are not seen.
    sequences : of all contexts; -1 where none is known.
    """

    tokens: int
    prompt: int
    generated: int
    ubatches: int
    decodes: int
    sequences: int
    contexts: int


def token_counts(tokens: BatchTokens, sequences: TokenSequences) -> TokenCounts:
    """Return the counts of some tokens; O(n log n)."""
    calls = np.unique(tokens.decode[tokens.decode >= 0])
    of_context = tokens.context[sequences.token].astype(np.int64)
    number = of_context << 32 | sequences.sequence.astype(np.int64)
    return TokenCounts(
        tokens=len(tokens),
        prompt=int(np.count_nonzero(tokens.phase == Phase.PROMPT)),
        generated=int(np.count_nonzero(tokens.phase == Phase.GENERATE)),
        ubatches=len(np.unique(tokens.ubatch)),
        decodes=len(calls) or -1,
        sequences=len(np.unique(number)) or -1,
        contexts=len(np.unique(tokens.context)),
    )
