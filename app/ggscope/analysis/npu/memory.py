"""Where in SPM and DRAM an NPU reads and writes, and how its banks are used."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.npu.intervals import Union, union
from ggscope.analysis.once import once
from ggscope.model.npu import NpuConfig, npu_config
from ggscope.model.tables import I64, AccessKind, Quality, Space, Table, quality_of
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Accesses(Table):
    """Recorded accesses to one memory, in order of time.

    Attributes
    ----------
    row : int64[n], of the trace's loose accesses.
    time : int64[n], ticks.
    address : int64[n], in the memory; -1 where not stated.
    size : int64[n], bytes; -1 where not stated.
    is_write : bool[n].
    """

    row: I64
    time: I64
    address: I64
    size: I64
    is_write: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Transfers(Table):
    """Spans that state the bank of the SPM that they move to or from.

    Attributes
    ----------
    span : int64[m], ids.
    bank : int64[m].
    offset, size : int64[m], bytes in the bank; -1 where not stated.
    """

    span: I64
    bank: I64
    offset: I64
    size: I64


@dataclass(frozen=True, slots=True, eq=False)
class Bank:
    """Use of one bank of the SPM.

    Attributes
    ----------
    n_transfers : spans that name it.
    busy : ticks in which one of them runs, each counted once.
    moved : bytes that they state; -1 where none does.
    n_accesses : recorded accesses whose address lies in it; None where the size of a
        bank is not stated.
    read, written : bytes of these accesses, as far as stated; -1 where none is.
    """

    number: int
    n_transfers: int
    busy: int
    moved: int
    n_accesses: int | None
    read: int
    written: int


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What a trace records of SPM and DRAM.

    Attributes
    ----------
    spm, dram : accesses to each.
    transfers : spans that name a bank.
    banks : of the configuration, and all that are used beyond.
    busy : when transfers of each of `banks` run.
    config : what the trace states of both.
    """

    spm: Accesses
    dram: Accesses
    transfers: Transfers
    banks: tuple[Bank, ...]
    busy: Union
    config: NpuConfig

    @property
    def has_spm(self) -> bool:
        """Whether anything is recorded of the SPM."""
        return bool(len(self.spm) or len(self.transfers))

    def bank_of(self, address: I64) -> I64:
        """Return the bank of addresses of the SPM; -1 where it cannot be determined."""
        size = self.config.bank_bytes
        if size is None:
            return np.full(len(address), -1, np.int64)
        return np.where(address >= 0, address // size, -1)


_MAX_BANKS = 4096
"""Banks that are listed; numbers beyond are no banks but mistakes."""


@once
def memory_of(trace: Trace) -> Memory:
    """Return what a trace records of SPM and DRAM; O(n)."""
    config = npu_config(trace)
    spm, dram = _accesses(trace, Space.SPM), _accesses(trace, Space.DRAM)
    transfers = _transfers(trace)
    size = config.bank_bytes
    bank = np.full(len(spm), -1, np.int64)
    if size is not None:
        bank = np.where(spm.address >= 0, spm.address // size, -1)
    used = max(
        int(transfers.bank.max(initial=-1)), int(bank.max(initial=-1)),
        (config.n_banks or 0) - 1,
    )  # fmt: skip
    n = min(used + 1, _MAX_BANKS)
    spans = trace.spans
    known = quality_of(spans.flags[transfers.span]) <= Quality.DERIVED
    rows = np.flatnonzero(known & (transfers.bank < n))
    timed = transfers.span[rows]
    busy = union(transfers.bank[rows], spans.start[timed], spans.end[timed], n)
    count = _counts(transfers.bank, n)
    moved = _sums(transfers.bank, transfers.size, n)
    n_accesses = _counts(bank, n)
    read = _sums(np.where(spm.is_write, -1, bank), spm.size, n)
    written = _sums(np.where(spm.is_write, bank, -1), spm.size, n)
    totals = busy.totals
    banks = tuple(
        Bank(
            number=i,
            n_transfers=int(count[i]),
            busy=int(totals[i]),
            moved=int(moved[i]),
            n_accesses=int(n_accesses[i]) if size is not None else None,
            read=int(read[i]),
            written=int(written[i]),
        )
        for i in range(n)
    )
    return Memory(spm, dram, transfers, banks, busy, config)


def _accesses(trace: Trace, space: Space) -> Accesses:
    loose = trace.accesses.loose
    row = np.flatnonzero(loose.what.space == space)
    row = row[np.argsort(loose.time[row], kind="stable")]
    return Accesses(
        row,
        loose.time[row],
        loose.what.offset[row].astype(np.int64),
        loose.what.size[row].astype(np.int64),
        loose.what.kind[row] == AccessKind.WRITE,
    )


def _transfers(trace: Trace) -> Transfers:
    spans = trace.spans
    none = np.zeros(0, np.int64)
    if spans.bank is None:
        return Transfers(none, none, none, none)
    ids = np.flatnonzero(spans.bank >= 0)
    unknown = np.full(len(ids), -1, np.int64)
    offset, moved = spans.bank_offset, spans.moved
    return Transfers(
        ids,
        spans.bank[ids].astype(np.int64),
        unknown if offset is None else offset[ids].astype(np.int64),
        unknown if moved is None else moved[ids].astype(np.int64),
    )


def _counts(bank: I64, n: int) -> I64:
    inside = bank[(bank >= 0) & (bank < n)]
    return np.bincount(inside, minlength=n).astype(np.int64)


def _sums(bank: I64, size: I64, n: int) -> I64:
    """Return the stated bytes of each bank; -1 where none is stated."""
    some = (bank >= 0) & (bank < n) & (size >= 0)
    total, seen = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    np.add.at(total, bank[some], size[some])
    seen[bank[some]] = True
    return np.where(seen, total, -1)
