"""Passes over the graph and phases of inference, as intervals over all threads."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array
from ggscope.readers.tensor_order import Work
from ggscope.readers.tensor_passes import Rows


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Intervals over all threads: passes, or phases.

    Attributes
    ----------
    start, end : int64[n], ticks, ascending.
    token : int32[n], claimed by the first record.
    phase : uint8[n], claimed by the first record, raw.
    count : int64[n], records; of passes only.
    """

    start: I64
    end: I64
    token: npt.NDArray[np.int32]
    phase: npt.NDArray[np.uint8]
    count: I64


def pass_bands(rows: Rows, token: Array, phase: Array) -> Bands:
    """Return the extent and the claims of every pass.

    Parameters
    ----------
    token, phase : in file order, raw.
    """
    n, first = rows.n_passes, rows.run_first
    start = np.full(n, np.iinfo(np.int64).max)
    end = np.zeros(n, np.int64)
    run_start = rows.start[first]
    np.minimum.at(start, rows.run_pass, run_start)
    if len(first):
        np.maximum.at(end, rows.run_pass, np.maximum.reduceat(rows.end, first))
    by_pass = np.lexsort((run_start, rows.run_pass))
    leader = first[by_pass[np.searchsorted(rows.run_pass[by_pass], np.arange(n))]]
    at = rows.positions(leader)
    lengths = np.diff(np.append(first, len(rows)))
    count = np.bincount(rows.run_pass, lengths, n).astype(np.int64)
    return Bands(start, end, token[at], phase[at], count)


def phase_bands(rows: Rows, phase: Array, passes: Bands, work: Work) -> Bands:
    """Return the stretches of time in which the claimed phase is the same.

    Parameters
    ----------
    phase : of each row, raw.
    """
    at = np.unique(np.append(rows.lane_first[:-1], work.changes(phase)))
    at = at[np.argsort(rows.start[at], kind="stable")]
    at = at[np.append(True, phase[at][1:] != phase[at][:-1])] if len(at) else at
    start = rows.start[at]
    final = int(passes.end.max()) if len(at) else 0
    limit = np.append(start[1:], final) if len(at) else start
    band = np.searchsorted(start, passes.start, "right") - 1
    reach = np.full(len(at), -1, np.int64)
    np.maximum.at(reach, band, passes.end)
    end = np.where(reach < 0, limit, np.minimum(reach, limit))
    token = np.full(len(at), -1, np.int32)
    return Bands(start, end, token, phase[at], np.zeros(len(at), np.int64))
