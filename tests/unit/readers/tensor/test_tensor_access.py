"""The tensor-access reader as a whole, against the corpus and a slow reader."""

import json
import resource
import threading
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracles
from ggscope.errors import (
    Cancelled,
    CorruptError,
    LimitExceededError,
    ReadError,
)
from ggscope.model.tables import Phase, Quality, Space, SpanFlag, quality_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers import chunked
from ggscope.readers.api import Head, Limits, ReadContext
from ggscope.readers.registry import open_trace
from ggscope.readers.source import Source
from ggscope.readers.tensor import columns as tensor_columns
from ggscope.readers.tensor import passes as tensor_passes
from ggscope.readers.tensor import scan as tensor_scan
from ggscope.readers.tensor.reader import TensorAccessReader
from support import need_corpus
from tensor_files import (
    LAYOUTS,
    NO_LAYER,
    SIZES,
    Rec,
    Src,
    assert_same_table,
    buffer_event,
    decode,
    encode,
    llama_pass,
    llama_trace,
    one_source_each,
    weight,
)

READER = TensorAccessReader()
TABLE = "ggml-2025-11-25-95"


def read(path: Path, **kwargs: Any) -> Trace:
    with Source(path) as source:
        trace = READER.read(source, ReadContext(**kwargs))
    assert trace.check() == []
    return trace


def read_records(tmp_path: Path, records: list[Rec], layout: str = "256") -> Trace:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, layout))
    return read(path)


def ops(trace: Trace) -> np.ndarray:
    """Return the ids of the spans that are records."""
    return np.flatnonzero(trace.spans.op >= 0)


def bytes_read() -> int:
    """Return how many bytes this process has read from files so far."""
    counters = Path("/proc/self/io")
    if not counters.is_file():
        pytest.skip("this system does not count the bytes that a process reads")
    return int(counters.read_text().split()[1])


def codes(trace: Trace) -> set[str]:
    return {w.code for w in trace.warnings}


def on_lane(trace: Trace, kind: LaneKind) -> list[tuple[str, int, int]]:
    """Return (name, start, end) of the spans on lanes of a kind."""
    lanes = [lane.id for lane in trace.lanes if lane.kind == kind]
    ids = np.flatnonzero(np.isin(trace.spans.lane, lanes))
    return [
        (trace.span_name(i), int(trace.spans.start[i]), int(trace.spans.end[i]))
        for i in ids.tolist()
    ]


def assert_same(a: object, b: object, where: str = "") -> None:
    """Compare two tables, column by column."""
    if isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray), where
        assert np.array_equal(a, b), where
    elif is_dataclass(a) and not isinstance(a, type):
        for f in fields(a):
            assert_same(getattr(a, f.name), getattr(b, f.name), f"{where}.{f.name}")
    else:
        assert a == b, where


def names(trace: Trace) -> list[list[str]]:
    """Return the names of spans, tensors and buffers."""
    columns = (trace.spans.name, trace.tensors.name, trace.buffers.name)
    return [[trace.strings[int(n)] for n in column] for column in columns]


# ---------------------------------------------------------------- the corpus


def corpus_entries() -> list[dict[str, Any]]:
    from support import corpus_path

    folder = corpus_path()
    if folder is None:
        return []
    index = json.loads((folder / "INDEX.json").read_text())
    return [
        e
        for e in index
        if e["path"].startswith("tracer/") and e["path"].endswith(".bin")
    ]


@pytest.mark.parametrize("entry", corpus_entries(), ids=lambda e: e["path"])
def test_corpus_trace_gives_the_indexed_figures(entry: dict[str, Any]) -> None:
    expect = entry["expect"]

    trace = read(need_corpus() / entry["path"])

    assert trace.info.n_records == expect["records"]
    assert trace.info.summary.get("layout") == expect["layout"]
    ids = ops(trace)
    if "ops" in expect:
        # The index counts records; where each has one source, two are a MUL_MAT.
        each = 2 if expect["layout"] == "128" else 1
        counts = Counter(trace.op_name(int(op)) for op in trace.spans.op[ids])
        assert {op: n * each for op, n in counts.items()} == expect["ops"]
        assert trace.spans.phase is not None
        phases = Counter(Phase(int(p)).name for p in trace.spans.phase[ids])
        assert {phase: n * each for phase, n in phases.items()} == expect["phases"]
        assert len(trace.accesses) == expect["sources"]
        space = trace.accesses.flat(trace.spans).what.space
        assert int((space == Space.FILE).sum()) == expect["disk"]
        assert int((space == Space.BUFFER).sum()) == expect["buffer"]
        assert trace.clock.origin == expect["ts_first"]
        last = int(trace.spans.start[ids].max()) + trace.clock.origin
        assert last == expect["ts_last"]
        threads = [x for x in trace.lanes if x.kind == LaneKind.THREAD]
        assert len(threads) == expect["threads"]
        assert trace.ops is not None
        assert trace.ops.id == expect["op_table"].split()[0]


