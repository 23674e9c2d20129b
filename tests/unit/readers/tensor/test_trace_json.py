"""Token traces: the same tables as from records, and what damaged ones keep."""

import copy
import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oracles
from ggscope.errors import Cancelled, CorruptError, ReadError, TruncatedError
from ggscope.model.tables import Space
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.api import Head, ReadContext
from ggscope.readers.registry import open_trace
from ggscope.readers.source import Source
from ggscope.readers.tensor.reader import TensorAccessReader
from ggscope.readers.tensor.token_json.reader import TraceJsonReader
from support import need_corpus
from tensor_files import Rec, Src, decode, encode, llama_trace, table_of, weight
from token_files import (
    TWINS,
    corpus_trace,
    document,
    op_names,
    read_file,
    read_object,
    read_text,
)

UNLIKE = ("info", "ops", "spans.op", "warnings")


def read_records(path: Path) -> Trace:
    with Source(path) as source:
        return TensorAccessReader().read(source, ReadContext())


def assert_same_content(a: Trace, b: Trace) -> None:
    """Compare everything but the numbers of ops and what is said of the file."""
    ours, theirs = table_of(a), table_of(b)
    for key, value in ours.items():
        if key in UNLIKE:
            continue
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, theirs[key]), key
        else:
            assert value == theirs[key], key
    assert op_names(a) == op_names(b)
    assert a.info.n_passes == b.info.n_passes


def codes(trace: Trace) -> dict[str, int]:
    return {w.code: w.count for w in trace.warnings}


def place_of(trace: Trace, code: str) -> str:
    return next(w.place for w in trace.warnings if w.code == code)


@pytest.mark.parametrize(("commit", "twin"), TWINS)
def test_real_trace_gives_the_same_tables_as_its_records(
    commit: str, twin: str
) -> None:
    records = read_records(need_corpus() / "tracer" / twin)

    trace = read_file(corpus_trace(commit))

    assert_same_content(trace, records)
    assert trace.claims is not None
    assert trace.warnings == ()


@pytest.mark.parametrize("commit", [commit for commit, _ in TWINS])
def test_real_trace_counts_equal_the_index(commit: str) -> None:
    path = corpus_trace(commit)
    corpus = need_corpus()
    index = json.loads((corpus / "INDEX.json").read_text())
    expect = next(
        row["expect"] for row in index if row["path"] == str(path.relative_to(corpus))
    )

    trace = open_trace(path)

    is_op = trace.spans.op >= 0
    names = np.array(op_names(trace))
    assert trace.info.reader_id == "trace-json"
    # The index counts entries; where each has one source, two are a MUL_MAT.
    each = 1 if trace.claims is None or trace.claims.has_results else 2
    assert trace.info.n_records == expect["entries"]
    assert int(is_op.sum()) * each == expect["entries"]
    assert {n: int((names == n).sum()) * each for n in set(names)} == expect["ops"]
    assert trace.info.n_passes == expect["passes"]
    assert trace.clock.origin == expect["ts_first"]
    if expect["sources"]:
        space = trace.accesses.flat(trace.spans).what.space
        assert int((space == Space.FILE).sum()) == expect["disk"]
        assert int((space == Space.BUFFER).sum()) == expect["buffer"]


@pytest.mark.parametrize("layout", ["256", "1024", "128"])
def test_made_trace_gives_the_same_tables_as_its_records(
    tmp_path: Path, layout: str
) -> None:
    records = llama_trace()
    if layout == "128":
        records = [
            Rec(r.time, op=1, sources=(s,), layer=s.layer)
            for r in records
            for s in r.sources
        ]
    data = encode(records, layout)
    (tmp_path / "t.bin").write_bytes(data)
    # As the records hold them: with names cut to their fields.
    value = document(decode(data, layout), f"{layout}-byte")
    if layout == "128":
        for entry in value["entries"]:
            entry["operation_type"] = "MUL_MAT"

    trace = read_object(tmp_path, value)

    assert_same_content(trace, read_records(tmp_path / "t.bin"))


