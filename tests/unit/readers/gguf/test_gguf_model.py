"""GGUF files: what the table of tensors becomes, and what damage leaves of it."""

import os
import struct
import tracemalloc

import pytest

from ggscope.errors import CorruptError, TruncatedError, UnsupportedVersionError
from ggscope.model.tensors import Place, SizeSource
from ggscope.model.trace import Severity
from ggscope.readers.api import HEAD_BYTES, Head
from ggscope.readers.common.gguf_header import (
    HEADER_BYTES,
    HeaderCursor,
    HeaderFault,
    read_header,
)
from ggscope.readers.gguf.reader import MAX_FACTS, GgufReader
from ggscope.readers.source import Source
from gguf_files import (
    ARRAY,
    BOOL,
    F32,
    FIELDS,
    I32,
    STRING,
    TENSORS,
    U8,
    U32,
    Encoder,
    T,
    codes,
    encode,
    names,
    read_gguf,
    read_path,
)


def warning(trace, code):
    return next(w for w in trace.warnings if w.code == code)


def sniffed(data):
    return GgufReader().sniff(Head("x", len(data), data[:HEAD_BYTES])).confidence


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("big", [False, True], ids=["little", "big"])
def test_every_version_and_byte_order_gives_the_same_tensors(tmp_path, version, big):
    trace = read_gguf(tmp_path, encode(version=version, big=big))

    t, (model,) = trace.tensors, trace.models
    assert codes(trace) == {}
    assert names(trace) == [tensor.name for tensor in TENSORS]
    assert t.size.tolist() == [tensor.size for tensor in TENSORS]
    assert (t.offset[0], t.offset[1]) == (model.data_offset, t.offset[0] + 6816)
    assert t.layer.tolist() == [-1, 0, 0, 0, 1, -1]
    assert t.n_experts.tolist() == [0, 0, 0, 4, 0, 0]
    assert t.shape[3].tolist() == [64, 32, 4, 1]
    assert set(t.place.tolist()) == {Place.STATED}
    assert set(t.size_source.tolist()) == {SizeSource.STATED}
    assert model.size == trace.info.byte_size
    assert model.size - t.offset[-1] - t.size[-1] < 32
    assert trace.info.format_version == str(version) + ", big-endian" * big
    assert len(trace.spans) == 0


def test_facts_are_derived_from_the_metadata(tmp_path):
    fields = {
        **FIELDS,
        "llama.expert_count": (U32, 8),
        "llama.expert_used_count": (U32, 2),
        "general.file_type": (U32, 15),
        "llama.context_length": (U32, 4096),
        "general.tags": (ARRAY, (STRING, ["a", "b"])),
        "tokenizer.chat_template": (STRING, "x" * 5000),
        "tokenizer.huge": (STRING, "x" * 100_000),
    }

    facts = read_gguf(tmp_path, encode(fields=fields)).models[0].metadata

    assert facts["general.architecture"] == "llama"
    assert (facts["n_layers"], facts["n_embd"], facts["n_vocab"]) == ("2", "64", "100")
    assert (facts["n_experts"], facts["n_experts_used"]) == ("8", "2")
    assert (facts["file_type"], facts["n_ctx"]) == ("Q4_K_M", "4096")
    assert facts["llama.rope.freq_base"] == "10000"
    assert facts["tokenizer.ggml.add_bos_token"] == "true"
    assert facts["general.tags"] == "[a, b]"
    begin = facts["tokenizer.chat_template"]
    assert begin == f"5,000 bytes of text: {'x' * 200}…"
    assert facts["tokenizer.huge"] == "100,000 bytes of text"
    tokens = FIELDS["tokenizer.ggml.tokens"][1][1]
    shown = ", ".join(tokens[:8])
    assert facts["tokenizer.ggml.tokens"] == f"100 values: [{shown}, …]"


def test_vocabulary_without_tokens_is_reported_by_the_embedding(tmp_path):
    trace = read_gguf(tmp_path, encode(fields={}))

    assert trace.models[0].metadata == {"n_vocab": "100"}


def test_experts_are_counted_by_the_last_dimension(tmp_path):
    tensors = [
        T("blk.0.ffn_up_exps.weight", (32, 8, 4)),
        T("blk.0.ffn_up_exps.bias", (8, 4)),
        T("blk.0.ffn_up_chexps.weight", (32, 8, 2)),
        T("blk.0.ffn_up_shexp.weight", (32, 8)),
        T("blk.0.ffn_up.3.weight", (32, 8)),
    ]

    t = read_gguf(tmp_path, encode(tensors)).tensors

    assert t.n_experts.tolist() == [4, 4, 2, 0, 0]
    assert t.expert.tolist() == [-1, -1, -1, -1, 3]