@pytest.mark.parametrize("entry", corpus_entries(), ids=lambda e: e["path"])
def test_corpus_trace_is_the_same_without_the_kernel(
    entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = need_corpus() / entry["path"]
    compiled_trace = read(path)

    oracles.tensor(monkeypatch)

    assert_same_table(read(path), compiled_trace)


@pytest.mark.parametrize(
    ("name", "layout", "passes"),
    [
        ("trace_128_71099aab.bin", "128", 5),
        ("trace_256_3584a339.bin", "256", 2),
        ("trace_1024v3_a6ba6071.bin", "1024", 2),
        ("trace_1024v3_962e44d2.bin", "1024", 2),
    ],
)
def test_corpus_trace_equals_the_slow_reader(
    name: str, layout: str, passes: int
) -> None:
    path = need_corpus() / "tracer" / name
    slow = decode(path.read_bytes(), layout)

    trace = read(path)

    assert trace.info.n_passes == passes
    assert_equals_slow(trace, slow, layout)


def ops_of(records: list[Rec]) -> dict[int, Rec]:
    """Return the ops that records of one source each make up, by their first record.

    Records of one thread, stamp and op follow each other. A MUL_MAT (1) and an ADD (2)
    take two of them; where these do not come out even each stays alone.
    """
    ops: dict[int, Rec] = {}
    i = 0
    while i < len(records):
        key = (records[i].thread, records[i].time, records[i].op)
        j = i
        while j < len(records) and key == (
            records[j].thread,
            records[j].time,
            records[j].op,
        ):
            j += 1
        n = j - i
        each = (2 if n % 2 == 0 else 1) if key[2] in (1, 2) else (n if n <= 4 else 1)
        for k in range(i, j, each):
            sources = [r.sources[0] for r in records[k : k + each]]
            layers = [r.layer for r in records[k : k + each] if r.layer != NO_LAYER]
            layer = layers[0] if layers else NO_LAYER
            ops[k] = replace(records[k], sources=tuple(sources), layer=layer)
        i = j
    return ops


def assert_equals_slow(trace: Trace, slow: list[Rec], layout: str) -> None:
    """Compare every op span with the record that it came from."""
    s, origin = trace.spans, min(r.time for r in slow)
    assert s.record is not None
    assert s.token is not None
    assert s.phase is not None
    assert s.layer is not None
    ids = ops(trace)
    by_record = dict(enumerate(slow))
    if layout not in ("256", "1024"):
        by_record = ops_of(slow)
    assert sorted(s.record[ids].tolist()) == sorted(by_record)
    for i in ids.tolist():
        r = by_record[int(s.record[i])]
        assert int(s.start[i]) == r.time - origin
        assert int(s.op[i]) == r.op
        assert int(s.token[i]) == r.token
        assert int(s.phase[i]) == r.phase
        if r.layer != NO_LAYER:
            assert int(s.layer[i]) == r.layer or layout.startswith("64")
        if r.dst.strip():
            assert trace.strings[int(s.name[i])] == r.dst.strip()
        of_span = trace.accesses.of_span(i)
        assert of_span.size.tolist() == [x.size for x in r.sources]
        assert of_span.address.tolist() == [x.ptr for x in r.sources]
        if layout in ("256", "1024"):
            assert of_span.space.tolist() == [x.mem for x in r.sources]
            assert of_span.offset.tolist() == [
                x.where if x.mem == 0 else -1 for x in r.sources
            ]
            assert [
                int(trace.buffers.address[b]) for b in of_span.buffer if b >= 0
            ] == [x.where for x in r.sources if x.mem == 1 and x.where]


# ------------------------------------------------------------ every layout


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_shared_columns(
    tmp_path: Path, layout: str
) -> None:
    records = llama_trace()
    if layout not in ("256", "1024"):
        records = one_source_each(records)

    trace = read_records(tmp_path, records, layout)

    assert trace.info.summary["layout"] == layout
    assert_equals_slow(trace, decode(encode(records, layout), layout), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_option_layout_forces_it(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))

    trace = read(path, options={"layout": layout})

    assert trace.info.summary["layout"] == layout
    assert trace.info.options == {"layout": layout}


def test_unknown_layout_option_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))

    with pytest.raises(ReadError, match="'512' for option layout"):
        read(path, options={"layout": "512"})


def test_64_byte_trace_without_layers_shows_none(tmp_path: Path) -> None:
    records = [replace(r, layer=0) for r in one_source_each(llama_trace())]

    trace = read_records(tmp_path, records, "64p")

    assert trace.spans.layer is not None
    assert set(trace.spans.layer.tolist()) == {-1}
    assert set(trace.accesses.patterns.layer.tolist()) == {-1}


def test_nameless_source_gets_a_synthetic_name(tmp_path: Path) -> None:
    trace = read_records(tmp_path, one_source_each(llama_trace()), "64a")

    names = {trace.span_name(i) for i in ops(trace).tolist()}
    assert "MUL_MAT@0x7f0000001000" in names
    assert all("@0x" in name for name in names)
    assert all(trace.strings[int(n)] for n in trace.tensors.name)


def test_nameless_source_of_a_256_byte_record_gets_one_too(tmp_path: Path) -> None:
    records = llama_trace()
    records[3] = replace(records[3], sources=(Src("", ptr=0xABC000), Src(" (copy)")))

    trace = read_records(tmp_path, records)

    of_span = trace.accesses.of_span(3)
    names = [trace.strings[int(trace.tensors.name[t])] for t in of_span.tensor]
    assert names == ["MUL_MAT@0xabc000", "(copy)"]