def test_small_blocks_give_the_same_trace_as_large_ones(tmp_path: Path) -> None:
    path = tmp_path / "token-00000.json"
    path.write_text(json.dumps(document(llama_trace()), indent=2))

    small = read_file(path, TraceJsonReader(block_bytes=700))

    assert_same_content(small, read_file(path))
    assert small.spans.record.tolist() == read_file(path).spans.record.tolist()


def test_layer_65535_and_null_both_mean_none(tmp_path: Path) -> None:
    records = [Rec(1000, "a", sources=(Src("b"),)), Rec(2000, "c", sources=(Src("d"),))]
    value = document(records)
    value["entries"][1]["layer_id"] = 65535
    value["entries"][1]["sources"][0]["layer_id"] = 65535

    trace = read_object(tmp_path, value)

    assert trace.spans.layer.tolist() == [-1] * len(trace.spans)
    assert trace.accesses.patterns.layer.tolist() == [-1, -1]


def test_neither_offset_nor_buffer_is_unknown_not_zero(tmp_path: Path) -> None:
    value = document([Rec(1000, "a", sources=(weight("w.weight"), Src("x")))])
    for source in value["entries"][0]["sources"]:
        source.update(disk_offset=None, buffer_id=None)

    trace = read_object(tmp_path, value)

    patterns = trace.accesses.patterns
    assert patterns.space.tolist() == [Space.FILE, Space.BUFFER]
    assert patterns.offset.tolist() == [-1, -1]
    assert patterns.buffer.tolist() == [-1, -1]
    assert "bad_source" not in codes(trace)


def test_numbers_as_texts_and_floats_are_taken(tmp_path: Path) -> None:
    value = document([Rec(1000, "a", sources=(weight("w.weight", where=0x20),))])
    value["entries"][0]["timestamp_ns"] = 1e3
    value["entries"][0]["thread_id"] = "7"
    value["entries"][0]["sources"][0].update(
        tensor_ptr=4096, disk_offset="32", size_bytes=2048.0
    )

    trace = read_object(tmp_path, value)

    patterns = trace.accesses.patterns
    assert trace.clock.origin == 1000
    assert [x.attributes["raw"] for x in trace.lanes if x.kind == LaneKind.THREAD] == [
        "7"
    ]
    assert patterns.address.tolist() == [4096]
    assert (patterns.offset.tolist(), patterns.size.tolist()) == ([32], [2048])
    assert trace.warnings == ()


def test_size_beyond_four_gib_is_kept(tmp_path: Path) -> None:
    records = [Rec(1000, "a", sources=(Src("x", size=5 << 30),))]

    trace = read_object(tmp_path, document(records))

    assert trace.accesses.patterns.size.tolist() == [5 << 30]


def test_more_than_four_sources_are_all_kept(tmp_path: Path) -> None:
    sources = tuple(Src(f"s{k}") for k in range(6))

    trace = read_object(tmp_path, document([Rec(1000, "a", sources=sources)]))

    names = [trace.strings[int(i)] for i in trace.tensors.name]
    assert len(trace.accesses) == 6
    assert {"s0", "s5"} <= set(names)


def test_name_longer_than_its_schema_is_kept_whole(tmp_path: Path) -> None:
    name = "blk.0.attn_norm.weight.and.much.more"

    trace = read_object(tmp_path, document([Rec(1000, "a", sources=(weight(name),))]))

    assert trace.strings.find(name) >= 0
    assert "truncated_names" not in codes(trace)


