"""Spans as a ``.ggmlviz`` trace: read again by our reader and by a plain one."""

import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import OPS, finished, spans_trace
from ggscope.exporters import ggmlviz
from ggscope.exporters.events import Events
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Quality, SpanFlag, quality_of
from ggscope.model.trace import LaneKind, OpTable, Trace
from ggscope.model.units import TimeRange
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace
from statements import new_statements

SAMPLES = Path(__file__).parents[3] / "resources" / "samples"
OF_FORMAT = ("llama.ggmlviz", "llama-demo.ggmlviz", "whisper.ggmlviz")
Event = tuple[int, int, int, bytes, bytes | None]

pairs = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=40
)


def written(events: Events) -> bytes:
    return b"".join(ggmlviz.chunks(events))


def again(events: Events, folder: Path, **options: str) -> Trace:
    path = folder / "again.ggmlviz"
    path.write_bytes(written(events))
    return open_trace(path, reader_id="ggmlviz", context=ReadContext(options=options))


def plain(data: bytes) -> list[Event]:
    """Return (type, time, thread, union, label) of the events, by the plain form."""
    assert data[:12] == b"GGMLVIZ1\x01\0\0\0"
    events: list[Event] = []
    at = 12
    while at < len(data):
        kind, time, thread, union, has_label = struct.unpack_from("<BQI32sB", data, at)
        at += 46
        label = None
        if has_label:
            (n,) = struct.unpack_from("<I", data, at)
            label = data[at + 4 : at + 4 + n]
            at += 4 + n
        events.append((kind, time, thread, union, label))
    assert at == len(data)
    return events


def counted_spans(trace: Trace) -> Counter:
    s = trace.spans
    return Counter(
        (
            int(s.start[i]) + trace.clock.origin,
            int(s.end[i]) + trace.clock.origin,
            trace.lanes.names[int(s.lane[i])],
            trace.strings[int(s.name[i])],
            trace.op_name(int(s.op[i])),
            int(quality_of(s.flags[i : i + 1])[0]),
        )
        for i in range(len(s))
    )


@pytest.mark.parametrize("name", OF_FORMAT)
def test_trace_of_the_format_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    trace = open_trace(SAMPLES / name)

    back = again(Events(trace), tmp_path)

    assert counted_spans(back) == counted_spans(trace)
    # Memory is determined by counters, which are left out.
    assert back.warnings == tuple(w for w in trace.warnings if w.code != "never_freed")
    for column in ("layer", "tensor"):
        if (values := getattr(trace.spans, column)) is not None:
            assert np.array_equal(getattr(back.spans, column), values)
    threads = [dict(a) for a in trace.lanes.attributes if a]
    assert [dict(a) for a in back.lanes.attributes] == threads


def test_graph_whose_ops_share_its_time_does_so_again(tmp_path: Path) -> None:
    def event(kind: int, time: int, pointer: int, label: bytes | None = None) -> bytes:
        head = struct.pack("<BQIQIIQQ", kind, time, 7, pointer, 2, 0, 0, 0)
        if label is None:
            return head + b"\0"
        return head + b"\1" + struct.pack("<I", len(label)) + label

    begins = [event(2, 10 + i, 100 + i, b"norm-%d" % i) for i in range(3)]
    ends = [event(3, 90 + i, 100 + i) for i in range(3)]
    data = b"".join([event(0, 5, 1), *begins, *ends, event(1, 99, 1)])
    source = tmp_path / "hooks.ggmlviz"
    source.write_bytes(b"GGMLVIZ1\x01\0\0\0" + data)
    trace = open_trace(source)

    made = Events(trace)
    back = again(made, tmp_path)

    assert (quality_of(trace.spans.flags) == Quality.ESTIMATED).sum() == 3
    assert counted_spans(back) == counted_spans(trace)
    assert "estimated" not in "\n".join(ggmlviz.losses(made))


@given(pairs=pairs)
def test_spans_that_nest_or_overlap_have_their_own_ends(pairs) -> None:
    start = np.array([begin for begin, _ in pairs])
    length = np.array([n for _, n in pairs])
    trace = spans_trace(start, start + length, op=[1] * len(start))

    events = plain(written(Events(trace)))

    times = [time for _, time, _, _, _ in events]
    assert times == sorted(times)
    opened: dict[bytes, list[int]] = {}
    counts = Counter()
    for kind, time, _, union, _ in events:
        stack = opened.setdefault(union[:8], [])
        if kind == 2:
            stack.append(time)
        else:
            counts[stack.pop(), time] += 1
    assert not any(opened.values())
    expected = zip(start.tolist(), (start + length).tolist(), strict=True)
    assert counts == Counter(expected)