def test_known_file_offset_of_a_single_source_is_kept(tmp_path: Path) -> None:
    records = one_source_each(llama_trace())

    trace = read_records(tmp_path, records, "128")

    flat = trace.accesses.flat(trace.spans).what
    in_file = np.array([s.mem == 0 for r in records for s in r.sources])
    assert np.array_equal(flat.space == Space.FILE, in_file)
    assert np.array_equal(flat.offset >= 0, in_file)


# -------------------------------------------------------- names and tensors


def test_layer_comes_from_the_name_where_the_record_has_none(tmp_path: Path) -> None:
    trace = read_records(tmp_path, llama_trace(n_layers=3))

    assert trace.spans.layer is not None
    for i in ops(trace).tolist():
        name = trace.span_name(i)
        expected = int(name.rsplit("-")[-1]) if "-" in name else -1
        assert int(trace.spans.layer[i]) == expected


def test_number_at_the_cut_of_a_name_is_no_layer(tmp_path: Path) -> None:
    records = llama_trace()
    records[5] = replace(records[5], dst="a_name_of_23_letters-12x"[:22] + "1" + "2")

    trace = read_records(tmp_path, records)

    i = 5
    assert trace.spans.layer is not None
    assert int(trace.spans.layer[i]) == -1
    assert int(trace.spans.flags[i]) & SpanFlag.TRUNCATED_NAME
    assert "truncated_names" in codes(trace)


def test_names_are_normalised_for_tensors_only(tmp_path: Path) -> None:
    trace = read_records(tmp_path, llama_trace(n_layers=1))

    tensors = [trace.strings[int(n)] for n in trace.tensors.name]
    assert tensors.count("Qcur-0") == 1
    assert not any("(" in name for name in tensors if name != "(copy)")


def test_tensor_has_offset_and_size_of_its_file_access(tmp_path: Path) -> None:
    trace = read_records(tmp_path, llama_trace(n_layers=1))

    names = [trace.strings[int(n)] for n in trace.tensors.name]
    row = names.index("blk.0.attn_q.weight")
    assert int(trace.tensors.offset[row]) == 16384
    assert int(trace.tensors.size[row]) == 2048
    assert int(trace.tensors.layer[row]) == 0
    result = names.index("__fattn__-0")
    assert int(trace.tensors.offset[result]) == -1


def test_sentinels_become_missing(tmp_path: Path) -> None:
    records = llama_trace()
    odd = Src("x", layer=NO_LAYER, mem=0, where=0xFFFF_FFFF_FFFF_FFFF)
    wild = Src("y", mem=7, where=0)
    unbuffered = Src("z", mem=1, where=0)
    records[3] = replace(
        records[3], token=0xFFFF_FFFF, phase=9, sources=(odd, wild, unbuffered)
    )

    trace = read_records(tmp_path, records)

    spans, of_span = trace.spans, trace.accesses.of_span(3)
    assert spans.token is not None
    assert spans.phase is not None
    assert int(spans.token[3]) == -1
    assert int(spans.phase[3]) == -1
    assert of_span.offset.tolist() == [-1, -1, -1]
    assert of_span.space.tolist() == [Space.FILE, Space.UNKNOWN, Space.BUFFER]
    assert of_span.buffer.tolist() == [-1, -1, -1]


def test_source_counts_are_kept(tmp_path: Path) -> None:
    records = llama_trace()
    records[2] = replace(records[2], sources=())
    records[3] = replace(records[3], extra_sources=200)

    trace = read_records(tmp_path, records)

    counts = trace.accesses.counts()[: len(records)].tolist()
    expected = [len(r.sources) for r in records]
    expected[3] = 4
    assert counts == expected


def test_blank_result_shows_its_op(tmp_path: Path) -> None:
    records = llama_trace()
    records[3] = replace(records[3], dst="")

    trace = read_records(tmp_path, records)

    assert trace.span_name(3) == "MUL_MAT"
    assert trace.spans.tensor is not None
    assert int(trace.spans.tensor[3]) == -1


def test_control_characters_and_bad_utf8_are_replaced(tmp_path: Path) -> None:
    data = bytearray(encode(llama_trace(), "256"))
    data[256 + 24 : 256 + 24 + 8] = b"a\xff\x01b\0\0\0\0"
    path = tmp_path / "t.bin"
    path.write_bytes(data)

    assert read(path).span_name(1) == "a\ufffd\ufffdb"


def test_same_accesses_share_one_pattern(tmp_path: Path) -> None:
    records = llama_trace(n_passes=5)

    trace = read_records(tmp_path, records)

    distinct = {(r.dst, r.op, r.layer, r.sources) for r in records}
    assert len(trace.accesses.first) - 1 == len(distinct)


def test_writer_data_in_pads_does_not_split_patterns(tmp_path: Path) -> None:
    records = [
        replace(
            r,
            sources=tuple(replace(s, pad2=k.to_bytes(4, "little")) for s in r.sources),
        )
        for k, r in enumerate(llama_trace(n_passes=5))
    ]

    trace = read_records(tmp_path, records)

    assert len(trace.accesses.first) - 1 == len(records) // 5


# ------------------------------------------------------------- odd contents


