import dataclasses
from collections import Counter

import numpy as np
import pytest

import builders
import ggmlviz_files as gv
from expert_traces import moe_file
from ggscope.analysis.rows import categories
from ggscope.analysis.rows.categories import (
    Categories,
    engine_of,
)
from ggscope.analysis.rows.colorings import available_colorings, coloring, coloring_ids
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    FlatAccesses,
    Space,
    SpanFlag,
)
from ggscope.model.trace import LaneKind
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace
from ggscope.render.colors import category_color
from ggscope.render.theme import theme
from statements import new_statement


def opened(path, options=None):
    return open_trace(path, context=ReadContext(options=options or {}))


def keys_by_span(categories: Categories) -> list[str]:
    return [categories.keys[i] for i in categories.index.tolist()]


@pytest.fixture(scope="module")
def llama():
    return builders.llama_like_trace(tokens=3, layers=2)


@pytest.fixture(scope="module")
def npu():
    return builders.npu_like_trace()


@pytest.mark.parametrize("by", coloring_ids())
def test_every_colouring_is_narrow_complete_and_read_only(llama, by):
    categories = coloring(by).categorize(llama)

    assert categories.by == by
    assert categories.index.dtype in (np.uint8, np.uint16)
    assert not categories.index.flags.writeable
    assert len(categories.labels) == len(categories.keys) == len(set(categories.keys))
    assert set(categories.index.tolist()) == set(range(len(categories.labels)))


@pytest.mark.parametrize("by", coloring_ids())
def test_every_colouring_of_an_empty_trace_has_one_label(by):
    categories = coloring(by).categorize(builders.empty_trace())

    assert categories.keys == ("none",)
    assert len(categories.index) == 0


def test_op_names_each_span_commonest_first(llama):
    categories = coloring("op").categorize(llama)

    assert keys_by_span(categories) == [
        llama.op_name(op) or "none" for op in llama.spans.op.tolist()
    ]
    assert categories.keys[0] == "MUL_MAT"
    assert categories.labels[-1] == "no op"


def test_family_follows_the_op(llama):
    categories = coloring("family").categorize(llama)

    of_name = dict(
        zip(
            [llama.op_name(op) for op in llama.spans.op.tolist()],
            keys_by_span(categories),
            strict=True,
        )
    )
    assert of_name["MUL_MAT"] == "matmul"
    assert of_name["FLASH_ATTN_EXT"] == "attention"
    assert of_name["ROPE"] == "rope"
    assert of_name[""] == "none"


def test_family_of_engines_follows_the_lane_and_the_hint(npu):
    categories = coloring("family").categorize(npu)

    lane_of = {lane.id: lane.name for lane in npu.lanes}
    expected = {
        "DMA0": "engine:DMA",
        "TE0": "engine:TE",
        "VE0": "engine:VE",
        "CTRL": "engine:HOST",
        "HOST": "engine:HOST",
    }
    for span, key in enumerate(keys_by_span(categories)):
        name = lane_of[int(npu.spans.lane[span])]
        if npu.spans.color[span]:
            assert key == "rgb:ff0000"
        else:
            assert key == expected.get(name, "none")
    assert categories.labels[-2:] == ("#ff0000 (from the file)", "no op")
    plain = dataclasses.replace(npu, spans=dataclasses.replace(npu.spans, color=None))
    labels = "\n".join(coloring("family").categorize(plain).labels)
    assert new_statement("\n".join(categories.labels), labels)


@pytest.mark.parametrize(
    ("name", "engine"),
    [("dma1", "DMA"), ("TE0", "TE"), ("VE", "VE"), ("CTRL", "HOST"), ("x", "HOST")],
)
def test_engine_of_knows_the_kinds(name, engine):
    assert engine_of(name) == engine


def test_layer_counts_up_and_none_is_last(llama):
    categories = coloring("layer").categorize(llama)

    assert categories.keys == ("layer:0", "layer:1", "none")
    assert categories.labels[-1] == "no layer"
    assert keys_by_span(categories) == [
        f"layer:{i}" if i >= 0 else "none" for i in llama.spans.layer.tolist()
    ]


def test_layer_of_a_trace_without_the_column_is_none():
    assert coloring("layer").categorize(builders.spans_trace([0], [1])).keys == (
        "none",
    )


def test_token_names_each_span(llama):
    categories = coloring("token").categorize(llama)

    assert keys_by_span(categories) == [
        f"token:{i}" if i >= 0 else "none" for i in llama.spans.token.tolist()
    ]


