"""What every reader owes, built-in or not: one suite for all of them.

A plug-in's author copies this file and names the reader in `READERS`.
"""

import random
import threading

import pytest

from ggscope.errors import Cancelled, ReadError
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers import registry
from ggscope.readers.api import HEAD_BYTES, Head, ReadContext, Reader, ReaderInfo, Sniff
from ggscope.readers.source import Source
from reader_files import valid_file
from support import ROOT

READERS = tuple(info.id for info in registry.BUILTIN.values())
SAMPLES = {
    "ggmlviz": ("llama-demo.ggmlviz", "llama.ggmlviz", "whisper.ggmlviz"),
}
NOISE = {
    "nothing": b"",
    "one byte": b"\x00",
    "zeros": bytes(HEAD_BYTES),
    "ones": b"\xff" * HEAD_BYTES,
    "text": b"hello world\n" * 1000,
    "deep json": b"[" * HEAD_BYTES,
    "cut json": b'{"version": "1.0", "timeline_ev',
    "bom": b"\xef\xbb\xbf{}",
    "random": random.Random(1).randbytes(HEAD_BYTES),
    "elf": b"\x7fELF" + random.Random(2).randbytes(4096),
    "gguf": b"GGUF\x03\x00\x00\x00" + bytes(4096),
}


@pytest.fixture(params=READERS)
def reader(request) -> Reader:
    for reader in registry.readers():
        if reader.info.id == request.param:
            return reader
    pytest.fail(f"{request.param} could not be loaded")


@pytest.fixture
def samples(reader, tmp_path_factory):
    name, folder = reader.info.id, ROOT / "resources" / "samples"
    if name not in SAMPLES:
        return [valid_file(name, tmp_path_factory.mktemp("valid"))]
    return [folder / file for file in SAMPLES[name]]


def head_of(path):
    with Source(path) as source:
        return Head(path.name, source.size, source.head(HEAD_BYTES))


def read(reader, path, **context):
    with Source(path) as source:
        return reader.read(source, ReadContext(**context))


def outcome(reader, path):
    """Return the messages of one clear error, or of the warnings of a good trace."""
    try:
        trace = read(reader, path)
    except ReadError as error:
        return [error.message]
    assert trace.check() == []
    return [warning.message for warning in trace.warnings]


def test_reader_obeys_the_protocol(reader):
    assert isinstance(reader, Reader)
    assert isinstance(reader.info, ReaderInfo)
    assert all(s.startswith(".") and s == s.lower() for s in reader.info.suffixes)
    assert reader.info.doc.endswith(".")


@pytest.mark.parametrize("noise", NOISE, ids=str)
def test_sniff_of_noise_is_modest_and_never_raises(reader, noise):
    data = NOISE[noise]

    for suffix in ("", *reader.info.suffixes):
        sniff = reader.sniff(Head(f"x{suffix}", len(data), data))

        assert isinstance(sniff, Sniff)
        assert 0 <= sniff.confidence < 90


def test_sniff_takes_its_own_samples_and_beats_the_others(reader, samples):
    for path in samples:
        head = head_of(path)
        own = reader.sniff(head).confidence

        assert own > 0
        for other in registry.readers():
            if other is not reader:
                assert other.sniff(head).confidence < own


def test_sniff_gives_the_same_answer_twice(reader, samples):
    head = head_of(samples[0])

    assert reader.sniff(head) == reader.sniff(head)


def test_sample_reads_to_a_checked_trace(reader, samples):
    for path in samples:
        trace = read(reader, path)

        assert trace.check() == []
        assert trace.info.reader_id == reader.info.id
        assert trace.info.paths == (path,)
        assert trace.info.byte_size == path.stat().st_size
        assert trace.pending == frozenset()
        assert trace.info.n_records > 0


def test_spans_lie_on_lanes_for_spans(reader, samples):
    for path in samples:
        trace = read(reader, path)

        kinds = {trace.lanes[lane].kind for lane in set(trace.spans.lane.tolist())}
        assert not kinds & {LaneKind.COUNTER, LaneKind.MARKER}


def test_early_snapshots_keep_ids_lanes_and_clock(reader, samples):
    early: list[Trace] = []
    trace = read(reader, samples[-1], publish=early.append)

    for snapshot in early:
        n = len(snapshot.spans)
        assert snapshot.check() == []
        assert snapshot.pending
        assert snapshot.clock == trace.clock
        assert snapshot.lanes == trace.lanes[: len(snapshot.lanes)]
        assert (snapshot.spans.start == trace.spans.start[:n]).all()


def test_progress_grows_to_the_end(reader, samples):
    seen: list[tuple[int, int]] = []
    read(reader, samples[-1], progress=lambda done, total: seen.append((done, total)))

    done = [d for d, _ in seen]
    assert done == sorted(done)
    assert all(0 <= d <= total for d, total in seen)


def test_cancelled_reading_raises_cancelled(reader, samples):
    cancel = threading.Event()
    cancel.set()

    with pytest.raises(Cancelled):
        read(reader, samples[-1], cancel=cancel)


def test_reading_twice_gives_the_same_trace(reader, samples):
    first, second = read(reader, samples[0]), read(reader, samples[0])

    assert (first.spans.start == second.spans.start).all()
    assert first.strings.texts() == second.strings.texts()
    assert first.warnings == second.warnings


@pytest.mark.parametrize("noise", [n for n in NOISE if n != "nothing"], ids=str)
def test_noise_reads_to_a_checked_trace_or_one_clear_error(reader, noise, tmp_path):
    path = tmp_path / f"noise{reader.info.suffixes[0]}"
    path.write_bytes(NOISE[noise])

    for message in outcome(reader, path):
        assert message
        assert "\n" not in message


@pytest.mark.parametrize("share", [0.01, 0.3, 0.77, 0.999])
def test_cut_sample_reads_to_a_checked_trace_or_one_clear_error(
    reader, samples, tmp_path, share
):
    data = samples[-1].read_bytes()
    path = tmp_path / samples[-1].name
    path.write_bytes(data[: int(len(data) * share) | 1])

    messages = outcome(reader, path)

    assert messages
    assert all(messages)