@pytest.mark.parametrize("size", [64, 65536, 300])
def test_all_zero_file_is_an_empty_trace(tmp_path: Path, size: int) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(bytes(size))

    trace = read(path)

    assert (trace.info.n_records, len(trace.spans)) == (0, 0)
    assert codes(trace) == {"nothing_flushed"}


def test_all_zero_file_keeps_a_forced_layout(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(bytes(512))

    assert read(path, options={"layout": "64a"}).info.format_version == "64a"


def test_zero_time_stamp_alone_is_a_record(tmp_path: Path) -> None:
    records = [replace(r, time=r.time - 1_000_000_000_000) for r in llama_trace()]

    trace = read_records(tmp_path, records)

    assert trace.info.n_records == len(records)
    assert trace.clock.origin == 0


def test_record_cut_by_the_end_is_reported(tmp_path: Path) -> None:
    records = llama_trace()
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, "256")[:-100])

    trace = read(path)

    assert trace.info.n_records == len(records) - 1
    (warning,) = [w for w in trace.warnings if w.code == "truncated_record"]
    assert warning.offset == 256 * (len(records) - 1)


@pytest.mark.parametrize("n_empty", [1, 7, 600])
def test_hole_is_skipped_and_reported(tmp_path: Path, n_empty: int) -> None:
    data = encode(llama_trace(n_passes=20), "256")
    at = 300 * 256
    path = tmp_path / "t.bin"
    path.write_bytes(data[:at] + bytes(256 * n_empty) + data[at:])

    trace = read(path)

    assert trace.info.n_records == len(data) // 256
    (warning,) = [w for w in trace.warnings if w.code == "hole"]
    assert (warning.offset, warning.count) == (at, n_empty)
    assert trace.spans.record is not None
    assert set(range(300, 300 + n_empty)).isdisjoint(trace.spans.record.tolist())


def test_hole_of_a_sparse_file_is_skipped_and_reported(tmp_path: Path) -> None:
    data = encode(llama_trace(n_passes=8), "256")
    path = tmp_path / "t.bin"
    with path.open("wb") as file:
        file.seek(1 << 20)
        file.write(data)
        file.seek(8 << 20)
        file.write(data)

    trace = read(path)

    assert trace.info.n_records == 2 * len(data) // 256
    (warning,) = [w for w in trace.warnings if w.code == "hole"]
    assert warning.count == (8 << 20) // 256 - len(data) // 256
    assert warning.offset == 0


def test_impossible_time_stamps_are_left_out(tmp_path: Path) -> None:
    records = llama_trace(n_passes=8)
    records[4] = replace(records[4], time=1 << 63)
    records[9] = replace(records[9], time=1 << 62)

    trace = read_records(tmp_path, records)

    (warning,) = [w for w in trace.warnings if w.code == "bad_timestamp"]
    assert (warning.count, warning.offset) == (2, 4 * 256)
    assert len(ops(trace)) == len(records) - 2
    assert trace.info.n_records == len(records)


def test_extension_records_are_counted_and_never_spans(tmp_path: Path) -> None:
    records = llama_trace()
    extra = Rec(records[5].time, "ext", 0xF0, token=0, thread=3)
    records[6:6] = [extra, replace(extra, op=0xF1)]

    trace = read_records(tmp_path, records)

    assert trace.info.n_records == len(records)
    assert trace.info.summary["extension_records"] == 2
    assert len(ops(trace)) == len(records) - 2
    assert "extension_records" in codes(trace)
    assert [x.name for x in trace.lanes if x.kind == LaneKind.THREAD] == ["thread 0"]


def test_listed_experts_make_it_version_4(tmp_path: Path) -> None:
    records = llama_trace()
    records[4] = replace(records[4], experts=(3, 1, 2))

    trace = read_records(tmp_path, records, "1024")

    assert trace.info.format_version == "1024 v4"
    assert trace.info.summary["expert_records"] == 1
    assert read_records(tmp_path, llama_trace(), "1024").info.format_version == "1024"


def test_whole_batches_before_a_zero_tail_look_killed(tmp_path: Path) -> None:
    data = encode(llama_trace(n_passes=60), "256")[: 512 * 256]
    path = tmp_path / "t.bin"
    path.write_bytes(data + bytes(1 << 20))

    assert "unclean_end" in codes(read(path))
    path.write_bytes(data)
    assert "unclean_end" not in codes(read(path))


@pytest.mark.parametrize("layout", ["64p", "64a", "128"])
@pytest.mark.parametrize(("n", "is_batch"), [(1024, True), (512, False), (1536, False)])
def test_records_of_single_accesses_come_in_batches_of_1024(
    tmp_path: Path, layout: str, n: int, is_batch: bool
) -> None:
    records = (llama_trace(n_passes=60) * 2)[:n]
    records = [
        replace(record, time=10**12 + 1000 * i, op=1)
        for i, record in enumerate(records)
    ]
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, layout) + bytes(1 << 20))

    assert ("unclean_end" in codes(read(path))) == is_batch


def test_repeated_records_are_reported(tmp_path: Path) -> None:
    records = llama_trace()
    records.insert(5, records[4])

    trace = read_records(tmp_path, records)

    (warning,) = [w for w in trace.warnings if w.code == "duplicate_records"]
    assert warning.count == 1
    assert len(ops(trace)) == len(records)


def test_foreign_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(b"\x7fELF" + bytes(range(256)) * 40)

    with pytest.raises(CorruptError, match="no record layout matches") as caught:
        read(path)

    assert "layout=256" in caught.value.hint


