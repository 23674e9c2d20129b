"""A short walk by real keys and mouse through the program as a process of its own."""

import sys

import pytest
from PySide6.QtWidgets import QApplication

from support import ROOT

sys.path.insert(0, str(ROOT / "packaging"))
import walk


def test_program_survives_a_random_walk(
    window_manager: None, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "STEPS_PER_ROUND", 150)

    report = walk.walk("npu", seconds=6, seed=3)

    assert report.steps >= walk.STEPS_PER_ROUND
    assert report.events > report.steps
    assert report.rests or report.quits
    assert report.faults == [], report.text()


def test_walk_tells_what_is_not_flat() -> None:
    report = walk.Report("planted", 1)
    report.rests = [
        walk.Figures(step, 250 << 20, (200 + 20 * step) << 20, 10 + step, 12)
        for step in range(12)
    ]
    report.stderr = ["Traceback (most recent call last):"]

    report.judge()

    told = " ".join(report.faults)
    assert "stderr" in told
    assert "private" in told
    assert "rss" not in told
    assert "threads" in told
    assert "descriptors" not in told
