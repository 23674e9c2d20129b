"""Token traces are written as their exporter writes them, and read back the same."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from ggscope.errors import ExportError
from ggscope.exporters.token_json import TokenJson
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor.reader import TensorAccessReader
from statements import new_statement
from support import need_corpus
from tensor_files import NO_LAYER, Rec, Src, encode, llama_trace, table_of, weight
from token_files import TWINS, corpus_trace, document, op_names, read_file, read_text

UNLIKE = ("info", "ops", "spans.op", "warnings")


def read_records(tmp_path: Path, records: list[Rec], layout: str) -> Trace:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, layout))
    return read_binary(path)


def read_binary(path: Path, **options: str) -> Trace:
    with Source(path) as source:
        return TensorAccessReader().read(source, ReadContext(options=options))


def texts_of(trace: Trace, schema: str | None = None) -> dict[str, bytes]:
    """Return the text of every token file."""
    writer = TokenJson(trace, schema)
    return {file.name: b"".join(writer.chunks(file)) for file in writer.files}


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


@pytest.mark.parametrize("commit", [commit for commit, _ in TWINS])
def test_real_trace_is_written_byte_for_byte(commit: str) -> None:
    path = corpus_trace(commit)

    texts = texts_of(read_file(path))

    assert texts == {"token-00000.json": path.read_bytes()}


@pytest.mark.parametrize(("commit", "twin"), TWINS)
def test_records_are_written_as_their_exporter_did(commit: str, twin: str) -> None:
    trace = read_binary(need_corpus() / "tracer" / twin)

    assert texts_of(trace) == {"token-00000.json": corpus_trace(commit).read_bytes()}


def test_names_are_utf_8_as_they_are(tmp_path: Path) -> None:
    trace = read_records(tmp_path, [Rec(10**9, "größe·1", 2, (Src("ä"),))] * 3, "256")

    (text,) = texts_of(trace).values()

    assert '"größe·1"' in text.decode()
    assert '"ä"' in text.decode()


def test_experts_are_written_as_they_were_listed(tmp_path: Path) -> None:
    records = [
        Rec(1000 + 10 * k + 100 * token, f"ffn_moe_{part}-{layer}", 30,
            (weight(f"blk.{layer}.ffn_{part}_exps.weight", layer),), 0, layer,
            experts=(token, layer, 9))
        for token in range(2)
        for layer in range(2)
        for k, part in enumerate(("gate", "up"))
    ]  # fmt: skip
    records.insert(0, Rec(900, "inp_embd", 40, (weight("token_embd.weight"),)))
    records.insert(5, Rec(1099, "inp_embd", 40, (weight("token_embd.weight"),)))
    value = document(records, "1024-byte v4")
    text = json.dumps(value, indent=2)

    assert texts_of(read_text(tmp_path, text)) == {"token-00000.json": text.encode()}


def test_experts_that_sizes_imply_are_not_written_as_listed(tmp_path: Path) -> None:
    topk = Src("ffn_moe_topk-0", size=4 * 32)
    sources = (weight("blk.0.ffn_up_exps.weight", 0), Src("ffn_norm-0"), topk)
    embedding = (weight("token_embd.weight"), Src("leaf_2", size=4))
    records = [
        Rec(10**9, "inp_embd", 40, embedding),
        Rec(10**9 + 5, "ffn_moe_argsort-0", 68, (Src("ffn_moe_probs-0", size=128),)),
        Rec(10**9 + 9, "ffn_moe_up-0", 30, sources, layer=0, experts=tuple(range(16))),
    ]
    trace = read_records(tmp_path, records, "1024")

    (text,) = texts_of(trace).values()

    assert len(trace.routing) == 32
    entries = json.loads(text)["entries"]
    assert [len(e["expert_ids"]) for e in entries] == [0, 0, 16]
    plain = replace(records[2], experts=())
    silent = read_records(tmp_path, [*records[:2], plain], "1024")
    assert len(silent.routing) == 32
    assert not any("experts" in loss for loss in TokenJson(silent).losses)


def test_every_token_gets_a_file_with_times_of_its_own(tmp_path: Path) -> None:
    records = llama_trace(n_passes=3)
    tokens = {r.time: k for k, r in enumerate(sorted(records, key=lambda r: r.time))}
    n = len(records) // 3
    records = [replace(r, token=tokens[r.time] // n * 7) for r in records]

    texts = texts_of(read_records(tmp_path, records, "1024"))

    assert list(texts) == ["token-00000.json", "token-00007.json", "token-00014.json"]
    for k, text in enumerate(texts.values()):
        own = [r for r in records if r.token == 7 * k]
        assert json.loads(text) == document(own, "1024-byte", 7 * k)


NAMES = st.sampled_from(
    [
        "inp_embd",
        "blk.1.attn_q.weight",
        "Qcur-1 (view)",
        " (copy)",
        "",
        "x\u00e9",
        'a"b\\',
    ]
)
SOURCES = st.builds(
    Src,
    name=NAMES,
    ptr=st.integers(0, 2**64 - 1),
    size=st.integers(0, 2**32 - 1),
    layer=st.sampled_from([0, 1, 33, NO_LAYER]),
    mem=st.integers(0, 1),
    where=st.integers(0, 2**62 - 1),
)
RECORDS = st.lists(
    st.builds(
        Rec,
        time=st.integers(1, 10**15),
        dst=NAMES,
        op=st.sampled_from([2, 7, 25, 29, 40, 48, 94]),
        sources=st.lists(SOURCES, max_size=4).map(tuple),
        token=st.sampled_from([0, 0, 0, 12]),
        layer=st.sampled_from([0, 1, NO_LAYER]),
        thread=st.integers(0, 65535),
        phase=st.integers(0, 1),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(records=RECORDS)
def test_what_was_written_is_read_back_and_written_the_same(
    tmp_path_factory: pytest.TempPathFactory, records: list[Rec]
) -> None:
    folder = tmp_path_factory.mktemp("trace")
    path = folder / "t.bin"
    path.write_bytes(encode(records, "256"))
    trace = read_binary(path, layout="256", ops="ggml-2025-11-25-95")

    texts = texts_of(trace)
    again = {}
    for name, text in texts.items():
        (folder / name).write_bytes(text)
        back = read_file(folder / name, ops="as-printed")
        again |= texts_of(back)

    assert again == texts
    written = [e for text in texts.values() for e in json.loads(text)["entries"]]
    assert len(written) == len(records)
    if len(texts) == 1:
        assert_same_content(back, trace)
    items = sorted((e["timestamp_ns"], e["dst_name"], e["thread_id"]) for e in written)
    assert items == sorted((r.time, r.dst, r.thread) for r in records)


def test_trace_written_with_wide_schema_gives_the_same_tables(tmp_path: Path) -> None:
    trace = read_records(tmp_path, llama_trace(1), "256")

    (text,) = texts_of(trace, "1024").values()
    back = read_text(tmp_path, text)

    assert json.loads(text)["metadata"]["format_version"] == "1024-byte"
    assert np.array_equal(back.spans.start, trace.spans.start)
    assert len(back.accesses) == len(trace.accesses)


def test_narrow_schema_has_one_entry_per_source_and_says_what_is_lost(
    tmp_path: Path,
) -> None:
    trace = read_records(tmp_path, [*llama_trace(1), Rec(5, "none")], "256")

    writer = TokenJson(trace, "128")
    (file,) = writer.files
    entries = json.loads(b"".join(writer.chunks(file)))["entries"]

    assert len(entries) == writer.n_entries(file) == len(trace.accesses)
    assert [e["entry_id"] for e in entries] == list(range(len(entries)))
    assert any("1 op without sources is" in text for text in writer.losses)


def test_losses_are_reported_where_the_schema_has_no_room(tmp_path: Path) -> None:
    def loss_text(records: list[Rec], layout: str, schema: str) -> str:
        trace = read_records(tmp_path, records, layout)
        return "\n".join(TokenJson(trace, schema).losses)

    plain, bare = llama_trace(1), [*llama_trace(1), Rec(5, "none")]
    chosen = [*plain[:-1], replace(plain[-1], experts=(1, 2))]

    assert new_statement(loss_text(plain, "256", "128"), loss_text(plain, "256", "256"))
    lost = loss_text(bare, "256", "128")
    assert new_statement(
        lost, loss_text(plain, "256", "128") + loss_text(bare, "256", "256")
    )
    assert new_statement(
        loss_text(chosen, "1024", "256"),
        loss_text(chosen, "1024", "1024") + loss_text(plain, "1024", "256"),
    )
    measured = llama_trace(duration=400)
    assert new_statement(
        loss_text(measured, "256", "256"), loss_text(plain, "256", "256")
    )


def test_short_records_cannot_become_a_schema_that_knows_more(tmp_path: Path) -> None:
    records = [Rec(1, op=1, sources=(Src("a"),))]

    with pytest.raises(ExportError, match="--schema 128"):
        TokenJson(read_records(tmp_path, records, "128"), "256")


def test_traces_without_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))

    with pytest.raises(ExportError, match="were not read"):
        TokenJson(read_binary(path, names="none"))


def test_other_traces_are_refused() -> None:
    with pytest.raises(ExportError, match="single traces"):
        TokenJson(builders.npu_like_trace())


def test_global_entry_ids_are_kept(tmp_path: Path) -> None:
    value = document(llama_trace(1), token=4)
    for entry in value["entries"]:
        entry["entry_id"] += 582
        entry["token_id"] = 4
    text = json.dumps(value, indent=2)

    assert texts_of(read_text(tmp_path, text)) == {"token-00004.json": text.encode()}


def test_empty_trace_is_one_file_without_entries(tmp_path: Path) -> None:
    text = json.dumps(document([]), indent=2)

    (written,) = texts_of(read_text(tmp_path, text)).values()

    assert json.loads(written) == document([])


def test_unknown_op_and_missing_phase_are_written_as_they_were_read(
    tmp_path: Path,
) -> None:
    value = document([Rec(1000, "node_1"), Rec(2000, "node_2")])
    value["entries"][0]["operation_type"] = "UNKNOWN_200"
    value["entries"][1]["phase"] = None
    text = json.dumps(value, indent=2)

    assert texts_of(read_text(tmp_path, text)) == {"token-00000.json": text.encode()}
