"""Pictures of experts and buffers that must not change by accident."""

from collections.abc import Callable

import pytest
from PySide6.QtGui import QImage

from buffer_traces import busy_buffers
from expert_traces import random_choices, routed
from ggscope.analysis.buffers import lives, occupancy
from ggscope.analysis.experts.figures import Beside, experts_result
from ggscope.model.units import TimeRange
from ggscope.render.buffers import BuffersScene, compose_buffers
from ggscope.render.experts import ExpertsScene, Measure, compose_experts
from ggscope.render.export import render_image
from ggscope.render.theme import theme
from scenes import without_texts

Check = Callable[[QImage, str], None]


@pytest.mark.parametrize(
    ("theme_name", "beside"),
    [("dark", Beside.OVERLAP), ("light", Beside.TRANSITION), ("print", Beside.COVER)],
)
def test_experts_look_as_before(
    theme_name: str, beside: Beside, check_golden: Check
) -> None:
    trace = routed(random_choices(5, 60, 12, 32, 4), n_experts=32)
    result = experts_result(trace, None, None, None, beside)
    scene = ExpertsScene(
        1000,
        300,
        theme(theme_name),
        result,
        Measure.SHARE,
        selected=((3, 7),),
        hover=(5, 2),
    )

    check_golden(
        render_image(without_texts(compose_experts(scene))), f"experts-{theme_name}"
    )


@pytest.mark.parametrize("theme_name", ["dark", "light", "print"])
def test_buffers_look_as_before(theme_name: str, check_golden: Check) -> None:
    trace = busy_buffers()
    scene = BuffersScene(
        trace, occupancy(trace), lives(trace.buffers),
        TimeRange(-1_000_000, 41_000_000),
        1000, 360, theme(theme_name), selected=frozenset({3}), accessed=frozenset({0}),
        cursor_tick=16_000_000,
    )  # fmt: skip

    check_golden(
        render_image(without_texts(compose_buffers(scene))), f"buffers-{theme_name}"
    )
