"""Damaged, cut and random tensor traces: a checked trace or one ReadError."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ggscope.errors import ReadError
from ggscope.model.trace import Trace
from ggscope.readers.api import Head, ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor.reader import TensorAccessReader
from support import rewrite, swept
from tensor_files import (
    LAYOUTS,
    SIZES,
    Rec,
    Src,
    buffer_event,
    decode,
    encode,
    llama_pass,
    one_source_each,
)

READER = TensorAccessReader()


def golden(layout: str) -> bytes:
    """Return a trace of at most 4 KiB."""
    if layout == "buffer128":
        return b"".join(buffer_event(10**12 + k, k % 2, 5, 99) for k in range(12))
    records = llama_pass(10**12, n_layers=2)
    if layout not in ("256", "1024"):
        records = one_source_each(records)
    return encode(records, layout)[:4096]


def outcome(path: Path, data: bytes, **options: str) -> Trace | None:
    """Return the checked trace, or None where one ReadError explains itself."""
    rewrite(path, data)
    sniff = READER.sniff(Head(path.name, len(data), data[:65536]))
    assert 0 <= sniff.confidence <= 100
    try:
        with Source(path) as source:
            trace = READER.read(source, ReadContext(options=options))
    except ReadError:
        return None
    assert trace.check() == []
    return trace


PARTS = 4
"""The sweeps are dealt out, so that several processes share them."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("layout", [*LAYOUTS, "buffer128"])
def test_every_cut_gives_the_whole_records_before_it(
    tmp_path: Path, layout: str, part: int
) -> None:
    data, size = golden(layout), SIZES.get(layout, 128)
    path = tmp_path / "t.bin"

    for cut in swept(range(part, len(data) + 1, PARTS)):
        trace = outcome(path, data[:cut], layout=layout) if cut else None
        if trace is not None and cut >= size:
            assert trace.info.n_records == cut // size, cut


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_cut_is_survived_without_a_hint(tmp_path: Path, layout: str) -> None:
    data = golden(layout)
    path = tmp_path / "t.bin"

    for cut in range(1, len(data), 61):
        outcome(path, data[:cut])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("layout", [*LAYOUTS, "buffer128"])
def test_every_flipped_byte_is_survived(tmp_path: Path, layout: str, part: int) -> None:
    data = golden(layout)
    path = tmp_path / "t.bin"
    rng = np.random.default_rng(11)

    for at in swept(range(part, len(data), PARTS)):
        damaged = bytearray(data)
        damaged[at] ^= int(rng.integers(1, 256))
        outcome(path, bytes(damaged), layout=layout)


@pytest.mark.parametrize("layout", [*LAYOUTS, "buffer128"])
@given(data=st.binary(min_size=1, max_size=3000))
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_random_bytes_under_a_forced_layout_are_survived(
    tmp_path: Path, layout: str, data: bytes
) -> None:
    outcome(tmp_path / "t.bin", data, layout=layout)


@pytest.mark.parametrize("layout", [*LAYOUTS, "buffer128"])
@pytest.mark.parametrize("density", [0.02, 0.3, 1.0])
def test_dense_noise_under_a_forced_layout_is_survived(
    tmp_path: Path, layout: str, density: float
) -> None:
    rng = np.random.default_rng(5)
    noise = rng.integers(0, 256, 64 * 1024, np.uint8)
    noise[rng.random(len(noise)) > density] = 0

    outcome(tmp_path / "t.bin", noise.tobytes(), layout=layout)


NAMES = st.one_of(
    st.sampled_from(["", "inp_embd", "norm-0", " (copy)", "leaf_3", "Qcur-1 (view)"]),
    st.text(max_size=30).filter(lambda text: "\0" not in text),
)
SOURCES = st.builds(
    Src,
    name=NAMES,
    ptr=st.integers(0, 2**64 - 1),
    size=st.integers(0, 2**32 - 1),
    layer=st.integers(0, 65535),
    mem=st.integers(0, 255),
    where=st.integers(0, 2**64 - 1),
)
RECORDS = st.builds(
    Rec,
    time=st.one_of(st.integers(0, 50), st.integers(0, 2**62 - 2**41)),
    dst=NAMES,
    op=st.integers(0, 0xEF),
    sources=st.lists(SOURCES, max_size=4).map(tuple),
    token=st.integers(0, 2**31 - 1),
    layer=st.integers(0, 65535),
    thread=st.integers(0, 3),
    phase=st.integers(0, 255),
    duration=st.one_of(st.just(0), st.integers(0, 2**40 - 1)),
)


@given(
    records=st.lists(RECORDS, min_size=1, max_size=20),
    layout=st.sampled_from(LAYOUTS),
)
@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_records_equal_the_slow_reader(
    tmp_path: Path, records: list[Rec], layout: str
) -> None:
    if layout in ONE_SOURCE:
        # Records of one op and stamp become one span; others test that.
        n = len(records) + 1
        whole = [max(r.time // n - 1, 0) * n for r in records]
        records = [
            replace(r, time=t + i)
            for i, (r, t) in enumerate(zip(records, whole, strict=True))
        ]
    data = encode(records, layout)
    slow = decode(data, layout)

    trace = outcome(tmp_path / "t.bin", data, layout=layout)

    assert trace is not None
    if not slow:
        assert len(trace.spans) == 0
        return
    assert_spans_equal(trace, slow)


ONE_SOURCE = ("64p", "64a", "128")
"""Layouts with a record for each source of an op."""


def assert_spans_equal(trace: Trace, slow: list[Rec]) -> None:
    spans = trace.spans
    rows = np.flatnonzero(spans.op >= 0)
    assert trace.info.n_records == len(slow)
    assert len(rows) == len(slow)
    assert spans.record is not None
    assert spans.token is not None
    by_record = rows[np.argsort(spans.record[rows])].tolist()
    origin = min(r.time for r in slow)
    for i, r in zip(by_record, slow, strict=True):
        assert int(spans.start[i]) == r.time - origin
        assert int(spans.op[i]) == r.op
        assert int(spans.token[i]) == r.token
        lane = trace.lanes[int(spans.lane[i])]
        assert lane.attributes["raw"] == str(r.thread)
        of_span = trace.accesses.of_span(i)
        assert of_span.size.tolist() == [s.size for s in r.sources]
        assert of_span.address.tolist() == [s.ptr for s in r.sources]
    lanes = spans.lane[rows].astype(int)
    assert bool((np.diff(lanes) >= 0).all())
    assert bool((np.diff(spans.start[rows])[np.diff(lanes) == 0] >= 0).all())