def test_unknown_keys_are_ignored(tmp_path: Path) -> None:
    value = document([Rec(1000, "a", sources=(Src("x"),))])
    value["comment"] = {"entries": [1]}
    value["entries"][0]["colour"] = [1, {"a": "]"}]
    value["entries"][0]["sources"][0]["flag"] = None

    trace = read_object(tmp_path, value)

    assert len(op_names(trace)) == 1
    assert trace.warnings == ()


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("has_bad_one", [False, True])
def test_duplicate_keys_of_entries_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: str, has_bad_one: bool
) -> None:
    if native == "0":
        oracles.npu(monkeypatch)
    records = [Rec(1000 + i, "a", sources=(Src("x"),)) for i in range(6)]
    value = document(records)
    if has_bad_one:  # each entry of its block is looked at alone
        value["entries"][5]["timestamp_ns"] = "soon"
    text = json.dumps(value)
    for i in (2, 4):
        entry = json.dumps(value["entries"][i])
        inner = entry.replace('"layer_id"', '"layer_id": 9, "layer_id"')
        assert inner.count('"layer_id"') > entry.count('"layer_id"')
        text = text.replace(entry, inner)

    trace = read_text(tmp_path, text)

    (note,) = [w for w in trace.warnings if w.code == "duplicate_key"]
    n = inner.count('"layer_id"') - entry.count('"layer_id"')
    assert (note.count, note.place) == (2 * n, "entries[2].layer_id")
    assert len(op_names(trace)) == 5 + (not has_bad_one)


def test_entries_of_wrong_types_are_skipped_and_counted(tmp_path: Path) -> None:
    value = document(llama_trace(n_passes=1))
    entries = value["entries"]
    n = len(entries)
    entries[3] = 7
    entries[5]["timestamp_ns"] = "soon"
    entries[8]["operation_type"] = None
    value["metadata"]["total_entries"] = n

    trace = read_object(tmp_path, value)

    assert len(op_names(trace)) == n - 3
    assert codes(trace)["bad_entry"] == 3
    assert place_of(trace, "bad_entry") == "entries[3]"
    assert 3 not in trace.spans.record.tolist()


def test_bad_field_is_left_out_and_the_entry_kept(tmp_path: Path) -> None:
    value = document([Rec(1000, "a"), Rec(2000, "b")])
    value["entries"][1]["layer_id"] = 99_999_999

    trace = read_object(tmp_path, value)

    assert len(op_names(trace)) == 2
    assert place_of(trace, "bad_entry") == "entries[1].layer_id"


def test_bad_source_is_counted_for_every_entry_that_has_it(tmp_path: Path) -> None:
    records = [Rec(1000 * k, "a", sources=(Src("x"), Src("y"))) for k in range(1, 5)]
    value = document(records)
    for entry in value["entries"][1:]:
        entry["sources"][1] = "y"

    trace = read_object(tmp_path, value)

    assert codes(trace)["bad_source"] == 3
    assert place_of(trace, "bad_source") == "entries[1].sources[1]"
    assert trace.accesses.counts().max() == 2
    assert len(trace.accesses) == 5


def test_truncated_file_keeps_the_entries_before_the_cut(tmp_path: Path) -> None:
    text = json.dumps(document(llama_trace(n_passes=2)), indent=2)
    at = text.index('"entry_id": 20')

    trace = read_text(tmp_path, text[:at])

    assert len(op_names(trace)) == 20
    assert codes(trace)["truncated_json"] == 1
    assert place_of(trace, "truncated_json") == "entries[20]"


def test_every_truncation_is_read_or_refused_with_a_message(tmp_path: Path) -> None:
    text = json.dumps(document(llama_trace(n_passes=1, n_layers=1)), indent=1).encode()

    for length in range(1, len(text), 97):
        try:
            trace = read_text(tmp_path, text[:length])
        except (CorruptError, TruncatedError) as error:
            assert str(error)  # noqa: PT017 - some lengths are read
        else:
            assert "truncated_json" in codes(trace), length


def test_broken_json_keeps_the_entries_before(tmp_path: Path) -> None:
    text = json.dumps(document(llama_trace(n_passes=1)), indent=2)
    at = text.index('"entry_id": 9')
    # A bracket that closes too much.
    broken = text[:at] + "}}]]" + text[at:]

    trace = read_text(tmp_path, broken)

    assert len(op_names(trace)) >= 9
    assert codes(trace).keys() & {"broken_json", "bad_entry"}


def test_text_without_entries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match="not a token trace"):
        read_text(tmp_path, '{"token_id": 3, "nodes": []}')


def test_no_entries_at_all_is_an_empty_trace(tmp_path: Path) -> None:
    trace = read_object(tmp_path, document([]))

    assert len(trace.spans) == 0


