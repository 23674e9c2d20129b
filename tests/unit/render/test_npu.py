"""Pictures of an NPU: shares as pixels, rows, and what lies at a position."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import spans_trace
from ggscope.analysis.npu.facts import npu_facts
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import ImageBatch, RectBatch, TextBatch
from ggscope.render.colors import ScaleKind
from ggscope.render.export import Figure
from ggscope.render.figures import FIGURES
from ggscope.render.npu.addresses import access_at, address_plots, transfer_at
from ggscope.render.npu.figure import compose_npu
from ggscope.render.npu.over_time import engine_color, stacked
from ggscope.render.npu.scene import CHARTS, NpuGeometry, NpuScene, RowKind
from ggscope.render.npu.stalls_and_bits import bits_at, stall_at
from ggscope.render.theme import theme
from npu_files import access, document, engine, read_text, sample, stall, token

CONFIG = {"memory": {
    "dram_peak_bw_bytes_per_cycle": 64, "spm_banks": 4, "spm_bank_size_bytes": 16384,
}}  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Return a trace with everything that the pictures show."""
    return read_text(tmp_path, json.dumps(document(
        engine(0, 500, engine="DMA", op="LOAD",
               details={"bytes": 2048, "qbits": 4, "spm_bank": 2, "spm_offset": 8192}),
        engine(500, 900, op="GEMM", layer_id="l_1", details={"qbits_weight": 8}),
        engine(905, 906, op="GEMM", layer_id="l_2", details={"qbits_weight": 8}),
        stall(600, 650), stall(0, 5, master="BUS"),
        access(100, addr=4096), access(700, addr=900_000, direction="write"),
        access(200, mem_type="SPM", addr=40_000),
        token(0, 450), token(450, 1000, token_index=1),
        bandwidth_samples=[
            sample(0, window_cycles=500, dram_read_bytes=16000, dram_write_bytes=0),
            sample(600, window_cycles=100, dram_read_bytes=7000, dram_write_bytes=0),
        ],
        config_snapshot=CONFIG,
    )))  # fmt: skip


def scene_of(trace: Trace, chart: str = "time", **values: object) -> NpuScene:
    given_values = {
        "visible": trace.extent, "width": 1132.0, "height": 460.0,
        "theme": theme("dark"), "chart": chart,
    } | values  # fmt: skip
    return NpuScene(trace, npu_facts(trace), **given_values)


SHARE = st.floats(0, 1)


@given(st.lists(st.tuples(SHARE, SHARE), min_size=1, max_size=20), st.integers(3, 40))
def test_columns_have_the_heights_of_their_shares(
    shares: list[tuple[float, float]], height: int
) -> None:
    working = np.array([a for a, _ in shares])
    stalled = np.array([(1 - a) * b for a, b in shares])
    color = 0xFF123456

    pixels = stacked(working, stalled, height, color, theme("dark"))

    work = (pixels == color).sum(axis=0)
    ground = theme("dark").lane
    is_idle = (work == 0) & (stalled == 0)
    held = height - work - (pixels == ground).sum(axis=0)
    held[is_idle] = 0
    assert (abs(work - working * height) <= 1.001).all()
    assert (work[working > 0] >= 1).all(), "whatever occurs has a pixel"
    assert (held[stalled > 0] >= 1).all()
    assert (held[stalled == 0] == 0).all()
    assert ((work == height) <= (working + stalled >= 1)).all()


def test_rows_are_engines_channels_and_banks(trace: Trace) -> None:
    rows = NpuGeometry(scene_of(trace)).rows

    titles = {kind: [r.title for r in rows if r.kind is kind] for kind in RowKind}
    assert titles[RowKind.ENGINE] == ["DMA 0", "TE 0", "BUS 0"]
    assert titles[RowKind.CHANNEL] == ["read", "write", "total"]
    assert titles[RowKind.BANK] == ["bank 0", "bank 1", "bank 2", "bank 3"]


def test_rows_are_named_with_their_busy_or_stalled_share(trace: Trace) -> None:
    texts = [
        text.text
        for batch in compose_npu(scene_of(trace)).batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
    ]

    shares = dict(pairwise(texts))
    assert shares["DMA 0"] == "50.0 %"
    assert shares["TE 0"] == "40.1 %"
    assert shares["BUS 0 stalls"] == "0.5 %"


def row_image(trace: Trace, title: str, **values: object) -> np.ndarray:
    """Return the pixels of a row of the picture over time."""
    scene = scene_of(trace, **values)
    geometry = NpuGeometry(scene)
    number = next(i for i, r in enumerate(geometry.rows) if r.title == title)
    top, bottom = geometry.span_of(number)
    images = [
        batch
        for batch in compose_npu(scene).batches
        if isinstance(batch, ImageBatch)
        and batch.y0[0] >= top - 0.6
        and batch.y1[-1] <= bottom + 0.6
    ]
    assert images
    return images[0].pixels


def test_short_span_has_a_pixel_at_every_zoom(trace: Trace) -> None:
    color = engine_color("TE", theme("dark"))
    for width in (200.0, 1132.0):
        pixels = row_image(trace, "TE 0", width=width)
        column = (pixels == color).any(axis=0)
        x = int(905 / trace.extent.end * pixels.shape[1])
        assert column[max(x - 1, 0) : x + 2].any()


