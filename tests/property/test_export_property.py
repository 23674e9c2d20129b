"""Any trace comes back from the files that other viewers open."""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import finished
from ggscope.exporters import chrome, folded, perfetto
from ggscope.exporters.events import Events, nested
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import NO_WAIT, CounterShape, Flows, SpanFlag
from ggscope.model.trace import LaneKind, OpTable, Trace
from ggscope.readers.registry import open_trace
from perfetto_packets import arrows_of, slices_of
from round_trips import differences, spans_of

_FAR = 1 << 58  # twice that, and what is drawn beyond, is below the 2^61 of viewers
_KINDS = (LaneKind.THREAD, LaneKind.ENGINE, LaneKind.COMMAND, LaneKind.GRAPH)
_FLAGS = tuple(
    map(int, (0, SpanFlag.INFERRED_END, SpanFlag.ESTIMATED, SpanFlag.UNFINISHED))
)

texts = st.text(max_size=8) | st.sampled_from(
    [
        'a"b',
        "\\",
        "\x00\n\t",
        "\ud800",
        "\udfff\ud800",
        "–",
        "wait",
        "a;b",
        "\u2028",
        "",
    ]
)
nonempty_texts = texts.filter(bool)
times = st.integers(0, 60) | st.integers(-_FAR, _FAR)
floats = st.floats(allow_nan=True, allow_infinity=True)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Return a trace with anything that a file may have."""
    builder = TraceBuilder()
    n_lanes = draw(st.integers(1, 3))
    for _ in range(n_lanes):
        group = tuple(draw(st.lists(nonempty_texts, max_size=2)))
        builder.add_lane(
            draw(nonempty_texts), draw(st.sampled_from(_KINDS)), group,
            (draw(st.integers(0, 3)),),
        )  # fmt: skip
    op_names = tuple(draw(st.lists(nonempty_texts, max_size=3, unique=True)))
    builder.ops = OpTable("x", op_names, source="spelled")
    n = draw(st.integers(0, 12))
    if n:
        begin = draw(st.lists(times, min_size=n, max_size=n))
        length = draw(
            st.lists(st.integers(0, 40) | times.map(abs), min_size=n, max_size=n)
        )
        builder.add_spans(
            start=np.array(begin), end=np.array(begin) + np.array(length),
            lane=_ints(draw, n, 0, n_lanes - 1),
            name=_strings(draw, builder, n),
            op=_ints(draw, n, -1, len(op_names) - 1).astype(np.int16),
            flags=np.array([draw(st.sampled_from(_FLAGS)) for _ in range(n)], "u2"),
            category=_strings(draw, builder, n) if draw(st.booleans()) else None,
            layer=_ints(draw, n, -1, 9) if draw(st.booleans()) else None,
            token=_ints(draw, n, -1, 2**31 - 1) if draw(st.booleans()) else None,
            wait=_waits(draw, n) if draw(st.booleans()) else None,
        )  # fmt: skip
    for _ in range(draw(st.integers(0, 2))):
        at = np.sort(draw(st.lists(times, min_size=1, max_size=4)))
        value = draw(st.lists(floats, min_size=len(at), max_size=len(at)))
        lane = draw(st.none() | st.integers(0, n_lanes - 1))
        builder.add_counter(
            draw(nonempty_texts), draw(st.sampled_from(["", "B", "%", "a (b)"])),
            CounterShape.LEVEL, at, value, lane=lane,
        )  # fmt: skip
    m = draw(st.integers(0, 3))
    if m:
        builder.add_markers(
            time=np.array(draw(st.lists(times, min_size=m, max_size=m))),
            lane=_ints(draw, m, 0, n_lanes - 1),
            name=_strings(draw, builder, m),
            detail=_strings(draw, builder, m),
        )
    trace = finished(builder)
    flows = Flows(*(_ints(draw, 3 * bool(n), 0, n - 1).astype(np.int64) for _ in "ab"))
    return replace(trace, flows=flows)


def _ints(draw: st.DrawFn, n: int, low: int, high: int) -> np.ndarray:
    values = draw(st.lists(st.integers(low, max(low, high)), min_size=n, max_size=n))
    return np.array(values, np.int32)


def _strings(draw: st.DrawFn, builder: TraceBuilder, n: int) -> np.ndarray:
    result = draw(st.lists(st.none() | texts, min_size=n, max_size=n))
    return np.array(
        [-1 if text is None else builder.strings.intern(text) for text in result], "i4"
    )


def _waits(draw: st.DrawFn, n: int) -> np.ndarray:
    waits = st.integers(0, 30) | st.sampled_from([NO_WAIT, NO_WAIT - 1])
    return np.array(draw(st.lists(waits, min_size=n, max_size=n)), np.uint32)


@settings(deadline=None)
@given(traces())
def test_chrome_events_give_back_the_trace(trace: Trace) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        data = b"".join(chrome.chunks(Events(trace)))
        json.loads(data)  # as strict as others are
        if not (len(trace.spans) or len(trace.markers)):
            return
        path.write_bytes(data)
        back = open_trace(path)

        assert back.check() == []
        assert differences(trace, back) == []


@settings(deadline=None)
@given(traces())
def test_packets_hold_the_spans_and_arrows(trace: Trace) -> None:
    pytest.importorskip("perfetto", reason="perfetto is not installed")
    made = Events(trace)

    packets = b"".join(perfetto.chunks(made))

    meant = Counter(
        (row[2] - row[1], row[1] + made.shift, row[3])
        for row in spans_of(trace)
        if row[2] is not None
    )
    waits = made.waits(made.nesting())
    seen = Counter(row[:3] for row in slices_of(packets))
    assert (seen - meant).total() == (0 if waits is None else int((waits > 0).sum()))
    assert not meant - seen
    assert len(arrows_of(packets)) == len(trace.flows)


@settings(deadline=None)
@given(traces())
def test_stacks_are_those_of_a_walk_through_each_track(trace: Trace) -> None:
    made, s = Events(trace), trace.spans
    expected: dict[str, int] = defaultdict(int)
    opened: list[tuple[int, str, str]] = []
    before = -1
    rows = zip(
        made.spans.tolist(),
        made.track.tolist(),
        made.is_unfinished.tolist(),
        strict=True,
    )
    for i, track, is_open in rows:
        if track != before:
            opened = []
        before = track
        where = made.tracks[track]
        begin, end = int(s.start[i]), int(s.end[i])
        while opened and opened[-1][0] <= begin:
            opened.pop()
        parts = made.processes[where.process - 1], where.name
        head = ";".join(map(folded.frame_name, parts))
        _, around, payer = opened[-1] if opened else (0, head, "")
        word = trace.op_name(int(s.op[i])) or trace.span_name(i)
        path = f"{around};{folded.frame_name(word)}"
        if not is_open:
            expected[payer] -= end - begin
            expected[path] += end - begin
            payer = path
        opened.append((end, path, payer))
    expected.pop("", None)

    assert folded.stacks(made) == {p: n for p, n in expected.items() if n > 0}


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=60)


@given(spans)
def test_each_span_lies_on_the_first_track_with_room(pairs: list) -> None:
    pairs = sorted(((a, a + n) for a, n in pairs), key=lambda p: (p[0], -p[1]))
    tracks: list[list[int]] = []
    expected = []
    for begin, end in pairs:
        for ends in tracks:
            while ends and ends[-1] <= begin:
                ends.pop()
        free = [i for i, ends in enumerate(tracks) if not ends or end <= ends[-1]]
        if not free:
            free = [len(tracks)]
            tracks.append([])
        tracks[free[0]].append(end)
        expected.append(free[0])

    start, end = (np.array([p[k] for p in pairs], np.int64) for k in (0, 1))
    result = nested(start, end)

    assert result.tolist() == expected


def test_a_thousand_spans_side_by_side_have_a_track_each() -> None:
    start = np.arange(1000)

    assert nested(start, start + 1000).tolist() == list(range(1000))