def test_token_numbers_far_apart_are_still_reported_apart():
    trace = builders.spans_trace(
        [0, 1, 2], [1, 2, 3], token=np.array([5, 1 << 30, -1], np.int32)
    )

    assert keys_by_span(coloring("token").categorize(trace)) == [
        "token:5",
        f"token:{1 << 30}",
        "none",
    ]


def test_too_many_tokens_share_colours_and_say_so():
    n = categories.MAX_TOKENS + 10
    token = np.append(np.arange(n), -1).astype(np.int32)
    start = np.arange(n + 1)

    result = coloring("token").categorize(
        builders.spans_trace(start, start + 1, token=token)
    )

    assert result.index[3] == result.index[categories.MAX_TOKENS + 3]
    assert result.labels[3] == "token 3, 4099 …"
    assert result.keys[-1] == "none"
    assert len(result.keys) == categories.MAX_TOKENS + 1


def test_thread_names_lanes_that_have_spans(npu):
    categories = coloring("thread").categorize(npu)

    assert keys_by_span(categories) == [f"thread:{i}" for i in npu.spans.lane.tolist()]
    assert "markers" not in categories.labels


def test_phase_takes_the_words_of_the_trace(llama, npu):
    assert coloring("phase").categorize(llama).labels == (
        "prompt",
        "generate",
        "no phase",
    )
    assert coloring("phase").categorize(npu).labels == ("prefill", "decode", "no phase")


def test_phase_without_named_bands_takes_the_usual_words():
    lane = builders.spans_trace(
        [0], [9], kind=LaneKind.PHASE, phase=np.array([1], np.int8)
    )
    plain = builders.random_trace(1, 40)

    assert coloring("phase").categorize(lane).labels == ("generate",)
    assert coloring("phase").categorize(plain).labels == ("prompt", "generate")
    assert coloring("phase").categorize(builders.spans_trace([0], [1])).keys == (
        "none",
    )


def test_source_shows_disk_buffer_both_and_none(llama):
    categories = coloring("source").categorize(llama)

    expected = []
    for span in range(len(llama.spans)):
        spaces = set(llama.accesses.of_span(span).space.tolist())
        expected.append(
            "none"
            if not spaces
            else "space:mixed"
            if len(spaces) > 1
            else f"space:{spaces.pop()}"
        )
    assert keys_by_span(categories) == expected
    assert categories.labels == ("BUFFER", "DISK and BUFFER", "no access")


def access_columns(space: list[int]) -> AccessColumns:
    columns = AccessColumns.blank(len(space))
    columns.space[:] = space
    return columns


def test_source_unknown_space_does_not_make_a_mixture():
    builder = TraceBuilder()
    builder.add_lane("thread 0", LaneKind.THREAD)
    builder.add_spans(start=np.arange(3), end=np.arange(3) + 1, lane=0)
    builder.accesses = Accesses(
        np.array([0, 1, -1], np.int32),
        np.array([0, 1, 3]),
        access_columns([Space.UNKNOWN, Space.UNKNOWN, Space.FILE]),
        FlatAccesses.blank(),
    )

    categories = coloring("source").categorize(builders.finished(builder))

    assert keys_by_span(categories) == ["space:4", "space:0", "none"]


def test_source_of_loose_accesses_goes_to_their_span():
    builder = TraceBuilder()
    builder.add_lane("TE0", LaneKind.ENGINE)
    builder.add_spans(start=np.arange(4), end=np.arange(4) + 1, lane=0)
    span = np.array([1, 1, -1, 2], np.int64)
    builder.accesses = Accesses(
        np.array([-1, -1, 0, -1], np.int32),
        np.array([0, 1]),
        access_columns([Space.FILE]),
        FlatAccesses(
            np.arange(4),
            np.zeros(4, np.int32),
            span,
            np.full(4, -1, np.int32),
            access_columns([Space.DRAM, Space.SPM, Space.DRAM, Space.DRAM]),
        ),
    )

    categories = coloring("source").categorize(builders.finished(builder))

    assert keys_by_span(categories) == ["none", "space:mixed", "space:0", "none"]


def test_quality_follows_the_flags():
    flags = [0, SpanFlag.INFERRED_END, SpanFlag.ESTIMATED, SpanFlag.UNFINISHED]
    trace = builders.spans_trace(
        [0, 1, 2, 3], [1, 2, 3, 4], flags=np.array(flags, np.uint16)
    )

    categories = coloring("quality").categorize(trace)

    assert keys_by_span(categories) == [f"quality:{i}" for i in range(4)]
    assert categories.labels == ("measured", "derived", "estimated", "unfinished")


