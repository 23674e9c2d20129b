"""Golden pictures and texts: compare, store what failed, and renew on request."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QImage

FOLDER = Path(__file__).resolve().parent
FAILED = FOLDER / "failed"
CHANNEL_TOLERANCE = 24
"""Largest difference of a channel that counts as equal."""
SHARE_TOLERANCE = 0.002
"""Share of pixels that may differ by more."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-golden",
        action="store_true",
        help="write the golden pictures and texts anew instead of comparing with them",
    )


@pytest.fixture
def renews_golden(request: pytest.FixtureRequest) -> bool:
    """Return whether golden files are to be written anew."""
    return (
        bool(request.config.getoption("--regenerate-golden", default=False))
        or os.environ.get("GGSCOPE_REGENERATE_GOLDEN") == "1"
    )


@pytest.fixture
def check_golden_text(renews_golden: bool) -> Callable[[str, str], None]:
    """Return a function that compares a text with the golden one of a file name."""

    def check(actual: str, name: str) -> None:
        path = FOLDER / name
        if renews_golden:
            path.parent.mkdir(exist_ok=True)
            path.write_text(actual, "utf-8")
            return
        if not path.exists():
            pytest.fail(f"{name} is missing; run with --regenerate-golden")
        assert actual == path.read_text("utf-8")

    return check


def channels(image: QImage) -> np.ndarray:
    """Return uint8[height, width, 4] of an image."""
    plain = image.convertToFormat(QImage.Format.Format_RGB32)
    rows = np.frombuffer(plain.constBits(), np.uint8).reshape(
        plain.height(), plain.bytesPerLine()
    )
    return rows[:, : plain.width() * 4].reshape(plain.height(), -1, 4).copy()


@pytest.fixture
def check_golden(renews_golden: bool, qapp: object) -> Callable[[QImage, str], None]:
    """Return a function that compares an image with the golden one of a name."""

    def check(actual: QImage, name: str) -> None:
        path = FOLDER / f"{name}.png"
        if renews_golden:
            assert actual.save(str(path))
            return
        if not path.exists():
            pytest.fail(f"{path.name} is missing; run with --regenerate-golden")
        expected = QImage(str(path))
        if expected.size() == actual.size():
            away = np.abs(
                channels(expected).astype(int) - channels(actual).astype(int)
            )[:, :, :3].max(axis=2)
            share = float((away > CHANNEL_TOLERANCE).mean())
            if share <= SHARE_TOLERANCE:
                return
            reason = f"{share:.2%} of the pixels differ"
        else:
            away = np.zeros((1, 1))
            reason = f"size {actual.size()} instead of {expected.size()}"
        FAILED.mkdir(exist_ok=True)
        actual.save(str(FAILED / f"{name}-actual.png"))
        shown = np.ascontiguousarray(np.clip(away * 4, 0, 255).astype(np.uint8))
        QImage(
            shown.data,
            shown.shape[1],
            shown.shape[0],
            shown.shape[1],
            QImage.Format.Format_Grayscale8,
        ).save(str(FAILED / f"{name}-diff.png"))
        pytest.fail(f"{name}: {reason}; see {FAILED}")

    return check
