"""Banks of the SPM, addresses, and bits against plain sums."""

import json
from pathlib import Path

import pytest

from ggscope.analysis.npu.memory import memory_of
from ggscope.analysis.npu.quantisation import op_bits
from ggscope.model.trace import Trace
from npu_files import access, document, engine, read_text

CONFIG = {"memory": {"spm_banks": 4, "spm_bank_size_bytes": 1024}}


def trace_of(folder: Path, *events: object, config: object = CONFIG) -> Trace:
    """Return the trace of some events."""
    return read_text(folder, json.dumps(document(*events, config_snapshot=config)))


def transfer(start: int, end: int, bank: int, **details: object) -> dict[str, object]:
    """Return a transfer that names a bank."""
    return engine(
        start, end, engine="DMA", op="DMA_LOAD", details={"spm_bank": bank, **details}
    )


def test_banks_count_transfers_and_accesses(tmp_path: Path) -> None:
    memory = memory_of(
        trace_of(
            tmp_path,
            transfer(0, 10, 2, spm_offset=512, bytes=100),
            transfer(5, 15, 2, bytes=20),
            transfer(0, 4, 0),
            access(3, mem_type="SPM", addr=2 * 1024 + 7, bytes=8),
            access(4, mem_type="SPM", addr=1024, bytes=16, direction="write"),
            access(5, mem_type="SPM", addr=None, bytes=4),
            access(6, addr=120_000),
        )
    )

    table = [
        (b.n_transfers, b.busy, b.moved, b.n_accesses, b.read, b.written)
        for b in memory.banks
    ]
    assert table == [
        (1, 4, -1, 0, -1, -1),
        (0, 0, -1, 1, -1, 16),
        (2, 15, 120, 1, 8, -1),
        (0, 0, -1, 0, -1, -1),
    ]
    assert memory.transfers.offset.tolist() == [512, -1, -1]
    assert memory.spm.address.tolist() == [2055, 1024, -1]
    assert memory.dram.address.tolist() == [120_000]
    assert memory.bank_of(memory.spm.address).tolist() == [2, 1, -1]


def test_accesses_lie_in_no_bank_of_unknown_size(tmp_path: Path) -> None:
    memory = memory_of(
        trace_of(tmp_path, access(1, mem_type="SPM", addr=9), transfer(0, 1, 1),
                 config={})
    )  # fmt: skip

    assert [b.n_accesses for b in memory.banks] == [None, None]
    assert [b.n_transfers for b in memory.banks] == [0, 1]
    assert memory.bank_of(memory.spm.address).tolist() == [-1]


def test_trace_without_memory_records_has_none(tmp_path: Path) -> None:
    memory = memory_of(trace_of(tmp_path, engine(0, 1), config={}))

    assert not memory.has_spm
    assert len(memory.dram) == 0
    assert memory.banks == ()


@pytest.mark.parametrize("bits", [4, 8])
def test_ops_are_distinguished_by_bits(tmp_path: Path, bits: int) -> None:
    trace = trace_of(
        tmp_path,
        engine(0, 10, op="A", details={"qbits_weight": bits, "bytes": 100}),
        engine(0, 30, op="A", details={"qbits_weight": bits}),
        engine(0, 7, op="A", details={"qbits": 16}),
        engine(0, 9, op="A"),
        engine(0, 5, op="B", details={"qbits_activation": bits}),
    )

    result = op_bits(trace)

    table = [(x.op, x.bits, len(x.spans), x.mean_ticks, x.mean_moved) for x in result]
    assert table == [
        ("A", bits, 2, 20, 100),
        ("A", 16, 1, 7, None),
        ("B", bits, 1, 5, None),
    ]  # fmt: skip


def test_trace_without_bits_has_no_ops_by_bits(tmp_path: Path) -> None:
    assert op_bits(trace_of(tmp_path, engine(0, 1))) == ()
