"""Records with a damaged op or name are altered, and none of them is missing."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ggmlviz_files as events
from ggscope.analysis.completeness.expected import completeness
from ggscope.descriptions.completeness import with_completeness
from ggscope.model.trace import Severity, Trace
from ggscope.readers.registry import open_trace
from support import ROOT, need_corpus
from tensor_files import Rec, Src, encode, llama_trace

OP_AT, NAME_AT, SIZE = 16, 24, 256
UNKNOWN_OP = 200
SAMPLE = ROOT / "resources" / "samples" / "tinyllama-256.bin"


def damaged(data: bytes, rows: list[int], change: Callable[[bytearray, int], None]):
    """Return records of 256 bytes of which some are changed."""
    raw = bytearray(data)
    for row in rows:
        change(raw, row * SIZE)
    return bytes(raw)


def with_unknown_op(raw: bytearray, at: int) -> None:
    raw[at + OP_AT] = UNKNOWN_OP


def with_broken_name(raw: bytearray, at: int) -> None:
    raw[at + NAME_AT + 1] = 0xFF


def judged(folder: Path, data: bytes, name: str = "trace.bin"):
    """Return how complete a file is, and the trace with the problems of that."""
    path = folder / name
    path.write_bytes(data)
    trace = open_trace(path)
    result = completeness(trace)
    return result, with_completeness(trace, result)


def severities(trace: Trace) -> dict[str, Severity]:
    return {warning.code: warning.severity for warning in trace.warnings}


@pytest.mark.parametrize("change", [with_unknown_op, with_broken_name])
@pytest.mark.parametrize("n_passes", [2, 3, 9])
def test_damaged_records_are_altered_and_not_missing(n_passes, change, tmp_path):
    data = encode(llama_trace(n_passes, n_layers=20), "256")
    n = len(data) // SIZE
    rows = np.random.default_rng(n_passes).choice(range(1, n // n_passes), 12, False)
    rows = [int(row) for row in rows if row % (n // n_passes)]

    result, trace = judged(tmp_path, damaged(data, rows, change))

    assert result.is_known
    assert (result.n_missing, result.n_altered) == (0, len(rows))
    assert result.n_there == n
    report = severities(trace)
    assert "records_missing" not in report
    assert report["records_altered"] is Severity.NOTICE
    assert {trace.record_of(span) for span in result.altered} <= set(rows)


def test_whole_passes_have_no_altered_records(tmp_path):
    result, trace = judged(tmp_path, encode(llama_trace(3), "256"))

    assert (result.n_missing, result.n_altered) == (0, 0)
    assert "records_altered" not in severities(trace)


def test_record_that_is_lost_beside_damaged_ones_is_missing(tmp_path):
    records = llama_trace(4, n_layers=20)
    data = encode(records[:30] + records[31:], "256")

    result, _ = judged(tmp_path, damaged(data, [40, 50, 60], with_unknown_op))

    assert (result.n_missing, result.n_altered) == (1, 3)
    assert result.gaps[0].name == records[30].dst


def test_op_that_is_damaged_in_every_pass_is_not_missing(tmp_path):
    data = encode(llama_trace(2, n_layers=20), "256")
    n = len(data) // SIZE // 2

    result, _ = judged(tmp_path, damaged(data, [14, 14 + n], with_unknown_op))

    assert result.n_missing == 0


def test_damaged_op_of_a_name_that_comes_twice_is_not_missing(tmp_path):
    """One unknown number stands for MUL_MAT in one pass, for ROPE in the other."""
    records = llama_trace(5, n_layers=20)
    n = len(records) // 5
    name = records[10].dst
    first = next(i for i, r in enumerate(records) if r.dst == name and r.op == 29)
    second = n + next(i for i, r in enumerate(records) if r.dst == name and r.op == 48)

    data = encode(records, "256")
    result, _ = judged(tmp_path, damaged(data, [first, second], with_unknown_op))

    assert (result.n_missing, result.n_altered) == (0, 2)


def test_label_that_is_no_text_is_altered(tmp_path):
    data = bytearray(events.packed(events.run(5, 3)))
    data[data.find(b"matmul-1")] = 0xFF

    result, trace = judged(tmp_path, bytes(data), "t.ggmlviz")

    assert (result.n_missing, result.n_altered, result.n_there) == (0, 1, 40)
    report = severities(trace)
    assert "records_missing" not in report
    assert max(report.values()) < Severity.DATA_LOSS


@pytest.mark.parametrize("seed", range(4))
def test_share_of_a_sample_that_is_damaged_is_altered(seed, tmp_path):
    data = SAMPLE.read_bytes()
    live = [
        i for i in range(len(data) // SIZE) if any(data[i * SIZE : i * SIZE + SIZE])
    ]
    rows = np.random.default_rng(seed).choice(live, len(live) // 50, False).tolist()

    result, _ = judged(tmp_path, damaged(data, rows, with_unknown_op))

    assert (result.n_missing, result.n_altered) == (0, len(rows))


@pytest.mark.parametrize("seed", range(4))
def test_damaged_op_bytes_of_a_real_trace_are_no_loss(seed, tmp_path):
    data = (need_corpus() / "tracer/trace_256_3584a339.bin").read_bytes()
    rows = np.random.default_rng(seed).choice(len(data) // SIZE, 12, False).tolist()

    result, _ = judged(tmp_path, damaged(data, rows, with_unknown_op))

    assert (result.n_missing, result.n_there) == (0, 582)


@pytest.mark.parametrize("is_readable", [True, False])
def test_names_that_never_come_again_are_not_compared_one_by_one(
    is_readable: bool, tmp_path: Path
) -> None:
    """1,800 ops have a name of their own each; comparing all pairs took a minute."""
    passes = []
    for token in range(2):
        for i in range(900):
            at = 1_000_000 * token + 20 * i
            passes.append(Rec(at, f"x{token}-{i}", 29, (Src("a"),), token=token))
        for i in range(40):
            at = 1_000_000 * token + 20 * (900 + i)
            passes.append(Rec(at, f"same{i}", 2, (Src("a"),), token=token))
    data = encode(passes, "256")
    if not is_readable:
        data = data.replace(b"\0x", b"\0\xff")

    begin = time.process_time()
    result, _ = judged(tmp_path, data)

    assert result.n_altered == 0
    assert time.process_time() - begin < 10