def test_scalar_tensor_and_model_without_tensors_are_read(tmp_path):
    scalar = read_gguf(tmp_path, encode([T("s", ())], data_bytes=32)).tensors
    nothing = read_gguf(tmp_path, encode([]))

    assert (scalar.size.tolist(), scalar.shape.tolist()) == ([4], [[1, 1, 1, 1]])
    assert len(nothing.tensors) == 0
    assert codes(nothing) == {}


@pytest.mark.parametrize(
    ("data", "low", "high"),
    [
        (encode(), 100, 100),
        (encode(big=True), 100, 100),
        (encode(version=9), 60, 60),
        (b"GGUF", 60, 60),
        (b"GGUF\x03\0\0\0" + bytes(100), 60, 60),
        (b"GGML" + bytes(100), 0, 0),
        (b"", 0, 0),
    ],
)
def test_sniff_goes_by_magic_and_version(data, low, high):
    assert low <= sniffed(data) <= high


def test_thirty_gib_with_a_large_vocabulary_reads_only_the_head(tmp_path):
    tokens = [f"token{i}" for i in range(200_000)]
    fields = {**FIELDS, "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens))}
    huge = T("blk.0.ffn_up_exps.weight", (4096, 4096, 320), "f32")
    path = tmp_path / "big.gguf"
    path.write_bytes(encode([huge], fields, data_bytes=0))
    head = path.stat().st_size
    os.truncate(path, head + huge.size)

    tracemalloc.start()
    trace = read_path(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert codes(trace) == {}
    assert trace.models[0].metadata["n_vocab"] == "200000"
    assert trace.tensors.offset.tolist() == [head]
    # Less than the tokens' bytes, let alone an object for each of them.
    assert peak < 4 << 20


def test_file_cut_at_every_byte_keeps_what_is_whole(tmp_path):
    whole = encode(fields={k: FIELDS[k] for k in list(FIELDS)[:3]})
    full = read_gguf(tmp_path, whole)
    head = full.models[0].data_offset
    path = tmp_path / "cut.gguf"

    for length in [*range(1, head, 7), head - 1, head, head + 1, len(whole) - 99]:
        path.write_bytes(whole[:length])
        try:
            trace = read_path(path)
        except TruncatedError:
            assert length < 24 + 8 + 20 + 4 + 8 + 5  # the first key and its value
            continue
        n = len(trace.tensors)
        assert names(trace) == names(full)[:n]
        assert trace.tensors.size.tolist() == full.tensors.size[:n].tolist()
        assert any(w.severity is Severity.DATA_LOSS for w in trace.warnings), length
        if "gguf_cut_header" in codes(trace):
            assert set(trace.tensors.offset.tolist()) <= {-1}
            assert set(trace.tensors.place.tolist()) <= {Place.UNKNOWN}
            assert trace.models[0].data_offset == -1
        else:
            assert trace.tensors.offset.tolist() == full.tensors.offset.tolist()


def test_missing_weights_are_counted_to_the_byte(tmp_path):
    data = encode([T("a", (64,)), T("b", (4096,))])

    trace = read_gguf(tmp_path, data[:-5000])

    problem = warning(trace, "gguf_data_missing")
    assert problem.severity is Severity.DATA_LOSS
    assert problem.offset == len(data) - 5000
    assert "5,000 bytes" in problem.message
    assert "1 of 2 tensors" in problem.message


def test_count_beyond_the_file_keeps_the_tensors_that_are_there(tmp_path):
    data = encode(n_tensors=1 << 40, data_bytes=0)

    trace = read_gguf(tmp_path, data)

    assert names(trace) == [t.name for t in TENSORS]
    assert warning(trace, "gguf_counts").offset == 8
    assert set(codes(trace)) == {"gguf_counts", "gguf_broken_header"}


def test_count_that_runs_into_the_weights_stops_with_the_offset(tmp_path):
    data = encode(n_tensors=len(TENSORS) + 1)

    trace = read_gguf(tmp_path, data)

    problem = warning(trace, "gguf_broken_header")
    assert names(trace) == [t.name for t in TENSORS]
    assert problem.place == "tensor 6"
    assert 0 < problem.offset < len(data)


def test_unknown_type_gets_the_space_up_to_the_next_tensor(tmp_path):
    tensors = [T("a", (64,)), T("b", (64,), 77, offset=256), T("c", (8,), offset=1024)]

    trace = read_gguf(tmp_path, encode(tensors, data_bytes=1056))

    t, problem = trace.tensors, warning(trace, "gguf_unknown_type")
    assert t.size.tolist() == [256, 768, 32]
    assert t.type.tolist() == [0, 77, 0]
    assert t.size_source[1] == SizeSource.REPAIRED
    assert (problem.place, problem.count) == ("b", 1)
    assert "77" in problem.message


def test_last_tensor_of_unknown_type_ends_with_the_file(tmp_path):
    trace = read_gguf(tmp_path, encode([T("a", (64,), 1 << 31)], data_bytes=96))

    assert trace.tensors.size.tolist() == [96]
    assert trace.tensors.type.tolist() == [-1]


def test_overlaps_name_both_tensors(tmp_path):
    tensors = [T("a", (64,)), T("b", (64,), offset=128), T("c", (8,), offset=384)]

    problem = warning(read_gguf(tmp_path, encode(tensors)), "gguf_overlaps")

    assert (problem.count, problem.severity) == (1, Severity.DATA_LOSS)
    assert "a and b overlap by 128 bytes" in problem.message


@pytest.mark.parametrize(
    ("tensors", "code", "word"),
    [
        (
            [T("a", (64,), offset=256), T("b", (64,), offset=0)],
            "gguf_out_of_order",
            "b",
        ),
        ([T("a", (64,)), T("b", (8,), offset=257)], "gguf_misaligned", "32 bytes"),
        ([T("a", (64,)), T("b", (8,), offset=512)], "gguf_gaps", "256 bytes"),
        ([T("a", (8,)), T("a", (8,))], "gguf_repeated_tensor", "Duplicate"),
        ([T("a", (100,), "q4_K")], "gguf_odd_rows", "block size"),
        ([T("a", (1 << 40, 1 << 40))], "gguf_impossible_tensor", "invalid shape"),
        ([T("a", (8,), offset=1 << 63)], "gguf_impossible_tensor", "invalid shape"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_odd_places_are_reported_and_kept(tmp_path, tensors, code, word):
    trace = read_gguf(tmp_path, encode(tensors, data_bytes=4096))

    assert len(trace.tensors) == len(tensors)
    assert word in warning(trace, code).message


def test_bytes_behind_the_last_tensor_are_reported(tmp_path):
    trace = read_gguf(tmp_path, encode([T("a", (8,))], data_bytes=10_000))

    assert "9,968 bytes" in warning(trace, "gguf_trailing_bytes").message


@pytest.mark.parametrize("stated", [0, 48, 1 << 31], ids=str)
def test_odd_alignment_is_reported(tmp_path, stated):
    fields = {"general.alignment": (U32, stated)}
    trace = read_gguf(tmp_path, encode([T("a", (64,))], fields))

    assert str(stated) in warning(trace, "gguf_alignment").message
    assert trace.models[0].data_offset % (48 if stated == 48 else 32) == 0


def test_alignment_of_another_type_is_not_believed(tmp_path):
    fields = {"general.alignment": (STRING, "64")}

    trace = read_gguf(tmp_path, encode([T("a", (64,))], fields))

    assert codes(trace) == {"gguf_alignment": 1}


def test_repeated_key_keeps_its_first_value(tmp_path):
    out = Encoder()
    body = out.field("k", I32, 1) + out.field("k", I32, 2)
    data = b"GGUF" + out.pack("IQQ", 3, 0, 2) + body

    trace = read_gguf(tmp_path, data)

    assert trace.models[0].metadata == {"k": "1"}
    assert codes(trace) == {"gguf_repeated_key": 1}


def test_text_that_is_no_utf8_shows_replaced(tmp_path):
    out = Encoder()
    body = out.field(b"caf\xe9", STRING, b"\xff") + out.field("ok", U8, 1)
    data = b"GGUF" + out.pack("IQQ", 3, 0, 2) + body

    trace = read_gguf(tmp_path, data)

    assert trace.models[0].metadata == {"caf�": "�", "ok": "1"}
    assert codes(trace) == {"gguf_bad_text": 2}


def test_newer_version_is_read_with_a_notice(tmp_path):
    trace = read_gguf(tmp_path, encode(version=4))

    assert codes(trace) == {"gguf_new_version": 1}
    assert len(trace.tensors) == len(TENSORS)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"GGUF", TruncatedError),
        (b"GGUF\x03\0\0\0\0", TruncatedError),
        (b"GGUF\0\0\0\0" + bytes(64), UnsupportedVersionError),
        (b"GGUF\xff\xff\xff\xff" + bytes(64), UnsupportedVersionError),
        (b"GGML" + bytes(64), CorruptError),
        (b"GGUF" + struct.pack("<IQQ", 3, 5, 5) + bytes(99), CorruptError),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0) + bytes(9), TruncatedError),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 60) + bytes(9), CorruptError),
    ],
    ids=range(8),
)
def test_file_with_nothing_to_show_is_one_clear_error(tmp_path, data, error):
    with pytest.raises(error) as caught:
        read_gguf(tmp_path, data)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        Encoder().string("k") + struct.pack("<I", 77),
        Encoder().string("k") + struct.pack("<IIQ", ARRAY, 77, 100),
        Encoder().string("k") + struct.pack("<IIQ", ARRAY, 77, 3),
        Encoder().string("k") + struct.pack("<IIQ", ARRAY, STRING, 1 << 40),
        Encoder().string("k") + struct.pack("<IIQ", ARRAY, U32, 1 << 60),
        Encoder().string("k") + struct.pack("<IIQ", ARRAY, ARRAY, 1 << 40),
        Encoder().string("k") + struct.pack("<IQ", STRING, 1 << 60),
        Encoder().string("k") + struct.pack("<IIQQ", ARRAY, STRING, 100, 1 << 62),
    ],
    ids=range(8),
)
def test_hostile_value_ends_the_walk_at_its_offset(tmp_path, body):
    good = Encoder().field("good", U32, 7)
    data = b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + good + body + bytes(2000)

    trace = read_gguf(tmp_path, data)

    (warning,) = (w for w in trace.warnings if w.severity is Severity.DATA_LOSS)
    assert trace.models[0].metadata == {"good": "7"}
    assert warning.code in ("gguf_broken_header", "gguf_cut_header")
    assert warning.place == "key 1"
    assert warning.offset >= 24 + len(good)