@pytest.mark.parametrize("is_native", [True, False])
def test_small_blocks_find_the_same_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool
) -> None:
    records = [
        replace(r, thread=i % 3) for i, r in enumerate(llama_trace(9, duration=500))
    ]
    for at in (20, 21, 90, 150):
        records[at] = replace(records[at], time=1 << 63)
    data = encode(records, "256")
    for at in (60, 61, 120):
        data = data[: at * 256] + bytes(256) + data[at * 256 :]
    path = tmp_path / "t.bin"
    path.write_bytes(data)
    whole = read(path)
    monkeypatch.setattr(tensor_columns, "SCAN_BYTES", 1024)
    monkeypatch.setattr(tensor_columns, "_PROBE_BYTES", 512)
    monkeypatch.setattr(tensor_scan, "STRETCH_BYTES", 1024)
    monkeypatch.setattr(tensor_scan, "_MAX_STRETCH_BYTES", 1024)
    monkeypatch.setattr(chunked, "_CHUNK_ROWS", 7)
    if not is_native:
        oracles.tensor(monkeypatch)

    assert_same_table(read(path), whole)


def test_several_holes_of_a_sparse_file_are_counted_together(tmp_path: Path) -> None:
    data = encode(llama_trace(n_passes=8), "256")
    path = tmp_path / "t.bin"
    with path.open("wb") as file:
        for k in range(3):
            file.seek(k << 21)
            file.write(data)

    trace = read(path)

    (warning,) = [w for w in trace.warnings if w.code == "hole"]
    assert warning.count == 2 * ((2 << 20) - len(data)) // 256
    assert warning.offset == len(data)


def test_zeros_on_disk_before_a_hole_are_skipped(tmp_path: Path) -> None:
    data = encode(llama_trace(n_passes=8), "256")
    path = tmp_path / "t.bin"
    with path.open("wb") as file:
        file.write(bytes(8192))
        file.seek(1 << 20)
        file.write(data[: 50 * 256] + bytes(256) + data[50 * 256 :])
        file.seek(4 << 20)
        file.write(data)

    trace = read(path)

    assert trace.info.n_records == 2 * len(data) // 256
    (warning,) = [w for w in trace.warnings if w.code == "hole"]
    assert warning.offset == 0
    assert warning.count == ((4 << 20) - len(data)) // 256


def test_only_extension_records_give_no_spans(tmp_path: Path) -> None:
    records = [replace(r, op=0xF0) for r in llama_trace()]

    trace = read_records(tmp_path, records)

    assert trace.info.n_records == len(records)
    assert (len(trace.spans), trace.info.n_passes) == (0, 0)


# ---------------------------------------------------------------- op tables


def test_op_table_is_inferred_with_its_margin(tmp_path: Path) -> None:
    trace = read_records(tmp_path, llama_trace())

    assert trace.ops is not None
    assert (trace.ops.id, trace.ops.source) == (TABLE, "inferred")
    assert trace.ops.margin is not None
    assert trace.ops.margin > 3
    assert "op_table_uncertain" not in codes(trace)


def test_op_table_can_be_overridden(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))

    trace = read(path, options={"ops": "ggml-2024-11-07-81"})

    assert trace.ops is not None
    assert (trace.ops.id, trace.ops.source) == ("ggml-2024-11-07-81", "override")
    assert trace.op_name(29) != "MUL_MAT"


def test_unknown_op_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))

    with pytest.raises(ReadError, match="unknown op table 'nope'"):
        read(path, options={"ops": "nope"})


def test_doubtful_op_table_is_reported(tmp_path: Path) -> None:
    records = [replace(r, op=2, dst=f"l_out-{i}") for i, r in enumerate(llama_pass(5))]
    records[3] = replace(records[3], op=61, dst="?", sources=(Src("q"),))

    trace = read_records(tmp_path, records)

    assert "op_table_uncertain" in codes(trace)


def test_unknown_ops_are_reported_and_kept(tmp_path: Path) -> None:
    records = llama_trace()
    records[4] = replace(records[4], op=150)

    trace = read_records(tmp_path, records)

    (warning,) = [w for w in trace.warnings if w.code == "unknown_op"]
    assert warning.count == 1
    assert "OP_150?" in warning.message
    assert trace.op_name(150) == "OP_150?"


# ----------------------------------------------------------- times and lanes


def test_threads_are_named_in_order_of_appearance(tmp_path: Path) -> None:
    raw = [40000, 7, 65535, 3]
    records = [
        replace(r, thread=raw[i % 4]) for i, r in enumerate(llama_trace(n_passes=4))
    ]

    trace = read_records(tmp_path, records)

    threads = [x for x in trace.lanes if x.kind == LaneKind.THREAD]
    assert [x.name for x in threads] == [f"thread {k}" for k in range(4)]
    assert [x.attributes["raw"] for x in threads] == [str(r) for r in raw]


