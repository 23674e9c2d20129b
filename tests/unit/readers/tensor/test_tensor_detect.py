"""Layouts detected by content."""

import struct
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ggscope.readers import registry
from ggscope.readers.api import ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor import layouts
from ggscope.readers.tensor.columns import data_bounds
from ggscope.readers.tensor.layouts import detect, detect_head
from support import ROOT, need_corpus
from tensor_files import (
    LAYOUTS,
    SIZES,
    Rec,
    buffer_event,
    decode,
    encode,
    llama_trace,
    one_source_each,
)

REAL = (
    ("trace_128_71099aab.bin", "128"),
    ("trace_256_3584a339.bin", "256"),
    ("trace_256_c26d86e7.bin", "256"),
    ("trace_1024v3_a6ba6071.bin", "1024"),
    ("trace_1024v3_962e44d2.bin", "1024"),
)
VARIANTS = (
    "exact", "tail 4 KiB", "tail 1 MiB", "truncated", "1 record", "2 records",
    "5 records", "hole", "short hole", "shuffled", "relative",
)  # fmt: skip


def layout_of(path: Path) -> str | None:
    """Return the layout that the whole file and its head give."""
    with Source(path) as source:
        begin, end = data_bounds(source, ReadContext())
        whole = detect(source, begin, end)
        head = detect_head(source.head(1 << 16), source.size)
    assert (whole is None) == (head is None)
    if whole is None or head is None:
        return None
    assert whole.layout is head.layout
    return whole.layout.id


def as_layout(records: list[Rec], layout: str) -> list[Rec]:
    return records if layout in ("256", "1024") else one_source_each(records)


def varied(records: list[Rec], layout: str, variant: str) -> bytes:
    """Return the records as bytes, changed as `variant` says."""
    size = SIZES[layout]
    if variant == "relative":
        records = [replace(r, time=r.time - records[0].time) for r in records]
    elif variant == "shuffled":
        order = np.random.default_rng(7).permutation(len(records))
        records = [records[i] for i in order.tolist()]
    elif variant.endswith(("record", "records")):
        records = records[20 : 20 + int(variant[0])]
    data = encode(records, layout)
    middle = len(records) // 2 * size
    if variant == "truncated":
        return data[: -(size // 3)]
    if variant.endswith("hole"):
        n_empty = 3 if variant == "short hole" else 512
        return data[:middle] + bytes(n_empty * size) + data[middle:]
    tails = {"tail 4 KiB": 4096, "tail 1 MiB": 1 << 20}
    return data + bytes(tails.get(variant, 0))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_layout_of_made_records_is_found(
    tmp_path: Path, layout: str, variant: str
) -> None:
    records = as_layout(llama_trace(n_passes=9), layout)
    path = tmp_path / "t.bin"
    path.write_bytes(varied(records, layout, variant))

    assert layout_of(path) == layout


@cache
def real_records(name: str, written: str) -> list[Rec]:
    """Return the first records of a trace of the corpus."""
    data = (need_corpus() / "tracer" / name).read_bytes()
    return decode(data, written)[:700]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("name", "written"), REAL)
def test_layout_of_real_records_is_found_in_every_encoding(
    tmp_path: Path, name: str, written: str, variant: str
) -> None:
    records = real_records(name, written)
    single = written == "128"
    path = tmp_path / "t.bin"
    for layout in ("64p", "64a", "128") if single else LAYOUTS:
        path.write_bytes(varied(as_layout(records, layout), layout, variant))
        assert layout_of(path) == layout


def test_durations_and_extension_records_do_not_hide_the_layout(
    tmp_path: Path,
) -> None:
    records = llama_trace(duration=123_456)
    records = [r for pair in zip(records, records, strict=True) for r in pair]
    records[::2] = [replace(r, op=240) for r in records[::2]]
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, "256"))

    assert layout_of(path) == "256"


@pytest.mark.parametrize("n", [1, 10, 600])
def test_buffer_events_are_reported_from_128_byte_records(
    tmp_path: Path, n: int
) -> None:
    path = tmp_path / "t.bin"
    events = [buffer_event(10**12 + k, k % 2, 0x7000 + k, 1 << 20) for k in range(n)]
    path.write_bytes(b"".join(events))

    assert layout_of(path) == "buffer128"


def other_contents() -> dict[str, bytes]:
    rng = np.random.default_rng(3)
    viz = b"GGMLVIZ1" + struct.pack("<I", 1)
    for k in range(200):
        viz += struct.pack("<BQIQI4xQQBI", k % 4, 10**12 + k, 1, 7, 27, 4, 0, 1, 3)
        viz += b"abc"
    gguf = (
        b"GGUF"
        + struct.pack("<IQQ", 3, 200, 20)
        + b"".join(
            struct.pack("<Q", 12)
            + b"general.name"
            + struct.pack("<IQ", 8, 5)
            + b"llama"
            for _ in range(200)
        )
    )
    return {
        "random": rng.integers(0, 256, 40_000, np.uint8).tobytes(),
        "random with zeros": (
            rng.integers(0, 256, 40_000, np.uint8) * (rng.random(40_000) < 0.3)
        ).astype(np.uint8).tobytes(),
        "small integers": rng.integers(0, 50, 10_000, np.int32).tobytes(),
        "floats": rng.random(5_000).tobytes(),
        "text": b"some text, and more of it\n" * 900,
        "text with NUL": b"some text\0and more of it\n" * 900,
        "utf-16": ("some text " * 900).encode("utf-16"),
        "elf": Path(sys.executable).resolve().read_bytes()[:60_000],
        "gguf": gguf,
        "ggmlviz": viz,
        "one byte": b"x",
        "nearly zero": b"\x01" + bytes(70_000),
        "counter": np.arange(9_000, dtype=np.uint64).tobytes(),
    }  # fmt: skip


@pytest.mark.parametrize("kind", list(other_contents()))
def test_other_content_is_not_claimed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(other_contents()[kind])

    assert layout_of(path) is None


@pytest.mark.parametrize("seed", range(30))
def test_random_bytes_are_not_claimed(seed: int) -> None:
    data = np.random.default_rng(seed).integers(0, 256, 4096, np.uint8).tobytes()

    assert detect_head(data, len(data)) is None


def test_head_of_zeros_is_not_claimed() -> None:
    assert detect_head(bytes(65536), 1 << 31) is None


def test_other_files_of_the_corpus_are_not_claimed() -> None:
    folder = need_corpus()
    traces = {folder / "tracer" / name for name, _ in REAL}
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes()[:65536] if path.is_file() else b""
        is_ours = path.name.startswith(("trace_", "buffer_events"))
        if data and path not in traces and not (is_ours and path.suffix == ".bin"):
            assert detect_head(data, path.stat().st_size) is None, path


def test_file_that_shrinks_meanwhile_is_not_claimed(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(n_passes=40), "256"))
    with Source(path) as source:
        path.write_bytes(b"abc")

        assert detect(source, 0, source.size) is None


def test_head_is_judged_once_for_recognition_and_estimate(tmp_path, monkeypatch):
    path = tmp_path / "once.bin"
    path.write_bytes(
        (ROOT / "resources" / "samples" / "tinyllama-256.bin").read_bytes()
    )
    judged = []
    best = layouts._best
    monkeypatch.setattr(layouts, "_best", lambda *a: judged.append(a) or best(*a))
    layouts.detect_head.cache_clear()

    registry.open_trace(path, admit=lambda estimate: None)

    assert len(judged) == 2  # its head, and the whole file
