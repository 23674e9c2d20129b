import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ggscope
from builders import (
    empty_trace,
    finished,
    llama_like_trace,
    npu_like_trace,
    random_trace,
    spans_trace,
)
from ggscope.analysis.rows.columns import column_edges
from ggscope.analysis.rows.lanes import LaneState
from ggscope.analysis.rows.tracks import BUSY_THREADS
from ggscope.model.builder import TraceBuilder
from ggscope.model.notes import Note
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.tables import CounterShape, SpanFlag
from ggscope.model.trace import RUNNING, LaneKind, ReadWarning, Severity, Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import (
    Align,
    AreaBatch,
    DisplayList,
    ImageBatch,
    LineBatch,
    Pattern,
    RectBatch,
    TextBatch,
)
from ggscope.render.colors import Sign, category_color
from ggscope.render.figure_style import FigureStyle
from ggscope.render.texels import FLOOR, stack_weights
from ggscope.render.text_metrics import elided
from ggscope.render.theme import THEMES, theme
from ggscope.render.timeline.compose import compose_timeline, figure_legend
from ggscope.render.timeline.figure import TimelineOptions, timeline_figure
from ggscope.render.timeline.marks import marker_labels
from ggscope.render.timeline.rows import darker, idle_color, neutral_color
from ggscope.render.timeline.scene import (
    AXIS_HEIGHT,
    TimelineGeometry,
    TimelineScene,
    TimeScale,
)
from graph_traces import network_trace
from scenes import busy_scene, make_scene, texts_of
from statements import new_statements
from support import ROOT

OPEN = LaneState(hidden=frozenset({"op:ADD"}), collapsed=frozenset({"Layers", "Ops"}))


TONES = [0, *(idle_color(theme(name)) for name in THEMES)]


def images(picture: DisplayList) -> list[ImageBatch]:
    """Return the pictures of rows, without the tone of idle time."""
    return [
        replace(batch, pixels=np.where(np.isin(batch.pixels, TONES), 0, batch.pixels))
        for batch in picture.batches
        if isinstance(batch, ImageBatch)
    ]


def rects(picture: DisplayList) -> list[RectBatch]:
    return [batch for batch in picture.batches if isinstance(batch, RectBatch)]


def filled(picture: DisplayList, color: int) -> np.ndarray:
    """Return float[n, 4] (x0, y0, x1, y1) of the rectangles of one colour."""
    values = [
        np.stack([b.x0, b.y0, b.x1, b.y1], 1)[b.fill == color] for b in rects(picture)
    ]
    return np.concatenate(values) if values else np.zeros((0, 4))


def busy_of(pixels: np.ndarray) -> np.ndarray:
    """Return the busy shares that texels say; -1 where there is no span."""
    opacity = (pixels >> 24).astype(np.float64) / 255
    return np.where(opacity > 0, (opacity - FLOOR) / (1 - FLOOR), -1)