def test_times_are_those_of_the_clock_and_never_negative() -> None:
    trace = spans_trace([-50, 0], [-20, 30], op=1)

    events = plain(written(Events(trace)))

    assert [time for _, time, *_ in events] == [0, 30, 50, 80]


def test_part_is_a_trace_of_its_own(tmp_path: Path) -> None:
    trace = open_trace(SAMPLES / "llama.ggmlviz")
    s = trace.spans
    time = TimeRange(0, 40_000_000)
    keep = s.op == s.op[np.flatnonzero(s.op >= 0)[0]]
    inside = keep & (s.end >= time.start) & (s.start < time.end)

    back = again(Events(trace, keep, time), tmp_path, ops=trace.ops.id)

    assert len(back.spans) == inside.sum() > 0
    assert np.array_equal(
        np.sort(back.spans.start + back.clock.origin),
        np.sort(s.start[inside] + trace.clock.origin),
    )


def test_nothing_chosen_is_a_trace_without_events(tmp_path: Path) -> None:
    trace = open_trace(SAMPLES / "llama.ggmlviz")
    none = Events(trace, np.zeros(len(trace.spans), np.bool_))

    assert written(none) == b"GGMLVIZ1\x01\0\0\0"
    assert len(again(none, tmp_path).spans) == 0


def test_hostile_names_are_labels_as_they_are(tmp_path: Path) -> None:
    names = ['a"b\\c\n</script>\x1b[31m', "graph (3 nodes)", "x" + "é" * 3000, "\ud800"]
    builder = TraceBuilder()
    builder.ops = OPS
    lane = builder.add_lane("x", LaneKind.THREAD)
    n = len(names)
    builder.add_spans(
        start=np.arange(n) * 10,
        end=np.arange(n) * 10 + 5,
        lane=np.full(n, lane),
        name=np.array(builder.strings.intern_many(names)),
        op=np.ones(n, np.int16),
    )
    made = Events(finished(builder))

    labels = [event[4] for event in plain(written(made))[::2]]

    assert labels == [
        names[0].encode(), names[1].encode(), ("x" + "é" * 2047).encode(), b"?"
    ]  # fmt: skip
    assert len(again(made, tmp_path).spans) == n


def losses(trace: Trace) -> str:
    return "\n".join(ggmlviz.losses(Events(trace)))


def test_what_is_lost_is_listed() -> None:
    measured = spans_trace([0], [5], op=[1])
    flags = {
        quality: spans_trace([0], [5], op=[1], flags=[int(flag)])
        for quality, flag in (
            ("derived", SpanFlag.INFERRED_END),
            ("estimated", SpanFlag.ESTIMATED),
            ("unfinished", SpanFlag.UNFINISHED),
        )
    }
    npu = open_trace(SAMPLES / "npu-prefill-decode.json")
    empty = spans_trace([], [])

    plain_text = losses(measured)
    assert new_statements(losses(flags["derived"]), plain_text)
    assert new_statements(losses(flags["estimated"]), plain_text)
    assert new_statements(losses(flags["unfinished"]), plain_text)
    assert len(new_statements(losses(npu), plain_text)) >= 2
    assert new_statements(plain_text, losses(empty))
    assert new_statements(losses(open_trace(SAMPLES / "llama.ggmlviz")), losses(npu))
    assert new_statements(losses(named("x" * 5000)), losses(named("x")))


def named(name: str) -> Trace:
    builder = TraceBuilder()
    builder.ops = OpTable("x", ("NONE",), "spelled")
    lane = builder.add_lane("x", LaneKind.THREAD)
    builder.add_spans(
        start=np.array([0]),
        end=np.array([1]),
        lane=np.array([lane]),
        name=np.array(builder.strings.intern_many([name])),
    )
    return finished(builder)


def test_unfinished_spans_stay_so(tmp_path: Path) -> None:
    trace = spans_trace(
        [0, 10], [5, 20], op=[1, 2], flags=[0, int(SpanFlag.UNFINISHED)]
    )

    back = again(Events(trace), tmp_path)

    assert (quality_of(back.spans.flags) == Quality.UNFINISHED).sum() == 1
    assert ggmlviz.n_spans(Events(trace)) == 2