@pytest.mark.parametrize(
    ("kind", "values", "shown"),
    [
        (I32, range(1000), "1,000 values: [0, 1, 2, 3, 4, 5, 6, 7, …]"),
        (F32, [0.5] * 65, f"65 values: [{'0.5, ' * 8}…]"),
        (BOOL, [True] * 65, f"65 values: [{'true, ' * 8}…]"),
        (STRING, ["a" * 150, "b" * 100] * 40, f"80 values: [{'a' * 150}, …]"),
        (STRING, ["a" * 300] * 70, "70 values"),
    ],
)
def test_long_arrays_stand_as_their_length_and_first_values(
    tmp_path, kind, values, shown
):
    fields = {"k": (ARRAY, (kind, list(values))), "z": (U8, 1)}

    trace = read_gguf(tmp_path, encode(fields=fields))

    facts = trace.models[0].metadata
    assert (facts["k"], facts["z"]) == (shown, "1")
    assert not trace.warnings


def test_keys_beyond_the_listed_ones_are_a_problem(tmp_path):
    fields = {f"k{i}": (U8, 1) for i in range(600)}

    trace = read_gguf(tmp_path, encode(fields=fields))

    assert len(trace.models[0].metadata) == MAX_FACTS
    assert [w.code for w in trace.warnings] == ["gguf_many_keys"]


