"""Our walk of a GGUF head and the gguf package see the same file."""

import time

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ggscope.errors import CorruptError, ReadError
from ggscope.readers.gguf import reader as gguf_reader
from gguf_files import codes, encode, names, read_gguf, read_path

Q = gguf.GGMLQuantizationType
QUANTS = sorted(gguf.GGML_QUANT_SIZES)
PLAIN = {
    Q.F32: np.float32,
    Q.F16: np.float16,
    Q.F64: np.float64,
    Q.I8: np.int8,
    Q.I16: np.int16,
    Q.I32: np.int32,
    Q.I64: np.int64,
}


def add_tensor(writer, name, shape, kind):
    """Add zeros; `shape` is ne0 first, as ggml counts."""
    if kind in PLAIN:
        writer.add_tensor(name, np.zeros(tuple(reversed(shape)), PLAIN[kind]))
        return
    packed = gguf.quant_shape_to_byte_shape(tuple(reversed(shape)), kind)
    writer.add_tensor(name, np.zeros(packed, np.uint8), raw_dtype=kind)


def write(path, tensors, *, alignment=32, big=False, tokens=50, **split):
    endian = gguf.GGUFEndian.BIG if big else gguf.GGUFEndian.LITTLE
    writer = gguf.GGUFWriter(path, "llama", endianess=endian, **split)
    writer.add_custom_alignment(alignment)
    writer.add_name("Tiny")
    n_blocks = sum(name.startswith("blk.") for name, *_ in tensors)
    writer.add_block_count(n_blocks or 3)
    writer.add_embedding_length(256)
    writer.add_expert_count(4)
    writer.add_expert_used_count(2)
    writer.add_rope_freq_base(1e6)
    writer.add_file_type(15)
    writer.add_causal_attention(True)
    writer.add_token_list([f"täken{i}" for i in range(tokens)])
    writer.add_token_scores([i / 7 for i in range(tokens)])
    writer.add_array("some.sections", [1, 2, 3])
    writer.add_array("some.words", ["a", "bc", ""])
    for name, shape, kind in tensors:
        add_tensor(writer, name, shape, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def assert_same(path):
    walked, reference = read_path(path), read_path(path, header="package")

    mine, theirs = walked.tensors, reference.tensors
    assert names(walked) == names(reference)
    for column in ("offset", "size", "layer", "type", "shape", "n_experts", "place"):
        assert np.array_equal(getattr(mine, column), getattr(theirs, column)), column
    (one,), (other,) = walked.models, reference.models
    assert one.data_offset == other.data_offset
    short = {k: v for k, v in one.metadata.items() if not k.startswith("tokenizer")}
    assert {k: other.metadata[k] for k in short} == short
    assert walked.info.format_version == reference.info.format_version
    return walked


@pytest.mark.parametrize("kind", QUANTS, ids=lambda kind: kind.name)
def test_walk_equals_the_package_for_every_type(tmp_path, kind):
    block = gguf.GGML_QUANT_SIZES[kind][0]
    write(tmp_path / "m.gguf", [("a.weight", (2 * block, 3), kind)])

    trace = assert_same(tmp_path / "m.gguf")

    assert trace.tensors.size.tolist() == [6 * gguf.GGML_QUANT_SIZES[kind][1]]
    assert codes(trace) == {}


@pytest.mark.parametrize("alignment", [8, 32, 64, 4096])
@pytest.mark.parametrize("big", [False, True], ids=["little", "big"])
def test_walk_equals_the_package_in_both_byte_orders(tmp_path, alignment, big):
    tensors = [
        ("token_embd.weight", (256, 7), Q.F16),
        ("blk.0.attn_norm.weight", (5,), Q.F32),
        ("blk.2.ffn_up_exps.weight", (256, 3, 4), Q.F32),
    ]
    write(tmp_path / "m.gguf", tensors, alignment=alignment, big=big)

    trace = assert_same(tmp_path / "m.gguf")

    assert trace.models[0].data_offset % alignment == 0
    assert ("big-endian" in trace.info.format_version) == big


SHAPES = st.lists(st.integers(1, 9), min_size=0, max_size=3)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.lists(st.tuples(st.sampled_from(QUANTS), SHAPES), max_size=6),
    alignment=st.sampled_from([8, 16, 32, 128]),
    tokens=st.integers(1, 130),
)
def test_walk_equals_the_package_on_random_files(tmp_path, rows, alignment, tokens):
    tensors = [
        (f"blk.{i}.t.weight", (gguf.GGML_QUANT_SIZES[kind][0], *shape), kind)
        for i, (kind, shape) in enumerate(rows)
    ]
    path = tmp_path / "m.gguf"
    path.unlink(missing_ok=True)
    write(path, tensors, alignment=alignment, tokens=tokens)

    trace = assert_same(path)

    assert codes(trace) == {}
    assert trace.models[0].metadata["n_vocab"] == str(tokens)


