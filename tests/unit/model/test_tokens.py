"""Prefill 0 and decode 0 are two tokens, everywhere."""

from pathlib import Path

import numpy as np
import pytest

from builders import finished, statistics
from ggscope.analysis.rows.colorings import coloring
from ggscope.analysis.statistics.token_layers import token_layers
from ggscope.model.builder import TraceBuilder
from ggscope.model.selection import Filter, Selection
from ggscope.model.tokens import token_text, tokens_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange
from ggscope.readers.registry import open_trace
from ggscope.render.batch import TextBatch
from ggscope.render.timeline.compose import compose_timeline
from ggscope.views.base.cells import CellTexts, columns_of
from ggscope.views.table.view import filters_of
from npu_files import engine, read_events, token
from scenes import make_scene, texts_of
from support import ROOT, need_corpus


def run(folder: Path) -> Trace:
    """Return two prefills and two decodes, each numbered from 0, an op in each."""
    events = []
    for i, phase in enumerate(("PREFILL", "PREFILL", "DECODE", "DECODE")):
        start = 1000 * i
        events += [
            token(start, start + 900, phase=phase, token_index=i % 2),
            engine(start, start + 100 * (i + 1)),
        ]
    return read_events(folder, *events)


def test_statistics_by_token_keep_phases_apart(tmp_path: Path) -> None:
    rows = {row.key: row.total for row in statistics(run(tmp_path), "token")}

    assert rows == {
        "prefill 0": 100,
        "prefill 1": 200,
        "decode 0": 300,
        "decode 1": 400,
    }


def test_corpus_file_has_as_many_rows_as_tokens() -> None:
    path = need_corpus() / "npu" / "valid_1_llm_all_event_types.json"

    rows = statistics(open_trace(path), "token")

    assert {row.key for row in rows} == {
        "prefill 0", "decode 0", "decode 1", "decode 2", "decode 3",
    }  # fmt: skip


def test_sample_has_a_row_for_each_token() -> None:
    trace = open_trace(ROOT / "resources/samples/npu-prefill-decode.json")

    keys = [row.key for row in statistics(trace, "token")]

    assert len(set(keys)) == len(keys)
    assert {"prefill 0", "decode 1"} <= set(keys)


def test_colours_and_layers_keep_phases_apart(tmp_path: Path) -> None:
    trace = run(tmp_path)

    labels = coloring("token").categorize(trace).labels
    layers = token_layers(trace)

    assert [text for text in labels if text != "no token"] == [
        "token prefill 0", "token prefill 1", "token decode 0", "token decode 1",
    ]  # fmt: skip
    assert layers.names == ("prefill 0", "prefill 1", "decode 0", "decode 1")
    assert layers.ops.tolist() == [[1, 1, 1, 1]]


def test_table_names_the_phase_and_filters_by_it(tmp_path: Path) -> None:
    trace = run(tmp_path)
    op = int(np.flatnonzero(trace.spans.op >= 0)[2])

    (column,) = [c for c in columns_of(trace) if c.key == "token"]
    expected = dict(filters_of(trace, op, Filter()))["Show only token decode #0"]

    assert CellTexts.of(trace).text(op, "token") == "decode #0"
    assert column.width >= 90
    assert (expected.tokens, expected.phases) == ({0}, {1})


def test_token_strip_names_the_phase_and_lights_one_token(tmp_path: Path) -> None:
    trace = run(tmp_path)
    lane = next(lane.id for lane in trace.lanes if lane.kind == LaneKind.TOKEN)
    first = int(np.flatnonzero(trace.spans.lane == lane)[0])
    scene = make_scene(
        trace,
        width=1600,
        visible=TimeRange(0, 4000),
        selection=Selection("spans", (first,)),
    )

    picture = compose_timeline(scene)

    strip = [text for text in texts_of(picture) if "#" in text]
    assert [" ".join(text.split()[:2]) for text in strip] == [
        "prefill #0", "prefill #1", "decode #0", "decode #1",
    ]  # fmt: skip
    highlighted = [
        text.text
        for batch in picture.batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
        if text.color == scene.theme.selection and "#" in text.text
    ]
    assert [" ".join(text.split()[:2]) for text in highlighted] == ["prefill #0"]


@pytest.mark.parametrize("passes", [0, 3])
def test_formats_with_passes_number_through(passes: int) -> None:
    builder = TraceBuilder()
    lane = builder.add_lane("thread 0", LaneKind.THREAD)
    builder.add_spans(
        start=np.arange(4),
        end=np.arange(4) + 1,
        lane=np.full(4, lane, np.int32),
        op=np.zeros(4, np.int16),
        token=np.array([0, 1, 0, -1], np.int32),
        phase=np.array([0, 1, 1, -1], np.int8),
    )
    trace = finished(builder, n_passes=passes)

    tokens = tokens_of(trace)
    texts = [tokens.text(int(key)) for key in tokens.key]

    if passes:
        assert texts == ["0", "1", "0", ""]
        assert token_text(trace, 1) == "#1"
    else:
        assert texts == ["prefill 0", "decode 1", "decode 0", ""]
        assert token_text(trace, 1) == "decode #1"
    assert token_text(trace, 3) == ""


def test_token_of_no_phase_is_one_of_its_own() -> None:
    builder = TraceBuilder()
    lane = builder.add_lane("tokens", LaneKind.TOKEN)
    builder.add_spans(
        start=np.arange(3),
        end=np.arange(3) + 1,
        lane=np.full(3, lane, np.int32),
        token=np.array([7, 7, 7], np.int32),
        phase=np.array([0, 1, -1], np.int8),
    )
    tokens = tokens_of(finished(builder))

    assert [tokens.text(int(key)) for key in tokens.key] == [
        "prefill 7",
        "decode 7",
        "7",
    ]