def test_per_thread_blocks_give_the_same_trace_as_sorted_records(
    tmp_path: Path,
) -> None:
    records = [
        replace(r, thread=10 + i % 3) for i, r in enumerate(llama_trace(n_passes=6))
    ]
    blocks = sorted(records, key=lambda r: r.thread)

    plain = read_records(tmp_path, records)
    shuffled = read_records(tmp_path, blocks)

    for name in ("start", "end", "lane", "op", "token", "layer", "phase", "flags"):
        assert_same(getattr(plain.spans, name), getattr(shuffled.spans, name), name)
    assert [plain.span_name(i) for i in range(len(plain.spans))] == [
        shuffled.span_name(i) for i in range(len(shuffled.spans))
    ]
    assert "per_thread_blocks" in codes(shuffled)
    assert "per_thread_blocks" not in codes(plain)
    assert "out_of_order" not in codes(shuffled)


def test_spans_of_a_lane_lie_together_in_start_order(tmp_path: Path) -> None:
    records = [
        replace(r, thread=10 + i % 3) for i, r in enumerate(llama_trace(n_passes=6))
    ]

    trace = read_records(tmp_path, records)

    lane, start = trace.spans.lane[ops(trace)], trace.spans.start[ops(trace)]
    assert bool((np.diff(lane.astype(int)) >= 0).all())
    assert bool((np.diff(start)[np.diff(lane.astype(int)) == 0] >= 0).all())


def test_late_record_of_a_thread_is_sorted_and_flagged(tmp_path: Path) -> None:
    records = llama_trace()
    records[4], records[5] = records[5], records[4]

    trace = read_records(tmp_path, records)

    assert trace.spans.record is not None
    assert trace.spans.record[4:6].tolist() == [5, 4]
    flagged = np.flatnonzero(trace.spans.flags & int(SpanFlag.OUT_OF_ORDER))
    assert flagged.tolist() == [4]
    assert {"out_of_order", "per_thread_blocks"} <= codes(trace)


def test_derived_end_is_the_next_record_of_the_thread_and_pass(
    tmp_path: Path,
) -> None:
    records = llama_trace(n_passes=2, n_layers=1)
    n = len(records) // 2

    trace = read_records(tmp_path, records)

    start, end = trace.spans.start, trace.spans.end
    quality = quality_of(trace.spans.flags)
    inner = [*range(n - 1), *range(n, 2 * n - 1)]
    last = [n - 1, 2 * n - 1]
    assert (end[inner] - start[inner]).tolist() == [1000] * len(inner)
    assert (quality[inner] == Quality.DERIVED).all()
    assert np.array_equal(end[last], start[last])
    assert (quality[last] == Quality.UNFINISHED).all()


def test_durations_in_spare_bytes_are_measured(tmp_path: Path) -> None:
    trace = read_records(tmp_path, llama_trace(duration=700))

    ids = ops(trace)
    assert (quality_of(trace.spans.flags[ids]) == Quality.MEASURED).all()
    assert ((trace.spans.end - trace.spans.start)[ids] == 700).all()


def test_few_durations_leave_the_others_derived(tmp_path: Path) -> None:
    records = llama_trace()
    records[3] = replace(records[3], duration=400)

    trace = read_records(tmp_path, records)

    quality = quality_of(trace.spans.flags)
    assert quality[2:5].tolist() == [
        Quality.DERIVED,
        Quality.MEASURED,
        Quality.DERIVED,
    ]
    assert int(trace.spans.end[3] - trace.spans.start[3]) == 400


def test_zero_among_many_durations_is_a_measurement(tmp_path: Path) -> None:
    records = llama_trace(duration=700)
    records[3] = replace(records[3], duration=0)

    trace = read_records(tmp_path, records)

    assert int(trace.spans.end[3]) == int(trace.spans.start[3])
    assert quality_of(trace.spans.flags)[3] == Quality.MEASURED


def test_spare_bytes_that_are_no_durations_are_ignored(tmp_path: Path) -> None:
    trace = read_records(tmp_path, llama_trace(duration=(1 << 39)))

    assert quality_of(trace.spans.flags[ops(trace)]).max() == Quality.UNFINISHED
    assert (quality_of(trace.spans.flags) != Quality.MEASURED).all()


def test_durations_of_single_record_passes_are_believed(tmp_path: Path) -> None:
    records = [replace(llama_pass(k * 10**7)[0], duration=500) for k in range(1, 9)]

    trace = read_records(tmp_path, records)

    assert trace.info.n_passes == 8
    assert ((trace.spans.end - trace.spans.start)[ops(trace)] == 500).all()


def test_durations_follow_their_records_to_their_lanes(tmp_path: Path) -> None:
    records = [
        replace(r, thread=i % 2, duration=100 + i)
        for i, r in enumerate(llama_trace(n_passes=2))
    ]

    trace = read_records(tmp_path, records)

    assert trace.spans.record is not None
    ids = ops(trace)
    lengths = (trace.spans.end - trace.spans.start)[ids]
    assert np.array_equal(lengths, 100 + trace.spans.record[ids])


# -------------------------------------------------------- passes and phases


def test_passes_are_named_after_their_tokens(tmp_path: Path) -> None:
    records = llama_trace(n_passes=3, n_layers=1)
    n = len(records) // 3

    trace = read_records(tmp_path, records)

    step = 1000 * (n - 1)
    begin = step + 10_000_000
    assert on_lane(trace, LaneKind.TOKEN) == [
        (f"#{k}", k * begin, k * begin + step) for k in range(3)
    ]
    assert trace.info.n_passes == 3


