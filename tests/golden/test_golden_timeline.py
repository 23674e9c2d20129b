"""Pictures that must not change by accident.

Texts are left out: they depend on the fonts of the machine. What the texts say is
tested with the composer.
"""

from collections.abc import Callable

import pytest
from PySide6.QtGui import QImage

from ggscope.render.export import render_image
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.overview import compose_overview
from scenes import (
    arrow_scene,
    busy_scene,
    chain_scene,
    npu_scene,
    overview_scene,
    without_texts,
)

Check = Callable[[QImage, str], None]


@pytest.mark.parametrize("theme_name", ["dark", "light", "print"])
def test_busy_timeline_looks_as_before(theme_name: str, check_golden: Check) -> None:
    picture = without_texts(compose_timeline(busy_scene(theme_name)))

    check_golden(render_image(picture), f"timeline-{theme_name}")


def test_timeline_at_two_hundred_per_cent_looks_as_before(check_golden: Check) -> None:
    picture = without_texts(compose_timeline(busy_scene("dark", 2.0)))

    check_golden(render_image(picture), "timeline-dark-200")


@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_npu_run_looks_as_before(theme_name: str, check_golden: Check) -> None:
    picture = without_texts(compose_timeline(npu_scene(theme_name)))

    check_golden(render_image(picture), f"npu-{theme_name}")


@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_overview_looks_as_before(theme_name: str, check_golden: Check) -> None:
    picture = without_texts(compose_overview(overview_scene(theme_name)))

    check_golden(render_image(picture), f"overview-{theme_name}")


@pytest.mark.parametrize("theme_name", ["dark", "light", "print"])
def test_arrows_look_as_before(theme_name: str, check_golden: Check) -> None:
    picture = without_texts(compose_timeline(arrow_scene(theme_name)))

    check_golden(render_image(picture), f"arrows-{theme_name}")


@pytest.mark.parametrize("theme_name", ["dark", "light", "print"])
def test_critical_path_looks_as_before(theme_name: str, check_golden: Check) -> None:
    picture = without_texts(compose_timeline(chain_scene(theme_name)))

    check_golden(render_image(picture), f"critical-path-{theme_name}")
