"""How many experts compute, by the sizes of the tensors that hold the choice."""

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import UNKNOWN_MORE
from ggscope.model.tables import I64, Array, Bools, ranked
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.tensor.names import Patterns
from ggscope.readers.tensor.passes import Draft
from ggscope.readers.tensor.routing.rows import layer_key, pass_of

MAX_LISTED = 16
"""Experts that one record can list."""
_ID_BYTES = 4


class ExpertSizes:
    """What the sizes of tensors show about how many experts compute.

    ``ffn_moe_topk`` is a view of the sorted experts: k of E numbers for each of T
    tokens, (T - 1) * E + k numbers from end to end; or T * k where an op of its own
    makes it. ``ffn_moe_probs`` has T * E numbers, and T is the length of the tokens
    that ``inp_embd`` is looked up with. All numbers have four bytes.

    In the last layer T may be less, for only some tokens are computed there.

    Attributes
    ----------
    n_tokens : int64[n_passes], 0 unknown.
    n_experts : E; 0 unknown.
    """

    def __init__(
        self,
        builder: TraceBuilder,
        draft: Draft,
        patterns: Patterns,
        of_row: Array,
        chunked: ChunkedOps,
    ) -> None:
        self._draft = draft
        self._of_row = of_row
        self._layer = patterns.layer.astype(np.int64)
        names = [builder.strings[i] for i in patterns.tensors.name.tolist()]
        self._topk = _largest(patterns, _starting(names, "ffn_moe_topk"))
        probs = _largest(patterns, _starting(names, "ffn_moe_probs"))
        tokens = _token_counts(builder, patterns, names)
        n = len(draft.rows.start)
        rows = chunked.find(n, lambda chunk: tokens[of_row[chunk]] > 0)
        self.n_tokens = np.zeros(draft.rows.n_passes, np.int64)
        np.maximum.at(self.n_tokens, pass_of(draft, rows), tokens[of_row[rows]])
        self.n_experts = 0
        rows = chunked.find(n, lambda chunk: probs[of_row[chunk]] > 0)
        size = probs[of_row[rows]]
        self._keys, _, place = ranked(self._key(rows))
        self._probs = np.zeros(len(self._keys), np.int64)
        np.maximum.at(self._probs, place, size)
        n_tokens = self.n_tokens[pass_of(draft, rows)]
        size, n_tokens = size[n_tokens > 0], n_tokens[n_tokens > 0]
        if len(size):
            share, rest = np.divmod(size, _ID_BYTES * n_tokens)
            self.n_experts = int(share[rest == 0].max(initial=0))

    def _key(self, rows: I64) -> I64:
        """Return pass and layer of each row as one number."""
        return layer_key(self._draft, rows, self._layer[self._of_row[rows]])

    def _tokens_of(self, rows: I64) -> I64:
        """Return the tokens that the router of each row's layer saw, 0 unknown."""
        of_pass = self.n_tokens[pass_of(self._draft, rows)]
        if not self.n_experts or not len(self._keys):
            return of_pass
        key = self._key(rows)
        at = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        each, rest = np.divmod(self._probs[at], _ID_BYTES * self.n_experts)
        good = (self._keys[at] == key) & (rest == 0) & (each > 0)
        return np.where(good, each, of_pass)

    def n_used(self, rows: I64) -> I64:
        """Return how many experts compute for each row and token, -1 unknown."""
        length = self._topk[self._of_row[rows]] // _ID_BYTES
        n_tokens = self._tokens_of(rows)
        strided = length - (n_tokens - 1) * self.n_experts
        is_strided = (strided >= 1) & (strided <= self.n_experts)
        packed = length // np.maximum(n_tokens, 1)
        used = np.where((n_tokens > 1) & is_strided, strided, packed)
        return np.where((length > 0) & (n_tokens > 0) & (used > 0), used, -1)

    def n_more(self, rows: I64, used: I64, count: I64) -> I64:
        """Return how many choices lists do not name; they are those of one token.

        Parameters
        ----------
        used : as `n_used`. count : how many each list names.
        """
        n_tokens = self._tokens_of(rows)
        more = used * n_tokens - np.minimum(used, count)
        all_compute = (used == self.n_experts) & (self.n_experts > 0)
        is_whole = (n_tokens == 1) & (count < MAX_LISTED)
        unknown = np.where(is_whole, 0, UNKNOWN_MORE)
        return np.where(used < 0, unknown, np.where(all_compute, 0, more))


def _starting(names: list[str], beginning: str) -> Bools:
    return np.array([name.startswith(beginning) for name in names], np.bool_)


def _largest(patterns: Patterns, is_chosen: Bools) -> I64:
    """Return the largest access of each pattern to some tensors, 0 for none.

    The last row is that of "no pattern".
    """
    c = patterns.columns
    rows = np.flatnonzero(np.append(is_chosen, False)[c.tensor])
    pattern = np.searchsorted(patterns.first, rows, "right") - 1
    largest = np.zeros(len(patterns.first), np.int64)
    np.maximum.at(largest, pattern, c.size[rows])
    return largest


def _token_counts(builder: TraceBuilder, patterns: Patterns, names: list[str]) -> I64:
    """Return the tokens that each pattern looks up embeddings for, 0 for the others."""
    is_weight = np.array([".w" in name for name in names], np.bool_)
    n_tokens = _largest(patterns, ~is_weight) // _ID_BYTES
    embeds = np.array(
        [builder.strings[i] == "inp_embd" for i in patterns.name.tolist()], np.bool_
    )
    return np.where(embeds, n_tokens, 0)