def test_array_of_arrays_is_skipped(tmp_path):
    inner = struct.pack("<IQ", U32, 2) + bytes(8)
    out = Encoder()
    body = out.string("k") + struct.pack("<IIQ", ARRAY, ARRAY, 65) + inner * 65
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + body + out.field("z", U8, 1)

    trace = read_gguf(tmp_path, data)

    assert trace.models[0].metadata == {"k": "65 values", "z": "1"}


def test_walk_ends_at_its_limit(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(encode())

    with Source(path) as source:
        header = read_header(source, header_bytes=400)

    assert header.fields
    assert header.warnings[-1].code == "gguf_broken_header"
    assert "larger than 400 bytes" in header.warnings[-1].message


def test_sparse_file_of_empty_strings_does_not_hang(tmp_path):
    path = tmp_path / "m.gguf"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + Encoder().field("a", U8, 1)
    head += Encoder().string("k") + struct.pack("<IIQ", ARRAY, STRING, (1 << 25) + 1)
    path.write_bytes(head)
    os.truncate(path, 30 << 30)

    trace = read_path(path)

    assert "implausible count" in trace.warnings[0].message


def test_cursor_stops_at_the_end_of_the_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    with Source(path) as source:
        cursor = HeaderCursor(source, lambda: None, header_bytes=HEADER_BYTES)
        assert cursor.take(2, "two") == b"ab"
        with pytest.raises(HeaderFault) as caught:
            cursor.u32("a number")

    assert caught.value.at_end
    assert caught.value.offset == 3


def test_facts_are_capped_and_keys_without_end_stop_the_walk(tmp_path):
    out = Encoder()
    keys = [out.field(f"k{i}", U8, 1) for i in range(65_537)]
    data = b"GGUF" + out.pack("IQQ", 3, 0, len(keys)) + b"".join(keys)

    trace = read_gguf(tmp_path, data)

    assert len(trace.models[0].metadata) == 512
    assert "more than 65,536 keys" in warning(trace, "gguf_broken_header").message
