"""Damaged .ggmlviz files: a checked trace or one ReadError, never anything else."""

import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ggmlviz_files as viz
import oracles
from ggmlviz_files import Event
from ggmlviz_scans import content
from ggscope.errors import ReadError
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import Head, ReadContext
from ggscope.readers.ggmlviz.reader import GgmlvizReader
from ggscope.readers.source import Source
from support import corpus_path, need_corpus, rewrite, swept

GOLDEN_BYTES = 4096
FLIPS = (0xFF, 0x01, 0x80)


def outcome(path: Path, data: bytes, layout: str = "auto") -> Trace | ReadError:
    """Read `data` as a file; anything but a sound trace or a ReadError fails.

    One file in four is read with and without compiled parts, which have to agree.
    """
    rewrite(path, data)
    reader = GgmlvizReader()
    head = Head(path.name, len(data), data[:65536])
    assert reader.sniff(head).confidence >= 10
    reader.estimate(head)
    outcome = outcome_of(path, layout)
    if zlib.crc32(data) % 4 == 0:
        with pytest.MonkeyPatch.context() as patch:
            oracles.ggmlviz(patch)
            assert shown(outcome_of(path, layout)) == shown(outcome)
    return outcome


def shown(result: Trace | ReadError) -> object:
    return content(str(result) if isinstance(result, ReadError) else result)


def outcome_of(path: Path, layout: str) -> Trace | ReadError:
    reader = GgmlvizReader()
    try:
        with Source(path) as source:
            trace = reader.read(source, ReadContext(options={"layout": layout}))
    except ReadError as error:
        return error
    assert trace.check() == []
    return trace


def mixed() -> bytes:
    """Return a small file with every kind of event in it."""
    events = [
        *viz.graph(viz.T0, 2),
        *viz.graph(viz.T0 + 1000, 2, interleaved=True, backend=5, thread=2),
        Event(4, viz.T0 + 2000, 1, size=64, label="blk.0.w"),
        Event(5, viz.T0 + 2001, 1),
        Event(6, viz.T0 + 2002, 2, size=9),
        Event(77, viz.T0 + 2003),
    ]
    return viz.packed(events)


def golden_names() -> Iterable[str]:
    folder = corpus_path()
    if folder is None:
        return []
    return sorted(
        str(path.relative_to(folder / "ggmlviz"))
        for path in (folder / "ggmlviz").rglob("*.ggmlviz")
        if path.stat().st_size <= GOLDEN_BYTES
    )


def whole_events(ends: list[int], length: int) -> int:
    """Return how many events end within the first `length` bytes."""
    return sum(end <= length for end in ends)


@pytest.mark.parametrize("layout", viz.LAYOUT_IDS)
def test_every_prefix_keeps_its_whole_events(tmp_path: Path, layout: str) -> None:
    events = viz.run(2, 2)
    data = viz.packed(events, layout)
    ends = [len(viz.packed(events[: i + 1], layout)) for i in range(len(events))]

    for length in swept(range(1, len(data))):
        result = outcome(tmp_path / "t.ggmlviz", data[:length], layout)
        if length < 12:
            assert isinstance(result, ReadError)
            assert result.message
            assert result.code == "truncated"
        else:
            assert isinstance(result, Trace)
            assert result.info.n_records == whole_events(ends, length)
            cut = length not in (12, *ends)
            codes = {w.code for w in result.warnings}
            assert ("truncated_event" in codes) == cut


def test_every_prefix_of_all_kinds_reads(tmp_path: Path) -> None:
    data = mixed()

    for length in swept(range(1, len(data))):
        outcome(tmp_path / "t.ggmlviz", data[:length])


@pytest.mark.parametrize("flip", FLIPS)
def test_every_flipped_byte_reads(tmp_path: Path, flip: int) -> None:
    data = mixed()

    for at in swept(range(len(data))):
        broken = bytearray(data)
        broken[at] ^= flip
        outcome(tmp_path / "t.ggmlviz", bytes(broken))


def survives(folder: Path, data: bytes, places: Iterable[int]) -> None:
    """Read `data` cut at each place, and with the byte there changed."""
    for at in places:
        if at:
            outcome(folder / "t.ggmlviz", data[:at])
        broken = bytearray(data)
        broken[at] ^= FLIPS[at % len(FLIPS)]
        outcome(folder / "t.ggmlviz", bytes(broken))


def some_places(name: str, length: int) -> range:
    """Return one place in eleven, others for each file."""
    return range(zlib.crc32(name.encode()) % 11, length, 11)


@pytest.mark.parametrize("name", golden_names())
def test_golden_files_survive_cuts_and_flips_here_and_there(
    tmp_path: Path, name: str
) -> None:
    data = (need_corpus() / "ggmlviz" / name).read_bytes()

    survives(tmp_path, data, some_places(name, len(data)))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", golden_names())
def test_golden_files_survive_cuts_and_flips_everywhere_else(
    tmp_path: Path, name: str
) -> None:
    data = (need_corpus() / "ggmlviz" / name).read_bytes()

    places = set(range(len(data))) - set(some_places(name, len(data)))
    survives(tmp_path, data, swept(sorted(places)))


@given(data=st.binary(min_size=1, max_size=600), with_header=st.booleans())
@settings(max_examples=100, deadline=None)
def test_random_bytes_read(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, with_header: bool
) -> None:
    path = tmp_path_factory.mktemp("viz") / "t.ggmlviz"

    outcome(path, (viz.HEADER if with_header else b"") + data)


@given(
    events=st.lists(
        st.builds(
            Event,
            kind=st.integers(0, 12) | st.integers(0, 255),
            time=st.integers(0, (1 << 64) - 1) | st.integers(viz.T0, viz.T0 + 99),
            ptr=st.integers(0, 3) | st.integers(0, (1 << 64) - 1),
            number=st.integers(0, 100) | st.integers(0, (1 << 32) - 1),
            size=st.integers(0, (1 << 64) - 1),
            thread=st.integers(0, 2) | st.integers(0, (1 << 32) - 1),
            backend=st.integers(0, 2) | st.integers(0, (1 << 64) - 1),
            label=st.none() | st.binary(max_size=40),
        ),
        max_size=40,
    ),
    layout=st.sampled_from(("c64", "c64-old", "packed20", "c32", "var")),
)
@settings(max_examples=100, deadline=None)
def test_random_events_read_whole(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], layout: str
) -> None:
    path = tmp_path_factory.mktemp("viz") / "t.ggmlviz"

    result = outcome(path, viz.packed(events, layout), layout)

    assert isinstance(result, Trace)
    if not any(w.code == "zero_tail" for w in result.warnings):
        assert result.info.n_records == len(events)
        assert all(w.severity < Severity.ERROR for w in result.warnings)
