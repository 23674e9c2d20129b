"""Buffer events become buffers, occupancy and markers."""

from pathlib import Path

import numpy as np

from ggscope.model.tables import CounterShape
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor.reader import TensorAccessReader
from support import need_corpus
from tensor_files import buffer_event

OPTIONS = {"layout": "buffer128"}


def read(tmp_path: Path, *events: bytes, tail: bytes = b"") -> Trace:
    path = tmp_path / "t.bin"
    path.write_bytes(b"".join(events) + tail)
    with Source(path) as source:
        trace = TensorAccessReader().read(source, ReadContext(options=OPTIONS))
    assert trace.check() == []
    return trace


def level(trace: Trace) -> list[tuple[int, float]]:
    (series,) = trace.counters
    assert (series.shape, series.unit) == (CounterShape.LEVEL, "bytes")
    return list(zip(series.time.tolist(), series.value.tolist(), strict=True))


def codes(trace: Trace) -> dict[str, int]:
    """Return the warnings but the one on what no tracer records."""
    codes = {w.code: w.count for w in trace.warnings}
    codes.pop("buffers_not_recorded", None)
    return codes


def test_release_ends_its_buffer(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        buffer_event(1000, 0, 1, 500, "KV", "CPU"),
        buffer_event(1010, 0, 2, 300, "compute", "Metal"),
        buffer_event(1020, 1, 1),
    )

    b = trace.buffers
    assert [trace.strings[int(n)] for n in b.name] == ["KV", "compute"]
    assert [trace.strings[int(n)] for n in b.backend] == ["CPU", "Metal"]
    assert b.size.tolist() == [500, 300]
    assert b.allocated.tolist() == [0, 10]
    assert b.freed.tolist() == [20, -1]
    assert level(trace) == [(0, 500.0), (10, 800.0), (20, 300.0)]
    assert trace.clock.origin == 1000
    assert trace.info.n_records == 3


def test_events_are_markers_in_time_order(tmp_path: Path) -> None:
    trace = read(
        tmp_path, buffer_event(20, 1, 1, name=""), buffer_event(10, 0, 1, 5, "KV")
    )

    m = trace.markers
    assert m.time.tolist() == [0, 10]
    assert [trace.strings[int(n)] for n in m.name] == ["alloc", "free"]
    assert [trace.strings[int(n)] for n in m.detail] == ["KV", "KV"]
    assert m.record is not None
    assert m.record.tolist() == [1, 0]
    assert level(trace) == [(0, 5.0), (10, 0.0)]


def test_new_allocation_of_an_id_replaces_the_old_one(tmp_path: Path) -> None:
    trace = read(tmp_path, *(buffer_event(10 + k, 0, 7, 100) for k in range(3)))

    assert [value for _, value in level(trace)] == [100.0, 100.0, 100.0]
    assert trace.buffers.freed.tolist() == [1, 2, -1]


def test_repeated_events_of_the_corpus_keep_the_known_peak() -> None:
    with Source(need_corpus() / "tracer" / "buffer_events_128.bin") as source:
        trace = TensorAccessReader().read(source, ReadContext())

    (series,) = trace.counters
    assert float(np.max(series.value)) == 3_240_099_840 - 0
    assert trace.info.n_records == 6


def test_release_without_allocation_is_reported(tmp_path: Path) -> None:
    trace = read(tmp_path, buffer_event(5, 1, 9), buffer_event(6, 0, 8, 5))

    assert codes(trace) == {"free_without_alloc": 1}
    assert len(trace.buffers) == 1


def test_unusable_events_are_left_out(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        buffer_event(5, 0, 9, 5),
        buffer_event(6, 7, 9),
        buffer_event(1 << 63, 1, 9),
    )

    assert codes(trace) == {"bad_event": 2}
    assert trace.info.n_records == 3
    assert len(trace.markers) == 1


def test_only_unusable_events_give_an_empty_trace(tmp_path: Path) -> None:
    trace = read(tmp_path, buffer_event(6, 7, 9))

    assert len(trace.markers) == 0
    assert level(trace) == []


def test_absurd_size_is_unknown(tmp_path: Path) -> None:
    trace = read(tmp_path, buffer_event(5, 0, 9, 1 << 60))

    assert trace.buffers.size.tolist() == [-1]
    assert level(trace) == [(0, 0.0)]


def test_cut_event_is_reported(tmp_path: Path) -> None:
    trace = read(tmp_path, buffer_event(5, 0, 9, 5), tail=buffer_event(6, 1, 9)[:50])

    assert codes(trace) == {"truncated_record": 1}


def test_event_without_backend_has_none(tmp_path: Path) -> None:
    trace = read(tmp_path, buffer_event(5, 0, 9, 5, backend=""))

    assert trace.buffers.backend.tolist() == [-1]
