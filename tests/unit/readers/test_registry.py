"""Choosing a reader, and what happens when readers misbehave."""

import gzip
import threading
import time
from pathlib import Path

import pytest

from builders import finished, spans_trace
from ggscope.errors import (
    AmbiguousFormatError,
    Cancelled,
    CorruptError,
    EmptyFileError,
    LimitExceededError,
    ReadError,
    UnknownFormatError,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers import plugins, registry
from ggscope.readers.api import Head, ReadContext, ReaderInfo, Sniff
from ggscope.readers.format_hints import likeness
from ggscope.readers.plugins import Loaded
from ggscope.readers.registry import BUILT_IN, PLUG_IN, BuiltIn
from ggscope.readers.source import Source

SPANS = spans_trace([0, 5], [3, 9])


class Fake:
    """A reader that says and does what a test asks for."""

    def __init__(self, name, confidence, *, suffixes=(), read=lambda: SPANS):
        self.info = ReaderInfo(name, name.title(), suffixes, "A test.")
        self.confidence = confidence
        self.answer = read

    def sniff(self, head):
        if isinstance(self.confidence, Exception):
            raise self.confidence
        if isinstance(self.confidence, int):
            return Sniff(self.confidence, f"{self.info.id} says so")
        return self.confidence

    def read(self, source, context):
        context.check_cancelled()
        return self.answer()


@pytest.fixture
def use(monkeypatch):
    """Return a function that makes the given readers the only ones."""

    def install(*fakes, origin=BUILT_IN):
        own = [BuiltIn("test", fake.info, _reader=fake) for fake in fakes]
        loaded = [Loaded(fake, "test") for fake in fakes]
        own, loaded = (own, []) if origin == BUILT_IN else ([], loaded)
        monkeypatch.setattr(registry, "_BUILT_IN", tuple(own))
        monkeypatch.setattr(plugins, "load_all", lambda *_: tuple(loaded))
        return own or loaded

    return install


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trace.xyz"
    path.write_bytes(b"hello trace")
    return path


def raiser(error):
    def read():
        raise error

    return read


def test_open_takes_the_most_confident_reader(use, file):
    other = finished(TraceBuilder())
    use(Fake("low", 60, read=lambda: other), Fake("high", 90))

    assert registry.open_trace(file) is SPANS


def test_sniff_all_orders_by_confidence(use, file):
    use(Fake("a", 0), Fake("b", 90), Fake("c", 25))

    with Source(file) as source:
        candidates = registry.sniff_all(source)

    assert [(c.info.id, c.sniff.confidence) for c in candidates] == [
        ("b", 90),
        ("c", 25),
        ("a", 0),
    ]


def test_open_with_a_named_reader_does_not_ask_the_others(use, file):
    use(Fake("a", 100, read=raiser(AssertionError())), Fake("b", 0))

    assert registry.open_trace(file, reader_id="b") is SPANS


def test_open_with_an_unknown_name_lists_the_known_ones(use, file):
    use(Fake("a", 100), Fake("b", 0))

    with pytest.raises(UnknownFormatError, match=r"'c'.* Known readers: a, b\."):
        registry.open_trace(file, reader_id="c")


def test_tie_is_broken_by_the_suffix(use, file):
    other = finished(TraceBuilder())
    use(
        Fake("a", 90, suffixes=(".abc",), read=lambda: other),
        Fake("b", 90, suffixes=(".xyz",)),
    )

    assert registry.open_trace(file) is SPANS


@pytest.mark.parametrize("suffixes", [(), (".xyz",)])
def test_tie_that_no_suffix_breaks_is_ambiguous(use, file, suffixes):
    use(*(Fake(name, 90, suffixes=suffixes) for name in "ab"), Fake("c", 25))

    with pytest.raises(AmbiguousFormatError, match="--format: a, b") as caught:
        registry.open_trace(file)

    assert caught.value.candidates == ("a", "b")


def test_winner_by_structure_alone_leaves_a_notice(use, file):
    use(Fake("sure", 20), Fake("guess", 25))

    (warning,) = registry.open_trace(file).warnings

    assert (warning.severity, warning.code) == (Severity.NOTICE, "low_confidence")
    assert "guess says so" in warning.message
    assert "--format: sure" in warning.remedy


def test_notice_of_the_only_candidate_names_no_other(use, file):
    use(Fake("guess", 25))

    (warning,) = registry.open_trace(file).warnings

    assert warning.remedy == "If this is wrong, select the format with --format."


def test_unknown_file_says_what_it_begins_with_and_why_no_reader_takes_it(
    use, tmp_path
):
    use(Fake("a", 0))
    path = tmp_path / "model.bin"
    path.write_bytes(b"GGUX\x03\x00\x00\x00\x01\x02\xff\xfe")

    with pytest.raises(UnknownFormatError) as caught:
        registry.open_trace(path)

    text = str(caught.value)
    assert "47 47 55 58 03 00 00 00" in text
    assert "a: a says so." in text
    assert "--format" in text


def test_file_of_zeros_is_empty(use, tmp_path):
    use(Fake("a", 0))
    path = tmp_path / "zeros.bin"
    with path.open("wb") as file:
        file.truncate(5 << 20)

    with pytest.raises(EmptyFileError, match="5,242,880 bytes"):
        registry.open_trace(path)


def test_file_with_data_behind_zeros_is_unknown(use, tmp_path):
    use(Fake("a", 0))
    path = tmp_path / "late.bin"
    path.write_bytes(bytes(1 << 17) + b"x")

    with pytest.raises(UnknownFormatError, match="first 65,536 bytes are zeros"):
        registry.open_trace(path)


@pytest.mark.parametrize(
    "confidence", [ValueError("boom"), None, Sniff(101), "yes"], ids=str
)
def test_sniff_that_misbehaves_counts_as_zero_and_is_listed(use, file, confidence):
    items = use(Fake("bad", confidence), Fake("good", 90))

    assert registry.open_trace(file) is SPANS
    assert registry.open_trace(file) is SPANS
    assert registry.statuses()[0].status.startswith("failed: sniff")
    assert registry.statuses()[1].status == "ok"
    assert items[0].error


def test_reader_that_raises_becomes_a_read_error(use, file):
    use(Fake("bad", 90, read=raiser(IndexError("list index"))))

    with pytest.raises(ReadError, match="bad failed: IndexError: list index") as caught:
        registry.open_trace(file)

    assert caught.value.path == file
    assert caught.value.reader_id == "bad"


def test_reader_out_of_memory_becomes_a_limit_error(use, file):
    use(Fake("bad", 90, read=raiser(MemoryError())))

    with pytest.raises(LimitExceededError, match="not enough memory"):
        registry.open_trace(file)


def test_read_error_learns_its_file_and_reader(use, file):
    use(Fake("bad", 90, read=raiser(CorruptError("broken."))))

    with pytest.raises(CorruptError) as caught:
        registry.open_trace(file)

    assert (caught.value.path, caught.value.reader_id) == (file, "bad")
    assert caught.value.code == "corrupt"


def test_cancelled_passes_through(use, file):
    use(Fake("a", 90))
    cancel = threading.Event()
    cancel.set()

    with pytest.raises(Cancelled):
        registry.open_trace(file, context=ReadContext(cancel=cancel))


def test_plugin_that_returns_no_trace_is_reported(use, file):
    use(Fake("bad", 90, read=lambda: "spans"), origin=PLUG_IN)

    with pytest.raises(ReadError, match="returned str, not a Trace"):
        registry.open_trace(file)


def test_plugin_with_a_contradictory_trace_is_reported(use, file):
    builder = TraceBuilder()
    builder.add_spans(start=SPANS.spans.end, end=SPANS.spans.start, lane=0)
    use(Fake("bad", 90, read=lambda: builder.snapshot(SPANS.info)), origin=PLUG_IN)

    with pytest.raises(ReadError, match=r"inconsistent trace: .*ends before"):
        registry.open_trace(file)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GGUF\x03", "GGUF model"),
        (b"\x7fELF\x02", "ELF program"),
        (b"\x1f\x8b\x08", "gzip archive"),
        (b"\x89PNG\r\n\x1a\n", "PNG picture"),
        (b"\xff\xfe{\x00", "UTF-16"),
        (bytes(40), "first 40 bytes are zeros"),
        ((90).to_bytes(8, "little") + b'{"__metadata__"', "safetensors"),
        (b'{"traceEvents": [{"ph": "X"', "Chrome trace without a whole event"),
        (b'[{"ph":"B","ts":1,"pid":1,"tid":2,"name":"a"},', "Chrome trace events"),
        (b'[\n {"pid": 0, "tid": 0, "ph": "M", "name": "process_name", "arg', "Chrome"),
        (b'{"ph":"X","ts":1,"pid":1}\n{"ph":"X","ts":2,"pid":1}\n', "Chrome"),
        ("12  77  1  → uprobe:/lib/libcuda.so.1:cuInit\n".encode(), "bpftrace"),
        (b"Attaching 3 probes...\n@calls[cuInit]: 4\n", "bpftrace"),
        (b"a 9/9 198791.127353: cpu-clock:\n", "perf script"),
        (b"build_info: b9010\nsrv  load_model: loading\n", "log of llama.cpp"),
        (b"java;read;check 12\njava;write 3\n", "folded stacks"),
        (b"a,b c,d\n1,2,3\n", "CSV table with the columns a, b c, d,"),
        (b"hello, world\nmore\n", "text that begins"),
        (b"\x9a\0\0\0\x14\0\0\0blk.21.ffn_up.weight", "importance matrix"),
        (b'{"entries": [], "metadata": {}}', "like a token trace"),
        (b'{"colour": 1}', "JSON with the keys colour, which no"),
        (b"[1, 2]", "JSON without any keys"),
        (b"[" * 60_000, "JSON without any keys"),
        (b"{not json", "text that begins “{not json”"),
        (b"noise\ntensor_name,offset_bytes,x\n", "table of tensors"),
        (b"output.weight\nblk.0.attn_q.weight\nblk.0.x\n", "list of tensor names"),
        (b"12:00 ioctl(3, 0xc0) = 0 <0.1>\n", "strace"),
        (b'openat(AT_FDCWD, "model.gguf", O_RDONLY) = 3\n', "strace"),
        (b"[pid  12] 10:00:01.5 mmap(NULL, 4096, 1, 1, 3, 0) = 0x7f00\n", "strace"),
        (b'812   1.25 pread64(3, ""..., 16, 0) = 16 <0.000012>\n', "strace"),
        (b"the answer (so far) = 42\n", "is text that begins"),
        (b"<!DOCTYPE html><p>", "HTML"),
        (b"hello world\nmore", "text that begins “hello world”"),
        (b" \n\n", "blank text"),
        (b"caf\xc3", "text that begins"),
        (bytes(range(256)), "binary data"),
        (b"\x01\x02\x03\x04ab\x05\x06", "binary data"),
    ],
)
def test_lookalike_names_the_kind_of_file(head, expected):
    assert expected in likeness(head).sentence


