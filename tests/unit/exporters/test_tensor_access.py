"""Ops as 256-byte records: what came from such a file goes back byte for byte."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import OPS, finished, llama_like_trace, spans_trace
from ggscope.errors import ExportError
from ggscope.exporters import tensor_access
from ggscope.exporters.events import Events
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import NO_WAIT, AccessKind, SpanFlag
from ggscope.model.trace import LaneKind, OpTable, Trace
from ggscope.model.units import TimeRange
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace
from statements import new_statements
from support import need_corpus
from tensor_files import (
    NO_INDEX,
    NO_LAYER,
    Rec,
    Src,
    decode,
    encode,
    llama_trace,
    weight,
)
from wait_traces import with_waits

SAMPLES = Path(__file__).parents[3] / "resources" / "samples"
REAL = ("trace_256_3584a339.bin", "trace_256_c26d86e7.bin", "trace_256_truncated.bin")


def written(events: Events) -> bytes:
    return b"".join(tensor_access.chunks(events))


def read(folder: Path, data: bytes, **options: str) -> Trace:
    path = folder / "run.bin"
    path.write_bytes(data)
    return open_trace(
        path, reader_id="tensor-access", context=ReadContext(options=options)
    )


def ops_of(trace: Trace) -> Counter[str]:
    return Counter(trace.op_name(op) for op in trace.spans.op.tolist() if op >= 0)


def losses(trace: Trace) -> str:
    return "\n".join(tensor_access.losses(Events(trace)))


@pytest.mark.parametrize("name", REAL)
def test_real_trace_comes_back_byte_for_byte(name: str) -> None:
    path = need_corpus() / "tracer" / name
    whole = path.read_bytes()

    data = written(Events(open_trace(path)))

    assert data == whole[: len(whole) // 256 * 256]


def test_sample_comes_back_byte_for_byte() -> None:
    path = SAMPLES / "tinyllama-256.bin"

    assert written(Events(open_trace(path))) == path.read_bytes()


@given(
    times=st.lists(st.integers(1, 10**6), min_size=3, max_size=30, unique=True),
    n_sources=st.integers(0, 4),
    token=st.sampled_from([0, 7]),
)
def test_records_that_are_read_are_the_ones_that_are_written(
    tmp_path_factory: pytest.TempPathFactory,
    times: list[int],
    n_sources: int,
    token: int,
) -> None:
    sources = tuple(
        weight(f"blk.{k}.w", k, 4096 * k) if k % 2 else Src(f"x{k}", size=k * 100)
        for k in range(n_sources)
    )
    records = [
        Rec(time, f"out-{i % 3}", i % 5 + 1, sources, token, layer=i % 2, phase=i % 2)
        for i, time in enumerate(sorted(times))
    ]
    data = encode(records, "256")

    trace = read(tmp_path_factory.mktemp("made"), data, layout="256")

    assert written(Events(trace)) == data


def test_measured_durations_are_kept_in_the_spare_bytes(tmp_path: Path) -> None:
    records = [replace(r, duration=100 + i) for i, r in enumerate(llama_trace(2))]
    data = encode(records, "256")

    trace = read(tmp_path, data)

    assert written(Events(trace)) == data
    assert "measured" not in losses(trace)


def test_part_is_a_trace_of_its_own(tmp_path: Path) -> None:
    records = llama_trace(3)
    trace = read(tmp_path, encode(records, "256"))
    s = trace.spans
    keep = s.op == 29
    time = TimeRange(0, int(trace.extent.end) // 2)

    data = written(Events(trace, keep, time))

    begin = records[0].time
    expected = [r for r in records if r.op == 29 and r.time - begin < time.end]
    assert decode(data, "256") == expected
    assert len(expected) > 3
    # Another part of a trace would have its ops inferred from other evidence.
    assert read(tmp_path, data).ops == replace(
        trace.ops, source="declared", margin=None
    )


def test_ops_of_other_traces_come_back(tmp_path: Path) -> None:
    trace = open_trace(SAMPLES / "llama.ggmlviz")

    data = written(Events(trace))
    back = read(tmp_path, data)

    assert ops_of(back) == ops_of(trace)
    assert back.ops is not None
    assert back.ops.source == "declared"
    assert written(Events(back)) == data


def test_numbers_are_of_a_table_that_has_all_ops(tmp_path: Path) -> None:
    names = ("MUL_MAT", "SWAP_OF_NOBODY", "SOLVE_TRI", "FLASH_ATTN_EXT")
    ops = OpTable("capture", names)
    trace = replace(spans_trace([0, 10, 20], [5, 15, 25], op=[0, 2, 3]), ops=ops)

    back = read(tmp_path, written(Events(trace)), layout="256")

    assert ops_of(back) == {"MUL_MAT": 1, "SOLVE_TRI": 1, "FLASH_ATTN_EXT": 1}


def test_op_without_an_end_has_no_duration(tmp_path: Path) -> None:
    flags = np.array([0, SpanFlag.UNFINISHED, 0], np.uint16)
    trace = spans_trace([0, 10, 30], [5, 900, 40], op=[1, 2, 3], flags=flags)

    text = decode(written(Events(trace)), "256")

    assert [r.duration for r in text] == [5, 0, 10]


def test_names_fill_their_fields(tmp_path: Path) -> None:
    record = Rec(1000, "d" * 24, 29, (weight("w" * 20, 3),) * 2)
    data = encode([replace(record, time=1000 + i) for i in range(4)], "256")

    trace = read(tmp_path, data, layout="256")

    assert written(Events(trace)) == data
    assert "cut" not in losses(trace)


def test_other_traces_give_ops_without_sources(tmp_path: Path) -> None:
    trace = open_trace(SAMPLES / "llama.ggmlviz")
    s = trace.spans
    ops = np.flatnonzero(s.op >= 0)

    text = decode(written(Events(trace)), "256")
    back = read(tmp_path, written(Events(trace)), ops="ggml-2025-11-25-95")

    assert len(text) == len(ops) == tensor_access.n_spans(Events(trace))
    start = np.sort(s.start[ops]) + trace.clock.origin
    assert [r.time for r in text] == start.tolist()
    assert sum(r.duration for r in text) == int((s.end - s.start)[ops].sum())
    assert {r.token for r in text} == {NO_INDEX}
    assert {r.phase for r in text} == {255}
    assert {len(r.sources) for r in text} == {0}
    names = {trace.strings[i].encode()[:24].decode() for i in s.name[ops].tolist()}
    assert {r.dst for r in text} == names
    counts = [np.unique([t.op_name(i) for i in t.spans.op[t.spans.op >= 0].tolist()],
                        return_counts=True) for t in (trace, back)]  # fmt: skip
    for one, other in zip(*counts, strict=True):
        assert one.tolist() == other.tolist()


def test_accesses_of_a_trace_without_records_are_its_sources() -> None:
    trace = llama_like_trace(tokens=1, layers=2)

    text = decode(written(Events(trace)), "256")

    with_weight = [r for r in text if any(s.mem == 0 for s in r.sources)]
    assert with_weight
    source = next(s for s in with_weight[0].sources if s.mem == 0)
    assert source.name.startswith("blk.0.")
    assert (source.size, source.where, source.layer) == (1 << 16, 0, 0)


def test_nothing_chosen_is_an_empty_file() -> None:
    trace = llama_like_trace()
    assert written(Events(trace, np.zeros(len(trace.spans), np.bool_))) == b""


def test_names_that_were_not_read_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "run.bin"
    path.write_bytes(encode(llama_trace(2), "256"))
    trace = open_trace(path, context=ReadContext(options={"names": "none"}))

    with pytest.raises(ExportError, match="were not read"):
        written(Events(trace))


def test_what_is_lost_is_listed(tmp_path: Path) -> None:
    def of(*records: Rec) -> str:
        return losses(read(tmp_path, encode(records * 8, "1024"), layout="1024"))

    plain = Rec(1000, "out", 2, (weight("blk.0.w", 0),), layer=NO_LAYER)
    usual = of(plain)
    measured = spans_trace([0, 10], [5, 20], op=[1, 2])
    mixed = spans_trace(
        [0, 10], [5, 20], op=[1, 2], flags=[0, int(SpanFlag.INFERRED_END)]
    )
    npu = open_trace(SAMPLES / "npu-prefill-decode.json")
    like = llama_like_trace()

    assert new_statements(losses(npu), losses(measured))
    assert new_statements(losses(measured), losses(spans_trace([], [])))
    assert new_statements(losses(mixed), losses(measured))
    assert new_statements(losses(spans_trace([0], [1 << 41], op=[1])), losses(measured))
    assert new_statements(losses(npu), losses(measured))
    assert new_statements(losses(measured), usual)
    assert new_statements(of(replace(plain, dst="x" * 25)), usual)
    assert new_statements(
        of(replace(plain, sources=(weight("blk.0." + "w" * 20, 0),))), usual
    )
    assert new_statements(losses(wrote(like)), losses(like))
    assert new_statements(losses(of_many(like)), losses(like))
    assert new_statements(losses(sized(like, 1 << 33)), losses(like))
    assert new_statements(losses(sized(like, -1)), losses(like))
    assert new_statements(losses(elsewhere(like)), losses(like))
    assert new_statements(losses(cored()), losses(measured))
    waits = losses(with_waits(measured, np.array([3, NO_WAIT])))
    assert new_statements(waits, losses(measured))
    assert "waits of 1 ops" in waits


def changed(trace: Trace, **columns: np.ndarray) -> Trace:
    patterns = replace(trace.accesses.patterns, **columns)
    return replace(trace, accesses=replace(trace.accesses, patterns=patterns))


def wrote(trace: Trace) -> Trace:
    kind = trace.accesses.patterns.kind.copy()
    kind[0] = AccessKind.WRITE
    return changed(trace, kind=kind)


def sized(trace: Trace, size: int) -> Trace:
    sizes = trace.accesses.patterns.size.copy()
    sizes[0] = size
    return changed(trace, size=sizes)


def elsewhere(trace: Trace) -> Trace:
    space = trace.accesses.patterns.space.copy()
    space[0] = 2
    return changed(trace, space=space)


def of_many(trace: Trace) -> Trace:
    first = np.array([0, len(trace.accesses.patterns)])
    pattern = np.where(trace.spans.op >= 0, 0, -1).astype(np.int32)
    accesses = replace(trace.accesses, first=first, pattern=pattern)
    return replace(trace, accesses=accesses)


def cored() -> Trace:
    return spans_trace([0, 10], [5, 20], op=[1, 2], core=[0, 1])


def test_ops_have_numbers_that_a_reader_of_the_form_expects() -> None:
    mul_mat = OPS.names.index("MUL_MAT")
    (record,) = decode(written(Events(spans_trace([0], [5], op=[mul_mat]))), "256")

    assert record.op == 29


def test_hostile_names_fit_their_fields() -> None:
    names = ["a\0b\x1b[31m", "x" + "é" * 40, "\ud800"]
    builder = TraceBuilder()
    builder.ops = OPS
    lane = builder.add_lane("x", LaneKind.THREAD)
    builder.add_spans(
        start=np.arange(3) * 10,
        end=np.arange(3) * 10 + 5,
        lane=np.full(3, lane),
        name=np.array(builder.strings.intern_many(names)),
        op=np.ones(3, np.int16),
    )

    data = written(Events(finished(builder)))

    fields = [data[k * 256 + 24 : k * 256 + 48] for k in range(3)]
    expected = [b"ab\x1b[31m", ("x" + "é" * 11).encode(), b"?"]
    assert fields == [text.ljust(24, b"\0") for text in expected]


def test_what_the_form_has_no_place_for_is_named() -> None:
    npu = losses(open_trace(SAMPLES / "npu-prefill-decode.json"))
    own = losses(open_trace(SAMPLES / "tinyllama-256.bin"))

    assert "omitted: markers and counters, tensor accesses." in npu
    assert "omitted: buffers." in own