def test_engine_is_drawn_to_the_tick_when_columns_are_finer(trace: Trace) -> None:
    pixels = row_image(trace, "TE 0", visible=TimeRange(898, 908))

    busy = (pixels == engine_color("TE", theme("dark"))).any(axis=0)
    n = len(busy)
    assert busy[: n // 5].all()
    assert not busy[n // 5 + 1 : n * 7 // 10 - 1].any()
    assert busy[n * 7 // 10 + 1 : n * 8 // 10 - 1].all()


def test_window_without_sample_is_no_zero(trace: Trace) -> None:
    pixels = row_image(trace, "read")

    n = pixels.shape[1]
    assert (pixels[0, : n * 48 // 100] != 0).all()
    assert (pixels[0, n * 52 // 100 : n * 58 // 100] == 0).all(), "hatched ground"


def test_rates_have_other_colours_on_a_logarithmic_scale(trace: Trace) -> None:
    linear, log = (
        row_image(trace, "read", scale_kind=kind)
        for kind in (ScaleKind.LINEAR, ScaleKind.LOG)
    )

    assert linear[0, 10] != log[0, 10]


def test_row_at_a_position_is_the_one_drawn_there(trace: Trace) -> None:
    geometry = NpuGeometry(scene_of(trace))

    for number, row in enumerate(geometry.rows):
        top, bottom = geometry.span_of(number)
        result = geometry.row_at(400, (top + bottom) / 2)
        assert result == (-1 if row.kind is RowKind.HEAD else number)
    assert geometry.row_at(400, 3) == -1


def test_scrolled_rows_are_found_where_they_are(trace: Trace) -> None:
    scene = scene_of(trace, height=120.0)
    max_scroll = NpuGeometry(scene).max_scroll
    geometry = NpuGeometry(scene_of(trace, height=120.0, scroll=max_scroll))

    last = len(geometry.rows) - 1
    top, bottom = geometry.span_of(last)
    assert max_scroll > 0
    assert geometry.row_at(400, (top + bottom) / 2) == last
    assert bottom <= 120


def test_bank_2_offset_8192_is_drawn_there(trace: Trace) -> None:
    scene = scene_of(trace, "addresses")
    plot = next(p for p in address_plots(scene) if p.memory == "SPM")
    geometry = NpuGeometry(scene)

    x, y = geometry.time.x(250), float(plot.y(2 * 16384 + 8192 + 1024))

    assert transfer_at(scene, x, y) == int(npu_facts(trace).memory.transfers.span[0])
    assert transfer_at(scene, geometry.time.x(600), y) == -1
    assert abs(plot.address(y) - (2 * 16384 + 9216)) < 200


@pytest.mark.parametrize(("memory", "tick", "address"), [
    ("DRAM", 100, 4096), ("DRAM", 700, 900_000), ("SPM", 200, 40_000),
])  # fmt: skip
def test_access_is_found_where_it_is_drawn(
    trace: Trace, memory: str, tick: int, address: int
) -> None:
    scene = scene_of(trace, "addresses")
    plot = next(p for p in address_plots(scene) if p.memory == memory)
    x, y = NpuGeometry(scene).time.x(tick), float(plot.y(address))

    access = access_at(scene, x, y)

    assert access is not None
    of = scene.facts.memory.spm if memory == "SPM" else scene.facts.memory.dram
    assert (access[0].memory, int(of.address[access[1]])) == (memory, address)
    images = [b for b in compose_npu(scene).batches if isinstance(b, ImageBatch)]
    assert any(image.pixels.any() for image in images)


def test_stalls_are_ranked_and_found(trace: Trace) -> None:
    scene = scene_of(trace, "stalls")

    names = scene.facts.engines.names
    assert [names[s.engine] for s in scene.facts.stalls] == ["TE 0", "BUS 0"]
    assert [stall_at(scene, y) for y in (5, 36, 56, 200)] == [-1, 0, 1, -1]


def test_points_of_bits_are_found(trace: Trace) -> None:
    scene = scene_of(trace, "bits")

    bits = {bits_at(scene, x, y) for x in range(0, 1132, 3) for y in range(0, 460, 3)}

    assert bits == {-1, 0, 1}


@pytest.mark.parametrize("chart", [c for c in CHARTS if c != "traffic"])
def test_every_picture_is_a_figure(trace: Trace, chart: str) -> None:
    figure = FIGURES["npu"].figure(trace, chart=chart, rates="log")

    drawn = figure.draw(figure.style)

    assert drawn.picture.batches
    assert drawn.caption


@pytest.mark.parametrize("chart", ["addresses", "stalls", "bits", "traffic"])
def test_picture_of_what_is_not_recorded_is_refused(tmp_path: Path, chart: str) -> None:
    trace = read_text(tmp_path, json.dumps(document(engine(0, 1))))
    figure = FIGURES["npu"].figure(trace, chart=chart)

    with pytest.raises(NothingToDrawError):
        figure.draw(figure.style)


def test_two_runs_have_a_point_each_per_op(tmp_path: Path) -> None:
    def run_of(bits: int, cycles: int) -> Trace:
        values = document(engine(0, cycles, op="GEMM", details={"qbits_weight": bits}))
        return read_text(tmp_path, json.dumps(values))

    w4, w8 = run_of(4, 100), run_of(8, 190)
    figure = FIGURES["npu"].figure(w4, chart="bits", b=w8)
    alone = FIGURES["npu"].figure(w4, chart="bits")

    def discs(figure: Figure) -> list[float]:
        batches = figure.draw(figure.style).picture.batches
        return [
            float(b.x0[0]) for b in batches if isinstance(b, RectBatch) and b.radius > 4
        ]

    assert len(discs(alone)) == 1
    assert len(set(discs(figure))) == 2


def test_runs_of_other_units_are_not_compared(trace: Trace) -> None:
    with pytest.raises(ExportError):
        FIGURES["npu"].figure(trace, chart="bits", b=spans_trace([0], [1]))


@pytest.mark.parametrize("values", [{"chart": "x"}, {"rates": "x"}])
def test_unknown_options_are_refused(trace: Trace, values: dict[str, str]) -> None:
    with pytest.raises(ExportError):
        FIGURES["npu"].figure(trace, **values)