@pytest.mark.parametrize(
    ("content", "is_worth_unpacking"),
    [
        (b'{"traceEvents": [{"ph": "X"}]}', False),
        (b"Attaching 3 probes...\n@calls[cuInit]: 4\n", True),
        (b'{"colour": 1}', True),
        (b"GGUF\x03", True),
        (b"", True),
    ],
)
def test_archive_is_to_be_unpacked_unless_its_content_is_not_read_either(
    content, is_worth_unpacking
):
    whole = gzip.compress(content)

    assert bool(likeness(whole).command) is is_worth_unpacking
    assert "gzip archive" in likeness(whole).sentence
    for n in range(3, len(whole)):
        assert "gzip archive" in likeness(whole[:n]).sentence
    assert likeness(b"\x1f\x8b\x08" + bytes(60)).command


@pytest.mark.parametrize(
    "head",
    [
        b"1 " * 32_768,
        b"1 " + b" " * 65_000,
        b"a;" + b" 1" * 32_000,
        b"a;" * 32_000,
        b"\n" * 65_000,
        b"ioctl(" * 10_000,
        b"@[" * 32_000,
        "→".encode() * 20_000,
        b"a," * 32_000 + b"\n1,2",
        b"# ========\n" * 6_000,
    ],
)
def test_lookalike_answers_soon(head):
    begin = time.perf_counter()

    likeness(head)

    assert time.perf_counter() - begin < 2