def test_passes_with_one_token_number_are_counted_instead(tmp_path: Path) -> None:
    records = [replace(r, token=0) for r in llama_trace()]

    trace = read_records(tmp_path, records)

    names = [name for name, _, _ in on_lane(trace, LaneKind.TOKEN)]
    assert names == ["pass 1", "pass 2", "pass 3"]


def test_phases_are_bands_without_the_pauses(tmp_path: Path) -> None:
    records = llama_trace(n_passes=3)

    trace = read_records(tmp_path, records)

    tokens = on_lane(trace, LaneKind.TOKEN)
    assert on_lane(trace, LaneKind.PHASE) == [
        ("prompt", tokens[0][1], tokens[0][2]),
        ("generate", tokens[1][1], tokens[2][2]),
    ]


def test_phase_that_changes_inside_a_pass_ends_there(tmp_path: Path) -> None:
    records = [replace(r, phase=int(i >= 10)) for i, r in enumerate(llama_pass(10**9))]

    trace = read_records(tmp_path, records)

    (first, second) = on_lane(trace, LaneKind.PHASE)
    assert first == ("prompt", 0, 10_000)
    assert second == ("generate", 10_000, 1000 * (len(records) - 1))


def test_unknown_phase_is_named_so(tmp_path: Path) -> None:
    trace = read_records(tmp_path, [replace(r, phase=5) for r in llama_trace()])

    assert [name for name, _, _ in on_lane(trace, LaneKind.PHASE)] == ["unknown"]


def test_op_logged_by_every_thread_begins_one_pass(tmp_path: Path) -> None:
    records = []
    for r in llama_trace(n_passes=4):
        records += [replace(r, thread=t, time=r.time + 50 * t) for t in (1, 2, 3)]

    trace = read_records(tmp_path, records)

    assert trace.info.n_passes == 4
    unfinished = quality_of(trace.spans.flags) == Quality.UNFINISHED
    assert int(unfinished.sum()) == 4 * 3


def test_first_op_that_moves_between_threads_begins_every_pass(
    tmp_path: Path,
) -> None:
    records = []
    for k in range(6):
        for i, r in enumerate(llama_pass(10**9 + k * 10**7, token=k)):
            records.append(replace(r, thread=(i + k) % 4))

    assert read_records(tmp_path, records).info.n_passes == 6


def test_first_op_on_one_of_several_threads_begins_every_pass(
    tmp_path: Path,
) -> None:
    records = []
    for k in range(3):
        for i, r in enumerate(llama_pass(10**9 + k * 10**7, token=k)):
            records.append(replace(r, thread=i % 2))

    assert read_records(tmp_path, records).info.n_passes == 3


def test_trace_that_begins_inside_a_pass_finds_the_others(tmp_path: Path) -> None:
    records = llama_trace(n_passes=3)[7:]

    trace = read_records(tmp_path, records)

    assert trace.info.n_passes == 3
    assert int(trace.spans.start[-4:].min()) == 0


def test_names_without_the_usual_first_op_still_make_passes(tmp_path: Path) -> None:
    records = [r for r in llama_trace(n_passes=3) if r.dst != "inp_embd"]

    assert read_records(tmp_path, records).info.n_passes == 3


def test_files_without_names_split_at_token_changes(tmp_path: Path) -> None:
    records = one_source_each(llama_trace(n_passes=3))

    assert read_records(tmp_path, records, "64p").info.n_passes == 3


def test_blank_first_name_splits_at_token_changes(tmp_path: Path) -> None:
    records = [replace(r, dst="") for r in llama_trace(n_passes=3)]

    assert read_records(tmp_path, records).info.n_passes == 3


def test_long_silence_inside_a_pass_is_reported(tmp_path: Path) -> None:
    records = llama_trace()
    records[5:] = [replace(r, time=r.time + 10**9) for r in records[5:]]

    trace = read_records(tmp_path, records)

    assert "time_gap" in codes(trace)
    assert "time_gap" not in codes(read_records(tmp_path, llama_trace()))
    # The pause is no time of the op before it.
    ops = np.flatnonzero(trace.spans.op >= 0)
    length = trace.spans.end[ops] - trace.spans.start[ops]
    assert (int(length.max()), int(length[4])) == (1000, 0)
    assert int(trace.spans.flags[ops[4]]) & SpanFlag.UNFINISHED


def numbered(records: list[Rec]) -> list[Rec]:
    """Return records of 64 bytes whose first source has an address of its own."""
    return [
        replace(
            r, token=0, sources=(replace(r.sources[0], where=0x5000 + 64 * (i % 29)),)
        )
        for i, r in enumerate(records)
    ]


def test_passes_without_names_and_tokens_begin_where_addresses_come_again(
    tmp_path: Path,
) -> None:
    one = llama_trace(n_passes=1)
    assert len(one) == 29
    records = numbered(llama_trace(n_passes=5, gap=80_000_000))

    trace = read_records(tmp_path, records, "64p")

    assert trace.info.n_passes == 5
    ops = np.flatnonzero(trace.spans.op >= 0)
    assert int((trace.spans.end - trace.spans.start)[ops].max()) == 1000