def brute_force(start: np.ndarray, end: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return covered / width of each column by touching every span; -1 empty."""
    out = np.full(len(edges) - 1, -1.0)
    for k, (a, b) in enumerate(itertools.pairwise(edges.tolist())):
        inside = np.minimum(end, b) - np.maximum(start, a)
        touches = (inside > 0) | ((start == end) & (start >= a) & (start < b))
        if touches.any():
            out[k] = inside[touches].sum() / (b - a)
    return out


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 400),
    cut=st.tuples(st.floats(0, 0.9), st.floats(0.05, 1)),
    scale=st.sampled_from([1.0, 1.5, 2.0]),
)
def test_texels_say_the_busy_share_of_brute_force(
    seed: int, n: int, cut: tuple[float, float], scale: float
) -> None:
    trace = random_trace(seed, n, lanes=1, layers=0)
    length = max(trace.extent.duration, 2_000)
    start = trace.extent.start + int(cut[0] * length)
    visible = TimeRange(start, start + max(int(cut[1] * length), 1_200))

    scene = make_scene(
        trace, visible=visible, scale=scale, state=OPEN, header_width=200
    )
    picture = compose_timeline(scene)

    [image] = images(picture)
    edges = column_edges(visible, image.pixels.shape[1])
    expected = brute_force(trace.spans.start, trace.spans.end, edges)
    assert image.pixels.shape[1] == round(600 * scale)
    is_flat = np.ones(len(expected), np.bool_)
    if len(image.pixels) > 2:  # some columns hold many spans: see test_stacks
        [row] = scene.index.row_columns("thread:thread 0", "family")
        is_flat = stack_weights([row.query(edges)], round(3 * scale))[0] == 0
    busy = busy_of(image.pixels[0])
    assert ((busy < 0) == (expected < 0))[is_flat].all()
    away = np.abs(np.clip(busy, 0, 1) - np.clip(expected, 0, 1))
    assert away[is_flat].max(initial=0) <= 1 / 255


def test_boxes_cover_only_columns_that_their_span_fills() -> None:
    trace = random_trace(3, 200, lanes=1, layers=0)
    scene = make_scene(trace, state=OPEN, visible=TimeRange(1_000, 3_000))

    picture = compose_timeline(scene)

    [image] = images(picture)
    matmul = category_color("matmul", scene.theme)
    boxes = filled(picture, matmul)
    boxes = boxes[boxes[:, 2] - boxes[:, 0] > 3]
    busy = busy_of(image.pixels[0])
    assert len(boxes)
    for x0, _, x1, _ in boxes.tolist():
        first, stop = round(x0 - image.x0), round(x1 - image.x0)
        assert (busy[first:stop] == 1).all()
        assert (image.pixels[0, first : stop - 1] == matmul).all()
        # The last column is the dark edge that keeps neighbours apart, or the view's.
        assert image.pixels[0, stop - 1] in (
            matmul,
            *darker(np.array([matmul], np.uint32)),
        )


def test_one_nanosecond_in_ten_seconds_is_visible() -> None:
    trace = spans_trace([0, 5 * 10**9, 10**10 - 1], [1, 5 * 10**9 + 1, 10**10])

    [image] = images(compose_timeline(make_scene(trace, state=OPEN)))

    shown = np.flatnonzero(image.pixels[0] >> 24)
    assert len(shown) == 3
    assert ((image.pixels[0][shown] >> 24) >= round(FLOOR * 255)).all()


def test_span_without_length_is_visible() -> None:
    trace = spans_trace([0, 500, 900], [100, 500, 1000])

    [image] = images(compose_timeline(make_scene(trace, state=OPEN)))

    middle = image.pixels[0][image.pixels.shape[1] // 2]
    assert middle >> 24 == round(FLOOR * 255)


def test_hue_is_that_of_the_category() -> None:
    trace = spans_trace([0], [1000], op=3)
    scene = make_scene(trace, state=OPEN)

    [image] = images(compose_timeline(scene))

    assert (image.pixels[0] == category_color("matmul", scene.theme)).all()


def test_filter_leaves_ghosts_of_the_rest() -> None:
    trace = spans_trace([0, 500], [400, 900], op=[3, 1])
    scene = make_scene(trace, state=OPEN, mask=np.array([True, False]), mask_token="m")

    ghosts, entries = images(compose_timeline(scene))

    half = entries.pixels.shape[1] // 2
    assert (entries.pixels[0, half + 40 :] >> 24 == 0).all()
    assert (ghosts.pixels[0, half + 80] >> 24) > 0
    assert (ghosts.pixels[0] >> 24).max() < 128
    assert (entries.pixels[0, 10] >> 24) == 255


def test_zoomed_below_one_tick_per_pixel_draws_the_span_whole() -> None:
    trace = spans_trace([0, 5, 20], [2, 8, 30])

    picture = compose_timeline(make_scene(trace, state=OPEN, visible=TimeRange(4, 10)))

    [image] = images(picture)
    n = image.pixels.shape[1]
    busy = busy_of(image.pixels[0])
    assert (busy[int(n / 6) + 1 : int(n * 4 / 6) - 1] == 1).all()
    assert (busy[: int(n / 6) - 1] < 0).all()
    assert (busy[int(n * 4 / 6) + 1 :] < 0).all()


def test_columns_are_device_pixels_at_any_scale() -> None:
    for scale in (1.0, 1.25, 1.5, 2.0):
        scene = make_scene(llama_like_trace(), scale=scale, width=801)

        for image in images(compose_timeline(scene)):
            assert image.x0 * scale == pytest.approx(round(image.x0 * scale))
            assert image.pixels.shape[1] == round((image.x1 - image.x0) * scale)
            assert np.allclose(image.y0 * scale, np.round(image.y0 * scale))


@pytest.mark.parametrize(
    ("flag", "pattern"),
    [(SpanFlag.ESTIMATED, Pattern.DOTTED), (SpanFlag.UNFINISHED, Pattern.HATCH)],
)
def test_doubtful_spans_are_drawn_differently(flag: SpanFlag, pattern: Pattern) -> None:
    plain = spans_trace([0], [1000])
    doubtful = spans_trace([0], [1000], flags=np.uint16(flag))

    def patterns(trace: object) -> set[int]:
        picture = compose_timeline(make_scene(trace, state=OPEN))  # type: ignore[arg-type]
        return {
            int(p) for b in rects(picture) if b.pattern is not None for p in b.pattern
        }

    assert int(pattern) in patterns(doubtful)
    assert int(pattern) not in patterns(plain)


def test_derived_span_has_a_dashed_edge_where_it_ends() -> None:
    trace = spans_trace([0, 600], [400, 1000], flags=np.uint16(SpanFlag.INFERRED_END))
    scene = make_scene(trace, state=OPEN)

    picture = compose_timeline(scene)

    dashed = [b for b in picture.batches if isinstance(b, LineBatch) and b.dashed]
    assert len(dashed) == 1
    assert np.abs(dashed[0].x0 - TimelineGeometry(scene).time.x(400)).min() <= 1


def test_stalls_are_hatched_over_their_lane_with_the_reason() -> None:
    scene = make_scene(npu_like_trace(), visible=TimeRange(2_000, 2_400))

    shown = compose_timeline(scene)
    hidden = compose_timeline(replace(scene, show_stalls=False))

    reasons = [text for text in texts_of(shown) if text == "BANK_CONFLICT"]
    assert len(reasons) > len(
        [text for text in texts_of(hidden) if text == "BANK_CONFLICT"]
    )
    stall = category_color("quality:3", scene.theme)
    assert len(filled(shown, stall)) > len(filled(hidden, stall))


def counter_trace(*values: float, unit: str = "bytes") -> Trace:
    """Return a trace of a span and one counter."""
    builder = TraceBuilder()
    lane = builder.add_lane("thread 0", LaneKind.THREAD, ("Threads",))
    builder.add_spans(start=np.array([0]), end=np.array([100]), lane=lane, op=1)
    builder.add_counter(
        "used", unit, CounterShape.LEVEL, np.arange(len(values)) * 10,
        np.array(values, np.float64),
    )  # fmt: skip
    return finished(builder)


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ((2048.0, 1024.0), ["2.0 KiB", "0 B"]),
        ((-2048.0, 1024.0), ["1.0 KiB", "-2.0 KiB"]),
        ((-2048.0, -1024.0), ["0 B", "-2.0 KiB"]),
        ((0.0, 0.0), ["0 B"]),
        ((np.nan, 512.0), ["512 B", "0 B"]),
    ],
)
@pytest.mark.parametrize("is_figure", [False, True])
def test_counters_have_a_scale_at_the_edge_of_their_header(
    values: tuple[float, ...], ends: list[str], is_figure: bool
) -> None:
    scene = make_scene(counter_trace(*values), is_figure=is_figure)
    [lane] = [x for x in scene.index.lanes if x.track.id == "counter"]
    box = scene.layout.box_of(lane.key)
    assert box is not None
    y = AXIS_HEIGHT + box.y

    picture = compose_timeline(scene)

    labels = [
        text
        for batch in picture.batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
        if text.align is Align.RIGHT and y < text.y < y + box.height
    ]
    assert [text.text for text in labels] == ends
    assert all(text.x < scene.header_width for text in labels)
    assert y + 4 < labels[0].y < y + 8 or len(ends) == 1
    if len(ends) == 2:
        assert y + box.height - 10 < labels[1].y < y + box.height - 4


def test_name_of_a_counter_stands_between_the_ends_of_its_scale() -> None:
    scene = make_scene(counter_trace(2048.0, 1024.0), header_width=110)

    texts = {
        text.text: text
        for batch in compose_timeline(scene).batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
    }

    name, high, low = (texts[word] for word in ("used", "2.0 KiB", "0 B"))
    assert high.y + 10 <= name.y <= low.y - 10
    assert name.x + name.width > 90, "the scale takes no room from the name"


def test_counters_are_areas() -> None:
    picture = compose_timeline(make_scene(npu_like_trace(), height=900))

    areas = [batch for batch in picture.batches if isinstance(batch, AreaBatch)]
    assert len(areas) >= 2
    assert {"8.0 KiB", "0 B"} <= set(texts_of(picture))
    assert all(len(area.x) == len(area.y) + 1 for area in areas)
    assert all((area.y <= area.base + 1e-3).all() for area in areas)


def test_tokens_say_their_number_and_duration() -> None:
    picture = compose_timeline(make_scene(llama_like_trace(), width=1200))

    assert any(text.startswith("#0 ") and "ms" in text for text in texts_of(picture))


def token_rects(
    picture: DisplayList, theme_name: str
) -> list[tuple[float, float, float]]:
    """Return (x0, x1, radius) of the boxes of tokens."""
    return [
        (x0, x1, batch.radius)
        for batch in rects(picture)
        for x0, x1, fill in zip(
            batch.x0.tolist(), batch.x1.tolist(), batch.fill.tolist(), strict=True
        )
        if fill == neutral_color(theme(theme_name))
    ]


@pytest.mark.parametrize("theme_name", THEMES)
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_tokens_are_flat_and_a_pixel_apart(theme_name: str, scale: float) -> None:
    start = np.arange(0, 8_000, 100)
    end = np.where(start < 4_000, start + 100, start + 99)
    trace = spans_trace(start, end, kind=LaneKind.TOKEN, token=np.arange(80))

    for width in (968, 2168, 500):
        scene = make_scene(trace, width=width, scale=scale, theme_name=theme_name)
        boxes = token_rects(compose_timeline(scene), theme_name)

        assert len(boxes) == 80
        for (x0, x1, radius), (following, *_) in itertools.pairwise(sorted(boxes)):
            assert radius == (3.0 if x1 - x0 >= 11.0 else 0.0)
            assert 1.0 <= following - x1 <= 2.0


def test_nothing_is_drawn_under_the_corners_of_tokens() -> None:
    trace = spans_trace([0, 500], [497, 1000], kind=LaneKind.TOKEN, token=[0, 1])
    scene = make_scene(trace, width=400)

    picture = compose_timeline(scene)

    [image] = [b for b in picture.batches if isinstance(b, ImageBatch)]
    assert not image.pixels.any()


def test_narrow_token_between_wide_ones_is_drawn() -> None:
    trace = spans_trace(
        [0, 500, 501], [500, 501, 1000], kind=LaneKind.TOKEN, token=[0, 1, 2]
    )

    picture = compose_timeline(make_scene(trace, width=368))

    [image] = [b for b in picture.batches if isinstance(b, ImageBatch)]
    assert np.flatnonzero(image.pixels[1]).tolist() == [100]


def test_token_labels_keep_their_number_however_narrow_the_token() -> None:
    trace = ggscope.open(ROOT / "resources" / "samples" / "npu-prefill-decode.json")
    cut = []
    for width in range(500, 1500, 25):
        texts = [
            text
            for batch in compose_timeline(make_scene(trace, width=width)).batches
            if isinstance(batch, TextBatch)
            for text in batch.texts
            if re.match(r"(decode |prefill )?#\d", text.text)
        ]
        assert texts
        cut += [
            (width, text.text)
            for text in texts
            if elided(text.text, text.face, text.size, int(text.width)) != text.text
            and not text.text.startswith("#")
        ]
    assert cut == []


def test_selection_is_outlined_even_when_it_is_narrower_than_a_pixel() -> None:
    trace = spans_trace([0, 5_000_000, 9_999_999], [10, 5_000_001, 10_000_000])
    scene = make_scene(trace, state=OPEN, selection=Selection("spans", (1,)))

    picture = compose_timeline(scene)

    frame = filled(picture, scene.theme.selection)
    assert frame[:, 2].max() - frame[:, 0].min() >= 3
    x = TimelineGeometry(scene).time.x(5_000_000)
    assert frame[:, 0].min() <= x <= frame[:, 2].max()


def test_selection_is_outlined_in_every_lane_that_shows_it() -> None:
    scene = busy_scene()

    frame = filled(compose_timeline(scene), scene.theme.selection)

    tops = {round(y) for _, y, x, _ in frame.tolist()}
    rows = {top // 30 for top in tops}
    assert len(rows) >= 2


def test_selection_out_of_view_draws_nothing() -> None:
    trace = spans_trace([0, 500], [100, 600])
    scene = make_scene(
        trace, state=OPEN, visible=TimeRange(0, 200), selection=Selection("spans", (1,))
    )

    assert not len(filled(compose_timeline(scene), scene.theme.selection))


@pytest.mark.parametrize(
    "selection",
    [
        Selection("spans", (99_999,)),
        Selection("markers", (7,)),
        Selection("tensors", (0,)),
        Selection("spans", ()),
    ],
)
def test_selection_of_what_is_not_there_is_ignored(selection: Selection) -> None:
    trace = spans_trace([0], [100])
    scene = make_scene(trace, state=OPEN, selection=selection)

    assert isinstance(compose_timeline(scene), DisplayList)


def test_marked_range_shows_its_length_on_a_pill() -> None:
    trace = spans_trace([0], [10_000_000])
    marked = MarkedRange(TimeRange(2_000_000, 2_448_600))
    scene = make_scene(trace, state=OPEN, marked=marked)

    picture = compose_timeline(scene)

    assert "448.6 µs" in texts_of(picture)
    pills = [b for b in rects(picture) if b.radius == 9.0]
    assert len(pills) == 1


def test_marked_range_of_one_lane_leaves_the_others_alone() -> None:
    trace = random_trace(1, 100, lanes=3, layers=0)
    everywhere = MarkedRange(TimeRange(1_000, 2_000))
    one = replace(everywhere, lanes=frozenset({"thread:thread 1"}))

    def band_height(marked: MarkedRange) -> float:
        scene = make_scene(trace, state=OPEN, marked=marked)
        accent = scene.theme.accent & 0xFFFFFF
        heights = [
            (b.y1 - b.y0)[((b.fill & 0xFFFFFF) == accent) & (b.fill >> 24 < 255)]
            for b in rects(compose_timeline(scene))
        ]
        return float(np.concatenate(heights).sum())

    box = make_scene(trace, state=OPEN).layout.box_of("thread:thread 1")
    assert box is not None
    assert band_height(one) == pytest.approx(box.height, abs=1)
    assert band_height(everywhere) == 400 - AXIS_HEIGHT


def test_hits_of_one_column_make_one_tick() -> None:
    scene = busy_scene()
    assert scene.hits is not None
    many = replace(scene.hits, times=np.repeat(scene.hits.times, 50))

    few = filled(compose_timeline(scene), scene.theme.selection)
    same = filled(compose_timeline(replace(scene, hits=many)), scene.theme.selection)

    assert len(few) == len(same)


def test_markers_have_lines_and_flags() -> None:
    picture = compose_timeline(make_scene(llama_like_trace()))

    assert "RUN_START" in texts_of(picture)
    assert "PREFILL_DONE" in texts_of(picture)


@pytest.mark.parametrize(("n", "is_dense"), [(60, False), (900, True)])
def test_markers_that_would_dim_the_lanes_are_ticks_under_the_axis(
    n: int, is_dense: bool
) -> None:
    builder = TraceBuilder()
    lane = builder.add_lane("thread", LaneKind.THREAD, ("Threads",))
    name = builder.strings.intern("kernel")
    builder.add_spans(start=np.array([0]), end=np.array([90_000]), lane=lane, name=name)
    times = np.arange(n) * (90_000 // n)
    builder.add_markers(time=times, lane=lane, name=name)
    scene = make_scene(finished(builder))

    picture = compose_timeline(scene)

    color = scene.theme.dim & 0xFFFFFF
    lengths = [
        float(length)
        for batch in picture.batches
        if isinstance(batch, LineBatch)
        for length, c in zip(batch.y1 - batch.y0, batch.color.tolist(), strict=True)
        if c & 0xFFFFFF == color and c >> 24 < 255
    ]
    assert len(lengths) >= min(n, 600)
    assert (max(lengths) < 8) == is_dense


def test_pinned_lanes_do_not_scroll_and_hide_what_scrolls_under_them() -> None:
    trace = random_trace(1, 200, lanes=12, layers=0)
    state = replace(OPEN, pinned=("thread:thread 5",))
    scene = make_scene(trace, state=state, height=200, scroll_y=60)

    picture = compose_timeline(scene)

    pinned_end = AXIS_HEIGHT + max(
        b.y + b.height for b in scene.layout.boxes if b.pinned
    )
    scrolled, pinned = images(picture)
    assert pinned.y1.max() <= pinned_end
    assert scrolled.clip is not None
    assert scrolled.clip.y == pytest.approx(pinned_end)


@pytest.mark.parametrize("scroll_y", [0.0, 40.0])
def test_line_under_the_token_lane_is_there_while_lanes_scroll(scroll_y: float) -> None:
    scene = make_scene(llama_like_trace(), height=160, scroll_y=scroll_y)
    y = AXIS_HEIGHT + scene.layout.fixed_height

    picture = compose_timeline(scene)

    assert scene.layout.fixed
    lines = [
        float(at)
        for batch in picture.batches
        if isinstance(batch, LineBatch)
        for at, color in zip(batch.y0, batch.color, strict=True)
        if color == scene.theme.dim
    ]
    assert (y in lines) == (scroll_y > 0)


def test_lanes_out_of_sight_are_not_composed() -> None:
    trace = random_trace(1, 400, lanes=60, layers=0)

    picture = compose_timeline(make_scene(trace, state=OPEN, height=200))

    # A row of texels for the columns of each lane, and one for their feet.
    assert sum(len(image.pixels) for image in images(picture)) < 24


def test_empty_trace_says_so() -> None:
    picture = compose_timeline(make_scene(empty_trace()))

    [batch] = picture.batches
    assert isinstance(batch, TextBatch)
    assert batch.texts[0].text == "test.bin holds no spans"


@pytest.mark.parametrize(
    ("content", "is_reason"), [(empty_trace(), True), (network_trace(), False)]
)
def test_warning_is_the_reason_of_an_empty_timeline_where_the_file_has_nothing_else(
    content: Trace, is_reason: bool
) -> None:
    warning = ReadWarning(Severity.INFO, "some_code", "nothing was written to it.")
    trace = replace(content, spans=empty_trace().spans, warnings=(warning,))

    texts = texts_of(compose_timeline(make_scene(trace)))

    assert ("Nothing was written to it." in texts) is is_reason


def test_trace_still_being_read_does_not_claim_to_be_empty() -> None:
    trace = replace(empty_trace(), pending=frozenset({"names"}))

    reading, empty = (
        "\n".join(texts_of(compose_timeline(make_scene(t))))
        for t in (trace, empty_trace())
    )
    assert reading.startswith("Reading …")
    assert new_statements(reading, empty)


def test_empty_timeline_waits_for_graphs_of_a_program_that_runs() -> None:
    def shown(*pending: str) -> str:
        trace = replace(empty_trace(), pending=frozenset(pending))
        return "\n".join(texts_of(compose_timeline(make_scene(trace))))

    assert len({shown(RUNNING), shown(), shown("names")}) == 3


def test_legend_of_a_figure_names_what_is_in_view() -> None:
    trace = spans_trace([0, 500], [400, 900], op=[3, 1])
    scene = make_scene(trace, state=OPEN, theme_name="print")

    whole = {entry.label for entry in figure_legend(scene)}
    part = {
        entry.label
        for entry in figure_legend(replace(scene, visible=TimeRange(0, 300)))
    }

    assert {"matmul", "elementwise"} <= whole
    assert "elementwise" not in part


def test_figure_has_no_marks_of_the_interface() -> None:
    # The lane of busy threads has an axis, which figures show too.
    state = replace(OPEN, hidden=frozenset({BUSY_THREADS}))
    scene = make_scene(random_trace(1, 400, lanes=6, layers=3), state=state)

    window = texts_of(compose_timeline(scene))
    figure = texts_of(compose_timeline(replace(scene, is_figure=True)))

    counts = [text for text in window if re.fullmatch(r"[\d,.]+( %)?", text)]
    assert counts
    assert not set(counts) & set(figure)
    assert {"Threads", "thread 0"} <= set(figure)


def test_print_theme_has_no_transparency() -> None:
    scene = replace(busy_scene("print"), is_figure=True)

    picture = compose_timeline(scene)

    for image in images(picture):
        assert set(np.unique(image.pixels >> 24).tolist()) <= {0, 255}
    for batch in rects(picture):
        assert set(np.unique(batch.fill >> 24).tolist()) <= {0, 255}
    for batch in picture.batches:
        if isinstance(batch, AreaBatch):
            assert batch.fill >> 24 == 255


@given(
    start=st.integers(-(10**17), 10**17),
    duration=st.integers(1, 10**17),
    share=st.floats(0, 1),
)
def test_tick_of_x_undoes_x_of_tick(start: int, duration: int, share: float) -> None:
    scene = make_scene(
        spans_trace([0], [100]), visible=TimeRange(start, start + duration)
    )
    tick = start + int(share * duration)

    x = TimelineGeometry(scene).time.x(tick)

    per_px = duration / (scene.width - scene.header_width)
    assert abs(TimelineGeometry(scene).time.tick(x) - tick) <= max(per_px * 1e-6, 1)


def test_tick_far_outside_stays_within_int64() -> None:
    scene = make_scene(
        spans_trace([0], [100]), visible=TimeRange(0, 1 << 61), width=400
    )

    assert abs(TimelineGeometry(scene).time.tick(1e9)) < 1 << 63
    assert abs(TimelineGeometry(scene).time.tick(-1e9)) < 1 << 63


def test_every_colouring_and_theme_composes() -> None:
    for by in ("op", "layer", "token", "thread", "phase", "source", "quality"):
        for theme_name in ("dark", "light", "print"):
            scene = make_scene(
                llama_like_trace(2, 2), theme_name=theme_name, color_by=by
            )
            assert images(compose_timeline(scene))


def test_narrow_and_flat_pictures_compose() -> None:
    for width, height in ((1, 1), (30, 20), (169, 27), (200, 5)):
        scene = make_scene(llama_like_trace(2, 2), width=width, height=height)
        assert compose_timeline(scene).width == width


def test_repainting_an_unchanged_view_asks_no_row_again() -> None:
    scene = make_scene(llama_like_trace())

    first = images(compose_timeline(scene))
    again = images(compose_timeline(replace(scene, hover_span=3)))

    assert all((a.pixels == b.pixels).all() for a, b in zip(first, again, strict=True))


def test_theme_names_are_those_of_the_files() -> None:
    with pytest.raises(KeyError):
        theme("neon")


@pytest.mark.parametrize("theme_name", THEMES)
@pytest.mark.parametrize("by", ["family", "op", "layer", "token", "phase", "thread"])
def test_no_colour_of_a_legend_means_two_things(by: str, theme_name: str) -> None:
    for trace in (llama_like_trace(), npu_like_trace()):
        scene = make_scene(trace, theme_name=theme_name, color_by=by, is_figure=True)

        entries = figure_legend(scene)

        plain = [
            e for e in entries if (e.sign, e.pattern) == (Sign.FIELD, Pattern.SOLID)
        ]
        colors = [e.color for e in plain]
        assert len(set(colors)) == len(colors), [e.label for e in plain]


@pytest.mark.parametrize("by", ["family", "quality", "phase"])
@pytest.mark.parametrize("name", ["moe-experiment", "tinyllama-256.bin"])
def test_no_word_of_a_legend_stands_twice(name: str, by: str) -> None:
    trace = ggscope.open(ROOT / "resources" / "samples" / name)
    scene = make_scene(trace, theme_name="print", color_by=by, is_figure=True)

    entries = figure_legend(scene)

    labels = [entry.label for entry in entries]
    assert len(set(labels)) == len(labels), labels
    (unfinished,) = [entry for entry in entries if entry.label == "unfinished"]
    assert unfinished.pattern is Pattern.HATCH
    if by == "quality":
        assert unfinished.color == category_color("quality:3", scene.theme)


def axis_time(width: float = 1000.0) -> TimeScale:
    return TimeScale(TimeRange(0, 1000), 0, width, 1.0)


def test_markers_without_room_for_a_label_share_one() -> None:
    time = axis_time()

    alike = marker_labels([(100, "alloc"), (120, "alloc"), (141, "alloc")], time, [])
    other = marker_labels([(100, "alloc"), (120, "free"), (500, "end")], time, [])
    taken = marker_labels([(100, "alloc"), (500, "free")], time, [(490, 520)])

    assert [text for *_, text in alike] == ["alloc ×3"]
    assert [text for *_, text in other] == ["alloc +1", "end"]
    assert [text for *_, text in taken] == ["alloc"]


@given(st.lists(st.tuples(st.floats(0, 1000), st.sampled_from(["a", "alloc", "b"]))))
@example([(941.0, "a"), (941.0, "a"), (981.0, "a"), (981.0, "a")])
def test_labels_of_markers_never_overlap_and_count_every_marker(markers) -> None:
    markers.sort()

    labels = marker_labels(markers, axis_time(), [])

    for (_, right, _), (left, _, _) in itertools.pairwise(labels):
        assert left >= right
    n = 0
    for _, _, text in labels:
        name, _, more = text.partition(" ")
        n += int(more[1:]) + (more[0] == "+") if more else 1
        assert name in ("a", "alloc", "b")
    assert n == len(markers)


def test_tokens_of_a_view_are_called_alike() -> None:
    trace = ggscope.open(ROOT / "resources" / "samples" / "npu-prefill-decode.json")
    for width in range(400, 1600, 40):
        scene = make_scene(trace, width=width)
        names = [
            text.split(" ")
            for text in texts_of(compose_timeline(scene))
            if "#" in text.split(" ")[0] + text.split(" ")[-1]
            or text.startswith(("prefill #", "decode #"))
        ]
        assert names
        assert len({text[0][0] == "#" for text in names}) == 1, names


def test_counter_of_zeros_is_no_lane_of_a_figure() -> None:
    trace = ggscope.open(ROOT / "resources" / "samples" / "npu-prefill-decode.json")
    figure = timeline_figure(trace)
    chosen = timeline_figure(trace, TimelineOptions(lanes=["counter:Stall cycles"]))

    drawn = figure.draw(figure.style)

    assert "Stall cycles" not in texts_of(drawn.picture)
    assert "DRAM read" in texts_of(drawn.picture)
    assert "Not drawn: 1 counter that is always 0." in drawn.caption
    assert "Stall cycles" in texts_of(chosen.draw(chosen.style).picture)
    assert "Stall cycles" in texts_of(compose_timeline(make_scene(trace, height=900)))


def test_counter_that_is_unknown_seen_or_alone_is_drawn() -> None:
    def drawn(**values: float) -> TraceBuilder:
        builder = TraceBuilder()
        for name, value in values.items():
            times, amounts = np.array([0, 5]), np.array([value, value])
            builder.add_counter(name, "", CounterShape.LEVEL, times, amounts)
        return builder

    def texts(
        builder: TraceBuilder, state: LaneState | None = None, *, seen: bool = False
    ) -> list[str]:
        figure = timeline_figure(finished(builder), TimelineOptions(state=state))
        return texts_of(figure.draw(FigureStyle(seen=seen)).picture)

    two = texts(drawn(nothing=0.0, unknown=np.nan, some=3.0))

    assert "nothing" not in two
    assert {"unknown", "some"} <= set(two)
    assert "nothing" in texts(drawn(nothing=0.0, some=3.0), LaneState(), seen=True)
    assert "nothing" in texts(drawn(nothing=0.0))


def test_legend_names_no_kind_that_is_not_drawn() -> None:
    trace = ggscope.open(ROOT / "resources" / "samples" / "npu-prefill-decode.json")
    scene = make_scene(trace, theme_name="print", is_figure=True)

    labels = [entry.label for entry in figure_legend(scene)]

    assert labels[:3] == ["DMA", "TE", "VE"]
    assert "no op" not in labels


def head_notes(scene: TimelineScene) -> list[str]:
    """Return the shares that headers show, from top to bottom."""
    return [text for text in texts_of(compose_timeline(scene)) if text.endswith(" %")]


def test_headers_show_how_busy_lanes_are_in_view_or_in_the_marked_range() -> None:
    trace = spans_trace([0, 500, 0], [100, 1000, 1000], lane=[0, 0, 1])
    scene = make_scene(trace, state=OPEN)

    whole = head_notes(scene)
    left = head_notes(replace(scene, visible=TimeRange(0, 200)))
    marked = head_notes(replace(scene, marked=MarkedRange(TimeRange(400, 600))))
    beyond = head_notes(replace(scene, visible=TimeRange(-1000, 200)))

    assert whole == ["60.0 %", "100.0 %"]
    assert left == ["50.0 %", "100.0 %"]
    assert marked == ["50.0 %", "100.0 %"]
    assert beyond == left  # nothing is known of the time before the trace


def test_filter_leaves_lanes_of_tokens_and_phases() -> None:
    trace = llama_like_trace()
    scene = make_scene(trace, state=OPEN)
    mask = np.zeros(len(trace.spans), np.bool_)
    mask[: len(mask) // 2] = True

    plain = compose_timeline(scene)
    filtered = compose_timeline(replace(scene, mask=mask, mask_token="m"))

    def lanes_of_run(picture: DisplayList) -> set[tuple[float, ...]]:
        expected = [
            neutral_color(scene.theme),
            *(category_color(f"phase:{phase}", scene.theme) for phase in (0, 1)),
        ]
        result = [filled(picture, color) for color in expected]
        assert all(len(boxes) for boxes in result)
        return {tuple(box) for boxes in result for box in boxes.tolist() if box[1] < 90}

    assert lanes_of_run(filtered) == lanes_of_run(plain)
    labels = [text for text in texts_of(plain) if text.startswith(("#", "prompt"))]
    assert labels
    assert set(labels) <= set(texts_of(filtered))


def test_bookmark_of_a_range_has_edges_and_a_strip_but_no_tint() -> None:
    scene = make_scene(spans_trace([0], [1000]), width=1168, state=OPEN)
    marked = replace(scene, bookmarks=(Note("slow", TimeRange(200, 500)),))

    plain, picture = compose_timeline(scene), compose_timeline(marked)

    caution = scene.theme.caution
    lanes_y = TimelineGeometry(scene).lanes_y
    bar, strip = filled(picture, caution).tolist()
    assert bar == [368.0, lanes_y - 11.5, 371.0, lanes_y - 0.5]
    assert strip == [368.0, lanes_y - 2, 668.0, lanes_y]
    edges = [
        sorted(b.x0.tolist())
        for b in picture.batches
        if isinstance(b, LineBatch) and (b.color == caution).all()
    ]
    assert edges == [[368.0, 668.0]]
    # Nothing else of the lanes changes: no rectangle over them is new.
    below = [
        [b for b in rects(p) if b.y1.max() > lanes_y and b.y0.min() >= lanes_y]
        for p in (plain, picture)
    ]
    assert len(below[0]) == len(below[1])


def test_scale_of_a_low_counter_in_a_figure_stands_beside_its_name() -> None:
    trace = counter_trace(2048.0, 1024.0)
    [lane] = [x for x in make_scene(trace).index.lanes if x.track.id == "counter"]
    state = LaneState(heights=((lane.key, 0.6),))
    scene = make_scene(trace, state=state, is_figure=True, header_width=120)
    box = scene.layout.box_of(lane.key)
    assert box is not None
    assert box.height < 40

    texts = [
        text
        for batch in compose_timeline(scene).batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
    ]

    [name] = [text for text in texts if text.text == "used"]
    [label] = [text for text in texts if text.text == "2.0 KiB"]
    width = scene.measurer.width(label.text, label.face, label.size)
    assert name.x + name.width <= label.x - width
