"""Pictures of experts: where cells are, what headings say, and figures as files."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import llama_like_trace
from expert_traces import falling_scores, random_choices, routed
from figures import export
from ggscope.analysis.experts.figures import Beside, experts_result
from ggscope.errors import ExportError
from ggscope.model.trace import Trace
from ggscope.render.batch import AreaBatch, ImageBatch
from ggscope.render.experts import (
    ExpertsScene,
    Measure,
    cell_at,
    cell_beside_at,
    compose_experts,
    frames,
    main_values,
)
from ggscope.render.theme import theme
from scenes import texts_of
from statements import new_statement, new_statements


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    """Texts are measured."""


def run() -> Trace:
    chosen = random_choices(3, 40, 6, 16, 2)
    return routed(chosen, score=falling_scores(3, chosen.shape), n_experts=16)


def make(
    beside: Beside = Beside.OVERLAP, layer: int | None = None, **changes: object
) -> ExpertsScene:
    result = experts_result(run(), None, None, layer, beside)
    scene = ExpertsScene(1000, 300, theme("dark"), result)
    return replace(scene, **changes)  # type: ignore[arg-type]


def test_cells_of_both_pictures_are_found_at_their_place() -> None:
    scene = make()
    _, second = frames(scene)
    assert second is not None

    cells = {cell_at(scene, x, y) for x in range(0, 1000, 2) for y in range(0, 300, 4)}
    beside = {
        cell_beside_at(scene, x, y) for x in range(0, 1000, 2) for y in range(0, 300, 4)
    }

    assert cells == {None, *((r, c) for r in range(6) for c in range(16))}
    assert {c for c in beside if c is not None} == {
        (r, c) for r in range(6) for c in range(40)
    }


def test_measures_show_counts_shares_and_bytes() -> None:
    scene = make()
    count = scene.result.grid.count

    np.testing.assert_array_equal(main_values(scene), count)
    share = main_values(replace(scene, measure=Measure.SHARE))
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    assert np.isnan(main_values(replace(scene, measure=Measure.BYTES))).all()


@pytest.mark.parametrize(
    ("beside", "heading", "batch"),
    [
        (Beside.OVERLAP, "Overlap with the previous token", ImageBatch),
        (Beside.TRANSITION, "From token to token, layer 2", ImageBatch),
        (Beside.TOGETHER, "Working together, layer 2", ImageBatch),
        (Beside.SCORES, "Router scores, layer 2", AreaBatch),
        (Beside.COVER, "Share of the hottest slots", AreaBatch),
    ],
)
def test_second_picture_is_what_was_chosen(
    beside: Beside, heading: str, batch: type
) -> None:
    scene = make(beside, 2)

    picture = compose_experts(scene)

    _, second = frames(scene)
    assert second is not None
    assert heading in texts_of(picture)
    if beside is not Beside.TRANSITION:
        follows = "\n".join(texts_of(compose_experts(make(Beside.TRANSITION, 2))))
        assert new_statements(follows, "\n".join(texts_of(picture)))
    lefts = [
        float(np.min(b.x if isinstance(b, AreaBatch) else b.x0))
        for b in picture.batches
        if isinstance(b, AreaBatch | ImageBatch) and isinstance(b, batch)
    ]
    inside = [left for left in lefts if left >= second.x]
    assert inside


def test_narrow_and_low_pictures_leave_the_second_one_out() -> None:
    assert frames(make(width=500))[1] is None
    stacked = frames(make(width=500, height=500))[1]
    assert stacked is not None
    assert stacked.y > 0


def test_cover_says_how_many_slots_reach_the_requested_share() -> None:
    scene = make(Beside.COVER)
    curve = scene.result.curve
    assert curve is not None
    n = int(np.argmax(curve >= 0.9))

    assert f"{n:,} slots" in texts_of(compose_experts(scene))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_figure_is_written(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"experts{suffix}"

    export("experts", run(), target, beside=Beside.SCORES, measure=Measure.SHARE)

    assert target.stat().st_size > 2000


def test_figure_shows_its_numbers_in_words(tmp_path: Path) -> None:
    target = tmp_path / "experts.svg"

    export("experts", run(), target, beside=None)

    description = (
        ET.parse(target).getroot().findtext("{http://www.w3.org/2000/svg}desc")
    )
    assert description is not None
    assert "of 96 (layer, expert) slots" in description
    assert "40 tokens" in description


def test_figure_of_a_trace_without_experts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="experts"):
        export("experts", llama_like_trace(), tmp_path / "experts.png")


def test_bytes_that_only_unnamed_choices_read_lack_no_sizes() -> None:
    """Without a size there are no bytes, without a choice that is known neither."""

    def shown(n_bytes: int) -> str:
        scene = make(measure=Measure.BYTES)
        count = np.zeros_like(scene.result.grid.count)
        more = np.ones_like(scene.result.grid.more)
        grid = replace(scene.result.grid, count=count, bytes=count + n_bytes, more=more)
        result = replace(scene.result, grid=grid)
        return "\n".join(texts_of(compose_experts(replace(scene, result=result))))

    sized, unsized = shown(0), shown(-1)
    assert new_statement(sized, unsized)
    assert new_statement(unsized, sized)