def test_address_that_comes_again_within_a_pass_begins_none(tmp_path: Path) -> None:
    """An activation's buffer is used by every layer; what is around it differs."""
    records = numbered(llama_trace(n_passes=1))
    for i in range(0, 29, 5):
        records[i] = replace(records[i], sources=records[0].sources)

    assert read_records(tmp_path, records, "64p").info.n_passes == 1


def test_real_records_of_64_bytes_have_the_passes_of_their_twin(tmp_path) -> None:
    corpus = need_corpus() / "tracer"
    plain = open_trace(corpus / "trace_64packed_71099aab.bin")
    named = open_trace(corpus / "trace_128_71099aab.bin")

    assert plain.info.n_passes == named.info.n_passes == 5
    assert np.array_equal(plain.spans.end, named.spans.end)
    total = (plain.spans.end - plain.spans.start)[plain.spans.op >= 0].sum()
    assert 335_000_000 < int(total) < 336_000_000


# ----------------------------------------------------------- stages and limits


def test_progress_grows_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(n_passes=200), "256"))
    seen: list[tuple[int, int]] = []

    read(path, progress=lambda done, total: seen.append((done, total)))

    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1]


def test_cancelled_reading_stops(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))
    cancel = threading.Event()
    cancel.set()

    with pytest.raises(Cancelled):
        read(path, cancel=cancel)


@pytest.mark.parametrize("limits", [Limits(records=10), Limits(memory_bytes=100)])
def test_more_records_than_allowed_are_refused(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))

    with pytest.raises(LimitExceededError):
        read(path, limits=limits)


# ---------------------------------------------------------------- big files


def test_two_gib_sparse_file_reads_only_what_is_stored(tmp_path: Path) -> None:
    records = llama_trace(n_passes=2560, n_layers=4)
    data = encode(records, "256")[: 64_000 * 256]
    path = tmp_path / "t.bin"
    with path.open("wb") as file:
        file.write(data)
        file.truncate(1 << 31)
    if path.stat().st_blocks * 512 > 1 << 28:
        pytest.skip("the file system here has no sparse files")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    already = bytes_read()

    trace = read(path)

    assert trace.info.n_records == 64_000
    assert len(ops(trace)) == 64_000
    assert bytes_read() - already < 2 * len(data)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 400 * 1024


def test_full_preallocated_file_marks_its_early_end(tmp_path: Path) -> None:
    records = llama_trace()
    path = tmp_path / "t.bin"
    with path.open("wb") as file:
        file.write(encode(records, "256"))
        file.seek((1 << 31) - 256)
        file.write(encode([replace(records[-1], time=records[-1].time + 99)], "256"))
    if path.stat().st_blocks * 512 > 1 << 28:
        pytest.skip("the file system here has no sparse files")

    trace = read(path)

    assert "buffer_full" in codes(trace)
    assert [trace.strings[int(n)] for n in trace.markers.name] == [
        "trace ends early: buffer full"
    ]
    assert int(trace.markers.time[0]) == trace.extent.end


# -------------------------------------------------------------------- sniffing


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sniff_claims_every_layout_below_a_magic_number(layout: str) -> None:
    records = llama_trace()
    if layout not in ("256", "1024"):
        records = one_source_each(records)
    data = encode(records, layout)

    sniff = READER.sniff(Head("x.dat", len(data), data[: 64 * 1024]))

    assert 25 <= sniff.confidence <= 40
    assert layout.rstrip("pa") in sniff.reason


def test_sniff_claims_zeros_weakly_and_only_as_bin() -> None:
    assert 0 < READER.sniff(Head("t.bin", 512, bytes(512))).confidence < 25
    assert READER.sniff(Head("t.json", 512, bytes(512))).confidence == 0


def test_sniff_declines_other_content() -> None:
    for data in (b'{"a": 1}' * 50, b"\x7fELF" + bytes(300), bytes(range(256)) * 9):
        assert READER.sniff(Head("t.bin", len(data), data)).confidence == 0


def test_sniff_calls_a_doubtful_match_merely_plausible() -> None:
    data = bytearray(encode(llama_trace(), "256"))
    for at in range(0, len(data), 256):
        data[at + 14 + 256 * 0 : at + 16] = b"\xff\xff"
        data[at + 12 : at + 14] = b"\xf0\xf0"
        data[at + 17] = 9

    sniff = READER.sniff(Head("t.bin", len(data), bytes(data)))

    assert sniff.confidence == 25


def test_buffer_events_are_read_as_such(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(b"".join(buffer_event(k + 1, 0, 9 + k, 5) for k in range(4)))

    trace = read(path)

    assert trace.info.format_version == "buffer128"
    assert trace.info.n_records == 4


def test_weights_lie_in_the_file(tmp_path: Path) -> None:
    assert weight("a").mem == 0
    assert SIZES["64p"] == 64


@pytest.mark.parametrize("seed", range(4))
def test_passes_are_the_same_however_many_lanes_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    records = [
        replace(r, thread=thread, time=r.time + int(rng.integers(0, 900)))
        for r in llama_trace(4)
        for thread in rng.permutation(5)[: rng.integers(1, 6)].tolist()
    ]
    few = read_records(tmp_path, records)
    monkeypatch.setattr(tensor_passes, "_MANY_LANES", 0)

    with Source(few.info.paths[0]) as source:
        many = READER.read(source, ReadContext())

    assert few.info.n_passes == many.info.n_passes > 1
    assert_same_table(few, many)
