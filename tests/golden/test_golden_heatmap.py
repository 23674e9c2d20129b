"""The file heatmap of a small mixture of experts, without texts."""

from collections.abc import Callable

import numpy as np
import pytest
from PySide6.QtGui import QImage

from ggscope.analysis.heat.heatmap import heat_base
from ggscope.analysis.heat.rows import HeatAxis
from ggscope.render.export import render_image
from ggscope.render.heatmap.compose import compose_heatmap
from ggscope.render.heatmap.figure import heat_scene
from ggscope.render.heatmap.scene import HeatMark
from heat_traces import moe_trace
from scenes import without_texts

pytestmark = pytest.mark.usefixtures("qapp")


@pytest.mark.parametrize("axis", ["offset", "equal"])
@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_heatmap_looks_as_before(
    theme_name: str, axis: str, check_golden: Callable[[QImage, str], None]
) -> None:
    trace = moe_trace(tokens=16, layers=4)
    base = heat_base(trace, "token")
    scene = heat_scene(
        trace, base, HeatAxis(base.files, axis),  # type: ignore[arg-type]  # a kind
        (900, 400), theme_name, selected=np.array([2]),
        linked=np.array([[1_300_000, 1_700_000]], np.int64),
        mark=HeatMark(2_000_000, 2_400_000, 3, 7), hover=(400_000, 5),
    )  # fmt: skip

    picture = without_texts(compose_heatmap(scene))

    check_golden(render_image(picture), f"heatmap-{axis}-{theme_name}")