def test_more_than_256_categories_take_two_bytes():
    start = np.arange(300)
    trace = builders.spans_trace(
        start, start + 1, lane=start, token=start.astype(np.int32)
    )

    assert coloring("thread").categorize(trace).index.dtype == np.uint16
    assert coloring("token").categorize(trace).index.dtype == np.uint16


def test_too_many_lanes_share_colours_and_say_so():
    limit = categories.MAX_TOKENS
    at = np.arange(2 * limit + 1)

    result = coloring("thread").categorize(builders.spans_trace(at, at + 1, at))

    assert len(result.keys) == limit
    assert result.index[1] == result.index[limit + 1] != result.index[2]
    assert result.labels[1] == f"thread 1, thread {limit + 1}"
    assert result.labels[0] == f"thread 0, thread {limit} …"


def test_backends_are_distinguished_and_offered_only_where_there_are_several(tmp_path):
    events = [
        *gv.graph(gv.T0, 2, backend=0),
        *gv.graph(gv.T0 + 5000, 3, backend=0xAB00, thread=2),
        *gv.graph(gv.T0 + 9000, 1, backend=0xAB00),
    ]
    trace = opened(gv.write(tmp_path / "two.ggmlviz", events))
    one = opened(gv.write(tmp_path / "one.ggmlviz", gv.run(3)))

    categories = coloring("backend").categorize(trace)

    assert categories.labels == ("CPU backend", "Backend 1")
    of_lane = [
        trace.lanes[lane].attributes["backend"] for lane in trace.spans.lane.tolist()
    ]
    assert keys_by_span(categories) == [
        {"0x0": "backend:0", "0xab00": "backend:1"}[pointer] for pointer in of_lane
    ]
    assert Counter(of_lane) == {"0x0": 3, "0xab00": 6}
    assert "backend" in available_colorings(trace)
    assert "expert" not in available_colorings(trace)
    assert "backend" not in available_colorings(one)
    colors = [category_color(key, theme("dark")) for key in categories.keys]
    assert len(set(colors)) == 2


def test_cores_count_up_and_are_offered_where_they_are_recorded(llama):
    core = np.where(llama.spans.op >= 0, 2 * (llama.spans.lane % 4), -1)
    spans = dataclasses.replace(llama.spans, core=core.astype(np.int16))
    none = dataclasses.replace(llama.spans, core=np.full(len(core), -1, np.int16))

    categories = coloring("core").categorize(dataclasses.replace(llama, spans=spans))

    assert keys_by_span(categories) == [
        f"core:{c}" if c >= 0 else "none" for c in core.tolist()
    ]
    numbers = sorted({c for c in core.tolist() if c >= 0})
    assert len(numbers) == 2
    assert categories.keys == (*(f"core:{c}" for c in numbers), "none")
    assert len({category_color(key, theme("dark")) for key in categories.keys}) == 3
    assert "core" in available_colorings(dataclasses.replace(llama, spans=spans))
    assert "core" not in available_colorings(llama)
    assert "core" not in available_colorings(dataclasses.replace(llama, spans=none))


def test_experts_of_ops_are_one_several_or_not_known(tmp_path):
    path = moe_file(tmp_path, [(5,), (2, 7), (5,), (31,), ()])
    trace = opened(path, {"ops": "ggml-2025-11-25-95"})

    categories = coloring("expert").categorize(trace)

    ops = [i for i in range(len(trace.spans)) if trace.span_name(i) == "ffn_moe_up-0"]
    keys = [categories.keys[i] for i in categories.index[ops].tolist()]
    assert keys == ["expert:5", "expert:several", "expert:5", "expert:31", "none"]
    others = np.setdiff1d(np.arange(len(trace.spans)), ops)
    assert {categories.keys[i] for i in categories.index[others].tolist()} == {"none"}
    assert "expert" in available_colorings(trace)
    assert len({category_color(key, theme("light")) for key in keys}) == 4


def test_spans_on_experts_that_nobody_chose_are_not_known(tmp_path):
    path = moe_file(tmp_path, [(5,), (5,), (5,)])
    trace = opened(path, {"ops": "ggml-2025-11-25-95"})
    without = dataclasses.replace(trace, routing=trace.routing.take(np.arange(1)))

    categories = coloring("expert").categorize(without)

    ops = [i for i in range(len(trace.spans)) if trace.span_name(i) == "ffn_moe_up-0"]
    keys = [categories.keys[i] for i in categories.index[ops].tolist()]
    assert keys == ["expert:5", "expert:unknown", "expert:unknown"]
