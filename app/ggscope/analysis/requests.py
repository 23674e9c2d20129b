"""How long requests of a server wait and take, from what its log states."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.requests import Requests

F64 = npt.NDArray[np.float64]
PERCENTILES = (50, 90, 99)
_S, _MS = 1e9, 1e6


@dataclass(frozen=True, slots=True, eq=False)
class RequestTimes:
    """What each request waits and takes; float64[n], NaN where not in the log.

    Attributes
    ----------
    queued_ms : from when a slot took it to the begin of its prompt.
    first_token_ms : from then to the end of its prompt, behind which the first token
        is sampled; of the prompt alone where the wait is not known.
    prompt_per_s, generated_per_s : tokens per second of time that the log states.
    per_token_ms : generated time over tokens.
    acceptance : share of drafted tokens that were accepted.
    accepted_per_draft : tokens that were accepted, per draft.
    """

    queued_ms: F64
    first_token_ms: F64
    prompt_per_s: F64
    generated_per_s: F64
    per_token_ms: F64
    acceptance: F64
    accepted_per_draft: F64


def request_times(requests: Requests) -> RequestTimes:
    """Return what requests wait and take."""
    queued = known(requests.queued) / _MS
    prompt = known(requests.prompt_time) / _MS
    generated = known(requests.generated_time) / _MS
    n_prompt, n_generated = known(requests.n_prompt), known(requests.n_generated)
    return RequestTimes(
        queued_ms=queued,
        first_token_ms=prompt + np.nan_to_num(queued),
        prompt_per_s=_ratio(n_prompt * 1e3, prompt),
        generated_per_s=_ratio(n_generated * 1e3, generated),
        per_token_ms=_ratio(generated, n_generated),
        acceptance=_ratio(known(requests.n_accepted), known(requests.n_drafted)),
        accepted_per_draft=_ratio(known(requests.n_accepted), known(requests.n_rounds)),
    )


@dataclass(frozen=True, slots=True)
class RequestShares:
    """Where the time of requests goes: of those that the log gives both times of.

    Attributes
    ----------
    n : how many they are.
    queued, prompt, generated : shares of their summed time, 0..1; `queued` is None, and
        no part of the sum, unless the log states it of each of them.
    reprocessed : of the prompt tokens that were computed, the share that had been in
        the cache; None unless the log states it of each of them.
    """

    n: int
    queued: float | None
    prompt: float
    generated: float
    reprocessed: float | None


def request_shares(requests: Requests) -> RequestShares | None:
    """Return where the time of requests goes; None where no request has times."""
    timed = (requests.prompt_time >= 0) & (requests.generated_time >= 0)
    queued = known(requests.queued[timed])
    again = known(requests.n_reprocessed[timed])
    computed = known(requests.n_prompt[timed])
    prompt = float(requests.prompt_time[timed].sum())
    generated = float(requests.generated_time[timed].sum())
    waited = float(queued.sum()) if np.isfinite(queued).all() else None
    whole = (waited or 0.0) + prompt + generated
    if not whole:
        return None
    share = float(again.sum() / computed.sum()) if computed.sum() > 0 else np.nan
    return RequestShares(
        int(timed.sum()),
        None if waited is None else waited / whole,
        prompt / whole,
        generated / whole,
        share if np.isfinite(share) else None,
    )


def percentiles(values: F64) -> Mapping[int, float]:
    """Return `PERCENTILES` of the known values; none where there is none."""
    values = values[np.isfinite(values)]
    if not len(values):
        return {}
    at = np.percentile(values, PERCENTILES).tolist()
    return dict(zip(PERCENTILES, at, strict=True))


def known(values: npt.NDArray[np.integer]) -> F64:
    """Return numbers of which -1 is unknown, as NaN."""
    numbers: F64 = np.array(values, np.float64)
    numbers[values < 0] = np.nan
    return numbers


def _ratio(a: F64, b: F64) -> F64:
    ratio = np.full(len(a), np.nan)
    np.divide(a, b, out=ratio, where=b > 0)
    return ratio
