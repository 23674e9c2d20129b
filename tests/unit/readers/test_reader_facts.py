"""What is known of a reader before its code is imported, and that it is enough."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ggscope.errors import EmptyFileError, ReadError
from ggscope.readers import (
    api,
    chunked,
    ggmlviz,
    partial_reading,
    registry,
    snapshots,
    tensor,
)
from ggscope.readers.api import HEAD_BYTES, Head, Kind, Option, ReadContext, ReaderInfo
from ggscope.readers.ggmlviz.layouts import LAYOUT_BY_ID
from ggscope.readers.partial_reading import requested_range
from ggscope.readers.source import Source
from ggscope.readers.tensor.layouts import LAYOUTS
from ggscope.readers.tensor.reader import TensorAccessReader
from reader_files import valid_file
from support import ROOT, corpus_path

SAMPLES = ROOT / "resources" / "samples"
FINDINGS = ROOT / "tests" / "fuzz" / "findings"
ODD = {
    "text": b"hello world\n" * 100,
    "zeros.bin": bytes(4096),
    "zeros": bytes(4096),
    "cut.ggmlviz": b"GGML",
    "other": b"GGMLVIZ2" + bytes(8),
    "damaged.ggmlviz": b"GGNLVIZ1" + bytes(40),
    "one-letter": b"G",
    "model": b"GGUF\x03\0\0\0",
    "bom.json": b'\xef\xbb\xbf{"nodes": [], "edges": []}',
    "zeros-within.json": b'{"entries": [{"timestamp_ns": 1, "operation_type"\0\0',
    "npu.jsonl": b'// pasted\n{"type": "MARKER_EVENT", "a": 1}\n',
    "npu-array.json": b'[{"type" : "POWER_ESTIMATE"}]',
    "npu-header.json": b'{"version": "1", "run_metadata": {}',
    "pairs.txt": b"# of a run\n0,1\n0,2\n1,3\n",
    "pairs-moe.csv": b" 0 , 1\r\n1,2\r\n",
    "names.csv": b"x, il, expert_idx\n1,2,3\n",
    "graph.dot": b"/* of ggml */ strict DiGraph {",
    "graph-named.gv": b"# a\n\n\tgraph \"x\" {",
    "map.csv": b"log\ntensor_name , file_offset,size\n",
    "registry.csv": b"tensor_idx, tensor_name, data\n",
    "buffers.log": b'12:00 {"timestamp_ms": 1, "event": "alloc", "buffer_id": 3}\n',
}  # fmt: skip


def files():
    corpus = corpus_path()
    folders = [SAMPLES, FINDINGS, *([corpus] if corpus else [])]
    files = [p for folder in folders for p in folder.rglob("*") if p.is_file()]
    assert len(files) > 20
    return files


def judged_by_all(source):
    """Return what every built-in reader says, in the order of confidence."""
    head = Head(source.path.name, source.size, source.head(HEAD_BYTES))
    pairs = [(r.info.id, r.sniff(head)) for r in registry.readers() if _is_own(r)]
    return sorted((s for s in pairs if s[1].confidence), key=lambda s: -s[1].confidence)


def _is_own(reader):
    return any(reader.info is info for info in registry.BUILTIN.values())


def judged(source):
    candidates = registry.sniff_all(source)
    return [(c.info.id, c.sniff) for c in candidates if c.sniff.confidence]


def test_asking_those_allowed_answers_as_asking_all_for_every_known_file():
    for path in files():
        try:
            source = Source(path)
        except EmptyFileError:
            continue
        with source:
            assert judged(source) == judged_by_all(source), path


@pytest.mark.parametrize("name", ODD)
def test_asking_those_allowed_answers_as_asking_all_for_odd_files(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(ODD[name])

    with Source(path) as source:
        assert judged(source) == judged_by_all(source)


@pytest.mark.parametrize("target", registry.BUILTIN)
def test_whom_a_reader_would_take_its_facts_allow(target, tmp_path):
    info = registry.BUILTIN[target]
    path = valid_file(info.id, tmp_path)

    with Source(path) as source:
        head = Head(path.name, source.size, source.head(HEAD_BYTES))

    assert info.allows(head)


def test_built_in_readers_bear_the_facts_of_the_table():
    listed = registry.BUILTIN.values()
    own = [reader for reader in registry.readers() if _is_own(reader)]

    assert [reader.info for reader in own] == list(listed)
    facts = [(i.magic, i.keys, i.line, i.is_binary, i.names) for i in listed]
    assert all(map(any, facts))
    assert tuple(LAYOUT_BY_ID) == ggmlviz.LAYOUT_IDS
    assert tuple(LAYOUTS) == tensor.LAYOUT_IDS


@pytest.mark.parametrize(
    ("sample", "package"),
    [("llama.ggmlviz", "ggmlviz"), ("npu-prefill-decode.json", "npu")],
)
def test_only_readers_that_the_first_bytes_allow_are_imported(sample, package):
    code = (
        "import sys\n"
        "from ggscope.readers.registry import sniff_all\n"
        "from ggscope.readers.source import Source\n"
        f"sniff_all(Source({str(SAMPLES / sample)!r}))\n"
        "kept = {'api', 'common'}\n"
        "print(*sorted({m.split('.')[2] for m in sys.modules\n"
        "    if m.startswith('ggscope.readers.') and m.count('.') > 2\n"
        "    and m != 'ggscope.readers.tensor.token_json'} - kept))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [package]


def test_info_without_facts_allows_every_file():
    info = ReaderInfo("a", "A", (".a",), "A.")

    assert info.allows(Head("x.b", 3, b"abc"))


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (Option(name="a", doc=""), "", ""),
        (Option(name="a", doc="", choices=("x", "y"), default="x"), "", "x"),
        (Option(name="a", doc="", choices=("x", "y"), default="x"), "y", "y"),
        (Option(name="a", doc="", kind=Kind.FLAG, default="false"), "Yes", "true"),
        (Option(name="a", doc="", kind=Kind.FLAG), "0", "false"),
        (Option(name="a", doc="", kind=Kind.NUMBER, between=(0, 9)), "8.5", "8.5"),
        (Option(name="a", doc="", kind=Kind.TEXT), "any", "any"),
    ],
)
def test_option_returns_the_value_that_is_meant(option, text, value):
    assert option.checked(text) == value


@pytest.mark.parametrize(
    ("option", "text", "hint"),
    [
        (Option(name="a", doc="", choices=("x", "y")), "z", "Use one of x, y."),
        (Option(name="a", doc="", kind=Kind.FLAG), "maybe", "Use true or false."),
        (
            Option(name="a", doc="", kind=Kind.NUMBER, between=(0, 9), example="2"),
            "9",
            "Use a number, e.g. 2.",
        ),
        (Option(name="a", doc="", kind=Kind.NUMBER, example="2"), "nan", "Use a num"),
        (Option(name="a", doc="", kind=Kind.NUMBER, example="2"), "two", "Use a num"),
    ],
)
def test_option_refuses_other_values_in_one_wording(option, text, hint):
    with pytest.raises(ReadError, match=f"'{text}' for option a") as caught:
        option.checked(text)

    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("info", registry.BUILTIN.values(), ids=lambda info: info.id)
def test_every_built_in_reader_refuses_values_by_that_one_way(info):
    typed = [o for o in info.known_options if o.choices or o.kind in _CHECKED]

    for option in typed:
        with pytest.raises(ReadError, match=f"'#' for option {option.name}"):
            info.option_values({option.name: "#"})
    assert info.option_values({}) == {o.name: o.default for o in info.known_options}


_CHECKED = (Kind.FLAG, Kind.NUMBER)


@pytest.mark.parametrize(
    ("sample", "reader_id"),
    [
        ("llama.ggmlviz", "ggmlviz"),
        ("tinyllama-256.bin", "tensor-access"),
        ("npu-prefill-decode.json", "npu-json"),
    ],
)
def test_every_reader_refuses_a_range_in_one_wording(sample, reader_id):
    context = ReadContext(options={"range": "9"})

    with pytest.raises(ReadError, match="invalid option range") as caught:
        registry.open_trace(SAMPLES / sample, reader_id=reader_id, context=context)

    assert "range=25%:50%" in caught.value.hint


def test_range_that_is_not_given_is_the_whole():
    assert requested_range({}, 7) == (0, 7)
    assert requested_range({"range": "2:"}, 7) == (2, 7)


def test_options_of_the_first_protocol_are_texts():
    info = ReaderInfo("a", "A", (), "A.", {"x": "what x is"})

    assert info.known_options == (Option(name="x", doc="what x is"),)
    assert info.option_values({"x": "any", "y": "unknown"}) == {"x": "any"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Pieces", chunked.ChunkedOps),
        ("ColumnPieces", chunked.ChunkedTable),
        ("Pace", snapshots.SnapshotScheduler),
        ("asked_range", requested_range),
        ("parse_range", partial_reading.parse_range),
        ("NAMES_OPTION", partial_reading.NAMES_OPTION),
    ],
)
def test_names_of_the_last_release_lead_to_what_they_became(old, new):
    assert getattr(api, old) is new


def test_unknown_names_of_the_protocol_are_errors():
    with pytest.raises(AttributeError, match="has no attribute 'Pacer'"):
        api.Pacer  # noqa: B018


def test_old_names_of_chunked_operations_give_the_same():
    context = ReadContext()
    column, rows = np.arange(5, 15), np.array([3, 1], np.int32)

    assert context.pieces.chosen(column, rows).tolist() == [8, 6]
    assert context.pieces.taken(column, rows).tolist()[:2] == [8, 6]
    assert list(context.pieces.of(10)) == [slice(0, 10)]
    assert registry.BUILTIN["ggscope.readers.npu.reader:NpuJsonReader"].chosen({})


def test_role_of_a_reader_is_that_of_its_facts():
    assert registry.role_of("gguf") == "model"
    assert registry.role_of("tensor-access") == "trace"
    assert registry.role_of("no-such-reader") == "trace"
    assert TensorAccessReader.info is tensor.INFO
    assert isinstance(SAMPLES, Path)


@pytest.mark.parametrize(
    "piece",
    [bytes([b]) for b in b'9a [-_:,;"\t\n\r'] + [b"9.", b"a ", b"a=", b"| a ", b"\r\n"],
)
def test_lines_are_looked_for_in_linear_time(piece: bytes) -> None:
    data = (piece * HEAD_BYTES)[:HEAD_BYTES]
    began = time.process_time()

    for info in registry.BUILTIN.values():
        info.has_line(Head("x.txt", len(data), data))

    assert time.process_time() - began < 3