def test_token_of_entries_wins_over_that_of_file_and_name(tmp_path: Path) -> None:
    value = document([Rec(1000, "a", token=5), Rec(2000, "b"), Rec(3000, "c")], token=9)
    del value["entries"][1]["token_id"]
    value["entries"][2]["token_id"] = None

    trace = read_object(tmp_path, value)

    is_op = trace.spans.op >= 0
    assert trace.spans.token[is_op].tolist() == [5, 9, 9]


def test_token_of_the_name_is_the_last_resort(tmp_path: Path) -> None:
    value = document([Rec(1000, "a")], token=None)
    del value["entries"][0]["token_id"]

    trace = read_object(tmp_path, value)

    assert trace.spans.token[trace.spans.op >= 0].tolist() == [3]


def test_claimed_number_of_entries_is_checked(tmp_path: Path) -> None:
    value = document([Rec(1000, "a")])
    value["metadata"]["total_entries"] = 4

    assert codes(read_object(tmp_path, value)) == {"entry_count": 1}


def test_record_of_a_span_is_its_entry(tmp_path: Path) -> None:
    trace = read_object(tmp_path, document(llama_trace(n_passes=1)))
    assert trace.records is not None

    view = trace.records.view(4)

    fields = {name: value for name, value, _, _ in view.fields}
    assert fields["entry_id"] == "4"
    assert json.loads(view.data)["entry_id"] == 4


def test_several_threads_get_lanes_of_their_own(tmp_path: Path) -> None:
    records = [Rec(1000 + k, "a", thread=(7, 100_000)[k % 2]) for k in range(6)]

    trace = read_object(tmp_path, document(records))

    raw = [x.attributes["raw"] for x in trace.lanes if x.kind == LaneKind.THREAD]
    assert raw == ["7", "100000"]


def test_cancelled_reading_stops(tmp_path: Path) -> None:
    path = tmp_path / "token-00000.json"
    path.write_text(json.dumps(document(llama_trace()), indent=2))
    cancel = threading.Event()
    calls = []

    def progress(done: int, total: int) -> None:
        calls.append((done, total))
        cancel.set()

    with Source(path) as source, pytest.raises(Cancelled):
        TraceJsonReader(block_bytes=2000).read(
            source, ReadContext(progress=progress, cancel=cancel)
        )
    assert len(calls) == 1
    assert 0 < calls[0][0] < calls[0][1]


def test_unknown_op_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="unknown op table"):
        read_object(tmp_path, document([Rec(1, "a")]), ops="ggml-1999")


@pytest.mark.parametrize(
    ("text", "min_confidence"),
    [
        (json.dumps(document([Rec(1, "a")])), 50),
        (json.dumps(document([])), 50),
        ('{"nodes": [], "edges": [], "token_id": 0, "metadata": {}}', 0),
        ('{"metadata": {}, "timeline_events": []}', 0),
        ('{"metadata": {}, "tensors": [], "total_size_bytes": 3}', 0),
        ("[1, 2]", 0),
    ],
)
def test_sniff_knows_token_traces_from_other_json(
    text: str, min_confidence: int
) -> None:
    data = text.encode()

    confidence = TraceJsonReader().sniff(Head("x.json", len(data), data)).confidence

    assert confidence >= min_confidence if min_confidence else confidence == 0


@pytest.mark.parametrize("version", ["256-byte", "1024-byte v4", "128-byte"])
def test_mutated_values_never_fail(tmp_path: Path, version: str) -> None:
    """Every value of a small file in turn becomes something else."""
    records = [replace(r, experts=(4, 1)) for r in llama_trace(n_passes=1)[:2]]
    value = document(records, version)
    junk = [None, True, -1, 1 << 70, 1.5, "", "x", [], {}, [None], "0xzz"]

    for path in _paths(value):
        for other in junk:
            changed = copy.deepcopy(value)
            _put(changed, path, other)
            try:
                read_object(tmp_path, changed)
            except ReadError as error:
                assert str(error)  # noqa: PT017 - most variants are read


def _paths(value: object, at: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    paths = [at] if at else []
    for key, child in children:
        paths += _paths(child, (*at, key))
    return paths


def _put(value: object, path: tuple[object, ...], other: object) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = other