def test_our_own_encoder_writes_what_the_package_reads(tmp_path):
    (tmp_path / "m.gguf").write_bytes(encode(alignment=64))

    assert len(assert_same(tmp_path / "m.gguf").tensors) == 6


def test_version_2_equals_the_package(tmp_path):
    (tmp_path / "m.gguf").write_bytes(encode(version=2))

    assert_same(tmp_path / "m.gguf")


def test_split_model_of_the_package_is_read_whole(tmp_path):
    tensors = [(f"blk.{i}.t.weight", (64,), Q.F32) for i in range(10)]
    write(tmp_path / "m.gguf", tensors, split_max_tensors=4)
    parts = sorted(tmp_path.glob("*.gguf"))

    whole = [read_path(path) for path in parts]

    assert len(parts) == 3
    for trace, path in zip(whole, parts, strict=True):
        assert names(trace) == [name for name, _, _ in tensors]
        assert codes(trace) == {}
        assert trace.tensors.file.tolist() == [0] * 4 + [1] * 4 + [2] * 2
        assert [m.part for m in trace.models] == [0, 1, 2]
        assert trace.info.paths[0] == path
        assert set(trace.info.paths) == set(parts)
    offsets = [
        tensor.data_offset for path in parts for tensor in gguf.GGUFReader(path).tensors
    ]
    assert whole[0].tensors.offset.tolist() == offsets


def test_package_refuses_what_it_cannot_read_with_a_clear_error(tmp_path):
    with pytest.raises(CorruptError, match="gguf package cannot read"):
        read_gguf(tmp_path, encode(version=1), header="package")


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:300], lambda data: data[:16] + b"\xff" * 7 + data[23:],
     lambda data: data.replace(b"general.architecture", b"general.\xffrchitecture")],
    ids=["cut", "count", "text"],
)  # fmt: skip
def test_damaged_head_never_reaches_the_package(tmp_path, monkeypatch, damage):
    calls = []
    monkeypatch.setattr(gguf_reader, "_read", calls.append)

    with pytest.raises(ReadError):
        read_gguf(tmp_path, damage(encode()), header="package")

    assert calls == []


def test_package_that_does_not_return_is_a_read_error(tmp_path, monkeypatch):
    monkeypatch.setattr(gguf_reader, "_SECONDS", 0.2)
    end = time.monotonic() + 6  # without a limit, the test fails rather than hang

    def hang(path):
        return [0 for _ in iter(lambda: time.monotonic() < end, False)]

    monkeypatch.setattr(gguf, "GGUFReader", hang)

    with pytest.raises(CorruptError, match=r"this file: it took longer than 0\.2 s"):
        read_gguf(tmp_path, encode(), header="package")


def test_package_reads_a_private_copy_of_the_head(tmp_path, monkeypatch):
    seen = []
    reader = gguf.GGUFReader

    def spy(path):
        seen.append((path, path.stat().st_size))
        return reader(path)

    monkeypatch.setattr(gguf, "GGUFReader", spy)
    data = encode()

    read_gguf(tmp_path, data, header="package")

    ((path, size),) = seen
    assert path.parent != tmp_path
    assert size == len(data)
    assert not path.exists()