def test_text_that_is_refused_is_named_by_its_kind(tmp_path):
    """No hex of letters, and no layout of binary records that does not fit."""
    path = tmp_path / "notes.txt"
    path.write_text("hello world\nmore\n")

    with pytest.raises(UnknownFormatError) as caught:
        registry.open_trace(path)

    assert caught.value.message.count(". ") <= 1
    assert "68 65 6C" not in caught.value.message
    assert "tensor-access" not in caught.value.message
    assert "--format" in caught.value.hint


def test_kind_that_is_known_asks_for_no_format(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(b"\x1f\x8b\x08" + bytes(100))

    with pytest.raises(UnknownFormatError) as caught:
        registry.open_trace(path)

    assert "gzip" in caught.value.message
    assert "tensor-access" not in caught.value.message
    assert "--format" not in caught.value.hint


def test_builtin_readers_load_and_are_distinguished():
    listed = registry.statuses()

    built_in = [s for s in listed if s.origin == BUILT_IN]
    assert [s.status for s in built_in] == ["ok"] * len(registry.BUILTIN)
    assert len({s.info.id for s in built_in}) == len(registry.BUILTIN)


def test_head_suffix_is_lower_case():
    assert Head("A.B.XYZ", 0, b"").suffix == Path("x.xyz").suffix
    assert Head(".hidden", 0, b"").suffix == ""
